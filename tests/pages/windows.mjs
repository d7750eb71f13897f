// SPDX-License-Identifier: Apache-2.0
// Windows of a browser, and what is looked for in each of them.
import { mkdirSync } from "node:fs";
import { createRequire } from "node:module";
import { join } from "node:path";

const { chromium } = createRequire(join(process.argv[2], "package.json"))("playwright-core");
const pictures = join(process.env.BUILD, "tests", "pages");

/** `step`: what is being done; `complaints`: what the browser has said against it. */
export const state = { browser: null, step: "", complaints: [] };

/** Start the browser. */
export async function begin() {
    mkdirSync(pictures, { recursive: true });
    state.browser = await chromium.launch({
        executablePath: "/usr/bin/chromium",
        args: ["--no-sandbox", "--disable-gpu"],
    });
}

/** A window in which everything that the browser complains of is kept, with what was being done: page.step, if it is set. */
export async function open(size, scheme = "light", more = {}) {
    const context = await state.browser.newContext({
        viewport: size,
        colorScheme: scheme,
        reducedMotion: "reduce",
        locale: "en-GB",
        ...more,
    });
    const page = await context.newPage();
    page.setDefaultTimeout(15000);
    page.on("pageerror", (error) => state.complaints.push(`${page.step ?? state.step}: ${error.stack}`));
    page.on("console", (message) => {
        if (["error", "warning"].includes(message.type()) && !page.allowed?.test(message.text()))
            state.complaints.push(`${page.step ?? state.step}: ${message.text()} (${message.location().url})`);
    });
    return page;
}

export async function close(page) {
    await page.context().close();
}

/** A photograph, BUILD/tests/pages/NAME.png. */
export async function picture(page, name, whole = false) {
    await page.mouse.move(0, 0);
    await page.screenshot({ path: join(pictures, `${name}.png`), fullPage: whole });
}

export const wide = { width: 1280, height: 860 };
export const narrow = { width: 390, height: 844 };

/** Sign in with a token, to be at the list of runs. */
export async function signIn(page, address, token) {
    page.allowed = /401/;
    await page.goto(`${address}/`);
    await page.waitForURL(/sign-in/);
    await page.getByLabel("Token").fill(token);
    await page.getByRole("button", { name: "Sign in" }).click();
    await page.waitForURL((url) => url.pathname === "/");
    page.allowed = null;
}

/** In the page: what reaches beyond its width, controls without a name, text too pale to be read (WCAG: 4.5). */
export function lookAround() {
    const nameless = [...document.querySelectorAll("button, a[href], input, select, textarea")]
        .filter(
            (element) =>
                !(
                    element.getAttribute("aria-label") ||
                    element.textContent.trim() ||
                    element.labels?.length ||
                    element.title
                ),
        )
        .map((element) => element.outerHTML);
    const pen = document.createElement("canvas").getContext("2d", { willReadFrequently: true });
    const light = (colour) => {
        pen.clearRect(0, 0, 1, 1);
        pen.fillStyle = colour;
        pen.fillRect(0, 0, 1, 1);
        const [red, green, blue] = [...pen.getImageData(0, 0, 1, 1).data]
            .map((part) => part / 255)
            .map((part) => (part <= 0.04045 ? part / 12.92 : ((part + 0.055) / 1.055) ** 2.4));
        return 0.2126 * red + 0.7152 * green + 0.0722 * blue;
    };
    const style = getComputedStyle(document.documentElement);
    const ratio = (one, other) => {
        const [first, second] = [one, other]
            .map((name) => light(style.getPropertyValue(name).trim()))
            .sort((a, b) => b - a);
        return (first + 0.05) / (second + 0.05);
    };
    const pale = ["--text", "--soft", "--failed", "--danger", "--accent"]
        .flatMap((ink) => ["--ground", "--surface"].map((paper) => [ink, paper, ratio(ink, paper)]))
        .filter(([, , value]) => value < 4.5)
        .map(([ink, paper, value]) => `${ink} on ${paper}: ${value.toFixed(2)}`);
    return { beyond: Math.max(0, document.documentElement.scrollWidth - innerWidth), nameless, pale };
}

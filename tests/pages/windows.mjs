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
    context.setDefaultTimeout(120000); // on a machine with other work
    const page = await context.newPage();
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

/** In the page: forget how curves were last looked at, but stay signed in. */
export function forgetChoices() {
    for (const name of Object.keys(localStorage)) if (name !== "weft-session") localStorage.removeItem(name);
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
    /* The luminance of colors laid one over the other. */
    const light = (colors) => {
        pen.clearRect(0, 0, 1, 1);
        for (const color of colors) {
            pen.fillStyle = color;
            pen.fillRect(0, 0, 1, 1);
        }
        const [red, green, blue] = [...pen.getImageData(0, 0, 1, 1).data]
            .map((part) => part / 255)
            .map((part) => (part <= 0.04045 ? part / 12.92 : ((part + 0.055) / 1.055) ** 2.4));
        return 0.2126 * red + 0.7152 * green + 0.0722 * blue;
    };
    const ratios = new Map();
    const ratio = (ink, papers) => {
        const key = [ink, ...papers].join();
        if (!ratios.has(key)) {
            const [first, second] = [light([...papers, ink]), light(papers)].sort((a, b) => b - a);
            ratios.set(key, (first + 0.05) / (second + 0.05));
        }
        return ratios.get(key);
    };
    const papersOf = new Map();
    const papers = (element) => {
        if (!papersOf.has(element)) {
            const own = getComputedStyle(element).backgroundColor;
            const below = element.parentElement ? papers(element.parentElement) : ["Canvas"];
            papersOf.set(element, own === "rgba(0, 0, 0, 0)" ? below : [...below, own]);
        }
        return papersOf.get(element);
    };
    const hasText = (element) => [...element.childNodes].some((node) => node.nodeType === 3 && node.data.trim());
    const pale = new Set();
    for (const element of document.querySelectorAll("body *")) {
        if (!hasText(element) || element.matches("option, :disabled, noscript, script, style")) continue;
        if (!element.checkVisibility({ opacityProperty: true, visibilityProperty: true })) continue;
        const value = ratio(getComputedStyle(element).color, papers(element));
        const inherited = [];
        for (let above = element; above; above = above.parentElement)
            if (getComputedStyle(above).opacity !== "1") inherited.push(getComputedStyle(above).opacity);
        if (value < 4.5 || inherited.length)
            pale.add(`${element.outerHTML.slice(0, 90)}: ${value.toFixed(2)} ${inherited.map((part) => `at ${part}`)}`);
    }
    const style = getComputedStyle(document.documentElement);
    for (const ink of ["--text", "--soft", "--failed", "--danger", "--accent"])
        for (const paper of ["--ground", "--surface"]) {
            const value = ratio(style.getPropertyValue(ink).trim(), [style.getPropertyValue(paper).trim()]);
            if (value < 4.5) pale.add(`${ink} on ${paper}: ${value.toFixed(2)}`);
        }
    const badges = ["waiting", "beginning", "running", "stopping", "preempted", "succeeded", "failed", "cancelled"];
    for (const tone of badges) {
        const badge = document.createElement("span");
        badge.className = `state large tone-${tone}`;
        document.querySelector("main").append(badge);
        const value = ratio(getComputedStyle(badge).color, papers(badge));
        if (value < 4.5) pale.add(`badge ${tone}: ${value.toFixed(2)}`);
        badge.remove();
    }
    return { beyond: Math.max(0, document.documentElement.scrollWidth - innerWidth), nameless, pale: [...pale] };
}

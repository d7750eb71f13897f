// SPDX-License-Identifier: Apache-2.0
// The page of one run: what it prints as it comes, with and without a server, and what its parts say.
import assert from "node:assert/strict";
import { pause } from "./platform.mjs";
import { narrow, wide } from "./windows.mjs";

const printing = ["sh", "-c", "n=0; while true; do n=$((n+1)); echo line $n; sleep 0.1; done"];

/* The numbers of the lines that are shown. */
async function numbers(page) {
    const texts = await page.locator(".log-line .text").allTextContents();
    return texts.filter((text) => text.startsWith("line ")).map((text) => Number(text.slice(5)));
}

const hasMore = (page, than) =>
    page.waitForFunction(
        (least) => Number(document.querySelector(".log-line:last-child .text")?.textContent.slice(5)) > least,
        than,
    );

function assertWhole(found) {
    found.forEach((number, index) => assert.equal(number, found[0] + index, "no line is left out, none comes twice"));
}

/** Lines come by themselves, as long as somebody looks; whoever reads older ones is not disturbed. */
export async function liveLogs(page, platform) {
    const run = await platform.submit("speech", { name: "prints", command: printing });
    await platform.wait(run, "running");
    await page.goto(`${platform.address}/run.html?run=${run}#logs`);
    await page.locator(".log-line").first().waitFor();
    const before = (await numbers(page)).at(-1);
    await hasMore(page, before + 5);
    await page.getByText("Following.").waitFor();

    const button = page.getByRole("button", { name: "Pause" });
    await button.focus();
    await page.keyboard.press("Enter");
    await page.getByText("Paused.").waitFor();
    assert.equal(await page.evaluate(() => document.activeElement.textContent), "Follow", "the focus stays");
    const paused = (await numbers(page)).at(-1);
    await pause(600);
    assert.equal((await numbers(page)).at(-1), paused);
    await page.keyboard.press("Enter");
    await hasMore(page, paused + 8);
    assertWhole(await numbers(page));

    // A search while the server is away is made when it is there again.
    page.allowed = /net::ERR/;
    await page.route(/\/logs\?/, (route) => route.abort());
    await page.getByLabel("Search the output").fill("line 1");
    await page.getByText("The server does not answer.").waitFor();
    await page.unroute(/\/logs\?/);
    await page.locator(".log-line mark").first().waitFor();
    await page.getByText("Following.").waitFor();
    assert.ok((await numbers(page)).every((number) => String(number).startsWith("1")));
    await page.getByLabel("Search the output").fill("");
    await page.waitForFunction(() => !document.querySelector(".log-line mark"));
    await hasMore(page, paused + 8);
    page.allowed = null;

    // Another part of the page, and back.
    await page.getByRole("tab", { name: "Nodes" }).click();
    const left = (await numbers(page)).at(-1) ?? paused;
    await pause(500);
    await page.getByRole("tab", { name: "Logs" }).click();
    await hasMore(page, left + 3);
    assertWhole(await numbers(page));

    await platform.ask("POST", `/runs/${run}/stop`);
    await page.getByText("The run has ended.").waitFor();
    assertWhole(await numbers(page));
    assert.equal(await page.getByRole("button", { name: "Pause" }).count(), 0);
}

const failing = ["python3", "-c", "print('begins', flush=True)\nraise ValueError('the loss is NaN at step 12')"];
const long = "a run with a very long name that says all there is to say about what it tries";

/** A run that failed says why at once, and where all of its output is. */
export async function failedRun(page, platform) {
    const run = await platform.submit("speech", { name: long, command: failing });
    await platform.wait(run, "failed");
    await page.setViewportSize({ width: 1440, height: 900 });
    await page.goto(`${platform.address}/run.html?run=${run}`);
    await page.locator(".last-words", { hasText: "ValueError: the loss is NaN at step 12" }).waitFor();
    await page.locator(".log-line", { hasText: "begins" }).waitFor();
    assert.equal(await page.getByRole("tab", { name: "Logs" }).getAttribute("aria-selected"), "true");
    await page.waitForFunction(() => {
        const { bottom } = document.querySelector(".log-tail").getBoundingClientRect();
        return bottom <= innerHeight && bottom > innerHeight - 60;
    });
    await page.setViewportSize(narrow);
    await page.goto(`${platform.address}/run.html?run=${run}#settings`);
    await page.reload();
    await page.getByRole("heading", { name: "Command" }).waitFor();
    const beyond = (selector) =>
        page.locator(selector).evaluate((element) => element.getBoundingClientRect().right - innerWidth);
    assert.equal(await page.locator("h1 .of").textContent(), String(run));
    assert.ok((await beyond("h1 .of")) <= 0, "the number of the run is seen, however long its name is");
    assert.ok((await beyond("[aria-selected=true]")) <= 0, "and so is the tab that is open");
    await page.setViewportSize(wide);
}

/** Who has cancelled it, and how long it had waited. */
export async function cancelledRun(page, platform, known) {
    const run = await platform.submit("vision", { command: ["true"], nodes: 4, slots: 4 });
    await platform.ask("POST", `/runs/${run}/stop`, undefined, known.tokens.anna);
    await platform.wait(run, "cancelled");
    await page.goto(`${platform.address}/run.html?run=${run}`);
    await page.locator(".notice", { hasText: "Cancelled by anna before it began." }).waitFor();
    assert.match(await page.locator(".facts div", { hasText: "Waited" }).locator("dd").textContent(), /^\d/);
}

/** No run of this number: a sentence, and a way back. */
export async function noRun(page, platform) {
    page.allowed = /404/;
    await page.goto(`${platform.address}/run.html?run=99999`);
    await page.getByRole("heading", { name: "Run 99999 is not here" }).waitFor();
    assert.ok(!/api|root/.test(await page.getByRole("alert").textContent()), "in words for people");
    await page.getByRole("link", { name: "All runs" }).click();
    await page.waitForURL((url) => url.pathname === "/");
    page.allowed = null;
}

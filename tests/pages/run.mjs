// SPDX-License-Identifier: Apache-2.0
// The page of one run: what it prints as it comes, with and without a server, and what its parts say.
import assert from "node:assert/strict";
import { pause } from "./platform.mjs";

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

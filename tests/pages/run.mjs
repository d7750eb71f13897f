// SPDX-License-Identifier: Apache-2.0
// The page of one run: what it prints as it comes, with and without a server, and what its parts say.
import assert from "node:assert/strict";
import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { pause } from "./platform.mjs";
import { forgetChoices, narrow, picture, wide } from "./windows.mjs";

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
    found.forEach((number, index) => assert.equal(number, found[0] + index, `no line is left out, none comes twice: ${found}`));
}

/** Lines come by themselves, as long as the page is visible; a reader of older ones is not disturbed. */
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

    // Four windows; a browser makes at most six connections.
    const others = await Promise.all([1, 2, 3].map(() => page.context().newPage()));
    for (const other of others) await other.goto(`${platform.address}/run.html?run=${run}#logs`);
    for (const window of [page, ...others]) {
        const shown = (await numbers(window)).at(-1) ?? 0;
        await hasMore(window, shown + 5);
        assertWhole(await numbers(window));
    }
    for (const other of others) await other.close();

    // Another part of the page, and back. While the lines since then are being fetched, other things happen to the page.
    await page.getByRole("tab", { name: "Nodes" }).click();
    const left = (await numbers(page)).at(-1) ?? paused;
    await pause(500);
    let answer;
    const answered = new Promise((resolve) => (answer = resolve));
    await page.route(/\/logs\?(?!.*follow)/, async (route) => {
        const response = await route.fetch();
        await answered;
        await route.fulfill({ response });
    });
    const asked = page.waitForRequest(/\/logs\?(?!.*follow)/);
    await page.getByRole("tab", { name: "Logs" }).click();
    await asked;
    await page.evaluate(() => document.dispatchEvent(new Event("visibilitychange")));
    await pause(500);
    answer();
    await hasMore(page, left + 8);
    await page.unroute(/\/logs\?(?!.*follow)/);
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

/** How far a run is: in the list and on its page, where it goes on by itself. */
export async function progressOfRun(page, platform) {
    const says = (done, left) => `echo '{"progress": ${done}, "of": 800, "seconds_left": ${left}}'`;
    const on = join(platform.programs, "on");
    const command = ["sh", "-c", `${says(300, 225)}; while [ ! -e ${on} ]; do sleep 0.1; done; ${says(600, 60)}; sleep 600`];
    const run = await platform.submit("speech", { name: "says how far it is", command });
    await page.goto(platform.address);
    await page.locator(".c-name", { hasText: "says how far it is" }).getByText(/3 m \d\d s left/).waitFor();
    await page.locator(`.c-name [role=progressbar][aria-valuenow="37"][aria-label$=" ${run}"]`).waitFor();
    await picture(page, "progress-list");
    await page.setViewportSize(narrow);
    await page.locator(".c-more", { hasText: "37 %" }).waitFor();
    assert.ok((await page.evaluate(() => document.documentElement.scrollWidth - innerWidth)) <= 0, "it fits");
    await picture(page, "progress-narrow");
    await page.setViewportSize(wide);
    await page.goto(`${platform.address}/run.html?run=${run}`);
    await page.locator(".progress", { hasText: "37 %" }).waitFor();
    await page.waitForFunction(() => {
        const track = document.querySelector(".progress .track"); // each report makes another one
        const width = (element) => element.getBoundingClientRect().width;
        return track && Math.abs(width(track.firstChild) / width(track) - 0.37) < 0.01;
    });
    await picture(page, "progress");
    writeFileSync(on, "");
    await page.locator(".progress", { hasText: "75 %" }).waitFor();
    await platform.ask("POST", `/runs/${run}/stop`);
    await platform.wait(run, "cancelled");
    await page.locator(".progress", { hasText: "75 %" }).waitFor();
    assert.equal(await page.locator(".progress", { hasText: "left" }).count(), 0, "it takes no more time");
}

/** Before a run that has failed is tried again, one reads how long that takes: it gets shorter while one looks. */
export async function pausingRun(page, platform) {
    const run = await platform.submit("speech", { command: ["sh", "-c", "exit 3"], retries: 5 });
    const told = async () => (await platform.get(`/runs/${run}/why`)).why;
    await page.goto(`${platform.address}/run.html?run=${run}`);
    const notice = page.locator(".notice", { hasText: "times, last: its program ended with exit code 3" });
    const waits = /waits (\d+) s before it is tried again/i;
    const seconds = async () => Number(waits.exec(await notice.textContent())?.[1]);
    await notice.filter({ hasText: /because it has failed [4-6] times/ }).filter({ hasText: waits }).waitFor({ timeout: 60000 });
    assert.match(await told(), waits);
    assert.match(await notice.locator(".expected").textContent(), /Expected to start/);
    let left = await seconds();
    for (let before = left; !(left < before); left = await seconds()) {
        before = left;
        await pause(100);
    }
    await platform.ask("POST", `/runs/${run}/stop`);
    await platform.wait(run, "cancelled");
}

/** A fork has what its dialog says, and for the rest what its parent has. */
export async function forkDiffers(page, platform) {
    const before = {
        name: "before",
        command: ["sh", "-c", "echo one\necho two"],
        environment: { EMPTY: "", LINES: "a b\nc" },
        time_limit: "36h",
        slots: 2,
        retries: 1,
    };
    const run = await platform.submit("speech", before);
    await platform.wait(run, "succeeded");
    const dialog = page.getByRole("dialog");
    const fork = async (change) => {
        await page.goto(`${platform.address}/run.html?run=${run}`);
        await page.getByRole("button", { name: "Fork …" }).click();
        await change();
        const sent = page.waitForRequest(/\/fork$/);
        await dialog.getByRole("button", { name: "Submit" }).click();
        await page.waitForURL((url) => Number(url.searchParams.get("run")) > run);
        const made = Number(new URL(page.url()).searchParams.get("run"));
        return { sent: (await sent).postDataJSON(), made: (await platform.get(`/runs/${made}`)).specification };
    };
    assert.deepEqual((await fork(() => {})).sent, {}, "nothing is changed that nobody has changed");

    const { sent, made } = await fork(async () => {
        assert.equal(await dialog.getByLabel("Environment").inputValue(), "EMPTY=''\nLINES='a b\nc'");
        await dialog.getByLabel("Nodes").fill("2");
        await dialog.getByLabel("CPU slots on each").fill("1");
        await dialog.getByLabel("Time limit").fill("90");
        await dialog.getByLabel("Class").fill("night");
        await dialog.getByLabel("Environment").fill("SEED=7 two");
        await dialog.getByRole("button", { name: "Submit" }).click();
        await dialog.getByRole("alert").getByText("“two” is no NAME=VALUE.").waitFor();
        await dialog.getByLabel("Environment").fill("SEED=7\nWORDS='two words'");
        page.allowed = /400/;
        await dialog.getByRole("button", { name: "Submit" }).click();
        await dialog.getByRole("alert").getByText("'time_limit' in the run is not a duration").waitFor();
        page.allowed = null;
        await dialog.getByLabel("Time limit").fill("90m");
    });
    const environment = { SEED: "7", WORDS: "two words" };
    assert.deepEqual(sent, { nodes: 2, slots: 1, time_limit: "90m", class: "night", environment });
    const { name, command, nodes, slots, time_limit, class: class_name, retries } = made;
    assert.deepEqual([name, command, retries], [before.name, before.command, before.retries]);
    assert.deepEqual([nodes, slots, time_limit, class_name, made.environment], [2, 1, "1h30m", "night", environment]);
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

/** No run of this number: a message, and a way back. */
export async function noRun(page, platform) {
    page.allowed = /404/;
    await page.goto(`${platform.address}/run.html?run=99999`);
    await page.getByRole("heading", { name: "Run 99999 is not here" }).waitFor();
    assert.ok(!/api|root/.test(await page.getByRole("alert").textContent()), "in words for people");
    await page.getByRole("link", { name: "All runs" }).click();
    await page.waitForURL((url) => url.pathname === "/");
    // One that is there, once the server is.
    page.allowed = /net::ERR/;
    const run = await platform.submit("speech", { command: ["true"] });
    await page.route(new RegExp(`/runs/${run}$`), (route) => route.abort());
    await page.goto(`${platform.address}/run.html?run=${run}`);
    await page.getByText("The server does not answer.").waitFor();
    await page.unroute(new RegExp(`/runs/${run}$`));
    await page.getByRole("heading", { name: `Run ${run}` }).waitFor();
    page.allowed = null;
}

const reporting = [
    "python3",
    "-c",
    `import json, time
for step in range(200):
    print(json.dumps({"step": step, "train/loss": 1.4 + 0.1 * (step % 7) / 7, "zero": 0, "below": -1 - step, "mixed": step - 100}))
print(json.dumps({"step": 3, "once": 0.7}), flush=True)
time.sleep(600)`,
];

/* The marks of an axis, from the plot that has drawn it. */
function marksOf(page, name, axis) {
    return page.evaluate(
        ([metric, index]) => window.plots.findLast(({ root }) => root.isConnected && root.closest(`[data-metric='${metric}']`)).axes[index]._values,
        [name, axis],
    );
}

/** What curves say of values that a line or a scale has no place for, of ranks, and of a server that is away. */
export async function curvesSay(page, platform, known) {
    await page.addInitScript(() => {
        window.plots = [];
        addEventListener("DOMContentLoaded", () => {
            const made = window.uPlot;
            if (!made) return;
            window.uPlot = new Proxy(made, {
                construct(target, values) {
                    window.plots.push(new target(...values));
                    return window.plots.at(-1);
                },
            });
        });
    });
    const run = await platform.submit("speech", { name: "reports", command: reporting });
    await platform.wait(run, "running");
    await page.evaluate(forgetChoices);
    await page.goto(`${platform.address}/run.html?run=${run}`);
    const curve = (name) => page.locator(`[data-metric='${name}']`);
    const drawn = (name) => curve(name).locator("canvas").waitFor();
    await curve("once").getByText("One sample").waitFor();
    await drawn("zero");
    assert.ok(!(await marksOf(page, "zero", 1)).includes("100"), "the axis of zeros is not invented");

    await page.getByRole("button", { name: "Log", exact: true }).click();
    await curve("below").getByText("No value is above 0").waitFor();
    await curve("mixed").getByText("101 of 200 points are not above 0").waitFor();
    const marks = (await marksOf(page, "train/loss", 1)).map(Number);
    assert.ok(marks.length >= 2 && marks.every((mark) => mark > 1.3 && mark < 1.6), `no whole decades: ${marks}`);
    assert.equal(await curve("system/machine/cpu/waiting").getByText("No value is above 0").count(), 0);

    await page.getByRole("button", { name: "Time", exact: true }).click();
    await page.waitForResponse((response) => /curve\?.*axis=times/.test(response.url()));
    await drawn("train/loss");
    await pause(300);
    const times = await marksOf(page, "train/loss", 0);
    assert.equal(new Set(times).size, times.length, `no mark is there twice: ${times}`);
    await page.reload();
    await drawn("train/loss");
    for (const name of ["Time", "Log"])
        assert.equal(await page.getByRole("button", { name, exact: true }).getAttribute("aria-pressed"), "true");
    await page.getByRole("button", { name: "Linear", exact: true }).click();
    await page.getByRole("button", { name: "Steps", exact: true }).click();

    // The drawing stays while the server does not answer.
    await drawn("train/loss");
    await pause(300);
    page.allowed = /net::ERR/;
    await page.route(/metrics\/curve/, (route) => route.abort());
    await page.getByRole("button", { name: "Time", exact: true }).click();
    await curve("train/loss").getByText(/^as of \d/).waitFor();
    assert.equal(await curve("train/loss").locator("canvas").count(), 1);
    await page.unroute(/metrics\/curve/);
    await curve("train/loss").getByText(/^as of \d/).waitFor({ state: "hidden" });
    page.allowed = null;
    await page.getByRole("button", { name: "Steps", exact: true }).click();
    await platform.ask("POST", `/runs/${run}/stop`);

    // A rank is hidden by the keyboard; the values of all others are shown, wherever the pointer is.
    await page.goto(`${platform.address}/run.html?run=${known.training}`);
    const loss = curve("train/loss");
    await loss.getByRole("button", { name: /Every rank/ }).click();
    const rank = loss.getByRole("button", { name: /rank 2/ });
    await rank.focus();
    await page.keyboard.press("Enter");
    assert.equal(await rank.getAttribute("aria-pressed"), "false");
    assert.ok(await rank.evaluate((button) => button === document.activeElement), "the focus stays");
    const over = await loss.locator(".u-over").boundingBox();
    await page.mouse.move(over.x + over.width * 0.9, over.y + 4);
    await page.waitForFunction(() => {
        const texts = [...document.querySelectorAll("[data-metric='train/loss'] .ranks b")].map((value) => value.textContent);
        return texts.length === 8 && texts.every((text) => /^1\.\d/.test(text));
    });
}

/** In a narrow window all of its nodes and checkpoints can be read, and each has its outcome once. */
export async function narrowParts(page, platform, known) {
    const cells = async (tab, most) => {
        await page.setViewportSize({ ...wide, width: most });
        await page.goto(`${platform.address}/run.html?run=${known.training}#${tab}`);
        await page.reload();
        await page.locator(".stacks td").first().waitFor();
        return page.locator(".stacks td:not(:empty)").evaluateAll((found) =>
            found.map((cell) => ({
                title: cell.dataset.title,
                text: cell.textContent,
                hidden: Math.max(cell.scrollWidth - cell.clientWidth, cell.getBoundingClientRect().right - innerWidth, 0),
            })),
        );
    };
    for (const tab of ["nodes", "checkpoints"])
        for (const cell of await cells(tab, narrow.width)) assert.equal(cell.hidden, 0, `${tab}: ${cell.text}`);
    const nodes = await cells("nodes", wide.width);
    assert.deepEqual(nodes.filter(({ title }) => title === "Ended").map(({ text }) => text), ["–", "–"]);
    assert.deepEqual(nodes.filter(({ title }) => title === "How").map(({ text }) => text), ["running", "running"]);
    await page.setViewportSize(wide);
    await page.goto(`${platform.address}/run.html?run=${known.failed}#nodes`);
    await page.locator(".wrong-text", { hasText: "exit code 3" }).waitFor();
    const card = await page.locator("section.card", { hasText: "Attempt 1" }).textContent();
    assert.equal(card.match(/exit code 3/g).length, 2, `of the attempt, and of the node: ${card}`);
    assert.doesNotMatch(card, /program-failed/);
}

/** The whole log as a file, of all attempts and ranks, as far as the filter lets it through. */
export async function savedLog(page, platform) {
    const many = ["python3", "-c", "for i in range(12345): print('line', i)"];
    const run = await platform.submit("speech", { name: "prints much", command: many });
    await platform.wait(run, "succeeded");
    await page.goto(`${platform.address}/run.html?run=${run}#logs`);
    await page.getByText("older ones above").waitFor();
    const save = async () => {
        const begun = page.waitForEvent("download");
        await page.getByRole("button", { name: "Download" }).click();
        const download = await begun;
        assert.equal(download.suggestedFilename(), `run-${run}.log`);
        return readFileSync(await download.path(), "utf8").trimEnd().split("\n");
    };
    const found = await save();
    assert.equal(found.length, 12345);
    found.forEach((line, number) => assert.match(line, new RegExp(`^\\d{4}-.*Z \\[node 0\\] line ${number}$`)));
    await page.getByLabel("Search the output").fill("line 1234");
    await page.locator(".log-line mark").first().waitFor();
    assert.equal((await save()).length, 1 + 5);
}

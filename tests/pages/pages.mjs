// SPDX-License-Identifier: Apache-2.0
// Everything that the pages do, done in a browser with a real server. BUILD/tests/pages has the photographs afterwards.
import assert from "node:assert/strict";
import { writeFileSync } from "node:fs";
import { createServer } from "node:http";
import { join } from "node:path";
import { manyMetrics, marksAreWhole, numbersOfCurves } from "./curves.mjs";
import * as lists from "./lists.mjs";
import { Platform, furnish, pause } from "./platform.mjs";
import { portsOfRuns } from "./ports.mjs";
import { cancelledRun, curvesSay, failedRun, forkDiffers, liveLogs, narrowParts, noRun, pausingRun, progressOfRun, savedLog } from "./run.mjs";
import { begin, close, lookAround, narrow, open, picture, signIn, state, wide } from "./windows.mjs";

/* ---- what a newcomer sees ---------------------------------------------------------------------------------------- */

async function newcomer() {
    const platform = await Platform.start("--pods", "1x2x4");
    try {
        const page = await open(wide);
        await page.goto(platform.address);
        await page.getByText("No runs yet").waitFor();
        await page.getByText("weft submit --project").waitFor();
        await page.locator(".beat.open").waitFor();
        await picture(page, "empty");
        // A run appears by itself, and ends before one's eyes.
        const run = await platform.submit("default", { name: "first", command: ["sh", "-c", "echo hello"] });
        await page.locator("tbody tr", { hasText: "first" }).getByText("succeeded").waitFor();
        assert.equal(await page.getByText("No runs yet").count(), 0);
        await page.goto(`${platform.address}/run.html?run=${run}#logs`);
        await page.locator(".log-line", { hasText: "hello" }).waitFor();
        await page.goto(`${platform.address}/cluster.html`);
        await page.locator(".pod").waitFor();
        await page.getByText("Nothing waits").waitFor();
        await page.goto(`${platform.address}/run.html?run=999`);
        page.allowed = /404/;
        await page.getByRole("alert").waitFor();
        assert.match(await page.getByRole("alert").textContent(), /999/);
    } finally {
        await Promise.all(state.browser.contexts().map((context) => context.close())); // or they see the server go
        await platform.stop();
    }
}

async function pausedScheduling() {
    const platform = await Platform.start("--pods", "1x2x4", "--unclean-exits", "1");
    try {
        await platform.crash();
        const page = await open(wide);
        await page.goto(platform.address);
        const banner = page.getByRole("alert").filter({ hasText: "scheduling is paused" });
        await banner.waitFor();
        await page.locator(".beat.open").waitFor();
        await picture(page, "paused");
        await platform.ask("POST", "/queue/resume");
        await banner.waitFor({ state: "hidden" });
    } finally {
        await Promise.all(state.browser.contexts().map((context) => context.close()));
        await platform.stop();
    }
}

/** What a run and its project take on disk; a disk on which less is free than the policy keeps counts as full. */
async function diskSpace() {
    const platform = await Platform.start("--pods", "1x2x4");
    try {
        const run = await platform.submit("default", { command: ["head", "-c", "3145728", "/dev/zero"], disk: 67108864 });
        await platform.wait(run, "succeeded");
        // The first measurement may be of before the output was written; the last one follows the end of the run.
        while (!((await platform.get(`/runs/${run}`)).disk_bytes >= 1048576)) await pause(50);
        let page = await open(wide);
        await page.goto(`${platform.address}/run.html?run=${run}#settings`);
        await page.getByText(/^[0-9.]+ MiB of 64.0 MiB on disk$/).waitFor();
        await page.goto(`${platform.address}/project.html?project=default`);
        await page.locator(".head", { hasText: / MiB on disk/ }).waitFor();
        assert.equal(await page.getByRole("alert").filter({ hasText: "disk is full" }).isVisible(), false);
        await close(page);
        const policy = join(platform.directory, "policy.yaml");
        writeFileSync(policy, "disk: {reserve: 1000T}\n");
        platform.options.push("--policy", policy);
        await platform.crash();
        page = await open(wide);
        await page.goto(platform.address);
        await page.getByRole("alert").filter({ hasText: "The disk is full" }).waitFor();
        await page.locator(".beat.open").waitFor();
        await picture(page, "full-disk");
    } finally {
        await Promise.all(state.browser.contexts().map((context) => context.close()));
        await platform.stop();
    }
}

/* ---- with tokens, projects and runs ------------------------------------------------------------------------------ */

/* No script reads the session's cookie; another port of the host is sent it, but not the key that belongs to it. */
async function cookiesAreOfNoUse(page, platform) {
    assert.equal(await page.evaluate(() => document.cookie), "");
    const stolen = [];
    const thief = createServer((request, response) => {
        stolen.push(request.headers.cookie);
        response.end("a page");
    });
    await new Promise((listening) => thief.listen(0, "127.0.0.1", listening));
    const other = await page.context().newPage();
    await other.goto(`http://127.0.0.1:${thief.address().port}/`);
    assert.equal(await other.evaluate(() => localStorage.length), 0);
    await other.close();
    thief.close();
    assert.match(stolen[0], /^weft_session_[0-9a-f]{16}=/);
    assert.ok(!stolen[0].includes(platform.token));
    const answer = await fetch(`${platform.address}/api/v1/runs`, { headers: { Cookie: stolen[0] } });
    assert.equal(answer.status, 401);
}

async function signingIn(platform) {
    const page = await open(wide);
    page.allowed = /401/;
    await page.goto(`${platform.address}/cluster.html`);
    await page.waitForURL(/sign-in\.html\?next=%2Fcluster\.html/);
    await picture(page, "sign-in");
    await page.getByLabel("Token").fill("weft_000000000000_none");
    await page.getByRole("button", { name: "Sign in" }).click();
    await page.getByText("does not know this token").waitFor();
    await page.getByLabel("Token").fill(platform.token);
    await page.getByRole("button", { name: "Sign in" }).click();
    await page.waitForURL(/cluster\.html$/);
    await page.getByRole("heading", { name: "Queue" }).waitFor();
    await page.locator(".beat.open").waitFor();
    await cookiesAreOfNoUse(page, platform);
    // Nowhere but to these pages.
    await page.goto(`${platform.address}/sign-in.html?next=https://elsewhere.example/`);
    await page.getByLabel("Token").fill(platform.token);
    await page.getByRole("button", { name: "Sign in" }).click();
    await page.waitForURL((url) => url.origin === platform.address && url.pathname === "/");
    await close(page);
}

async function runs(page, platform, known) {
    const { counts } = await platform.get("/runs?most=1");
    await page.goto(platform.address);
    const rows = page.locator("tbody tr:not(.space)");
    await rows.first().waitFor();
    assert.match(await page.locator("[data-state=failed]").textContent(), new RegExp(`failed${counts.failed}$`));
    await page.locator("tr", { hasText: "gpt-1b" }).locator(".reason").waitFor();
    await picture(page, "runs");

    await page.locator("[data-state=failed]").click();
    await page.waitForURL(/state=failed/);
    await page.waitForFunction(
        (count) => document.querySelectorAll("tbody tr:not(.space)").length === count,
        counts.failed,
    );
    await page.locator("[data-state=all]").click();

    await page.keyboard.press("/");
    assert.equal(await page.evaluate(() => document.activeElement.type), "search");
    await page.keyboard.type("conformer");
    await page.waitForFunction(() => document.querySelectorAll("tbody tr:not(.space)").length === 2);
    await page.keyboard.press("Escape");
    await page.keyboard.press("Escape");
    await page.locator("tr", { hasText: "tokenizer-32k" }).waitFor();

    await page.getByRole("button", { name: "Name", exact: true }).click();
    await page.waitForFunction(() => {
        const names = [...document.querySelectorAll(".name a")].map((name) => name.textContent.toLowerCase());
        return names.length > 4 && names.every((name, i) => !i || names[i - 1] <= name);
    });
    await page.getByRole("button", { name: "Run", exact: true }).click();
    await page.selectOption("select", "speech");
    await page.waitForFunction(() =>
        [...document.querySelectorAll("tbody tr:not(.space)")].every((row) => row.textContent.includes("speech")),
    );
    await page.selectOption("select", "");
    await page.waitForFunction(() =>
        [...document.querySelectorAll("tbody tr:not(.space)")].some((row) => !row.textContent.includes("speech")),
    );

    // Keys: down to the second row, select it, open it.
    await rows.nth(4).waitFor();
    await page.keyboard.press("ArrowDown");
    await page.keyboard.press("ArrowDown");
    await page.keyboard.press("x");
    await page.getByText("1 run selected").waitFor();
    await page.keyboard.press("Enter");
    await page.waitForURL(/run\.html\?run=\d+/);
    assert.equal(new URL(page.url()).searchParams.get("run"), String(known.waiting.at(-2)));
}

async function manyRuns(page, platform) {
    const more = Array.from({ length: 700 }, (unused, number) => number);
    while (more.length)
        await Promise.all(
            more
                .splice(-20)
                .map((number) =>
                    platform.submit("language", { name: `sweep-${number}`, command: ["true"], nodes: 4, slots: 4 }),
                ),
        );
    await page.goto(`${platform.address}/?project=language`);
    await page.locator("tbody tr:not(.space)").first().waitFor();
    assert.ok((await page.locator("tbody tr").count()) < 100, "only the rows that are seen exist");
    const first = (await platform.get("/runs?project=language&most=1000")).runs.at(-1).run;
    for (let tries = 0; (await page.locator(".c-run", { hasText: new RegExp(`^${first}$`) }).count()) === 0; tries++) {
        assert.ok(tries < 60, "the oldest run comes into sight");
        await page.evaluate(() => scrollTo(0, document.documentElement.scrollHeight));
        await pause(100);
    }
    assert.ok((await page.locator("tbody tr").count()) < 100, "rows that have gone out of sight are gone");
    await picture(page, "runs-many");
    await lists.comesBack(page);
}

async function curves(page, platform, known) {
    await page.goto(`${platform.address}/run.html?run=${known.training}`);
    await page.locator(".state.large", { hasText: "running" }).waitFor();
    const loss = page.locator("[data-metric='train/loss']");
    await loss.locator("canvas").waitFor();
    await page.waitForFunction(() => document.querySelectorAll(".curve canvas").length >= 4);
    await pause(300);
    await picture(page, "run");

    // Each rank by itself; larger; smoothed; a part of it, asked of the server.
    await loss.getByRole("button", { name: /Every rank/ }).click();
    await page.waitForFunction(
        () => document.querySelectorAll("[data-metric='train/loss'] .ranks button").length === 8,
    );
    await loss.getByRole("button", { name: /Larger/ }).click();
    await page.getByRole("slider").fill("0.8");
    const box = await loss.locator(".u-over").boundingBox();
    const asked = page.waitForRequest((request) => /curve\?.*from=\d+&to=\d+/.test(request.url()));
    await page.mouse.move(box.x + box.width * 0.3, box.y + 50);
    await page.mouse.down();
    await page.mouse.move(box.x + box.width * 0.6, box.y + 60, { steps: 6 });
    await page.mouse.up();
    const { searchParams } = new URL((await asked).url());
    assert.ok(Number(searchParams.get("from")) > 100 && Number(searchParams.get("to")) < 450, searchParams.toString());
    await page.getByTitle("Show all of it again").waitFor();
    await pause(400);
    await picture(page, "run-ranks");
    await page.getByTitle("Show all of it again").click();
    await page.getByRole("button", { name: "Time", exact: true }).click();
    await page.waitForResponse((response) => /curve\?.*axis=times/.test(response.url()) && response.ok());
    await page.getByRole("button", { name: "Log", exact: true }).click();
}

async function logs(page, platform, known) {
    await page.goto(`${platform.address}/run.html?run=${known.training}`);
    await page.getByRole("tab", { name: "Logs" }).click();
    await page.locator(".log-line").first().waitFor();
    await picture(page, "run-logs");
    await page.getByLabel("Search the output").fill("loss scale");
    await page.locator(".log-line mark").first().waitFor();
    assert.ok((await page.locator(".log-line .text").allTextContents()).every((text) => text.includes("loss scale")));
    await page.getByLabel("Stream").selectOption("1");
    await page.getByText("No line is like that").waitFor();
}

async function parts(page, platform, known) {
    await page.goto(`${platform.address}/run.html?run=${known.training}`);
    await page.locator(".state.large", { hasText: "running" }).waitFor();
    await page.getByRole("tab", { name: "Nodes" }).click();
    await page.getByText(`weft shell ${known.training}/node-1`).waitFor();
    await page.getByRole("tab", { name: "Events" }).click();
    await page.locator(".events li", { hasText: "by anna" }).waitFor();
    assert.ok((await page.locator(".band i").count()) >= 2);
    await picture(page, "run-events");
    await page.getByRole("tab", { name: "Checkpoints" }).click();
    await page
        .getByRole("tabpanel", { name: /Checkpoints/ })
        .locator("table, h2")
        .first()
        .waitFor();
    await page.getByRole("tab", { name: "Settings" }).click();
    await page.getByRole("heading", { name: "Command" }).waitFor();
    await page.getByText("program.py 600 600").waitFor();
    await picture(page, "run-settings");
    // Tabs keep their place in the address, and follow the arrow keys.
    assert.match(page.url(), /#settings$/);
    await page.getByRole("tab", { name: "Settings" }).press("ArrowLeft");
    assert.equal(await page.getByRole("tab", { name: "Ports" }).getAttribute("aria-selected"), "true");
    await page.getByText("This server has no web ports").waitFor();
    await page.locator(".command", { hasText: "weft forward" }).waitFor();
    assert.equal(await page.getByRole("button", { name: "Open", exact: true }).count(), 0);
}

async function waitingAndFailed(page, platform, known) {
    await page.goto(`${platform.address}/run.html?run=${known.waiting[0]}`);
    await page.locator(".notice", { hasText: /\bwaits?\b/i }).waitFor();
    await picture(page, "run-waits");
    await page.goto(`${platform.address}/run.html?run=${known.failed}#nodes`);
    await page.locator(".wrong-text", { hasText: "code 3" }).waitFor();
}

async function forkAndStop(page, platform, known) {
    await page.goto(`${platform.address}/run.html?run=${known.ended[0]}`);
    await page.getByRole("button", { name: "Fork …" }).click();
    await page.getByLabel("Command").fill("sh -c 'echo \"it is forked\"; sleep 600'");
    await page.getByLabel("Name", { exact: true }).fill("resnet-again");
    await picture(page, "fork");
    await page.getByRole("button", { name: "Submit" }).click();
    await page.waitForURL((url) => Number(url.searchParams.get("run")) > known.ended[0]);
    const made = Number(new URL(page.url()).searchParams.get("run"));
    const found = await platform.get(`/runs/${made}`);
    assert.deepEqual(found.specification.command, ["sh", "-c", 'echo "it is forked"; sleep 600']);
    assert.equal(found.specification.parent, known.ended[0]);
    assert.equal(found.name, "resnet-again");
    await page.getByRole("button", { name: "Stop …" }).click();
    await page.getByRole("button", { name: "Let it run" }).click();
    assert.notEqual((await platform.get(`/runs/${made}`)).state, "cancelled");
    await page.getByRole("button", { name: "Stop …" }).click();
    await page.getByRole("button", { name: "Stop it" }).click();
    await page.locator(".state.large", { hasText: "cancelled" }).waitFor();
    assert.equal(await page.getByRole("button", { name: "Stop …" }).count(), 0);
    await page.getByRole("button", { name: "Discard …" }).click();
    await page.getByRole("button", { name: "Throw it away" }).click();
    await page.getByRole("button", { name: "Discard …" }).waitFor({ state: "detached" });
    assert((await platform.get(`/runs/${made}`)).discarded > 0);
    await page.getByRole("tab", { name: "Logs" }).click();
    await page.locator(".empty", { hasText: "Thrown away" }).waitFor();
}

/** Why each run waits is there to be read to its end, however narrow the window is. */
async function reasonsAreWhole(page, platform) {
    const { queue } = await platform.get("/queue");
    for (const { width } of [narrow, wide]) {
        await page.setViewportSize({ ...wide, width });
        const told = await page.locator(".queue .reason").evaluateAll((cells) =>
            cells.map((cell) => ({
                text: cell.textContent,
                hidden: Math.max(0, cell.scrollWidth - cell.clientWidth, cell.getBoundingClientRect().right - innerWidth),
            })),
        );
        assert.equal(told.length, queue.length);
        for (const [place, { text, hidden }] of told.entries()) {
            assert(queue[place].reason.startsWith(text) && /^waits for .*: .* slots are free/.test(text), text);
            assert.equal(hidden, 0, `${width}: ${text}`);
        }
    }
}

async function cluster(page, platform, known) {
    await page.goto(`${platform.address}/cluster.html`);
    await page.locator(".slots a").first().waitFor();
    const found = await platform.get("/cluster");
    const squares = page.locator(".pod .slots > *");
    assert.equal(await squares.count(), found.slots);
    assert.equal(await page.locator(`.slots [data-run='${known.training}']`).count(), 8);
    await page.locator("table[aria-label=Queue] tbody").nth(known.waiting.length - 1).waitFor();
    await reasonsAreWhole(page, platform);
    const drawn = () => /^[1-9]\d* bars/.test(document.querySelector(".gantt canvas").getAttribute("aria-label") ?? "");
    await page.waitForFunction(drawn);
    await picture(page, "cluster", true);
    await page.locator(`.slots [data-run='${known.training}']`).first().hover();
    await page.locator(".tip", { hasText: `Run ${known.training}` }).waitFor();
    assert.equal(await page.locator(".slots .same").count(), 8);

    const host = found.pods[0].hosts.at(-1).host;
    await page.locator(`[data-host='${host}']`).click();
    await page.getByLabel(/Drain it/).fill("a fan is replaced");
    await page.getByRole("button", { name: "Drain it" }).click();
    await page.locator(".host.away", { hasText: host }).waitFor();
    assert.equal((await platform.get("/cluster")).pods[0].hosts.at(-1).detail, "a fan is replaced");
    await page.locator(`[data-host='${host}']`).click();
    await page.getByRole("button", { name: "Use it again" }).click();
    await page.waitForFunction(() => !document.querySelector(".host.away"));
}

async function project(page, platform) {
    await page.goto(`${platform.address}/project.html`);
    await page.getByRole("link", { name: "speech" }).waitFor();
    await picture(page, "projects");
    await page.getByRole("link", { name: "vision" }).click();
    await page.getByRole("heading", { name: "Ledger" }).waitFor();
    await page.locator("table[aria-label=Ledger] tbody tr", { hasText: "for the paper" }).first().waitFor();
    assert.ok((await page.locator(".bar i").count()) === 3);
    await picture(page, "project");
    await page.getByRole("button", { name: "Grant …" }).click();
    await page.getByLabel(/Amount/).fill("1234");
    await page.getByLabel("What for").fill("another week");
    await page.getByRole("button", { name: "Grant", exact: true }).click();
    await page.locator("table[aria-label=Ledger] tbody tr", { hasText: "another week" }).first().waitFor();
    // A key that selects another role changes nothing yet.
    await page.getByLabel("Role of chen").selectOption("viewer");
    await page.getByRole("button", { name: "Cancel" }).click();
    await page.waitForFunction(() => document.querySelector("[aria-label='Role of chen']").value === "member");
    assert.equal((await platform.get("/projects/vision")).members.find(({ user }) => user === "chen").role, "member");
    await page.getByLabel("Role of chen").focus();
    await page.getByLabel("Role of chen").selectOption("viewer");
    await page.getByRole("button", { name: "Make viewer" }).click();
    for (let tries = 0; ; tries++, await pause(100)) {
        const { members } = await platform.get("/projects/vision");
        if (members.find(({ user }) => user === "chen").role === "viewer") break;
        assert.ok(tries < 50, "a role is changed");
    }
    await pause(500); // and is shown
    assert.equal(await page.evaluate(() => document.activeElement.ariaLabel), "Role of chen");
}

/* ---- for every page: widths, colors, names ---------------------------------------------------------------------- */

async function everywhere(platform, known) {
    const places = [
        ["runs", "/"],
        ["run", `/run.html?run=${known.training}`],
        ["logs", `/run.html?run=${known.training}#logs`],
        ["nodes", `/run.html?run=${known.training}#nodes`],
        ["events", `/run.html?run=${known.training}#events`],
        ["checkpoints", `/run.html?run=${known.training}#checkpoints`],
        ["failed", `/run.html?run=${known.failed}`],
        ["settings", `/run.html?run=${known.training}#settings`],
        ["cluster", "/cluster.html"],
        ["projects", "/project.html"],
        ["project", "/project.html?project=vision"],
    ];
    const visit = async (size, kind, scheme) => {
        const page = await open(size, scheme);
        await signIn(page, platform.address, platform.token);
        for (const [name, address] of places) {
            page.step = `${name}, ${kind}, ${scheme}`;
            await page.goto(platform.address + address);
            if (address.includes("#")) await page.reload(); // another tab alone is the same page
            await page.locator("h1").waitFor();
            await page.waitForLoadState("load");
            await pause(500);
            await picture(page, `${name}-${kind}-${scheme}`);
            const found = await page.evaluate(lookAround);
            assert.deepEqual(found, { beyond: 0, nameless: [], pale: [] }, page.step);
        }
        await close(page);
    };
    await Promise.all(
        ["light", "dark"].flatMap((scheme) => [visit(wide, "wide", scheme), visit(narrow, "narrow", scheme)]),
    );
}

/* ---- what needs no server, as the modules have it ---------------------------------------------------------------- */

async function functions(page, platform) {
    await page.goto(platform.address);
    const found = await page.evaluate(async () => {
        const words = await import("/modules/words.js");
        const format = await import("/modules/format.js");
        const { slotNumbers } = await import("/modules/cluster-slots.js");
        const { smooth } = await import("/modules/curve.js");
        const letters = "ab '\"\\$`\n\t*~é😀;&|";
        const lost = [];
        for (let number = 0; number < 2000; number++) {
            const list = Array.from({ length: 1 + (number % 4) }, () =>
                Array.from(
                    { length: Math.floor(Math.random() * 6) },
                    () => [...letters][Math.floor(Math.random() * 17)],
                ).join(""),
            );
            const again = words.split(words.join(list));
            if (JSON.stringify(again) !== JSON.stringify(list)) lost.push([list, again]);
        }
        let refused = "";
        try {
            words.split("echo 'no end");
        } catch (error) {
            refused = error.message;
        }
        return {
            lost,
            refused,
            times: [0.034, 4.27, 42, 192, 7500, 273600, 86400].map(format.duration),
            figures: [0, 1, 0.5, 1234567, 0.00042, -3.25, 98765.4321, NaN].map(format.figure),
            quantities: [
                [0.594, "share"],
                [25276518400, "bytes"],
                [1572864, "bytes/s"],
                [61, "°C"],
                [2.5, "CPUs"],
                [192, "s"],
                [1.25, ""],
                ["Infinity", "bytes"],
                ["NaN", ""],
            ].map(([value, unit]) => format.quantity(value, unit)),
            scales: [
                [0.25, "share"],
                [25769803776, "bytes"],
                [0, "bytes"],
                [524288, "bytes/s"],
                [60, "W"],
                [0.5, ""],
            ].map(([value, unit]) => format.scaleQuantity(value, unit)),
            sizes: [0, 1023, 1536, 1493172224].map(format.bytes),
            slots: slotNumbers("0-2,5,7-8"),
            smoothed: smooth([1, 1, null, 1], 0.9).map((value) => value && Number(value.toFixed(9))),
        };
    });
    assert.deepEqual(found, {
        lost: [],
        refused: "A quote (') has no end.",
        times: ["34 ms", "4.2 s", "42 s", "3 m 12 s", "2 h 05 m", "3 d 4 h", "1 d"],
        figures: ["0", "1", "0.5", "1.235 M", "4.20 e−4", "−3.25", "98.77 k", "–"],
        quantities: ["59 %", "23.5 GiB", "1.50 MiB/s", "61 °C", "2.5 CPUs", "3 m 12 s", "1.25", "∞", "NaN"],
        scales: ["25 %", "24 GiB", "0 B", "512 KiB/s", "60 W", "0.5"],
        sizes: ["0 B", "1023 B", "1.50 KiB", "1.39 GiB"],
        slots: [0, 1, 2, 5, 7, 8],
        smoothed: [1, 1, null, 1],
    });
}

/* ---- all of it --------------------------------------------------------------------------------------------------- */

async function main() {
    await begin();
    const wanted = process.env.PAGES_ONLY?.split(",");
    const perform = async (name, work) => {
        if (wanted && !wanted.includes(name)) return;
        state.step = name;
        const began = Date.now();
        await work();
        assert.deepEqual(state.complaints, [], "the browser has nothing to complain of");
        console.log(`${name}: ${((Date.now() - began) / 1000).toFixed(1)} s`);
    };
    await perform("newcomer", newcomer);
    await perform("paused scheduling", pausedScheduling);
    await perform("disk space", diskSpace);
    await perform("ports of runs", portsOfRuns);
    const platform = await Platform.start("--pods", "2x4x4", "--tokens");
    let page = null;
    try {
        const known = await furnish(platform);
        await perform("signing in", () => signingIn(platform));
        page = await open(wide);
        await signIn(page, platform.address, platform.token);
        await perform("runs", () => runs(page, platform, known));
        await perform("functions", () => functions(page, platform));
        await perform("curves", () => curves(page, platform, known));
        await perform("logs", () => logs(page, platform, known));
        await perform("parts of a run", () => parts(page, platform, known));
        await perform("waiting and failed", () => waitingAndFailed(page, platform, known));
        await perform("fork and stop", () => forkAndStop(page, platform, known));
        await perform("a fork differs", () => forkDiffers(page, platform));
        await perform("live logs", () => liveLogs(page, platform));
        await perform("curves say", () => curvesSay(page, platform, known));
        await perform("numbers of curves", () => numbersOfCurves(page, platform, known));
        await perform("many metrics", () => manyMetrics(page, platform));
        await perform("marks of curves", () => marksAreWhole(page, platform, known));
        await perform("a failed run", () => failedRun(page, platform));
        await perform("progress of a run", () => progressOfRun(page, platform));
        await perform("a pausing run", () => pausingRun(page, platform));
        await perform("a cancelled run", () => cancelledRun(page, platform, known));
        await perform("no run", () => noRun(page, platform));
        await perform("a saved log", () => savedLog(page, platform));
        await perform("narrow parts", () => narrowParts(page, platform, known));
        await perform("cluster", () => cluster(page, platform, known));
        await perform("project", () => project(page, platform));
        await perform("list of runs", () => lists.listOfRuns(page, platform, known));
        await perform("keys of the list", () => lists.keysOfList(page, platform));
        await perform("first answer", () => lists.firstAnswer(page, platform));
        await perform("viewer", () => lists.viewer(platform, known));
        await perform("idle runs", () => lists.idleRunsAreTold(page, platform, known));
        await perform("ledger", () => lists.ledger(page, platform, known));
        await perform("out of use", () => lists.outOfUse(page, platform));
        await perform("cordoned", () => lists.cordoned(page, platform));
        await perform("time goes by", () => lists.timeGoesBy(platform));
        await perform("not there", () => lists.notThere(page, platform));
        await perform("everywhere", () => everywhere(platform, known));
        await perform("many runs", () => manyRuns(page, platform));
        await perform("long queue", () => lists.longQueue(page, platform));
        await perform("sign out", () => lists.signOut(page));
    } catch (error) {
        if (page) await picture(page, "wrong").catch(() => {});
        throw error;
    } finally {
        await state.browser.close();
        await platform.stop();
    }
}

main().catch((error) => {
    console.error(`in '${state.step}':`, error);
    state.complaints.forEach((complaint) => console.error(complaint));
    process.exit(1);
});

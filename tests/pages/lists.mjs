// SPDX-License-Identifier: Apache-2.0
// What is asked of lists: the runs, the queue, hosts, members, the ledger.
import assert from "node:assert/strict";
import { pause } from "./platform.mjs";
import { close, narrow, open, picture, signIn, wide } from "./windows.mjs";

const rowsOf = (page) => page.locator("tbody tr:not(.space)");
const count = (page, number) =>
    page.waitForFunction((wanted) => document.querySelectorAll("tbody tr:not(.space)").length === wanted, number);
/** What has the focus: a text that stays the same while it is the same control. */
const focused = (page) =>
    page.evaluate(() => {
        const { localName, dataset, ariaLabel, href, classList } = document.activeElement;
        return [localName, dataset.state ?? dataset.key ?? ariaLabel ?? href ?? classList.value].join(" ");
    });

/** Wait until something is so, looked at from here. */
async function until(what, work) {
    for (let tries = 0; !(await work()); tries++) {
        assert.ok(tries < 100, what);
        await pause(100);
    }
}

/* ---- the runs ---------------------------------------------------------------------------------------------------- */

/** Names are read at any width; numbers, beginnings of owners and what is hidden are dealt with. */
export async function listOfRuns(page, platform, known) {
    await page.goto(platform.address);
    for (const width of [1440, 1200, 1081, 1024, 961, 900, 861, 800, 761, 390]) {
        await page.setViewportSize({ ...wide, width });
        await pause(80);
        const found = await page.evaluate(() => ({
            names: Math.min(...[...document.querySelectorAll(".c-name .name")].map((cell) => cell.clientWidth)),
            beyond: document.querySelector("table.runs").scrollWidth - document.querySelector(".card").clientWidth,
        }));
        assert.ok(found.names >= 180 && found.beyond <= 0, `${width}: ${JSON.stringify(found)}`);
    }
    // What waits says why and until when where there are no columns.
    const waits = page.locator("tbody tr", { has: page.locator(`a[href$='run=${known.waiting[0]}']`) });
    await until("why it waits is in its row", async () => /waits for/.test(await waits.locator(".c-more").innerText()));
    assert.match(await waits.locator(".c-when").innerText(), /^(in |waits )/);
    await page.setViewportSize(wide);

    await page.getByLabel("Search runs").fill(String(known.failed));
    const like = (await platform.get(`/runs?search=${known.failed}`)).runs.map(({ run }) => run);
    assert.ok(like.includes(known.failed));
    await count(page, like.length);
    await page.locator(".c-run", { hasText: new RegExp(`^${known.failed}$`) }).waitFor();
    await page.getByLabel("Search runs").fill("");
    await until("all are back", async () => (await rowsOf(page).count()) > 10);
    await page.getByLabel("Owner").fill("che");
    await page.getByLabel("Owner").press("Enter");
    await page.waitForURL(/owner=chen/);

    await page.getByRole("checkbox").first().check();
    await page.getByText("1 run selected").waitFor();
    await page.getByLabel("Owner").fill("anna");
    await page.getByLabel("Owner").press("Enter");
    await page.waitForURL(/owner=anna/);
    await page.getByText("1 run selected").waitFor({ state: "hidden" });
    await page.getByLabel("Owner").fill("");
    await page.getByLabel("Owner").press("Enter");
}

/** The focus stays where it is while runs change; of the rows, Tab comes to one. */
export async function keysOfList(page, platform) {
    await page.goto(platform.address);
    await rowsOf(page).first().waitFor();
    const change = async () => {
        const run = await platform.submit("speech", { name: "changes", command: ["true"] });
        await page.locator("tbody tr", { has: page.locator(`a[href$='run=${run}']`) }).waitFor();
        await platform.wait(run, "succeeded");
        await pause(600);
    };
    await page.locator("[data-state=failed]").focus();
    await change();
    assert.equal(await focused(page), "button failed");
    await page.keyboard.press("Enter");
    await page.waitForURL(/state=failed/);
    assert.equal(await focused(page), "button failed");
    await page.locator("[data-state=all]").click();

    await until("all are back", async () => (await rowsOf(page).count()) > 10);
    await page.locator("[data-state=all]").blur();
    assert.equal(await page.locator("tbody tr[tabindex='0']").count(), 1);
    await page.keyboard.press("ArrowDown");
    await page.keyboard.press("ArrowDown");
    const here = () => page.evaluate(() => document.activeElement.closest("tr")?.querySelector("a").href);
    const run = await here();
    assert.equal(run, await page.locator("tbody .name a").nth(1).evaluate(({ href }) => href));
    assert.equal(await page.locator("tbody tr[tabindex='0']").count(), 1);
    await change();
    assert.equal(await here(), run, "the same run has the focus, though another stands above it");
    await page.keyboard.press("Tab"); // into the row
    assert.match(await focused(page), /^input Select run/);
    await page.keyboard.press("Space");
    await page.getByText("1 run selected").waitFor();
    assert.match(await focused(page), /^input Select run/);
    await page.keyboard.press("Escape");
    await page.getByText("1 run selected").waitFor({ state: "hidden" });
}

/** Nothing is called live before it is there; a missing answer is reported, and asked for again. */
export async function firstAnswer(page, platform) {
    const address = /\/api\/v1\/runs\?/;
    await page.route(address, async (route) => {
        await pause(1500);
        await route.continue();
    });
    await page.goto(platform.address);
    await page.locator(".skeleton").waitFor();
    await pause(500);
    assert.equal(await page.locator(".beat.open").count(), 0);
    await page.locator(".beat.open").waitFor();
    assert.equal(await page.locator(".skeleton").count(), 0);
    await page.unroute(address);

    // What happens while an answer is on its way is not lost with it.
    await page.route(address, async (route) => {
        const response = await route.fetch();
        await pause(2500);
        await route.fulfill({ response }).catch(() => {}); // the page may be gone
    });
    await page.goto(platform.address);
    await pause(800);
    const run = await platform.submit("speech", { name: "meanwhile", command: ["true"] });
    await page.locator("tbody tr", { has: page.locator(`a[href$='run=${run}']`) }).waitFor();
    await page.unroute(address);

    // On a phone a lost connection is a word too, and there is room for it.
    await page.locator(".beat.open").waitFor();
    await page.setViewportSize(narrow);
    await page.evaluate(() => {
        document.querySelector(".beat").className = "beat lost";
        document.querySelector(".beat").firstChild.textContent = "not connected";
    });
    assert.ok(await page.getByText("not connected").isVisible());
    assert.ok((await page.evaluate(() => document.querySelector(".who").getBoundingClientRect().right)) <= narrow.width);
    await page.setViewportSize(wide);

    page.allowed = /500/;
    await page.route(address, (route) =>
        route.fulfill({ status: 500, json: { error: { message: "the disk is full" } } }),
    );
    await page.goto(platform.address);
    await page.getByText("The disk is full.").waitFor();
    await page.unroute(address);
    await page.getByRole("button", { name: "Ask again" }).click();
    await rowsOf(page).first().waitFor();
    assert.equal(await page.getByText("The disk is full.").count(), 0);
    page.allowed = null;
}

/** Back from a run, the list is where it was, and the run has the focus. Called with a long list that is scrolled. */
export async function comesBack(page) {
    await page.evaluate(() => scrollTo(0, 9000));
    await pause(400);
    const row = page.locator("tbody tr:not(.space)").nth(20);
    const opened = await row.locator("a").evaluate(({ href }) => href);
    const before = await page.evaluate(() => scrollY);
    await row.locator("a").click();
    await page.waitForURL(/run\.html/);
    await page.goBack();
    await page.locator(`tbody a[href='${new URL(opened).pathname}${new URL(opened).search}']`).waitFor();
    await until("it is scrolled as before", async () => Math.abs((await page.evaluate(() => scrollY)) - before) < 80);
    assert.equal(await page.locator("tbody tr[tabindex='0'] a").evaluate(({ href }) => href), opened);
}

/* ---- rights ------------------------------------------------------------------------------------------------------ */

/** Who only looks is offered nothing to change. */
export async function viewer(platform, known) {
    const token = await platform.user("vera");
    await platform.ask("PUT", "/projects/language/members/vera", { role: "viewer" });
    const page = await open(wide);
    await signIn(page, platform.address, token);
    await rowsOf(page).first().waitFor();
    await page.getByRole("checkbox").first().check();
    await page.getByText("1 run selected").waitFor();
    assert.equal(await page.getByRole("button", { name: /^Stop/ }).count(), 0);
    await page.goto(`${platform.address}/run.html?run=${known.training}`);
    await page.locator(".state.large").waitFor();
    for (const name of [/^Fork/, /^Stop/, /^Discard/]) assert.equal(await page.getByRole("button", { name }).count(), 0);
    await page.goto(`${platform.address}/project.html?project=language`);
    await page.getByRole("heading", { name: "Members" }).waitFor();
    for (const name of [/^Add/, /^Take out/, /^Give/]) assert.equal(await page.getByRole("button", { name }).count(), 0);
    assert.equal(await page.locator("td select").count(), 0);
    await close(page);
}

/** Who signs out is asked for a token again. */
export async function signOut(page) {
    await page.goto(new URL(page.url()).origin);
    await page.getByRole("button", { name: "root", exact: true }).click();
    await page.locator(".tokens li").first().waitFor();
    page.allowed = /401/;
    await page.getByRole("button", { name: "Sign out" }).click();
    await page.waitForURL(/sign-in/);
    await page.goto(new URL(page.url()).origin);
    await page.waitForURL(/sign-in/);
    page.allowed = null;
}

/** A user's own idle runs are shown on every page, for as long as they do nothing; those of others are not. */
export async function idleRunsAreTold(page, platform, known) {
    const { user } = await platform.get("/server");
    const run = await platform.submit("speech", { name: "waits for input", command: ["true"], nodes: 4, slots: 4 });
    const idle = { ...(await platform.get(`/runs/${run}`)), state: "running", idle_since: Date.now() - 900000 };
    const other = { ...(await platform.get(`/runs/${known.training}`)), idle_since: Date.now() };
    const runs = [idle, { ...idle, run: run + 1, idle_since: null }];
    await page.route(/\/runs\?owner=/, (route) => route.fulfill({ json: { runs } }));
    const told = page.locator(".idle");
    for (const address of ["/", `/run.html?run=${known.training}`, "/cluster.html", "/project.html"]) {
        await page.goto(platform.address + address);
        await told.getByText("1 idle run").waitFor();
    }
    assert.equal(await told.getAttribute("href"), `/run.html?run=${run}`);
    assert.match(await told.getAttribute("title"), new RegExp(`${run} waits for input, seen at \\d\\d:\\d\\d`));
    await page.locator(".beat.open").waitFor();
    await picture(page, "idle");
    await page.setViewportSize(narrow);
    const beyond = await page.evaluate(() => document.documentElement.scrollWidth - innerWidth);
    assert.ok(beyond <= 0 && (await told.isVisible()), "there is room for it in a narrow window");
    await picture(page, "idle-narrow");
    await page.setViewportSize(wide);

    // By events alone: another one, and one of somebody else; then they work again, or have ended.
    let events = [{ ...idle, run: run + 1 }, other];
    await page.route(/\/events$/, (route) =>
        route.fulfill({
            contentType: "text/event-stream",
            body: `retry: 100\n\n${events.map((one) => `event: run\ndata: ${JSON.stringify(one)}\n\n`).join("")}`,
        }),
    );
    await page.reload();
    await told.getByText("1 idle run").waitFor();
    page.allowed = /net::ERR/;
    await page.route(/\/runs\?owner=/, (route) => route.abort());
    await told.getByText("2 idle runs").waitFor();
    assert.equal(await told.getAttribute("href"), `/?owner=${user}&state=running`);
    events = [
        { ...idle, idle_since: null },
        { ...idle, run: run + 1, state: "cancelled" },
    ];
    await told.waitFor({ state: "hidden" });
    await page.unroute(/\/events$/);
    await page.unroute(/\/runs\?owner=/);
    page.allowed = null;
    await platform.ask("POST", `/runs/${run}/stop`);
}

/* ---- the ledger -------------------------------------------------------------------------------------------------- */

/** A row for each posting; what a budget grows by is one row a day; what is posted comes by itself, and moves nothing. */
export async function ledger(page, platform, known) {
    const { entries } = await platform.get("/projects/vision/ledger?most=60");
    const postings = new Set(entries.filter(({ kind }) => kind !== "accrual").map(({ posting }) => posting));
    const grown = entries.some(({ kind }) => kind === "accrual");
    await page.goto(`${platform.address}/project.html?project=vision`);
    const rows = page.locator(".ledger tbody tr:not(.parts)");
    await rows.first().waitFor();
    assert.equal(await rows.count(), postings.size + (grown ? 1 : 0));
    assert.ok(!/[-−+]0(\.0+)?$/m.test((await page.locator(".ledger .amount").allInnerTexts()).join("\n")));
    await rows.last().getByRole("button", { name: "Entries" }).click();
    assert.equal(await page.locator(".ledger .parts dd").count(), entries.filter((one) => one.posting === entries.at(-1).posting).length);

    await page.getByLabel("Role of boris").focus();
    const run = await platform.submit("vision", { name: "costs", command: ["sleep", "0.5"] }, known.tokens.anna);
    await rows.filter({ hasText: `held for run ${run}` }).waitFor();
    await rows.filter({ hasText: `run ${run} used` }).waitFor();
    assert.equal(await focused(page), "select Role of boris");
    assert.equal(await page.locator(".ledger .parts").count(), 1, "what was opened stays open");
    // What others do is seen at once.
    await platform.ask("POST", "/projects/vision/grants", { amount: 77, detail: "from elsewhere" });
    await rows.filter({ hasText: "from elsewhere" }).waitFor({ timeout: 5000 });
}

/* ---- the cluster ------------------------------------------------------------------------------------------------- */

/** Slots of a drained host are in a figure of their own: the figures sum up. */
export async function outOfUse(page, platform) {
    const { hosts } = (await platform.get("/cluster")).pods.at(-1);
    const host = hosts.find(({ taken }) => taken.length === 0) ?? hosts.at(-1);
    await platform.ask("POST", `/nodes/${host.host}/drain`, { reason: "" });
    await page.goto(`${platform.address}/cluster.html`);
    const figures = () => page.locator(".figures > div").allInnerTexts();
    let read = {}; // all at one time: they are redrawn while the cluster changes
    await until("there is a figure for it", async () => {
        read = Object.fromEntries((await figures()).map((text) => text.split("\n").slice(0, 2)));
        return read["Out of use"] && / of \d/.test(read.Taken);
    });
    const number = (name) => parseInt(read[name], 10);
    const all = Number(/of (\d+)/.exec(read.Taken)[1]);
    assert.equal(number("Taken") + number("Free") + number("Out of use"), all, JSON.stringify(read));
    await platform.ask("POST", `/nodes/${host.host}/resume`);
    await until("it is used again", async () => (await figures()).every((text) => !/^Out of use/.test(text)));
}

/** What the platform has taken out of use is called so, tells since when and why, and can be used again. */
export async function cordoned(page, platform) {
    const changed = Date.now() - 3600e3;
    const change = (cluster) => {
        const host = cluster.pods[0].hosts[0];
        Object.assign(host, { state: "cordoned", detail: "failed 3 times: see …", changed, taken: [] });
        return cluster;
    };
    const answer = async (route) => route.fulfill({ json: change(await (await route.fetch()).json()) });
    await page.route("**/api/v1/cluster", answer);
    await page.goto(`${platform.address}/cluster.html`);
    const host = page.locator(".host.cordoned.away");
    await host.waitFor();
    assert.match(await host.locator("button").getAttribute("title"), /: cordoned$/);
    await page.locator(".keys", { hasText: "drained, cordoned or lost" }).waitFor();
    await page.locator(".figures", { hasText: "Out of use" }).waitFor();
    await host.locator("button").click();
    const opened = page.getByRole("dialog");
    await opened.getByText(/cordoned since .*: failed 3 times/).waitFor();
    await opened.getByRole("button", { name: "Use it again" }).waitFor();
    assert.equal(await opened.getByRole("button", { name: "Drain it" }).count(), 0);
    await page.unroute("**/api/v1/cluster", answer);
}

/** Of a long queue the beginning is shown; places of two digits and expectations are read whole. */
export async function longQueue(page, platform) {
    const { queue } = await platform.get("/queue");
    assert.ok(queue.length > 30);
    await page.goto(`${platform.address}/cluster.html`);
    const entries = page.locator(".queue tbody");
    await entries.nth(19).waitFor();
    assert.equal(await entries.count(), 20);
    await page.getByRole("button", { name: /^Show all/ }).click();
    await until("all are there", async () => (await entries.count()) > 30);
    for (const width of [1440, 1024, 390]) {
        await page.setViewportSize({ ...wide, width });
        const cut = await page
            .locator(".queue tr:first-child :is(.place, .expected, .owner)")
            .evaluateAll((cells) => cells.filter((cell) => cell.scrollWidth > cell.clientWidth).map((cell) => cell.innerText));
        assert.deepEqual(cut, [], String(width));
    }
    await page.setViewportSize(wide);
    await entries.nth(2).locator(".reason").click();
    await page.waitForURL(/run\.html/);
    await cutQueue(page, platform, queue);
}

/** A queue of which the server gives a part: the page says so, and asks for more. */
async function cutQueue(page, platform, queue) {
    const asked = [];
    const answer = async (route) => {
        asked.push(new URL(route.request().url()).searchParams.get("most"));
        await route.fulfill({ json: { queue, waiting: 9996, running: [], more: true } });
    };
    await page.route("**/api/v1/queue*", answer);
    await page.goto(`${platform.address}/cluster.html`);
    await page.getByText("9,996 runs").waitFor();
    await page.getByRole("button", { name: `Show ${queue.length} of 9,996` }).click();
    await page.getByText(`Showing ${queue.length} of 9,996.`).waitFor();
    await page.getByRole("button", { name: "Show more" }).click();
    await until("more is asked for", async () => asked.includes("2000"));
    await page.unroute("**/api/v1/queue*", answer);
}

/** What has no event is asked for every so often: the past of a cluster where nothing begins, the budget of a project. */
export async function timeGoesBy(platform) {
    const page = await open(wide);
    await signIn(page, platform.address, platform.token);
    await page.clock.install();
    for (const [address, heading, asked] of [
        ["/cluster.html", "What ran where", /cluster\/history/],
        ["/project.html?project=vision", "Ledger", /projects\/vision$/],
    ]) {
        await page.goto(platform.address + address);
        await page.locator(".beat.open").waitFor();
        await page.getByRole("heading", { name: heading }).waitFor();
        await page.clock.runFor(6000);
        const request = page.waitForRequest((one) => asked.test(one.url()), { timeout: 5000 });
        await page.clock.runFor(21000);
        await request;
    }
    await close(page);
}

/* ---- what is not there ------------------------------------------------------------------------------------------- */

/** A page for people where there is nothing, JSON for programs; and a way back. */
export async function notThere(page, platform) {
    page.allowed = /404/;
    const answer = await page.goto(`${platform.address}/nowhere.html`);
    assert.equal(answer.status(), 404);
    await page.getByRole("heading", { name: "There is no such page" }).waitFor();
    for (const [path, accept] of [
        ["/nowhere.html", "*/*"],
        ["/api/v1/nowhere", "text/html"],
    ]) {
        const plain = await fetch(platform.address + path, {
            headers: { Accept: accept, Authorization: `Bearer ${platform.token}` },
        });
        assert.equal(plain.status, 404);
        assert.match((await plain.json()).error.message, /nothing at this path/);
    }
    for (const [address, heading] of [
        ["/run.html?run=99999", "Run 99999 is not here"],
        ["/project.html?project=none-such", "Project none-such is not here"],
    ]) {
        await page.goto(platform.address + address);
        await page.getByRole("heading", { name: heading }).waitFor();
        await page.getByRole("link", { name: "All runs" }).waitFor();
    }
    page.allowed = null;
}

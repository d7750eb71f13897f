// SPDX-License-Identifier: Apache-2.0
// One run.
import { RequestError, get } from "./api.js";
import { tabs, tell, wrongPlace } from "./components.js";
import { atMostEvery, fill, make, query } from "./dom.js";
import { entitle, frame } from "./frame.js";
import * as live from "./live.js";
import { rights } from "./rights.js";
import { curvesPanel } from "./run-curves.js";
import { fork } from "./run-fork.js";
import { runHead } from "./run-head.js";
import { onProgress } from "./run-progress.js";
import { logsPanel } from "./run-logs.js";
import { portsPanel } from "./run-ports.js";
import { checkpointsPanel, discardedPanel, eventsPanel, nodesPanel, settingsPanel } from "./run-parts.js";
import { isWaiting } from "./states.js";

const number = Number(query().run);
const tryAgainAfter = 3000;
const place = {};
let run = null;
let may = null;
let parts = null;
let events = null;
let ports = null;

async function begin() {
    let asked = ask();
    asked.catch(() => {}); // reported below
    const made = await frame("runs", `Run ${number}`);
    if (!made) return;
    let changed = false; // before it was there
    live.on("run", (now) => {
        if (now.run !== number) return;
        changed = true;
        if (!parts) return;
        run = { ...run, ...now };
        draw();
        later();
    });
    onProgress((reported, progress) => {
        if (reported !== number || !run || !parts) return;
        run = { ...run, progress };
        draw();
    });
    while (!run)
        try {
            [run, may] = await asked;
        } catch (error) {
            fill(made.main, wrongPlace(error, `Run ${number}`));
            live.ready();
            if (error.status > 0 && error.status < 500) return;
            await new Promise((resolve) => setTimeout(resolve, tryAgainAfter));
            asked = ask();
        }
    place.head = runHead();
    place.body = make("div");
    fill(made.main, place.head.element, place.body);
    await show();
    live.ready();
    if (changed) later();
    live.on("again", later);
    live.on("queue", () => isWaiting(run.state) && why());
    live.everySoOften(2, () => run.state === "re-queued" && why()); // the pause after a failure gets shorter by itself
}

async function ask() {
    if (!Number.isInteger(number) || number < 1)
        throw new RequestError(400, "The address names no run: it ends with ?run= and a number.");
    return Promise.all([get(`/runs/${number}`), rights()]);
}

/* Attempts and nodes come with the whole run: asked for after it has changed. */
const later = atMostEvery(1000, async () => {
    try {
        [run, may] = await ask();
    } catch {
        return; // the next event asks again
    }
    show();
});

async function show() {
    draw();
    if (!parts) buildParts(await firstPart());
    if (place.nodes) fill(place.nodes, nodesPanel(run));
    parts.count("nodes", run.attempts.length > 1 ? `${run.attempts.length} attempts` : "");
    events?.refresh();
    ports?.refresh();
    if (isWaiting(run.state)) why();
}

/* What is seen first: of a run that failed before it reported anything, what it printed. */
async function firstPart() {
    if (run.state !== "failed" || run.discarded) return "curves";
    const { prefixes } = await get(`/runs/${number}/metrics`, { most: 1 }).catch(() => ({ prefixes: [] }));
    return prefixes.some(({ prefix }) => prefix !== "system") ? "curves" : "logs";
}

function buildParts(first) {
    parts = tabs(
        [
            ["curves", "Curves", () => curvesPanel(number, () => run)],
            ["logs", "Logs", () => (run.discarded ? discardedPanel(run) : logsPanel(number, () => run))],
            [
                "nodes",
                "Nodes",
                () => {
                    place.nodes = make("div", {}, nodesPanel(run));
                    return place.nodes;
                },
            ],
            [
                "events",
                "Events",
                () => {
                    events = eventsPanel(() => run);
                    return events.element;
                },
            ],
            [
                "checkpoints",
                "Checkpoints",
                () =>
                    run.discarded
                        ? discardedPanel(run)
                        : checkpointsPanel(run, may.maySubmit(run.project) && ((name) => fork(run, name))),
            ],
            [
                "ports",
                "Ports",
                () => {
                    ports = portsPanel(
                        () => run,
                        (now) => may.mayChange(now),
                    );
                    return ports.element;
                },
            ],
            ["settings", "Settings", () => settingsPanel(run)],
        ],
        "Parts of the run",
        first,
    );
    fill(place.body, parts.element);
}

async function why() {
    try {
        const answer = await get(`/runs/${number}/why`);
        place.why = answer;
        draw();
    } catch (error) {
        if (error.status !== 404) tell(error.message, true);
    }
}

function draw() {
    entitle(`${run.name || "Run"} ${run.run}`);
    place.head.draw(run, place.why, may);
}

begin();

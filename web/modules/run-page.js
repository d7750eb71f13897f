// SPDX-License-Identifier: Apache-2.0
// One run.
import { get, sentence } from "./api.js";
import { facts, tabs, tell, wrongPlace } from "./components.js";
import { atMostEvery, fill, make, query } from "./dom.js";
import { clock, duration, moment, shape, since, slots, until } from "./format.js";
import { entitle, frame } from "./frame.js";
import * as live from "./live.js";
import { discard, fork, stop } from "./run-actions.js";
import { curvesPanel } from "./run-curves.js";
import { logsPanel } from "./run-logs.js";
import { checkpointsPanel, discardedPanel, eventsPanel, nodesPanel, settingsPanel } from "./run-parts.js";
import { ran } from "./run-list.js";
import { isFinal, isWaiting, stateBadge, tone } from "./states.js";

const number = Number(query().run);
const place = {};
let run = null;
let parts = null;
let events = null;

async function begin() {
    const made = await frame("runs", `Run ${number}`);
    if (!made) return;
    place.head = make("div");
    place.body = make("div");
    fill(made.main, place.head, place.body);
    if (!Number.isInteger(number) || number < 1) {
        fill(made.main, wrongPlace(new Error("The address names no run: it ends with ?run= and a number.")));
        return;
    }
    await refresh(made.main);
    if (!run) return;
    live.on("run", (now) => {
        if (now.run !== number) return;
        run = { ...run, ...now };
        draw();
        later();
    });
    live.on("again", later);
    live.on("queue", () => isWaiting(run.state) && why());
}

/* Attempts and nodes come with the whole run: asked for after it has changed. */
const later = atMostEvery(1000, () => refresh());

async function refresh(main = null) {
    try {
        run = await get(`/runs/${number}`);
    } catch (error) {
        if (main) fill(main, wrongPlace(error));
        return;
    }
    draw();
    if (!parts) buildParts();
    if (place.nodes) fill(place.nodes, nodesPanel(run));
    parts.count("nodes", run.attempts.length > 1 ? `${run.attempts.length} attempts` : "");
    events?.refresh();
    if (isWaiting(run.state)) why();
}

function buildParts() {
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
                () => (run.discarded ? discardedPanel(run) : checkpointsPanel(run, (name) => fork(run, name))),
            ],
            ["settings", "Settings", () => settingsPanel(run)],
        ],
        "Parts of the run",
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
    fill(
        place.head,
        make(
            "div.head",
            {},
            make(
                "h1.cut",
                { style: { "max-width": "100%" } },
                run.name || `Run ${run.run}`,
                run.name && make("span.soft", { style: { "font-weight": 400 } }, ` ${run.run}`),
            ),
            stateBadge(run.state, true),
            make(
                "div.actions",
                {},
                make("button.button", { type: "button", onclick: () => fork(run) }, "Fork …"),
                !isFinal(run.state) &&
                    make(
                        "button.button.danger",
                        { type: "button", disabled: run.state === "stopping", onclick: () => stop(run) },
                        "Stop …",
                    ),
                isFinal(run.state) &&
                    !run.discarded &&
                    make("button.button", { type: "button", onclick: () => discard(run) }, "Discard …"),
            ),
        ),
        notice(),
        make(
            "div",
            { style: { margin: "0 0 20px" } },
            facts([
                [
                    "Project",
                    make("a", { href: `/project.html?project=${encodeURIComponent(run.project)}` }, run.project),
                ],
                ["Owner", make("a", { href: `/?owner=${encodeURIComponent(run.owner)}` }, run.owner)],
                [
                    "Slots",
                    make(
                        "span",
                        { title: slots(run.size, run.slot_kind) },
                        run.nodes > 1
                            ? `${shape(run)} ${run.slot_kind === "gpu" ? "GPUs" : "CPU slots"}`
                            : slots(run.slots, run.slot_kind),
                    ),
                ],
                ["Submitted", moment(run.submitted)],
                [
                    "Waited",
                    run.first_started === null
                        ? isFinal(run.state)
                            ? "–"
                            : since(run.submitted)
                        : duration((run.first_started - run.submitted) / 1000),
                ],
                ["Ran", time()],
                ["Time limit", duration(run.time_limit)],
                run.epoch > 1 && ["Attempt", run.epoch],
                run.ended !== null && ["Ended", moment(run.ended)],
            ]),
        ),
    );
}

function time() {
    if (run.started === null) return "–";
    return isFinal(run.state) || isWaiting(run.state) ? duration(ran(run) / 1000) : since(Date.now() - ran(run));
}

/* Which node of the last attempt failed, and how. */
function whatFailed() {
    const attempt = run.attempts.at(-1);
    const node = attempt?.nodes.find(({ exit }) => exit === "failed" || exit === "lost" || exit === "not started");
    if (!node) return "";
    const how = node.signal
        ? `was ended by signal ${node.signal}`
        : node.exit === "failed"
          ? `ended with code ${node.code}`
          : node.exit === "lost"
            ? "was lost"
            : "could not be started";
    return ["node", " on host", "exit code", "signal"].some((word) => run.reason.includes(word))
        ? ""
        : `On ${node.host}, node-${node.node} ${how}.`;
}

/* Why it is as it is. What is ordinary needs no words. */
function notice() {
    const waiting = isWaiting(run.state);
    const expected = waiting && place.why?.expected_start;
    const reason = waiting && place.why ? place.why.why : run.reason;
    const text = expected ? reason?.replace(/; expected to start .*$/, "") : reason; /* that is told beside it */
    if (["running", "succeeded"].includes(run.state) || !text) return null;
    return make(
        "div.notice",
        { class: tone(run.state), style: { margin: "0 0 18px" }, role: "status" },
        make(
            "span",
            { style: { flex: "1 1 300px" } },
            [sentence(text), run.state === "failed" && whatFailed()].filter(Boolean).join(" "),
        ),
        run.state === "failed" && make("a.link", { href: "#logs" }, "Its last words"),
        expected &&
            make("span.expected", {}, "Expected to start ", make("b", {}, until(expected)), `, at ${clock(expected)}`),
    );
}

begin();

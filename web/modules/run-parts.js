// SPDX-License-Identifier: Apache-2.0
// What else is known of a run: its attempts with their nodes, its events, its checkpoints, and what it was asked to be.
import { get, sentence } from "./api.js";
import { command, emptyPlace, facts, wrongPlace } from "./components.js";
import { fill, make } from "./dom.js";
import { bytes, clock, diskUse, duration, moment, shape, several, since, slots, whole } from "./format.js";
import { isFinal, stateSign, tone } from "./states.js";
import { assignments, join } from "./words.js";

/* Rows under heads [title, width, class]; where the window is narrow each row is a list of its cells with their titles. */
function table(label, heads, rows) {
    return make(
        "div.scroll",
        {},
        make(
            "table.stacks",
            { "aria-label": label },
            make(
                "thead",
                {},
                make(
                    "tr",
                    {},
                    heads.map(([title, width, kind]) =>
                        make("th", { scope: "col", class: kind ?? "", style: { width: width ?? "" } }, title),
                    ),
                ),
            ),
            make(
                "tbody",
                {},
                rows.map((cells) =>
                    make(
                        "tr",
                        {},
                        cells.map((cell, index) =>
                            make("td", { class: heads[index][2] ?? "cut", "data-title": heads[index][0] || null }, cell),
                        ),
                    ),
                ),
            ),
        ),
    );
}

/** Attempts, newest first, with their nodes. */
export function nodesPanel(run) {
    if (run.attempts.length === 0)
        return make("div.card", {}, emptyPlace("No attempt yet", "Its nodes appear here when it has been placed."));
    return make(
        "div.stack",
        {},
        [...run.attempts].reverse().map((attempt) => attemptCard(run, attempt)),
    );
}

function attemptCard(run, attempt) {
    const under = attempt.ended === null;
    const told = [attempt.pod, under ? "under way" : attempt.detail || attempt.cause.replaceAll("-", " ")];
    const time =
        attempt.started === null
            ? ""
            : under
              ? since(attempt.started)
              : duration((attempt.ended - attempt.started) / 1000);
    const heads = [
        ["Node", "90px"],
        ["Host", "150px"],
        ["Slots", "110px"],
        ["Started", "130px"],
        ["Ended", "130px"],
        ["How", ""],
        ["", "230px"],
    ];
    const rows = attempt.nodes.map((node) => [
        `node-${node.node}`,
        make("span.mono", {}, node.host),
        node.slots,
        moment(node.started, true),
        moment(node.ended, true),
        ending(node, attempt),
        under && node.ended === null ? make("code.soft", {}, `weft shell ${run.run}/node-${node.node}`) : "",
    ]);
    return make(
        "section.card",
        {},
        make(
            "header",
            {},
            make("h2", {}, `Attempt ${attempt.epoch}`),
            make("span.soft", {}, told.filter(Boolean).join(" · ")),
            make("span.right.soft", {}, time),
        ),
        make("div", { style: { "margin-top": "8px" } }, table(`Nodes of attempt ${attempt.epoch}`, heads, rows)),
    );
}

/* How it ended, without the text about the whole attempt. */
function ending(node, attempt) {
    if (node.exit === null) return attempt.ended === null ? (node.started === null ? "not started yet" : "running") : "";
    const how = node.signal
        ? `signal ${node.signal}`
        : node.exit === "completed" || node.exit === "failed"
          ? `exit code ${node.code}`
          : node.exit;
    const more = node.detail && node.detail !== attempt.detail && !node.detail.includes(how) ? `: ${node.detail}` : "";
    const wrong = node.exit === "failed" || node.exit === "lost" || node.exit === "not started";
    const went = node.dropped ? "; the attempt went on without it" : "";
    return make("span", { class: wrong ? "wrong-text" : "", title: node.detail || null }, how + more + went);
}

/** Its states as a band in time, and every change with its reason. */
export function eventsPanel(run) {
    const panel = make("div.stack");
    const events = [];
    let asking = null;
    async function ask() {
        try {
            for (let more = true; more;) {
                const newest = events.at(-1)?.event ?? 0;
                const answer = await get(`/runs/${run().run}/events`, { after: newest || null, most: 1000 });
                events.push(...answer.events.filter(({ event }) => event > newest));
                more = answer.more && answer.events.length > 0;
            }
            fill(
                panel,
                make("section.card", {}, make("div.inside", { style: { "padding-top": "18px" } }, band(run(), events))),
                make(
                    "section.card",
                    {},
                    make(
                        "div.inside",
                        { style: { "padding-top": "18px" } },
                        make("ol.events", {}, [...events].reverse().map(change)),
                    ),
                ),
            );
        } catch (error) {
            fill(panel, make("div.card", {}, wrongPlace(error)));
        }
    }
    const refresh = () => {
        asking = (asking ?? Promise.resolve()).then(ask);
    };
    refresh();
    return { element: panel, refresh };
}

function band(run, events) {
    const changes = events.filter((event) => event.to && event.to !== event.from);
    if (changes.length === 0) return make("p.soft", {}, "Nothing has happened yet.");
    const end = run.ended ?? Date.now();
    const begin = changes[0].time;
    const parts = changes
        .map((event, index) => ({ state: event.to, from: event.time, to: changes[index + 1]?.time ?? end }))
        .filter((part) => !isFinal(part.state));
    const sums = new Map();
    for (const part of parts) sums.set(part.state, (sums.get(part.state) ?? 0) + part.to - part.from);
    return [
        make(
            "div.band",
            {
                role: "img",
                "aria-label": [...sums].map(([state, time]) => `${state} ${duration(time / 1000)}`).join(", "),
            },
            parts.map((part) =>
                make("i", {
                    class: tone(part.state),
                    style: { flex: String(Math.max(1, part.to - part.from)) },
                    title: `${part.state} for ${duration((part.to - part.from) / 1000)}, from ${clock(part.from, true)}`,
                }),
            ),
        ),
        make(
            "div.band-ends.small.soft",
            {},
            moment(begin, true),
            run.ended === null ? make("span", {}, "now") : moment(end, true),
        ),
        make(
            "div.keys",
            { style: { "margin-top": "10px" } },
            [...sums].map(([state, time]) =>
                make(
                    "span",
                    { class: tone(state) },
                    make("i", { style: { background: "color-mix(in oklab, var(--tone) 72%, var(--surface))" } }),
                    `${state} ${duration(time / 1000)}`,
                ),
            ),
        ),
    ];
}

function change(event) {
    const state = event.to && event.to !== event.from ? event.to : null;
    const cause = event.cause.replaceAll("-", " ");
    const more = [event.actor && `by ${event.actor}`, event.epoch > 0 && `attempt ${event.epoch}`]
        .filter(Boolean)
        .join(" · ");
    return make(
        "li",
        { class: tone(state ?? "cancelled") },
        moment(event.time, true),
        make("div.rail", {}, stateSign(state)),
        make(
            "div.what",
            {},
            make(
                "div",
                {},
                make("b", { style: { "font-weight": 550 } }, state ?? cause),
                make("span.soft", {}, ` ${more}`),
            ),
            make("p", {}, sentence(event.detail || cause)),
            event.verdict &&
                event.verdict !== "done" &&
                make("p", {}, `It was ${event.verdict}: the state did not change.`),
        ),
    );
}

/** In the place of what was thrown away. */
export function discardedPanel(run) {
    return make(
        "div.card",
        {},
        emptyPlace("Thrown away", null, null, make("p", {}, "What the run left on disk is gone since ", moment(run.discarded), ".")),
    );
}

/** Its checkpoints; `fork` is called with the name of one. */
export function checkpointsPanel(run, fork) {
    const panel = make("div.card", {}, make("div.empty", {}, "…"));
    get(`/runs/${run.run}/checkpoints`).then(
        ({ checkpoints }) => {
            if (checkpoints.length === 0) {
                fill(
                    panel,
                    emptyPlace(
                        "No checkpoints",
                        "What the run writes with weft_checkpoint(), or weft train by itself, appears here.",
                    ),
                );
                return;
            }
            fill(
                panel,
                table(
                    "Checkpoints",
                    [
                        ["Name", ""],
                        ["Step", "110px", "number"],
                        ["Size", "120px", "number"],
                        ["Written", "150px", "number"],
                        ["", "150px", "number"],
                    ],
                    [...checkpoints]
                        .sort((one, other) => other.time - one.time)
                        .map((one) => [
                            make(
                                "span",
                                {},
                                make("span.mono", {}, one.name),
                                one.best && make("span.soft", {}, " best"),
                            ),
                            one.step === null ? "–" : whole(one.step),
                            bytes(one.bytes),
                            moment(one.time, true),
                            fork &&
                                make(
                                    "button.button.small",
                                    { type: "button", onclick: () => fork(one.name) },
                                    "Fork from here …",
                                ),
                        ]),
                ),
            );
        },
        (error) => fill(panel, wrongPlace(error)),
    );
    return panel;
}

/** What was asked for. */
export function settingsPanel(run) {
    const wanted = run.specification;
    const environment = wanted.environment ?? {};
    const yes = (value) => (value ? "yes" : "no");
    const card = (title, ...inside) =>
        make("section.card", {}, make("header", {}, make("h2", {}, title)), make("div.inside", {}, inside));
    return make(
        "div.stack",
        {},
        card("Command", command(join(wanted.command), true)),
        make(
            "div.two",
            {},
            card(
                "Resources",
                facts(
                    [
                        [
                            "Slots",
                            `${shape(run)} (${slots(run.size, run.slot_kind)}${run.nodes > 1 ? ` on ${several(run.nodes, "host")}` : ""})`,
                        ],
                        ["Nodes that suffice", wanted.min_nodes || null],
                        ["Time limit", duration(run.time_limit)],
                        ["Time slice", run.time_slice ? duration(run.time_slice) : null],
                        ["Memory of a node", wanted.memory ? bytes(wanted.memory) : null],
                        ["Processes of a node, at most", wanted.processes || null],
                        ["Processors of a node", wanted.processors || null],
                        ["Disk space", diskUse(run)],
                        ["May give way to others", yes(run.preemptible)],
                        ["May span Pods", yes(run.may_span_pods)],
                        ["Priority", run.priority],
                        ["Run again after failures", run.retries ? several(run.retries, "time") : "no"],
                        ["Class", run.class],
                        ["Secrets", wanted.secrets?.length ? wanted.secrets.join(", ") : null],
                    ],
                    "dl.pairs-list",
                ),
            ),
            card(
                "Origin",
                facts(
                    [
                        ["Submitted", make("span", {}, moment(run.submitted, true), ` by ${run.owner}`)],
                        ["Project", make("a.link", { href: `/project.html?project=${run.project}` }, run.project)],
                        [
                            "Forked from",
                            wanted.parent
                                ? make("a.link", { href: `/run.html?run=${wanted.parent}` }, `run ${wanted.parent}`)
                                : null,
                        ],
                        ["Began from", wanted.checkpoint || null],
                        [
                            "Commit",
                            wanted.commit
                                ? make(
                                      "span",
                                      { title: wanted.commit },
                                      make("code", {}, wanted.commit.slice(0, 12)),
                                      wanted.commit_changed ? ", changed since" : "",
                                  )
                                : null,
                        ],
                        [
                            "Snapshot of the code",
                            wanted.snapshot
                                ? make("code", { title: wanted.snapshot }, wanted.snapshot.slice(0, 12))
                                : "none",
                        ],
                    ],
                    "dl.pairs-list",
                ),
            ),
        ),
        card(
            "Environment",
            Object.keys(environment).length
                ? command(assignments(environment), true)
                : make("p.soft", {}, "Nothing beyond what every run gets."),
        ),
    );
}

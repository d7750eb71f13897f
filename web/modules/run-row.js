// SPDX-License-Identifier: Apache-2.0
// A run as a row of the list.
import { fill, make } from "./dom.js";
import { duration, moment, shape, since, slots, until } from "./format.js";
import { ran, waited } from "./run-list.js";
import { progressOf } from "./run-progress.js";
import { isFinal, isWaiting, stateBadge } from "./states.js";

/** The page of a run. */
export function runAddress(run) {
    return `/run.html?run=${run.run}`;
}

/**
 * Put `run` into its row. `choose` gets its number and whether it is selected. `reason`: why it waits, or failed;
 * `expected`: when it is expected to start, null where that is not known.
 */
export function putRun(row, run, { isSelected, choose, reason, expected }) {
    const told = isWaiting(run.state) || run.state === "failed" || run.state === "stopping";
    const whose = `${run.project} · ${run.owner} · ${slots(run.size, run.slot_kind)}`;
    const box = make("input", {
        type: "checkbox",
        "aria-label": `Select run ${run.run}`,
        onclick: (event) => choose(run.run, event.target.checked),
    });
    box.checked = isSelected;
    row.setAttribute("aria-selected", String(isSelected));
    row.onclick ??= (event) => open(event, run);
    fill(
        row,
        make("td.c-choose", {}, box),
        make("td.c-state", {}, stateBadge(run.state)),
        make("td.c-run.number", {}, run.run),
        make(
            "td.c-name",
            {},
            make(
                "div.name",
                {},
                make("a.cut", { href: runAddress(run), title: run.name }, run.name || `run ${run.run}`),
                told && make("span.reason.cut", { title: reason }, reason),
                run.state === "running" && progressOf(run),
            ),
        ),
        make("td.c-project.cut", { title: run.project }, run.project),
        make("td.c-owner.cut", { title: run.owner }, run.owner),
        make(
            "td.c-size.number",
            { title: `${run.nodes === 1 ? "" : `${run.nodes} nodes of `}${slots(run.slots, run.slot_kind)}` },
            shape(run),
        ),
        make("td.c-waited.number", {}, waiting(run)),
        make("td.c-ran.number", {}, running(run)),
        make("td.c-submitted.number", {}, moment(run.submitted)),
        make("td.c-more", {}, told && reason ? reason : ((run.state === "running" && progressOf(run)) || whose)),
        make(
            "td.c-when",
            {},
            !isWaiting(run.state) ? running(run) : expected > Date.now() ? until(expected) : ["waits ", waiting(run)],
        ),
    );
}

function open(event, run) {
    if (event.target.closest("a, .c-choose") || !getSelection().isCollapsed) return;
    if (event.ctrlKey || event.metaKey) window.open(runAddress(run));
    else location.assign(runAddress(run));
}

function waiting(run) {
    return isWaiting(run.state) ? since(run.waiting_since ?? run.submitted) : duration(waited(run) / 1000);
}

/* How long it has run: it goes on by itself while it runs. */
function running(run) {
    if (run.started === null && !run.served_ms) return make("span.soft", {}, "–");
    if (isFinal(run.state) || isWaiting(run.state) || run.state === "preempted") return duration(ran(run) / 1000);
    return since(run.started - (run.served_ms || 0));
}

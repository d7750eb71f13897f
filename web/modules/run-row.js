// SPDX-License-Identifier: Apache-2.0
// A run as a row of the list.
import { make } from "./dom.js";
import { duration, moment, shape, since, slots } from "./format.js";
import { ran, waited } from "./run-list.js";
import { isFinal, isWaiting, stateBadge } from "./states.js";

/** The row of `run`; `choose` gets its number and whether it is selected. `reason`: why it waits, or failed. */
export function runRow(run, isSelected, choose, reason) {
    const address = `/run.html?run=${run.run}`;
    const told = isWaiting(run.state) || run.state === "failed" || run.state === "stopping";
    const box = make("input", {
        type: "checkbox",
        "aria-label": `Select run ${run.run}`,
        onclick: (event) => {
            event.stopPropagation();
            choose(run.run, event.target.checked);
        },
    });
    box.checked = isSelected;
    return make(
        "tr",
        {
            onclick: (event) => {
                if (!event.target.closest("a, input") && getSelection().isCollapsed)
                    event.ctrlKey || event.metaKey ? window.open(address) : location.assign(address);
            },
        },
        make("td", { onclick: (event) => event.stopPropagation() }, box),
        make("td.c-state", {}, stateBadge(run.state)),
        make("td.c-run.number", {}, run.run),
        make(
            "td.c-name",
            {},
            make(
                "div.name",
                {},
                make("a.cut", { href: address, title: run.name }, run.name || `run ${run.run}`),
                told && make("span.reason.cut", { title: reason }, reason),
            ),
        ),
        make("td.cut", {}, run.project),
        make("td.cut", {}, run.owner),
        make(
            "td.number",
            { title: `${run.nodes === 1 ? "" : `${run.nodes} nodes of `}${slots(run.slots, run.slot_kind)}` },
            shape(run),
        ),
        make(
            "td.number",
            {},
            isWaiting(run.state) ? since(run.waiting_since ?? run.submitted) : duration(waited(run) / 1000),
        ),
        make("td.c-ran.number", {}, running(run)),
        make("td.number", {}, moment(run.submitted)),
        make("td.only-small", {}, `${run.project} · ${run.owner} · ${slots(run.size, run.slot_kind)}`),
    );
}

/* How long it has run: it goes on by itself while it runs. */
function running(run) {
    if (run.started === null && !run.served_ms) return make("span.soft", {}, "–");
    if (isFinal(run.state) || isWaiting(run.state) || run.state === "preempted") return duration(ran(run) / 1000);
    return since(run.started - (run.served_ms || 0));
}

// SPDX-License-Identifier: Apache-2.0
// The queue in the order in which the scheduler means to start it.
import { emptyPlace } from "./components.js";
import { make } from "./dom.js";
import { clock, shape, since, until } from "./format.js";
import { light } from "./cluster-slots.js";

const columns = [
    ["", "46px", "number"],
    ["Run", "84px", "number"],
    ["Name", "190px"],
    ["Project", "110px"],
    ["Slots", "74px", "number"],
    ["Waits", "100px", "number"],
    ["Expected to start", "170px"],
    ["Why it waits", ""],
];

export function queueTable(queue) {
    if (queue.length === 0) return emptyPlace("Nothing waits", "Whatever is submitted now starts as soon as it fits.");
    return make(
        "div.scroll",
        {},
        make(
            "table",
            { style: { "min-width": "980px" }, "aria-label": "Queue" },
            make(
                "thead",
                {},
                make(
                    "tr",
                    {},
                    columns.map(([title, width, kind]) =>
                        make("th", { scope: "col", class: kind ?? "", style: { width } }, title),
                    ),
                ),
            ),
            make("tbody", {}, queue.map(row)),
        ),
    );
}

function row(entry) {
    const known = entry.run !== null && entry.run !== undefined;
    return make(
        "tr",
        { onpointerenter: () => known && light(entry.run), onpointerleave: () => light(null) },
        make("td.number.soft", {}, entry.place),
        make("td.number", {}, known ? entry.run : "–"),
        make(
            "td.cut",
            {},
            known
                ? make(
                      "a",
                      { href: `/run.html?run=${entry.run}`, style: { "font-weight": 500 } },
                      entry.name || `run ${entry.run}`,
                  )
                : make("span.soft", {}, "a run of others"),
        ),
        make("td.cut", {}, entry.project ?? ""),
        make("td.number", {}, shape(entry)),
        make("td.number", {}, since(entry.since)),
        make(
            "td",
            {},
            entry.expected_start
                ? [
                      until(entry.expected_start),
                      entry.expected_start > Date.now() && make("span.soft", {}, ` ${clock(entry.expected_start)}`),
                  ]
                : make("span.soft", {}, "not known"),
        ),
        make("td.cut.soft", { title: entry.reason }, entry.reason?.replace(/; expected to start .*$/, "")),
    );
}

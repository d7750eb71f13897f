// SPDX-License-Identifier: Apache-2.0
// The queue in the order in which the scheduler means to start it.
import { emptyPlace } from "./components.js";
import { make } from "./dom.js";
import { clock, shape, since, until } from "./format.js";
import { light } from "./cluster-slots.js";

const columns = [
    ["", "44px", "number"],
    ["Run", "72px", "number"],
    ["Name", ""],
    ["Project", "16%"],
    ["Slots", "76px", "number"],
    ["Waits", "88px", "number"],
    ["Expected to start", "184px"],
];

export function queueTable(queue) {
    if (queue.length === 0) return emptyPlace("Nothing waits", "Whatever is submitted now starts as soon as it fits.");
    return make(
        "table.queue",
        { "aria-label": "Queue" },
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
        queue.map(entryRows),
    );
}

/** What waits, and below it, as wide as can be, why: a sentence that is to be read to its end. */
function entryRows(entry) {
    const known = entry.run !== null && entry.run !== undefined;
    return make(
        "tbody",
        { onpointerenter: () => known && light(entry.run), onpointerleave: () => light(null) },
        make(
            "tr",
            {},
            make("td.place.number.soft", {}, entry.place),
            make("td.run.number", {}, known ? entry.run : "–"),
            make(
                "td.name.cut",
                {},
                known
                    ? make(
                          "a",
                          { href: `/run.html?run=${entry.run}`, title: entry.name, style: { "font-weight": 500 } },
                          entry.name || `run ${entry.run}`,
                      )
                    : make("span.soft", {}, "a run of others"),
            ),
            make("td.project.cut", {}, entry.project ?? ""),
            make("td.slots-asked.number", {}, shape(entry)),
            make("td.waits.number", {}, since(entry.since)),
            make("td.expected", {}, expected(entry.expected_start)),
        ),
        entry.reason &&
            make(
                "tr",
                {},
                make("td", { colspan: 2 }),
                make("td.reason", { colspan: columns.length - 2 }, shortened(entry.reason)),
            ),
    );
}

function expected(time) {
    if (!time) return make("span.soft", {}, "not known");
    return [until(time), time > Date.now() && make("span.soft", {}, ` ${clock(time)}`)];
}

/** Without what the last column tells. */
function shortened(reason) {
    return reason.replace(/; expected to start .*$/, "");
}

// SPDX-License-Identifier: Apache-2.0
// The queue in the order in which the scheduler means to start it.
import { emptyPlace } from "./components.js";
import { fill, make } from "./dom.js";
import { clock, shape, since, until, whole } from "./format.js";
import { light } from "./cluster-slots.js";

const columns = [
    ["", "place", "number"],
    ["Run", "run", "number"],
    ["Name", "name"],
    ["Project", "project"],
    ["Owner", "owner"],
    ["Slots", "slots-asked", "number"],
    ["Waited", "waits", "number"],
    ["Expected to start", "expected"],
];
const shownFirst = 20;
const step = 1000;
const serverMost = 10000; // entries of a page

/** The queue; its first entries, until more are asked for. `ask` reads it again, with `most` entries. */
export class Queue {
    constructor(ask) {
        this.element = make("div", { style: { "margin-top": "8px" } });
        this.ask = ask;
        this.all = false;
        this.most = step;
    }

    /** `queue` are the first of `waiting`. */
    show(queue, waiting) {
        this.queue = queue;
        this.waiting = waiting;
        if (queue.length === 0) {
            fill(this.element, emptyPlace("Nothing waits", "Whatever is submitted now starts as soon as it fits."));
            return;
        }
        const rest = this.all ? 0 : queue.length - shownFirst;
        fill(
            this.element,
            make(
                "table.queue",
                { "aria-label": "Queue" },
                make(
                    "thead",
                    {},
                    make(
                        "tr",
                        {},
                        columns.map(([title, name, kind]) =>
                            make("th", { scope: "col", class: `${name} ${kind ?? ""}` }, title),
                        ),
                    ),
                ),
                (rest > 0 ? queue.slice(0, shownFirst) : queue).map(entryRows),
            ),
            rest > 0 &&
                make(
                    "div.more",
                    {},
                    make(
                        "button.button.small",
                        { type: "button", "data-key": "all", onclick: () => this.showAll() },
                        queue.length < waiting
                            ? `Show ${whole(queue.length)} of ${whole(waiting)}`
                            : `Show all ${whole(queue.length)}`,
                    ),
                ),
            rest <= 0 && queue.length < waiting && this.foot(),
        );
    }

    /** How much of the queue is shown, and a way to more of it. */
    foot() {
        const shown = `Showing ${whole(this.queue.length)} of ${whole(this.waiting)}. `;
        const further = () => {
            this.most += step;
            this.ask();
        };
        return make(
            "div.more",
            {},
            make("span.soft", {}, shown),
            this.most < serverMost
                ? make("button.button.small", { type: "button", "data-key": "more", onclick: further }, "Show more")
                : make("span.soft", {}, "weft queue --all lists all."),
        );
    }

    showAll() {
        this.all = true;
        this.show(this.queue, this.waiting);
        this.element.querySelectorAll("tbody")[shownFirst]?.querySelector("a")?.focus({ preventScroll: true });
    }
}

/** What waits, and below it, as wide as can be, why: a text that is to be read to its end. */
function entryRows(entry) {
    const known = entry.run !== null && entry.run !== undefined;
    const address = `/run.html?run=${entry.run}`;
    const open = (event) => {
        if (event.target.closest("a") || !getSelection().isCollapsed) return;
        if (event.ctrlKey || event.metaKey) window.open(address);
        else location.assign(address);
    };
    return make(
        "tbody",
        {
            class: known ? "known" : "",
            onclick: known && open,
            onpointerenter: () => known && light(entry.run),
            onpointerleave: () => light(null),
        },
        make(
            "tr",
            {},
            make("td.place.number.soft", {}, entry.place),
            make("td.run.number", {}, known ? entry.run : "–"),
            make(
                "td.name",
                {},
                known
                    ? make("a.cut", { href: address, title: entry.name }, entry.name || `run ${entry.run}`)
                    : make("span.soft", {}, "a run of others"),
            ),
            make("td.project.cut", { title: entry.project }, entry.project ?? ""),
            make("td.owner.cut", { title: entry.owner }, entry.owner ?? ""),
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
    return [until(time), time > Date.now() && make("span.soft.clock", {}, ` ${clock(time)}`)];
}

/** Without what the last column tells. */
function shortened(reason) {
    return reason.replace(/; expected to start .*$/, "");
}

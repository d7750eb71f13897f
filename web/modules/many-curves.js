// SPDX-License-Identifier: Apache-2.0
// The curves of a run with more metrics than one page of the server's list: a group for each prefix, which can be opened
// and closed, and shows a few more curves at a time.
import { get } from "./api.js";
import { wrongPlace } from "./components.js";
import { fill, make } from "./dom.js";
import { several, whole } from "./format.js";

const page = 30; // curves that one press of a button adds
const openAtFirst = 1; // groups

const ranks = new Map([
    ["train", 0],
    ["", 1],
    ["validation", 2],
    ["system", 9],
]);

/** The place of a group among others: what is trained comes first, the machine last. */
export function rank(group) {
    return ranks.get(group.split("/")[0]) ?? 5;
}

export class ManyCurves {
    /** `curveOf` gives the curve of a metric as the server lists it. */
    constructor(run, curveOf) {
        this.run = run;
        this.curveOf = curveOf;
        this.parts = new Map(); // prefix -> part
        this.count = make("p.soft");
        this.list = make("div.stack");
        this.rest = make("p.soft", { hidden: true });
        this.element = make("div.stack", { "data-many": "" }, this.count, this.list, this.rest);
        this.words = null;
    }

    ask(parameters) {
        return get(`/runs/${this.run}/metrics`, { search: this.words || null, ...parameters });
    }

    /** Show what there is now of the metrics whose names contain `words`; "": all. */
    async refresh(words) {
        const changed = words !== this.words;
        this.words = words;
        let answer;
        try {
            answer = await this.ask({ most: 1 });
        } catch (error) {
            fill(this.list, make("div.card", {}, wrongPlace(error)));
            return;
        }
        if (words !== this.words) return; // other words have been typed since
        if (changed) this.parts.clear();
        const prefixes = answer.prefixes.sort(
            (one, other) => rank(one.prefix) - rank(other.prefix) || one.prefix.localeCompare(other.prefix),
        );
        const found = words ? `${whole(answer.matching)} of ${several(answer.total, "metric")} have this name.` : null;
        fill(this.count, found ?? `${several(answer.total, "metric")}, by the first part of their names.`);
        this.rest.hidden = answer.prefixes_left_out === 0;
        fill(this.rest, `${several(answer.prefixes_left_out, "more group")}: search for a name to see them.`);
        for (const { prefix, metrics } of prefixes) this.part(prefix).size = metrics;
        const shape = JSON.stringify(prefixes.map(({ prefix }) => prefix));
        if (changed || shape !== this.shape) {
            this.shape = shape;
            fill(
                this.list,
                prefixes.map(({ prefix }) => this.part(prefix).element),
            );
        }
        if (changed) prefixes.slice(0, openAtFirst).forEach(({ prefix }) => this.toggle(this.part(prefix), true));
        for (const part of this.parts.values()) {
            fill(part.said, several(part.size, "curve"));
            this.tellMore(part);
        }
    }

    part(prefix) {
        if (!this.parts.has(prefix)) {
            const part = { prefix, size: 0, shown: 0, last: null, loading: false };
            part.said = make("span.soft.small");
            part.curves = make("div.curves");
            part.more = make("button.plain", { type: "button", hidden: true, onclick: () => this.load(part) });
            part.body = make("div.stack", { hidden: true }, part.curves, part.more);
            part.button = make(
                "button.plain",
                { type: "button", "aria-expanded": "false", onclick: () => this.toggle(part, part.body.hidden) },
                prefix || "Metrics",
                " ",
                part.said,
            );
            part.element = make("section.group", { "data-prefix": prefix }, make("h2", {}, part.button), part.body);
            this.parts.set(prefix, part);
        }
        return this.parts.get(prefix);
    }

    toggle(part, open) {
        part.body.hidden = !open;
        part.button.setAttribute("aria-expanded", String(open));
        if (open && part.shown === 0) this.load(part);
    }

    /* The next curves of a part. */
    async load(part) {
        if (part.loading) return;
        part.loading = true;
        try {
            const answer = await this.ask({ prefix: part.prefix || "/", after: part.last, most: page });
            for (const metric of answer.metrics) part.curves.append(this.curveOf(metric).element);
            part.shown += answer.metrics.length;
            part.last = answer.metrics.at(-1)?.name ?? part.last;
        } catch (error) {
            part.curves.append(wrongPlace(error));
        }
        part.loading = false;
        this.tellMore(part);
    }

    tellMore(part) {
        part.more.hidden = part.shown === 0 || part.shown >= part.size;
        fill(part.more, `${whole(part.shown)} of ${several(part.size, "curve")} are shown: show ${page} more`);
    }
}

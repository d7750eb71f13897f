// SPDX-License-Identifier: Apache-2.0
// The ledger of a project: a row for each posting, which opens to its entries.
import { get, pathOf } from "./api.js";
import { attempt, emptyPlace, skeleton, tell, wrongPlace } from "./components.js";
import { fill, make } from "./dom.js";
import { clock, minutes, moment } from "./format.js";
import { ledgerRows, postingsOf } from "./ledger-rows.js";

const page = 120; // entries: two or three for each posting
const heads = [
    ["Time", "time"],
    ["What", "what"],
    ["By", "by"],
    ["Amount", "amount number"],
    ["", "opens"],
];

/** What was posted, newest first, a page at a time. refresh() asks for what is new. */
export class Ledger {
    constructor(project, unit) {
        this.path = `${pathOf(project)}/ledger`;
        this.postings = [];
        this.opened = new Set();
        this.body = make("tbody", {});
        this.more = make(
            "button.button.small",
            { type: "button", onclick: () => attempt(this.more, () => this.next()) },
            "Older entries",
        );
        this.foot = make("div.more", { hidden: true }, this.more);
        this.table = make(
            "table.ledger",
            { "aria-label": "Ledger", hidden: true },
            make(
                "thead",
                {},
                make(
                    "tr",
                    {},
                    heads.map(([title, kind]) => make("th", { scope: "col", class: kind }, title)),
                ),
            ),
            this.body,
        );
        this.outcome = make("div", {}, skeleton("240px"));
        this.element = make(
            "section.card",
            {},
            make("header", {}, make("h2", {}, "Ledger"), make("span.soft", {}, `in ${unit}`)),
            make("div", { style: { "margin-top": "8px" } }, this.outcome, this.table),
            this.foot,
        );
        this.next().catch((error) => fill(this.outcome, wrongPlace(error)));
    }

    async next() {
        const answer = await get(this.path, { before: this.postings.at(-1)?.posting ?? null, most: page });
        this.postings.push(...postingsOf(answer.entries));
        this.foot.hidden = !answer.more;
        this.draw();
    }

    async refresh() {
        try {
            const answer = await get(this.path, { most: page });
            const newest = this.postings[0]?.posting ?? 0;
            const fresh = postingsOf(answer.entries).filter(({ posting }) => posting > newest);
            if (fresh.length === 0) return;
            const hangsTogether = newest === 0 || answer.entries.some(({ posting }) => posting === newest);
            this.postings = hangsTogether ? [...fresh, ...this.postings] : fresh;
            if (!hangsTogether) this.foot.hidden = !answer.more;
            this.draw();
        } catch (error) {
            if (error.status) tell(error.message, true); // without a server the top says so
        }
    }

    draw() {
        const rows = ledgerRows(this.postings);
        this.table.hidden = rows.length === 0;
        fill(
            this.outcome,
            rows.length === 0 &&
                emptyPlace("Nothing has been posted yet", "What is granted, held and used is written down here."),
        );
        fill(
            this.body,
            rows.map((row) => [this.row(row), this.opened.has(row.key) && parts(row)]),
        );
    }

    row(row) {
        const isOpen = this.opened.has(row.key);
        return make(
            "tr",
            {},
            make("td.time.soft", {}, moment(row.time)),
            make("td.what", {}, row.text, row.detail && make("span.soft.detail", {}, row.detail)),
            make("td.by.cut", {}, row.actor || make("span.soft", {}, "the platform")),
            make("td.amount.number", {}, row.change === null ? "" : signed(row.change)),
            make(
                "td.opens",
                {},
                make(
                    "button.plain.small",
                    {
                        type: "button",
                        "data-key": row.key,
                        "aria-expanded": String(isOpen),
                        "aria-label": "Entries",
                        title: "Entries",
                        onclick: () => this.toggle(row.key),
                    },
                    isOpen ? "−" : "+",
                ),
            ),
        );
    }

    toggle(key) {
        if (!this.opened.delete(key)) this.opened.add(key);
        this.draw();
    }
}

/* Between which accounts: what goes out of one comes into another. */
function parts(row) {
    return make(
        "tr.parts",
        {},
        make("td.time"),
        make(
            "td",
            { colspan: 3 },
            make(
                "dl",
                {},
                row.parts.map(([name, amount]) => [
                    make("dt", {}, typeof name === "number" ? clock(name, true) : name),
                    make("dd.number", {}, signed(amount)),
                ]),
            ),
        ),
    );
}

function signed(amount) {
    return amount > 0 ? `+${minutes(amount)}` : minutes(amount);
}

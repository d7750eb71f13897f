// SPDX-License-Identifier: Apache-2.0
// The ledger of a project.
import { get, pathOf } from "./api.js";
import { attempt, emptyPlace, wrongPlace } from "./components.js";
import { fill, make } from "./dom.js";
import { minutes, moment } from "./format.js";

/** What was posted, newest first, a page at a time. */
export function ledgerCard(project, unit) {
    const body = make("tbody");
    const more = make(
        "button.button.small",
        { type: "button", hidden: true, onclick: () => attempt(more, next) },
        "Older entries",
    );
    const foot = make("div", { style: { padding: "12px 16px", "text-align": "center" } }, more);
    const heads = [
        ["Time", "130px"],
        ["What", "120px"],
        ["Account", "150px"],
        ["Amount", "120px", "number"],
        ["Run", "90px", "number"],
        ["By", "124px"],
        ["Remark", ""],
    ];
    let before = null;
    async function next() {
        const { entries, more: rest } = await get(`${pathOf(project)}/ledger`, { before, most: 60 });
        before = entries.at(-1)?.posting ?? before;
        body.append(
            ...entries.map((entry) =>
                make(
                    "tr",
                    {},
                    make("td.soft", {}, moment(entry.time)),
                    make("td", {}, entry.kind),
                    make("td.cut", {}, entry.user ? `${entry.user}’s` : entry.account),
                    make("td.number", {}, `${entry.amount > 0 ? "+" : ""}${minutes(entry.amount)}`),
                    make(
                        "td.number",
                        {},
                        entry.run ? make("a", { href: `/run.html?run=${entry.run}` }, entry.run) : "",
                    ),
                    make("td.cut", {}, entry.actor || make("span.soft", {}, "the platform")),
                    make("td.cut.soft", { title: entry.detail }, entry.detail),
                ),
            ),
        );
        more.hidden = !rest;
        foot.hidden = !rest;
        if (body.children.length === 0)
            fill(
                card,
                make("header", {}, make("h2", {}, "Ledger")),
                emptyPlace("Nothing has been posted yet", "What is granted, held and used is written down here."),
            );
    }
    const card = make(
        "section.card",
        {},
        make(
            "header",
            {},
            make("h2", {}, "Ledger"),
            make("span.soft", {}, `in ${unit}; what goes out of an account comes into another`),
        ),
        make(
            "div.scroll",
            { style: { "margin-top": "8px" } },
            make(
                "table",
                { style: { "min-width": "820px" }, "aria-label": "Ledger" },
                make(
                    "thead",
                    {},
                    make(
                        "tr",
                        {},
                        heads.map(([title, width, kind]) =>
                            make("th", { scope: "col", class: kind ?? "", style: { width } }, title),
                        ),
                    ),
                ),
                body,
            ),
        ),
        foot,
    );
    next().catch((error) => fill(card, wrongPlace(error)));
    return card;
}

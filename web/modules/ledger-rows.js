// SPDX-License-Identifier: Apache-2.0
// What has been posted in a project's ledger, a line of text for each posting.
import { make } from "./dom.js";
import { minutes, several } from "./format.js";

/** The server's entries, newest first, as postings: [{posting, time, kind, run, actor, detail, entries}]. */
export function postingsOf(entries) {
    const postings = new Map();
    for (const entry of entries) {
        const { posting, time, kind, run, actor, detail } = entry;
        if (!postings.has(posting)) postings.set(posting, { posting, time, kind, run, actor, detail, entries: [] });
        postings.get(posting).entries.push(entry);
    }
    return [...postings.values()];
}

/**
 * As they are shown: what a budget has grown by in a day is one row, however often it was posted. Rows have a `key`,
 * `change` (of what the project can spend, null: that stays), `text` (a list for make()) and `parts` ([name, amount]).
 */
export function ledgerRows(postings) {
    const days = new Map();
    const rows = [];
    for (const posting of postings) {
        if (posting.kind !== "accrual") {
            rows.push(rowOf(posting));
            continue;
        }
        const day = new Date(posting.time).toDateString();
        if (!days.has(day)) {
            days.set(day, { key: day, time: posting.time, actor: "", detail: "", change: 0, parts: [] });
            rows.push(days.get(day));
        }
        const row = days.get(day);
        row.change += available(posting);
        row.parts.push([posting.time, available(posting)]);
        row.text = [
            "Grew with time",
            row.parts.length > 1 && make("span.soft", {}, `, ${several(row.parts.length, "posting")}`),
        ];
    }
    return rows;
}

function rowOf(posting) {
    const { kind, run, entries } = posting;
    const out = entries.find(({ amount }) => amount < 0);
    const into = entries.find(({ amount }) => amount > 0);
    const spent = amountOf(entries, "spent");
    const link = () => make("a.link", { href: `/run.html?run=${run}` }, `run ${run}`);
    const back = -amountOf(entries, "held") - spent;
    const text = {
        grant: () => [amountOf(entries, "pool") < 0 ? "Taken from the pool" : "Granted to the pool"],
        transfer: () => [`${minutes(Math.abs(into?.amount ?? 0))} from ${accountName(out)} to ${accountName(into)}`],
        hold: () => [`${minutes(amountOf(entries, "held"))} held for `, link()],
        settlement: () => [link(), ` used ${minutes(spent)}`, back > 0 && `, ${minutes(back)} came back`],
        refund: () => [`${minutes(-spent)} given back for `, link()],
    }[kind];
    const change = available(posting);
    return {
        key: String(posting.posting),
        time: posting.time,
        actor: posting.actor,
        detail: posting.detail,
        text: text?.() ?? [kind],
        change: kind === "transfer" || entries.every(({ account }) => !isOwn(account)) ? null : change,
        parts: entries.map((entry) => [accountName(entry), entry.amount]),
    };
}

function isOwn(account) {
    return account === "pool" || account === "member";
}

/* How much more the project can spend after it. */
function available({ entries }) {
    return entries.reduce((sum, { account, amount }) => sum + (isOwn(account) ? amount : 0), 0);
}

function amountOf(entries, wanted) {
    return entries.reduce((sum, { account, amount }) => sum + (account === wanted ? amount : 0), 0);
}

function accountName(entry) {
    if (!entry) return "nobody";
    if (entry.user) return entry.user;
    const names = { pool: "the pool", held: "what is held", spent: "what is spent", source: "outside" };
    return names[entry.account] ?? entry.account;
}

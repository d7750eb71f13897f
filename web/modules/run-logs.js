// SPDX-License-Identifier: Apache-2.0
// What a run has printed: the newest lines first seen, older ones on demand, new ones as they come.
import { get } from "./api.js";
import { searchField, selection } from "./components.js";
import { fill, make, whenQuiet } from "./dom.js";
import { seconds, several } from "./format.js";
import * as live from "./live.js";
import { isFinal } from "./states.js";

const page = 500;
const kept = 5000; // lines on the page; the oldest go
const escapes = /\x1b(?:\[[0-9;?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)|[@-Z\\-_])/g;

/** The panel; `run` is a number, `now` gives the run as it is. */
export function logsPanel(run, now) {
    const filter = { search: "", rank: "", node: "", stream: "", attempt: "" };
    let first = null; // cursors of the oldest and newest lines that are shown
    let last = null;
    let older = false;
    let following = true;
    let turn = 0;
    let busy = false;

    const log = make("div.log", { tabindex: 0, role: "log", "aria-label": "Output", onscroll: scrolled });
    const tail = make("div.log-tail");
    const ask = (more) => get(`/runs/${run}/logs`, { ...filter, most: page, ...more });

    function controls() {
        const specification = now();
        const ranks = Math.min(specification?.size ?? 1, 1024);
        const numbers = (count, word) =>
            Array.from({ length: count }, (unused, number) => [number, `${word} ${number}`]);
        const change = (key) => (value) => {
            filter[key] = value;
            start();
        };
        return make(
            "div.controls",
            { style: { padding: "12px 16px" } },
            make(
                "div",
                { style: { flex: "1 1 220px", "max-width": "380px" } },
                searchField("Search the output", "", whenQuiet(200, change("search"))),
            ),
            ranks > 1 && selection("Rank", [["", "All ranks"], ...numbers(ranks, "Rank")], "", change("rank")),
            specification?.nodes > 1 &&
                selection("Node", [["", "All nodes"], ...numbers(specification.nodes, "Node")], "", change("node")),
            selection(
                "Stream",
                [
                    ["", "Output and errors"],
                    ["1", "Output"],
                    ["2", "Errors"],
                ],
                "",
                change("stream"),
            ),
            specification?.attempts?.length > 1 &&
                selection(
                    "Attempt",
                    [["", "All attempts"], ...specification.attempts.map(({ epoch }) => [epoch, `Attempt ${epoch}`])],
                    "",
                    change("attempt"),
                ),
        );
    }

    async function start() {
        const mine = ++turn;
        try {
            const answer = await ask({});
            if (mine !== turn) return;
            first = answer.lines[0]?.cursor ?? null;
            last = answer.lines.at(-1)?.cursor ?? null;
            older = answer.more;
            fill(log, answer.lines.map(line));
            following = true;
            toEnd();
        } catch (error) {
            fill(log, make("p.empty", {}, error.message));
        }
        tell();
    }

    async function earlier() {
        if (busy || !older) return;
        busy = true;
        const mine = turn;
        try {
            const answer = await ask({ before: first });
            if (mine === turn) {
                const height = log.scrollHeight - log.scrollTop;
                older = answer.more;
                first = answer.lines[0]?.cursor ?? first;
                log.prepend(...answer.lines.map(line));
                log.scrollTop = log.scrollHeight - height;
            }
        } catch {
            older = false;
        }
        busy = false;
        tell();
    }

    /* New lines, as long as there are any. */
    async function later() {
        if (busy || !following) return;
        busy = true;
        const mine = turn;
        try {
            for (let more = true; more && mine === turn;) {
                const answer = last === null ? await ask({}) : await ask({ after: last });
                if (mine !== turn) break;
                more = last !== null && answer.more;
                first ??= answer.lines[0]?.cursor ?? null;
                last = answer.lines.at(-1)?.cursor ?? last;
                log.append(...answer.lines.map(line));
                while (log.children.length > kept) {
                    log.firstChild.remove();
                    older = true;
                }
                first = log.firstChild?.dataset?.cursor ?? first;
                toEnd();
            }
        } catch {
            // The next event asks again.
        }
        busy = false;
        tell();
    }

    function line(entry) {
        const text = entry.text.replace(escapes, "");
        const from = entry.rank === null || entry.rank === undefined ? `node ${entry.node}` : `rank ${entry.rank}`;
        return make(
            "div.log-line",
            { class: entry.stream === 2 ? "error" : "", "data-cursor": entry.cursor },
            make("time", { title: new Date(entry.time).toISOString() }, seconds(entry.time)),
            make("span.from", { title: `node ${entry.node}` }, narrow.matches ? (entry.rank ?? "") : from),
            make("span.text", {}, marked(text)),
        );
    }

    function marked(text) {
        const wanted = filter.search.toLowerCase();
        if (!wanted) return text;
        const parts = [];
        for (let from = 0, at; ; from = at + wanted.length) {
            at = text.toLowerCase().indexOf(wanted, from);
            if (at < 0) return [...parts, text.slice(from)];
            parts.push(text.slice(from, at), make("mark", {}, text.slice(at, at + wanted.length)));
        }
    }

    function toEnd() {
        if (following) log.scrollTop = log.scrollHeight;
    }

    function scrolled() {
        const atEnd = log.scrollHeight - log.scrollTop - log.clientHeight < 30;
        if (atEnd !== following) {
            following = atEnd;
            tell();
            if (following) later();
        }
        if (log.scrollTop < 400) earlier();
    }

    function tell() {
        const ended = isFinal(now()?.state ?? "");
        if (log.children.length === 0)
            fill(
                log,
                make(
                    "p.empty",
                    {},
                    Object.values(filter).some(Boolean)
                        ? "No line is like that."
                        : ended
                          ? "It has printed nothing."
                          : "Nothing has been printed yet.",
                ),
            );
        const lines = log.querySelectorAll(".log-line").length;
        fill(
            tail,
            make("span", {}, `${several(lines, "line")}${older ? ", older ones above" : ""}`),
            make(
                "span",
                { style: { "margin-left": "auto" } },
                ended ? "The run has ended." : following ? "Following." : "Paused.",
            ),
            !ended &&
                following &&
                make(
                    "button.plain.small",
                    {
                        type: "button",
                        onclick: () => {
                            following = false;
                            tell();
                        },
                    },
                    "Pause",
                ),
            !following &&
                make(
                    "button.button.small",
                    {
                        type: "button",
                        onclick: () => {
                            following = true;
                            toEnd();
                            later();
                        },
                    },
                    ended ? "To the end" : "Follow",
                ),
        );
    }

    live.on("logs", (event) => event.run === run && log.isConnected && later());
    live.on("again", () => log.isConnected && later());
    start();
    return make("div.card", {}, controls(), log, tail);
}

const narrow = matchMedia("(max-width: 760px)");

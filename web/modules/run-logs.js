// SPDX-License-Identifier: Apache-2.0
// What a run has printed: the newest lines first seen, older ones on demand, new ones as they come.
import { get } from "./api.js";
import { attempt, drawing, searchField, selection } from "./components.js";
import { fill, make, whenQuiet } from "./dom.js";
import { seconds, several } from "./format.js";
import * as live from "./live.js";
import { downloadLog } from "./log-download.js";
import { LogStream, withoutEscapes } from "./log-stream.js";
import { isFinal } from "./states.js";

const page = 500;
const leastHeight = 300; // pixels
const belowPage = 25; // and what is below the log
const kept = 5000; // lines on the page; the oldest go

/** The panel; `run` is a number, `now` gives the run as it is. */
export function logsPanel(run, now) {
    const filter = { search: "", rank: "", node: "", stream: "", attempt: "" };
    let first = null; // before this cursor are the lines that are older than those that are shown
    let last = null; // and after this one what is newer
    let older = false;
    let loaded = false; // the newest lines were there once
    let following = true;
    let complete = false; // nothing comes any more
    let behind = false; // lines may have come that nobody has asked for
    let catchingUp = false; // those are on their way
    let seen = false;
    let lost = false;
    let turn = 0;
    let busy = false;
    let shownAt = 0; // how far it was scrolled
    let coming = []; // lines that are shown with the next frame

    const ended = () => isFinal(now()?.state ?? "");
    const log = make("div.log", { tabindex: 0, role: "log", "aria-label": "Output", onscroll: scrolled });
    const counted = make("span");
    const told = make("span", { style: { "margin-left": "auto" } });
    const turned = make(
        "button.button.small",
        { type: "button", onclick: () => (following ? pause() : resume()) },
        "Pause",
    );
    const tail = make("div.log-tail", {}, counted, told, turned);
    const saved = make("span.only-wide", {}, "Download");
    const saving = make(
        "button.button.saving",
        { type: "button", title: "These lines from the first on, as a file", "aria-label": "Download", onclick: save },
        drawing("download"),
        saved,
    );
    const ask = (more) => get(`/runs/${run}/logs`, { ...filter, most: page, ...more });
    const stream = new LogStream(run, ended, take, (state) => {
        lost = state === "lost";
        complete = state === "over";
        tell();
    });

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
            saving,
        );
    }

    async function save() {
        const all = Array.from({ length: now()?.epoch ?? 0 }, (unused, index) => index + 1);
        await attempt(saving, () =>
            downloadLog(run, filter.attempt ? [Number(filter.attempt)] : all, filter, (count) =>
                fill(saved, several(count, "line")),
            ),
        );
        fill(saved, "Download");
    }

    /* The newest lines, and what comes after them. */
    async function start() {
        const mine = ++turn;
        stream.end();
        loaded = false;
        const final = ended();
        try {
            const answer = await ask({});
            if (mine !== turn) return;
            complete = final;
            first = answer.before;
            last = answer.after;
            older = answer.more;
            coming = [];
            fill(log, answer.lines.map(line));
            loaded = following = true;
            behind = lost = false;
            toEnd();
        } catch (error) {
            if (mine !== turn) return;
            fill(log, make("p.empty", { role: "alert" }, error.message));
            lost = error.status === 0 || error.status >= 500;
            if (lost) setTimeout(() => mine === turn && start(), 3000);
        }
        tell();
        steer();
        fillUp();
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
                first = answer.before ?? first;
                log.querySelector(".empty")?.remove();
                log.prepend(...answer.lines.map(line));
                log.scrollTop = log.scrollHeight - height;
            }
        } catch {
            // Scrolling asks again.
        }
        busy = false;
        tell();
    }

    /* A page of lines that are searched may hold few of them. */
    async function fillUp() {
        const isShort = () => log.clientHeight > 0 && log.scrollHeight <= log.clientHeight;
        for (const mine = turn; mine === turn && older && loaded && isShort();) {
            const before = first;
            await earlier();
            if (first === before) return;
        }
    }

    /* Get what comes while somebody looks at its end, and not otherwise. */
    function steer() {
        const wanted = loaded && following && seen && !document.hidden;
        if (!wanted) {
            behind = behind || (loaded && !complete);
            stream.end();
        } else if (catchingUp || stream.isOn) {
            return; // another request from the same line on would show lines twice
        } else if (behind) {
            catchUp();
        } else if (!complete) {
            stream.begin({ ...filter }, last);
        }
    }

    /* What came meanwhile: all of it if it is little, or else the newest. */
    async function catchUp() {
        const mine = turn;
        behind = false;
        catchingUp = true;
        const answer = last === null ? { more: true } : await ask({ after: last }).catch(() => null);
        catchingUp = false;
        if (mine !== turn) {
            steer();
            return;
        }
        lost = answer === null;
        if (lost) {
            behind = true;
            tell();
            setTimeout(steer, 3000);
            return;
        }
        if (answer.more) {
            await start();
            return;
        }
        last = answer.after ?? last;
        take(answer.lines);
        tell();
        steer();
    }

    function take(entries) {
        if (entries.length === 0) return;
        last = entries.at(-1).cursor;
        if (coming.length === 0) requestAnimationFrame(show);
        coming = [...coming, ...entries].slice(-kept);
    }

    function show() {
        const entries = coming;
        coming = [];
        if (entries.length === 0) return;
        log.querySelector(".empty")?.remove();
        log.append(...entries.map(line));
        if (log.children.length > kept) older = true;
        while (log.children.length > kept) log.firstChild.remove();
        if (older || first === null) first = log.firstChild.dataset.cursor;
        toEnd();
        tell();
    }

    function pause() {
        following = false;
        steer();
        tell();
    }

    function resume() {
        following = true;
        toEnd();
        steer();
        tell();
    }

    function line(entry) {
        const text = withoutEscapes(entry.text);
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
        if (atEnd && !following) resume();
        else if (!atEnd && following && log.scrollTop < shownAt) pause();
        shownAt = log.scrollTop;
        if (log.scrollTop < 400) earlier();
    }

    function tell() {
        if (log.children.length === 0)
            fill(
                log,
                make(
                    "p.empty",
                    {},
                    Object.values(filter).some(Boolean)
                        ? "No line is like that."
                        : ended()
                          ? "It has printed nothing."
                          : "Nothing has been printed yet.",
                ),
            );
        const shown = log.querySelectorAll(".log-line").length;
        fill(counted, `${several(shown, "line")}${older ? ", older ones above" : ""}`);
        fill(
            told,
            lost
                ? "Not connected. It goes on by itself."
                : complete
                  ? "The run has ended."
                  : following
                    ? "Following."
                    : "Paused.",
        );
        fill(turned, following ? "Pause" : complete ? "To the end" : "Follow");
        turned.hidden = complete && following;
    }

    /* As high as there is room for below what stands above it. */
    function fit() {
        if (!log.isConnected) return;
        const room = innerHeight - (log.getBoundingClientRect().top + scrollY) - tail.offsetHeight - belowPage;
        const height = `${Math.max(leastHeight, Math.floor(room))}px`;
        if (log.style.height === height) return;
        log.style.height = height;
        toEnd();
    }

    function again() {
        if (!loaded) start();
        else if (stream.isOn) stream.anew();
        else steer();
    }

    live.on("again", again);
    live.on("run", (event) => event.run === run && loaded && (steer(), tell()));
    document.addEventListener("visibilitychange", steer);
    new IntersectionObserver((entries) => {
        seen = entries.at(-1).isIntersecting;
        steer();
    }).observe(log);
    addEventListener("resize", fit);
    new ResizeObserver(fit).observe(document.body);
    start();
    return make("div.card", {}, controls(), log, tail);
}

const narrow = matchMedia("(max-width: 760px)");

// SPDX-License-Identifier: Apache-2.0
// The list of all runs.
import { get } from "./api.js";
import { atMostEvery, fill, isTyping, make, query, whenQuiet } from "./dom.js";
import { emptyPlace, searchField, selection, tell } from "./components.js";
import { whole } from "./format.js";
import { frame } from "./frame.js";
import * as live from "./live.js";
import { Rows } from "./rows.js";
import { RunList } from "./run-list.js";
import { runRow } from "./run-row.js";
import { fillSelection } from "./run-selection.js";
import { isFinal, isWaiting, stateNames, stateSign, tone } from "./states.js";

const columns = [
    ["state", "State", "130px"],
    ["run", "Run", "78px", "number"],
    ["name", "Name", ""],
    ["project", "Project", "112px"],
    ["owner", "Owner", "96px"],
    ["size", "Slots", "84px", "number"],
    ["waited", "Waited", "96px", "number"],
    ["ran", "Ran", "104px", "number"],
    ["submitted", "Submitted", "126px", "number"],
];

const queueMost = 1000;
const reasons = new Map(); // run -> its entry in the queue
let about = null;
let filter = {};
let active = -1;
const selected = new Set();
const list = new RunList(
    () => about && draw(),
    (error) => about && tell(error.message, true),
);
const place = {};

async function run() {
    const { sort, down, ...wanted } = query();
    filter = wanted;
    if (columns.some(([key]) => key === sort))
        list.sort = { key: sort === "submitted" ? "run" : sort, descending: down !== "no" };
    list.load(filter); // while the server is asked who is there
    const made = await frame("runs", "Runs");
    if (!made) return;
    about = made.server;
    build(made.main);
    draw();
    fillProjects();
    live.on("run", (run) => {
        list.take(run);
        drawSoon();
    });
    live.on("again", () => list.load(filter));
    live.on("queue", atMostEvery(3000, readQueue));
    readQueue();
    addEventListener("keydown", keys);
}

function build(main) {
    place.chips = make("div.chips", { role: "group", "aria-label": "States" });
    place.search = searchField(
        "Search runs, or the number of one",
        filter.search,
        whenQuiet(150, (text) => refine({ search: text })),
    );
    place.project = selection("Project", [["", "All projects"]], filter.project, (value) => refine({ project: value }));
    place.owner = make("input.field", {
        placeholder: "Owner",
        "aria-label": "Owner",
        list: "owners",
        size: 12,
        value: filter.owner ?? "",
        autocomplete: "off",
        onchange: (event) => refine({ owner: event.target.value.trim() }),
    });
    place.mine = make(
        "button.plain",
        { type: "button", onclick: () => refine({ owner: filter.owner === about.user ? "" : about.user }) },
        "Mine",
    );
    place.owners = make("datalist", { id: "owners" });
    place.summary = make("span.soft", { "aria-live": "polite" });
    place.head = make(
        "thead",
        {},
        make(
            "tr",
            {},
            make("th", { style: { width: "44px" } }, make("span.unseen", {}, "Selected")),
            columns.map(([key, title, width, kind]) =>
                make(
                    "th",
                    { style: { width }, class: kind ?? "", scope: "col", "data-key": key },
                    make(
                        "button",
                        { type: "button", onclick: () => sort(key) },
                        key === "size" && about.slot_kind === "gpu" ? "GPUs" : title,
                    ),
                ),
            ),
        ),
    );
    place.body = make("tbody");
    place.table = make("table.runs", { "aria-label": "Runs" }, place.head, place.body);
    place.card = make("div.card", {}, place.table);
    place.selection = make("div.selection", { role: "region", "aria-label": "Selected runs", hidden: true });
    place.outcome = make("div");
    place.controls = make(
        "div.controls",
        { style: { "margin-bottom": "14px" } },
        make("div", { style: { flex: "1 1 260px", "max-width": "420px" } }, place.search),
        place.project,
        place.owner,
        place.owners,
        place.mine,
    );
    place.search.addEventListener("keydown", (event) => {
        if (event.key === "Enter" && /^[1-9][0-9]*$/.test(event.target.value.trim()))
            location.assign(`/run.html?run=${event.target.value.trim()}`);
    });
    place.rows = new Rows(place.body, columns.length + 1, (run) =>
        runRow(run, selected.has(run.run), choose, reasonOf(run)),
    );
    place.rows.onNearEnd = () => list.loadMore();
    fill(
        main,
        make("div.head", {}, make("h1", {}, "Runs"), place.summary),
        place.chips,
        place.controls,
        place.outcome,
        place.card,
        place.selection,
    );
}

async function fillProjects() {
    const { projects } = await get("/projects").catch(() => ({ projects: [] }));
    fill(
        place.project,
        make("option", { value: "" }, "All projects"),
        projects.map(({ project }) =>
            make("option", { value: project, selected: project === filter.project }, project),
        ),
    );
}

/* Why runs wait, and when they are expected to start, where it is not too much to ask for all of it. */
async function readQueue() {
    const waiting = (list.counts["queued"] ?? 0) + (list.counts["re-queued"] ?? 0);
    if (waiting > queueMost) return;
    const { queue } = await get("/queue").catch(() => ({ queue: [] }));
    reasons.clear();
    for (const entry of queue) reasons.set(entry.run, entry);
    place.rows.renew();
    mark();
}

function reasonOf(run) {
    const planned = reasons.get(run.run);
    if (!isWaiting(run.state)) return run.reason;
    return planned ? planned.reason : run.cause === "submitted" ? "" : run.reason;
}

/* Another filter: into the address, and asked for. */
function refine(change) {
    filter = { ...filter, ...change };
    active = -1;
    remember();
    list.load(filter);
}

function remember() {
    const words = new URLSearchParams(Object.entries(filter).filter(([, value]) => value));
    if (list.sort.key !== "run" || !list.sort.descending) {
        words.set("sort", list.sort.key);
        if (!list.sort.descending) words.set("down", "no");
    }
    history.replaceState(null, "", words.size ? `/?${words}` : "/");
}

/** The column that shows the order. Runs are submitted in the order of their numbers: one order of two columns. */
function sortedBy() {
    return list.sort.key === "run" && place.asked === "submitted" ? "submitted" : list.sort.key;
}

function sort(key) {
    place.asked = key;
    list.sortBy(key === "submitted" ? "run" : key);
    remember();
}

const drawSoon = atMostEvery(250, () => draw());

function draw() {
    const items = list.sorted();
    const all = Object.values(list.counts).reduce((sum, count) => sum + count, 0);
    const filtered = Boolean(filter.search || filter.project || filter.owner || filter.state);
    const nobody = items.length === 0 && all === 0 && !filtered && list.loaded;
    place.chips.hidden = nobody;
    place.controls.hidden = nobody;
    drawChips(all);
    for (const head of place.head.querySelectorAll("[data-key]")) {
        if (head.dataset.key === sortedBy()) head.setAttribute("aria-sort", list.sort.descending ? "descending" : "ascending");
        else head.removeAttribute("aria-sort");
    }
    place.mine.setAttribute("aria-pressed", String(filter.owner === about.user));
    place.owner.value = document.activeElement === place.owner ? place.owner.value : (filter.owner ?? "");
    place.table.setAttribute("aria-rowcount", all);
    fill(
        place.owners,
        [...new Set(items.slice(0, 1000).map((run) => run.owner))]
            .sort()
            .map((owner) => make("option", { value: owner })),
    );
    place.card.hidden = items.length === 0;
    fill(place.outcome, items.length === 0 && list.loaded && nothing(filtered));
    const complete = (list.sort.key === "run" && list.sort.descending) || !list.more;
    fill(
        place.summary,
        complete ? "" : list.loading ? `sorting ${whole(all)} …` : `sorted among the newest ${whole(items.length)}`,
    );
    if (active >= items.length) active = items.length - 1;
    place.rows.show(items);
    mark();
    drawSelection();
}

/* The counts are of what the other filters let through. */
function drawChips(all) {
    const of = (names) => names.reduce((sum, name) => sum + (list.counts[name] ?? 0), 0);
    const shown = [
        ["", "All", all],
        ["live", "Live", of(stateNames.filter((name) => !isFinal(name)))],
    ];
    for (const name of stateNames)
        if (list.counts[name] || filter.state === name) shown.push([name, name, list.counts[name] ?? 0]);
    fill(
        place.chips,
        shown.map(([key, text, count]) =>
            make(
                "button",
                {
                    type: "button",
                    class: tone(key),
                    "data-state": key || "all",
                    "aria-pressed": String((filter.state ?? "") === key),
                    onclick: () => refine({ state: key }),
                },
                stateNames.includes(key) && make("span.state", {}, stateSign(key)),
                text,
                make("span.count", {}, whole(count)),
            ),
        ),
    );
}

function nothing(filtered) {
    if (filtered)
        return make(
            "div.card",
            {},
            emptyPlace(
                "No run is like that",
                "Nothing has this state, project, owner or name.",
                null,
                make(
                    "p",
                    { style: { "margin-top": "16px" } },
                    make(
                        "button.button",
                        {
                            type: "button",
                            onclick: () => {
                                place.search.querySelector("input").value = "";
                                place.project.value = "";
                                refine({ search: "", project: "", owner: "", state: "" });
                            },
                        },
                        "Show all runs",
                    ),
                ),
            ),
        );
    return make(
        "div.card",
        {},
        emptyPlace(
            "No runs yet",
            "Go to the folder of your program and type this. What comes after the two dashes is run as it is.",
            "weft submit --project first -- python3 train.py",
            make("p.small", {}, "It is copied, queued, started as soon as a slot is free, and appears here."),
        ),
    );
}

/* Keys: arrows go through the rows, Enter opens, x selects, Escape lets go. */
function keys(event) {
    if (isTyping(event)) return;
    const items = place.rows.items;
    const step = { ArrowDown: 1, ArrowUp: -1, j: 1, k: -1 }[event.key];
    if (step && items.length && !event.target.closest("[role=tablist]")) {
        document.activeElement.blur(); // Enter is for the row from now on
        active = Math.max(0, Math.min(items.length - 1, active + step));
        place.rows.reveal(active);
        mark();
        event.preventDefault();
    } else if (event.key === "Enter" && active >= 0 && !event.target.closest("a, button")) {
        location.assign(`/run.html?run=${items[active].run}`);
    } else if (event.key === "x" && active >= 0) {
        choose(items[active].run, !selected.has(items[active].run));
        place.rows.renew();
        mark();
    } else if (event.key === "Escape") {
        active = -1;
        selected.clear();
        place.rows.renew();
        mark();
        drawSelection();
    }
}

function mark() {
    place.body.querySelector(".active")?.classList.remove("active");
    const row = active >= 0 ? place.rows.row(place.rows.items[active]) : null;
    row?.classList.add("active");
}

function choose(run, on) {
    if (on) selected.add(run);
    else selected.delete(run);
    drawSelection();
}

function drawSelection() {
    fillSelection(place.selection, [...selected].map((run) => list.runs.get(run)).filter(Boolean), () => {
        selected.clear();
        place.rows.renew();
        drawSelection();
    });
}

run();

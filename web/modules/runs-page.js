// SPDX-License-Identifier: Apache-2.0
// The list of all runs.
import { get } from "./api.js";
import { atMostEvery, fill, make, query, whenQuiet } from "./dom.js";
import { searchField, selection, skeleton, tell } from "./components.js";
import { whole } from "./format.js";
import { frame } from "./frame.js";
import * as live from "./live.js";
import { keepPlace, placeBefore } from "./place.js";
import { rights } from "./rights.js";
import { RowKeys } from "./row-keys.js";
import { Rows } from "./rows.js";
import { RunList } from "./run-list.js";
import { onProgress } from "./run-progress.js";
import { putRun, runAddress } from "./run-row.js";
import { nothingLikeThat, nothingYet, refused } from "./run-outcome.js";
import { fillSelection } from "./run-selection.js";
import { StateChips } from "./state-chips.js";
import { isWaiting } from "./states.js";

const columns = [
    ["state", "State"],
    ["run", "Run", "number"],
    ["name", "Name"],
    ["project", "Project"],
    ["owner", "Owner"],
    ["size", "Slots", "number"],
    ["waited", "Waited", "number"],
    ["ran", "Ran", "number"],
    ["submitted", "Submitted", "number"],
];

const queueMost = 1000;
const reasons = new Map(); // run -> its entry in the queue
let about = null;
let may = null;
let filter = {};
let keys = null;
const selected = new Set();
const owners = new Set(); // all that were seen
const list = new RunList(
    () => draw(),
    (error) => tell(error.message, true),
);
const place = {};

async function run() {
    const { sort, down, ...wanted } = query();
    filter = wanted;
    if (columns.some(([key]) => key === sort))
        list.sort = { key: sort === "submitted" ? "run" : sort, descending: down !== "no" };
    const framed = frame("runs", "Runs");
    build(document.querySelector("main"));
    const asked = list.load(filter); // while the server is asked who is there
    fillProjects();
    const made = await framed;
    if (!made) return;
    about = made.server;
    if (about.slot_kind === "gpu") place.head.querySelector("[data-key=size] button").textContent = "GPUs";
    live.on("run", (run) => {
        list.take(run);
        drawSoon();
    });
    onProgress((number, progress) => {
        const run = list.runs.get(number);
        if (!run) return;
        run.progress = progress;
        place.rows?.renew((shown) => shown.run === number);
    });
    await asked;
    may = await rights();
    await goBack();
    live.on("again", () => list.load(filter));
    live.on("queue", atMostEvery(3000, readQueue));
    readQueue();
}

/* To where one was in the list, if one was here before. */
async function goBack() {
    const before = placeBefore();
    while (before.rows > list.runs.size && list.more) await list.loadMore();
    draw();
    keys.active = before.row ?? null;
    scrollTo(0, before.top ?? 0);
    place.rows.draw();
    keepPlace(() => ({ rows: scrollY ? list.runs.size : 0, row: keys.active }));
}

function build(main) {
    place.chips = new StateChips((key) => refine({ state: key }));
    place.search = searchField(
        "Search runs, or the number of one",
        filter.search,
        whenQuiet(150, (text) => refine({ search: text })),
    );
    place.project = selection("Project", [["", "All projects"]], filter.project, (value) => refine({ project: value }));
    place.project.style.width = "200px"; // whatever projects there are
    place.owner = make("input.field", {
        placeholder: "Owner",
        "aria-label": "Owner",
        list: "owners",
        size: 12,
        value: filter.owner ?? "",
        autocomplete: "off",
        onchange: (event) => refine({ owner: ownerLike(event.target.value.trim()) }),
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
            make("th.c-choose", {}, make("span.unseen", {}, "Selected")),
            columns.map(([key, title, kind]) =>
                make(
                    "th",
                    { class: `c-${key} ${kind ?? ""}`, scope: "col", "data-key": key },
                    make("button", { type: "button", onclick: () => sort(key) }, title),
                ),
            ),
        ),
    );
    place.body = make("tbody");
    place.table = make("table.runs", { role: "grid", "aria-label": "Runs" }, place.head, place.body);
    place.card = make("div.card", {}, place.table);
    place.selection = make("div.selection", { role: "region", "aria-label": "Selected runs", hidden: true });
    place.outcome = make("div", {}, make("div.card", {}, skeleton("calc(var(--row) * 14)")));
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
    place.rows = new Rows(place.body, {
        key: (run) => run.run,
        put: (row, run) =>
            putRun(row, run, {
                isSelected: selected.has(run.run),
                choose,
                reason: reasonOf(run),
                expected: reasons.get(run.run)?.expected_start ?? null,
            }),
    });
    place.rows.onNearEnd = () => list.loadMore();
    keys = new RowKeys(place.rows, {
        open: (run) => location.assign(runAddress(run)),
        select: (run) => choose(run.run, !selected.has(run.run)),
        letGo: letSelectionGo,
    });
    fill(
        main,
        make("div.head", {}, make("h1", {}, "Runs"), place.summary),
        place.chips.element,
        place.controls,
        place.outcome,
        place.card,
        place.selection,
    );
    place.card.hidden = true;
}

/* The user who is meant: the one whose name begins so, if there is just one. */
function ownerLike(text) {
    const like = [...owners].filter((owner) => owner.toLowerCase().startsWith(text.toLowerCase()));
    return text && !owners.has(text) && like.length === 1 ? like[0] : text;
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
    place.rows.renew((run) => isWaiting(run.state));
}

function reasonOf(run) {
    const planned = reasons.get(run.run);
    if (!isWaiting(run.state)) return run.reason;
    return planned ? planned.reason : run.cause === "submitted" ? "" : run.reason;
}

/* Another filter: into the address, and asked for. */
function refine(change) {
    filter = { ...filter, ...change };
    remember();
    list.load(filter).then(letHiddenGo);
}

/* What a filter has taken out of sight is not selected any more: a button must not stop what is not seen. */
function letHiddenGo() {
    for (const run of selected) if (!list.runs.has(run)) selected.delete(run);
    drawSelection();
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
    if (list.loaded) live.ready();
    const items = list.sorted();
    const all = Object.values(list.counts).reduce((sum, count) => sum + count, 0);
    const filtered = Boolean(filter.search || filter.project || filter.owner || filter.state);
    const nobody = items.length === 0 && all === 0 && !filtered && list.loaded;
    place.chips.element.hidden = nobody;
    place.controls.hidden = nobody;
    place.chips.show(list.counts, filter.state); // of what the other filters let through
    for (const head of place.head.querySelectorAll("[data-key]")) {
        if (head.dataset.key === sortedBy()) head.setAttribute("aria-sort", list.sort.descending ? "descending" : "ascending");
        else head.removeAttribute("aria-sort");
    }
    place.mine.setAttribute("aria-pressed", String(Boolean(about) && filter.owner === about.user));
    place.owner.value = document.activeElement === place.owner ? place.owner.value : (filter.owner ?? "");
    place.table.setAttribute("aria-rowcount", all + 1);
    drawOwners(items);
    place.card.hidden = items.length === 0;
    drawOutcome(items.length === 0 && list.loaded, filtered);
    const complete = (list.sort.key === "run" && list.sort.descending) || !list.more;
    fill(
        place.summary,
        complete ? "" : list.loading ? `sorting ${whole(all)} …` : `sorted among the newest ${whole(items.length)}`,
    );
    place.rows.show(items);
    drawSelection();
}

function drawOwners(items) {
    const known = owners.size;
    for (const run of items.slice(0, 1000)) owners.add(run.owner);
    if (owners.size > known)
        fill(
            place.owners,
            [...owners].sort().map((owner) => make("option", { value: owner })),
        );
}

/* The text shown without rows. */
function drawOutcome(isEmpty, filtered) {
    const said = list.failure
        ? refused(list.failure, () => list.load(filter))
        : isEmpty && (filtered ? nothingLikeThat(showAll) : nothingYet());
    if (list.failure || list.loaded) fill(place.outcome, said);
}

function showAll() {
    place.search.querySelector("input").value = "";
    place.project.value = "";
    refine({ search: "", project: "", owner: "", state: "" });
}

function choose(run, on) {
    if (on) selected.add(run);
    else selected.delete(run);
    place.rows.renew((item) => item.run === run);
    drawSelection();
}

function letSelectionGo() {
    selected.clear();
    place.rows.renew();
    drawSelection();
}

function drawSelection() {
    const runs = [...selected].map((run) => list.runs.get(run)).filter(Boolean);
    fillSelection(place.selection, runs, (run) => may?.mayChange(run), letSelectionGo);
}

run();

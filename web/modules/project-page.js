// SPDX-License-Identifier: Apache-2.0
// A project, or where none is named, all of them.
import { get, pathOf } from "./api.js";
import { skeleton, wrongPlace } from "./components.js";
import { atMostEvery, fill, make, query } from "./dom.js";
import { day, diskUse } from "./format.js";
import { entitle, frame } from "./frame.js";
import * as live from "./live.js";
import { budgetCard } from "./project-budget.js";
import { Ledger } from "./project-ledger.js";
import { projectList } from "./project-list.js";
import { membersCard } from "./project-members.js";

const name = query().project;

const path = pathOf({ project: name });
const place = { budget: make("div"), members: make("div") };
let about = null;
let drawn = "";

async function begin() {
    const framed = frame("projects", name ?? "Projects");
    const main = document.querySelector("main");
    if (!name) {
        projectList(main, framed);
        return;
    }
    fill(main, make("div.head", {}, make("h1", {}, name)), make("div.two", {}, skeletonCard(), skeletonCard()));
    const asked = get(path); // while the server is asked who is there
    asked.catch(() => {});
    const made = await framed;
    if (!made) return;
    about = made.server;
    try {
        build(main, await asked);
    } catch (error) {
        fill(main, wrongPlace(error, `Project ${name}`));
        return;
    } finally {
        live.ready();
    }
    const renew = atMostEvery(2000, refresh);
    live.on("run", (run) => run.project === name && renew());
    live.on("project", ({ project }) => project === name && renew());
    live.on("again", renew);
    live.everySoOften(15, renew); // what others change, and what grows with time
}

function skeletonCard() {
    return make("section.card", {}, skeleton("220px"));
}

function build(main, project) {
    entitle(project.project);
    place.told = make("span.soft");
    place.ledger = new Ledger(project, unit());
    fill(
        main,
        make(
            "div.head",
            {},
            make("h1", {}, project.project),
            place.told,
            make(
                "div.actions",
                {},
                make("a.button", { href: `/?project=${encodeURIComponent(project.project)}` }, "Its runs"),
            ),
        ),
        make("div.stack", {}, make("div.two", {}, place.budget, place.members), place.ledger.element),
    );
    draw(project);
}

function unit() {
    return about.slot_kind === "gpu" ? "GPU-minutes" : "slot-minutes";
}

async function refresh() {
    try {
        draw(await get(path));
    } catch {
        return; // the next time asks again
    }
    await place.ledger.refresh();
}

/* What is as it was stays as it is: a list that is open, a field with the focus. */
function draw(project) {
    const told = [
        project.title,
        project.role && `you are ${project.role}`,
        `since ${day(project.created)}`,
        diskUse(project),
        project.closed && "closed",
    ];
    const rights = { administer: about.administrator, manage: about.administrator || project.role === "manager" };
    fill(place.told, told.filter(Boolean).join(" · "));
    if (drawn === JSON.stringify(project)) return;
    drawn = JSON.stringify(project);
    fill(place.budget, budgetCard(project, unit(), rights, refresh));
    fill(place.members, membersCard(project, unit(), rights, refresh));
}

begin();

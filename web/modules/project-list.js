// SPDX-License-Identifier: Apache-2.0
// All projects, and how a new one is made.
import { get, post } from "./api.js";
import { dialog, emptyPlace, labelled, skeleton, wrongPlace } from "./components.js";
import { atMostEvery, fill, make } from "./dom.js";
import { minutes, whole } from "./format.js";
import * as live from "./live.js";

/** `framed`: what frame() gives; an administrator may make a project. */
export async function projectList(main, framed) {
    const create = make("button.button", { type: "button", onclick: newProject }, "New project …");
    const place = make("div.card", {}, skeleton("240px"));
    const actions = make("div.actions");
    fill(main, make("div.head", {}, make("h1", {}, "Projects"), actions), place);
    const asked = get("/projects");
    asked.catch(() => {});
    const made = await framed;
    if (!made) return;
    fill(actions, made.server.administrator && create);
    const unit = made.server.slot_kind === "gpu" ? "GPU-minutes" : "slot-minutes";
    try {
        draw(place, (await asked).projects, unit);
    } catch (error) {
        fill(place, wrongPlace(error));
        return;
    }
    live.ready();
    const renew = atMostEvery(5000, () =>
        get("/projects").then(
            ({ projects }) => draw(place, projects, unit),
            () => {}, // the next time asks again
        ),
    );
    live.on("project", renew);
    live.on("queue", renew);
    live.on("again", renew);
    live.everySoOften(15, renew);
}

function draw(place, projects, unit) {
    fill(
        place,
        projects.length === 0
            ? emptyPlace(
                  "No projects yet",
                  "A project has members, roles and a budget. The first run that names one makes it:",
                  "weft submit --project first -- python3 train.py",
              )
            : projectTable(projects, unit),
    );
}

function projectTable(projects, unit) {
    const heads = [
        ["Project", "project"],
        ["Live runs", "live number"],
        ["Runs", "all number only-wide"],
        ["Used", "used number only-wide"],
        ["Left", "left number"],
        ["Your role", "role"],
    ];
    return [
        make(
            "table.projects",
            { "aria-label": "Projects" },
            make(
                "thead",
                {},
                make(
                    "tr",
                    {},
                    heads.map(([title, kind]) =>
                        make(
                            "th",
                            { scope: "col", class: kind, title: ["Used", "Left"].includes(title) ? unit : null },
                            title,
                        ),
                    ),
                ),
            ),
            make("tbody", {}, projects.map(projectRow)),
        ),
        make("p.soft.small.below", {}, `Used and left are in ${unit}.`),
    ];
}

function projectRow({ project, title, closed, role, runs, live, budget }) {
    const list = `/?project=${encodeURIComponent(project)}`;
    const none = make("span.soft", {}, "–");
    return make(
        "tr",
        {},
        make(
            "td.project",
            {},
            make("a.name.cut", { href: address(project), title: project }, project),
            make("span.soft.cut", { title }, title, closed && " (closed)"),
        ),
        make("td.live.number", {}, live ? make("a", { href: `${list}&state=live` }, whole(live)) : none),
        make("td.all.number.only-wide", {}, make("a", { href: list }, whole(runs))),
        make("td.used.number.only-wide", {}, minutes(budget.spent)),
        make("td.left.number", {}, budget.limited ? minutes(budget.pool + budget.members) : make("span.soft", {}, "no limit")),
        make("td.role.soft", {}, role || "–"),
    );
}

function address(project) {
    return `/project.html?project=${encodeURIComponent(project)}`;
}

function newProject() {
    return dialog({
        title: "New project",
        confirm: "Make it",
        content: [
            labelled(
                "Name",
                make("input.field", {
                    name: "project",
                    required: true,
                    maxlength: 63,
                    pattern: "[a-z0-9][a-z0-9._\\-]*",
                    autocomplete: "off",
                    spellcheck: "false",
                }),
                "small letters, digits, -, _ and .",
            ),
            labelled("What it is", make("input.field", { name: "title", maxlength: 120, autocomplete: "off" })),
        ],
        act: async (form) => {
            await post("/projects", { project: form.get("project"), title: form.get("title") });
            location.assign(address(form.get("project")));
        },
    });
}

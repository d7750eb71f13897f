// SPDX-License-Identifier: Apache-2.0
// All projects, and how a new one is made.
import { get, post } from "./api.js";
import { dialog, emptyPlace, labelled, wrongPlace } from "./components.js";
import { fill, make } from "./dom.js";
import { day } from "./format.js";

/** `may`: whether this user may make one. */
export async function projectList(main, may) {
    const create = make("button.button", { type: "button", onclick: newProject }, "New project …");
    const place = make("div.card");
    fill(main, make("div.head", {}, make("h1", {}, "Projects"), make("div.actions", {}, may && create)), place);
    try {
        const { projects } = await get("/projects");
        if (projects.length === 0) {
            fill(
                place,
                emptyPlace(
                    "No projects yet",
                    "A project has members, roles and a budget. The first run that names one makes it:",
                    "weft submit --project first -- python3 train.py",
                ),
            );
            return;
        }
        fill(
            place,
            make(
                "div.scroll",
                {},
                make(
                    "table",
                    { "aria-label": "Projects" },
                    make(
                        "thead",
                        {},
                        make(
                            "tr",
                            {},
                            [
                                ["Project", "190px"],
                                ["What it is", ""],
                                ["Your role", "120px"],
                                ["Since", "130px"],
                                ["", "110px"],
                            ].map(([title, width]) => make("th", { scope: "col", style: { width } }, title)),
                        ),
                    ),
                    make(
                        "tbody",
                        {},
                        projects.map((project) =>
                            make(
                                "tr",
                                {},
                                make(
                                    "td.cut",
                                    {},
                                    make(
                                        "a",
                                        { href: address(project.project), style: { "font-weight": 550 } },
                                        project.project,
                                    ),
                                ),
                                make("td.cut", {}, project.title, project.closed && make("span.soft", {}, " (closed)")),
                                make("td.soft", {}, project.role || "–"),
                                make("td.soft", {}, day(project.created)),
                                make(
                                    "td.number",
                                    {},
                                    make(
                                        "a.link",
                                        { href: `/?project=${encodeURIComponent(project.project)}` },
                                        "Its runs",
                                    ),
                                ),
                            ),
                        ),
                    ),
                ),
            ),
        );
    } catch (error) {
        fill(place, wrongPlace(error));
    }
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

// SPDX-License-Identifier: Apache-2.0
// A project, or where none is named, all of them.
import { get, pathOf } from "./api.js";
import { wrongPlace } from "./components.js";
import { fill, make, query } from "./dom.js";
import { day } from "./format.js";
import { entitle, frame } from "./frame.js";
import { budgetCard } from "./project-budget.js";
import { ledgerCard } from "./project-ledger.js";
import { projectList } from "./project-list.js";
import { membersCard } from "./project-members.js";

const name = query().project;

async function begin() {
    const made = await frame("projects", name ?? "Projects");
    if (!made) return;
    if (name) draw(made.main, made.server);
    else projectList(made.main, made.server.administrator);
}

async function draw(main, about) {
    let project;
    try {
        project = await get(pathOf({ project: name }));
    } catch (error) {
        fill(main, wrongPlace(error));
        return;
    }
    entitle(project.project);
    const unit = about.slot_kind === "gpu" ? "GPU minutes" : "slot minutes";
    const rights = { administer: about.administrator, manage: about.administrator || project.role === "manager" };
    const changed = () => draw(main, about);
    const told = [
        project.title,
        project.role && `you are ${project.role}`,
        `since ${day(project.created)}`,
        project.closed && "closed",
    ]
        .filter(Boolean)
        .join(" · ");
    fill(
        main,
        make(
            "div.head",
            {},
            make("h1", {}, project.project),
            make("span.soft", {}, told),
            make(
                "div.actions",
                {},
                make("a.button", { href: `/?project=${encodeURIComponent(project.project)}` }, "Its runs"),
            ),
        ),
        make(
            "div.stack",
            {},
            make(
                "div.two",
                {},
                budgetCard(project, unit, rights, changed),
                membersCard(project, unit, rights, changed),
            ),
            ledgerCard(project, unit),
        ),
    );
}

begin();

// SPDX-License-Identifier: Apache-2.0
// The members of a project, their roles, and what they were handed of the budget.
import { pathOf, put, remove } from "./api.js";
import { dialog, labelled, selection } from "./components.js";
import { make } from "./dom.js";
import { day, minutes } from "./format.js";

const roles = ["viewer", "member", "manager"];
const meanings = {
    viewer: "Viewers look at runs, and submit none.",
    member: "Members submit runs, and stop their own.",
    manager: "Managers stop what others run, choose members and hand out the budget.",
};

/* A key that changes what is selected changes nobody's role: that is confirmed. */
async function changeRole(project, member, select, changed) {
    const role = select.value;
    await dialog({
        title: `Make ${member.user} a ${role} of ${project.project}?`,
        confirm: `Make ${role}`,
        content: [make("p.soft", {}, meanings[role])],
        act: async () => {
            await put(`${pathOf(project)}/members/${encodeURIComponent(member.user)}`, { role });
            member.role = role;
            changed();
        },
    });
    select.value = member.role;
}

/** As budgetCard(). */
export function membersCard(project, unit, rights, changed) {
    const change = (member) => {
        const select = selection(
            `Role of ${member.user}`,
            roles.map((role) => [role, role]),
            member.role,
            () => changeRole(project, member, select, changed),
        );
        return select;
    };
    const leave = (member) =>
        dialog({
            title: `Take ${member.user} out of ${project.project}?`,
            confirm: "Take out",
            danger: true,
            content: [
                make("p.soft", {}, "Runs that are under way go on. What is left of the budget goes back to the pool."),
            ],
            act: async () => {
                await remove(`${pathOf(project)}/members/${encodeURIComponent(member.user)}`);
                changed();
            },
        });
    const heads = [
        ["Member", "user"],
        ["Role", "role"],
        ["Since", "since only-wide"],
        project.budget.limited && [unit[0].toUpperCase() + unit.slice(1), "has number"],
        rights.manage && ["", "out number"],
    ].filter(Boolean);
    return make(
        "section.card",
        {},
        make(
            "header",
            {},
            make("h2", {}, "Members"),
            make("span.soft", {}, project.members.length),
            make(
                "div.right",
                {},
                rights.manage &&
                    make(
                        "button.button.small",
                        { type: "button", onclick: () => addMember(project, changed) },
                        "Add …",
                    ),
            ),
        ),
        make(
            "div",
            { style: { "margin-top": "8px" } },
            make(
                "table.members",
                { "aria-label": "Members" },
                make(
                    "thead",
                    {},
                    make(
                        "tr",
                        {},
                        heads.map(([title, kind]) => make("th", { scope: "col", class: kind }, title)),
                    ),
                ),
                make(
                    "tbody",
                    {},
                    project.members.map((member) =>
                        make(
                            "tr",
                            {},
                            make(
                                "td.cut",
                                {},
                                make(
                                    "a",
                                    {
                                        href: `/?project=${encodeURIComponent(project.project)}&owner=${encodeURIComponent(member.user)}`,
                                        style: { "font-weight": 500 },
                                    },
                                    member.user,
                                ),
                            ),
                            make("td", {}, rights.manage ? change(member) : member.role),
                            make("td.soft.only-wide", {}, day(member.since)),
                            project.budget.limited && make("td.number", {}, minutes(member.balance)),
                            rights.manage &&
                                make(
                                    "td.number",
                                    {},
                                    make(
                                        "button.plain.small",
                                        {
                                            type: "button",
                                            "aria-label": `Take ${member.user} out`,
                                            onclick: () => leave(member),
                                        },
                                        "Take out",
                                    ),
                                ),
                        ),
                    ),
                ),
            ),
        ),
    );
}

function addMember(project, changed) {
    return dialog({
        title: `Add a member to ${project.project}`,
        confirm: "Add",
        content: [
            labelled(
                "User",
                make("input.field", {
                    name: "user",
                    required: true,
                    maxlength: 63,
                    autocomplete: "off",
                    spellcheck: "false",
                }),
            ),
            labelled(
                "Role",
                make(
                    "select",
                    { name: "role" },
                    roles.map((role) => make("option", { value: role, selected: role === "member" }, role)),
                ),
                "viewers look, members submit, managers stop what others run, choose members and hand out the budget",
            ),
        ],
        act: async (form) => {
            await put(`${pathOf(project)}/members/${encodeURIComponent(form.get("user"))}`, { role: form.get("role") });
            changed();
        },
    });
}

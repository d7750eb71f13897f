// SPDX-License-Identifier: Apache-2.0
// The members of a project, their roles, and what they were handed of the budget.
import { pathOf, put, remove } from "./api.js";
import { attempt, dialog, labelled, selection } from "./components.js";
import { make } from "./dom.js";
import { day, minutes } from "./format.js";

const roles = ["viewer", "member", "manager"];

/** As budgetCard(). */
export function membersCard(project, unit, rights, changed) {
    const change = (member) =>
        selection(
            `Role of ${member.user}`,
            roles.map((role) => [role, role]),
            member.role,
            async (role) => {
                await attempt(document.body, () =>
                    put(`${pathOf(project)}/members/${encodeURIComponent(member.user)}`, { role }),
                );
                changed();
            },
        );
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
        ["Member", ""],
        ["Role", "116px"],
        ["Since", "120px", "only-wide"],
        ["Has", "80px", "number"],
        rights.manage && ["", "68px", "number"],
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
                "table",
                { "aria-label": "Members" },
                make(
                    "thead",
                    {},
                    make(
                        "tr",
                        {},
                        heads.map(([title, width, kind]) =>
                            make("th", { scope: "col", class: kind ?? "", style: { width } }, title),
                        ),
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
                            make("td.number", { title: unit }, project.budget.limited ? minutes(member.balance) : "–"),
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
                                        "Out",
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
                "viewers look, members submit, managers stop what others run and hand out the budget",
            ),
        ],
        act: async (form) => {
            await put(`${pathOf(project)}/members/${encodeURIComponent(form.get("user"))}`, { role: form.get("role") });
            changed();
        },
    });
}

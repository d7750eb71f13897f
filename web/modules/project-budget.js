// SPDX-License-Identifier: Apache-2.0
// The budget of a project, and how it is given, granted and handed out.
import { pathOf, post, put } from "./api.js";
import { dialog, labelled } from "./components.js";
import { make } from "./dom.js";
import { minutes, share } from "./format.js";

/** `unit`: "GPU-minutes" or "slot-minutes". `rights`: {manage, administer}. `changed` is called after a change. */
export function budgetCard(project, unit, rights, changed) {
    const budget = project.budget;
    const buttons = make(
        "div.right",
        {},
        rights.manage &&
            budget.limited &&
            make(
                "button.button.small",
                { type: "button", onclick: () => transfer(project, unit, changed) },
                "Hand out …",
            ),
        rights.administer &&
            budget.limited &&
            make("button.button.small", { type: "button", onclick: () => grant(project, unit, changed) }, "Grant …"),
        rights.administer &&
            make(
                "button.button.small",
                { type: "button", onclick: () => settle(project, unit, changed) },
                budget.limited ? "Change …" : "Give it a budget …",
            ),
    );
    const head = make("header", {}, make("h2", {}, "Budget"), make("span.soft", {}, `in ${unit}`), buttons);
    if (!budget.limited)
        return make(
            "section.card",
            {},
            head,
            make(
                "div.inside",
                {},
                make(
                    "p.soft",
                    {},
                    "It has no budget and is not limited by one. So far it has used ",
                    make("b", { style: { color: "var(--text)", "font-weight": 550 } }, minutes(budget.spent)),
                    ".",
                ),
            ),
        );
    const parts = [
        ["in the pool", budget.pool, "tone-succeeded"],
        ["with members", budget.members, "tone-beginning"],
        ["held for what runs", budget.held, "tone-waiting"],
    ];
    const total = parts.reduce((sum, part) => sum + Math.max(0, part[1]), 0);
    const most = Math.max(budget.cap, total, 1);
    return make(
        "section.card",
        {},
        head,
        make(
            "div.inside",
            {},
            make(
                "p",
                { style: { margin: "4px 0 12px" } },
                make(
                    "b",
                    { style: { "font-size": "22px", "font-weight": 600, "letter-spacing": "-0.02em" } },
                    minutes(total),
                ),
                make("span.soft", {}, ` of at most ${minutes(budget.cap)}`),
            ),
            make(
                "div.bar",
                { role: "img", "aria-label": `${share(total / most)} of the cap` },
                parts.map(([title, amount, tone]) =>
                    make("i", { class: tone, title, style: { flex: `0 0 ${(Math.max(0, amount) / most) * 100}%` } }),
                ),
            ),
            make(
                "div.bar-keys",
                {},
                parts.map(([title, amount, tone]) =>
                    make("span", { class: tone }, make("i"), make("b", {}, minutes(amount)), title),
                ),
            ),
            make(
                "p.soft",
                { style: { "margin-top": "12px" } },
                `It grows by ${minutes(budget.rate_per_day)} a day up to the cap. ${minutes(budget.spent)} have been spent so far. `,
                budget.shared
                    ? "Members draw on the pool when their own does not suffice."
                    : "Members draw on what they were handed alone.",
            ),
        ),
    );
}

const numberField = (name, value, more = {}) =>
    make("input.field", { name, type: "number", step: "any", value: value ?? "", required: true, ...more });

function settle(project, unit, changed) {
    const { budget } = project;
    const shared = make("input", { type: "checkbox", name: "shared" });
    shared.checked = budget.limited ? budget.shared : true;
    return dialog({
        title: `The budget of ${project.project}`,
        confirm: "Save",
        content: [
            labelled(`Grows a day by (${unit})`, numberField("rate", budget.rate_per_day || "", { min: 0 })),
            labelled(`Up to (${unit})`, numberField("cap", budget.cap || "", { min: 0 })),
            make("label.inline", {}, shared, "Members draw on the pool too"),
        ],
        act: async (form) => {
            await put(`${pathOf(project)}/budget`, {
                rate_per_day: Number(form.get("rate")),
                cap: Number(form.get("cap")),
                shared: form.has("shared"),
            });
            changed();
        },
    });
}

function grant(project, unit, changed) {
    return dialog({
        title: `Grant to the pool of ${project.project}`,
        confirm: "Grant",
        content: [
            labelled(`Amount (${unit}); below 0 takes it away`, numberField("amount")),
            labelled("What for", make("input.field", { name: "detail", maxlength: 200 })),
        ],
        act: async (form) => {
            await post(`${pathOf(project)}/grants`, { amount: Number(form.get("amount")), detail: form.get("detail") });
            changed();
        },
    });
}

function transfer(project, unit, changed) {
    const places = () => [
        make("option", { value: "" }, "the pool"),
        project.members.map(({ user }) => make("option", { value: user }, user)),
    ];
    return dialog({
        title: "Hand out",
        confirm: "Hand out",
        content: [
            labelled("From", make("select", { name: "from" }, places())),
            labelled("To", make("select", { name: "to" }, places().reverse())),
            labelled(`Amount (${unit})`, numberField("amount", "", { min: 0 })),
            labelled("What for", make("input.field", { name: "detail", maxlength: 200 })),
        ],
        act: async (form) => {
            await post(`${pathOf(project)}/transfers`, {
                from: form.get("from"),
                to: form.get("to"),
                amount: Number(form.get("amount")),
                detail: form.get("detail"),
            });
            changed();
        },
    });
}

// SPDX-License-Identifier: Apache-2.0
// A new run with the code and settings of another one, but for what somebody changes.
import { get, post } from "./api.js";
import { dialog, labelled } from "./components.js";
import { fill, make } from "./dom.js";
import { bytes } from "./format.js";
import { assignments, join, readAssignments, split } from "./words.js";

/** Ask how the new run is to differ, and make it; `checkpoint` is the name of one to begin from. */
export function fork(run, checkpoint = "") {
    return dialog({
        title: `Fork run ${run.run}`,
        confirm: "Submit",
        content: [
            make("p.soft", {}, "A new run with the same code and settings. Change what is to be different."),
            fields(run.specification),
            labelled("Begin from", checkpoints(run, checkpoint)),
        ],
        act: async (form) => {
            const body = changes(run.specification, wanted(form));
            if (form.get("checkpoint")) body.checkpoint = form.get("checkpoint");
            const answer = await post(`/runs/${run.run}/fork`, body, { once: true });
            location.assign(`/run.html?run=${answer.run}`);
        },
    });
}

function fields(before) {
    const text = (field, value, more) =>
        make("input.field", { name: field, value, autocomplete: "off", spellcheck: "false", ...more });
    const number = (field, value, max) => text(field, value, { type: "number", min: 1, max, required: true });
    const area = (field, rows, value, more) => make("textarea", { name: field, rows, spellcheck: "false", ...more }, value);
    return [
        labelled("Name", text("name", before.name, { maxlength: 127 })),
        labelled("Command", area("command", 3, join(before.command), { required: true })),
        make(
            "div.side-by-side",
            {},
            labelled("Nodes", number("nodes", before.nodes, 65536)),
            labelled(before.slot_kind === "gpu" ? "GPUs on each" : "CPU slots on each", number("slots", before.slots, 1024)),
            labelled("Time limit", text("time_limit", before.time_limit, { required: true, title: "30m, 6h, 1d12h" })),
            labelled("Class", text("class", before.class, { required: true, maxlength: 63 })),
        ),
        labelled("Environment", area("environment", 2, assignments(before.environment), { placeholder: "NAME=VALUE" })),
    ];
}

/* What it can begin from: nothing, or what the run has left. */
function checkpoints(run, chosen) {
    const nothing = (value, text) => make("option", { value }, text);
    const element = make("select", { name: "checkpoint" }, nothing(chosen, chosen || "Nothing: from the start"));
    if (run.discarded) return element;
    get(`/runs/${run.run}/checkpoints`).then(
        (answer) =>
            fill(
                element,
                nothing("", "Nothing: from the start"),
                answer.checkpoints
                    .toSorted((one, other) => other.time - one.time)
                    .map((one) =>
                        make(
                            "option",
                            { value: one.name, selected: one.name === chosen },
                            `${one.name} (${bytes(one.bytes)})`,
                        ),
                    ),
            ),
        () => {},
    );
    return element;
}

/* What the form says, as the server names it. */
function wanted(form) {
    const command = split(form.get("command"));
    if (command.length === 0) throw new Error("A command is needed.");
    return {
        name: form.get("name"),
        command,
        nodes: Number(form.get("nodes")),
        slots: Number(form.get("slots")),
        time_limit: form.get("time_limit").trim(),
        class: form.get("class").trim(),
        environment: readAssignments(form.get("environment")),
    };
}

/* What of it is not as it was. */
function changes(before, now) {
    return Object.fromEntries(
        Object.entries(now).filter(([key, value]) => JSON.stringify(value) !== JSON.stringify(before[key])),
    );
}

// SPDX-License-Identifier: Apache-2.0
// What can be done to a run, each after it was confirmed.
import { get, post } from "./api.js";
import { dialog, labelled, tell } from "./components.js";
import { fill, make } from "./dom.js";
import { bytes } from "./format.js";
import { isWaiting } from "./states.js";
import { join, split } from "./words.js";

/** Ask whether to stop it, and stop it. */
export function stop(run) {
    const text = isWaiting(run.state)
        ? "It has not begun. It leaves the queue."
        : "It is told to end, and may write a checkpoint first. What was held of the budget and not used goes back.";
    return dialog({
        title: `Stop run ${run.run}, ${run.name || "without a name"}?`,
        confirm: "Stop it",
        danger: true,
        dismiss: "Let it run",
        content: [make("p.soft", {}, text)],
        act: async () => {
            await post(`/runs/${run.run}/stop`);
            tell(`Run ${run.run} has been told to stop.`);
        },
    });
}

/** Ask whether what an ended run has left on disk is to go, and throw it away. */
export function discard(run) {
    return dialog({
        title: `Discard what run ${run.run} has left?`,
        confirm: "Throw it away",
        danger: true,
        dismiss: "Keep it",
        content: [
            make("p.soft", {}, "Its folder, its checkpoints and what it has printed are removed. There is no way back."),
            make("p.soft", {}, "Its curves, its events and its code stay."),
        ],
        act: async () => {
            await post(`/runs/${run.run}/discard`);
            tell(`What run ${run.run} has left is thrown away.`);
        },
    });
}

/** Ask how the new run is to differ, and make it; `checkpoint` is the name of one to begin from. */
export function fork(run, checkpoint = "") {
    const before = join(run.specification.command);
    const line = make("textarea", { name: "command", rows: 4, spellcheck: "false", required: true }, before);
    const from = make(
        "select",
        { name: "checkpoint" },
        make("option", { value: checkpoint }, checkpoint || "Nothing: from the start"),
    );
    const left = run.discarded ? Promise.reject(new Error("discarded")) : get(`/runs/${run.run}/checkpoints`);
    left.then(
        ({ checkpoints }) =>
            fill(
                from,
                make("option", { value: "" }, "Nothing: from the start"),
                [...checkpoints]
                    .sort((one, other) => other.time - one.time)
                    .map((one) =>
                        make(
                            "option",
                            { value: one.name, selected: one.name === checkpoint },
                            `${one.name} (${bytes(one.bytes)})`,
                        ),
                    ),
            ),
        () => {},
    );
    return dialog({
        title: `Fork run ${run.run}`,
        confirm: "Submit",
        content: [
            make("p.soft", {}, "A new run with the same code and settings. Change what is to be different."),
            labelled(
                "Name",
                make("input.field", { name: "name", value: run.name, maxlength: 127, autocomplete: "off" }),
            ),
            labelled("Command", line),
            labelled("Begin from", from),
        ],
        act: async (form) => {
            const body = {};
            const words = split(form.get("command"));
            if (words.length === 0) throw new Error("A command is needed.");
            if (join(words) !== before) body.command = words;
            if (form.get("name") !== run.name) body.name = form.get("name");
            if (form.get("checkpoint")) body.checkpoint = form.get("checkpoint");
            const answer = await post(`/runs/${run.run}/fork`, body, { once: true });
            location.assign(`/run.html?run=${answer.run}`);
        },
    });
}

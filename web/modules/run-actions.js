// SPDX-License-Identifier: Apache-2.0
// What can be done to a run, each after it was confirmed.
import { post } from "./api.js";
import { dialog, tell } from "./components.js";
import { make } from "./dom.js";
import { isWaiting } from "./states.js";

/** Ask whether to stop it, and stop it. */
export function stop(run) {
    const text = isWaiting(run.state)
        ? "It has not begun. It leaves the queue."
        : "It is asked to end, and may write a checkpoint first. What was held of the budget and not used goes back.";
    return dialog({
        title: `Stop run ${run.run}, ${run.name || "without a name"}?`,
        confirm: "Stop it",
        danger: true,
        dismiss: "Let it run",
        content: [make("p.soft", {}, text)],
        act: async () => {
            await post(`/runs/${run.run}/stop`);
            tell(`Run ${run.run} is being stopped.`);
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
            make("p.soft", {}, "Its directory, its checkpoints and what it has printed are removed. There is no way back."),
            make("p.soft", {}, "Its curves, its events and its code stay."),
        ],
        act: async () => {
            await post(`/runs/${run.run}/discard`);
            tell(`What run ${run.run} has left is thrown away.`);
        },
    });
}

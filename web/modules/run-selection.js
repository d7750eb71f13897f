// SPDX-License-Identifier: Apache-2.0
// What can be done to the runs that are selected in the list.
import { post } from "./api.js";
import { dialog, tell } from "./components.js";
import { fill, make } from "./dom.js";
import { several, whole } from "./format.js";
import { isFinal } from "./states.js";

/**
 * Fill the bar for these runs; without any it is hidden. `may` tells whether the user may stop one. `clear` is called
 * when they are to be let go.
 */
export function fillSelection(bar, runs, may, clear) {
    const going = runs.filter((run) => !isFinal(run.state) && may(run));
    const stopped = () => stop(going, clear);
    bar.hidden = runs.length === 0;
    fill(
        bar,
        make("span", {}, `${several(runs.length, "run")} selected`),
        runs.length === 1 && make("a.button", { href: `/run.html?run=${runs[0].run}` }, "Open"),
        going.length > 0 &&
            make("button.button.danger", { type: "button", onclick: stopped }, `Stop ${whole(going.length)} …`),
        make("button.plain", { type: "button", onclick: clear }, "Clear"),
    );
}

function stop(runs, clear) {
    const names = runs
        .slice(0, 8)
        .map((run) => `${run.run} ${run.name}`)
        .join(", ");
    return dialog({
        title: `Stop ${several(runs.length, "run")}?`,
        confirm: "Stop",
        danger: true,
        content: [
            make("p.soft", {}, "Each is asked to end and may write a checkpoint first. It is not run again by itself."),
            make("p", {}, names + (runs.length > 8 ? " …" : "")),
        ],
        act: async () => {
            for (const run of runs) await post(`/runs/${run.run}/stop`);
            tell(`${several(runs.length, "run")} told to stop.`);
            clear();
        },
    });
}

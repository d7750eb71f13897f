// SPDX-License-Identifier: Apache-2.0
// Runs of one's own that do not use what they hold: told at the top of every page, for as long as there are any.
import { get } from "./api.js";
import { fill, make } from "./dom.js";
import { clock, several } from "./format.js";
import * as live from "./live.js";

/** A link to those of `user`, hidden while there is none. */
export function idleRuns(user) {
    const element = make("a.idle", { hidden: true });
    let idle = new Map();
    const draw = () => {
        const runs = [...idle.values()];
        element.hidden = runs.length === 0;
        element.href = runs.length === 1 ? `/run.html?run=${runs[0].run}` : `/?${new URLSearchParams({ owner: user, state: "running" })}`;
        element.title = [
            "They use next to nothing of what they hold:",
            ...runs.map((run) => `${run.run} ${run.name}, seen at ${clock(run.idle_since)}`),
        ].join("\n");
        const [number, ...words] = several(runs.length, "idle run").split(" ");
        fill(element, make("span", {}, number, make("span.only-wide", {}, ` ${words.join(" ")}`)));
        element.ariaLabel = `${several(runs.length, "idle run")} of yours`;
    };
    const note = (run) => {
        if (isIdle(run)) idle.set(run.run, run);
        else if (!idle.delete(run.run)) return;
        draw();
    };
    const ask = async () => {
        const { runs } = await get("/runs", { owner: user, state: "running", most: 1000 });
        idle = new Map(runs.filter(isIdle).map((run) => [run.run, run]));
        draw();
    };
    const tryToAsk = () => ask().catch(() => {}); // the page itself reports a server that is away
    live.on("run", (run) => run.owner === user && note(run));
    live.on("again", tryToAsk);
    tryToAsk();
    return element;
}

function isIdle(run) {
    return run.state === "running" && run.idle_since !== null;
}

// SPDX-License-Identifier: Apache-2.0
// The progress that a run reports: a bar, the percentage and the time left, which counts down.
import { make } from "./dom.js";
import { left, since } from "./format.js";
import * as live from "./live.js";

const staleAfter = 60000; // milliseconds

/** The element; null if the run has reported nothing, or has succeeded. */
export function progressOf(run) {
    const { progress } = run;
    if (!progress || run.state === "succeeded") return null;
    const { done, total, seconds_left, reported_at } = progress;
    const percent = done >= total ? 100 : Math.min(99, Math.floor((100 * done) / total));
    const running = run.state === "running";
    const stale = running && Date.now() - reported_at > staleAfter;
    const end = running && seconds_left !== null ? reported_at + 1000 * seconds_left : 0;
    return make(
        "span.progress",
        { title: `${done.toLocaleString("en")} of ${total.toLocaleString("en")}, as the run reports` },
        make(
            "span.track",
            {
                role: "progressbar",
                "aria-label": `Progress of run ${run.run}`,
                "aria-valuemin": 0,
                "aria-valuemax": 100,
                "aria-valuenow": percent,
            },
            make("i", { style: { width: `${percent}%` } }),
        ),
        make("b", {}, `${percent} %`),
        stale && make("span.soft", {}, "reported ", since(reported_at), " ago"),
        end > Date.now() && make("span.soft", {}, left(end)),
    );
}

/** Do `work(number, progress)` when a run has reported. */
export function onProgress(work) {
    live.on("metrics", ({ run, progress }) => progress && work(run, progress));
}

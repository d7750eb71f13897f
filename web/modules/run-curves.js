// SPDX-License-Identifier: Apache-2.0
// The curves of a run: each metric is one, grouped by the name before the slash.
import { get } from "./api.js";
import { choice, drawing, emptyPlace, searchField, selection, wrongPlace } from "./components.js";
import { Curve } from "./curve.js";
import { atMostEvery, fill, make, onColors, whenQuiet } from "./dom.js";
import { clock, energy, several, whole } from "./format.js";
import * as live from "./live.js";
import { ManyCurves, rank } from "./many-curves.js";
import { isFinal } from "./states.js";

const example = 'print(json.dumps({"step": step, "train/loss": loss}), flush=True)';

/** The panel; `run` is a number, `now` gives the run as it is. */
export function curvesPanel(run, now) {
    const options = { axis: "steps", smoothing: 0, logarithmic: false, ...kept(), attempt: null, range: null, zoom };
    const curves = new Map();
    const groups = make("div.stack");
    const controls = make("div.controls", { hidden: true });
    const panel = make("div.stack", {}, controls, groups);
    const part = make("button.plain", {
        type: "button",
        hidden: true,
        "aria-pressed": "true",
        title: "Show all of it again",
        onclick: () => zoom(null),
        style: { display: "inline-flex", "align-items": "center", gap: "7px", padding: "0 10px" },
    });
    const used = make("span.soft", {
        title: "Energy of its GPUs, and of its part of the processors",
        style: { "margin-left": "auto" },
    });
    let words = "";
    let listed = [];
    let many = null; // for a run of more metrics than one answer has
    const curveOf = (metric) => {
        if (!curves.has(metric.name)) curves.set(metric.name, new Curve(run, metric, options));
        return curves.get(metric.name);
    };

    const renew = () => curves.forEach((curve) => curve.renew());
    const redraw = () => curves.forEach((curve) => curve.answer && curve.draw());

    /* All curves show the same part, so that they can be held against each other. */
    function zoom(range) {
        if (range === options.range) return;
        options.range = range;
        part.hidden = range === null;
        const name = (value) => (range.axis === "times" ? clock(value, true) : whole(value));
        fill(part, range && `${name(range.from)} to ${name(range.to)}`, drawing("back"));
        renew();
    }

    async function list() {
        try {
            const answer = await get(`/runs/${run}/metrics`);
            listed = answer.metrics;
            fill(used, Number.isFinite(answer.energy) && `${energy(answer.energy)} used`);
            if (answer.more && !many) {
                many = new ManyCurves(run, curveOf);
                if (controls.hidden) buildControls();
                fill(groups, many.element);
            }
            if (many) await many.refresh(words);
            else arrange();
        } catch (error) {
            if (curves.size === 0) fill(groups, make("div.card", {}, wrongPlace(error)));
        }
    }

    function buildControls() {
        const attempts = now()?.attempts ?? [];
        const smoothing = make("input", {
            type: "range",
            min: 0,
            max: 0.99,
            step: 0.01,
            value: options.smoothing,
            "aria-label": "Smoothing",
            oninput: (event) => {
                options.smoothing = Number(event.target.value);
                keep(options);
                redraw();
            },
        });
        fill(
            controls,
            searchField(
                "Find a metric",
                "",
                whenQuiet(100, (text) => {
                    words = text.toLowerCase();
                    if (many) many.refresh(words);
                    else arrange();
                }),
            ),
            choice(
                "Axis",
                [
                    ["steps", "Steps"],
                    ["times", "Time"],
                ],
                options.axis,
                (axis) => {
                    options.axis = axis;
                    keep(options);
                    zoom(null);
                    renew();
                },
            ),
            choice(
                "Scale",
                [
                    ["linear", "Linear"],
                    ["log", "Log"],
                ],
                options.logarithmic ? "log" : "linear",
                (kind) => {
                    options.logarithmic = kind === "log";
                    keep(options);
                    redraw();
                },
            ),
            make("label.inline", {}, "Smoothing", smoothing),
            attempts.length > 1 &&
                selection(
                    "Attempt",
                    [["", "All attempts"], ...attempts.map(({ epoch }) => [epoch, `Attempt ${epoch}`])],
                    "",
                    (epoch) => {
                        options.attempt = epoch || null;
                        renew();
                    },
                ),
            part,
            used,
        );
        controls.hidden = false;
    }

    function arrange() {
        if (listed.length === 0) {
            controls.hidden = true;
            fill(groups, make("div.card", {}, nothing(now())));
            return;
        }
        if (controls.hidden) buildControls();
        const named = new Map();
        for (const metric of listed.filter(({ name }) => name.toLowerCase().includes(words))) {
            named.set(groupOf(metric), [...(named.get(groupOf(metric)) ?? []), metric]);
        }
        const shape = JSON.stringify([...named].map(([group, metrics]) => [group, metrics.map(({ name }) => name)]));
        for (const metric of listed) curves.get(metric.name)?.update(metric);
        if (shape === arrange.shape) return;
        arrange.shape = shape;
        const order = [...named.keys()].sort((one, other) => rank(one) - rank(other) || one.localeCompare(other));
        for (const metrics of named.values())
            metrics.sort(
                (one, other) =>
                    Number(/loss$/.test(other.name)) - Number(/loss$/.test(one.name)) ||
                    one.name.localeCompare(other.name),
            );
        fill(
            groups,
            order.map((group) =>
                make(
                    "section.group",
                    { class: group === "system" ? "low" : "" },
                    make(
                        "h2",
                        {},
                        group || "Metrics",
                        make("span.soft.small", {}, several(named.get(group).length, "curve")),
                    ),
                    make(
                        "div.curves",
                        {},
                        named.get(group).map((metric) => curveOf(metric).element),
                    ),
                ),
            ),
            named.size === 0 && make("p.soft", {}, "No metric has this name."),
        );
    }

    const refresh = atMostEvery(2000, async () => {
        if (many) await many.refresh(words);
        else await list();
        curves.forEach((curve) => (options.range === null || curve.failed) && curve.renew());
    });
    live.on("metrics", (event) => event.run === run && panel.isConnected && refresh());
    live.on("again", () => panel.isConnected && refresh());
    onColors(() => redraw());
    list();
    return panel;
}

const place = "weft.curves"; // in the browser: how curves are looked at

function kept() {
    try {
        const { axis, logarithmic, smoothing } = JSON.parse(localStorage.getItem(place)) ?? {};
        return {
            axis: axis === "times" ? axis : "steps",
            logarithmic: logarithmic === true,
            smoothing: smoothing > 0 && smoothing < 1 ? smoothing : 0,
        };
    } catch {
        return {};
    }
}

function keep({ axis, logarithmic, smoothing }) {
    try {
        localStorage.setItem(place, JSON.stringify({ axis, logarithmic, smoothing }));
    } catch {
        // A browser that keeps nothing forgets it.
    }
}

/* The machine's have long names, and are one group. */
function groupOf(metric) {
    return metric.name.startsWith("system/") ? "system" : metric.group;
}

function nothing(run) {
    if (run && isFinal(run.state)) return emptyPlace("No metrics", "This run reported none.");
    return emptyPlace(
        "No metrics yet",
        "A line of JSON with a step and other numbers, printed by any rank, becomes curves by itself. In Python:",
        example,
    );
}

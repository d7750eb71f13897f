// SPDX-License-Identifier: Apache-2.0
// How full the cluster was, what waited meanwhile, and how much of what was free hung together.
/* global uPlot */
import { plotOptions } from "./curve.js";
import { fill, make, onColors, token } from "./dom.js";
import { clock, share, whole } from "./format.js";

/*
 * Plots of lines over time, one above the other: what is of another size has an axis of its own. `plots`: [height, lines];
 * a line is [key, title, color, filled]. The element stays, its data may change.
 */
class History {
    constructor(title, plots, note) {
        this.lines = plots.flatMap(([, lines]) => lines);
        this.read = make("span.soft.small", { style: { "margin-left": "auto" } });
        this.plots = plots.map(([height, lines]) => ({ lines, box: make("div", { style: { height: `${height}px` } }) }));
        this.note = make("span.soft");
        this.noteOf = note;
        this.element = make(
            "section.card",
            {},
            make("header", {}, make("h2", {}, title), this.note),
            make(
                "div.inside",
                {},
                make(
                    "div.keys",
                    {},
                    this.lines.map(([, text, color]) =>
                        make("span", {}, make("i", { style: { background: `var(${color})` } }), text),
                    ),
                    this.read,
                ),
                this.plots.map(({ box }) => box),
            ),
        );
        new ResizeObserver(() => {
            for (const { plot, box } of this.plots) plot?.setSize({ width: box.clientWidth, height: box.clientHeight });
        }).observe(this.element);
        onColors(() => this.answer && this.show(this.answer));
    }

    show(answer) {
        this.answer = answer;
        fill(this.note, this.noteOf(answer));
        for (const one of this.plots) {
            one.plot?.destroy();
            one.plot = null;
            fill(one.box, answer.time.length < 2 && make("p.soft.small", {}, "It is drawn as time goes by."));
            if (answer.time.length >= 2) one.plot = this.draw(one, answer);
        }
    }

    draw({ lines, box }, answer) {
        const options = plotOptions(box, true, {
            series: [
                {},
                ...lines.map(([, label, color, filled]) => ({
                    label,
                    stroke: token(color),
                    width: 1.5,
                    points: { show: false },
                    paths: uPlot.paths.stepped({ align: 1 }),
                    fill: filled ? `color-mix(in srgb, ${token(color)} 16%, transparent)` : undefined,
                })),
            ],
            scales: { y: { range: (plot, least, most) => [0, Math.max(1, most * 1.06)] } },
            cursor: { sync: { key: "cluster" } },
            hooks: { setCursor: [(plot) => this.readAt(plot)] },
        });
        options.axes[1].space = 24; // they are low
        return new uPlot(options, [answer.time, ...lines.map(([key]) => answer[key])], box);
    }

    readAt(plot) {
        const at = plot.cursor.idx;
        const said = (key, text) => {
            const value = this.answer[key][at];
            return value === null || value === undefined ? null : `${whole(value)} ${text}`;
        };
        fill(
            this.read,
            at === null || at === undefined || plot.cursor.left < 0
                ? ""
                : `${clock(plot.data[0][at])}: ${this.lines
                      .map(([key, text]) => said(key, text))
                      .filter(Boolean)
                      .join(", ")}`,
        );
    }
}

/** The plots of what /cluster/history answers. */
export function histories() {
    return [
        new History(
            "Use",
            [
                [
                    116,
                    [
                        ["slots", "slots", "--faint", false],
                        ["taken", "taken", "--running", true],
                    ],
                ],
                [104, [["waiting", "waited for", "--waiting", true]]],
            ],
            (answer) => (Number.isFinite(answer.utilization) ? `${share(answer.utilization)} used` : ""),
        ),
        new History(
            "Free slots",
            [
                [
                    220,
                    [
                        ["free", "free", "--cancelled", true],
                        ["largest_hole", "largest run that fits", "--preempted", false],
                    ],
                ],
            ],
            (answer) =>
                Number.isFinite(answer.idle_while_queued)
                    ? `${share(answer.idle_while_queued)} idle while something waited`
                    : "",
        ),
    ];
}

// SPDX-License-Identifier: Apache-2.0
// How full the cluster was, what waited meanwhile, and how much of what was free hung together.
/* global uPlot */
import { plotOptions } from "./curve.js";
import { fill, make, onColours, token } from "./dom.js";
import { clock, share, whole } from "./format.js";

/** A plot of lines over time; `lines`: [key, title, colour, filled]. Its element stays, its data may change. */
class History {
    constructor(title, lines, note) {
        this.lines = lines;
        this.read = make("span.soft.small", { style: { "margin-left": "auto" } });
        this.box = make("div.plot-small");
        this.note = make("span.soft");
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
                    lines.map(([, text, colour]) =>
                        make("span", {}, make("i", { style: { background: `var(${colour})` } }), text),
                    ),
                    this.read,
                ),
                this.box,
            ),
        );
        this.noteOf = note;
        new ResizeObserver(() =>
            this.plot?.setSize({ width: this.box.clientWidth, height: this.box.clientHeight }),
        ).observe(this.box);
        onColours(() => this.answer && this.show(this.answer));
    }

    show(answer) {
        this.answer = answer;
        fill(this.note, this.noteOf(answer));
        this.plot?.destroy();
        fill(this.box);
        if (answer.time.length < 2) {
            fill(this.box, make("p.soft.small", {}, "It is drawn as time goes by."));
            return;
        }
        const data = [answer.time, ...this.lines.map(([key]) => answer[key])];
        this.plot = new uPlot(
            plotOptions(this.box, true, {
                series: [
                    {},
                    ...this.lines.map(([, label, colour, filled]) => ({
                        label,
                        stroke: token(colour),
                        width: 1.5,
                        points: { show: false },
                        paths: uPlot.paths.stepped({ align: 1 }),
                        fill: filled ? `color-mix(in srgb, ${token(colour)} 16%, transparent)` : undefined,
                    })),
                ],
                scales: { y: { range: (plot, least, most) => [0, Math.max(1, most * 1.06)] } },
                cursor: { sync: { key: "cluster" } },
                hooks: { setCursor: [(plot) => this.readAt(plot)] },
            }),
            data,
            this.box,
        );
    }

    readAt(plot) {
        const at = plot.cursor.idx;
        fill(
            this.read,
            at === null || at === undefined || plot.cursor.left < 0
                ? ""
                : `${clock(plot.data[0][at])}: ${this.lines.map(([, text], index) => `${whole(plot.data[index + 1][at] ?? 0)} ${text}`).join(", ")}`,
        );
    }
}

export function histories() {
    return [
        new History(
            "Use",
            [
                ["slots", "slots", "--faint", false],
                ["taken", "taken", "--running", true],
                ["waiting", "waited for", "--waiting", false],
            ],
            (answer) => (Number.isFinite(answer.utilisation) ? `${share(answer.utilisation)} used` : ""),
        ),
        new History(
            "Fragmentation",
            [
                ["free", "free", "--cancelled", true],
                ["largest_hole", "largest hole on a host", "--preempted", false],
            ],
            (answer) =>
                Number.isFinite(answer.idle_while_queued)
                    ? `${share(answer.idle_while_queued)} idle while something waited`
                    : "",
        ),
    ];
}

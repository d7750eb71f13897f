// SPDX-License-Identifier: Apache-2.0
// One metric of a run with its curve: mean with a band from the lowest to the highest rank, or a line for
// each rank. Dragging over it asks the server for that part, in all its detail.
/* global uPlot */
import { download, get } from "./api.js";
import { drawing, tell } from "./components.js";
import { RankBar } from "./curve-ranks.js";
import { axes, logarithmicAxis, padding, unitAxis, valueScale } from "./curve-scale.js";
import { fill, make, saveFile, token } from "./dom.js";
import { quantity, seconds, whole } from "./format.js";

const ranksMost = 32; // lines at once
const tryAgainAfter = 5000;

/** Exponential smoothing as far as `weight` says (0: none), without its pull to the first value. */
export function smooth(values, weight) {
    let sum = 0;
    let factor = 1;
    return values.map((value) => {
        if (value === null || value === undefined) return value;
        sum = sum * weight + (1 - weight) * value;
        factor *= weight;
        return sum / (1 - factor);
    });
}

/* The value of a line at a place of all lines; where others have a point and it has none, the last one before that. */
function valueAt(values, place, lines) {
    let at = place;
    while (at > 0 && at > place - 2 * lines && values[at] === undefined) at--;
    return values[at];
}

/** A name in words: "gradient_norm" is "gradient norm"; a name that begins or ends with such a sign stays as it is. */
export function readable(name) {
    return name.replaceAll(/(?<=[^_/])[_/](?=[^_/])/g, " ");
}

/** The options that all plots of these pages share; `time`: x is milliseconds since 1970. */
export function plotOptions(box, time, more) {
    return {
        width: Math.max(120, box.clientWidth),
        height: box.clientHeight,
        ms: 1,
        legend: { show: false },
        padding,
        axes: axes(time),
        ...more,
        scales: { x: { time }, ...more.scales },
        cursor: { y: false, points: { size: 6 }, drag: { x: true, y: false, setScale: false }, ...more.cursor },
    };
}

export class Curve {
    /**
     * `options` are shared by all curves of a page: {axis: "steps" or "times", smoothing, logarithmic, attempt, range,
     * zoom}: `range` is the part that is shown ({axis, from, to}, null: all), `zoom` is called with another that
     * somebody wants. `run` is a number, `metric` as the server lists it.
     */
    constructor(run, metric, options) {
        this.run = run;
        this.options = options;
        this.drill = false;
        this.hidden = new Set();
        this.ofMachine = metric.name.startsWith("system/");
        this.build(metric);
        this.update(metric);
        this.sizes = new ResizeObserver(() =>
            this.plot?.setSize({ width: this.box.clientWidth, height: this.box.clientHeight }),
        );
        this.sizes.observe(this.box);
        this.sight = new IntersectionObserver(
            (entries) => {
                this.seen = entries.at(-1).isIntersecting;
                if (this.seen && this.stale) this.load();
            },
            { rootMargin: "200px" },
        );
        this.stale = true;
        this.sight.observe(this.element);
    }

    build(metric) {
        const tool = (name, label, work) =>
            make(
                "button.plain",
                {
                    type: "button",
                    title: label,
                    "aria-label": `${label}: ${metric.name}`,
                    "aria-pressed": "false",
                    onclick: work,
                },
                drawing(name),
            );
        this.read = make("span.read");
        this.ranksTool = tool("ranks", "Every rank by itself", () => this.toggleRanks());
        this.largerTool = tool("larger", "Larger", () => {
            this.element.classList.toggle("wide");
            this.largerTool.setAttribute("aria-pressed", String(this.element.classList.contains("wide")));
        });
        this.box = make("div.plot", { ondblclick: () => this.options.zoom(null) });
        this.rankBar = new RankBar(
            (number) => this.toggleRank(number),
            (value) => this.figure(value),
        );
        this.old = make("span.old", { hidden: true });
        this.note = make("p.note.soft.small", { hidden: true });
        const short = this.ofMachine
            ? metric.name.replace(/^system\/(machine\/)?/, "")
            : metric.group
              ? metric.name.slice(metric.group.length + 1)
              : metric.name;
        this.element = make(
            "section.card.curve",
            { "data-metric": metric.name, "aria-label": metric.name },
            make(
                "div.title",
                {},
                make("h3.cut", { title: metric.name }, readable(short)),
                this.old,
                this.read,
                make("div.tools", {}, this.ranksTool, this.pointsTool(metric), this.largerTool),
            ),
            this.rankBar.element,
            this.note,
            this.box,
        );
    }

    pointsTool(metric) {
        const label = `Every point as CSV: ${metric.name}`;
        const name = `run-${this.run}-${metric.name.replaceAll("/", "-")}.csv`;
        const points = `/runs/${this.run}/metrics/points`;
        const save = () =>
            download(points, { name: metric.name, format: "csv" }).then(
                (blob) => saveFile(name, blob),
                (error) => tell(error.message, true),
            );
        return make(
            "button.plain",
            { type: "button", onclick: save, title: "Every point as CSV", "aria-label": label },
            drawing("download"),
        );
    }

    /** What it is drawn over: machines know no steps. */
    get axis() {
        return this.ofMachine ? "times" : this.options.axis;
    }

    /* What machines do is below 0, and 0, as often as not. */
    get logarithmic() {
        return this.options.logarithmic && !this.ofMachine;
    }

    /** [from, to] of what is shown, or null: all. */
    get range() {
        const { range } = this.options;
        return range && range.axis === this.axis ? [range.from, range.to] : null;
    }

    /** The metric as it is listed now. */
    update(metric) {
        this.metric = metric;
        this.ranksTool.hidden = metric.ranks < 2;
        this.readLast();
    }

    /** Forget what is drawn, and draw again as soon as it is seen. */
    renew() {
        this.stale = true;
        if (this.seen) this.load();
    }

    /** Forget it for good. */
    remove() {
        this.sizes.disconnect();
        this.sight.disconnect();
        this.plot?.destroy();
        this.element.remove();
    }

    toggleRanks() {
        this.drill = !this.drill;
        this.ranksTool.setAttribute("aria-pressed", String(this.drill));
        this.renew();
    }

    ask(rank) {
        const [from, to] = this.range ?? [null, null];
        return get(`/runs/${this.run}/metrics/curve`, {
            name: this.metric.name,
            axis: this.axis,
            attempt: this.options.attempt,
            rank,
            from: from === null ? null : Math.floor(from),
            to: to === null ? null : Math.ceil(to),
            most: Math.min(2000, Math.max(200, Math.round(this.box.clientWidth * devicePixelRatio))),
        });
    }

    async load() {
        this.stale = false;
        const turn = (this.turn = {});
        try {
            const mean = await this.ask();
            const ranks = this.drill ? mean.ranks.slice(0, ranksMost) : [];
            const lines = await Promise.all(ranks.map((rank) => this.ask(rank)));
            if (turn !== this.turn) return;
            this.answer = { mean, ranks, lines };
            this.loaded = Date.now();
            this.failed = false;
            this.old.hidden = true;
            this.draw();
        } catch (error) {
            if (turn === this.turn) this.fail(error);
        }
    }

    /* What was drawn stays, and says how old it is. */
    fail(error) {
        this.failed = true;
        if (this.plot) {
            fill(this.old, `as of ${seconds(this.loaded)}`);
            this.old.title = error.message;
            this.old.hidden = false;
        } else {
            this.tell(error.message);
        }
        if (error.status === 0 || error.status >= 429) setTimeout(() => this.failed && this.renew(), tryAgainAfter);
    }

    tell(text) {
        this.plot?.destroy();
        this.plot = null;
        fill(this.box, make("p.soft.small", {}, text));
    }

    /** Data and lines for what was answered: [x, series...] and their descriptions. */
    lines() {
        const { mean, ranks, lines } = this.answer;
        const positive = (values) =>
            this.logarithmic ? values.map((value) => (value > 0 ? value : null)) : values;
        const weight = this.options.smoothing;
        if (this.drill) {
            const data = uPlot.join(
                lines.map((line) => [line.x, weight ? smooth(positive(line.mean), weight) : positive(line.mean)]),
            );
            return {
                data,
                series: ranks.map((rank, index) => ({
                    label: `${this.ofMachine ? "node" : "rank"} ${rank}`,
                    rank,
                    stroke: this.rankColor(index, ranks.length),
                    width: 1.2,
                    show: !this.hidden.has(rank),
                    points: { show: false },
                })),
            };
        }
        const main = token("--running");
        const faint = `color-mix(in srgb, ${main} 35%, transparent)`;
        const data = [mean.x, positive(mean.highest), positive(mean.lowest), positive(mean.mean)];
        const hidden = { width: 0, points: { show: false } };
        const series = [
            { ...hidden, stroke: "transparent" },
            { ...hidden, stroke: "transparent" },
            {
                label: "mean",
                stroke: weight ? faint : main,
                width: weight ? 1 : 1.6,
                points: { show: mean.x.length < 3, size: 5, fill: main },
            },
        ];
        if (weight) {
            data.push(smooth(positive(mean.mean), weight));
            series.push({ label: "smoothed", stroke: main, width: 1.8, points: { show: false } });
        }
        return { data, series, bands: [{ series: [1, 2], fill: `color-mix(in srgb, ${main} 15%, transparent)` }] };
    }

    rankColor(index, count) {
        return `oklch(${token("--run-lightness")} 0.13 ${(230 + (index * 360) / count) % 360})`;
    }

    /* Why there is nothing to draw; "" if there is. */
    nothing() {
        const { x, highest } = this.answer.mean;
        if (x.length === 0) return "There is nothing in this part.";
        if (highest.every((value) => value === null)) return "No value is finite.";
        if (x.length === 1 && !this.range) return "One sample, which makes no curve.";
        if (this.logarithmic && !highest.some((value) => value > 0))
            return "No value is above 0: a logarithmic scale has no place for them.";
        return "";
    }

    draw() {
        const nothing = this.nothing();
        const { data, series, bands } = this.lines();
        this.noteLeftOut();
        this.rankBar.show(this.drill ? series : [], this.drill ? this.answer.mean.ranks.length - ranksMost : 0);
        if (nothing) this.tell(nothing);
        else this.drawLines(data, series, bands);
        this.readLast();
    }

    drawLines(data, series, bands) {
        const time = this.axis === "times";
        const kind = JSON.stringify([time, this.logarithmic, series.map((line) => [line.label, line.stroke])]);
        if (this.plot && this.kind === kind) {
            this.plot.setData(data);
            return;
        }
        this.plot?.destroy();
        fill(this.box);
        this.kind = kind;
        this.near = null;
        const options = plotOptions(this.box, time, {
            series: [{}, ...series],
            bands,
            scales: {
                x: {
                    time,
                    range: (plot, least, most) =>
                        this.range ?? (least === most ? [least - 1, most + 1] : [least, most]),
                },
                y: valueScale(this.logarithmic),
            },
            cursor: {
                sync: {
                    key: `curves-${this.axis}`,
                    filters: { pub: (type) => type === "mousemove" || type === "mouseleave" },
                },
                focus: { prox: this.drill ? 24 : -1 },
            },
            focus: { alpha: 0.2 },
            hooks: {
                setCursor: [(plot) => this.readAt(plot)],
                setSeries: [
                    (plot, index, { focus }) => {
                        if (focus !== undefined) this.near = index;
                    },
                ],
                setSelect: [(plot) => this.selected(plot)],
            },
        });
        if (this.metric.unit) Object.assign(options.axes[1], unitAxis(this.metric.unit));
        if (this.logarithmic) Object.assign(options.axes[1], logarithmicAxis());
        this.plot = new uPlot(options, data, this.box);
    }

    /* A logarithmic scale shows a part of them only, and no scale what is not finite. */
    noteLeftOut() {
        const { mean, nan, infinite } = this.answer.mean;
        const values = mean.filter((value) => value !== null);
        const low = this.logarithmic ? values.filter((value) => value <= 0).length : 0;
        const lost = [nan > infinite && `${whole(nan - infinite)} NaN`, infinite > 0 && `${whole(infinite)} infinite`];
        const words = [
            low > 0 &&
                low < values.length &&
                `${whole(low)} of ${whole(values.length)} points are not above 0, and left out.`,
            nan > 0 && `Points left out: ${lost.filter(Boolean).join(", ")}.`,
        ].filter(Boolean);
        this.note.hidden = words.length === 0;
        fill(this.note, words.join(" "));
    }

    toggleRank(rank) {
        if (!this.hidden.delete(rank)) this.hidden.add(rank);
        const index = this.answer.ranks.indexOf(rank);
        this.plot?.setSeries(index + 1, { show: !this.hidden.has(rank) });
        this.draw();
    }

    selected(plot) {
        if (plot.select.width < 4) return;
        const { left, width } = plot.select;
        const range = { axis: this.axis, from: plot.posToVal(left, "x"), to: plot.posToVal(left + width, "x") };
        plot.setSelect({ left: 0, width: 0, top: 0, height: 0 }, false);
        this.options.zoom(range);
    }

    readLast() {
        const last = this.metric.last;
        if (this.drill && this.answer?.lines.length === this.rankBar.buttons.length) {
            const drawn = this.plot?.data.slice(1) ?? this.answer.lines.map(({ mean }) => mean);
            this.rankBar.values(drawn.map((values) => values.findLast(Number.isFinite)));
        }
        fill(
            this.read,
            last && [
                make("b", {}, this.figure(last.value)),
                this.spread(last.lowest, last.highest),
                this.axis === "times" ? ` at ${seconds(last.time)}` : ` at ${whole(last.step)}`,
            ],
        );
    }

    figure(value) {
        return quantity(value, this.metric.unit);
    }

    /* Where ranks differ: from what to what, as far as there is room. */
    spread(lowest, highest) {
        if (this.metric.ranks < 2 || highest === lowest) return null;
        const text = ` (${this.figure(lowest)} to ${this.figure(highest)})`;
        return make("span.spread", { title: text.trim() }, text);
    }

    readAt(plot) {
        const at = plot.cursor.idx;
        if (at === null || at === undefined || plot.cursor.left < 0) {
            this.readLast();
            return;
        }
        const x = plot.data[0][at];
        const where = this.axis === "times" ? seconds(x) : whole(x);
        if (this.drill) {
            const near = this.near > 0 && plot.series[this.near]?.show ? this.near : 0;
            const values = plot.data.slice(1).map((line, index, lines) => valueAt(line, at, lines.length));
            this.rankBar.values(values, near - 1);
            fill(
                this.read,
                near > 0 && [make("b", {}, this.figure(values[near - 1])), ` ${plot.series[near].label}`],
                ` at ${where}`,
            );
            return;
        }
        const [, highest, lowest, mean] = plot.data;
        const spread = this.spread(lowest[at], highest[at]);
        fill(this.read, make("b", {}, this.figure((plot.data[4] ?? mean)[at])), spread, ` at ${where}`);
    }
}

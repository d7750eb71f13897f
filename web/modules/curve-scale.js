// SPDX-License-Identifier: Apache-2.0
// Axes, ranges and marks of curves, for uPlot.
/* global uPlot */
import { token } from "./dom.js";
import { scaleFigure, scaleQuantity, timeLabel, whole } from "./format.js";

const axisFont = () => `11px ${token("--sans")}`;
const edge = 8; // pixels at the right of a plot, into which a mark may reach but for the last two

/** The space around a plot: above, at the right, below, at the left. */
export const padding = [10, edge, 0, 0];

/* The marks below a plot. One that would be cut off at its right edge waits until it has come further in. */
function marksBelow(plot, values, write) {
    const pen = plot.ctx;
    const room = plot.bbox.width / devicePixelRatio + edge - 2;
    const texts = values.map((value) => (value === null ? "" : write(value)));
    pen.save();
    pen.font = axisFont();
    const fits = texts.map((text, at) => plot.valToPos(values[at], "x") + pen.measureText(text).width / 2 <= room);
    pen.restore();
    return texts.map((text, at) => (fits[at] ? text : ""));
}

/** The axes of a plot; `time`: x is milliseconds since 1970. */
export function axes(time) {
    const shared = {
        stroke: token("--soft"),
        font: axisFont(),
        grid: { stroke: token("--line"), width: 1 },
        ticks: { show: false },
    };
    return [
        {
            ...shared,
            grid: { show: false },
            size: 26,
            gap: 4,
            space: (plot, axis, least, most) => (time && most - least < 10000 ? 105 : 70), // parts of seconds are long
            values: (plot, values) =>
                marksBelow(plot, values, (value) => (time ? timeLabel(value, values[1] - values[0]) : whole(value))),
        },
        {
            ...shared,
            size: 54,
            gap: 6,
            space: 34,
            values: (plot, values) => values.map((value) => (value === null ? "" : scaleFigure(value))),
        },
    ];
}

/** What the axis of y has besides, for values of a unit: room for it, and bytes in steps of two. */
export function unitAxis(unit) {
    return {
        size: unit === "bytes/s" ? 72 : 60,
        values: (plot, values) => values.map((value) => (value === null ? "" : scaleQuantity(value, unit))),
        ...(unit.startsWith("bytes") && { incrs: Array.from({ length: 60 }, (none, power) => 2 ** power) }),
    };
}

/** The scale of y: a little room above and below, also where all values are the same. */
export function valueScale(logarithmic) {
    return {
        distr: logarithmic ? 3 : 1,
        range: (plot, least, most) => (logarithmic ? logarithmicRange(least, most) : linearRange(least, most)),
    };
}

/** From the least to the most of values, as far as is drawn; null, null: there is none. */
export function linearRange(least, most) {
    if (least === null || most === null) return [0, 1];
    if (least !== most) return uPlot.rangeNum(least, most, 0.1, true);
    const room = Math.abs(least) * 0.1;
    return room ? [least - room, most + room] : [-0.1, 1];
}

/** As linearRange(), of values above 0: not to whole decades, or a fall from 1.5 to 1.4 is a flat line. */
export function logarithmicRange(least, most) {
    if (least === null || most === null) return [1, 10];
    const room = least === most ? 2 : (most / least) ** 0.06;
    return [least / room, most * room];
}

/** What the axis of y has besides, for a logarithmic scale. */
export function logarithmicAxis() {
    return {
        filter: (plot, marks) => marks,
        splits: (plot, axis, least, most) =>
            logarithmicMarks(least, most, Math.max(2, Math.floor(plot.bbox.height / devicePixelRatio / 28))),
    };
}

/** Marks for a logarithmic scale, some `count`: powers of ten, or as on a ruler where it spans less than one. */
export function logarithmicMarks(least, most, count) {
    const decades = Math.log10(most / least);
    const first = Math.floor(Math.log10(least));
    const marks = [];
    if (decades < 1.3) {
        const step = ruler((most - least) / count);
        for (let number = Math.ceil(least / step); number * step <= most; number++) marks.push(number * step);
        return marks;
    }
    const within = decades * 3 <= count ? [1, 2, 5] : [1];
    const every = Math.max(1, Math.ceil(decades / count));
    for (let power = first; power <= first + decades + 1; power += every)
        for (const digit of within) marks.push(Number(`${digit}e${power}`));
    return marks.filter((mark) => mark >= least && mark <= most);
}

/* The least of 1, 2, 5, 10, 20 ... that is not below `step`. */
function ruler(step) {
    const power = 10 ** Math.floor(Math.log10(step));
    return power * [1, 2, 5, 10].find((digit) => digit * power >= step * 0.999);
}

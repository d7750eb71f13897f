// SPDX-License-Identifier: Apache-2.0
// The states of a run: each has a tone (style.css) and a sign, so that it can be seen without colors.
import { make } from "./dom.js";

const states = {
    queued: { tone: "waiting", sign: "ring" },
    placed: { tone: "beginning", sign: "half" },
    starting: { tone: "beginning", sign: "half" },
    running: { tone: "running", sign: "disc" },
    stopping: { tone: "stopping", sign: "square" },
    preempted: { tone: "preempted", sign: "pause" },
    "re-queued": { tone: "waiting", sign: "ring" },
    succeeded: { tone: "succeeded", sign: "check" },
    failed: { tone: "failed", sign: "cross" },
    cancelled: { tone: "cancelled", sign: "dash" },
};

/** All of them, in the order in which a run goes through them. */
export const stateNames = Object.keys(states);
export const finalStates = ["succeeded", "failed", "cancelled"];
export const waitingStates = ["queued", "re-queued"];

export function isFinal(state) {
    return finalStates.includes(state);
}

export function isWaiting(state) {
    return waitingStates.includes(state);
}

/** The class that gives an element the tone of a state. */
export function tone(state) {
    return `tone-${states[state]?.tone ?? "cancelled"}`;
}

const line = {
    fill: "none",
    stroke: "currentColor",
    "stroke-width": "1.7",
    "stroke-linecap": "round",
    "stroke-linejoin": "round",
};
const signs = {
    ring: () => make("circle", { cx: 6, cy: 6, r: 4.6, ...line }),
    half: () => [
        make("circle", { cx: 6, cy: 6, r: 4.6, ...line }),
        make("path", { d: "M6 1.4a4.6 4.6 0 0 1 0 9.2z", fill: "currentColor" }),
    ],
    disc: () => [
        make("circle", { cx: 6, cy: 6, r: 4.6, ...line, opacity: 0.35 }),
        make("circle", { cx: 6, cy: 6, r: 2.9, fill: "currentColor" }),
    ],
    square: () => make("rect", { x: 2, y: 2, width: 8, height: 8, rx: 1.5, fill: "currentColor" }),
    pause: () => make("path", { d: "M4 2.2v7.6M8 2.2v7.6", ...line, "stroke-width": "2.2" }),
    check: () => make("path", { d: "m1.8 6.4 2.7 2.7 5.7-6", ...line }),
    cross: () => make("path", { d: "m2.4 2.4 7.2 7.2M9.6 2.4 2.4 9.6", ...line, "stroke-width": "2" }),
    dash: () => make("path", { d: "M2.2 6h7.6", ...line, "stroke-width": "2" }),
    dot: () => make("circle", { cx: 6, cy: 6, r: 2.2, fill: "currentColor" }),
};

/** The sign of a state, of 12 by 12 pixels. */
export function stateSign(state) {
    return make(
        "svg",
        { width: 12, height: 12, viewBox: "0 0 12 12", "aria-hidden": "true" },
        signs[states[state]?.sign ?? "dot"](),
    );
}

/** Sign and word; `large` is for the head of a page. */
export function stateBadge(state, large = false) {
    return make(
        "span.state",
        { class: `${tone(state)} ${state === "failed" ? "failed" : ""} ${large ? "large" : ""}`, title: state },
        stateSign(state),
        make("span.word", {}, state),
    );
}

/** A hue for a run: neighbors are far from each other. */
export function hue(run) {
    return (run * 137.508 + 20) % 360;
}

/** The color of a run on a canvas. */
export function runColor(run, lightness, chroma) {
    return `oklch(${lightness} ${chroma} ${hue(run).toFixed(1)})`;
}

// SPDX-License-Identifier: Apache-2.0
// What happens at the moment: server-sent events of /api/v1/events.
//
// A page that nobody looks at lets its connection go (a browser has few for one server) and asks for everything anew
// when it is looked at again, as it does after events were missed.

const address = "/api/v1/events";
const kinds = ["run", "queue", "cluster", "project", "metrics"];
const listeners = new Map();
let source = null;
let wait = 1000;
let timer = null;
let wasOpen = false;
let isReady = false;

function emit(kind, data) {
    for (const listener of listeners.get(kind) ?? []) listener(data);
}

/**
 * Listen for "run" (a run as it is now), "queue", "cluster", "project" ({project}), "metrics" ({run, progress}), "again" (ask for
 * everything anew), and "state" ("open", "lost").
 */
export function on(kind, listener) {
    if (!listeners.has(kind)) listeners.set(kind, new Set());
    listeners.get(kind).add(listener);
}

/** The page shows what it has asked for: from now on it is live, and is called so. */
export function ready() {
    if (isReady) return;
    isReady = true;
    if (source?.readyState === EventSource.OPEN) emit("state", "open");
}

/** Do it every so many seconds while somebody looks: for what changes without an event. */
export function everySoOften(seconds, work) {
    setInterval(() => document.hidden || work(), seconds * 1000);
}

/** Begin to listen. */
export function begin() {
    document.addEventListener("visibilitychange", () => (document.hidden ? close() : open()));
    addEventListener("pagehide", close);
    addEventListener("pageshow", (event) => event.persisted && open());
    if (!document.hidden) open();
}

function open() {
    if (source) return;
    clearTimeout(timer);
    source = new EventSource(address);
    source.addEventListener("open", () => {
        wait = 1000;
        if (isReady) emit("state", "open");
        if (wasOpen || isReady) emit("again"); // what happened since the page asked for what it shows
        wasOpen = true;
    });
    source.addEventListener("error", () => {
        emit("state", "lost");
        if (source?.readyState === EventSource.CLOSED) later();
    });
    source.addEventListener("missed", () => emit("again"));
    for (const kind of kinds) source.addEventListener(kind, (event) => emit(kind, JSON.parse(event.data || "{}")));
}

/* The browser tries again by itself after a cut, but not after an answer that was no stream. */
function later() {
    close();
    timer = setTimeout(open, wait);
    wait = Math.min(wait * 2, 30000);
}

function close() {
    source?.close();
    source = null;
    clearTimeout(timer);
}

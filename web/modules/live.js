// SPDX-License-Identifier: Apache-2.0
// What happens at the moment: server-sent events of /api/v1/events.
//
// A page that nobody looks at lets its connection go (a browser has few for one server) and asks for everything again
// when it is looked at again, as it does after events were missed.
import { RequestError, events } from "./api.js";

const listeners = new Map();
let control = null; // of the connection that there is
let isOpen = false;
let wait = 1000;
let timer = null;
let wasOpen = false;
let isReady = false;

function emit(kind, data) {
    for (const listener of listeners.get(kind) ?? []) listener(data);
}

/**
 * Listen for "run" (a run as it is now), "queue", "cluster", "project" ({project}), "metrics" ({run, progress}), "again" (ask for
 * everything again), and "state" ("open", "lost").
 */
export function on(kind, listener) {
    if (!listeners.has(kind)) listeners.set(kind, new Set());
    listeners.get(kind).add(listener);
}

/** The page shows what it has asked for: from now on it is live, and is called so. */
export function ready() {
    if (isReady) return;
    isReady = true;
    if (isOpen) emit("state", "open");
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

async function open() {
    if (control) return;
    clearTimeout(timer);
    control = new AbortController();
    const { signal } = control;
    try {
        for await (const list of events("/events", signal)) {
            if (!isOpen) opened();
            for (const { kind, data } of list) emit(kind === "missed" ? "again" : kind, data);
        }
    } catch (error) {
        if (!signal.aborted && !(error instanceof RequestError)) reportError(error);
    }
    if (signal.aborted) return;
    close();
    emit("state", "lost");
    timer = setTimeout(open, wait);
    wait = Math.min(wait * 2, 30000);
}

function opened() {
    isOpen = true;
    wait = 1000;
    if (isReady) emit("state", "open");
    if (wasOpen || isReady) emit("again"); // what happened since the page asked for what it shows
    wasOpen = true;
}

function close() {
    control?.abort();
    control = null;
    isOpen = false;
    clearTimeout(timer);
}

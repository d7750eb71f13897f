// SPDX-License-Identifier: Apache-2.0
// Lines that a run prints, as they come: one answer of the server that goes on until the run has ended.
import { get, lines } from "./api.js";

/* A browser has six connections for one server, and every window takes one for its events: if each took another for lines,
 * three would leave none for anything else. The one whose log was looked at last gets lines as they come; the others ask
 * now and then. */
const pages = new BroadcastChannel("weft-log-streams");
const askEvery = 2000;
const tryAgainAfter = 2000;

const escapes = /\x1b(?:\[[0-9;?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)|[@-Z\\-_])/g;

/** A line without orders to a terminal. */
export function withoutEscapes(text) {
    return text.replace(escapes, "");
}

export class LogStream {
    /**
     * `take` gets lists of lines; `told` what has become of it: "open", "lost" (it goes on by itself), "over". `ended`
     * tells whether the run has ended.
     */
    constructor(run, ended, take, told) {
        this.path = `/runs/${run}/logs`;
        this.ended = ended;
        this.take = take;
        this.told = told;
        this.isLast = true; // of all pages
        pages.addEventListener("message", () => {
            if (!this.isLast) return;
            this.isLast = false;
            if (this.control) this.anew();
        });
        addEventListener("focus", () => {
            if (!this.control || this.isLast) return;
            this.isLast = true;
            this.anew();
        });
    }

    get isOn() {
        return Boolean(this.control);
    }

    /** Get what comes after `after`, a cursor; null: all there is, and what comes. */
    begin(query, after) {
        this.end();
        this.query = query;
        this.after = after;
        this.isLast = true;
        this.anew();
    }

    end() {
        this.control?.abort();
        this.control = null;
    }

    anew() {
        this.end();
        this.control = new AbortController();
        this.go(this.control);
    }

    async go(control) {
        while (this.control === control)
            try {
                if (this.isLast || this.ended()) await this.stream(control);
                else await this.ask(control);
            } catch (error) {
                if (this.control !== control) return;
                this.told("lost", error);
                await wait(tryAgainAfter);
            }
    }

    /* The server ends it with the run. */
    async stream(control) {
        pages.postMessage("begun");
        const query = { ...this.query, follow: true, after: this.after, most: this.after ? null : 10000 };
        for await (const some of lines(this.path, query, control.signal)) {
            if (this.control !== control) return;
            this.told("open");
            this.give(some);
        }
        if (this.control !== control) return;
        if (!this.ended()) return wait(tryAgainAfter); // it is the server that ends, or the page does not know yet
        this.control = null;
        this.told("over");
    }

    async ask(control) {
        await wait(askEvery);
        if (this.control !== control) return;
        const answer = await get(this.path, { ...this.query, after: this.after }, { signal: control.signal });
        if (this.control !== control) return;
        this.told("open");
        this.give(answer.lines);
        this.after = answer.after ?? this.after;
    }

    give(some) {
        if (some.length === 0) return;
        this.after = some.at(-1).cursor;
        this.take(some);
    }
}

function wait(milliseconds) {
    return new Promise((resolve) => setTimeout(resolve, milliseconds));
}

// SPDX-License-Identifier: Apache-2.0
// The runs that a filter lets through, in the order asked for: got a page at a time, kept fresh by events.
import { get } from "./api.js";
import { atMostEvery } from "./dom.js";
import { isFinal } from "./states.js";

const firstPage = 200;
const nextPage = 1000;
const sortMost = 20000; // runs got for sorting by something else than their number

/** What columns are sorted by; also what the table shows. */
export const sortKeys = {
    run: (run) => run.run,
    state: (run) => run.state,
    name: (run) => run.name.toLowerCase(),
    project: (run) => run.project,
    owner: (run) => run.owner,
    size: (run) => run.size,
    waited: (run) => waited(run),
    ran: (run) => ran(run),
};

/** Milliseconds that a run has waited for its first start, or waits since it was queued again. */
export function waited(run) {
    if (run.first_started !== null) return run.first_started - run.submitted;
    return (run.ended ?? Date.now()) - run.submitted;
}

/** Milliseconds that it has run. */
export function ran(run) {
    if (run.started === null) return run.served_ms || 0;
    return (
        (run.served_ms || 0) +
        (run.ended === null && !["queued", "re-queued", "preempted"].includes(run.state) ? Date.now() - run.started : 0)
    );
}

export class RunList {
    /**
     * `changed` is called when there is something else to show; `failed` gets an Error. Where there is nothing to show
     * for it, `failure` is that error.
     */
    constructor(changed, failed) {
        this.changed = changed;
        this.failed = failed;
        this.filter = {};
        this.sort = { key: "run", descending: true };
        this.runs = new Map();
        this.counts = {};
        this.more = false;
        this.loading = null;
        this.loaded = false;
        this.failure = null;
        this.meanwhile = []; // runs from events since the last answer was asked for
        this.recount = atMostEvery(2000, () => this.count());
    }

    get query() {
        const { state, project, owner, search } = this.filter;
        return { state, project, owner, search };
    }

    /** Begin again with this filter; with the one that there is, get as many as there are. */
    async load(filter) {
        const same = JSON.stringify(filter) === JSON.stringify(this.filter);
        const wanted = same ? this.runs.size : 0;
        this.filter = { ...filter };
        this.stop?.abort();
        this.stop = new AbortController();
        this.loading = null;
        this.meanwhile = [];
        this.asking = true;
        try {
            const { signal } = this.stop;
            const answer = await get("/runs", { ...this.query, most: firstPage }, { signal });
            const runs = new Map(answer.runs.map((run) => [run.run, run]));
            let { more } = answer;
            while (more && runs.size < wanted) {
                const before = Math.min(...runs.keys());
                const further = await get("/runs", { ...this.query, before, most: nextPage }, { signal });
                for (const run of further.runs) runs.set(run.run, run);
                more = further.more && further.runs.length > 0;
            }
            Object.assign(this, { runs, more });
            this.meanwhile.forEach((run) => this.put(run));
            this.asking = false;
            this.counts = answer.counts ?? {};
            this.loaded = true;
            this.failure = null;
            if (this.sort.key !== "run" || !this.sort.descending) await this.loadAll();
            this.changed();
        } catch (error) {
            if (error.name === "AbortError") return; // another is under way
            this.asking = false;
            if (this.loaded && same) {
                this.failed(error);
                return;
            }
            this.runs = new Map();
            this.more = false;
            this.failure = error;
            this.changed();
        }
    }

    /** Get the next page of older runs, if there are any; one at a time. */
    loadMore() {
        if (!this.more || this.loading) return this.loading;
        const signal = this.stop.signal;
        const before = Math.min(...this.runs.keys());
        this.loading = get("/runs", { ...this.query, before, most: nextPage }, { signal })
            .then((answer) => {
                for (const run of answer.runs) this.runs.set(run.run, run);
                this.more = answer.more && answer.runs.length > 0;
            })
            .catch((error) => {
                this.more = false;
                if (error.name !== "AbortError") this.failed(error);
            })
            .finally(() => {
                if (!signal.aborted) {
                    this.loading = null;
                    this.changed();
                }
            });
        return this.loading;
    }

    async loadAll() {
        while (this.more && this.runs.size < sortMost) await this.loadMore();
    }

    async sortBy(key) {
        const descending =
            this.sort.key === key
                ? !this.sort.descending
                : key !== "name" && key !== "project" && key !== "owner" && key !== "state";
        this.sort = { key, descending };
        this.changed();
        if (key !== "run" || !descending) await this.loadAll();
        this.changed();
    }

    /** All that are loaded, sorted; equal ones by number, newest first. */
    sorted() {
        const { key, descending } = this.sort;
        const sign = descending ? -1 : 1;
        const decorated = [...this.runs.values()].map((run) => [sortKeys[key](run), run]);
        decorated.sort((one, other) =>
            one[0] < other[0] ? -sign : one[0] > other[0] ? sign : other[1].run - one[1].run,
        );
        return decorated.map((pair) => pair[1]);
    }

    /** Take in a run as it is now, from an event. */
    take(run) {
        if (this.asking) this.meanwhile.push(run); // the answer that is waited for may be older
        this.put(run);
        this.recount();
    }

    put(run) {
        const known = this.runs.has(run.run);
        if (known && this.runs.get(run.run).changed > run.changed) return;
        const newer = this.runs.size === 0 ? !this.more : run.run > Math.min(...this.runs.keys()) || !this.more;
        if (this.letsThrough(run) && (known || newer)) this.runs.set(run.run, run);
        else if (known) this.runs.delete(run.run);
    }

    letsThrough(run) {
        const { state, project, owner, search } = this.filter;
        const words = (search ?? "").toLowerCase();
        return (
            (!state || run.state === state || (state === "live" && !isFinal(run.state))) &&
            (!project || run.project === project) &&
            (!owner || run.owner === owner) &&
            (!words ||
                String(run.run) === words ||
                [run.name, run.project, run.owner].some((text) => text.toLowerCase().includes(words)))
        );
    }

    async count() {
        try {
            const answer = await get("/runs", { ...this.query, state: "", most: 1 });
            this.counts = answer.counts ?? {};
            this.changed();
        } catch {
            // The next event asks again.
        }
    }
}

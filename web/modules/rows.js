// SPDX-License-Identifier: Apache-2.0
// A long table of which only the rows that are seen exist. All rows are of the same height (--row); the window scrolls.
import { make } from "./dom.js";

const beyond = 12; // rows that exist above and below what is seen

export class Rows {
    /**
     * `body` is the table's tbody. `key(item)` is what an item is known by: its row stays, whatever becomes of the item.
     * `put(row, item)` fills a row, when it is made and when the item is another object than before.
     */
    constructor(body, { key, put }) {
        this.body = body;
        this.key = key;
        this.put = put;
        this.items = [];
        this.made = new Map(); // key -> {item, row}
        this.above = spacer();
        this.below = spacer();
        body.replaceChildren(this.above, this.below);
        this.onNearEnd = null; // called when the last rows come into sight
        this.onDrawn = null; // called when rows have come or gone
        let waiting = false;
        const later = () => {
            if (!waiting)
                requestAnimationFrame(() => {
                    waiting = false;
                    this.draw();
                });
            waiting = true;
        };
        addEventListener("scroll", later, { passive: true });
        addEventListener("resize", later);
    }

    get rowHeight() {
        return parseFloat(getComputedStyle(document.documentElement).getPropertyValue("--row")) || 40;
    }

    show(items) {
        this.items = items;
        this.draw();
    }

    /** Fill rows again: all that exist, or those of the items for which `which` is true. */
    renew(which = () => true) {
        for (const { item, row } of this.made.values()) if (which(item)) this.put(row, item);
        this.onDrawn?.();
    }

    /** The row of what is known by `key`, where it exists. */
    row(key) {
        return this.made.get(key)?.row ?? null;
    }

    /** What the row that `element` is in shows. */
    itemOf(element) {
        const row = element.closest("tr");
        for (const one of this.made.values()) if (one.row === row) return one.item;
        return null;
    }

    draw() {
        const height = this.rowHeight;
        const top = this.body.getBoundingClientRect().top;
        const first = Math.max(0, Math.min(this.items.length, Math.floor(-top / height) - beyond));
        const last = Math.min(this.items.length, Math.ceil((innerHeight - top) / height) + beyond);
        const kept = new Map();
        this.items.slice(first, last).forEach((item, index) => {
            const one = this.made.get(this.key(item)) ?? { item: null, row: make("tr", { tabindex: -1 }) };
            if (one.item !== item) this.put(one.row, item);
            one.item = item;
            one.row.setAttribute("aria-rowindex", first + index + 2); // the head is the first
            kept.set(this.key(item), one);
        });
        this.made = kept;
        const rows = [...kept.values()].map(({ row }) => row);
        const wanted = new Set(rows);
        for (const row of [...this.body.children])
            if (!wanted.has(row) && row !== this.above && row !== this.below) row.remove();
        let place = this.above.nextSibling;
        for (const row of rows) {
            if (row === place) place = place.nextSibling;
            else move(this.body, row, place);
        }
        setHeight(this.above, first * height);
        setHeight(this.below, Math.max(0, this.items.length - Math.max(last, first)) * height);
        this.onDrawn?.();
        if (this.onNearEnd && last + 3 * beyond >= this.items.length) this.onNearEnd();
    }

    /** Scroll so that the item at `index` is seen. */
    reveal(index) {
        const height = this.rowHeight;
        const top = this.body.getBoundingClientRect().top + index * height;
        const highest = 52 + height;
        if (top < highest) scrollBy(0, top - highest);
        else if (top + height > innerHeight - 20) scrollBy(0, top + height - innerHeight + 20);
        this.draw();
    }
}

/* What is moved loses the focus, and gets it back. */
function move(body, row, place) {
    const focused = document.activeElement;
    const hadIt = row.contains(focused);
    body.insertBefore(row, place);
    if (hadIt) focused.focus({ preventScroll: true });
}

function spacer() {
    return make("tr.space", { "aria-hidden": "true" }, make("td"));
}

function setHeight(row, height) {
    row.firstChild.style.height = `${height}px`;
    row.style.height = `${height}px`;
    row.hidden = height === 0;
}

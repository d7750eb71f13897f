// SPDX-License-Identifier: Apache-2.0
// A long table of which only the rows that are seen exist. All rows are of the same height (--row); the window scrolls.
import { make } from "./dom.js";

const beyond = 12; // rows that exist above and below what is seen

export class Rows {
    /** `body` is the table's tbody; `render(item)` makes a row, anew where the item is another object than before. */
    constructor(body, columns, render) {
        this.body = body;
        this.render = render;
        this.items = [];
        this.made = new Map(); // item -> row
        this.above = spacer(columns);
        this.below = spacer(columns);
        body.replaceChildren(this.above, this.below);
        this.onNearEnd = null; // called when the last rows come into sight
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

    /** Make rows anew, all that exist. */
    renew() {
        this.made.clear();
        this.draw();
    }

    /** The row of an item, where it exists. */
    row(item) {
        return this.made.get(item) ?? null;
    }

    draw() {
        const height = this.rowHeight;
        const top = this.body.getBoundingClientRect().top;
        const first = Math.max(0, Math.min(this.items.length, Math.floor(-top / height) - beyond));
        const last = Math.min(this.items.length, Math.ceil((innerHeight - top) / height) + beyond);
        const kept = new Map();
        for (const item of this.items.slice(first, last)) kept.set(item, this.made.get(item) ?? this.render(item));
        this.made = kept;
        const rows = [...kept.values()];
        const wanted = new Set(rows);
        for (const row of [...this.body.children])
            if (!wanted.has(row) && row !== this.above && row !== this.below) row.remove();
        let place = this.above.nextSibling;
        for (const row of rows) {
            if (row === place) place = place.nextSibling;
            else this.body.insertBefore(row, place);
        }
        setHeight(this.above, first * height);
        setHeight(this.below, Math.max(0, this.items.length - Math.max(last, first)) * height);
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

function spacer(columns) {
    return make("tr.space", { "aria-hidden": "true" }, make("td", { colspan: columns }));
}

function setHeight(row, height) {
    row.firstChild.style.height = `${height}px`;
    row.style.height = `${height}px`;
    row.hidden = height === 0;
}

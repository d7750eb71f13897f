// SPDX-License-Identifier: Apache-2.0
// The keys of a long table: one row of it is what Tab comes to, and arrows go from row to row. Enter opens, x or Space
// selects, Escape lets go.
import { isTyping } from "./dom.js";

const steps = { ArrowDown: 1, ArrowUp: -1, j: 1, k: -1 };

export class RowKeys {
    /** `rows`: a Rows. `open` and `select` get an item, `letGo` nothing. */
    constructor(rows, { open, select, letGo }) {
        Object.assign(this, { rows, open, select, letGo });
        this.active = null; // the key of the row that arrows have come to
        rows.onDrawn = () => this.mark();
        rows.body.addEventListener("focusin", (event) => this.goTo(rows.itemOf(event.target)));
        addEventListener("keydown", (event) => this.press(event));
    }

    get item() {
        return this.rows.items.find((item) => this.rows.key(item) === this.active) ?? null;
    }

    goTo(item) {
        this.active = item && this.rows.key(item);
        this.mark();
    }

    /** Focus the row of what is known by `key`, where it is in the table. */
    focus(key) {
        const index = this.rows.items.findIndex((item) => this.rows.key(item) === key);
        if (index < 0) return;
        this.rows.reveal(index);
        this.rows.row(key)?.focus({ preventScroll: true });
    }

    /* Of all rows, Tab comes to the active one and what is in it, or to the first where none is. */
    mark() {
        const active = this.rows.row(this.active) ?? null;
        const stop = active ?? this.rows.made.values().next().value?.row;
        for (const { row } of this.rows.made.values()) {
            row.classList.toggle("active", row === active);
            row.tabIndex = row === stop ? 0 : -1;
            for (const control of row.querySelectorAll("a, input")) control.tabIndex = row.tabIndex;
        }
    }

    press(event) {
        const { items } = this.rows;
        if (isTyping(event) || !items.length) return;
        const onRow = !event.target.closest("a, button, input, [role=tab]");
        const step = steps[event.key];
        if (step && !event.target.closest("[role=tablist]")) {
            const at = items.findIndex((item) => this.rows.key(item) === this.active);
            this.focus(this.rows.key(items[Math.max(0, Math.min(items.length - 1, at + step))]));
        } else if (event.key === "Enter" && this.item && onRow) {
            this.open(this.item);
        } else if ((event.key === "x" || (event.key === " " && onRow)) && this.item) {
            this.select(this.item);
        } else if (event.key === "Escape") {
            if (this.rows.body.contains(document.activeElement)) document.activeElement.blur();
            this.goTo(null);
            this.letGo();
            return;
        } else {
            return;
        }
        event.preventDefault();
    }
}

// SPDX-License-Identifier: Apache-2.0
// The ranks of a curve: a button for each, with its color and its value where the pointer is, which hides and shows it.
import { fill, make } from "./dom.js";
import { several } from "./format.js";

export class RankBar {
    /** `toggle` is called with the rank whose button was pressed, `figure` gives a value as a text. */
    constructor(toggle, figure) {
        this.toggle = toggle;
        this.figure = figure;
        this.element = make("div.ranks", { hidden: true });
        this.buttons = [];
        this.shape = "";
    }

    /** Show a button for each line ({rank, label, stroke, show}), and that there are `left` more. */
    show(lines, left) {
        const shape = JSON.stringify([left, lines.map(({ rank, stroke }) => [rank, stroke])]);
        this.element.hidden = lines.length === 0;
        if (shape !== this.shape) {
            this.shape = shape;
            this.buttons = lines.map((line) =>
                make(
                    "button",
                    { type: "button", title: "Hide or show it", onclick: () => this.toggle(line.rank) },
                    make("i", { style: { background: line.stroke } }),
                    make("span", {}, line.label),
                    make("b"),
                ),
            );
            fill(this.element, this.buttons, left > 0 && make("span.soft", {}, `and ${several(left, "more rank")}`));
        }
        lines.forEach((line, index) => this.buttons[index].setAttribute("aria-pressed", String(line.show)));
    }

    /** Their values, in the order of the buttons; `near` is the index of the one that the pointer is at, or -1. */
    values(values, near = -1) {
        this.buttons.forEach((button, index) => {
            const text = this.figure(values[index]);
            if (button.lastChild.textContent !== text) button.lastChild.textContent = text;
            button.classList.toggle("near", index === near);
        });
    }
}

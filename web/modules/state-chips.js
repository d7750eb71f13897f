// SPDX-License-Identifier: Apache-2.0
// A button for each state of a run, with how many runs are in it.
import { make } from "./dom.js";
import { whole } from "./format.js";
import { isFinal, stateNames, stateSign, tone } from "./states.js";

const sum = (counts, names) => names.reduce((total, name) => total + (counts[name] ?? 0), 0);

/** `choose` is called with a state, "live", or "" for all. The buttons stay, whatever the counts become. */
export class StateChips {
    constructor(choose) {
        this.buttons = new Map(
            ["", "live", ...stateNames].map((key) => [
                key,
                make(
                    "button",
                    {
                        type: "button",
                        class: tone(key),
                        "data-state": key || "all",
                        hidden: stateNames.includes(key), // until there is one in that state
                        onclick: () => choose(key),
                    },
                    stateNames.includes(key) && make("span.state", {}, stateSign(key)),
                    { "": "All", live: "Live" }[key] ?? key,
                    make("span.count"),
                ),
            ]),
        );
        this.element = make("div.chips", { role: "group", "aria-label": "States" }, [...this.buttons.values()]);
    }

    /** `counts`: runs by state; `chosen`: the one that is filtered by. */
    show(counts, chosen) {
        const live = stateNames.filter((name) => !isFinal(name));
        for (const [key, button] of this.buttons) {
            const count = key === "" ? sum(counts, stateNames) : key === "live" ? sum(counts, live) : (counts[key] ?? 0);
            const pressed = key === (chosen ?? "");
            const text = whole(count);
            button.hidden = stateNames.includes(key) && count === 0 && !pressed;
            button.setAttribute("aria-pressed", String(pressed));
            if (button.lastChild.textContent !== text) button.lastChild.textContent = text;
            if (pressed && this.shown !== key) {
                this.shown = key;
                button.scrollIntoView({ block: "nearest", inline: "nearest" });
            }
        }
    }
}

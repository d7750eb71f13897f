// SPDX-License-Identifier: Apache-2.0
// What the list of runs says where it has no rows: that there are none yet, none like that, or that it cannot know.
import { emptyPlace } from "./components.js";
import { make } from "./dom.js";

function offer(text, onclick) {
    return make("p", { style: { "margin-top": "16px" } }, make("button.button", { type: "button", onclick }, text));
}

/** The server has refused; `again` asks it once more. */
export function refused(error, again) {
    return make(
        "div.card",
        { role: "alert" },
        emptyPlace("The runs could not be read", error.message, null, offer("Ask again", again)),
    );
}

/** The filters let nothing through; `all` takes them away. */
export function nothingLikeThat(all) {
    return make(
        "div.card",
        {},
        emptyPlace(
            "No run is like that",
            "Nothing has this state, project, owner, name or number.",
            null,
            offer("Show all runs", all),
        ),
    );
}

export function nothingYet() {
    return make(
        "div.card",
        {},
        emptyPlace(
            "No runs yet",
            "Go to the directory of your program and type this. What comes after the two dashes is run as it is.",
            "weft submit --project first -- python3 train.py",
            make("p.small", {}, "It is copied, queued, started as soon as a slot is free, and appears here."),
        ),
    );
}

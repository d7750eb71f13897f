// SPDX-License-Identifier: Apache-2.0
// The banner at the top of every page while scheduling is paused after crashes of the server.
import { get } from "./api.js";
import { fill, make } from "./dom.js";
import * as live from "./live.js";

/** A banner with `why`, hidden while that is null. */
export function pausedBanner(why) {
    const element = make("div.paused", { role: "alert" });
    const show = (sentence) => {
        fill(element, sentence ? `${sentence}.` : "");
        element.hidden = !sentence;
    };
    const ask = () =>
        get("/server").then(
            (about) => show(about.paused),
            () => {}, // the page itself tells of a server that is away
        );
    live.on("again", ask);
    live.on("queue", () => element.hidden || ask());
    show(why);
    return element;
}

// SPDX-License-Identifier: Apache-2.0
// What all pages have around their own: the bar at the top with where one can go, who one is, and whether it is live.
import { fillAccount } from "./account.js";
import { get, server } from "./api.js";
import { fill, isTyping, make } from "./dom.js";
import { wrongPlace } from "./components.js";
import { idleRuns } from "./idle-runs.js";
import * as live from "./live.js";
import { serverBanners } from "./server-banners.js";

const places = [
    ["runs", "Runs", "/"],
    ["cluster", "Cluster", "/cluster.html"],
    ["projects", "Projects", "/project.html"],
];

function logo() {
    return make(
        "svg",
        {
            width: 22,
            height: 22,
            viewBox: "0 0 22 22",
            fill: "none",
            "stroke-linecap": "round",
            "stroke-width": 2.4,
            "aria-hidden": "true",
        },
        make("path", { d: "M6 2v3.2M6 10.5V20M11 2v8M11 15.4V20M16 2v3.2M16 10.5V20", stroke: "var(--faint)" }),
        make("path", { d: "M2 7.8h7M13.4 7.8H20M2 13h2M8.2 13h5.6M18 13h2", stroke: "var(--accent)" }),
    );
}

/**
 * Make the frame of the page `place`, then ask the server who is there. Comes back with {main, server}. A server that
 * cannot be asked is shown on the page, and null comes back. The page calls live.ready() when it shows what it has asked
 * for: until then the top says "connecting".
 */
export async function frame(place, title) {
    const beat = make("span.beat", { title: "Whether this page is live" }, make("span", {}, "connecting"));
    const who = make("span");
    const main = document.querySelector("main");
    entitle(title);
    document.body.prepend(
        make("a.skip", { href: "#main" }, "Skip to content"),
        make(
            "header.top",
            {},
            make("a.brand", { href: "/", "aria-label": "Weft: runs" }, logo(), make("b", {}, "Weft")),
            make(
                "nav",
                { "aria-label": "Pages" },
                places.map(([key, text, address]) =>
                    make("a", { href: address, "aria-current": key === place ? "page" : null }, text),
                ),
            ),
            make("div.who", {}, beat, who),
        ),
    );
    live.on("state", (state) => {
        beat.className = `beat ${state}`;
        fill(beat, make("span", {}, state === "open" ? "live" : "not connected"));
    });
    addEventListener("keydown", (event) => {
        if (event.key !== "/" || isTyping(event)) return;
        const field = document.querySelector("input[type=search]");
        if (field) {
            field.focus();
            field.select();
            event.preventDefault();
        }
    });
    try {
        const about = await server();
        fillAccount(who, about);
        beat.before(idleRuns(about.user));
        document.querySelector("header.top").after(...serverBanners(about));
        live.begin();
        return { main, server: about };
    } catch (error) {
        fill(main, wrongPlace(error));
        if (error.status === 0) waitForServer();
        return null;
    }
}

/** What the window is called. */
export function entitle(title) {
    document.title = title ? `${title} · Weft` : "Weft";
}

function waitForServer() {
    setInterval(
        () =>
            get("/server").then(
                () => location.reload(),
                () => {},
            ),
        3000,
    );
}

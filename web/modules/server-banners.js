// SPDX-License-Identifier: Apache-2.0
// Banners at the top of every page that say why no run starts: scheduling is paused after crashes, the disk is full.
import { get, sentence } from "./api.js";
import { fill, make } from "./dom.js";
import * as live from "./live.js";

const REASONS = [(about) => about.paused, (about) => about.disk.trouble];

/** A banner for each reason, hidden while it does not hold; `about` is the answer of GET /server. */
export function serverBanners(about) {
    const banners = REASONS.map(() => make("div.banner", { role: "alert" }));
    const show = (now) =>
        banners.forEach((banner, i) => {
            const why = REASONS[i](now);
            fill(banner, why ? sentence(why) : "");
            banner.hidden = !why;
        });
    const ask = () => get("/server").then(show, () => {}); // the page itself reports a server that is away
    live.on("again", ask);
    live.on("queue", () => banners.every((banner) => banner.hidden) || ask());
    live.everySoOften(15, ask);
    show(about);
    return banners;
}

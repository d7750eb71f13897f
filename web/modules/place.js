// SPDX-License-Identifier: Apache-2.0
// Where one was on a page: kept with its entry in the browser's history, and found there when one comes back to it.
import { whenQuiet } from "./dom.js";

/** What was kept when this page was left: {top} and what `more` told; empty where one was not here before. */
export function placeBefore() {
    history.scrollRestoration = "manual"; // the page is too short for it until it has asked the server
    return history.state?.place ?? {};
}

/** Keep how far the window is scrolled, and the object that `more` gives. */
export function keepPlace(more) {
    const keep = () => history.replaceState({ ...history.state, place: { top: scrollY, ...more() } }, "");
    addEventListener("scroll", whenQuiet(200, keep), { passive: true });
    addEventListener("click", keep, { capture: true });
    addEventListener("keydown", (event) => event.key === "Enter" && keep(), { capture: true });
    addEventListener("pagehide", keep);
}

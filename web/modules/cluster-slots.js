// SPDX-License-Identifier: Apache-2.0
// A square for every slot, by Pod and host, in the color of its run.
import { hideTip, showTip } from "./components.js";
import { make } from "./dom.js";
import { several } from "./format.js";
import { hue } from "./states.js";

/** The numbers of a list of slots such as "0-3,6". */
export function slotNumbers(text) {
    return slotRanges(text).flatMap(([first, last]) =>
        Array.from({ length: last - first + 1 }, (unused, index) => first + index),
    );
}

/** The same as [first, last] of each part that hangs together. */
export function slotRanges(text) {
    return String(text)
        .split(",")
        .filter(Boolean)
        .map((part) => {
            const [first, last = first] = part.split("-").map(Number);
            return [first, last];
        });
}

/** All Pods; `open` is called with a host when its name is clicked. */
export function slotMap(cluster, open) {
    return cluster.pods.map((pod) => {
        const slots = sum(pod.hosts, (host) => host.slots);
        const free = sum(pod.hosts, (host) => (host.state === "up" ? host.slots - takenOf(host) : 0));
        const most = Math.max(1, ...pod.hosts.map((host) => host.slots));
        return make(
            "section.pod",
            { style: { "--host-width": `${Math.min(620, 108 + Math.min(most, 16) * 19 + 8)}px` } },
            make(
                "h3",
                {},
                pod.pod,
                make("span.soft", {}, `${several(pod.hosts.length, "host")}, ${free} of ${slots} free`),
            ),
            make(
                "div.hosts",
                {},
                pod.hosts.map((host) => hostRow(host, open)),
            ),
        );
    });
}

function sum(list, value) {
    return list.reduce((total, item) => total + value(item), 0);
}

/** How many slots of a host runs have. */
export function takenOf(host) {
    return sum(host.taken, (part) => slotNumbers(part.slots).length);
}

function hostRow(host, open) {
    const owners = new Map();
    for (const part of host.taken) for (const slot of slotNumbers(part.slots)) owners.set(slot, part);
    const used = owners.size;
    const away = host.state !== "up";
    return make(
        "div.host",
        { class: `${away ? "away" : ""} ${host.state.split(", ")[0]}` },
        make(
            "button.mono.cut",
            { type: "button", "data-host": host.host, title: `${host.host}: ${host.state}`, onclick: () => open(host) },
            host.host,
        ),
        make(
            "div.slots",
            { role: "group", "aria-label": `${host.host}, ${host.state}, ${used} of ${host.slots} slots taken` },
            Array.from({ length: host.slots }, (unused, slot) => square(host, slot, owners.get(slot))),
        ),
    );
}

function square(host, slot, part) {
    if (!part)
        return make("i", {
            onpointermove: (event) =>
                showTip(
                    event,
                    make("b", {}, `${host.host} slot ${slot}`),
                    make(
                        "div",
                        {},
                        host.state === "up" ? "free" : [host.state, host.detail].filter(Boolean).join(": "),
                    ),
                ),
            onpointerleave: hideTip,
        });
    const known = part.run !== null && part.run !== undefined;
    const over = (event) => {
        showTip(
            event,
            make("b", {}, known ? `Run ${part.run}` : "A run of others"),
            make("div", {}, [part.project, part.owner].filter(Boolean).join(" · ")),
            make("div", {}, `node-${part.node} on ${host.host}, slots ${part.slots}`),
        );
        light(part.run);
    };
    return make("a", {
        class: known ? "" : "private",
        href: known ? `/run.html?run=${part.run}` : null,
        "data-run": part.run,
        tabindex: -1,
        "aria-label": `slot ${slot}, run ${part.run ?? "of others"}`,
        style: { "--hue": known ? hue(part.run).toFixed(1) : "0" },
        onpointermove: over,
        onpointerleave: () => {
            hideTip();
            light(null);
        },
    });
}

let lit = null;

/** Show where a run is: all other squares grow pale; null: no longer. */
export function light(run) {
    if (run === lit) return;
    lit = run;
    for (const group of document.querySelectorAll(".slots")) {
        group.classList.toggle("dim", run !== null && run !== undefined);
        for (const slot of group.querySelectorAll("a"))
            slot.classList.toggle("same", run !== null && slot.dataset.run === String(run));
    }
}

/** What the squares mean. */
export function slotKeys(cluster) {
    const hosts = cluster.pods.flatMap((pod) => pod.hosts);
    return make(
        "div.keys",
        {},
        make("span", {}, make("i"), "free"),
        make(
            "span",
            {},
            make("i", {
                style: {
                    background:
                        "linear-gradient(100deg, oklch(var(--run-lightness) var(--run-chroma) 250), oklch(var(--run-lightness) var(--run-chroma) 40))",
                },
            }),
            "taken, a color for each run",
        ),
        hosts.some((host) => host.state !== "up") &&
            make(
                "span.host.away",
                { style: { display: "inline-flex" } },
                make("span.slots", {}, make("i", { style: { width: "12px", height: "12px" } })),
                "drained, cordoned or lost",
            ),
    );
}

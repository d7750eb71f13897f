// SPDX-License-Identifier: Apache-2.0
// The cluster: its slots, its queue, and how it came to that.
import { get, sentence } from "./api.js";
import { choice, skeleton, wrongPlace } from "./components.js";
import { Gantt } from "./cluster-gantt.js";
import { histories } from "./cluster-history.js";
import { openHost } from "./cluster-host.js";
import { Queue } from "./cluster-queue.js";
import { slotKeys, slotMap, takenOf } from "./cluster-slots.js";
import { atMostEvery, fill, make } from "./dom.js";
import { share, several, whole } from "./format.js";
import { frame } from "./frame.js";
import * as live from "./live.js";

const minute = 60000;
const hour = 3600000;
const spans = [
    [hour, "Hour"],
    [6 * hour, "6 h"],
    [24 * hour, "Day"],
    [7 * 24 * hour, "Week"],
];
let about = null;
let cluster = null;
let span = 24 * hour;
let first = null; // when the first run of the last week began here
const place = {};

async function begin() {
    const framed = frame("cluster", "Cluster");
    build(document.querySelector("main"));
    const asked = [get("/cluster"), get("/queue")]; // while the server is asked who is there
    asked.forEach((promise) => promise.catch(() => {}));
    const made = await framed;
    if (!made) return;
    about = made.server;
    place.title.textContent = about.slot_kind === "gpu" ? "GPUs" : "Slots";
    place.isolation.textContent = `${sentence(about.isolation)} ${sentence(about.limits)}`;
    try {
        let waiting;
        [cluster, waiting] = await Promise.all(asked);
        drawCluster();
        drawQueue(waiting);
        place.gantt.show(hostsOf(cluster), [], Date.now() - minute, Date.now()); // as high as it will be
        place.rest.hidden = false;
    } catch (error) {
        fill(made.main, wrongPlace(error));
        return;
    } finally {
        live.ready();
    }
    drawPast();
    live.on("cluster", atMostEvery(1000, refresh));
    live.on("queue", atMostEvery(1000, readQueue));
    live.on("cluster", atMostEvery(5000, drawPast));
    live.on("again", () => {
        refresh();
        readQueue();
        drawPast();
    });
    live.everySoOften(20, drawPast); // time goes by where nothing begins or ends
}

function build(main) {
    place.figures = make("dl.card.figures", {}, skeleton("72px"));
    place.title = make("h2", {}, "Slots");
    place.pods = make("div", {}, skeleton("120px"));
    place.keys = make("div.right");
    place.cut = make("div.more.soft");
    place.queue = new Queue(readQueue);
    place.waiting = make("span.soft");
    place.isolation = make("p.soft.small");
    place.spans = make("div.right");
    place.gantt = new Gantt();
    place.histories = histories();
    place.rest = make(
        "div.stack",
        { hidden: true }, // until it is known how much is above it: nothing jumps
        make("section.card", {}, make("header", {}, make("h2", {}, "Queue"), place.waiting), place.queue.element),
        make(
            "section.card",
            {},
            make("header", {}, make("h2", {}, "What ran where"), place.spans),
            make("div", { style: { "margin-top": "12px" } }, place.gantt.element, place.cut),
        ),
        make(
            "div.two",
            {},
            place.histories.map((history) => history.element),
        ),
        place.isolation,
    );
    fill(
        main,
        make("div.head", {}, make("h1", {}, "Cluster")),
        make(
            "div.stack",
            {},
            place.figures,
            make(
                "section.card",
                {},
                make("header", {}, place.title, place.keys),
                make("div.inside", {}, place.pods),
            ),
            place.rest,
        ),
    );
}

async function refresh() {
    try {
        cluster = await get("/cluster");
        drawCluster();
    } catch {
        // The next event asks again.
    }
}

function hostsOf({ pods }) {
    return pods.flatMap((pod) => pod.hosts);
}

function drawCluster() {
    const hosts = hostsOf(cluster);
    const up = hosts.filter((host) => host.state === "up");
    const count = (...states) =>
        hosts
            .filter((host) => states.includes(host.state))
            .reduce((sum, host) => sum + Math.max(0, host.slots - takenOf(host)), 0);
    const free = count("up");
    const away = count("drained", "cordoned");
    const figures = [
        [
            "Taken",
            whole(cluster.taken),
            ` of ${whole(cluster.slots)}, ${share(cluster.slots ? cluster.taken / cluster.slots : NaN)}`,
        ],
        ["Free", whole(free), free === 1 ? " slot" : " slots"],
        away > 0 && ["Out of use", whole(away), away === 1 ? " slot" : " slots"],
        ["Waited for", whole(cluster.waiting_slots), cluster.waiting_slots === 1 ? " slot" : " slots"],
        ["Hosts in use", whole(up.length), ` of ${whole(hosts.length)}`],
        ["Idle while queued", share(place.past?.idle_while_queued ?? NaN), ""],
    ];
    fill(
        place.figures,
        figures
            .filter(Boolean)
            .map(([term, value, more]) =>
                make("div", {}, make("dt", {}, term), make("dd", {}, value, make("small", {}, more))),
            ),
    );
    fill(place.keys, slotKeys(cluster));
    fill(
        place.pods,
        slotMap(cluster, (host) => openHost(host, about.administrator)),
    );
}

async function readQueue() {
    try {
        drawQueue(await get("/queue", { most: place.queue.most }));
    } catch {
        // What is shown stays; the next event asks again.
    }
}

function drawQueue({ queue, waiting }) {
    fill(place.waiting, waiting ? several(waiting, "run") : "");
    place.queue.show(queue, waiting);
}

/* A young cluster's past is shown as large as can be. */
async function beginningOfPast(now) {
    const { bars } = await get("/cluster/timeline", { from: now - spans.at(-1)[0], to: now }).catch(() => ({
        bars: [],
    }));
    return bars.reduce((least, bar) => Math.min(least, bar.from), now - minute);
}

/* Only spans that differ: a young cluster's hour is all of its past. */
function drawSpans(age) {
    const offered = spans.filter((one, index) => index === 0 || spans[index - 1][0] < age);
    if (place.spans.dataset.offered === String(offered.length)) return;
    place.spans.dataset.offered = offered.length;
    span = Math.min(span, offered.at(-1)[0]);
    fill(place.spans, offered.length > 1 && choice("Span", offered, span, chooseSpan));
}

function chooseSpan(chosen) {
    span = chosen;
    drawPast();
}

async function drawPast() {
    const to = Date.now();
    first ??= await beginningOfPast(to);
    drawSpans(to - first);
    const from = Math.floor(Math.max(to - span, first - (to - first) / 50));
    const hosts = hostsOf(cluster);
    await Promise.all([
        get("/cluster/timeline", { from, to })
            .then(({ bars, more }) => {
                place.gantt.show(hosts, bars, from, to);
                fill(place.cut, more && `Showing the newest ${whole(bars.length)} bars of this span.`);
            })
            .catch(() => {}),
        get("/cluster/history", { from, to, most: 1000 })
            .then((past) => {
                place.past = past;
                place.histories.forEach((history) => history.show(past));
                drawCluster();
            })
            .catch(() => {}),
    ]);
}

begin();

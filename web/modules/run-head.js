// SPDX-License-Identifier: Apache-2.0
// The head of a run's page: what it is called, what can be done to it, why it is as it is, and the facts.
import { get, sentence } from "./api.js";
import { facts } from "./components.js";
import { fill, make } from "./dom.js";
import { clock, duration, moment, shape, since, slots, until } from "./format.js";
import { withoutEscapes } from "./log-stream.js";
import { discard, stop } from "./run-actions.js";
import { fork } from "./run-fork.js";
import { ran, waited } from "./run-list.js";
import { progressOf } from "./run-progress.js";
import { isFinal, isWaiting, stateBadge, tone } from "./states.js";

const lastWords = 5; // lines of what a failed run said last

/**
 * The element, and draw(run, why, may): `why` is what the server said of a run that waits, or null; `may` of rights.js.
 * What is there stays there, so that the focus does.
 */
export function runHead() {
    let run = null;
    const title = make("h1");
    const badge = make("span");
    const button = (text, name, work) =>
        make("button.button", { class: name, type: "button", onclick: () => work(run) }, text);
    const forking = button("Fork …", "", fork);
    const stopping = button("Stop …", "danger", stop);
    const discarding = button("Discard …", "", discard);
    const reason = make("span.why");
    const words = make("pre.last-words", { hidden: true });
    const expected = make("span.expected");
    const notice = make("div.notice", { role: "status", hidden: true }, reason, expected, words);
    const known = make("div.known");
    const actor = onceFor((now) => isStopped(now), askActor);
    const said = onceFor((now) => now.state === "failed" && !now.discarded, askLastWords);

    function draw(now, why, may) {
        run = now;
        const text = reasonOf(run, why, actor(run, () => draw(run, why, may)));
        const last = said(run, () => draw(run, why, may));
        fill(
            title,
            make("span.cut", { title: run.name || null }, run.name || `Run ${run.run}`),
            run.name && make("span.of", {}, String(run.run)),
        );
        fill(badge, stateBadge(run.state, true));
        forking.hidden = !may.maySubmit(run.project);
        stopping.hidden = isFinal(run.state) || !may.mayChange(run);
        stopping.disabled = run.state === "stopping";
        discarding.hidden = !isFinal(run.state) || Boolean(run.discarded) || !may.mayChange(run);
        notice.hidden = !text;
        notice.className = `notice ${tone(run.state)}`;
        const start = isWaiting(run.state) ? why?.expected_start : null;
        fill(reason, text);
        const report = why?.why.match(/; expected to start [^:]*(: .*)$/)?.[1] ?? ""; /* of the run that it waits for */
        fill(expected, start && ["Expected to start ", make("b", {}, until(start)), `, at ${clock(start)}${report}`]);
        expected.hidden = !start;
        words.hidden = !last?.length;
        fill(words, last?.length && last.join("\n"), last?.length && make("a.link", { href: "#logs" }, "All of its output"));
        fill(known, factsOf(run));
    }

    return {
        element: make(
            "div",
            {},
            make("div.head", {}, title, badge, make("div.actions", {}, forking, stopping, discarding)),
            notice,
            known,
        ),
        draw,
    };
}

function isStopped(run) {
    return run.state === "cancelled" || run.state === "stopping";
}

/* What `ask` answers for a run that `wanted` lets through, asked for once in each of its states; null until it is
 * there, and `then` is called. */
function onceFor(wanted, ask) {
    let state = null;
    let answer = null;
    return (run, then) => {
        if (!wanted(run)) return null;
        if (state !== run.state) {
            state = run.state;
            answer = null;
            ask(run).then(
                (found) => {
                    answer = found;
                    then();
                },
                () => {}, // it is left out
            );
        }
        return answer;
    };
}

async function askActor(run) {
    const { events } = await get(`/runs/${run.run}/events`, { most: 1000 });
    return events.findLast(({ actor, to }) => actor && ["cancelled", "stopping"].includes(to))?.actor;
}

/* Of the node that failed, if one did. */
async function askLastWords(run) {
    const node = run.attempts.at(-1) && failedNode(run)?.node;
    const { lines } = await get(`/runs/${run.run}/logs`, { stream: 2, node, most: lastWords });
    return lines.map(({ text }) => withoutEscapes(text)).filter((text) => text.trim());
}

function factsOf(run) {
    return facts([
        ["Project", make("a", { href: `/project.html?project=${encodeURIComponent(run.project)}` }, run.project)],
        ["Owner", make("a", { href: `/?owner=${encodeURIComponent(run.owner)}` }, run.owner)],
        [
            "Slots",
            make(
                "span",
                { title: slots(run.size, run.slot_kind) },
                run.nodes > 1
                    ? `${shape(run)} ${run.slot_kind === "gpu" ? "GPUs" : "CPU slots"}`
                    : slots(run.slots, run.slot_kind),
            ),
        ],
        ["Submitted", moment(run.submitted)],
        ["Waited", run.first_started === null && !isFinal(run.state) ? since(run.submitted) : duration(waited(run) / 1000)],
        ["Ran", time(run)],
        run.progress && run.state !== "succeeded" && ["Progress", progressOf(run)],
        ["Time limit", duration(run.time_limit)],
        run.epoch > 1 && ["Attempt", run.epoch],
        run.ended !== null && ["Ended", moment(run.ended)],
    ]);
}

function time(run) {
    if (run.started === null) return "–";
    return isFinal(run.state) || isWaiting(run.state) ? duration(ran(run) / 1000) : since(Date.now() - ran(run));
}

function failedNode(run) {
    return run.attempts.at(-1)?.nodes.find(
        ({ exit, dropped }) => !dropped && ["failed", "lost", "not started"].includes(exit),
    );
}

/* Which node of the last attempt failed, and how. */
function whatFailed(run) {
    const node = failedNode(run);
    if (!node) return "";
    const how = node.signal
        ? `was ended by signal ${node.signal}`
        : node.exit === "failed"
          ? `ended with code ${node.code}`
          : node.exit === "lost"
            ? "was lost"
            : "could not be started";
    return ["node", " on host", "exit code", "signal"].some((word) => run.reason.includes(word))
        ? ""
        : `On ${node.host}, node-${node.node} ${how}.`;
}

/* Why it is as it is. What is ordinary needs no words. */
function reasonOf(run, why, actor) {
    const waiting = isWaiting(run.state) && why;
    const reason = waiting ? why.why : run.reason;
    const idle = run.state === "running" && run.idle_since;
    const fewer = run.state === "running" && run.attempts.at(-1)?.nodes.some(({ dropped }) => dropped);
    if ((["running", "succeeded"].includes(run.state) && !idle && !fewer) || !reason) return "";
    if (actor && run.state === "stopping") return `Asked to stop by ${actor}.`;
    if (actor) return `Cancelled by ${actor}${run.first_started === null ? " before it began" : ""}.`;
    const text = waiting && why.expected_start ? reason.replace(/; expected to start .*$/, "") : reason; /* told beside it */
    return [sentence(text), run.state === "failed" && whatFailed(run)].filter(Boolean).join(" ");
}

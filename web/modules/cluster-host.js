// SPDX-License-Identifier: Apache-2.0
// A host: what is on it, what happened to it, and for administrators: drain it, or let it be used again.
import { get, post, sentence } from "./api.js";
import { attempt, dialog, labelled, tell } from "./components.js";
import { fill, make } from "./dom.js";
import { moment, slots } from "./format.js";

export function openHost(host, administrator) {
    const path = `/nodes/${encodeURIComponent(host.host)}`;
    const closed = ["drained", "cordoned"].some((state) => host.state.includes(state));
    const events = make("div.soft.small", {}, "…");
    get(`${path}/events`).then(
        (answer) =>
            fill(
                events,
                answer.events.length === 0
                    ? "Nothing has happened to it."
                    : [...answer.events]
                          .sort((one, other) => other.time - one.time)
                          .slice(0, 12)
                          .map((event) =>
                              make("div", { style: { padding: "3px 0" } }, moment(event.time), ` ${happened(event)}`),
                          ),
            ),
        (error) => fill(events, error.message),
    );
    const reason = make("input.field", {
        name: "reason",
        maxlength: 200,
        autocomplete: "off",
        placeholder: "a fan is replaced",
    });
    const resume = make(
        "button.button",
        {
            type: "button",
            style: { "justify-self": "start" },
            onclick: () =>
                attempt(resume, async () => {
                    await post(`${path}/resume`);
                    tell(`${host.host} is used again.`);
                    resume.closest("dialog").close();
                }),
        },
        "Use it again",
    );
    return dialog({
        title: host.host,
        dismiss: "Close",
        confirm: administrator && !closed ? "Drain it" : null,
        content: [
            make(
                "p",
                {},
                `${slots(host.slots, host.slot_kind)}, `,
                make("b", { style: { "font-weight": 550 } }, host.state),
                host.state !== "up" && [" since ", moment(host.changed), host.detail && `: ${host.detail}`],
            ),
            make(
                "div",
                {},
                host.taken.length === 0
                    ? make("p.soft", {}, "No run is on it.")
                    : host.taken.map((part) =>
                          make(
                              "div",
                              {},
                              part.run
                                  ? make("a.link", { href: `/run.html?run=${part.run}` }, `run ${part.run}`)
                                  : "a run of others",
                              make(
                                  "span.soft",
                                  {},
                                  ` ${[part.project, part.owner].filter(Boolean).join(" · ")}, slots ${part.slots}`,
                              ),
                          ),
                      ),
            ),
            make("div", {}, make("h3", {}, "What happened to it"), events),
            administrator &&
                !closed &&
                labelled("Drain it: nothing new starts on it, and what can give way goes elsewhere. Reason:", reason),
            administrator && closed && resume,
        ],
        act: async (form) => {
            await post(`${path}/drain`, { reason: form.get("reason") ?? "" });
            tell(sentence(`${host.host} is being drained`));
        },
    });
}

function happened(event) {
    const detail = event.detail && event.detail !== event.what ? `: ${event.detail}` : "";
    return event.what + detail + (event.actor ? ` (${event.actor})` : "");
}

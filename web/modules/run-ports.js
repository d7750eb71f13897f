// SPDX-License-Identifier: Apache-2.0
// Ports of a run's nodes: TensorBoard, Jupyter and other web servers in it, opened in windows of their own.
import { get, post, server } from "./api.js";
import { attempt, command, emptyPlace } from "./components.js";
import { fill, make } from "./dom.js";

const usual = 6006; // TensorBoard's

/** The element, and refresh() for when the run has changed; `mayEnter(run)` of the user. */
export function portsPanel(run, mayEnter) {
    const node = make("select", { name: "node", "aria-label": "Node", onchange: () => type() });
    const port = make("input.field", {
        name: "port",
        type: "number",
        min: 1,
        max: 65535,
        value: usual,
        required: true,
        "aria-label": "Port",
        oninput: () => type(),
    });
    const opening = make("button.button.first", { type: "submit" }, "Open");
    const form = make(
        "form.controls",
        {
            onsubmit: (event) => {
                event.preventDefault();
                open(opening, Number(node.value || 0), Number(port.value));
            },
        },
        node,
        port,
        opening,
    );
    const opened = make("div.controls");
    const typed = make("div");
    const hint = make("p.soft");
    const panel = make("div");
    const asked = make("div.stack");
    const inside = make("div.inside.stack", {}, form, asked, opened, hint, typed);
    const card = make("section.card", {}, make("header", {}, make("h2", {}, "Web servers in the run")), inside);
    let nodes = 0;

    /* Also a command, for programs other than browsers. */
    function type() {
        fill(typed, command(`weft forward ${run().run}/node-${node.value || 0} ${port.value || usual}`));
    }

    /* The window is there before the server has answered: later, browsers would not allow it. */
    function open(button, chosenNode, chosenPort, reuse = false) {
        asked.hidden = true;
        const tab = window.open("about:blank");
        if (tab) tab.opener = null;
        return attempt(button, async () => {
            try {
                const link = await post(`/runs/${run().run}/nodes/${chosenNode}/ports`, { port: chosenPort, reuse });
                const where = `${location.protocol}//${location.hostname}:${link.web_port}${link.path}`;
                if (!tab) throw new Error("The browser has blocked the window: allow this page to open some.");
                tab.location.replace(where);
            } catch (error) {
                tab?.close();
                if (error.parameter !== "reuse") throw error;
                ask(error.message, chosenNode, chosenPort);
            }
            list();
        });
    }

    /* Pages of an earlier run may be open at the same web port: they would share an origin. */
    function ask(message, chosenNode, chosenPort) {
        const again = () => open(button, chosenNode, chosenPort, true);
        const button = make("button.button", { type: "button", onclick: again }, "They are closed: open");
        fill(asked, make("p", {}, message), button);
        asked.hidden = false;
    }

    async function list() {
        const { ports } = await get(`/runs/${run().run}/ports`).catch(() => ({ ports: [] }));
        fill(
            opened,
            ports.map((one) => {
                const name = nodes > 1 ? `node-${one.node}: ${one.port}` : `${one.port}`;
                const again = () => open(button, one.node, one.port);
                const button = make("button.button.small", { type: "button", onclick: again, "aria-label": `Open ${name}` }, name);
                return button;
            }),
        );
        opened.hidden = ports.length === 0;
    }

    function refresh() {
        const now = run();
        if (!mayEnter(now) || now.state !== "running") {
            const [title, text] = mayEnter(now)
                ? ["The run does not run", "While it does, ports of its nodes can be opened here."]
                : ["Not yours to enter", "The run's owner and managers of its project can open its ports."];
            return fill(panel, make("div.card", {}, emptyPlace(title, text)));
        }
        if (nodes !== now.nodes) {
            nodes = now.nodes;
            const count = Array.from({ length: nodes }, (_, index) => index);
            fill(node, count.map((index) => make("option", { value: index }, `node-${index}`)));
            node.hidden = nodes === 1;
            type();
        }
        if (card.parentElement !== panel) fill(panel, card);
        return panel;
    }

    form.hidden = opened.hidden = asked.hidden = true;
    server().then((found) => {
        form.hidden = !found.web_ports;
        hint.textContent = found.web_ports
            ? "What the run serves opens in a window of its own. As a port of your own machine:"
            : "This server has no web ports (weft serve --web-ports). Make it a port of your own machine:";
        if (found.web_ports && mayEnter(run())) list();
    }, () => {});
    refresh();
    return { element: panel, refresh };
}

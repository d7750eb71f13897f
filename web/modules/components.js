// SPDX-License-Identifier: Apache-2.0
// Small parts that all pages have: buttons, notices, dialogs, tips.
import { fill, make } from "./dom.js";

const drawings = {
    copy: "M4.5 4.5v-2a1 1 0 0 1 1-1h6a1 1 0 0 1 1 1v6a1 1 0 0 1-1 1h-2M2.5 4.5h6a1 1 0 0 1 1 1v6a1 1 0 0 1-1 1h-6a1 1 0 0 1-1-1v-6a1 1 0 0 1 1-1z",
    done: "m2.5 7.5 3 3 6-7",
    larger: "M8.5 1.5h4v4M5.5 12.5h-4v-4M12.5 1.5 8 6M1.5 12.5 6 8",
    ranks: "M1.5 3.5c4 0 4 3 11 3M1.5 7c4 0 5 2 11 2M1.5 10.5c4 0 6 1 11 1",
    back: "M2.5 7a4.5 4.5 0 1 0 1.6-3.4L2.5 5M2.5 1.8V5h3.2",
    download: "M7 1.5v7.5M4 6.2l3 3 3-3M1.5 12.5h11",
};

/** A drawing of 14 by 14 pixels in the color of the text. */
export function drawing(name) {
    return make(
        "svg",
        {
            width: 14,
            height: 14,
            viewBox: "0 0 14 14",
            "aria-hidden": "true",
            fill: "none",
            stroke: "currentColor",
            "stroke-width": "1.4",
            "stroke-linecap": "round",
            "stroke-linejoin": "round",
        },
        make("path", { d: drawings[name] }),
    );
}

/** A text to be typed, with a button that copies it. */
export function command(text, wide = false) {
    const button = make(
        "button.copy",
        {
            type: "button",
            title: "Copy",
            "aria-label": "Copy",
            onclick: async () => {
                await navigator.clipboard?.writeText(text).catch(() => {});
                fill(button, drawing("done"));
                setTimeout(() => fill(button, drawing("copy")), 1500);
            },
        },
        drawing("copy"),
    );
    return make("div.command", { class: wide ? "wide" : "" }, make("code", {}, text), button);
}

/** What is shown where there is nothing yet: a title, an explanation, and what to type. */
export function emptyPlace(title, text, typed = null, more = null) {
    return make("div.empty", {}, make("h2", {}, title), text && make("p", {}, text), typed && command(typed), more);
}

/** What stands where something is to come, as high as it will be. */
export function skeleton(height) {
    return make("div.skeleton", { "aria-hidden": "true", style: { height } });
}

/** Name and value, name and value ... for a list of facts; pairs without a value are left out. */
export function facts(pairs, name = "dl.facts") {
    return make(
        name,
        {},
        pairs
            .filter((pair) => pair && pair[1] !== null && pair[1] !== undefined)
            .map(([term, value]) => make("div", {}, make("dt", {}, term), make("dd", {}, value))),
    );
}

/** A choice of one among few; `choose` is called with its key. */
export function choice(label, options, chosen, choose) {
    const buttons = options.map(([key, text]) =>
        make(
            "button",
            {
                type: "button",
                "aria-pressed": String(key === chosen),
                onclick: () => {
                    buttons.forEach((button, index) =>
                        button.setAttribute("aria-pressed", String(options[index][0] === key)),
                    );
                    choose(key);
                },
            },
            text,
        ),
    );
    return make("div.choice", { role: "group", "aria-label": label }, buttons);
}

/** A select with options [value, text]. */
export function selection(label, options, chosen, choose) {
    const element = make(
        "select",
        { "aria-label": label, onchange: () => choose(element.value) },
        options.map(([value, text]) =>
            make("option", { value, selected: String(value) === String(chosen ?? "") }, text),
        ),
    );
    return element;
}

/** A field to search in, which "/" leads to; `search` gets its text. */
export function searchField(label, value, search) {
    const field = make("input.field", {
        type: "search",
        placeholder: label,
        "aria-label": label,
        value: value ?? "",
        autocomplete: "off",
        spellcheck: "false",
        oninput: () => search(field.value.trim()),
        onkeydown: (event) => {
            if (event.key !== "Escape") return;
            if (field.value) {
                field.value = "";
                search("");
            } else {
                field.blur();
            }
        },
    });
    return make("div.search", {}, field, make("kbd", { "aria-hidden": "true", class: "only-wide" }, "/"));
}

/**
 * Tabs that keep their place in the address (#logs). `list`: [key, title, show]; what `show` gives back is kept. `first`
 * is the key of the one that is shown where the address names none.
 */
export function tabs(list, label, first = list[0][0]) {
    const panel = make("div", { role: "tabpanel", tabindex: "-1" });
    const shown = new Map();
    const buttons = new Map();
    const select = (key, focus = false) => {
        for (const [other, button] of buttons) {
            button.setAttribute("aria-selected", String(other === key));
            button.tabIndex = other === key ? 0 : -1;
        }
        if (focus) buttons.get(key).focus();
        inSight(buttons.get(key));
        if (!shown.has(key)) shown.set(key, list.find((tab) => tab[0] === key)[2]());
        fill(panel, shown.get(key));
        panel.setAttribute("aria-label", buttons.get(key).textContent);
        history.replaceState(null, "", key === list[0][0] ? location.pathname + location.search : `#${key}`);
    };
    const bar = make("div.tabs", {
        role: "tablist",
        "aria-label": label,
        onkeydown: (event) => {
            const step = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
            if (!step) return;
            const keys = [...buttons.keys()];
            const at = keys.findIndex((key) => buttons.get(key).getAttribute("aria-selected") === "true");
            select(keys[(at + step + keys.length) % keys.length], true);
            event.preventDefault();
        },
    });
    for (const [key, title] of list) {
        buttons.set(key, make("button", { type: "button", role: "tab", onclick: () => select(key) }, title));
        bar.append(buttons.get(key));
    }
    /* Sideways: where the bar is narrower than its tabs. */
    function inSight(button) {
        if (button.offsetLeft < bar.scrollLeft) bar.scrollLeft = button.offsetLeft - 24;
        const beyond = button.offsetLeft + button.offsetWidth - bar.clientWidth;
        if (beyond > bar.scrollLeft) bar.scrollLeft = beyond + 24;
    }
    const wanted = location.hash.slice(1);
    select(buttons.has(wanted) ? wanted : first);
    requestAnimationFrame(() => inSight(bar.querySelector("[aria-selected=true]"))); // it has a width now
    addEventListener("hashchange", () => {
        const key = location.hash.slice(1);
        if (!buttons.has(key)) return;
        select(key);
        if (panel.getBoundingClientRect().bottom > innerHeight) bar.scrollIntoView();
    });
    return {
        element: make("div", {}, bar, panel),
        select,
        count: (key, text) => {
            const button = buttons.get(key);
            button.querySelector(".count")?.remove();
            if (text) button.append(make("span.count", {}, text));
        },
    };
}

const toasts = make("div.toasts", { role: "status", "aria-live": "polite" });

/** A message that goes away by itself. */
export function tell(text, wrong = false) {
    if (!toasts.isConnected) document.body.append(toasts);
    const toast = make("div.toast", { class: wrong ? "wrong" : "" }, text);
    toasts.append(toast);
    setTimeout(() => toast.remove(), wrong ? 9000 : 4000);
}

/** Do what a button is for; a message says what goes wrong. */
export async function attempt(button, work) {
    button.disabled = true;
    try {
        return await work();
    } catch (error) {
        tell(error.message, true);
        return undefined;
    } finally {
        button.disabled = false;
    }
}

/**
 * A dialog: `content` is a list of elements, `act` is done when it is confirmed (what it throws is shown in the dialog,
 * which then stays). Comes back when it is closed.
 */
export function dialog({ title, content = [], confirm, danger = false, dismiss = "Cancel", act }) {
    const wrong = make("p.wrong", { role: "alert", hidden: true });
    const first = confirm && make("button.button.first", { type: "submit", class: danger ? "danger" : "" }, confirm);
    const form = make(
        "form",
        {
            method: "dialog",
            onsubmit: async (event) => {
                event.preventDefault();
                first.disabled = true;
                wrong.hidden = true;
                try {
                    await act(new FormData(form));
                    element.close();
                } catch (error) {
                    wrong.textContent = error.message;
                    wrong.hidden = false;
                }
                first.disabled = false;
            },
        },
        make("h2", {}, title),
        content,
        wrong,
        make("footer", {}, make("button.button", { type: "button", onclick: () => element.close() }, dismiss), first),
    );
    const element = make(
        "dialog",
        {
            "aria-label": title,
            onclose: () => element.remove(),
            onclick: (event) => {
                if (event.target === element) element.close();
            },
        },
        form,
    );
    document.body.append(element);
    element.showModal();
    return new Promise((resolve) => element.addEventListener("close", resolve));
}

/** A field of a dialog under its label. */
export function labelled(label, field, note = null) {
    return make("label.labelled", {}, make("span", {}, label), field, note && make("span.soft.small", {}, note));
}

const tip = make("div.tip", { role: "tooltip", hidden: true });

/** Show elements beside the pointer; hideTip() takes them away. */
export function showTip(event, ...content) {
    if (!tip.isConnected) document.body.append(tip);
    fill(tip, ...content);
    tip.hidden = false;
    const box = tip.getBoundingClientRect();
    const left = Math.min(event.clientX + 14, innerWidth - box.width - 8);
    const below = event.clientY + 18;
    tip.style.left = `${Math.max(8, left)}px`;
    tip.style.top = `${below + box.height > innerHeight ? event.clientY - box.height - 12 : below}px`;
}

export function hideTip() {
    tip.hidden = true;
}

/** In the place of what could not be had: why, and where to go instead. `what` is its name: "Run 12". */
export function wrongPlace(error, what = null) {
    const isMissing = error.status === 404 && what;
    return make(
        "div.empty",
        { role: "alert" },
        isMissing && make("h1", {}, `${what} is not here`),
        make("p", {}, isMissing ? "There is none, or you may not see it." : error.message),
        what && make("p", {}, make("a.link", { href: "/" }, "All runs"), " · ", make("a.link", { href: "/project.html" }, "All projects")),
    );
}

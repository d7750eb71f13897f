// SPDX-License-Identifier: Apache-2.0
// Elements, made without any text ever being read as HTML.

const svgNames = new Set(["svg", "path", "circle", "g", "rect", "line"]);

/**
 * Make an element: "div", or "div.card.wide" with classes. Attributes: functions listen ("onclick"), true is an
 * attribute without a value, false, null and undefined are left out, `style` may be an object of properties. Children:
 * elements, texts, numbers, lists of them; null and false are left out.
 */
export function make(name, attributes = {}, ...children) {
    const [tag, ...classes] = name.split(".");
    const element = svgNames.has(tag)
        ? document.createElementNS("http://www.w3.org/2000/svg", tag)
        : document.createElement(tag);
    if (classes.length) element.classList.add(...classes);
    for (const [key, value] of Object.entries(attributes ?? {})) {
        if (value === null || value === undefined || value === false) continue;
        if (typeof value === "function") element.addEventListener(key.slice(2), value);
        else if (key === "style")
            for (const [property, text] of Object.entries(value)) element.style.setProperty(property, text);
        else if (key === "class") element.classList.add(...String(value).split(" ").filter(Boolean));
        else element.setAttribute(key, value === true ? "" : String(value));
    }
    element.append(...flat(children));
    return element;
}

function flat(children) {
    return children
        .flat(Infinity)
        .filter((child) => child !== null && child !== undefined && child !== false)
        .map((child) => (child instanceof Node ? child : document.createTextNode(String(child))));
}

/**
 * Put these children in place of all there are. Where something among them had the focus, what has come into its place
 * has it: what is known by the same data-key, label, address or words.
 */
export function fill(parent, ...children) {
    const focused = document.activeElement;
    const hadIt = focused !== null && focused !== parent && parent.contains(focused);
    const place = hadIt ? placeOf(focused, parent) : 0;
    parent.replaceChildren(...flat(children));
    if (hadIt) (parent.contains(focused) ? focused : alike(focused, parent)[place])?.focus({ preventScroll: true });
    return parent;
}

function nameOf(element) {
    const { key } = element.dataset;
    return (
        key ?? (element.id || element.name || element.ariaLabel || element.getAttribute("href") || element.textContent)
    );
}

function alike(element, parent) {
    const name = nameOf(element);
    return [...parent.querySelectorAll(element.localName)].filter((other) => nameOf(other) === name);
}

function placeOf(element, parent) {
    return alike(element, parent).indexOf(element);
}

/** Have the browser save a Blob as a file. */
export function saveFile(name, blob) {
    const href = URL.createObjectURL(blob);
    make("a", { href, download: name }).click();
    setTimeout(() => URL.revokeObjectURL(href), 60000);
}

/** Call `work` once at most in `milliseconds`, however often the returned function is called; the last call counts. */
export function atMostEvery(milliseconds, work) {
    let timer = null;
    let last = -Infinity;
    return () => {
        if (timer !== null) return;
        const wait = Math.max(0, last + milliseconds - performance.now());
        timer = setTimeout(() => {
            timer = null;
            last = performance.now();
            work();
        }, wait);
    };
}

/** Call `work` when nothing has called for `milliseconds`. */
export function whenQuiet(milliseconds, work) {
    let timer = null;
    return (...values) => {
        clearTimeout(timer);
        timer = setTimeout(() => work(...values), milliseconds);
    };
}

/** What a custom property of the style sheet is at the moment. */
export function token(name) {
    return getComputedStyle(document.documentElement).getPropertyValue(name).trim();
}

/** Call `work` whenever colors change from light to dark or back. */
export function onColors(work) {
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", work);
}

/** Whether keys are being typed into something at the moment. */
export function isTyping(event) {
    return (
        Boolean(event.target.closest?.("input:not([type=checkbox]), textarea, select, dialog")) ||
        event.ctrlKey ||
        event.metaKey ||
        event.altKey
    );
}

/** The page's query as an object of texts. */
export function query() {
    return Object.fromEntries(new URLSearchParams(location.search));
}

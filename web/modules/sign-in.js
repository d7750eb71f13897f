// SPDX-License-Identifier: Apache-2.0
// The sign-in page: starts a session with a token. The token is not stored.
import { beginSession } from "./api.js";
import { fill, make, query } from "./dom.js";

document.cookie = "weft_token=; Path=/; SameSite=Strict; Max-Age=0"; // in which earlier versions kept the token

/* Only back to these pages: another server's address is not followed. */
function next() {
    const wanted = new URL(query().next ?? "/", location.origin);
    return wanted.origin === location.origin ? wanted.pathname + wanted.search + wanted.hash : "/";
}

const field = make("input.field", {
    type: "password",
    name: "token",
    required: true,
    autocomplete: "current-password",
    spellcheck: "false",
    placeholder: "weft_…",
    autofocus: true,
});
const wrong = make("p.wrong-text", { role: "alert", hidden: true });
const button = make("button.button.first", { type: "submit" }, "Sign in");

async function submit(event) {
    event.preventDefault();
    wrong.hidden = true;
    button.disabled = true;
    const token = field.value.trim();
    try {
        if (!/^[A-Za-z0-9_.-]+$/.test(token))
            throw new Error("A token begins with weft_ and has letters, digits and _ alone.");
        await beginSession(token);
        location.replace(next());
    } catch (error) {
        wrong.textContent =
            error.status === 401 ? "The server does not know this token, or it has ended." : error.message;
        wrong.hidden = false;
        field.select();
    }
    button.disabled = false;
}

fill(
    document.querySelector("main"),
    make(
        "div.card.signing",
        {},
        make(
            "form",
            { onsubmit: submit },
            make(
                "div",
                {},
                make("h1", {}, "Weft"),
                make(
                    "p.soft",
                    {},
                    "This server asks for a token. Its administrator makes one for you; it is shown once.",
                ),
                location.protocol === "https:"
                    ? null
                    : make(
                          "p.soft",
                          {},
                          "This page was loaded without https, so nothing proves that it comes from the Weft server. Sign in only if you trust every user of the server's machine, or know that the server is running.",
                      ),
            ),
            make("label.labelled", {}, make("span", {}, "Token"), field),
            wrong,
            button,
        ),
    ),
);
field.focus();

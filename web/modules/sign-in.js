// SPDX-License-Identifier: Apache-2.0
// Where one shows one's token: it is kept in the cookie weft_token, which goes to this server alone.
import { get } from "./api.js";
import { fill, make, query } from "./dom.js";

const age = 90 * 86400;

function keep(token) {
    document.cookie = `weft_token=${token}; Path=/; SameSite=Strict; Max-Age=${token ? age : 0}${location.protocol === "https:" ? "; Secure" : ""}`;
}

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
        keep(token);
        await get("/server", null, { stay: true });
        location.replace(next());
    } catch (error) {
        keep("");
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
                    "This server asks for a token. Whoever runs it makes one for you; it is shown once.",
                ),
            ),
            make("label.labelled", {}, make("span", {}, "Token"), field),
            wrong,
            button,
        ),
    ),
);
field.focus();

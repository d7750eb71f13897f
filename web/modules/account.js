// SPDX-License-Identifier: Apache-2.0
// Who one is here, one's tokens, and how one leaves.
import { endSession, get } from "./api.js";
import { dialog } from "./components.js";
import { fill, make } from "./dom.js";
import { day } from "./format.js";

/** The name at the top; with tokens, a button that shows what belongs to it. `about`: what the server is. */
export function fillAccount(place, about) {
    const title = about.administrator ? "administrator" : null;
    fill(
        place,
        about.tokens
            ? make("button.plain.name", { type: "button", title, onclick: () => openAccount(about) }, about.user)
            : make("span.name", { title }, about.user),
    );
}

/** End this browser's session, and go to where one begins another. */
async function signOut() {
    await endSession();
    location.assign("/sign-in.html");
}

function openAccount(about) {
    const tokens = make("div.soft", {}, "…");
    get("/tokens").then(
        (answer) => fill(tokens, tokenList(answer.tokens.filter((token) => token.user === about.user))),
        (error) => fill(tokens, error.message),
    );
    return dialog({
        title: about.user,
        dismiss: "Close",
        confirm: "Sign out",
        content: [
            make("p.soft", {}, about.administrator ? "You are an administrator here." : "You are a user here."),
            make("div", {}, make("h3", {}, "Your tokens"), tokens),
        ],
        act: signOut,
    });
}

/* Those that still open something. */
function tokenList(tokens) {
    const good = tokens.filter((token) => !token.revoked && (!token.ends || token.ends > Date.now()));
    if (good.length === 0) return "None that is good any more.";
    return make(
        "ul.tokens",
        {},
        good.map((token) =>
            make(
                "li",
                {},
                make("code", {}, token.id),
                [
                    token.note,
                    token.project && `for ${token.project} alone`,
                    token.most !== "manager" && `as a ${token.most} at most`,
                    `made ${day(token.created)}`,
                    token.ends ? `ends ${day(token.ends)}` : "does not end",
                ]
                    .filter(Boolean)
                    .map((text) => make("span", {}, text)),
            ),
        ),
    );
}

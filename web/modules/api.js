// SPDX-License-Identifier: Apache-2.0
// The server's interface, /api/v1: what is asked for comes as an object, what goes wrong as a message.

const root = "/api/v1";

// A session is a cookie, which no script sees and which goes to every port of the host, and a key, which stays with these
// pages: the server wants both.
const keyName = "weft-session";

/** What the server refused, or that it did not answer (status 0). `message` is for people. */
export class RequestError extends Error {
    constructor(status, message, parameter = null) {
        super(message);
        this.name = "RequestError";
        this.status = status;
        this.parameter = parameter;
    }
}

function address(path, query) {
    const words = new URLSearchParams();
    for (const [key, value] of Object.entries(query ?? {}))
        if (value !== null && value !== undefined && value !== "") words.set(key, value);
    const text = words.toString();
    return root + path + (text ? `?${text}` : "");
}

async function failure(response) {
    try {
        const { error } = await response.json();
        return new RequestError(response.status, sentence(error.message), error.parameter ?? null);
    } catch {
        return new RequestError(response.status, `The server answered with status ${response.status}.`);
    }
}

/** The message as a page shows it: it begins with a capital and ends with a full stop. */
export function sentence(text) {
    const trimmed = String(text ?? "").trim();
    if (trimmed === "") return "";
    return trimmed[0].toUpperCase() + trimmed.slice(1) + (/[.!?…]$/.test(trimmed) ? "" : ".");
}

async function request(method, path, { query, body, headers, signal, stay } = {}) {
    const where = address(path, query);
    const sent = {
        method,
        signal,
        headers: { ...(body === undefined ? {} : { "Content-Type": "application/json" }), ...headers },
        body: body === undefined ? undefined : JSON.stringify(body),
    };
    let response = await send(where, sent);
    for (let tries = 0; isForLater(response.status) && method === "GET" && tries < 3; tries++) {
        await pause(Number(response.headers.get("Retry-After")) || 1);
        response = await send(where, sent);
    }
    if (response.status === 401 && !stay) signIn();
    if (!response.ok) throw await failure(response);
    if (response.status === 204) return null;
    return response.json();
}

async function send(where, sent) {
    const key = localStorage.getItem(keyName);
    const headers = { ...(key === null ? {} : { "Weft-Session": key }), ...sent.headers };
    try {
        return await fetch(where, { ...sent, headers, credentials: "same-origin" });
    } catch (error) {
        if (error.name === "AbortError") throw error;
        throw unanswered();
    }
}

function unanswered() {
    return new RequestError(0, "The server does not answer. Is “weft serve” running?");
}

/* Too many requests, or no room at the moment: the server says when to try again. */
function isForLater(status) {
    return status === 429 || status === 503;
}

function pause(seconds) {
    return new Promise((resolve) => setTimeout(resolve, Math.min(seconds, 10) * 1000));
}

/** Go to the page where one signs in, and from there back to here. */
export function signIn() {
    if (location.pathname !== "/sign-in.html")
        location.assign(
            `/sign-in.html?next=${encodeURIComponent(location.pathname + location.search + location.hash)}`,
        );
}

/** Ask. `query`: empty, null and undefined values are left out. `stay`: do not go to sign in. */
export function get(path, query, { signal, stay } = {}) {
    return request("GET", path, { query, signal, stay });
}

/**
 * Ask for an answer that goes on, a line of JSON for each thing: an iterator of lists of them, as they come. An empty
 * list: nothing has come, and all is well.
 */
export async function* lines(path, query, signal) {
    for await (const parts of pieces(address(path, query), signal, "\n"))
        yield parts.filter(Boolean).map((part) => JSON.parse(part));
}

/** Ask for server-sent events: an iterator of lists of {kind, data}, as they come; the first list is empty. */
export async function* events(path, signal) {
    for await (const parts of pieces(address(path), signal, "\n\n")) yield parts.map(eventOf).filter(Boolean);
}

/* An event without data, or a word that the connection is alive, does not count. */
function eventOf(text) {
    const fields = { event: "message", data: null };
    for (const line of text.split("\n")) {
        const [, name, value] = /^(event|data): ?(.*)$/.exec(line) ?? [];
        if (name) fields[name] = value;
    }
    return fields.data === null ? null : { kind: fields.event, data: JSON.parse(fields.data || "{}") };
}

/* An answer that goes on, in parts that end with `end`. */
async function* pieces(where, signal, end) {
    const response = await send(where, { signal });
    if (response.status === 401) signIn();
    if (!response.ok) throw await failure(response);
    yield [];
    const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
    for (let rest = ""; ;) {
        const { done, value } = await reader.read().catch((error) => {
            throw signal.aborted ? error : unanswered();
        });
        if (done) return;
        const parts = (rest + value).split(end);
        rest = parts.pop();
        yield parts;
    }
}

/** `once`: the server does it once, however often it comes. */
export function post(path, body = undefined, { once = false } = {}) {
    return request("POST", path, { body, headers: once ? { "Idempotency-Key": crypto.randomUUID() } : {} });
}

export function put(path, body) {
    return request("PUT", path, { body });
}

export function remove(path) {
    return request("DELETE", path);
}

/** The path of a project. */
export function pathOf(project) {
    return `/projects/${encodeURIComponent(project.project)}`;
}

/** Ask for something to save as a file. */
export async function download(path, query) {
    const response = await send(address(path, query), {});
    if (response.status === 401) signIn();
    if (!response.ok) throw await failure(response);
    return response.blob();
}

/** Sign in. Rejects where the token is not known. */
export async function beginSession(token) {
    const headers = { Authorization: `Bearer ${token}` };
    const { key } = await request("POST", "/session", { headers, stay: true });
    localStorage.setItem(keyName, key);
}

/** Sign out: the session ends, here and at the server if that answers. */
export async function endSession() {
    await request("DELETE", "/session", { stay: true }).catch(() => null);
    localStorage.removeItem(keyName);
}

/** What the server is and who asks; asked for once. */
let asked = null;
export function server() {
    asked ??= get("/server");
    return asked;
}

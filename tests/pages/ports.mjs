// SPDX-License-Identifier: Apache-2.0
// Web servers in runs, opened from the runs' pages: what they serve works, and is kept apart from the platform and from other runs.
import assert from "node:assert/strict";
import { createServer } from "node:net";
import { Platform } from "./platform.mjs";
import { open, picture, signIn, state, wide } from "./windows.mjs";

const program = `
import http.server, os
class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        if self.path == "/": # as Jupyter does
            self.send_response(302)
            self.send_header("Location", "/tree?")
            self.send_header("Content-Length", "0")
            self.end_headers()
            return
        kind, body = ("text/javascript", "document.body.append(' its script works')") if self.path.endswith(".js") else \\
            ("application/json", __import__("json").dumps(self.headers["Cookie"] or "")) if self.path == "/cookies" else \\
            ("text/html", "<title>run " + os.environ["WEFT_RUN"] + "</title><body>It works.<script src=/own.js></script>")
        self.send_response(200)
        self.send_header("Content-Type", kind)
        self.send_header("Set-Cookie", "login=" + os.environ["WEFT_RUN"] + "; HttpOnly; Path=/")
        self.end_headers()
        self.wfile.write(body.encode())
    def log_message(self, *words):
        pass
server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
print("port", server.server_port, flush=True)
server.serve_forever()
`;

/* The first of two free ports in a row. */
async function freePorts() {
    const listen = (port) =>
        new Promise((resolve) => {
            const server = createServer();
            server.on("error", () => resolve(null));
            server.listen(port, "127.0.0.1", () => resolve(server));
        });
    for (;;) {
        const first = await listen(0);
        const second = await listen(first.address().port + 1);
        const found = first.address().port;
        for (const server of [first, second]) server?.close();
        if (second) return found;
    }
}

/* A run that serves, and its port. */
async function serving(platform) {
    const run = await platform.submit("speech", { name: "serves pages", command: ["python3", "-u", "-c", program] });
    await platform.wait(run, "running");
    for (;;) {
        const { lines } = await platform.get(`/runs/${run}/logs`);
        const found = /port (\d+)/.exec(lines[0]?.text ?? "");
        if (found) return { run, port: found[1] };
        await new Promise((resolve) => setTimeout(resolve, 100)); // without a pause, the limit of requests would be reached
    }
}

/* The window in which the port opens. */
async function opened(page, act) {
    const [window] = await Promise.all([page.context().waitForEvent("page"), act()]);
    await window.getByText("It works. its script works").waitFor();
    return window;
}

/* In a page of a run: what it can get at. */
async function attack({ platform, other }) {
    const answered = (work) => Promise.resolve().then(work).then(() => true, () => false);
    return {
        opener: window.opener !== null,
        platform: await answered(async () => (await fetch(`${platform}/api/v1/runs`, { credentials: "include" })).json()),
        other: await answered(async () => (await fetch(`${other}/`, { credentials: "include" })).text()),
        worker: await answered(() => navigator.serviceWorker.register("/worker.js")),
        key: localStorage.getItem("weft-session") !== null,
        stored: localStorage.getItem("left"),
        cookies: document.cookie,
    };
}

export async function portsOfRuns() {
    const first = await freePorts();
    const platform = await Platform.start("--pods", "1x2x4", "--tokens", "--web-ports", `${first}-${first + 1}`);
    try {
        await platform.ask("POST", "/projects", { project: "speech" });
        const [one, two] = [await serving(platform), await serving(platform)];
        const page = await open(wide);
        await signIn(page, platform.address, platform.token);
        const windows = [];
        for (const { run, port } of [one, two]) {
            await page.goto(`${platform.address}/run.html?run=${run}#ports`);
            await page.getByLabel("Port", { exact: true }).fill(port);
            await page.getByText(`weft forward ${run}/node-0 ${port}`).waitFor();
            windows.push(await opened(page, () => page.getByRole("button", { name: "Open", exact: true }).click()));
            await page.getByRole("button", { name: `Open ${port}` }).waitFor();
        }
        await picture(page, "ports");
        const origins = windows.map((window) => new URL(window.url()).origin);
        assert.notEqual(origins[0], origins[1]);
        for (const [index, window] of windows.entries()) {
            assert.equal(await window.title(), `run ${[one, two][index].run}`);
            const got = await window.evaluate(attack, { platform: platform.address, other: origins[1 - index] });
            assert.deepEqual(got, { opener: false, platform: false, other: false, worker: false, key: false, stored: null, cookies: "" });
            const cookies = await window.evaluate(() => fetch("/cookies").then((answer) => answer.json()));
            assert.equal(cookies, `login=${[one, two][index].run}`, "its own cookie, and none of another");
            await window.reload();
            await window.getByText("It works. its script works").waitFor();
            await window.evaluate(() => localStorage.setItem("left", "by an earlier run"));
        }
        // The same port again keeps what it has stored; another run in its place finds nothing.
        const again = await opened(page, () => page.getByRole("button", { name: `Open ${two.port}` }).click());
        assert.equal(await again.evaluate(() => localStorage.getItem("left")), "by an earlier run");
        const three = await serving(platform);
        await page.goto(`${platform.address}/run.html?run=${three.run}#ports`);
        await page.getByLabel("Port", { exact: true }).fill(three.port);
        page.allowed = /409 \(Conflict\)/;
        await page.getByRole("button", { name: "Open", exact: true }).click();
        // Pages of the earlier run may still be there, so that the user is asked first.
        await page.getByRole("button", { name: "They are closed: open" }).waitFor();
        const third = await opened(page, () => page.getByRole("button", { name: "They are closed: open" }).click());
        assert.equal(new URL(third.url()).origin, origins[0], "at the web port that was used least recently");
        assert.equal(await third.evaluate(() => localStorage.getItem("left")), null);
        // A run that ends has no ports.
        await platform.ask("POST", `/runs/${three.run}/stop`);
        await page.getByText("The run does not run").waitFor();
        // Until then its programs end, and the answer is that nothing listens.
        const ended = third.getByText("the run has ended");
        for (const limit = Date.now() + 60000; !(await ended.isVisible()) && Date.now() < limit;) {
            await third.waitForTimeout(200);
            await third.reload();
        }
        await ended.waitFor();
    } finally {
        await Promise.all(state.browser.contexts().map((context) => context.close()));
        await platform.stop();
    }
}

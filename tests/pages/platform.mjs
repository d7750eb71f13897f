// SPDX-License-Identifier: Apache-2.0
// `weft serve` on a directory of its own, requests to it, and something for it to do.
import { spawn } from "node:child_process";
import { chmodSync, copyFileSync, mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { basename, join } from "node:path";
import { createInterface } from "node:readline";
import { fileURLToPath } from "node:url";

const own = fileURLToPath(new URL("program.py", import.meta.url));
// Where the server is root, the runs of users belong to accounts: any will do, but it must get to the programs.
const account = process.getuid() === 0 ? { account: "nobody" } : {};
const final = ["succeeded", "failed", "cancelled"];

export const pause = (milliseconds) => new Promise((resolve) => setTimeout(resolve, milliseconds));

export class Platform {
    /** Start it; `options` are those of weft serve. */
    static async start(...options) {
        const platform = new Platform();
        platform.directory = mkdtempSync(join(tmpdir(), "weft-pages-"));
        platform.programs = mkdtempSync(join(tmpdir(), "weft-programs-"));
        chmodSync(platform.programs, 0o755);
        platform.program = platform.copy(own);
        platform.weft = platform.copy(process.env.WEFT);
        platform.options = options;
        await platform.launch();
        return platform;
    }

    async launch() {
        this.process = spawn(this.weft, ["serve", "--state", this.directory, "--listen", "127.0.0.1:0", ...this.options], {
            stdio: ["ignore", "pipe", "inherit"],
        });
        this.ended = new Promise((resolve) => this.process.on("exit", resolve));
        const lines = createInterface({ input: this.process.stdout })[Symbol.asyncIterator]();
        const next = async () => (await lines.next()).value ?? "";
        const first = await next();
        if (!first.startsWith("weft serves at ")) throw new Error(`weft serve did not start: it said '${first}'`);
        this.address = first.split(" ").at(-1);
        await next();
        await next();
        if (this.options.includes("--tokens") && !this.token) this.token = (await next()).trim().split(/\s+/).at(-1);
    }

    /** Kill the server, and start it again at another address. */
    async crash() {
        this.process.kill("SIGKILL");
        await this.ended;
        await this.launch();
    }

    /** A program where everybody can run it. */
    copy(path) {
        const copied = join(this.programs, basename(path));
        copyFileSync(path, copied);
        return copied;
    }

    async ask(method, path, body, token = this.token) {
        const answer = await fetch(`${this.address}/api/v1${path}`, {
            method,
            body: body === undefined ? undefined : JSON.stringify(body),
            headers: {
                ...(body === undefined ? {} : { "Content-Type": "application/json" }),
                ...(token ? { Authorization: `Bearer ${token}` } : {}),
            },
        });
        const text = await answer.text();
        if (!answer.ok) throw new Error(`${method} ${path}: ${answer.status} ${text}`);
        return text ? JSON.parse(text) : null;
    }

    get(path) {
        return this.ask("GET", path);
    }

    /** Submit a run as a user (undefined: the user of the server's own token), and tell its number. */
    async submit(project, specification, token) {
        return (await this.ask("POST", `/projects/${project}/runs`, specification, token)).run;
    }

    /** A run that looks like training. */
    train(project, name, { steps = 400, pause = 0, ...more }, token) {
        return this.submit(
            project,
            { name, command: ["python3", this.program, String(steps), String(pause)], ...more },
            token,
        );
    }

    /** Wait until a run is in one of these states. */
    async wait(run, ...states) {
        for (let end = Date.now() + 60000; ; await pause(50)) {
            const found = await this.get(`/runs/${run}`);
            if (states.includes(found.state)) return found;
            if (Date.now() > end || final.includes(found.state))
                throw new Error(
                    `run ${run} is ${found.state} (${found.reason}), and should become ${states.join(" or ")}`,
                );
        }
    }

    /** A user with a token of their own. */
    async user(name) {
        await this.ask("PUT", `/users/${name}`, account);
        return (await this.ask("POST", "/tokens", { user: name })).token;
    }

    async stop() {
        let live = [0];
        for (const end = Date.now() + 30000; live.length && Date.now() < end; await pause(100)) {
            live = (await this.get("/runs?state=live&most=1000")).runs;
            await Promise.all(
                live
                    .filter(({ state }) => state !== "stopping")
                    .map(({ run }) => this.ask("POST", `/runs/${run}/stop`).catch(() => {})),
            );
        }
        this.process.kill("SIGTERM");
        await this.ended;
        if (live.length) throw new Error(`${live.length} runs did not stop in 30 s; they are in ${this.directory}`);
        for (const directory of [this.directory, this.programs]) rmSync(directory, { recursive: true, force: true });
    }
}

/** Three projects with members and budgets, runs that ended well and badly, some that run, and a queue. */
export async function furnish(platform) {
    const tokens = {};
    for (const name of ["anna", "boris", "chen"]) tokens[name] = await platform.user(name);
    for (const [project, title] of [
        ["vision", "Image models"],
        ["language", "Language models"],
        ["speech", "Speech recognition"],
    ]) {
        await platform.ask("POST", "/projects", { project, title });
        for (const [name, role] of [
            ["anna", "manager"],
            ["boris", "member"],
            ["chen", "member"],
        ])
            await platform.ask("PUT", `/projects/${project}/members/${name}`, { role });
    }
    await platform.ask("PUT", "/projects/vision/budget", { rate_per_day: 28800, cap: 201600, shared: true });
    await platform.ask("POST", "/projects/vision/grants", { amount: 150000, detail: "for the paper" });
    await platform.ask("POST", "/projects/vision/transfers", {
        from: "",
        to: "boris",
        amount: 6000,
        detail: "for the deadline",
    });
    const shell = (text) => ["sh", "-c", text];
    const ended = [];
    for (const [project, name, owner, command, more] of [
        ["vision", "resnet-wide", "anna", shell("echo done")],
        ["vision", "augment", "boris", shell("sleep 0.3")],
        ["language", "tokenizer-32k", "chen", shell("echo 32000 tokens")],
        ["speech", "ctc", "boris", shell("sleep 0.2"), { slots: 2 }],
        ["speech", "conformer", "chen", shell("echo out of memory >&2; exit 3"), { slots: 4 }],
        ["language", "llama-tiny", "anna", shell("sleep 0.4"), { slots: 4, nodes: 2 }],
        ["vision", "detector", "boris", shell("no-such-program")],
        ["language", "fine-tune", "chen", shell("echo done")],
        ["vision", "vit-small", "anna", shell("sleep 0.2"), { slots: 4 }],
        ["speech", "noise", "anna", shell("exit 1")],
    ])
        ended.push(await platform.submit(project, { name, command, ...more }, tokens[owner]));
    for (const run of ended) await platform.wait(run, "succeeded", "failed");
    const training = await platform.train(
        "language",
        "gpt-350m long context",
        { steps: 600, pause: 600, nodes: 2, slots: 4, time_limit: "6h" },
        tokens.anna,
    );
    for (const [project, name, owner, more] of [
        ["vision", "vit-base", "boris", { slots: 4 }],
        ["speech", "whisper-like", "chen", { slots: 2 }],
        ["vision", "baseline", "anna", { slots: 1 }],
        ["language", "gpt-124m", "chen", { slots: 2, nodes: 2 }],
        ["speech", "vocoder", "boris", { slots: 3 }],
    ])
        await platform.wait(
            await platform.train(project, name, { pause: 600, time_limit: "2h", steps: 200, ...more }, tokens[owner]),
            "running",
        );
    await platform.wait(training, "running");
    const waiting = [];
    for (const [project, name, owner, more] of [
        ["language", "gpt-1b", "anna", { nodes: 4, slots: 4 }],
        ["vision", "vit-large", "boris", { nodes: 4, slots: 4 }],
        ["speech", "conformer-xl", "chen", { nodes: 4, slots: 4 }],
        ["vision", "sweep-1", "anna", { nodes: 4, slots: 4 }],
    ])
        waiting.push(await platform.train(project, name, { time_limit: "1h", pause: 5, ...more }, tokens[owner]));
    return { tokens, ended, training, waiting, failed: ended[4] };
}

// SPDX-License-Identifier: Apache-2.0
// The numbers of curves: of all ranks, with their units, and as they are where they are not finite.
import { pause } from "./platform.mjs";
import { forgetChoices } from "./windows.mjs";
import assert from "node:assert/strict";

const odd = `import json, time
for step in range(20):
    print(json.dumps({"step": step, "grown": 2.0 ** step if step < 15 else float("inf"), "lost": float("nan")}), flush=True)
time.sleep(600)`;

/** No mark below a plot is cut off at its right edge, wherever the last one comes. */
export async function marksAreWhole(page, platform, known) {
    await page.goto(`${platform.address}/run.html?run=${known.training}`);
    await page.locator(".curve canvas").first().waitFor();
    const cut = await page.evaluate(async () => {
        const { plotOptions } = await import("/modules/curve.js");
        const box = document.createElement("div");
        Object.assign(box.style, { width: "400px", height: "160px" });
        document.querySelector("main").append(box);
        /* Whether there is ink on the last pixels of the line that the marks are on. */
        const isCut = async (time, to) => {
            const from = time ? to - 60000 : 0;
            const plot = new uPlot(plotOptions(box, time, { series: [{}, { stroke: "black" }] }), [[from, to], [1, 2]], box);
            await Promise.resolve(); // it draws when all else is done
            const { width, height } = plot.ctx.canvas;
            const strip = plot.ctx.getImageData(width - 2, Math.round(height * 0.86), 2, Math.round(height * 0.14)).data;
            const marks = plot.axes[0]._values.filter(Boolean).length;
            plot.destroy();
            return marks < 2 || strip.some((value) => value > 0);
        };
        const found = [];
        for (let second = 0; second < 16; second++)
            if (await isCut(true, new Date(2026, 10, 23, 16, 40, second).getTime())) found.push(`16:40:${second}`);
        for (let step = 100000; step < 116000; step += 1000) if (await isCut(false, step)) found.push(step);
        box.remove();
        return found;
    });
    assert.deepEqual(cut, []);
}

/** The number above a curve is the mean of all ranks, over steps and over time, and measured values have units. */
export async function numbersOfCurves(page, platform, known) {
    const head = (name) => page.locator(`[data-metric='${name}'] .read`);
    const told = async (run, name) => (await platform.get(`/runs/${run}/metrics`)).metrics.find((metric) => metric.name === name);
    await page.goto(`${platform.address}/run.html?run=${known.training}`);
    await page.evaluate(forgetChoices);
    await page.reload();
    const { last, ranks } = await told(known.training, "train/loss");
    assert.ok(ranks === 8 && last.ranks === 8 && last.lowest < last.value && last.value < last.highest, JSON.stringify(last));
    const figure = (value) => String(Number(value.toPrecision(4)));
    const [saved] = await Promise.all([
        page.waitForEvent("download"),
        page.getByRole("button", { name: "Every point as CSV: train/loss" }).click(),
    ]);
    assert.equal(saved.suggestedFilename(), `run-${known.training}-train-loss.csv`);
    const words = `${figure(last.value)} (${figure(last.lowest)} to ${figure(last.highest)}) at `;
    await head("train/loss").getByText(last.step, { exact: false }).waitFor();
    assert.equal(await head("train/loss").textContent(), `${words}${last.step}`);
    await page.getByRole("button", { name: "Time", exact: true }).click();
    await head("train/loss").getByText(/at \d\d:\d\d:\d\d$/).waitFor();
    assert.ok((await head("train/loss").textContent()).startsWith(words), "over time, too");
    await page.getByRole("button", { name: "Steps", exact: true }).click();
    await head("system/machine/memory/total").getByText(/^[\d.]+ GiB/).waitFor();
    await head("system/machine/cpu/used").getByText(/^[\d.]+ %/).waitFor();
    await head("system/node/processor_time").getByText(/^[\d.]+ (ms|s|m)/).waitFor();

    // Nodes are sampled at moments of their own: wherever the pointer is, each has a value.
    const memory = page.locator("[data-metric='system/machine/memory/used']");
    await memory.scrollIntoViewIfNeeded(); // or it is not drawn
    await memory.locator("canvas").waitFor();
    await memory.getByRole("button", { name: /Every rank/ }).click();
    await memory.locator(".ranks button").nth(1).waitFor();
    await memory.locator(".u-over").scrollIntoViewIfNeeded();
    for (const part of [0.95, 0.99]) {
        const over = await memory.locator(".u-over").boundingBox();
        await page.mouse.move(over.x + over.width * part, over.y + 20);
        const values = await memory.locator(".ranks b").allTextContents();
        assert.ok(values.length === 2 && values.every((text) => /^[\d.]+ [MG]iB$/.test(text)), values.join());
    }

    const run = await platform.submit("speech", { name: "odd", command: ["python3", "-c", odd] });
    await platform.wait(run, "running");
    await page.goto(`${platform.address}/run.html?run=${run}`);
    await head("grown").getByText("∞ at 19").waitFor();
    await page.locator("[data-metric='grown']").getByText("Points left out: 5 infinite.").waitFor();
    await head("lost").getByText("NaN at 19").waitFor();
    await page.locator("[data-metric='lost']").getByText("No value is finite.").waitFor();
    await platform.ask("POST", `/runs/${run}/stop`);
}

const plenty = `import json, time
for step in range(2):
    for at in range(0, 3000, 200):
        print(json.dumps({"step": step, **{f"layer{i // 1000}/unit{i:05d}": i for i in range(at, at + 200)}}), flush=True)
    print(json.dumps({"step": step, "train/loss": 1 / (step + 1), "__proto__": 5, "__proto__/x": 2, "constructor/y": 3}), flush=True)
time.sleep(600)`;

/** A run of thousands of metrics has groups that open; names that objects of the language have are names as others. */
export async function manyMetrics(page, platform) {
    const run = await platform.submit("speech", { name: "many", command: ["python3", "-c", plenty] });
    while ((await platform.get(`/runs/${run}/metrics?most=1`)).total < 3004) await pause(50);
    await page.goto(`${platform.address}/run.html?run=${run}`);
    await page.locator("[data-metric='train/loss'] canvas").waitFor();
    assert.ok((await page.locator(".curve").count()) < 100, "the other groups are closed");
    await page.getByRole("button", { name: "layer1 1,000 curves" }).click();
    await page.locator("[data-metric='layer1/unit01000']").waitFor();
    const more = page.locator("[data-prefix='layer1']").getByRole("button", { name: /^30 of 1,000 curves are shown/ });
    await more.click();
    await page.locator("[data-metric='layer1/unit01059']").waitFor();
    await page.getByRole("button", { name: "Metrics 1 curve" }).click();
    await page.locator("[data-metric='__proto__'] h3").getByText("__proto__", { exact: true }).waitFor();
    await page.getByRole("button", { name: "__proto__ 1 curve" }).click();
    await page.locator("[data-metric='__proto__/x']").waitFor();
    await page.getByLabel("Find a metric").fill("unit02999");
    await page.getByText("1 of 3,0", { exact: false }).waitFor();
    await page.locator("[data-metric='layer2/unit02999']").waitFor();
    await platform.ask("POST", `/runs/${run}/stop`);
}

// SPDX-License-Identifier: Apache-2.0
// The numbers of curves: of all ranks, with their units, and as they are where they are not finite.
import assert from "node:assert/strict";

const odd = `import json, time
for step in range(20):
    print(json.dumps({"step": step, "grown": 2.0 ** step if step < 15 else float("inf"), "lost": float("nan")}), flush=True)
time.sleep(600)`;

/** The number above a curve is the mean of all ranks, over steps and over time, and measured values have units. */
export async function numbersOfCurves(page, platform, known) {
    const head = (name) => page.locator(`[data-metric='${name}'] .read`);
    const told = async (run, name) => (await platform.get(`/runs/${run}/metrics`)).metrics.find((metric) => metric.name === name);
    await page.goto(`${platform.address}/run.html?run=${known.training}`);
    await page.evaluate(() => localStorage.clear());
    await page.reload();
    const { last, ranks } = await told(known.training, "train/loss");
    assert.ok(ranks === 8 && last.ranks === 8 && last.lowest < last.value && last.value < last.highest, JSON.stringify(last));
    const figure = (value) => String(Number(value.toPrecision(4)));
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

// SPDX-License-Identifier: Apache-2.0
// Which run was where, and when: a bar for each part of an attempt on a host, on a canvas as tall as what is seen of it.
import { hideTip, showTip } from "./components.js";
import { make, onColors, token } from "./dom.js";
import { clock, duration, timeLabel } from "./format.js";
import { light, slotRanges } from "./cluster-slots.js";
import { runColor } from "./states.js";

const axisHeight = 26;
const seenMost = 460;

export class Gantt {
    constructor() {
        this.canvas = make("canvas", {
            role: "img",
            onpointermove: (event) => this.over(event),
            onpointerleave: () => this.out(),
            onclick: (event) => this.click(event),
        });
        this.spacer = make("div");
        this.element = make("div.gantt", { onscroll: () => this.draw() }, this.canvas, this.spacer);
        this.bars = [];
        this.hosts = [];
        new ResizeObserver(() => this.draw()).observe(this.element);
        onColors(() => this.draw());
    }

    /** `hosts`: [{host, slots}] in their order; `bars` as the server gives them; from and to: milliseconds. */
    show(hosts, bars, from, to) {
        const most = Math.max(1, ...hosts.map((host) => host.slots));
        this.lane = Math.max(2, Math.min(9, Math.floor(34 / most)));
        let top = axisHeight;
        this.hosts = hosts.map((host) => {
            const made = { ...host, top, height: Math.max(13, host.slots * this.lane) };
            top += made.height + 5;
            return made;
        });
        this.height = top;
        this.places = new Map(this.hosts.map((host) => [host.host, host]));
        this.bars = bars.filter((bar) => this.places.has(bar.host));
        Object.assign(this, { from, to });
        this.canvas.setAttribute(
            "aria-label",
            `${bars.length} bars on ${hosts.length} hosts from ${clock(from)} to ${clock(to)}`,
        );
        this.draw();
    }

    get left() {
        return this.element.clientWidth < 600 ? 70 : 96;
    }

    x(time) {
        return this.left + ((time - this.from) / (this.to - this.from)) * (this.element.clientWidth - this.left - 14);
    }

    draw() {
        if (!this.height || this.element.clientWidth === 0) return;
        const width = this.element.clientWidth;
        const height = Math.min(seenMost, this.height + 4);
        const ratio = devicePixelRatio;
        this.canvas.width = width * ratio;
        this.canvas.height = height * ratio;
        this.canvas.style.width = `${width}px`;
        this.canvas.style.height = `${height}px`;
        this.spacer.style.height = `${Math.max(0, this.height + 4 - height)}px`;
        const pen = this.canvas.getContext("2d");
        pen.scale(ratio, ratio);
        this.drawn = [];
        this.drawHosts(pen, width, height);
        this.drawBars(pen, height);
        this.drawAxis(pen, width, height);
    }

    drawHosts(pen, width, height) {
        pen.font = `11px ${token("--mono")}`;
        pen.textBaseline = "middle";
        for (const host of this.hosts) {
            const y = host.top - this.element.scrollTop;
            if (y > height || y + host.height < axisHeight) continue;
            pen.fillStyle = token("--sunken");
            pen.fillRect(this.left, y, width - this.left - 14, host.height);
            pen.fillStyle = token("--soft");
            pen.fillText(host.host, 16, y + host.height / 2, this.left - 24);
        }
    }

    drawBars(pen, height) {
        const lightness = token("--run-lightness");
        const chroma = token("--run-chroma");
        pen.font = `11px ${token("--sans")}`;
        for (const bar of this.bars) {
            const x = Math.max(this.left, this.x(bar.from));
            const end = Math.min(this.x(this.to), this.x(bar.to ?? Date.now()));
            if (end < x) continue;
            const known = bar.run !== null && bar.run !== undefined;
            pen.globalAlpha = this.lit && bar.run !== this.lit ? 0.3 : 1;
            for (const [first, last] of slotRanges(bar.slots)) {
                const host = this.places.get(bar.host);
                const lane = host.height / host.slots;
                const y = host.top - this.element.scrollTop + first * lane;
                const tall = (last - first + 1) * lane;
                if (y > height || y + tall < axisHeight) continue;
                pen.fillStyle = known ? runColor(bar.run, lightness, chroma) : token("--line-strong");
                pen.fillRect(x, y, Math.max(1, end - x - 0.5), tall - 0.7);
                if (known && tall >= 12 && end - x > 44) {
                    pen.fillStyle = "rgb(0 0 0 / 72%)";
                    pen.fillText(String(bar.run), x + 5, y + tall / 2);
                }
                this.drawn.push({ bar, x, y, right: Math.max(end, x + 2), bottom: y + tall });
            }
        }
        pen.globalAlpha = 1;
    }

    drawAxis(pen, width, height) {
        pen.fillStyle = token("--surface");
        pen.fillRect(0, 0, width, axisHeight);
        pen.font = `11px ${token("--sans")}`;
        const step = stepOf((this.to - this.from) / Math.max(2, (width - this.left) / 90));
        const offset = new Date(this.from).getTimezoneOffset() * 60000;
        for (let time = Math.ceil((this.from - offset) / step) * step + offset; time < this.to; time += step) {
            const x = Math.round(this.x(time)) + 0.5;
            pen.fillStyle = token("--soft");
            pen.textAlign = x > width - 40 ? "right" : "center";
            pen.fillText(timeLabel(time, step), x, 13);
            pen.strokeStyle = "rgb(128 140 150 / 22%)";
            pen.beginPath();
            pen.moveTo(x, axisHeight - 4);
            pen.lineTo(x, height);
            pen.stroke();
        }
        pen.textAlign = "left";
        const now = this.x(Date.now());
        if (now <= width) {
            pen.strokeStyle = token("--danger");
            pen.beginPath();
            pen.moveTo(now, axisHeight - 4);
            pen.lineTo(now, height);
            pen.stroke();
        }
    }

    at(event) {
        const box = this.canvas.getBoundingClientRect();
        const x = event.clientX - box.left;
        const y = event.clientY - box.top;
        return y < axisHeight
            ? null
            : (this.drawn?.findLast((one) => x >= one.x && x <= one.right && y >= one.y && y <= one.bottom)?.bar ??
                  null);
    }

    over(event) {
        const bar = this.at(event);
        this.canvas.style.cursor = bar?.run ? "pointer" : "default";
        this.mark(bar?.run ?? null);
        if (!bar) {
            hideTip();
            return;
        }
        showTip(
            event,
            make("b", {}, bar.run ? `Run ${bar.run}` : "A run of others"),
            make("div", {}, [bar.project, bar.owner].filter(Boolean).join(" · ")),
            make("div", {}, `${bar.host}, slots ${bar.slots}`),
            make(
                "div",
                {},
                `${clock(bar.from)} to ${bar.to ? clock(bar.to) : "now"}, `,
                duration(((bar.to ?? Date.now()) - bar.from) / 1000),
            ),
            bar.cause && make("div", {}, bar.cause.replaceAll("-", " ")),
        );
    }

    out() {
        hideTip();
        this.mark(null);
    }

    mark(run) {
        if (run === (this.lit ?? null)) return;
        this.lit = run;
        light(run);
        this.draw();
    }

    click(event) {
        const bar = this.at(event);
        if (bar?.run) location.assign(`/run.html?run=${bar.run}`);
    }
}

/* Milliseconds between two marks of the axis: at least so many. */
function stepOf(least) {
    const minute = 60;
    const hour = 60 * minute;
    const day = 24 * hour;
    const steps = [1, 5, 10, 15, 30, minute, 2 * minute, 5 * minute, 10 * minute, 15 * minute, 30 * minute];
    steps.push(hour, 2 * hour, 3 * hour, 6 * hour, 12 * hour, day, 2 * day, 7 * day);
    return 1000 * (steps.find((step) => 1000 * step >= least) ?? 30 * day);
}

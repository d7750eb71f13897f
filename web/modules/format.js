// SPDX-License-Identifier: Apache-2.0
// Times, sizes and figures as people read them. Times are milliseconds since 1970, durations seconds.
import { make } from "./dom.js";

const hourFormat = new Intl.DateTimeFormat("en-GB", { hour: "2-digit", minute: "2-digit" });
const secondFormat = new Intl.DateTimeFormat("en-GB", { hour: "2-digit", minute: "2-digit", second: "2-digit" });
const dayFormat = new Intl.DateTimeFormat("en-GB", { day: "numeric", month: "short" });
const yearFormat = new Intl.DateTimeFormat("en-GB", { day: "numeric", month: "short", year: "numeric" });
const fullFormat = new Intl.DateTimeFormat("en-GB", { dateStyle: "full", timeStyle: "long" });
const wholeFormat = new Intl.NumberFormat("en", { maximumFractionDigits: 0 });
const prefixes = [
    [1e12, " T"],
    [1e9, " G"],
    [1e6, " M"],
    [1e3, " k"],
];

/** "34 ms", "4.2 s", "42 s", "3 m 12 s", "2 h 05 m", "3 d 4 h". */
export function duration(seconds) {
    if (!Number.isFinite(seconds)) return "–";
    if (seconds < 0) seconds = 0;
    if (seconds < 1) return `${Math.round(seconds * 1000)} ms`;
    if (seconds < 10) return `${Math.floor(seconds * 10) / 10} s`;
    const whole = Math.floor(seconds);
    if (whole < 60) return `${whole} s`;
    if (whole < 3600) return `${Math.floor(whole / 60)} m ${pad(whole % 60)} s`;
    if (whole < 86400) return `${Math.floor(whole / 3600)} h ${pad(Math.floor(whole / 60) % 60)} m`;
    const hours = Math.floor(whole / 3600) % 24;
    return `${Math.floor(whole / 86400)} d${hours ? ` ${hours} h` : ""}`;
}

/** As duration(), but coarse: for what is expected. "in 12 m", "in 2 h 05 m". */
export function coarse(seconds) {
    if (seconds < 60) return "a minute";
    const whole = Math.ceil(seconds / 60);
    return whole < 60 ? `${whole} m` : duration(whole * 60);
}

function pad(number, digits = 2) {
    return String(number).padStart(digits, "0");
}

function isToday(time) {
    return new Date(time).toDateString() === new Date().toDateString();
}

/** "14:05" today, "21 Nov 14:05" this year, "3 Jan 2025" before. */
export function clock(time, withSeconds = false) {
    if (time === null || time === undefined) return "–";
    const hours = (withSeconds ? secondFormat : hourFormat).format(time);
    if (isToday(time)) return hours;
    if (new Date(time).getFullYear() !== new Date().getFullYear()) return yearFormat.format(time);
    return `${dayFormat.format(time)} ${hours}`;
}

/** "14:05:12", whatever the day. */
export function seconds(time) {
    return secondFormat.format(time);
}

/** A mark of an axis with marks every `step` milliseconds: the day where it begins, seconds and their parts where they
 * differ. */
export function timeLabel(time, step) {
    const date = new Date(time);
    const begins = date.getHours() === 0 && date.getMinutes() === 0 && date.getSeconds() === 0;
    if (begins || step >= 86400000) return dayFormat.format(time);
    const digits = step < 10 ? 3 : step < 100 ? 2 : step < 1000 ? 1 : 0;
    if (digits) return `${secondFormat.format(time)}.${pad(date.getMilliseconds(), 3).slice(0, digits)}`;
    return (step < 60000 ? secondFormat : hourFormat).format(time);
}

/** "3 Jan 2025". */
export function day(time) {
    return time === null || time === undefined ? "–" : yearFormat.format(time);
}

/** A time, with all details under the pointer. */
export function moment(time, withSeconds = false) {
    if (time === null || time === undefined) return make("span.soft", {}, "–");
    return make(
        "time",
        { datetime: new Date(time).toISOString(), title: fullFormat.format(time) },
        clock(time, withSeconds),
    );
}

/** How long it is since `time`: it goes on by itself. */
export function since(time) {
    return make("time", { "data-since": time, title: fullFormat.format(time) }, duration((Date.now() - time) / 1000));
}

/** How long until `time`: it goes on by itself. */
export function until(time) {
    return make("time", { "data-until": time, title: fullFormat.format(time) }, soon(time));
}

/** How long until `time`, to the second: "3 m 45 s left". It goes on by itself. */
export function left(time) {
    return make("time", { "data-left": time, title: fullFormat.format(time) }, stillLeft(time));
}

function stillLeft(time) {
    return `${duration(Math.max(0, Math.round((time - Date.now()) / 1000)))} left`;
}

function soon(time) {
    const left = (time - Date.now()) / 1000;
    return left > 0 ? `in ${coarse(left)}` : "soon";
}

setInterval(() => {
    if (document.hidden) return;
    const now = Date.now();
    for (const element of document.querySelectorAll("[data-since]"))
        renew(element, duration((now - Number(element.dataset.since)) / 1000));
    for (const element of document.querySelectorAll("[data-until]"))
        renew(element, soon(Number(element.dataset.until)));
    for (const element of document.querySelectorAll("[data-left]"))
        renew(element, stillLeft(Number(element.dataset.left)));
}, 1000);

function renew(element, text) {
    if (element.textContent !== text) element.textContent = text;
}

/** "10,213". */
export function whole(number) {
    return wholeFormat.format(number);
}

/** "3 runs", "1 run". */
export function several(number, word) {
    return `${whole(number)} ${word}${number === 1 ? "" : "s"}`;
}

/** A share of 0 to 1 as "87 %", "0.8 %". */
export function share(value) {
    if (!Number.isFinite(value)) return "–";
    const percent = value * 100;
    return `${percent > 0 && percent < 10 ? percent.toFixed(1) : Math.round(percent)} %`;
}

/** Bytes: "1.39 GiB". */
export function bytes(number) {
    const units = ["B", "KiB", "MiB", "GiB", "TiB", "PiB"];
    let unit = 0;
    while (number >= 1024 && unit < units.length - 1) {
        number /= 1024;
        unit++;
    }
    return `${unit === 0 ? number : number.toFixed(number < 10 ? 2 : number < 100 ? 1 : 0)} ${units[unit]}`;
}

/** What a run or a project takes on disk, and may take: "3.20 GiB of 50.0 GiB on disk"; null if it was not measured. */
export function diskUse({ disk_bytes: used, disk_quota: quota }) {
    if (used === null || used === undefined) return null;
    return `${bytes(used)}${quota ? ` of ${bytes(quota)}` : ""} on disk`;
}

function prefixed(value) {
    const [unit, name] = prefixes.find(([least]) => Math.abs(value) >= least) ?? [1, ""];
    return `${Number((value / unit).toPrecision(4))}${name}`.replace("-", "−");
}

const notFinite = { NaN: "NaN", Infinity: "∞", "-Infinity": "−∞" };

/** A value of a metric: four digits that count. One that is not finite is a text of that name (the server's). */
export function figure(value) {
    if (typeof value === "string") return notFinite[value] ?? "–";
    if (value === null || value === undefined || !Number.isFinite(value)) return "–";
    const size = Math.abs(value);
    if (size === 0) return "0";
    if (size >= 1e15 || size < 1e-3)
        return value.toExponential(2).replace("e", " e").replace("+", "").replace("-", "−");
    if (size >= 1e5 || (size >= 1e4 && !Number.isInteger(value))) return prefixed(value);
    if (Number.isInteger(value)) return wholeFormat.format(value);
    return value
        .toPrecision(4)
        .replace(/(\.\d*?)0+$/, "$1")
        .replace(/\.$/, "")
        .replace("-", "−");
}

/** Joules: "3.4 kJ", "1.2 kWh". */
export function energy(joules) {
    return joules < 3.6e5 ? `${figure(joules / 1000)} kJ` : `${figure(joules / 3.6e6)} kWh`;
}

/** A value beside an axis: as short as can be. */
export function scaleFigure(value) {
    const size = Math.abs(value);
    if (size >= 1e4 && size < 1e15) return prefixed(value);
    if (size === 0 || (size >= 1e-3 && size < 1e15)) return String(Number(value.toPrecision(6))).replace("-", "−");
    return String(Number(value.toPrecision(3)).toExponential())
        .replace("e", " e")
        .replace("+", "")
        .replaceAll("-", "−");
}

const quantities = {
    share,
    bytes: (value) => bytes(Math.round(value)),
    "bytes/s": (value) => `${bytes(Math.round(value))}/s`,
    s: duration,
    J: energy,
};

/** A value of a metric with its unit, as the server names that: "59 %", "24.1 GiB", "61 °C". */
export function quantity(value, unit) {
    if (!unit || !Number.isFinite(value)) return figure(value);
    return quantities[unit]?.(value) ?? `${figure(value)} ${unit}`;
}

/** A value beside an axis, as short as can be: with its unit, if it has one. */
export function scaleQuantity(value, unit) {
    if (unit === "share") return `${scaleFigure(value * 100)} %`;
    if (unit.startsWith("bytes")) return quantity(value, unit).replace(/\.0+(?= )/, "");
    if (unit === "s" || unit === "J") return value === 0 ? "0" : quantity(value, unit);
    return unit ? `${scaleFigure(value)} ${unit}` : scaleFigure(value);
}

/** Slot-minutes: "93,210", "28.8", "0.03". */
export function minutes(amount) {
    if (amount === null || amount === undefined) return "–";
    const size = Math.abs(amount);
    if (size > 0 && size < 0.0005) return amount < 0 ? "−0.001" : "0.001"; // something, though next to nothing
    const digits = Number.isInteger(amount) || size >= 99.95 ? 0 : size >= 0.995 ? 1 : size >= 0.00995 ? 2 : 3;
    return new Intl.NumberFormat("en", { maximumFractionDigits: digits, minimumFractionDigits: digits })
        .format(amount)
        .replace("-", "−");
}

/** "4 GPUs", "1 CPU slot". */
export function slots(number, kind) {
    return `${whole(number)} ${kind === "gpu" ? "GPU" : "CPU slot"}${number === 1 ? "" : "s"}`;
}

/** "2 × 8": nodes times slots. */
export function shape(run) {
    return run.nodes === 1 ? String(run.slots) : `${run.nodes} × ${run.slots}`;
}

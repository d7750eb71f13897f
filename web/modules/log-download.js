// SPDX-License-Identifier: Apache-2.0
// All that a run has printed as a file, got a page at a time.
import { get } from "./api.js";
import { saveFile } from "./dom.js";
import { withoutEscapes } from "./log-stream.js";

const page = 10000; // lines, the largest page of the server

/** Save the lines that `filter` lets through, of the attempts whose numbers are given. `progress` is called with how many
 * there are so far. Rejects with an Error if the server refuses. */
export async function downloadLog(run, attempts, filter, progress) {
    const parts = [];
    let count = 0;
    for (const attempt of attempts) {
        let after = `${attempt}.0.0.0.0`; // before its first line
        for (let more = true; more;) {
            const answer = await get(`/runs/${run}/logs`, { ...filter, attempt: null, after, most: page });
            parts.push(answer.lines.map(text).join(""));
            count += answer.lines.length;
            progress(count);
            more = answer.more && answer.after !== after;
            after = answer.after;
        }
    }
    saveFile(`run-${run}.log`, new Blob(parts, { type: "text/plain;charset=utf-8" }));
}

function text(line) {
    const from = line.rank === null || line.rank === undefined ? `node ${line.node}` : `rank ${line.rank}`;
    return `${new Date(line.time).toISOString()} [${from}] ${withoutEscapes(line.text)}\n`;
}

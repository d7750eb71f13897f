// SPDX-License-Identifier: Apache-2.0
// Command lines: lists of words as a shell reads and people write them.

/** As one line for a shell: words are quoted where they have to be. */
export function join(words) {
    return words.map(quoted).join(" ");
}

export function quoted(word) {
    return /^[A-Za-z0-9_@%+=:,./-]+$/.test(word) ? word : `'${word.replaceAll("'", "'\\''")}'`;
}

/** An environment as lines of NAME=VALUE, as a shell reads them. */
export function assignments(environment) {
    return Object.entries(environment)
        .map(([name, value]) => `${name}=${quoted(value)}`)
        .join("\n");
}

/** The environment of such lines. Throws an Error with a message where something is not a variable. */
export function readAssignments(text) {
    return Object.fromEntries(
        split(text).map((word) => {
            const at = word.indexOf("=");
            if (at < 1) throw new Error(`“${word}” is no NAME=VALUE.`);
            return [word.slice(0, at), word.slice(at + 1)];
        }),
    );
}

/** The words of such a line. Throws an Error with a message where a quote has no end. */
export function split(line) {
    const words = [];
    let word = null;
    for (let at = 0; at < line.length; at++) {
        const letter = line[at];
        if (letter === "'" || letter === '"') {
            word ??= "";
            for (at++; at < line.length && line[at] !== letter; at++) {
                if (letter === '"' && line[at] === "\\" && '"\\$`\n'.includes(line[at + 1] ?? " ")) at++;
                word += line[at];
            }
            if (at >= line.length) throw new Error(`A quote (${letter}) has no end.`);
        } else if (letter === "\\" && at + 1 < line.length) {
            at++;
            if (line[at] !== "\n") word = (word ?? "") + line[at];
        } else if (/\s/.test(letter)) {
            if (word !== null) words.push(word);
            word = null;
        } else {
            word = (word ?? "") + letter;
        }
    }
    if (word !== null) words.push(word);
    return words;
}

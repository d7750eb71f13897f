/* SPDX-License-Identifier: Apache-2.0 */
/**
 * The ranks' output on its way to the terminal or to files: whole lines, each after its rank, so that lines of different
 * ranks never mix. Text without a newline waits for one, or for the end.
 *
 * On a terminal that can move the cursor back, text after a carriage return (a line of progress, which the rank will
 * overwrite) is shown at once, cut to the terminal's width, and erased before the next line is printed.
 */
#ifndef WEFT_LAUNCH_INTERNAL_OUTPUT_H
#define WEFT_LAUNCH_INTERNAL_OUTPUT_H

#include "base/error.h"
#include "core/control/wire/frame.h"

#include <stdbool.h>
#include <stdint.h>

/** One of the launcher's own two streams, with the bytes that it has not taken yet. */
struct output_sink {
    int descriptor;
    struct buffer waiting;
    uint32_t columns; /**< of the terminal; 0: not a terminal, or one that cannot move the cursor back */
    bool broken;      /**< its reader is gone */
};

struct output {
    struct output_sink sinks[2]; /**< standard output, standard error */
    struct buffer *partial;      /**< a line without its end: ranks x 2 */
    char **prefixes;             /**< by rank; NULL: none */
    int *files;                  /**< ranks x 2 descriptors; NULL: to the sinks */
    const char *directory;       /**< of the files */
    bool appends;                /**< to files that exist, rather than replace them */
    uint32_t ranks;
    bool live; /**< a line on the terminal must be erased before the next one */
};

/**
 * For at most `ranks` ranks; output_rank_begin() begins each. With `directory` (borrowed), their output goes to files
 * there (it is made if it is missing) and nothing to the terminal; otherwise with `prefix` each line begins with the
 * rank.
 */
weft_status output_open(struct output *output, uint32_t ranks, const char *directory, bool prefix, struct error *error);

/**
 * Rank `rank` is about to start. Makes the files rank-N.out and rank-N.err, or the prefix "[rank N] " or, if `host` is
 * not NULL, "[rank N host] ". Errors: SYSTEM, ARGUMENT: its output is lost.
 */
weft_status output_rank_begin(struct output *output, uint32_t rank, const char *host, struct error *error);

/** Columns for a line of progress of any rank on standard output; 0: none is shown there. */
uint32_t output_live_columns(const struct output *output);

/** Bytes that rank `rank` wrote to `stream` (1 or 2). */
void output_take(struct output *output, uint32_t rank, uint32_t stream, const uint8_t *bytes, size_t size);

/** A line of the launcher itself, to standard error. */
void output_say(struct output *output, const char *line);

/** Whether too much is queued to read more output for now. */
bool output_is_full(const struct output *output);

/** Write without blocking to the sinks that are `ready`. */
void output_write(struct output *output, const bool ready[2]);

/** Write everything, lines without an end included, and free. Gives up on a reader that takes nothing for 5 s. */
void output_close(struct output *output);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/**
 * What the program of an attempt has printed, line by line, from the journals of its nodes (platform/agent/journal/file.h): pages of
 * it from any place, backwards and forwards, and what is added while one watches. It reads the files of the local
 * engine beside those who write them, and keeps none open.
 *
 * Lines of all nodes are one sequence, by time; those of one node stay in their order. A cursor names a line of an
 * attempt ("1700000000123456.0.17.2": time, node, record, line of it), and is good for as long as the journal has it.
 *
 * A line is a text that can be shown and put into JSON: without its end, "[rank 3] " before it (that is told apart),
 * the colours and other orders to a terminal; of a line that was written over itself (progress bars), what came last.
 *
 * A page reads 128 MiB at most: with a filter that little fits it may hold fewer lines than asked for, or none, and is
 * gone on with by its cursors. From the end on, without filters, it reads some 4 MiB of each node. Thread-safe; a
 * struct belongs to one thread at a time.
 */
#ifndef WEFT_PLATFORM_RUNS_OUTPUT_H
#define WEFT_PLATFORM_RUNS_OUTPUT_H

#include "core/control/wire/frame.h"
#include "platform/agent/journal/attempt.h"

#include <stdbool.h>
#include <stdint.h>

#define RUN_OUTPUT_LINES_MOST   10000
#define RUN_OUTPUT_NODES_MOST   64 /**< that are read at once; of more, one has to be chosen */
#define RUN_OUTPUT_CURSOR_BYTES 96
#define RUN_OUTPUT_ANY          (-1)

/** Which lines. */
struct run_output_query {
    const char *engine; /**< the directory of the local engine */
    struct attempt attempt;
    uint32_t nodes;     /**< of the attempt */
    int64_t node, rank; /**< only of this one; RUN_OUTPUT_ANY */
    int64_t stream;     /**< 1: standard output, 2: standard error; RUN_OUTPUT_ANY */
    const char *search; /**< only lines with this in them, whatever the case of ASCII letters; NULL or "": any */
};

struct run_output_line {
    uint64_t time; /**< microseconds since 1970, by the node's clock */
    uint32_t node;
    uint32_t rank;     /**< that the line named, or JOURNAL_NO_RANK */
    uint32_t stream;   /**< 1, 2; 0: a note of the platform's ("old output was dropped"), where no filter is set */
    uint64_t sequence; /**< of its record, */
    uint32_t index;    /**< and which line of that */
    const char *text;
};

/** Where one is in a node's journal. */
struct run_output_place {
    uint64_t segment, offset; /**< of the next record; segment 0: before everything */
};

struct run_output_page {
    struct run_output_line *lines; /**< in their order */
    size_t count;
    bool more; /**< there is more in the direction that was asked for */
    char before[RUN_OUTPUT_CURSOR_BYTES], after[RUN_OUTPUT_CURSOR_BYTES]; /**< to go on with; "" where nothing is */
    struct buffer texts;
    struct run_output_place *ends; /**< a page from the end: by node, how far it was read */
};

/**
 * The `most` lines before `cursor`, or behind it if `forwards`; a cursor of NULL is the end, or the beginning. Errors:
 * ARGUMENT for what is no cursor, or no node, or too many of these; SYSTEM, MEMORY. To be freed if it was made.
 */
weft_status run_output_page(const struct run_output_query *query, const char *cursor, bool forwards, size_t most,
                            struct run_output_page *page, struct error *error);
void run_output_page_free(struct run_output_page *page);

/** Write a line's cursor. */
char *run_output_cursor(const struct run_output_line *line, char cursor[RUN_OUTPUT_CURSOR_BYTES]);

/* ---- what is added ---- */

struct run_output_follow;

/**
 * Watch an attempt: from `ends` of a page on, or behind `cursor`, or from the beginning (both NULL). What `query`
 * points to must stay. Errors: as run_output_page().
 */
weft_status run_output_follow(const struct run_output_query *query, const struct run_output_place *ends,
                              const char *cursor, struct run_output_follow **follow, struct error *error);

/**
 * What was added since, as far as it is in some 256 KiB of all nodes' journals together, and in some 4,000 lines: takes
 * a few milliseconds at most. page->more tells to ask again at once; nodes take turns in being the first. Lines of
 * nodes whose clocks differ, or that print more than that, come as they are found, but none is left out.
 */
weft_status run_output_follow_next(struct run_output_follow *follow, struct run_output_page *page, struct error *error);
void run_output_follow_close(struct run_output_follow *follow);

#endif

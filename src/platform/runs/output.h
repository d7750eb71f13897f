/* SPDX-License-Identifier: Apache-2.0 */
/**
 * Output of an attempt by lines, from the journals of its nodes (platform/agent/journal/file.h): pages from any position in
 * both directions, and new lines as they come. Reads the files of the local engine while they are written, and keeps
 * none open.
 *
 * Lines of all nodes are one sequence by time; lines of one node keep their order. A cursor identifies a line of an
 * attempt ("1700000000123456.0.17.2": time, node, record, line in it), and is valid as long as the journal has it.
 *
 * A line is printable UTF-8: without its newline, rank prefix (which is a member of its own) and terminal escapes. Of a
 * line that was overwritten with carriage returns (progress bars), the last version remains.
 *
 * A page reads at most 128 MiB. With a filter that few lines match it may hold fewer lines than asked for, or none; its
 * cursors continue the search. Without filters, a page at the end reads some 4 MiB of each node. Thread-safe; a struct
 * belongs to one thread at a time.
 */
#ifndef WEFT_PLATFORM_RUNS_OUTPUT_H
#define WEFT_PLATFORM_RUNS_OUTPUT_H

#include "core/control/wire/frame.h"
#include "platform/agent/journal/journal.h"

#include <stdbool.h>
#include <stdint.h>

#define RUN_OUTPUT_LINES_MOST   10000
#define RUN_OUTPUT_NODES_MOST   64 /**< read together; with more nodes, choose one */
#define RUN_OUTPUT_CURSOR_BYTES 96
#define RUN_OUTPUT_ANY          (-1)

/** Which lines. */
struct run_output_query {
    const char *engine; /**< the directory of the local engine */
    struct attempt attempt;
    uint32_t nodes;     /**< of the attempt */
    int64_t node, rank; /**< only of this one; RUN_OUTPUT_ANY */
    int64_t stream;     /**< 1: standard output, 2: standard error; RUN_OUTPUT_ANY */
    const char *search; /**< only lines with this text, ignoring ASCII case; NULL or "": any */
};

struct run_output_line {
    uint64_t time; /**< microseconds since 1970, by the node's clock */
    uint32_t node;
    uint32_t rank;     /**< of its prefix, or JOURNAL_NO_RANK */
    uint32_t stream;   /**< 1, 2; 0: a note of the platform ("old output was dropped"), only without a filter */
    uint64_t sequence; /**< of its record, */
    uint32_t index;    /**< and its line in that */
    const char *text;
};

/** A position in a node's journal. */
struct run_output_place {
    uint64_t segment, offset; /**< of the next record; segment 0: before everything */
};

struct run_output_page {
    struct run_output_line *lines; /**< in their order */
    size_t count;
    bool more;                                                            /**< there are more lines in this direction */
    char before[RUN_OUTPUT_CURSOR_BYTES], after[RUN_OUTPUT_CURSOR_BYTES]; /**< cursors to continue with; "": none */
    struct buffer texts;
    struct run_output_place *ends; /**< of a page at the end: by node, how far it was read */
};

/**
 * The `most` lines before `cursor`, or after it if `forwards`; NULL is the end, or the beginning. Errors: ARGUMENT for an
 * invalid cursor or node, or too many nodes; SYSTEM, MEMORY. On success the caller frees the page.
 */
weft_status run_output_page(const struct run_output_query *query, const char *cursor, bool forwards, size_t most,
                            struct run_output_page *page, struct error *error);
void run_output_page_free(struct run_output_page *page);

/** Write a line's cursor. */
char *run_output_cursor(const struct run_output_line *line, char cursor[RUN_OUTPUT_CURSOR_BYTES]);

/* ---- what is added ---- */

struct run_output_follow;

/**
 * Follow an attempt: from `ends` of a page, or after `cursor`, or from the beginning (both NULL). What `query` points to
 * must outlive it. Errors: as run_output_page().
 */
weft_status run_output_follow(const struct run_output_query *query, const struct run_output_place *ends,
                              const char *cursor, struct run_output_follow **follow, struct error *error);

/**
 * Lines added since, within some 256 KiB of all journals together and some 4,000 lines; takes a few milliseconds. If
 * page->more, call again at once; nodes take turns in being first. If nodes' clocks differ, or they print more than
 * that, lines come out of order, but none is missing.
 */
weft_status run_output_follow_next(struct run_output_follow *follow, struct run_output_page *page, struct error *error);
void run_output_follow_close(struct run_output_follow *follow);

#endif

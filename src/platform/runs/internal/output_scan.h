/* SPDX-License-Identifier: Apache-2.0 */
/** Lines of journal segments, for platform/runs/output.c. */
#ifndef WEFT_PLATFORM_RUNS_INTERNAL_OUTPUT_SCAN_H
#define WEFT_PLATFORM_RUNS_INTERNAL_OUTPUT_SCAN_H

#include "platform/runs/output.h"

/** Lines found so far. During the scan `text` is an offset in `texts`, and raw unless there is a search. */
struct run_output_scan {
    const struct run_output_query *query;
    const struct run_output_line *cursor; /**< only lines on one side of it; NULL: all */
    bool forwards;                        /**< after it, otherwise before it */
    struct run_output_line *lines;
    size_t count, room;
    struct buffer texts;
    uint8_t *bytes; /**< of the segment */
    size_t size;
    uint64_t read;     /**< bytes of journals so far */
    size_t count_most; /**< stop after the record that reaches this number of lines; 0: no limit */
};

/** Contents of a scanned segment. */
struct run_output_seen {
    bool any;             /**< it had a record; then: */
    uint64_t first, last; /**< their times */
    size_t bytes;         /**< of the records that were read */
    bool partial;         /**< more follows, left out because of `most` or `count_most` */
};

void run_output_scan_begin(struct run_output_scan *scan, const struct run_output_query *query,
                           const struct run_output_line *cursor, bool forwards);

/** Read a segment of a node's journal from `place` on: `most` bytes, or one record if that is longer. `*place` is then
 * the end of the last record. A missing segment is empty. */
weft_status run_output_scan(struct run_output_scan *scan, const char *directory, uint32_t node,
                            struct run_output_place *place, size_t most, struct run_output_seen *seen,
                            struct error *error);

/** Bytes of a line. */
size_t run_output_scan_size(const struct run_output_scan *scan, const struct run_output_line *line);

/** Free the texts of dropped lines if there are many. */
weft_status run_output_scan_compact(struct run_output_scan *scan, struct error *error);

/** Make all lines printable and move them to a page. */
void run_output_scan_give(struct run_output_scan *scan, struct run_output_page *page);
void run_output_scan_end(struct run_output_scan *scan);

/**
 * Make `size` bytes of a line printable UTF-8, in place, and append a NUL, for which there is room. Removes terminal
 * escapes and control characters except tabs; of an overwritten line the last version remains. Returns the length.
 */
size_t run_output_text(char *line, size_t size);

#endif

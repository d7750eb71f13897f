/* SPDX-License-Identifier: Apache-2.0 */
/** Lines out of segments of journals: for platform/runs/output.c alone. */
#ifndef WEFT_PLATFORM_RUNS_INTERNAL_OUTPUT_SCAN_H
#define WEFT_PLATFORM_RUNS_INTERNAL_OUTPUT_SCAN_H

#include "platform/runs/output.h"

/** Lines that were found. While it grows their `text` is the offset in `texts`, and is raw where nothing is searched.
 */
struct run_output_scan {
    const struct run_output_query *query;
    const struct run_output_line *cursor; /**< only lines on one side of it; NULL: all */
    bool forwards;                        /**< behind it, otherwise before it */
    struct run_output_line *lines;
    size_t count, room;
    struct buffer texts;
    uint8_t *bytes; /**< of the segment */
    size_t size;
    uint64_t read;     /**< bytes of journals so far */
    size_t count_most; /**< a record is the last one when so many lines are there; 0: any number */
};

/** What was in it. */
struct run_output_seen {
    bool any;             /**< a record at all; then: */
    uint64_t first, last; /**< their times */
    size_t bytes;         /**< of the records that were read */
    bool partial;         /**< there is more behind these, which was left out because of `most`, or `count_most` */
};

void run_output_scan_begin(struct run_output_scan *scan, const struct run_output_query *query,
                           const struct run_output_line *cursor, bool forwards);

/** Read a segment of a node's journal from `place` on, `most` bytes or the one record that has more; `*place` is then
 * behind the last record. A segment that is gone is empty. */
weft_status run_output_scan(struct run_output_scan *scan, const char *directory, uint32_t node,
                            struct run_output_place *place, size_t most, struct run_output_seen *seen,
                            struct error *error);

/** Bytes of a line. */
size_t run_output_scan_size(const struct run_output_scan *scan, const struct run_output_line *line);

/** Let go of the texts of lines that were dropped, if they are many. */
weft_status run_output_scan_compact(struct run_output_scan *scan, struct error *error);

/** Make texts of all and hand them to a page. */
void run_output_scan_give(struct run_output_scan *scan, struct run_output_page *page);
void run_output_scan_end(struct run_output_scan *scan);

#endif

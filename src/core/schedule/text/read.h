/* SPDX-License-Identifier: Apache-2.0 */
/**
 * Reads the text form of schedules. schedule_print() and schedule_print_frame() write it.
 *
 * The format, version 1, is line by line; `#` begins a comment; docs/schedule-format.md is its manual. A header has the
 * properties common to all ranks, and sections have the steps of ranks:
 *
 *     weft schedule 1
 *     collective  allgather
 *     algorithm   my-ring
 *     ranks       any               # or a number
 *
 *     rank *                        # or a number, or a range 0..3
 *       lane 0
 *         for k in 0..ranks-2
 *           send  output[(rank-k)%ranks] to (rank+1)%ranks   (after lane 1 so far)
 *         end
 *
 * Numbers are expressions over `rank`, `ranks`, `root`, `peer`, `parts` and loop variables. Schedules from text are not
 * trusted: they must be proved (schedule_text_prove()) before they run. No input makes this module crash, hang or
 * allocate without bound.
 *
 * Immutable once parsed; thread-safe.
 */
#ifndef WEFT_CORE_SCHEDULE_TEXT_READ_H
#define WEFT_CORE_SCHEDULE_TEXT_READ_H

#include "core/schedule/generators/generate.h"

struct schedule_text;

/** Longest text accepted. */
#define WRITTEN_BYTES_MOST ((size_t)16 << 20)

/**
 * Read a text of `bytes` bytes; `name` is the file's, for messages. Parses the header and the nesting of sections and
 * loops; steps are parsed when schedules are made. WEFT_ERROR_DATA names the line.
 */
weft_status schedule_text_parse(const char *text, size_t bytes, const char *name, struct schedule_text **written,
                                struct error *error);

/** Read a file. */
weft_status schedule_text_read(const char *path, struct schedule_text **written, struct error *error);

void schedule_text_free(struct schedule_text *written);

enum collective schedule_text_collective(const struct schedule_text *written);
const char *schedule_text_algorithm(const struct schedule_text *written); /**< lives as long as `written` */
uint32_t schedule_text_ranks(const struct schedule_text *written);        /**< 0: any number */
uint64_t schedule_text_hash(const struct schedule_text *written);         /**< of the text: equal texts, equal hashes */
bool schedule_text_in_place(const struct schedule_text *written);         /**< an all-to-all in place */

/** The root that the text fixes, or `otherwise` if it works for any; likewise the receiver of a message. */
uint32_t schedule_text_root(const struct schedule_text *written, uint32_t otherwise);
uint32_t schedule_text_peer(const struct schedule_text *written, uint32_t otherwise);

/**
 * The schedule of `rank`, not proved. schedule->algorithm lives as long as `written`. Errors: ARGUMENT when the text
 * does not support this shape; DATA, with the line, when it does not make a schedule.
 */
weft_status schedule_text_of_rank(const struct schedule_text *written, const struct schedule_shape *shape,
                                  uint32_t rank, struct schedule **schedule, struct error *error);

/**
 * The schedules of all ranks, proved; to be freed by sweep_free(). SCHEDULE, with rank, lane and step, when they are
 * wrong.
 */
weft_status schedule_text_prove(const struct schedule_text *written, const struct schedule_shape *shape,
                                struct schedule ***schedules, struct error *error);

#endif

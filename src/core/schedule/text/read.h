/* SPDX-License-Identifier: Apache-2.0 */
/**
 * Schedules that somebody wrote: the text form of plans, read. plan_print() and plan_print_frame() write it.
 *
 * The form, version 1, is line by line; `#` begins a comment; docs/schedule-format.md is its manual. A header says what
 * all ranks agree on, sections say what ranks do:
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
 * Numbers are expressions over `rank`, `ranks`, `root`, `peer`, `parts` and loop variables. A text is only words: the
 * plans that come of it are to be proved (written_prove()) before they run. No text makes this module crash, hang or
 * allocate without bound.
 *
 * Immutable once parsed; thread-safe.
 */
#ifndef WEFT_CORE_SCHEDULE_TEXT_READ_H
#define WEFT_CORE_SCHEDULE_TEXT_READ_H

#include "core/schedule/generators/generate.h"

struct written;

/** Longest text that is read. */
#define WRITTEN_BYTES_MOST ((size_t)16 << 20)

/**
 * Read a text of `bytes` bytes; `name` is the file's, for messages. Looks at the header and at the nesting of sections
 * and loops; steps are looked at when plans are made. WEFT_ERROR_DATA names the line.
 */
weft_status written_parse(const char *text, size_t bytes, const char *name, struct written **written,
                          struct error *error);

/** Read a file. */
weft_status written_read(const char *path, struct written **written, struct error *error);

void written_free(struct written *written);

enum collective written_collective(const struct written *written);
const char *written_algorithm(const struct written *written); /**< lives as long as `written` */
uint32_t written_ranks(const struct written *written);        /**< 0: any number */
uint64_t written_hash(const struct written *written);         /**< of the text: equal texts, equal hashes */
bool written_in_place(const struct written *written);         /**< an all-to-all in place */

/** The root that the text is for, or `otherwise` where it is for any; the same of the receiver of a message. */
uint32_t written_root(const struct written *written, uint32_t otherwise);
uint32_t written_peer(const struct written *written, uint32_t otherwise);

/**
 * The plan of `rank`, not proved. plan->algorithm lives as long as `written`. Errors: ARGUMENT when the text is for
 * other shapes than this one; DATA, with the line, when it makes no plan.
 */
weft_status written_plan(const struct written *written, const struct plan_shape *shape, uint32_t rank,
                         struct plan **plan, struct error *error);

/** The plans of all ranks, proved; to be freed by sweep_free(). PLAN, with rank, lane and step, when they are wrong. */
weft_status written_prove(const struct written *written, const struct plan_shape *shape, struct plan ***plans,
                          struct error *error);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/**
 * TensorBoard's event files, anybody's, read as they grow.
 *
 * training/train/report/internal/event_file.h says how such a file is built, and names the sources of that. Of each Event, the scalars are
 * taken: `simple_value`, and tensors of one number (what tf.summary.scalar and newer writers write: float, double,
 * half, bfloat16 and whole numbers). Histograms, images, texts and the rest are passed over.
 *
 * A file that ends within a record is one that is still being written: what is there of it is waited with, and read
 * again when there is more. A record whose checksum is wrong is damaged: it is counted and passed by. Where its length
 * is, the next place is looked for at which a record begins (its length has a checksum of its own), byte by byte.
 * Records of more than EVENTS_RECORD_MOST are pictures or graphs, and are passed over without being read.
 *
 * A reader belongs to one thread at a time. Nothing in a file is believed.
 */
#ifndef WEFT_PLATFORM_METRICS_READ_INTERNAL_TENSORBOARD_EVENTS_H
#define WEFT_PLATFORM_METRICS_READ_INTERNAL_TENSORBOARD_EVENTS_H

#include "base/error.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define EVENTS_NAME_MOST   200 /**< bytes of a tag; a longer one is left out */
#define EVENTS_RECORD_MOST ((size_t)4 << 20)

/** A scalar of one Event. */
struct events_scalar {
    int64_t step;
    int64_t time;     /**< microseconds since 1970; 0 if the event's makes no sense */
    double value;     /**< may be not finite */
    const char *name; /**< printable; lives until the call returns */
};

/** Gets the scalars in the order of the file. An error of it ends the reading; that record is passed on again, whole.
 */
typedef weft_status events_take(void *state, const struct events_scalar *scalar, struct error *error);

struct events_reader {
    int descriptor;
    char *path;
    uint64_t offset;   /**< of the record that is read next; beyond the end of a file that has a part of a large one */
    uint64_t damaged;  /**< records, or stretches, that were passed by because their checksums are wrong */
    uint64_t left_out; /**< scalars whose names are empty or too long */
    uint64_t skipped;  /**< records that are too large */
    uint64_t seen;     /**< bytes that the file had at least */
    bool lost;         /**< the beginning of a record is being looked for */
    uint8_t *bytes;    /**< what was read from `offset` on */
    size_t count, room;
};

/** Open the file at `path`. `offset`: as it was when somebody read the file before, or 0. Errors: SYSTEM, MEMORY. */
weft_status events_open(struct events_reader *reader, const char *path, uint64_t offset, struct error *error);

/** Read what there is now. Errors: SYSTEM if the file cannot be read, DATA if it has become shorter, MEMORY, `take`'s.
 */
weft_status events_read(struct events_reader *reader, events_take *take, void *state, struct error *error);

/** Harmless on a zeroed struct. */
void events_close(struct events_reader *reader);

/** Whether a file of that name (without directories) is an event file: it has "tfevents" in it, and does not end in
 * REPORT_NAME_COLLECTED (training/train/report/names.h): weft train has reported what is in that one. */
bool events_is_file(const char *name);

#endif

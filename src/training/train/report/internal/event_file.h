/* SPDX-License-Identifier: Apache-2.0 */
/**
 * Writes TensorBoard's event files.
 *
 * A file is a sequence of TFRecords (tensorflow/core/lib/io/record_writer.h): the length as 8 bytes, the masked CRC-32C
 * of these, the bytes, the masked CRC-32C of them; all little-endian. Each record is an Event in protocol buffers
 * (tensorflow/core/util/event.proto): wall_time = 1 (double), step = 2 (int64), and file_version = 3 (string, in the
 * first record) or summary = 5, which repeats value = 1 with tag = 1 (string) and simple_value = 2 (float).
 *
 * A struct belongs to one thread at a time.
 */
#ifndef WEFT_TRAINING_TRAIN_REPORT_INTERNAL_EVENT_FILE_H
#define WEFT_TRAINING_TRAIN_REPORT_INTERNAL_EVENT_FILE_H

#include "base/file/file.h"

#include <stdio.h>

struct event_file {
    FILE *file;
    char path[FILE_PATH_BYTES];
};

struct event_value {
    const char *tag; /**< "train/loss"; at most EVENT_TAG_MOST bytes */
    double value;
};

#define EVENT_TAG_MOST    100
#define EVENT_VALUES_MOST 16

/**
 * Create a new file in `directory`, which is created too: events.out.tfevents.TIME.HOST.PROCESS.NUMBER. `time` is
 * seconds since 1970. With `collected` the name ends in REPORT_NAME_COLLECTED (training/train/report/names.h): the
 * file's contents are also reported in another way, and collectors of metrics skip it.
 */
weft_status event_file_open(struct event_file *events, const char *directory, double time, bool collected,
                            struct error *error);

/** Append `count` values of one step, and flush. */
weft_status event_file_put(struct event_file *events, double time, uint64_t step, const struct event_value *values,
                           size_t count, struct error *error);

void event_file_close(struct event_file *events);

#endif

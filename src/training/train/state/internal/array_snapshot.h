/* SPDX-License-Identifier: Apache-2.0 */
/**
 * Arrays lent to a thread that reads them once, until their owner wants to change them.
 *
 * A checkpoint is written by a thread of its own while the next forward and backward pass run: weights and moments
 * change in the optimizer's update only, so until then the thread reads them where they are, and nothing is copied.
 * Before the update the owner withdraws them: what has not been read by then is copied, and the thread reads the copy
 * from there on. So the owner never waits for a disk. Where there is no memory for a copy, it waits until all has been
 * read.
 *
 * The memory for the copy is touched early and kept, since the first touch of new memory takes longer than the copying
 * (2 to 30 times, on virtual machines).
 *
 *     owner    array_snapshot_open -> [array_snapshot_begin, array_snapshot_add ... -> (thread starts) -> array_snapshot_detach] ...
 *              -> array_snapshot_close
 *     thread   array_snapshot_source's calls ... -> array_snapshot_reader_ended
 *
 * One owner and one reader; each range is taken once, and the ranges of an array in order.
 */
#ifndef WEFT_TRAINING_TRAIN_STATE_INTERNAL_ARRAY_SNAPSHOT_H
#define WEFT_TRAINING_TRAIN_STATE_INTERNAL_ARRAY_SNAPSHOT_H

#include "base/error.h"
#include "training/checkpoint/safetensors.h"

#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

struct array_snapshot;

/** To lend up to `room` arrays of up to `bytes` together at once. Errors: MEMORY. */
weft_status array_snapshot_open(size_t room, uint64_t bytes, struct array_snapshot **snapshot, struct error *error);

/** From any thread, before the first array is lent: touch the memory for the copy, until `*stop`. */
void array_snapshot_touch(struct array_snapshot *snapshot, const atomic_bool *stop);

/** From the owner, when no reader runs: nothing is lent. */
void array_snapshot_begin(struct array_snapshot *snapshot);

/** Lend `size` bytes at `bytes`. They must not overlap with another array. Before the thread starts. */
void array_snapshot_add(struct array_snapshot *snapshot, const void *bytes, uint64_t size);

/** What a file is written from: its functions lend and return. Memory that was not lent is read as it is. */
struct byte_source array_snapshot_source(struct array_snapshot *snapshot);

/** The reader has ended, whatever it has read: nothing need be kept for it. */
void array_snapshot_reader_ended(struct array_snapshot *snapshot);

/** From the owner: the arrays may be changed once this returns. At once when called again. */
void array_snapshot_detach(struct array_snapshot *snapshot);

/** From the owner: the reader is to give up; its next read gives NULL. */
void array_snapshot_cancel(struct array_snapshot *snapshot);

/** Bytes that had to be copied since array_snapshot_begin(). */
uint64_t array_snapshot_copied(const struct array_snapshot *snapshot);

/** When the reader has ended. NULL is harmless. */
void array_snapshot_close(struct array_snapshot *snapshot);

#endif

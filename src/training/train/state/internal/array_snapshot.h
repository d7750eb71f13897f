/* SPDX-License-Identifier: Apache-2.0 */
/**
 * A lazy snapshot of arrays, for a thread that reads them once.
 *
 * A checkpoint is written by its own thread while the next forward and backward pass run. Weights and moments change in
 * the optimizer's update only, so until then the thread reads them in place. Before the update the owner detaches the
 * snapshot: the unread rest is copied, and the thread continues with the copy. So the owner never waits for a disk.
 * Without memory for the copy, it waits until everything has been read.
 *
 * The memory for the copy is touched early and kept, because the first touch of new memory takes longer than the copy
 * (2 to 30 times, on virtual machines).
 *
 *     owner    array_snapshot_open
 *              -> [array_snapshot_begin, array_snapshot_add ... -> (thread starts) -> array_snapshot_detach] ...
 *              -> array_snapshot_close
 *     thread   array_snapshot_source's calls ... -> array_snapshot_reader_ended
 *
 * One owner and one reader; each range is acquired once, and the ranges of an array in order.
 */
#ifndef WEFT_TRAINING_TRAIN_STATE_INTERNAL_ARRAY_SNAPSHOT_H
#define WEFT_TRAINING_TRAIN_STATE_INTERNAL_ARRAY_SNAPSHOT_H

#include "base/error.h"
#include "training/checkpoint/safetensors.h"

#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

struct array_snapshot;

/** A snapshot of up to `room` arrays with up to `bytes` together. Errors: MEMORY. */
weft_status array_snapshot_open(size_t room, uint64_t bytes, struct array_snapshot **snapshot, struct error *error);

/** From any thread, before the first array is added: touch the memory for the copy, until `*stop`. */
void array_snapshot_touch(struct array_snapshot *snapshot, const atomic_bool *stop);

/** From the owner, while no reader runs: begin a snapshot without arrays. */
void array_snapshot_begin(struct array_snapshot *snapshot);

/** Add `size` bytes at `bytes`, which must not overlap with another array. Before the thread starts. */
void array_snapshot_add(struct array_snapshot *snapshot, const void *bytes, uint64_t size);

/** The source that a file is written from. Memory that was not added is read in place. */
struct byte_source array_snapshot_source(struct array_snapshot *snapshot);

/** From the reader: it has ended. */
void array_snapshot_reader_ended(struct array_snapshot *snapshot);

/** From the owner: the arrays may be changed once this returns. Does nothing when called again. */
void array_snapshot_detach(struct array_snapshot *snapshot);

/** From the owner: cancel; the reader's next read returns NULL. */
void array_snapshot_cancel(struct array_snapshot *snapshot);

/** Bytes that had to be copied since array_snapshot_begin(). */
uint64_t array_snapshot_copied(const struct array_snapshot *snapshot);

/** After the reader has ended. NULL is allowed. */
void array_snapshot_close(struct array_snapshot *snapshot);

#endif

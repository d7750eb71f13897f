/* SPDX-License-Identifier: Apache-2.0 */
/**
 * The operation log: this rank's recent and current operations, for peers that ask (layout: core/control/control.h).
 *
 * It is part of the rank's status page (core/control/status/status_page.h). The holder of the progress lock writes it
 * with relaxed atomic stores, and weft_progress() its part without the lock. The helper thread, for a peer that asks, and processes outside may read it at any time.
 * An entry that is being overwritten while it is read has a sequence of zero.
 */
#ifndef WEFT_CORE_COLLECTIVE_DIAGNOSIS_OPERATION_LOG_H
#define WEFT_CORE_COLLECTIVE_DIAGNOSIS_OPERATION_LOG_H

#include "core/collective/call.h"

struct weft_request;

/** Add a new operation, `call` as number `sequence` of `comm`, with its tag; it is queued. */
struct operation_entry *operation_log_add(struct operation_log *log, const weft_comm *comm, const struct call *call,
                                          uint64_t sequence, uint64_t tag);

/** weft_progress() was called. Any thread. */
void operation_log_progress(struct operation_log *log, const char *doing, int64_t number);

/** The operation added last is done. */
void operation_log_end(struct operation_entry *entry);

/** Clear all entries. */
void operation_log_clear(struct operation_log *log);

/** It has reached `phase`. An entry that a later operation has reused is left alone. */
void operation_log_phase(const struct weft_request *request, enum operation_phase phase);

/** It waits for `world_rank`, and last progressed at `since` (clock_ticks()). */
void operation_log_await(const struct weft_request *request, uint32_t world_rank, uint64_t since);

/** It progressed: it is not waiting. */
void operation_log_move(const struct weft_request *request);

/**
 * The entry of operation `sequence` (from 1) of communicator `id`, or NULL; of several messages with this number, one
 * that is not done. For a fetched log, or the writer of its own.
 */
const struct operation_entry *operation_log_find(const struct operation_log *log, uint32_t id, uint64_t sequence);

/** The entry for the rank's weft_comm_free() of communicator `id`, or its weft_finalize(); or NULL. */
const struct operation_entry *operation_log_departure(const struct operation_log *log, uint32_t id);

/** The operation in which a caller is blocked, the oldest of several; or NULL. */
const struct operation_entry *operation_log_blocking(const struct operation_log *log);

/**
 * Describe what a log (a copy, or the caller's own) shows its rank to be doing: "blocked in barrier() (operation 7 of
 * world), waiting for rank 2", "computing since barrier() (operation 6 of world), last in forward of layer 3"; "" before the first operation.
 * Returns `text`.
 */
char *operation_log_describe(const struct operation_log *log, char *text, size_t size);

/** "operation 7 of world", "message 3 of communicator 2"; returns `text`. `sequence` counts from 1. */
char *operation_place_name(uint32_t communicator, uint64_t sequence, char *text, size_t size);

/** The operation begun or queued last that is not done; or NULL. */
const struct operation_entry *operation_log_current(const struct operation_log *log);

#endif

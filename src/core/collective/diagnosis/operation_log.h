/* SPDX-License-Identifier: Apache-2.0 */
/**
 * The operation log: what this rank has done last and does now, for peers who wonder (layout: core/control/control.h).
 *
 * It lies on the rank's status page (core/control/status/status_page.h). Written by whoever holds the progress_lock, with relaxed atomic stores; read
 * at any moment by the helper thread for a peer that asks, and from outside. An entry that is being overwritten while
 * it is read is recognised by its sequence, which is zero meanwhile.
 */
#ifndef WEFT_CORE_COLLECTIVE_DIAGNOSIS_OPERATION_LOG_H
#define WEFT_CORE_COLLECTIVE_DIAGNOSIS_OPERATION_LOG_H

#include "core/collective/call.h"

struct weft_request;

/** Note a new operation, `call` as number `sequence` of `comm`, with its tag; it is queued. */
struct operation_entry *operation_log_add(struct operation_log *log, const weft_comm *comm, const struct call *call,
                                          uint64_t sequence, uint64_t tag);

/** The operation that was added last is done. */
void operation_log_end(struct operation_entry *entry);

/** Forget all entries. */
void operation_log_clear(struct operation_log *log);

/** It has come to `phase`. An entry that has been taken over by a later operation is left alone. */
void operation_log_phase(const struct weft_request *request, enum operation_phase phase);

/** It waits for `world_rank`, and was last seen to move at `since` (clock_ticks()). */
void operation_log_await(const struct weft_request *request, uint32_t world_rank, uint64_t since);

/** It was seen to move: it waits for nobody for long. */
void operation_log_move(const struct weft_request *request);

/**
 * The entry of operation `sequence` (from 1) of communicator `id`, or NULL; of several messages that have this number,
 * one that is not done. In a log that was fetched, or by its writer.
 */
const struct operation_entry *operation_log_find(const struct operation_log *log, uint32_t id, uint64_t sequence);

/** The entry that says that the rank has freed communicator `id`, or called weft_finalize(); or NULL. */
const struct operation_entry *operation_log_departure(const struct operation_log *log, uint32_t id);

/** The operation that a caller is blocked in, the oldest of several; or NULL. */
const struct operation_entry *operation_log_blocking(const struct operation_log *log);

/**
 * What a log (a copy, or the caller's own) shows its rank to be doing: "blocked in barrier() (operation 7 of world),
 * waiting for rank 2", "computing since barrier() (operation 6 of world)"; "" when it has not done anything yet.
 * Returns `text`.
 */
char *operation_log_describe(const struct operation_log *log, char *text, size_t size);

/** "operation 7 of world", "message 3 of communicator 2"; returns `text`. `sequence` counts from 1. */
char *operation_place_name(uint32_t communicator, uint64_t sequence, char *text, size_t size);

/** The operation begun or queued last that is not done; or NULL. */
const struct operation_entry *operation_log_current(const struct operation_log *log);

#endif

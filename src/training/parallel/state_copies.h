/* SPDX-License-Identifier: Apache-2.0 */
/**
 * Copies of a training's state on other ranks, from which it continues when ranks are lost.
 *
 * One of the ranks that hold an element copies it into its own memory and sends the copy to the *next* rank, on another
 * node if there is one. It keeps the copy of the *previous* rank. There are two copies, of different steps. The older
 * one is overwritten when every rank has all of the newer one, so there is always a copy that all ranks have:
 *
 *     begin     all ranks, after a step: copy this rank's part, start to send it
 *     finish    each rank, before it sends its part of the norm of the next step: its part has arrived at the next rank,
 *               and the previous rank's part here. So a rank that has the norm can begin the next copy
 *
 * Memory: twice this rank's part and twice the previous rank's, each 12 bytes for an element with AdamW. With weights
 * and moments that are divided over n ranks, a part is their n-th part.
 *
 * An object belongs to one thread.
 */
#ifndef WEFT_TRAINING_PARALLEL_STATE_COPIES_H
#define WEFT_TRAINING_PARALLEL_STATE_COPIES_H

#include "training/parallel/state_pieces.h"

struct state_copies;

/**
 * For the state of `layout`, in which some rank holds each element with its moments. nodes[rank] is the node that a rank
 * is on. Collective over the layout's communicator. The layout must stay open until the last state_copies_begin(), its
 * description until close. Errors, on all ranks: MEMORY, those of weft_comm_duplicate(). *speaks as for
 * agreement_reach(). Takes the memory of the first copy.
 */
weft_status state_copies_open(const struct state_layout *layout, const uint32_t *nodes, struct state_copies **copies,
                              bool *speaks, struct error *error);

/** Copy the state as it is after step `step`. Takes the copy's memory the second time. Errors: the library's; the second
 * time MEMORY, perhaps on this rank alone. */
weft_status state_copies_begin(struct state_copies *copies, uint64_t step, struct error *error);

/** Wait for the copy that was begun last; does nothing if it is complete. Errors: the library's. */
weft_status state_copies_finish(struct state_copies *copies, struct error *error);

/** Local. NULL is allowed. */
void state_copies_close(struct state_copies *copies);

/* ---- after ranks have failed, and weft_shrink() ---- */

/** The previous rank: its number in the layout's communicator. */
uint32_t state_copies_previous(const struct state_copies *copies);

/** Free the copies that are not of this step. */
void state_copies_keep(struct state_copies *copies, uint64_t step);

/** The steps of the two copies of this rank's part, or of the previous rank's. UINT64_MAX: none. */
void state_copies_steps(struct state_copies *copies, bool previous, uint64_t steps[2]);

/**
 * The copy of step `step`, as pieces: this rank's part, and with `previous` that of the previous rank, too. The list is
 * the caller's to free(); the memory is the copies'. Errors: MEMORY.
 */
weft_status state_copies_pieces(const struct state_copies *copies, uint64_t step, bool previous,
                                struct state_pieces *pieces, struct error *error);

#endif

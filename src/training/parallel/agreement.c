/* SPDX-License-Identifier: Apache-2.0 */
#include "training/parallel/agreement.h"

#include <stdlib.h>

/*
 * The message of rank `first` on all ranks. A broadcast ends on one rank while it is still on its way to others, and
 * whoever has the message may exit: the others would lose a peer in the middle of it. None leaves before all have the
 * message, therefore. A barrier that fails here has lost a rank that had left it, so every rank has the message then.
 */
static weft_status share_message(weft_comm *comm, int first, struct error *error)
{
    weft_status status = weft_broadcast(error->text, sizeof error->text, WEFT_I8, first, comm);
    if (status == WEFT_OK)
        (void)weft_barrier(comm);
    return status;
}

weft_status agreement_reach(weft_context *context, weft_comm *comm, weft_status status, struct error *error,
                            bool *speaks)
{
    int ranks = weft_comm_size(comm), first = 0;
    int32_t mine = (int32_t)status, *all = malloc((size_t)ranks * sizeof *all);
    *speaks = true;
    if (!all)
        return error_memory(error, (size_t)ranks * sizeof *all, "the states of the ranks");
    weft_status exchange = weft_allgather(&mine, all, 1, WEFT_I32, comm);
    if (exchange == WEFT_OK) {
        while (first < ranks && all[first] == WEFT_OK)
            first++;
        if (first == ranks) {
            free(all);
            return WEFT_OK;
        }
        status = (weft_status)all[first];
        exchange = share_message(comm, first, error);
    }
    free(all);
    if (exchange != WEFT_OK) {
        error_clear(error);
        return error_set(error, exchange, "%s", weft_message(context));
    }
    error->status = status;
    *speaks = first == weft_comm_rank(comm);
    return status;
}

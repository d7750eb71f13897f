/* SPDX-License-Identifier: Apache-2.0 */
#include "parallel/agreement.h"

#include <stdlib.h>

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
        exchange = weft_broadcast(error->text, sizeof error->text, WEFT_I8, first, comm);
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

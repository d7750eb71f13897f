/* SPDX-License-Identifier: Apache-2.0 */
/* Helpers that run already, and are taken over. */
#include "launch/internal/host_helpers.h"
#include "launch/takeover/succession.h"

#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>

void host_helper_prove(struct host_helpers *helpers, struct host_helper *helper, const char *draw)
{
    const char *secret = order_variable(helpers->environment, "WEFT_SECRET");
    uint8_t proof[SECRET_BYTES];
    if (succession_prove(secret ? secret : "", draw, proof, NULL) == WEFT_OK)
        frame_put(&helper->out, ORDER_ATTACH, proof, sizeof proof);
}

/* The ranks of a helper that was taken over: those that have ended meanwhile, or were never started, have ended now. */
void host_helper_take_ranks(struct host_helpers *helpers, struct host_helper *helper, struct reader reader)
{
    struct verdict *verdict = helpers->verdict;
    bool *runs = calloc(verdict->started + (size_t)1, sizeof *runs);
    uint32_t count = reader_u32(&reader);
    if (!runs || reader.bad)
        count = 0;
    helper->ordered = true;
    helper->stays = helpers->config->additions > 0;
    helper->running = 0;
    if (helpers->attached++ == 0 && helpers->config->record) {
        char line[FILE_PATH_BYTES + 128];
        snprintf(line, sizeof line,
                 "weft run: took over the job; its ranks' output since the loss of its launcher is in %s/output-HOST",
                 helpers->config->job_directory->path);
        output_say(helpers->output, line);
    }
    for (uint32_t i = 0; i < count && !reader.bad; i++) {
        const uint32_t rank = reader_u32(&reader), ended = reader_u32(&reader), end = reader_u32(&reader);
        if (reader.bad || rank >= verdict->started)
            continue;
        runs[rank] = !ended;
        helper->running += !ended;
        if (ended)
            verdict_rank_ended(verdict, rank, (int)end);
    }
    for (uint32_t rank = 0; runs && rank < verdict->started; rank++)
        if (verdict->hosts[rank] == helper->host && verdict->ends[rank] == -1 && !runs[rank])
            verdict_rank_ended(verdict, rank, W_EXITCODE(127, 0));
    free(runs);
}

void host_helpers_attach(struct host_helpers *helpers)
{
    for (uint32_t i = 0; i < helpers->count; i++)
        helpers->all[i].attaches = true;
}

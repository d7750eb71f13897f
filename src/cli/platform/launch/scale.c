/* SPDX-License-Identifier: Apache-2.0 */
/* `weft scale`: another number of ranks for a running job. */
#include "base/text.h"
#include "cli/frame/command.h"
#include "launch/job_directory.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#define RANKS_MOST (1 << 20)

static weft_status scale_run(struct command_call *call, struct error *error)
{
    char request[32], answer[ERROR_TEXT_BYTES + 8];
    int64_t ranks = 0;
    weft_status status = text_parse_integer(call->words[1], "the number of ranks", 1, RANKS_MOST, &ranks, error);
    call->exit_code = status == WEFT_OK ? 1 : 2; /* if there is an error */
    if (status != WEFT_OK)
        return status;
    snprintf(request, sizeof request, "scale %" PRId64, ranks);
    status = job_directory_request(call->words[0], request, answer, sizeof answer, error);
    if (status != WEFT_OK)
        return status;
    if (strncmp(answer, "ok ", 3) != 0)
        return error_set(error, WEFT_ERROR_STATE, "%s", strncmp(answer, "no ", 3) == 0 ? answer + 3 : answer);
    call->exit_code = 0;
    fprintf(call->output, "%s; weft inspect %s shows the progress\n", answer + 3, call->words[0]);
    return WEFT_OK;
}

const struct command command_scale = {
    .name = "scale",
    .group = COMMAND_TRAIN,
    .summary = "change the number of ranks of a running job",
    .description =
        "DIR is the directory that weft run --job-dir was given, RANKS how many ranks the job is to have. The job must have "
        "been started with --min-ranks, on this machine, by the same user. The command returns when the launcher has accepted "
        "the request; what comes of it is in the job's events (weft inspect DIR).\n\n"
        "More ranks are started on free slots of the job's hosts: list more slots than -n needs, as in weft run --hosts "
        "hosta:4,hostb:4 -n 4. They join between two steps. For fewer ranks, those with the highest numbers leave between two "
        "steps, one after the other, and their processes end with exit code 0. A job never goes below its --min-ranks. A "
        "request for more ranks than there are slots, or for fewer than --min-ranks, is refused, and the job goes on.\n\n"
        "The ranks of weft train end with the weights that they would have had without the change, bit for bit, as far as "
        "that holds for other numbers of ranks (weft help train). Other programs take part if they call weft_grow() when "
        "weft_waiting() says so: examples/survivor.c.",
    .examples = "weft run --hosts localhost:4 -n 2 --min-ranks 1 --job-dir job -- weft train --data input.txt\n"
                "weft scale job 4\n",
    .words = "DIR RANKS",
    .run = scale_run,
};

/* SPDX-License-Identifier: Apache-2.0 */
/* A program of somebody else's, in C and in C++: a world of one rank, and sums over it, blocking and as a request. */
#include <weft/report.h>
#include <weft/weft.h>

#include <stdio.h>

int main(void)
{
    weft_context *context;
    weft_config config = WEFT_CONFIG_DEFAULT;
    float one = 1, sum = 0;
    if (weft_init(&config, &context) != WEFT_OK)
        return fprintf(stderr, "%s\n", weft_message(NULL)), 1;
    if (weft_allreduce(&one, &sum, 1, WEFT_F32, WEFT_SUM, weft_world(context)) != WEFT_OK)
        return fprintf(stderr, "%s\n", weft_message(context)), 1;
    weft_request *requests[2] = {NULL, NULL};
    weft_comm *world = weft_world(context);
    int indices[2], ended = 0;
    bool done = false;
    if (weft_allreduce_start(&one, &sum, 1, WEFT_F32, WEFT_SUM, world, &requests[1]) != WEFT_OK ||
        weft_request_done(requests[1], &done) != WEFT_OK || weft_wait_some(requests, 2, indices, &ended) != WEFT_OK ||
        ended != 1 || indices[0] != 1)
        return fprintf(stderr, "%s\n", weft_message(weft_comm_context(world))), 1;
    printf("weft %s, %d ranks, sum %g\n", weft_version(), weft_comm_size(weft_world(context)), (double)sum);
    return weft_finalize(context) == WEFT_OK ? 0 : 1;
}

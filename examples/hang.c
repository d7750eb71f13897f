/* SPDX-License-Identifier: Apache-2.0 */
/* A program that hangs, to look at (docs/tutorials/hang.md): rank 2 forgets the others for a minute. */
#include <weft/weft.h>

#include <stdio.h>
#include <unistd.h>

int main(void)
{
    weft_context *context;
    float loss = 1;
    if (weft_init(NULL, &context) != WEFT_OK)
        return fprintf(stderr, "%s\n", weft_message(NULL)), 1;
    weft_comm *world = weft_world(context);
    for (int step = 1; step <= 200; step++) {
        weft_progress(context, "step", step);
        if (step == 101 && weft_comm_rank(world) == 2)
            sleep(60); /* reads a file from a network that is down, say */
        if (weft_allreduce(&loss, &loss, 1, WEFT_F32, WEFT_AVERAGE, world) != WEFT_OK)
            return fprintf(stderr, "%s\n", weft_message(context)), 1;
        usleep(10000);
    }
    return weft_finalize(context) == WEFT_OK ? 0 : 1;
}

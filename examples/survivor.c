/* SPDX-License-Identifier: Apache-2.0 */
/* Counts on after ranks have died: each step sums a number over all ranks; a rank that fails is reported, the others go on. */
#include <stdio.h>
#include <unistd.h>
#include <weft/weft.h>

int main(void)
{
    weft_context *context;
    if (weft_init(NULL, &context) != WEFT_OK)
        return fprintf(stderr, "%s\n", weft_message(NULL)), 1;

    for (int step = 0; step < 20; step++) {
        weft_comm *world = weft_world(context); /* another one after a failure */
        float sum = 1;
        if (weft_allreduce(&sum, &sum, 1, WEFT_F32, WEFT_SUM, world) != WEFT_OK) {
            printf("step %d failed: %s\n", step, weft_message(context));
            if (weft_shrink(context) != WEFT_OK)
                return fprintf(stderr, "cannot go on: %s\n", weft_message(context)), 1;
            world = weft_world(context);
            printf("going on as rank %d of %d\n", weft_comm_rank(world), weft_comm_size(world));

            /* Survivors may have got different steps done: all go on from the first that one of them has not. */
            int first = step;
            if (weft_allreduce(&first, &first, 1, WEFT_I32, WEFT_MIN, world) != WEFT_OK)
                return fprintf(stderr, "%s\n", weft_message(context)), 1;
            step = first - 1;
            continue;
        }
        if (weft_comm_rank(world) == 0)
            printf("step %d: %g ranks\n", step, (double)sum);
        fflush(stdout);
        usleep(200000);
    }
    return weft_finalize(context) == WEFT_OK ? 0 : 1;
}

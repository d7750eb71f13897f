/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Counts on when ranks die, when others join and when some leave: each step sums a number over all ranks. A rank that fails is
 * reported and the others go on; ranks that weft run --restarts starts in place of it join them between two steps. weft scale
 * adds ranks in the same way, or makes ranks leave.
 */
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>
#include <weft/weft.h>

int main(int count, char **words)
{
    const int steps = count > 1 ? atoi(words[1]) : 20;
    weft_context *context;
    if (weft_init(NULL, &context) != WEFT_OK)
        return fprintf(stderr, "%s\n", weft_message(NULL)), 1;

    bool changed = weft_epoch(context) > 0; /* this rank has joined a running job ... */
    int step = changed ? INT_MAX : 0;       /* ... and does not know its step */
    while (step < steps || changed) {
        weft_comm *world = weft_world(context); /* another one after each change of the ranks */
        if (!world) {                           /* this rank has left, and the others go on */
            printf("leaving after step %d\n", step);
            break;
        }
        float sums[2] = {1, (float)weft_waiting(context)};
        int first = step; /* a failed operation leaves its output undefined */
        weft_status status;
        if (changed) /* one rank may have completed a step that another has not: go on from the first of all */
            status = weft_allreduce(&step, &first, 1, WEFT_I32, WEFT_MIN, world);
        else
            status = weft_allreduce(sums, sums, 2, WEFT_F32, WEFT_SUM, world);

        if (status != WEFT_OK) {
            printf("step %d failed: %s\n", step, weft_message(context));
            changed = true;
            if (weft_shrink(context) != WEFT_OK)
                return fprintf(stderr, "cannot go on: %s\n", weft_message(context)), 1;
        } else if (changed && first == INT_MAX) {
            return fprintf(stderr, "all ranks that knew the step are lost\n"), 1;
        } else if (changed) {
            printf("going on as rank %d of %d\n", weft_comm_rank(world), weft_comm_size(world));
            step = first;
            changed = false;
        } else {
            if (weft_comm_rank(world) == 0)
                printf("step %d: %g ranks\n", step, (double)sums[0]);
            step++;
            usleep(200000);
            if (sums[1] > 0) { /* all ranks know that somebody waits, or is to leave */
                changed = true;
                if (weft_grow(context) != WEFT_OK && weft_shrink(context) != WEFT_OK)
                    return fprintf(stderr, "cannot go on: %s\n", weft_message(context)), 1;
            }
        }
        fflush(stdout);
    }
    return weft_finalize(context) == WEFT_OK ? 0 : 1;
}

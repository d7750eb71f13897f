/* SPDX-License-Identifier: Apache-2.0 */
/*
 * allreduce_between BYTES COUNT COMMAND [ALGORITHM]: COUNT all-reduces of BYTES, before and after which, while all
 * wait, rank 0 runs COMMAND through the shell. Prints "algorithm NAME" at the end. For tests that read counters.
 */
#include "weft/weft.h"

#include <stdio.h>
#include <stdlib.h>

static int fail(const weft_context *context)
{
    fprintf(stderr, "%s\n", weft_message(context));
    return 1;
}

int main(int count, char **words)
{
    if (count < 4)
        return 2;
    size_t elements = strtoull(words[1], NULL, 10) / sizeof(float);
    int times = atoi(words[2]);
    weft_context *context;
    if (weft_init(NULL, &context) != WEFT_OK)
        return fail(NULL);
    weft_comm *world = weft_world(context);
    bool first = weft_comm_rank(world) == 0;
    float *input = weft_alloc(context, elements * sizeof *input),
          *output = weft_alloc(context, elements * sizeof *input);
    if (!input || !output)
        return fail(context);
    for (size_t i = 0; i < elements; i++)
        input[i] = 1;
    if (count > 4 && weft_comm_set_algorithm(world, "allreduce", words[4]) != WEFT_OK)
        return fail(context);
    for (int i = -2; i < times; i++) { /* two to warm up */
        if (i == 0 &&
            (weft_barrier(world) != WEFT_OK || (first && system(words[3]) != 0) || weft_barrier(world) != WEFT_OK))
            return fail(context);
        if (weft_allreduce(input, output, elements, WEFT_F32, WEFT_SUM, world) != WEFT_OK)
            return fail(context);
    }
    if (weft_barrier(world) != WEFT_OK || (first && system(words[3]) != 0) || weft_barrier(world) != WEFT_OK)
        return fail(context);
    for (size_t i = 0; i < elements; i++)
        if (output[i] != (float)weft_comm_size(world))
            return fprintf(stderr, "element %zu is %g\n", i, (double)output[i]), 1;
    if (first)
        printf("algorithm %s\n", weft_comm_algorithm(world, "allreduce", elements, WEFT_F32));
    weft_finalize(context);
    return 0;
}

/* SPDX-License-Identifier: Apache-2.0 */
/* Averages a vector over all ranks: docs/tutorials/collectives.md walks through it. */
#include <weft/weft.h>

#include <stdio.h>

int main(void)
{
    weft_context *context;
    if (weft_init(NULL, &context) != WEFT_OK)
        return fprintf(stderr, "%s\n", weft_message(NULL)), 1;
    weft_comm *world = weft_world(context);

    size_t count = 1000000;
    float *values = weft_alloc(context, count * sizeof(float));
    for (size_t i = 0; values && i < count; i++)
        values[i] = (float)weft_comm_rank(world);

    if (!values || weft_allreduce(values, values, count, WEFT_F32, WEFT_AVERAGE, world) != WEFT_OK)
        return fprintf(stderr, "%s\n", weft_message(context)), 1;
    printf("rank %d of %d: %g\n", weft_comm_rank(world), weft_comm_size(world), (double)values[0]);
    return weft_finalize(context) == WEFT_OK ? 0 : 1;
}

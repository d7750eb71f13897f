/* SPDX-License-Identifier: Apache-2.0 */
/* A program of somebody else's, in C and in C++: a world of one rank, and a sum over it. */
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
    printf("weft %s, %d ranks, sum %g\n", weft_version(), weft_comm_size(weft_world(context)), (double)sum);
    return weft_finalize(context) == WEFT_OK ? 0 : 1;
}

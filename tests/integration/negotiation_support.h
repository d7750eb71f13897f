/* SPDX-License-Identifier: Apache-2.0 */
/** What tests of weft/negotiation.h share: calls with one tensor, and a generator that is the same on all ranks. */
#ifndef WEFT_TESTS_NEGOTIATION_SUPPORT_H
#define WEFT_TESTS_NEGOTIATION_SUPPORT_H

#include "../world.h"

#include <weft/negotiation.h>

static inline weft_operation *submit_one(weft_negotiator *negotiator, weft_named_kind kind, const char *name,
                                         const void *input, void *output, weft_type type, int dimensions,
                                         const int64_t *shape, weft_op_kind op)
{
    const weft_tensor tensor = {input, output, type, dimensions, shape};
    const weft_named_call call = {
        .kind = kind, .name = name, .tensors = &tensor, .count = 1, .op = op, .prescale = 1, .postscale = 1};
    weft_operation *operation = NULL;
    return weft_operation_submit(negotiator, &call, &operation) == WEFT_OK ? operation : NULL;
}

/** Submit an all-reduce (sum) of `count` floats, in place. */
static inline weft_operation *submit_sum(weft_negotiator *negotiator, const char *name, float *values, int64_t count)
{
    return submit_one(negotiator, WEFT_NAMED_ALLREDUCE, name, values, values, WEFT_F32, 1, &count, WEFT_OP_SUM);
}

/** Submit an operation without tensors. */
static inline weft_operation *submit_empty(weft_negotiator *negotiator, weft_named_kind kind, const char *name)
{
    const weft_named_call call = {.kind = kind, .name = name, .prescale = 1, .postscale = 1};
    weft_operation *operation = NULL;
    return weft_operation_submit(negotiator, &call, &operation) == WEFT_OK ? operation : NULL;
}

/** Wait for it and free it. */
static inline weft_status finish(weft_operation *operation)
{
    const weft_status status = weft_operation_wait(operation);
    weft_operation_free(operation);
    return status;
}

static inline uint32_t next_number(uint64_t *state)
{
    *state = *state * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(*state >> 33);
}

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/* Names and sizes of the public types and operations. */
#include "weft/weft.h"

static const struct {
    const char *name;
    size_t bytes;
} types[WEFT_TYPES] = {
    [WEFT_F32] = {"f32", 4}, [WEFT_F64] = {"f64", 8}, [WEFT_F16] = {"f16", 2},   [WEFT_BF16] = {"bf16", 2},
    [WEFT_I8] = {"i8", 1},   [WEFT_U8] = {"u8", 1},   [WEFT_I32] = {"i32", 4},   [WEFT_U32] = {"u32", 4},
    [WEFT_I64] = {"i64", 8}, [WEFT_U64] = {"u64", 8}, [WEFT_BOOL] = {"bool", 1},
};

static const char *const op_names[WEFT_OP_KINDS] = {
    [WEFT_OP_SUM] = "sum",
    [WEFT_OP_AVERAGE] = "average",
    [WEFT_OP_PRODUCT] = "product",
    [WEFT_OP_MIN] = "min",
    [WEFT_OP_MAX] = "max",
    [WEFT_OP_SCALED_SUM] = "scaled-sum",
    [WEFT_OP_BITWISE_AND] = "bitwise-and",
    [WEFT_OP_BITWISE_OR] = "bitwise-or",
    [WEFT_OP_BITWISE_XOR] = "bitwise-xor",
    [WEFT_OP_LOGICAL_AND] = "logical-and",
    [WEFT_OP_LOGICAL_OR] = "logical-or",
    [WEFT_OP_LOGICAL_XOR] = "logical-xor",
};

size_t weft_type_size(weft_type type)
{
    return (unsigned)type < WEFT_TYPES ? types[type].bytes : 0;
}

const char *weft_type_name(weft_type type)
{
    return (unsigned)type < WEFT_TYPES ? types[type].name : "unknown";
}

const char *weft_op_name(weft_op_kind kind)
{
    return (unsigned)kind < WEFT_OP_KINDS ? op_names[kind] : "unknown";
}

const char *weft_version(void)
{
    return WEFT_VERSION_TEXT;
}

/* SPDX-License-Identifier: Apache-2.0 */
/**
 * Descriptions of operations: what ranks must agree on, as words that are compared and sent as they are. Not
 * thread-safe: the holder of the negotiator's lock or its driver counts references.
 */
#ifndef WEFT_CORE_COLLECTIVE_NEGOTIATION_INTERNAL_DESCRIPTION_H
#define WEFT_CORE_COLLECTIVE_NEGOTIATION_INTERNAL_DESCRIPTION_H

#include "weft/negotiation.h"

#include "base/buffer.h"
#include "base/error.h"

#include <stdbool.h>

/** The first words; for each tensor follow its type, its number of dimensions, and its shape. */
enum {
    DESCRIPTION_KIND,
    DESCRIPTION_OP,
    DESCRIPTION_PRESCALE, /**< the bits of a double */
    DESCRIPTION_POSTSCALE,
    DESCRIPTION_ROOT,
    DESCRIPTION_TENSORS,
    DESCRIPTION_HEADER,
};

struct description {
    size_t references;
    size_t count; /**< of words */
    int64_t words[];
};

/** Of a call. The first extent of an all-gather or all-to-all, which may differ between ranks, is -1. */
weft_status description_of(const weft_named_call *call, struct description **description, struct error *error);

/** From words that another rank sent; NULL if memory ran out. */
struct description *description_from(const int64_t *words, size_t count);

/** Whether `count` words describe an operation. */
bool description_is_whole(const int64_t *words, size_t count);

struct description *description_keep(struct description *description);

/** NULL is allowed. */
void description_release(struct description *description);

bool description_equal(const struct description *one, const struct description *other);

/** A tensor of it: its type, and the number of its elements (of a row, if the first extent is -1). */
weft_type description_tensor(const struct description *description, int index, uint64_t *elements);

static inline weft_named_kind description_kind(const struct description *description)
{
    return (weft_named_kind)description->words[DESCRIPTION_KIND];
}

/** In words: "allreduce of f32 [17, 17] (average)". Tensors beyond the third are counted. */
void description_print(const struct description *description, struct buffer *text);

#endif

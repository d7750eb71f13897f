/* SPDX-License-Identifier: Apache-2.0 */
/* Descriptions of operations. */
#include "core/collective/negotiation/internal/description.h"

#include "base/float_bits.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#define PRINTED_TENSORS 3

static const char *const kind_names[WEFT_NAMED_KINDS] = {
    "allreduce", "adasum", "allgather", "broadcast", "alltoall", "reduce_scatter", "barrier", "join",
};

const char *weft_named_kind_name(weft_named_kind kind)
{
    return (unsigned)kind < WEFT_NAMED_KINDS ? kind_names[kind] : "unknown";
}

static bool has_varying_rows(weft_named_kind kind)
{
    return kind == WEFT_NAMED_ALLGATHER || kind == WEFT_NAMED_ALLTOALL;
}

static bool is_reduction(weft_named_kind kind)
{
    return kind == WEFT_NAMED_ALLREDUCE || kind == WEFT_NAMED_ADASUM || kind == WEFT_NAMED_REDUCE_SCATTER;
}

static struct description *description_new(size_t count)
{
    struct description *made = malloc(sizeof *made + count * sizeof *made->words);
    if (made) {
        made->references = 1;
        made->count = count;
    }
    return made;
}

weft_status description_of(const weft_named_call *call, struct description **description, struct error *error)
{
    size_t count = DESCRIPTION_HEADER;
    for (int i = 0; i < call->count; i++)
        count += 2 + (size_t)call->tensors[i].dimensions;
    struct description *made = description_new(count);
    if (!made)
        return error_memory(error, count * sizeof *made->words, "the description of an operation");
    const bool reduces = is_reduction(call->kind);
    int64_t *word = made->words;
    word[DESCRIPTION_KIND] = call->kind;
    word[DESCRIPTION_OP] = reduces && call->kind != WEFT_NAMED_ADASUM ? call->op : 0;
    word[DESCRIPTION_PRESCALE] = (int64_t)double_to_bits(reduces ? call->prescale : 1);
    word[DESCRIPTION_POSTSCALE] = (int64_t)double_to_bits(reduces ? call->postscale : 1);
    word[DESCRIPTION_ROOT] = call->kind == WEFT_NAMED_BROADCAST ? call->root : 0;
    word[DESCRIPTION_TENSORS] = call->count;
    word += DESCRIPTION_HEADER;
    for (int i = 0; i < call->count; i++) {
        const weft_tensor *tensor = &call->tensors[i];
        *word++ = tensor->type;
        *word++ = tensor->dimensions;
        for (int d = 0; d < tensor->dimensions; d++)
            *word++ = d == 0 && has_varying_rows(call->kind) ? -1 : tensor->shape[d];
    }
    *description = made;
    return WEFT_OK;
}

struct description *description_from(const int64_t *words, size_t count)
{
    struct description *made = description_new(count);
    if (made)
        memcpy(made->words, words, count * sizeof *words);
    return made;
}

bool description_is_whole(const int64_t *words, size_t count)
{
    if (count < DESCRIPTION_HEADER || words[DESCRIPTION_TENSORS] < 0 || words[DESCRIPTION_KIND] < 0 ||
        words[DESCRIPTION_KIND] >= WEFT_NAMED_KINDS)
        return false;
    size_t place = DESCRIPTION_HEADER;
    for (int64_t i = 0; i < words[DESCRIPTION_TENSORS]; i++) {
        if (count - place < 2 || words[place] < 0 || words[place] >= WEFT_TYPES || words[place + 1] < 0 ||
            (uint64_t)words[place + 1] > count - place - 2)
            return false;
        place += 2 + (size_t)words[place + 1];
    }
    return place == count;
}

struct description *description_keep(struct description *description)
{
    description->references++;
    return description;
}

void description_release(struct description *description)
{
    if (description && --description->references == 0)
        free(description);
}

bool description_equal(const struct description *one, const struct description *other)
{
    return one->count == other->count && memcmp(one->words, other->words, one->count * sizeof *one->words) == 0;
}

static const int64_t *tensor_at(const struct description *description, int index)
{
    const int64_t *word = description->words + DESCRIPTION_HEADER;
    for (int i = 0; i < index; i++)
        word += 2 + word[1];
    return word;
}

weft_type description_tensor(const struct description *description, int index, uint64_t *elements)
{
    const int64_t *word = tensor_at(description, index);
    *elements = 1;
    for (int64_t d = 0; d < word[1]; d++)
        *elements *= word[2 + d] < 0 ? 1 : (uint64_t)word[2 + d];
    return (weft_type)word[0];
}

void description_print(const struct description *description, struct buffer *text)
{
    const weft_named_kind kind = description_kind(description);
    const int64_t tensors = description->words[DESCRIPTION_TENSORS];
    buffer_put_string(text, weft_named_kind_name(kind));
    for (int i = 0; i < tensors && i < PRINTED_TENSORS; i++) {
        const int64_t *word = tensor_at(description, i);
        buffer_print(text, "%s%s [", i == 0 ? " of " : ", ", weft_type_name((weft_type)word[0]));
        for (int64_t d = 0; d < word[1]; d++)
            if (word[2 + d] < 0)
                buffer_print(text, "%s*", d ? ", " : "");
            else
                buffer_print(text, "%s%" PRId64, d ? ", " : "", word[2 + d]);
        buffer_put_string(text, "]");
    }
    if (tensors > PRINTED_TENSORS)
        buffer_print(text, " and %" PRId64 " more", tensors - PRINTED_TENSORS);
    if (kind == WEFT_NAMED_BROADCAST)
        buffer_print(text, " from root %" PRId64, description->words[DESCRIPTION_ROOT]);
    if (!is_reduction(kind))
        return;
    const double before = double_from_bits((uint64_t)description->words[DESCRIPTION_PRESCALE]),
                 after = double_from_bits((uint64_t)description->words[DESCRIPTION_POSTSCALE]);
    if (kind != WEFT_NAMED_ADASUM)
        buffer_print(text, " (%s)", weft_op_name((weft_op_kind)description->words[DESCRIPTION_OP]));
    if (before != 1)
        buffer_print(text, ", inputs times %.17g", before);
    if (after != 1)
        buffer_print(text, ", result times %.17g", after);
}

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What is ready runs: first the all-reduces, small ones of one type and operation joined in one buffer, then the others.
 * All ranks have the same list and so make the same calls.
 */
#include "core/collective/negotiation/internal/negotiator.h"

#include "base/float_bits.h"
#include "core/collective/communicator/context.h"

#include <stdlib.h>
#include <string.h>

weft_status negotiation_error(weft_negotiator *negotiator, weft_status status, struct error *error)
{
    return error_set(error, status, "%s", weft_message(negotiator->context));
}

/* ---- scaling ---- */

#define SCALE(type)                                                                                                    \
    for (uint64_t i = 0; i < count; i++)                                                                               \
    ((type *)target)[i] = (type)((double)((const type *)source)[i] * factor)

void execute_scale(weft_negotiator *negotiator, weft_type type, const void *source, void *target, uint64_t count,
                   double factor)
{
    const struct reduction_finish finish = {REDUCTION_FINISH_MULTIPLY, 1, factor};
    switch (type) {
    case WEFT_F32:
    case WEFT_F64:
    case WEFT_F16:
    case WEFT_BF16:
        reduction_tree(negotiator->reduction, type, WEFT_OP_SUM, &target, 1, &source, 1, count, &finish, false);
        break;
    case WEFT_I8:
        SCALE(int8_t);
        break;
    case WEFT_U8:
        SCALE(uint8_t);
        break;
    case WEFT_I32:
        SCALE(int32_t);
        break;
    case WEFT_U32:
        SCALE(uint32_t);
        break;
    case WEFT_I64:
        SCALE(int64_t);
        break;
    case WEFT_U64:
        SCALE(uint64_t);
        break;
    case WEFT_BOOL:
        break; /* is not scaled */
    }
}

static double prescale_of(const struct description *description)
{
    return double_from_bits((uint64_t)description->words[DESCRIPTION_PRESCALE]);
}

weft_op execute_op(const weft_negotiator *negotiator, const struct description *description, weft_type type,
                   double *factor)
{
    const weft_op_kind kind = (weft_op_kind)description->words[DESCRIPTION_OP];
    const double postscale = double_from_bits((uint64_t)description->words[DESCRIPTION_POSTSCALE]);
    *factor = 1;
    if (postscale != 1 && type <= WEFT_BF16 && kind == WEFT_OP_SUM)
        return WEFT_SCALED_SUM(postscale);
    if (postscale != 1 && type <= WEFT_BF16 && kind == WEFT_OP_AVERAGE)
        return WEFT_SCALED_SUM(postscale / negotiator->ranks);
    *factor = postscale;
    return (weft_op){kind, 1};
}

/* ---- memory ---- */

void *execute_memory(weft_negotiator *negotiator, size_t bytes, struct error *error)
{
    if (negotiator->fusion && bytes <= negotiator->fusion_room)
        return negotiator->fusion;
    weft_free(negotiator->context, negotiator->fusion);
    negotiator->fusion_room = 0;
    size_t room = 1 << 20;
    while (room < bytes)
        room *= 2;
    if (!(negotiator->fusion = weft_alloc(negotiator->context, room))) {
        error_set(error, WEFT_ERROR_MEMORY, "%s", weft_message(negotiator->context));
        return NULL;
    }
    negotiator->fusion_room = room;
    return negotiator->fusion;
}

/* ---- all-reduces ---- */

static void copy_in(weft_negotiator *negotiator, const struct ready_piece *piece, void *target)
{
    const double factor = prescale_of(piece->ready->description);
    if (piece->bytes == 0)
        return;
    if (!piece->input)
        memset(target, 0, piece->bytes);
    else if (factor != 1)
        execute_scale(negotiator, piece->type, piece->input, target, piece->count, factor);
    else if (piece->input != target)
        memcpy(target, piece->input, piece->bytes);
}

static weft_status reduce(weft_negotiator *negotiator, const struct description *description, const void *input,
                          void *output, uint64_t count, weft_type type, struct error *error)
{
    double factor;
    if (description_kind(description) == WEFT_NAMED_ADASUM) {
        if (input != output && count > 0)
            memcpy(output, input, count * weft_type_size(type));
        if (adasum_run(negotiator, output, count, type, error) != WEFT_OK)
            return error->status;
        factor = double_from_bits((uint64_t)description->words[DESCRIPTION_POSTSCALE]);
    } else {
        const weft_op op = execute_op(negotiator, description, type, &factor);
        const weft_status status = weft_allreduce(input, output, count, type, op, negotiator->comm);
        if (status != WEFT_OK)
            return negotiation_error(negotiator, status, error);
    }
    if (factor != 1)
        execute_scale(negotiator, type, output, output, count, factor);
    return WEFT_OK;
}

static void span(weft_negotiator *negotiator, const struct ready *ready, const char *prefix, const char *name,
                 uint64_t begin, uint64_t end)
{
    if (ready->operation && ready->operation->entry)
        timeline_span(&negotiator->timeline, ready->operation->entry->row, prefix, name, begin, end);
}

static void ready_end(weft_negotiator *negotiator, struct ready *ready, uint64_t begin, const struct error *error)
{
    span(negotiator, ready, "", weft_named_kind_name(description_kind(ready->description)), begin, clock_now());
    if (ready->operation)
        operation_end(ready->operation, error);
    ready->operation = NULL;
    description_release(ready->description);
    ready->description = NULL;
}

/* One of its tensors is done. */
static void piece_end(weft_negotiator *negotiator, const struct ready_piece *piece, uint64_t begin)
{
    weft_operation *operation = piece->ready->operation;
    if (operation && --operation->unfinished == 0)
        ready_end(negotiator, piece->ready, begin, NULL);
}

static weft_status run_alone(weft_negotiator *negotiator, const struct ready_piece *piece, struct error *error)
{
    const struct description *description = piece->ready->description;
    const uint64_t begin = clock_now();
    const void *input = piece->input;
    void *output = piece->output;
    if (!output && piece->bytes > 0 && !(output = execute_memory(negotiator, piece->bytes, error)))
        return error->status;
    if (!input || prescale_of(description) != 1) {
        copy_in(negotiator, piece, output);
        input = output;
    }
    if (reduce(negotiator, description, input, output, piece->count, piece->type, error) != WEFT_OK)
        return error->status;
    span(negotiator, piece->ready, "WEFT_", weft_named_kind_name(description_kind(description)), begin, clock_now());
    piece_end(negotiator, piece, begin);
    return WEFT_OK;
}

/* Whether the two may be one operation. */
static bool is_alike(const struct ready_piece *one, const struct ready_piece *other)
{
    const int64_t *a = one->ready->description->words, *b = other->ready->description->words;
    return one->type == other->type && a[DESCRIPTION_KIND] == b[DESCRIPTION_KIND] &&
           a[DESCRIPTION_OP] == b[DESCRIPTION_OP] && a[DESCRIPTION_PRESCALE] == b[DESCRIPTION_PRESCALE] &&
           a[DESCRIPTION_POSTSCALE] == b[DESCRIPTION_POSTSCALE];
}

static bool is_small(const weft_negotiator *negotiator, const struct ready_piece *piece)
{
    return piece->bytes <= negotiator->small_bytes &&
           description_kind(piece->ready->description) == WEFT_NAMED_ALLREDUCE;
}

/* Run pieces[chosen[0]] to pieces[chosen[count - 1]] as one all-reduce, in one buffer. */
static weft_status run_joined(weft_negotiator *negotiator, const size_t *chosen, size_t count, uint64_t bytes,
                              struct error *error)
{
    uint8_t *buffer = execute_memory(negotiator, bytes, error);
    if (!buffer)
        return error->status;
    const struct ready_piece *first = &negotiator->pieces[chosen[0]];
    const uint64_t begin = clock_now();
    uint64_t place = 0;
    for (size_t i = 0; i < count; i++) {
        copy_in(negotiator, &negotiator->pieces[chosen[i]], buffer + place);
        place += negotiator->pieces[chosen[i]].bytes;
    }
    const uint64_t copied = clock_now();
    if (reduce(negotiator, first->ready->description, buffer, buffer, bytes / weft_type_size(first->type), first->type,
               error) != WEFT_OK)
        return error->status;
    const uint64_t reduced = clock_now();
    place = 0;
    for (size_t i = 0; i < count; i++) {
        const struct ready_piece *piece = &negotiator->pieces[chosen[i]];
        if (piece->output && piece->bytes > 0)
            memcpy(piece->output, buffer + place, piece->bytes);
        place += piece->bytes;
    }
    const uint64_t end = clock_now();
    for (size_t i = 0; i < count; i++) {
        const struct ready_piece *piece = &negotiator->pieces[chosen[i]];
        span(negotiator, piece->ready, "", "memcpy_in_fusion_buffer", begin, copied);
        span(negotiator, piece->ready, "", "weft_allreduce", copied, reduced);
        span(negotiator, piece->ready, "", "memcpy_out_fusion_buffer", reduced, end);
        piece_end(negotiator, piece, begin);
    }
    return WEFT_OK;
}

static weft_status run_pieces(weft_negotiator *negotiator, size_t *chosen, struct error *error)
{
    for (size_t i = 0; i < negotiator->piece_count; i++) {
        struct ready_piece *piece = &negotiator->pieces[i];
        if (piece->taken)
            continue;
        size_t count = 0;
        uint64_t bytes = 0;
        for (size_t j = i; is_small(negotiator, piece) && j < negotiator->piece_count; j++) {
            struct ready_piece *other = &negotiator->pieces[j];
            if (other->taken || !is_small(negotiator, other) || !is_alike(piece, other) ||
                (count > 0 && bytes + other->bytes > negotiator->config.fusion_bytes))
                continue;
            chosen[count++] = j;
            bytes += other->bytes;
            other->taken = true;
        }
        if (count > 1 ? run_joined(negotiator, chosen, count, bytes, error) != WEFT_OK
                      : run_alone(negotiator, piece, error) != WEFT_OK)
            return error->status;
    }
    return WEFT_OK;
}

static weft_status add_ready_pieces(weft_negotiator *negotiator, struct ready *ready, struct error *error)
{
    const size_t count = (size_t)ready->description->words[DESCRIPTION_TENSORS];
    if (ARRAY_RESERVE(negotiator->pieces, negotiator->piece_room, negotiator->piece_count + count, "tensors", error) !=
        WEFT_OK)
        return error->status;
    if (ready->operation)
        ready->operation->unfinished = (int)count;
    for (size_t i = 0; i < count; i++) {
        struct ready_piece *piece = &negotiator->pieces[negotiator->piece_count++];
        *piece = (struct ready_piece){.ready = ready};
        piece->type = description_tensor(ready->description, (int)i, &piece->count);
        piece->bytes = piece->count * weft_type_size(piece->type);
        if (ready->operation) {
            piece->input = ready->operation->tensors[i].input;
            piece->output = ready->operation->tensors[i].output;
        }
    }
    return WEFT_OK;
}

/* ---- the list ---- */

static bool is_allreduce(const struct ready *ready)
{
    const weft_named_kind kind = description_kind(ready->description);
    return kind == WEFT_NAMED_ALLREDUCE || kind == WEFT_NAMED_ADASUM;
}

/* While ranks have joined, only all-reduces have a meaning. True: the operation has ended with an error. */
static bool refuse_after_join(weft_negotiator *negotiator, struct ready *ready)
{
    const weft_named_kind kind = description_kind(ready->description);
    if (ready->joined == 0 || kind == WEFT_NAMED_ALLREDUCE)
        return false;
    struct error error = {0};
    error_set(&error, WEFT_ERROR_STATE,
              "%s '%s' cannot run, because rank %d has joined: until all ranks have, only all-reduces run",
              weft_named_kind_name(kind), ready->operation ? ready->operation->entry->name : "",
              negotiator->last_joined);
    ready_end(negotiator, ready, clock_now(), &error);
    return true;
}

static void begin_spans(weft_negotiator *negotiator)
{
    const uint64_t now = clock_now();
    if (!negotiator->timeline.file)
        return;
    for (size_t i = 0; i < negotiator->ready_count; i++) {
        const struct ready *ready = &negotiator->ready[i];
        const weft_operation *operation = ready->operation;
        if (!operation)
            continue;
        if (operation->entry->row <= negotiator->timeline.first_row)
            operation->entry->row = timeline_row(&negotiator->timeline, operation->entry->name);
        span(negotiator, ready, "NEGOTIATE_", weft_named_kind_name(description_kind(ready->description)),
             operation->submitted, now);
    }
}

weft_status execute_ready(weft_negotiator *negotiator, struct error *error)
{
    begin_spans(negotiator);
    negotiator->piece_count = 0;
    for (size_t i = 0; i < negotiator->ready_count; i++) {
        struct ready *ready = &negotiator->ready[i];
        if (!refuse_after_join(negotiator, ready) && is_allreduce(ready) &&
            add_ready_pieces(negotiator, ready, error) != WEFT_OK)
            return error->status;
    }
    if (negotiator->piece_count > 0) {
        size_t *chosen = malloc(negotiator->piece_count * sizeof *chosen);
        if (!chosen)
            return error_memory(error, negotiator->piece_count * sizeof *chosen, "tensors");
        const weft_status status = run_pieces(negotiator, chosen, error);
        free(chosen);
        if (status != WEFT_OK)
            return status;
    }
    for (size_t i = 0; i < negotiator->ready_count; i++) {
        struct ready *ready = &negotiator->ready[i];
        if (!ready->description || is_allreduce(ready)) /* of a rank that has joined */
            continue;
        const uint64_t begin = clock_now();
        if (movement_run(negotiator, ready->operation, error) != WEFT_OK)
            return error->status;
        ready_end(negotiator, ready, begin, NULL);
    }
    for (size_t i = 0; i < negotiator->ready_count; i++) {
        description_release(negotiator->ready[i].description);
        negotiator->ready[i].description = NULL;
    }
    return WEFT_OK;
}

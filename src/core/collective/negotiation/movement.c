/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The operations that move rows: all-gather and all-to-all, whose ranks first tell each other how many rows there are,
 * broadcast, reduce-scatter with rows that do not divide evenly, and the barrier.
 */
#include "core/collective/negotiation/internal/negotiator.h"

#include "base/float_bits.h"

#include <stdlib.h>
#include <string.h>

static uint64_t row_elements(const weft_tensor *tensor)
{
    uint64_t elements = 1;
    for (int d = 1; d < tensor->dimensions; d++)
        elements *= (uint64_t)tensor->shape[d];
    return elements;
}

static uint64_t tensor_elements(const weft_tensor *tensor)
{
    return tensor->dimensions == 0 ? 1 : (uint64_t)tensor->shape[0] * row_elements(tensor);
}

/* memcpy() of `bytes`, which may be 0 with addresses that are NULL. */
static void copy_rows(void *target, const void *source, size_t bytes)
{
    if (bytes > 0)
        memcpy(target, source, bytes);
}

static weft_status call(weft_negotiator *negotiator, weft_status status, struct error *error)
{
    return status == WEFT_OK ? WEFT_OK : negotiation_error(negotiator, status, error);
}

/* Memory for rows[0..ranks - 1] rows of `row` elements; counts[r] becomes the elements of rank r. */
static weft_status make_result(weft_negotiator *negotiator, struct operation_result *result, uint64_t row,
                               weft_type type, size_t *counts, struct error *error)
{
    uint64_t elements = 0;
    for (int r = 0; r < negotiator->ranks; r++) {
        counts[r] = (uint64_t)result->rows[r] * row;
        elements += counts[r];
    }
    const size_t bytes = elements * weft_type_size(type);
    result->data = malloc(bytes + 1);
    return result->data ? WEFT_OK : error_memory(error, bytes, "the result of an operation");
}

static weft_status results_make(weft_negotiator *negotiator, weft_operation *operation, struct error *error)
{
    operation->results = calloc((size_t)operation->count, sizeof *operation->results);
    for (int i = 0; operation->results && i < operation->count; i++)
        if (!(operation->results[i].rows = calloc((size_t)negotiator->ranks, sizeof(int64_t))))
            return error_memory(error, (size_t)negotiator->ranks * 8, "numbers of rows");
    return operation->results ? WEFT_OK
                              : error_memory(error, (size_t)operation->count * sizeof *operation->results, "results");
}

static weft_status gather(weft_negotiator *negotiator, weft_operation *operation, int64_t *own, int64_t *all,
                          size_t *counts, struct error *error)
{
    const int tensors = operation->count;
    for (int i = 0; i < tensors; i++)
        own[i] = operation->tensors[i].shape[0];
    if (call(negotiator, weft_allgather(own, all, (size_t)tensors, WEFT_I64, negotiator->comm), error) != WEFT_OK)
        return error->status;
    for (int i = 0; i < tensors; i++) {
        const weft_tensor *tensor = &operation->tensors[i];
        struct operation_result *result = &operation->results[i];
        for (int r = 0; r < negotiator->ranks; r++)
            result->rows[r] = all[(size_t)r * (size_t)tensors + (size_t)i];
        if (make_result(negotiator, result, row_elements(tensor), tensor->type, counts, error) != WEFT_OK ||
            call(negotiator, weft_allgatherv(tensor->input, result->data, counts, NULL, tensor->type, negotiator->comm),
                 error) != WEFT_OK)
            return error->status;
    }
    return WEFT_OK;
}

static weft_status allgather(weft_negotiator *negotiator, weft_operation *operation, struct error *error)
{
    const size_t tensors = (size_t)operation->count, ranks = (size_t)negotiator->ranks;
    if (results_make(negotiator, operation, error) != WEFT_OK)
        return error->status;
    int64_t *own = malloc(tensors * sizeof *own), *all = malloc(tensors * ranks * sizeof *all);
    size_t *counts = malloc(ranks * sizeof *counts);
    if (own && all && counts)
        gather(negotiator, operation, own, all, counts, error);
    else
        error_memory(error, tensors * ranks * sizeof *all, "numbers of rows");
    free(own);
    free(all);
    free(counts);
    return error->status;
}

static weft_status exchange(weft_negotiator *negotiator, weft_operation *operation, int64_t *splits, size_t *sent,
                            size_t *received, struct error *error)
{
    const weft_tensor *tensor = operation->tensors;
    struct operation_result *result = operation->results;
    const uint64_t row = row_elements(tensor);
    for (int r = 0; r < negotiator->ranks; r++) {
        splits[r] = operation->splits ? operation->splits[r] : tensor->shape[0] / negotiator->ranks;
        sent[r] = (uint64_t)splits[r] * row;
    }
    if (call(negotiator, weft_alltoall(splits, result->rows, 1, WEFT_I64, negotiator->comm), error) != WEFT_OK ||
        make_result(negotiator, result, row, tensor->type, received, error) != WEFT_OK)
        return error->status;
    return call(negotiator,
                weft_alltoallv(tensor->input, sent, NULL, result->data, received, NULL, tensor->type, negotiator->comm),
                error);
}

static weft_status alltoall(weft_negotiator *negotiator, weft_operation *operation, struct error *error)
{
    const size_t ranks = (size_t)negotiator->ranks;
    if (results_make(negotiator, operation, error) != WEFT_OK)
        return error->status;
    int64_t *splits = malloc(ranks * sizeof *splits);
    size_t *sent = malloc(ranks * sizeof *sent), *received = malloc(ranks * sizeof *received);
    if (splits && sent && received)
        exchange(negotiator, operation, splits, sent, received, error);
    else
        error_memory(error, ranks * 24, "numbers of rows");
    free(splits);
    free(sent);
    free(received);
    return error->status;
}

static weft_status broadcast_rows(weft_negotiator *negotiator, const weft_operation *operation, struct error *error)
{
    const int root = (int)operation->description->words[DESCRIPTION_ROOT];
    for (int i = 0; i < operation->count; i++) {
        const weft_tensor *tensor = &operation->tensors[i];
        const uint64_t elements = tensor_elements(tensor);
        if (negotiator->rank == root && tensor->output != tensor->input)
            copy_rows(tensor->output, tensor->input, elements * weft_type_size(tensor->type));
        if (call(negotiator, weft_broadcast(tensor->output, elements, tensor->type, root, negotiator->comm), error) !=
            WEFT_OK)
            return error->status;
    }
    return WEFT_OK;
}

/* Blocks of equal size: the last row is empty at ranks that have one row less. */
static weft_status scatter_unevenly(weft_negotiator *negotiator, const weft_operation *operation,
                                    const weft_tensor *tensor, weft_op op, double prescale, struct error *error)
{
    const uint64_t ranks = (uint64_t)negotiator->ranks, rows = (uint64_t)tensor->shape[0],
                   bytes = row_elements(tensor) * weft_type_size(tensor->type), block = (rows + ranks - 1) / ranks;
    uint8_t *memory = execute_memory(negotiator, ranks * block * bytes, error);
    const uint8_t *source = tensor->input;
    if (!memory)
        return error->status;
    for (uint64_t r = 0; r < ranks; r++) {
        const uint64_t size = (rows / ranks + (r < rows % ranks)) * bytes;
        copy_rows(memory + r * block * bytes, source, size);
        memset(memory + r * block * bytes + size, 0, block * bytes - size);
        source += size;
    }
    const uint64_t elements = block * row_elements(tensor), rank = (uint64_t)negotiator->rank;
    if (prescale != 1)
        execute_scale(negotiator, tensor->type, memory, memory, ranks * elements, prescale);
    uint8_t *own = memory + rank * block * bytes;
    const weft_status status = weft_reduce_scatter(memory, own, elements, tensor->type, op, negotiator->comm);
    if (call(negotiator, status, error) != WEFT_OK)
        return error->status;
    copy_rows(tensor->output, own, (rows / ranks + (rank < rows % ranks)) * bytes);
    return WEFT_OK;
}

static weft_status reduce_scatter(weft_negotiator *negotiator, const weft_operation *operation, struct error *error)
{
    const double prescale = double_from_bits((uint64_t)operation->description->words[DESCRIPTION_PRESCALE]);
    const int64_t ranks = negotiator->ranks;
    for (int i = 0; i < operation->count; i++) {
        const weft_tensor *tensor = &operation->tensors[i];
        const uint64_t row = row_elements(tensor);
        const int64_t rows = tensor->shape[0], own = rows / ranks + (negotiator->rank < rows % ranks);
        double factor;
        const weft_op op = execute_op(negotiator, operation->description, tensor->type, &factor);
        weft_status status;
        if (rows % ranks == 0 && prescale == 1)
            status = call(negotiator,
                          weft_reduce_scatter(tensor->input, tensor->output, (uint64_t)own * row, tensor->type, op,
                                              negotiator->comm),
                          error);
        else
            status = scatter_unevenly(negotiator, operation, tensor, op, prescale, error);
        if (status != WEFT_OK)
            return status;
        if (factor != 1)
            execute_scale(negotiator, tensor->type, tensor->output, tensor->output, (uint64_t)own * row, factor);
    }
    return WEFT_OK;
}

weft_status movement_run(weft_negotiator *negotiator, weft_operation *operation, struct error *error)
{
    switch (description_kind(operation->description)) {
    case WEFT_NAMED_ALLGATHER:
        return allgather(negotiator, operation, error);
    case WEFT_NAMED_ALLTOALL:
        return alltoall(negotiator, operation, error);
    case WEFT_NAMED_BROADCAST:
        return broadcast_rows(negotiator, operation, error);
    case WEFT_NAMED_REDUCE_SCATTER:
        return reduce_scatter(negotiator, operation, error);
    case WEFT_NAMED_BARRIER:
        return call(negotiator, weft_barrier(negotiator->comm), error);
    case WEFT_NAMED_ALLREDUCE:
    case WEFT_NAMED_ADASUM:
    case WEFT_NAMED_JOIN:
        break;
    }
    return WEFT_OK;
}

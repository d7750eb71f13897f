/* SPDX-License-Identifier: Apache-2.0 */
#include "core/collective/call.h"

#include <inttypes.h>
#include <stdio.h>

/* ---- sizes ---- */

/* The extent of a caller's buffer. */
struct collective_call_extent {
    uintptr_t first, end;
};

static struct collective_call_extent extent_of(const void *buffer, uint64_t bytes)
{
    return (struct collective_call_extent){(uintptr_t)buffer, (uintptr_t)buffer + bytes};
}

static bool call_overlaps(struct collective_call_extent a, struct collective_call_extent b)
{
    return a.first < b.end && b.first < a.end;
}

/* The blocks of a rank's input and output, as in a schedule. */
static void blocks_of(const struct call *call, uint32_t rank, uint32_t ranks, uint64_t *input, uint64_t *output)
{
    bool root = rank == call->root;
    *input = *output = 1;
    switch (call->collective) {
    case COLLECTIVE_REDUCE_SCATTER:
        *input = ranks;
        break;
    case COLLECTIVE_ALLGATHER:
        *output = ranks;
        break;
    case COLLECTIVE_REDUCE:
        *output = root;
        break;
    case COLLECTIVE_EXSCAN:
        *output = rank > 0;
        break;
    case COLLECTIVE_ALLTOALL:
        *input = *output = ranks;
        break;
    case COLLECTIVE_GATHER:
        *output = root ? ranks : 0;
        break;
    case COLLECTIVE_SCATTER:
        *input = root ? ranks : 0;
        break;
    case COLLECTIVE_BARRIER:
        *input = *output = 0;
        break;
    case COLLECTIVE_SENDRECEIVE:
        *input = root;
        *output = rank == call->peer;
        break;
    default:
        break;
    }
}

static weft_status check_total(const struct call *call, uint64_t blocks, uint64_t *bytes, struct error *error)
{
    uint64_t elements;
    if (__builtin_mul_overflow(call->count, blocks, &elements) ||
        __builtin_mul_overflow(elements, weft_type_size(call->type), bytes) || *bytes > PTRDIFF_MAX)
        return error_set(error, WEFT_ERROR_ARGUMENT,
                         "%s of count %" PRIu64 " overflows: %" PRIu64
                         " blocks of so many %s are more bytes than memory "
                         "can have",
                         collective_name(call->collective), call->count, blocks, weft_type_name(call->type));
    return WEFT_OK;
}

static weft_status check_buffer(const struct call *call, const void *buffer, uint64_t bytes, const char *which,
                                struct error *error)
{
    if (bytes && !buffer)
        return error_set(error, WEFT_ERROR_ARGUMENT, "%s was given NULL as its %s, which has %" PRIu64 " bytes",
                         collective_name(call->collective), which, bytes);
    return WEFT_OK;
}

/* The permitted overlap: the offset of the smaller buffer within the larger when the call is in place. */
static bool is_in_place(const struct call *call, uint32_t rank, uint64_t block_bytes)
{
    const char *input = call->input, *output = call->output;
    switch (call->collective) {
    case COLLECTIVE_ALLREDUCE:
    case COLLECTIVE_REDUCE:
    case COLLECTIVE_SCAN:
    case COLLECTIVE_EXSCAN:
    case COLLECTIVE_ALLTOALL:
    case COLLECTIVE_BROADCAST:
        return input == output;
    case COLLECTIVE_REDUCE_SCATTER:
        return output == input + rank * block_bytes;
    case COLLECTIVE_SCATTER:
        return output == input + call->root * block_bytes;
    case COLLECTIVE_ALLGATHER:
        return input == output + rank * block_bytes;
    case COLLECTIVE_GATHER:
        return input == output + call->root * block_bytes;
    default:
        return false;
    }
}

static weft_status overlap(const struct call *call, struct error *error)
{
    return error_set(
        error, WEFT_ERROR_ARGUMENT,
        "the input and the output of %s overlap, but not in the way that counts as \"in place\" (see weft.h)",
        collective_name(call->collective));
}

static weft_status check_uniform(const struct call *call, uint32_t rank, uint32_t ranks, struct error *error)
{
    uint64_t input_blocks, output_blocks, input_bytes, output_bytes, most;
    blocks_of(call, rank, ranks, &input_blocks, &output_blocks);
    weft_status status = check_total(call, ranks, &most, error);
    if (status != WEFT_OK)
        return status;
    input_bytes = input_blocks * call->count * weft_type_size(call->type);
    output_bytes = output_blocks * call->count * weft_type_size(call->type);
    status = input_blocks ? check_buffer(call, call->input, input_bytes, "input", error) : WEFT_OK;
    if (status == WEFT_OK && output_blocks)
        status = check_buffer(call, call->output, output_bytes, "output", error);
    if (status != WEFT_OK || !input_bytes || !output_bytes)
        return status;
    if (call_overlaps(extent_of(call->input, input_bytes), extent_of(call->output, output_bytes)) &&
        !is_in_place(call, rank, call->count * weft_type_size(call->type)))
        return overlap(call, error);
    return WEFT_OK;
}

/* ---- sizes in the v-forms ---- */

static weft_status check_vector(const struct call *call, const size_t *counts, const size_t *displacements,
                                uint32_t ranks, const char *which, uint64_t *bytes, struct error *error)
{
    uint64_t packed = 0, end = 0, size = weft_type_size(call->type);
    if (!counts)
        return error_set(error, WEFT_ERROR_ARGUMENT, "%s was given NULL as the counts of its %s",
                         collective_name(call->collective), which);
    for (uint32_t i = 0; i < ranks; i++) {
        uint64_t last;
        if (__builtin_add_overflow(displacements ? displacements[i] : packed, counts[i], &last) ||
            last > PTRDIFF_MAX / size)
            return error_set(error, WEFT_ERROR_ARGUMENT,
                             "block %u of the %s of %s overflows: %zu elements of %s at %" PRIu64, i, which,
                             collective_name(call->collective), counts[i], weft_type_name(call->type),
                             displacements ? (uint64_t)displacements[i] : packed);
        packed += counts[i];
        if (counts[i] && last > end)
            end = last;
    }
    *bytes = end * size;
    return WEFT_OK;
}

/* A rank of a gatherv or scatterv that is not the root gives, or gets, one block: only its own count is used. */
static weft_status check_own_block(const struct call *call, uint32_t rank, struct error *error)
{
    const bool gets = call->collective == COLLECTIVE_SCATTERV;
    const size_t *counts = gets ? call->vectors->input_counts : call->vectors->output_counts;
    uint64_t bytes = 0;
    size_t displacement = 0;
    weft_status status = counts ? WEFT_OK : check_vector(call, NULL, NULL, 0, gets ? "input" : "output", &bytes, error);
    if (status == WEFT_OK)
        status = check_vector(call, &counts[rank], &displacement, 1, gets ? "output" : "input", &bytes, error);
    if (status != WEFT_OK)
        return status;
    return check_buffer(call, gets ? call->output : call->input, bytes, gets ? "output" : "input", error);
}

/* Whether both sides of an alltoallv have the same blocks. */
static bool are_same_blocks(const struct call_vectors *vectors, uint32_t ranks)
{
    uint64_t packed = 0;
    for (uint32_t i = 0; i < ranks; packed += vectors->input_counts[i++]) {
        const uint64_t from = vectors->input_displacements ? vectors->input_displacements[i] : packed;
        const uint64_t to = vectors->output_displacements ? vectors->output_displacements[i] : packed;
        if (vectors->input_counts[i] != vectors->output_counts[i] || (vectors->input_counts[i] && from != to))
            return false;
    }
    return true;
}

/* Whether what overlaps is the one buffer of a call in place. Of an alltoallv both sides must be the same. */
static bool vectors_are_in_place(const struct call *call, uint32_t rank, uint32_t ranks)
{
    const struct call_vectors *vectors = call->vectors;
    const char *larger = call->output, *smaller = call->input;
    if (call->collective == COLLECTIVE_ALLTOALLV)
        return larger == smaller && are_same_blocks(vectors, ranks);
    const size_t *counts = vectors->output_counts, *displacements = vectors->output_displacements;
    if (call->collective == COLLECTIVE_SCATTERV) {
        counts = vectors->input_counts;
        displacements = vectors->input_displacements;
        larger = call->input;
        smaller = call->output;
    }
    uint64_t own = displacements ? displacements[rank] : 0;
    for (uint32_t i = 0; !displacements && i < rank; i++)
        own += counts[i];
    return smaller == larger + own * weft_type_size(call->type);
}

static weft_status check_vectors(const struct call *call, uint32_t rank, uint32_t ranks, struct error *error)
{
    const struct call_vectors *vectors = call->vectors;
    const bool scatters = call->collective == COLLECTIVE_SCATTERV, exchanges = call->collective == COLLECTIVE_ALLTOALLV;
    uint64_t input_bytes = 0, output_bytes = 0, size = weft_type_size(call->type);
    weft_status status = WEFT_OK;
    if (collective_is_rooted(call->collective) && rank != call->root)
        return check_own_block(call, rank, error);
    if (!scatters)
        status = check_vector(call, vectors->output_counts, vectors->output_displacements, ranks, "output",
                              &output_bytes, error);
    if (status == WEFT_OK && (scatters || exchanges))
        status = check_vector(call, vectors->input_counts, vectors->input_displacements, ranks, "input", &input_bytes,
                              error);
    if (status != WEFT_OK)
        return status;
    if (scatters)
        output_bytes = vectors->input_counts[rank] * size;
    else if (!exchanges)
        input_bytes = vectors->output_counts[rank] * size;
    if (exchanges && vectors->input_counts[rank] != vectors->output_counts[rank])
        status = error_set(error, WEFT_ERROR_ARGUMENT,
                           "rank %u of alltoallv sends %zu elements to itself but receives %zu from itself", rank,
                           vectors->input_counts[rank], vectors->output_counts[rank]);
    if (status == WEFT_OK)
        status = check_buffer(call, call->input, input_bytes, "input", error);
    if (status == WEFT_OK && output_bytes)
        status = check_buffer(call, call->output, output_bytes, "output", error);
    if (status != WEFT_OK || !input_bytes || !output_bytes ||
        !call_overlaps(extent_of(call->input, input_bytes), extent_of(call->output, output_bytes)) ||
        vectors_are_in_place(call, rank, ranks))
        return status;
    return overlap(call, error);
}

/* The types that an operation is for, unless `type` is one of them: then NULL. */
static const char *types_of_op(weft_op_kind kind, weft_type type)
{
    const bool is_float = type <= WEFT_BF16;
    if (kind == WEFT_OP_SCALED_SUM)
        return is_float ? NULL : "floating-point types";
    if (kind >= WEFT_OP_BITWISE_AND)
        return is_float ? "integers and bool" : NULL;
    return type == WEFT_BOOL && kind != WEFT_OP_MIN && kind != WEFT_OP_MAX ? "numbers" : NULL;
}

weft_status call_check(const struct call *call, uint32_t rank, uint32_t ranks, struct error *error)
{
    const char *name = collective_name(call->collective);
    if ((unsigned)call->type >= WEFT_TYPES)
        return error_set(error, WEFT_ERROR_ARGUMENT, "%s was given %d as its type, which is not a weft_type", name,
                         (int)call->type);
    if (collective_reduces(call->collective)) {
        if ((unsigned)call->op.kind >= WEFT_OP_KINDS)
            return error_set(error, WEFT_ERROR_ARGUMENT, "%s was given %d as its op, which is not a weft_op_kind", name,
                             (int)call->op.kind);
        const char *types = types_of_op(call->op.kind, call->type);
        if (collective_is_prefix(call->collective) && call->op.kind == WEFT_OP_AVERAGE)
            return error_set(error, WEFT_ERROR_ARGUMENT,
                             "%s was given the op average; its sums are over different numbers of ranks: use sum, and "
                             "divide",
                             name);
        if (types)
            return error_set(error, WEFT_ERROR_ARGUMENT, "%s was given the op %s with type %s; it is for %s only", name,
                             weft_op_name(call->op.kind), weft_type_name(call->type), types);
    }
    if (collective_is_rooted(call->collective) && call->root >= ranks)
        return error_set(error, WEFT_ERROR_ARGUMENT, "%s was given root %d; the communicator has ranks 0 to %u", name,
                         (int)call->root, ranks - 1);
    if (call->collective == COLLECTIVE_SENDRECEIVE) {
        bool sends = call->root == rank;
        uint32_t other = sends ? call->peer : call->root;
        if (other >= ranks)
            return error_set(error, WEFT_ERROR_ARGUMENT, "%s was given peer %d; the communicator has ranks 0 to %u",
                             sends ? "send" : "receive", (int)other, ranks - 1);
        if (call->peer == call->root)
            return error_set(error, WEFT_ERROR_ARGUMENT,
                             "rank %u cannot send to or receive from itself; copy the memory instead", rank);
    }
    return collective_is_vector(call->collective) ? check_vectors(call, rank, ranks, error)
                                                  : check_uniform(call, rank, ranks, error);
}

uint64_t call_block_bytes(const struct call *call, uint32_t ranks)
{
    uint64_t count = call->count;
    if (call->collective == COLLECTIVE_ALLGATHERV)
        for (uint32_t i = 0; i < ranks; i++)
            if (call->vectors->output_counts[i] > count)
                count = call->vectors->output_counts[i];
    return count * weft_type_size(call->type);
}

uint64_t call_given_count(const struct call *call, uint32_t rank, uint32_t ranks)
{
    if (call->subset)
        return call->subset->members;
    uint64_t count = 0;
    if (call->collective != COLLECTIVE_ALLTOALLV)
        return (call->collective == COLLECTIVE_SCATTERV ? call->vectors->input_counts
                                                        : call->vectors->output_counts)[rank];
    for (uint32_t i = 0; i < ranks; i++)
        count += call->vectors->input_counts[i];
    return count;
}

bool call_exchanges_in_place(const struct call *call)
{
    return call->collective == COLLECTIVE_ALLTOALLV && call->input && call->input == call->output;
}

/* ---- for people ---- */

const char *call_name(uint8_t code)
{
    static const char *const names[CALL_PURPOSES] = {
        [CALL_COLLECTIVE] = "unknown", [CALL_SPLIT] = "split", [CALL_DUPLICATE] = "duplicate",
        [CALL_SUBSET] = "subset",      [CALL_FREE] = "free",   [CALL_FINALIZE] = "finalize"};
    if (code < COLLECTIVES || code >= COLLECTIVES + CALL_PURPOSES)
        return collective_name((enum collective)code);
    return names[code - COLLECTIVES];
}

char *call_describe(const struct operation_entry *entry, char *text, size_t size)
{
    enum collective collective = entry->collective;
    const char *type = weft_type_name((weft_type)entry->type);
    const char *count = !collective_is_vector(collective)    ? "count"
                        : collective == COLLECTIVE_ALLTOALLV ? "total sent"
                                                             : "own count";
    if ((unsigned)collective >= COLLECTIVES)
        snprintf(text, size, "%s()", call_name(entry->collective));
    else if (collective == COLLECTIVE_BARRIER)
        snprintf(text, size, "barrier()");
    else if (collective == COLLECTIVE_SENDRECEIVE)
        snprintf(text, size, "%s(count %" PRIu64 ", %s, %s rank %u)", entry->op == MESSAGE_SENT ? "send" : "receive",
                 entry->count, type, entry->op == MESSAGE_SENT ? "to" : "from", entry->root);
    else if (collective == COLLECTIVE_REDUCE)
        snprintf(text, size, "reduce(count %" PRIu64 ", %s, %s, root %u)", entry->count, type,
                 weft_op_name((weft_op_kind)entry->op), entry->root);
    else if (collective_reduces(collective))
        snprintf(text, size, "%s(count %" PRIu64 ", %s, %s)", collective_name(collective), entry->count, type,
                 weft_op_name((weft_op_kind)entry->op));
    else if (collective_is_rooted(collective))
        snprintf(text, size, "%s(%s %" PRIu64 ", %s, root %u)", collective_name(collective), count, entry->count, type,
                 entry->root);
    else
        snprintf(text, size, "%s(%s %" PRIu64 ", %s)", collective_name(collective), count, entry->count, type);
    return text;
}

/* SPDX-License-Identifier: Apache-2.0 */
#include "training/parallel/internal/tensor_names.h"

#include "base/library_error.h"
#include "base/sha256.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define RANKS_NAMED 8

/* "rank 3", "ranks 1 and 2", "ranks 0, 1, ... and 5 more", of those with the given mark. */
static void name_ranks(const uint8_t *marks, int ranks, uint8_t mark, char *text, size_t size)
{
    int count = 0, named = 0;
    size_t length;
    for (int r = 0; r < ranks; r++)
        count += marks[r] == mark;
    length = (size_t)snprintf(text, size, count == 1 ? "rank" : "ranks");
    const int most = count > RANKS_NAMED ? RANKS_NAMED - 1 : count;
    for (int r = 0; r < ranks && named < most; r++) {
        if (marks[r] != mark)
            continue;
        const char *before = named == 0 ? " " : named + 1 == count ? " and " : ", ";
        length += (size_t)snprintf(text + length, size - length, "%s%d", before, r);
        named++;
    }
    if (named < count)
        snprintf(text + length, size - length, " and %d more", count - named);
}

#define RANKS_TEXT 160

/* ---- registrations of all ranks ---- */

/* All ranks' lists, one after the other. */
struct registered_lists {
    int ranks;
    uint64_t *counts;
    struct model_parameter *parameters;
    const struct model_parameter ***sorted; /* of each rank, by name */
    uint8_t *marks;                         /* of each rank */
};

static int compare_tensor_names(const void *first, const void *second)
{
    const struct model_parameter *const *a = first, *const *b = second;
    return strcmp((*a)->name, (*b)->name);
}

static const struct model_parameter *tensor_names_find(const struct registered_lists *lists, int rank,
                                                       const struct model_parameter *wanted)
{
    const struct model_parameter **found =
        bsearch(&wanted, lists->sorted[rank], lists->counts[rank], sizeof *lists->sorted[rank], compare_tensor_names);
    return found ? *found : NULL;
}

/* Shape, and every setting that is not the default. */
static void tensor_names_describe(const struct model_parameter *tensor, char *text, size_t size)
{
    size_t length = (size_t)snprintf(text, size, "[%zu", tensor->shape[0]);
    for (size_t d = 1; d < tensor->dimensions; d++)
        length += (size_t)snprintf(text + length, size - length, ", %zu", tensor->shape[d]);
    length += (size_t)snprintf(text + length, size - length, "]%s%s", tensor->decay ? "" : " without weight decay",
                               tensor->frozen ? ", frozen" : "");
    if (tensor->rate_factor != 1)
        snprintf(text + length, size - length, " at %g times the learning rate", tensor->rate_factor);
}

/* Check that every rank has the tensor that rank `owner` has registered, with the same shape and settings. */
static weft_status tensor_names_check_tensor(const struct registered_lists *lists, int owner,
                                             const struct model_parameter *tensor, struct error *error)
{
    char names[RANKS_TEXT], here[240], there[240];
    bool lacks = false;
    for (int r = 0; r < lists->ranks; r++)
        lacks |= lists->marks[r] = !tensor_names_find(lists, r, tensor);
    if (lacks) {
        name_ranks(lists->marks, lists->ranks, 1, names, sizeof names);
        return error_set(error, WEFT_ERROR_MISMATCH,
                         "the parameter '%s' was not registered on %s, but on rank %d; every rank must register the "
                         "same parameters",
                         tensor->name, names, owner);
    }
    for (int r = 0; r < lists->ranks; r++) {
        const struct model_parameter *other = tensor_names_find(lists, r, tensor);
        if (memcmp(other, tensor, sizeof *tensor) == 0)
            continue;
        tensor_names_describe(tensor, here, sizeof here);
        tensor_names_describe(other, there, sizeof there);
        return error_set(error, WEFT_ERROR_MISMATCH,
                         "the parameter '%s' is %s on rank %d, but %s on rank %d; they must be the same", tensor->name,
                         here, owner, there, r);
    }
    return WEFT_OK;
}

static weft_status check_lists(struct registered_lists *lists, struct error *error)
{
    weft_status status = WEFT_OK;
    const struct model_parameter *parameter = lists->parameters;
    for (int r = 0; r < lists->ranks; r++)
        for (uint64_t i = 0; i < lists->counts[r] && status == WEFT_OK; i++)
            status = tensor_names_check_tensor(lists, r, parameter++, error);
    return status;
}

static void lists_close(struct registered_lists *lists)
{
    for (int r = 0; lists->sorted && r < lists->ranks; r++)
        free((void *)lists->sorted[r]);
    free((void *)lists->sorted);
    free(lists->parameters);
    free(lists->marks);
}

/* Allocate and sort each rank's list; false without memory. */
static bool lists_open(struct registered_lists *lists, uint64_t total)
{
    lists->parameters = calloc(total + 1, sizeof *lists->parameters);
    lists->marks = calloc((size_t)lists->ranks, 1);
    lists->sorted = calloc((size_t)lists->ranks, sizeof *lists->sorted);
    if (!lists->parameters || !lists->marks || !lists->sorted)
        return false;
    for (int r = 0; r < lists->ranks; r++)
        if (!(lists->sorted[r] = calloc(lists->counts[r] + 1, sizeof *lists->sorted[r])))
            return false;
    return true;
}

static void sort_lists(struct registered_lists *lists)
{
    const struct model_parameter *name = lists->parameters;
    for (int r = 0; r < lists->ranks; r++) {
        for (uint64_t i = 0; i < lists->counts[r]; i++)
            lists->sorted[r][i] = name++;
        qsort((void *)lists->sorted[r], lists->counts[r], sizeof *lists->sorted[r], compare_tensor_names);
    }
}

/* Send every rank's list to all ranks. If the lists differ in order only, use rank 0's. */
static weft_status compare_all(weft_context *context, weft_comm *comm, struct registered_lists *lists,
                               struct model_parameter *parameters, uint32_t count, uint32_t *index_of,
                               struct error *error)
{
    uint64_t total = 0;
    size_t *bytes = calloc((size_t)lists->ranks, sizeof *bytes);
    for (int r = 0; r < lists->ranks; r++) {
        total += lists->counts[r];
        if (bytes)
            bytes[r] = lists->counts[r] * sizeof *parameters;
    }
    uint32_t failed = !bytes || !lists_open(lists, total);
    weft_status status = library_error(context, weft_allreduce(&failed, &failed, 1, WEFT_U32, WEFT_MAX, comm), error);
    if (status == WEFT_OK && failed)
        status = error_memory(error, total * sizeof *parameters, "the names of all ranks' parameters");
    if (status == WEFT_OK)
        status =
            library_error(context, weft_allgatherv(parameters, lists->parameters, bytes, NULL, WEFT_U8, comm), error);
    free(bytes);
    if (status != WEFT_OK)
        return status;
    sort_lists(lists);
    if ((status = check_lists(lists, error)) != WEFT_OK)
        return status;
    for (uint32_t i = 0; i < count; i++)
        index_of[i] = (uint32_t)(tensor_names_find(lists, 0, &parameters[i]) - lists->parameters);
    memcpy(parameters, lists->parameters, count * sizeof *parameters);
    return WEFT_OK;
}

/* Stands for a list, so that equal lists need not be sent. */
struct list_digest {
    uint64_t count;
    uint8_t digest[SHA256_BYTES];
};

weft_status tensor_names_agree(weft_context *context, weft_comm *comm, struct model_parameter *parameters,
                               uint32_t count, uint32_t *index_of, struct error *error)
{
    const int ranks = weft_comm_size(comm);
    struct list_digest mine = {.count = count}, *digests = calloc((size_t)ranks, sizeof *digests);
    struct registered_lists lists = {.ranks = ranks, .counts = calloc((size_t)ranks, sizeof *lists.counts)};
    if (!digests || !lists.counts) {
        free(digests);
        free(lists.counts);
        return error_memory(error, (size_t)ranks * sizeof *digests, "the digests of the ranks' parameters");
    }
    weft_status status = sha256_of(parameters, count * sizeof *parameters, mine.digest, error);
    if (status == WEFT_OK)
        status = library_error(context, weft_allgather(&mine, digests, sizeof mine, WEFT_U8, comm), error);
    bool same = true; /* the same on every rank */
    for (int r = 0; status == WEFT_OK && r < ranks; r++) {
        same &= memcmp(&digests[r], &digests[0], sizeof mine) == 0;
        lists.counts[r] = digests[r].count;
    }
    for (uint32_t i = 0; i < count; i++)
        index_of[i] = i;
    if (status == WEFT_OK && !same)
        status = compare_all(context, comm, &lists, parameters, count, index_of, error);
    lists_close(&lists);
    free(lists.counts);
    free(digests);
    return status;
}

/* ---- missing gradients ---- */

weft_status tensor_names_missing(weft_context *context, weft_comm *comm, const struct model_parameter *tensors,
                                 uint32_t count, const bool *missing, uint64_t step, struct error *error)
{
    char names[RANKS_TEXT];
    const int ranks = weft_comm_size(comm);
    uint8_t *marks = calloc((size_t)ranks, 1), lacks;
    uint32_t first = 0;
    while (first < count && !missing[first])
        first++;
    weft_status status = library_error(context, weft_allreduce(&first, &first, 1, WEFT_U32, WEFT_MIN, comm), error);
    lacks = first < count && missing[first];
    if (status == WEFT_OK && !marks)
        status = error_memory(error, (size_t)ranks, "the ranks without a gradient");
    if (status == WEFT_OK)
        status = library_error(context, weft_allgather(&lacks, marks, 1, WEFT_U8, comm), error);
    if (status == WEFT_OK) {
        name_ranks(marks, ranks, 1, names, sizeof names);
        status = error_set(error, WEFT_ERROR_MISMATCH,
                           "the gradient of '%s' was not made ready in step %" PRIu64
                           " on %s; call weft_training_ready() for every parameter in every micro-batch",
                           first < count ? tensors[first].name : "", step, names);
    }
    free(marks);
    return status;
}

/* SPDX-License-Identifier: Apache-2.0 */
#include "training/train/state/internal/checkpoint_parts.h"

#include <stdlib.h>
#include <string.h>

/* ---- balance ---- */

static uint64_t tensor_bytes(const struct named_tensor *tensor)
{
    return named_tensor_held(tensor) * weft_type_size(tensor->type);
}

/* Largest first; ties are in the order of the list. */
static int larger_first(const void *left, const void *right)
{
    const struct named_tensor *a = *(const struct named_tensor *const *)left,
                              *b = *(const struct named_tensor *const *)right;
    uint64_t a_bytes = tensor_bytes(a), b_bytes = tensor_bytes(b);
    if (a_bytes != b_bytes)
        return a_bytes > b_bytes ? -1 : 1;
    return a < b ? -1 : a > b;
}

weft_status checkpoint_parts_balance(const struct named_tensor *tensors, size_t count, unsigned writers,
                                     uint64_t *loads, unsigned *writer_of, struct error *error)
{
    const struct named_tensor **order = malloc((count + 1) * sizeof *order);
    if (!order)
        return error_memory(error, (count + 1) * sizeof *order, "a list of tensors");
    for (size_t i = 0; i < count; i++)
        order[i] = &tensors[i];
    if (count)
        qsort((void *)order, count, sizeof *order, larger_first);
    for (size_t i = 0; i < count; i++) {
        unsigned least = 0;
        for (unsigned writer = 1; writer < writers; writer++)
            if (loads[writer] < loads[least])
                least = writer;
        loads[least] += tensor_bytes(order[i]);
        writer_of[order[i] - tensors] = least;
    }
    free((void *)order);
    return WEFT_OK;
}

unsigned checkpoint_parts_writers(uint64_t bytes, uint64_t least, unsigned most)
{
    uint64_t files = least ? bytes / least : most;
    return files < 1 ? 1 : files < most ? (unsigned)files : most;
}

/* ---- parts ---- */

const char *const part_kind_names[PART_KINDS] = {"model", "optimizer"};

static uint64_t checkpoint_parts_bytes_of(const struct training_state *state)
{
    return (uint64_t)state->arrays.description->weights * sizeof(float) * (state->arrays.second_moments ? 3 : 2);
}

static uint32_t checkpoint_parts_count_of(const bool *sees, uint32_t ranks)
{
    uint32_t count = 0;
    for (uint32_t rank = 0; rank < ranks; rank++)
        count += sees[rank];
    return count;
}

bool checkpoint_parts_gather(const struct training_state *state, const struct shards *shards, const bool *sees,
                             uint64_t least)
{
    return shards->sharded && (checkpoint_parts_count_of(sees, shards->ranks) < shards->ranks ||
                               checkpoint_parts_writers(checkpoint_parts_bytes_of(state), least, shards->ranks) == 1);
}

/* Intermediate results. */
struct checkpoint_parts_work {
    unsigned writers;
    uint32_t *ranks;                 /* the rank that each writer is */
    uint64_t *loads;                 /* bytes that each writes */
    unsigned *writer_of[PART_KINDS]; /* by tensor */
    unsigned *numbers;               /* by writer: of its file of one kind */
    bool cut;                        /* each writes its own shard of the moments */
};

static void work_close(struct checkpoint_parts_work *work)
{
    free(work->ranks);
    free(work->loads);
    free(work->numbers);
    for (int kind = 0; kind < PART_KINDS; kind++)
        free(work->writer_of[kind]);
}

static weft_status work_open(struct checkpoint_parts_work *work, const struct checkpoint_parts *parts,
                             const struct shards *shards, const bool *sees, uint64_t least, struct error *error)
{
    *work = (struct checkpoint_parts_work){
        .ranks = calloc(shards->ranks, sizeof *work->ranks),
        .loads = calloc(shards->ranks, sizeof *work->loads),
        .numbers = calloc(shards->ranks, sizeof *work->numbers),
    };
    bool good = work->ranks && work->loads && work->numbers;
    for (int kind = 0; kind < PART_KINDS; kind++) {
        work->writer_of[kind] = calloc(parts->mine[kind].count + 1, sizeof *work->writer_of[kind]);
        good = good && work->writer_of[kind];
    }
    if (!good)
        return error_memory(error, shards->ranks * sizeof *work->loads, "the parts of a checkpoint");
    const uint32_t seeing = checkpoint_parts_count_of(sees, shards->ranks);
    unsigned writers = checkpoint_parts_writers(parts->bytes, least, seeing);
    work->cut = shards->sharded && writers > 1 && seeing == shards->ranks;
    work->writers = work->cut ? shards->ranks : shards->sharded ? 1 : writers;
    for (uint32_t rank = 0, writer = 0; writer < work->writers; rank++)
        if (sees[rank])
            work->ranks[writer++] = rank;
    return WEFT_OK;
}

/* Number the files of one kind over the writers that have anything in it; where shards are cut, by `counts`. */
static void number_files(struct checkpoint_parts *parts, const struct checkpoint_parts_work *work, enum part_kind kind,
                         const size_t *counts, uint32_t rank)
{
    const unsigned none = work->writers;
    for (unsigned writer = 0; writer < work->writers; writer++)
        work->numbers[writer] = counts && counts[work->ranks[writer]] ? 0 : none;
    for (size_t i = 0; !counts && i < parts->mine[kind].count; i++)
        work->numbers[work->writer_of[kind][i]] = 0;
    for (unsigned writer = 0; writer < work->writers; writer++) {
        if (work->numbers[writer] == none)
            continue;
        work->numbers[writer] = parts->parts[kind]++;
        if (work->ranks[writer] != rank)
            continue;
        parts->writes[kind] = true;
        parts->number[kind] = work->numbers[writer];
    }
}

static unsigned writer_of_rank(const struct checkpoint_parts_work *work, uint32_t rank)
{
    unsigned writer = 0;
    while (writer < work->writers && work->ranks[writer] != rank)
        writer++;
    return writer; /* work->writers: none */
}

static weft_status place_model(struct checkpoint_parts *parts, const struct training_state *state,
                               const struct checkpoint_parts_work *work, struct error *error)
{
    const size_t count = parts->mine[PART_MODEL].count;
    parts->places = calloc(count + 1, sizeof *parts->places);
    if (!parts->places)
        return error_memory(error, count * sizeof *parts->places, "the index of a checkpoint");
    for (size_t i = 0; i < count; i++)
        parts->places[i] = (struct checkpoint_place){.tensor = state->arrays.description->parameters[i].name,
                                                     .part = work->numbers[work->writer_of[PART_MODEL][i]]};
    parts->place_count = count;
    return WEFT_OK;
}

weft_status checkpoint_parts_open(struct checkpoint_parts *parts, const struct training_state *state,
                                  const struct shards *shards, const bool *sees, uint64_t least, struct error *error)
{
    *parts = (struct checkpoint_parts){.bytes = checkpoint_parts_bytes_of(state),
                                       .model_bytes = (uint64_t)state->arrays.description->weights * sizeof(float)};
    struct tensor_list *model = &parts->mine[PART_MODEL], *optimizer = &parts->mine[PART_OPTIMIZER];
    struct checkpoint_parts_work work = {0};
    weft_status status = tensor_lists_open(model, optimizer, &state->arrays, error);
    if (status == WEFT_OK)
        status = work_open(&work, parts, shards, sees, least, error);
    for (unsigned writer = 0; status == WEFT_OK && work.cut && writer < work.writers; writer++)
        work.loads[writer] = shards->counts[writer] * sizeof(float) * (state->arrays.second_moments ? 2 : 1);
    if (status == WEFT_OK)
        status = checkpoint_parts_balance(model->tensors, model->count, work.writers, work.loads,
                                          work.writer_of[PART_MODEL], error);
    if (status == WEFT_OK && !work.cut)
        status = checkpoint_parts_balance(optimizer->tensors, optimizer->count, work.writers, work.loads,
                                          work.writer_of[PART_OPTIMIZER], error);
    if (status == WEFT_OK) {
        const unsigned mine = writer_of_rank(&work, shards->rank);
        number_files(parts, &work, PART_OPTIMIZER, work.cut ? shards->counts : NULL, shards->rank);
        number_files(parts, &work, PART_MODEL, NULL, shards->rank);
        status = place_model(parts, state, &work, error);
        tensor_list_select(model, work.writer_of[PART_MODEL], mine);
        if (work.cut)
            tensor_list_cut(optimizer, &state->arrays, shards->first, shards->count);
        else
            tensor_list_select(optimizer, work.writer_of[PART_OPTIMIZER], mine);
    }
    work_close(&work);
    return status;
}

void checkpoint_parts_close(struct checkpoint_parts *parts)
{
    for (int kind = 0; kind < PART_KINDS; kind++)
        tensor_list_close(&parts->mine[kind]);
    free(parts->places);
    *parts = (struct checkpoint_parts){0};
}

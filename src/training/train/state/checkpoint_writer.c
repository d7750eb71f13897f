/* SPDX-License-Identifier: Apache-2.0 */
#include "training/train/state/checkpoint_writer.h"

#include "base/thread.h"
#include "training/checkpoint/directory.h"
#include "training/parallel/agreement.h"
#include "training/train/state/internal/array_snapshot.h"
#include "training/train/state/internal/checkpoint_copier.h"
#include "training/train/state/internal/checkpoint_parts.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

#define NICENESS 5 /* of the thread: about a quarter of a core that computes */

enum stage {
    STAGE_NONE,   /* idle; at the start the thread touches memory */
    STAGE_PARTS,  /* all ranks write */
    STAGE_COMMIT, /* rank 0 completes it */
};

struct checkpoint_writer {
    struct checkpoint_writer_setup setup;
    uint32_t rank, ranks;
    bool *sees;                        /* by rank: whether it can write into the directory */
    struct checkpoint_record *records; /* by rank and kind, then without gaps; then the index's, the tokenizer's */
    size_t record_count;               /* of the newest checkpoint, once it is complete */
    struct checkpoint_parts parts;
    struct array_snapshot *snapshot;

    struct checkpoint_copier *copier; /* NULL: no copies */

    uint64_t completed; /* the newest one's step; UINT64_MAX: none */

    /* Of the current checkpoint. */
    enum stage stage;
    bool last;
    uint64_t step;
    struct state_collection mine[PART_KINDS]; /* what this rank writes */
    struct checkpoint_state described;        /* rank 0's */
    uint64_t began;
    double pause, between; /* seconds; the latter not within a step */
    double processor;      /* seconds of this rank's threads */
    uint64_t held;         /* a checkpoint that is being copied; UINT64_MAX: none */

    /* The thread's; may be read once `finished` is set. */
    pthread_t thread;
    bool joinable;
    atomic_bool finished, stop_warming, awaited;
    struct checkpoint_record written[PART_KINDS];
    weft_status status;
    struct error error;
};

/* ---- the thread ---- */

static const void *acquire_piece(void *owner, const void *bytes, uint64_t size)
{
    struct checkpoint_writer *writer = owner;
    /* The caller's thread makes no other progress meanwhile. */
    if (atomic_load_explicit(&writer->awaited, memory_order_relaxed))
        weft_progress(writer->setup.context, "writing the checkpoint of step", (int64_t)writer->step);
    const struct byte_source source = array_snapshot_source(writer->snapshot);
    return source.acquire(source.owner, bytes, size);
}

static void release_piece(void *owner, const void *bytes, uint64_t size)
{
    const struct byte_source source = array_snapshot_source(((struct checkpoint_writer *)owner)->snapshot);
    source.release(source.owner, bytes, size);
}

static void write_parts(struct checkpoint_writer *writer)
{
    const struct byte_source source = {.owner = writer, .acquire = acquire_piece, .release = release_piece};
    const struct checkpoint_parts *parts = &writer->parts;
    for (int kind = 0; kind < PART_KINDS && writer->status == WEFT_OK; kind++)
        if (parts->writes[kind])
            writer->status =
                checkpoint_write_part(writer->setup.config->checkpoint_dir, writer->step, part_kind_names[kind],
                                      parts->number[kind], parts->parts[kind], writer->mine[kind].tensors,
                                      writer->mine[kind].count, &source, &writer->written[kind], &writer->error);
    array_snapshot_reader_ended(writer->snapshot);
}

/* By name; absent files last. */
static int checkpoint_writer_by_name(const void *left, const void *right)
{
    const struct checkpoint_record *a = left, *b = right;
    if (!*a->name || !*b->name)
        return !*a->name - !*b->name;
    return strcmp(a->name, b->name);
}

/* The files in the order of the manifest: the model's parts, then the optimizer's. */
static size_t gather_records(struct checkpoint_writer *writer)
{
    const size_t room = (size_t)writer->ranks * PART_KINDS;
    size_t count = 0;
    qsort(writer->records, room, sizeof *writer->records, checkpoint_writer_by_name);
    while (count < room && *writer->records[count].name)
        count++;
    return count;
}

/* The tokenizer, so that text can be sampled from the weights alone. */
static weft_status checkpoint_writer_write_tokenizer(struct checkpoint_writer *writer, size_t *count)
{
    const struct text *text = writer->setup.state->text;
    struct tokenizer_file files[TOKENIZER_FILES];
    if (!text || !text->tokenizer)
        return WEFT_OK;
    weft_status status = tokenizer_format(text->tokenizer, files, &writer->error);
    if (status != WEFT_OK)
        return status;
    for (int i = 0; i < TOKENIZER_FILES && status == WEFT_OK; i++)
        status = checkpoint_write_text(writer->setup.config->checkpoint_dir, writer->described.step, files[i].path,
                                       files[i].text, files[i].size, &writer->records[(*count)++], &writer->error);
    tokenizer_files_free(files);
    return status;
}

static void checkpoint_writer_commit(struct checkpoint_writer *writer)
{
    const struct train_config *config = writer->setup.config;
    const struct checkpoint_parts *parts = &writer->parts;
    size_t count = gather_records(writer);
    if (parts->parts[PART_MODEL] > 1)
        writer->status = checkpoint_write_index(config->checkpoint_dir, writer->described.step, parts->places,
                                                parts->place_count, parts->parts[PART_MODEL], parts->model_bytes,
                                                &writer->records[count++], &writer->error);
    if (writer->status == WEFT_OK)
        writer->status = checkpoint_writer_write_tokenizer(writer, &count);
    writer->record_count = count;
    if (writer->status == WEFT_OK)
        writer->status =
            checkpoint_commit(config->checkpoint_dir, &writer->described, writer->records, count, 0, &writer->error);
    if (writer->status == WEFT_OK && config->checkpoint_keep)
        writer->status = directory_prune(config->checkpoint_dir, writer->described.step,
                                         (unsigned)config->checkpoint_keep, writer->held, &writer->error);
}

static void *checkpoint_writer_work(void *argument)
{
    struct checkpoint_writer *writer = argument;
    const double used = thread_processor_seconds();
    if (!writer->last)
        setpriority(PRIO_PROCESS, 0, NICENESS); /* of this thread alone, in Linux; a refusal does no harm */
    if (writer->stage == STAGE_NONE)
        array_snapshot_touch(writer->snapshot, &writer->stop_warming);
    else if (writer->stage == STAGE_PARTS)
        write_parts(writer);
    else
        checkpoint_writer_commit(writer);
    writer->processor += thread_processor_seconds() - used;
    atomic_store(&writer->finished, true);
    return NULL;
}

/* The thread blocks all signals. If no thread can be created, the work is done synchronously. */
static void checkpoint_writer_start_thread(struct checkpoint_writer *writer)
{
    atomic_store(&writer->finished, false);
    writer->joinable = thread_start(&writer->thread, checkpoint_writer_work, writer) == 0;
    if (writer->joinable)
        return;
    const bool last = writer->last;
    writer->last = true; /* the caller keeps its priority */
    checkpoint_writer_work(writer);
    writer->last = last;
}

static void join_thread(struct checkpoint_writer *writer)
{
    if (writer->joinable)
        pthread_join(writer->thread, NULL);
    writer->joinable = false;
}

/* ---- ending a checkpoint ---- */

static void free_checkpoint(struct checkpoint_writer *writer)
{
    for (int kind = 0; kind < PART_KINDS; kind++)
        state_collection_close(&writer->mine[kind]);
    cJSON_Delete((cJSON *)(uintptr_t)writer->described.model);
    cJSON_Delete((cJSON *)(uintptr_t)writer->described.training);
    writer->described = (struct checkpoint_state){0};
    writer->stage = STAGE_NONE;
}

/* Report the checkpoint that has ended with `status`, on which all ranks agree. */
static void report_ended(struct checkpoint_writer *writer, weft_status status, const struct error *error)
{
    if (writer->rank != 0)
        return;
    struct report_checkpoint result = {
        .step = writer->step,
        .bytes = writer->parts.bytes,
        .files = writer->parts.parts[PART_MODEL] + writer->parts.parts[PART_OPTIMIZER],
        .seconds = (double)(clock_now() - writer->began) * 1e-9,
        .pause_seconds = writer->pause,
        .between = writer->between,
        .processor = writer->processor,
        .last = writer->last,
        .problem = status == WEFT_OK ? NULL : error->text,
    };
    directory_of_step(writer->setup.config->checkpoint_dir, result.step, result.path, NULL);
    report_checkpoint(writer->setup.report, &result);
}

/* All ranks: the current checkpoint ends with `status`. The configuration decides whether training continues without
 * it. */
static weft_status checkpoint_writer_settle(struct checkpoint_writer *writer, weft_status status, bool forgive,
                                            bool *speaks, struct error *error)
{
    const struct train_config *config = writer->setup.config;
    const bool connected = status != WEFT_ERROR_PEER && status != WEFT_ERROR_ABORTED && status != WEFT_ERROR_TIMEOUT;
    if (status != WEFT_OK && writer->rank == 0)
        checkpoint_abandon(config->checkpoint_dir, writer->step);
    const bool forgiven = status != WEFT_OK && forgive && connected && config->checkpoint_go_on;
    writer->completed = status == WEFT_OK ? writer->step : writer->completed;
    if (status == WEFT_OK || forgiven)
        report_ended(writer, status, error);
    if (status == WEFT_OK)
        checkpoint_copier_note(writer->copier, writer->step, writer->written);
    free_checkpoint(writer);
    if (!forgiven)
        return status;
    error_clear(error);
    *speaks = true;
    return WEFT_OK;
}

static weft_status checkpoint_writer_agree(struct checkpoint_writer *writer, weft_status status, bool *speaks,
                                           struct error *error)
{
    return agreement_reach(writer->setup.context, writer->setup.comm, status, error, speaks);
}

/* All ranks' threads have ended: go on to the next stage, or end. */
static weft_status checkpoint_writer_advance(struct checkpoint_writer *writer, bool forgive, bool *speaks,
                                             struct error *error)
{
    atomic_store(&writer->awaited, true);
    join_thread(writer);
    atomic_store(&writer->awaited, false);
    if (writer->status != WEFT_OK)
        error_set(error, writer->status, "%s", writer->error.text);
    weft_status status = checkpoint_writer_agree(writer, writer->status, speaks, error);
    if (status != WEFT_OK || writer->stage == STAGE_COMMIT)
        return checkpoint_writer_settle(writer, status, forgive, speaks, error);
    status = weft_allgather(writer->written, writer->records, sizeof writer->written, WEFT_U8, writer->setup.comm);
    if (status != WEFT_OK) {
        error_set(error, status, "%s", weft_message(writer->setup.context));
        return checkpoint_writer_settle(writer, status, false, speaks, error);
    }
    writer->stage = STAGE_COMMIT;
    writer->held = checkpoint_copier_step(writer->copier);
    if (writer->rank == 0)
        checkpoint_writer_start_thread(writer);
    return WEFT_OK;
}

/* All ranks: whether every thread has ended. */
static weft_status all_finished(struct checkpoint_writer *writer, bool *finished, struct error *error)
{
    int32_t busy = atomic_load(&writer->finished) ? 0 : 1;
    weft_status status = WEFT_OK;
    if (writer->ranks > 1)
        status = weft_allreduce(&busy, &busy, 1, WEFT_I32, WEFT_SUM, writer->setup.comm);
    *finished = busy == 0;
    return status == WEFT_OK ? WEFT_OK : error_set(error, status, "%s", weft_message(writer->setup.context));
}

weft_status checkpoint_writer_poll(struct checkpoint_writer *writer, bool *speaks, struct error *error)
{
    bool finished = true;
    weft_status status = WEFT_OK;
    *speaks = true;
    if (!writer)
        return WEFT_OK;
    if (writer->stage != STAGE_NONE)
        status = all_finished(writer, &finished, error);
    if (status == WEFT_OK && writer->stage != STAGE_NONE && finished)
        status = checkpoint_writer_advance(writer, true, speaks, error);
    /* A commit removes old checkpoints, except for one whose copying it knew of. */
    return status == WEFT_OK ? checkpoint_copier_poll(writer->copier, writer->stage != STAGE_COMMIT, error) : status;
}

weft_status checkpoint_writer_finish(struct checkpoint_writer *writer, bool last, bool *speaks, struct error *error)
{
    weft_status status = WEFT_OK;
    *speaks = true;
    while (status == WEFT_OK && writer && writer->stage != STAGE_NONE)
        status = checkpoint_writer_advance(writer, !last, speaks, error);
    return status;
}

/* ---- beginning a checkpoint ---- */

/* Add what this rank writes and the next update would change to the snapshot. */
static void add_to_snapshot(struct checkpoint_writer *writer)
{
    array_snapshot_begin(writer->snapshot);
    for (int kind = 0; kind < PART_KINDS; kind++) {
        const struct state_collection *mine = &writer->mine[kind];
        for (size_t i = 0; i < mine->count; i++)
            if (state_collection_in_place(mine, i)) /* collected copies do not change */
                array_snapshot_add(writer->snapshot, mine->tensors[i].data, mine->tensors[i].count * sizeof(float));
    }
}

/* Local preparation. */
static weft_status checkpoint_writer_prepare(struct checkpoint_writer *writer, struct error *error)
{
    const struct checkpoint_writer_setup *setup = &writer->setup;
    weft_status status = WEFT_OK;
    for (int kind = 0; kind < PART_KINDS && status == WEFT_OK; kind++) {
        const struct state_ranges *ranges = &writer->parts.ranges[kind];
        status = state_collection_open(&writer->mine[kind], setup->state->layout, ranges->ranges, ranges->count, error);
    }
    if (status == WEFT_OK)
        add_to_snapshot(writer);
    if (status == WEFT_OK && writer->rank == 0) {
        training_state_describe(setup->state, setup->config, &writer->described);
        status = checkpoint_begin(setup->config->checkpoint_dir, writer->step, error);
    }
    return status;
}

/* All ranks: move what is written by other ranks than those that hold it. */
static weft_status collect_state(struct checkpoint_writer *writer, struct error *error)
{
    weft_status status = WEFT_OK;
    for (int kind = 0; kind < PART_KINDS && status == WEFT_OK; kind++) {
        const struct state_ranges *ranges = &writer->parts.ranges[kind];
        status = state_collection_fill(&writer->mine[kind], writer->setup.state->layout, ranges->ranges, ranges->count,
                                       error);
    }
    return status;
}

weft_status checkpoint_writer_begin(struct checkpoint_writer *writer, bool last, bool *speaks, struct error *error)
{
    const uint64_t called = clock_now();
    weft_status status = checkpoint_writer_finish(writer, false, speaks, error);
    if (status != WEFT_OK)
        return status;
    atomic_store(&writer->stop_warming, true);
    join_thread(writer);
    writer->began = clock_now();
    writer->processor = 0;
    writer->last = last;
    writer->status = WEFT_OK;
    error_clear(&writer->error);
    memset(writer->written, 0, sizeof writer->written);
    writer->stage = STAGE_PARTS;
    writer->step = writer->setup.state->step;
    status = checkpoint_writer_agree(writer, checkpoint_writer_prepare(writer, error), speaks, error);
    if (status == WEFT_OK)
        status = collect_state(writer, error);
    if (status != WEFT_OK)
        return checkpoint_writer_settle(writer, status, !last, speaks, error);
    checkpoint_writer_start_thread(writer);
    writer->pause = writer->between = (double)(clock_now() - called) * 1e-9;
    return WEFT_OK;
}

void checkpoint_writer_release(struct checkpoint_writer *writer)
{
    if (!writer || writer->stage != STAGE_PARTS)
        return;
    const uint64_t called = clock_now();
    array_snapshot_detach(writer->snapshot);
    writer->pause += (double)(clock_now() - called) * 1e-9;
}

/* ---- amending ---- */

static void amend_copy(struct checkpoint_writer *writer)
{
    const struct train_config *config = writer->setup.config;
    struct error error = {0};
    if (checkpoint_amend(config->checkpoint_copy, &writer->described, writer->records, writer->record_count,
                         (unsigned)config->checkpoint_keep, &error) == WEFT_OK)
        return;
    struct report_copy result = {.step = writer->described.step, .problem = error.text};
    directory_of_step(config->checkpoint_copy, result.step, result.path, NULL);
    report_copy(writer->setup.report, &result);
}

static weft_status amend(struct checkpoint_writer *writer, struct error *error)
{
    const struct train_config *config = writer->setup.config;
    training_state_describe(writer->setup.state, config, &writer->described);
    weft_status status = checkpoint_amend(config->checkpoint_dir, &writer->described, writer->records,
                                          writer->record_count, (unsigned)config->checkpoint_keep, error);
    if (status == WEFT_OK && checkpoint_copier_completed(writer->copier) == writer->described.step)
        amend_copy(writer);
    free_checkpoint(writer);
    return status;
}

weft_status checkpoint_writer_amend(struct checkpoint_writer *writer, bool *speaks, struct error *error)
{
    const weft_status status = checkpoint_writer_finish_copies(writer, speaks, error);
    if (status != WEFT_OK)
        return status;
    return checkpoint_writer_agree(writer, writer->rank == 0 ? amend(writer, error) : WEFT_OK, speaks, error);
}

/* ---- copies ---- */

/* Rank 0: the last commit may have kept an old checkpoint because it was being copied. */
static weft_status prune_held(struct checkpoint_writer *writer, struct error *error)
{
    const struct train_config *config = writer->setup.config;
    if (!config->checkpoint_keep || writer->held == UINT64_MAX || writer->completed == UINT64_MAX)
        return WEFT_OK;
    return directory_prune(config->checkpoint_dir, writer->completed, (unsigned)config->checkpoint_keep, UINT64_MAX,
                           error);
}

weft_status checkpoint_writer_finish_copies(struct checkpoint_writer *writer, bool *speaks, struct error *error)
{
    *speaks = true;
    if (!writer || !writer->copier)
        return WEFT_OK;
    const weft_status status = checkpoint_copier_finish(writer->copier, error);
    if (status != WEFT_OK)
        return status;
    return checkpoint_writer_agree(writer, writer->rank == 0 ? prune_held(writer, error) : WEFT_OK, speaks, error);
}

uint64_t checkpoint_writer_uncopied(const struct checkpoint_writer *writer)
{
    return checkpoint_copier_uncopied(writer->copier);
}

bool checkpoint_writer_is_busy(const struct checkpoint_writer *writer)
{
    return writer && (writer->stage != STAGE_NONE || checkpoint_copier_step(writer->copier) != UINT64_MAX);
}

/* Rank 0 knows whether a former writer's checkpoint is still to be copied. */
static weft_status open_copier(struct checkpoint_writer *writer, bool *speaks, struct error *error)
{
    const struct checkpoint_writer_setup *setup = &writer->setup;
    uint64_t uncopied = setup->uncopied;
    weft_status status =
        checkpoint_writer_agree(writer, checkpoint_copier_open(setup, &writer->copier, error), speaks, error);
    if (status != WEFT_OK)
        return status;
    status = weft_broadcast(&uncopied, 1, WEFT_U64, 0, setup->comm);
    if (status == WEFT_OK && uncopied != UINT64_MAX)
        checkpoint_copier_note(writer->copier, uncopied, NULL);
    return status == WEFT_OK ? WEFT_OK : error_set(error, status, "%s", weft_message(setup->context));
}

/* ---- opening and closing ---- */

/* Which ranks see the directory: those that read the same claim there as rank 0. */
static weft_status probe_directory(struct checkpoint_writer *writer, struct error *error)
{
    const struct checkpoint_writer_setup *setup = &writer->setup;
    char claim[CHECKPOINT_CLAIM_BYTES], mine[CHECKPOINT_CLAIM_BYTES];
    checkpoint_claim_text(setup->config->checkpoint_dir, mine);
    memcpy(claim, mine, sizeof claim);
    weft_status status = weft_broadcast(claim, sizeof claim, WEFT_U8, 0, setup->comm);
    const bool sees = writer->rank == 0 || (*claim && memcmp(claim, mine, sizeof claim) == 0);
    if (status == WEFT_OK)
        status = weft_allgather(&sees, writer->sees, sizeof sees, WEFT_U8, setup->comm);
    return status == WEFT_OK ? WEFT_OK : error_set(error, status, "%s", weft_message(setup->context));
}

/* Assign the state to ranks, and allocate memory for copies of this rank's part. */
static weft_status open_parts(struct checkpoint_writer *writer, struct error *error)
{
    const struct state_layout *layout = writer->setup.state->layout;
    weft_status status =
        checkpoint_parts_open(&writer->parts, layout, writer->sees, writer->setup.config->checkpoint_part, error);
    size_t count = 0;
    uint64_t bytes = 0;
    for (int kind = 0; status == WEFT_OK && kind < PART_KINDS; kind++) {
        const struct state_ranges *ranges = &writer->parts.ranges[kind];
        for (size_t i = 0; i < ranges->count; i++) {
            const struct state_range *range = &ranges->ranges[i];
            if (range->rank != layout->rank ||
                !state_layout_find(layout, range->array, range->parameter, range->first, range->count))
                continue; /* collected copies do not change */
            count++;
            bytes += range->count * sizeof(float);
        }
    }
    return status == WEFT_OK ? array_snapshot_open(count, bytes, &writer->snapshot, error) : status;
}

weft_status checkpoint_writer_open(const struct checkpoint_writer_setup *setup, struct checkpoint_writer **result,
                                   bool *speaks, struct error *error)
{
    struct checkpoint_writer *writer = calloc(1, sizeof *writer);
    weft_status status = writer ? WEFT_OK : error_memory(error, sizeof *writer, "the writer of checkpoints");
    if (status == WEFT_OK) {
        writer->setup = *setup;
        writer->completed = writer->held = UINT64_MAX;
        writer->rank = (uint32_t)weft_comm_rank(setup->comm);
        writer->ranks = (uint32_t)weft_comm_size(setup->comm);
        writer->sees = calloc(writer->ranks, sizeof *writer->sees);
        writer->records = calloc((size_t)writer->ranks * PART_KINDS + 1 + TOKENIZER_FILES, sizeof *writer->records);
        if (!writer->sees || !writer->records)
            status =
                error_memory(error, writer->ranks * PART_KINDS * sizeof *writer->records, "the checkpoints' files");
    }
    status = agreement_reach(setup->context, setup->comm, status, error, speaks);
    if (status == WEFT_OK)
        status = probe_directory(writer, error);
    if (status == WEFT_OK)
        status = checkpoint_writer_agree(writer, open_parts(writer, error), speaks, error);
    if (status == WEFT_OK && setup->config->checkpoint_copy)
        status = open_copier(writer, speaks, error);
    if (status != WEFT_OK) {
        checkpoint_writer_close(writer);
        return status;
    }
    if (setup->config->checkpoint_every)
        checkpoint_writer_start_thread(writer);
    *result = writer;
    return WEFT_OK;
}

uint64_t checkpoint_writer_completed(const struct checkpoint_writer *writer)
{
    return writer->completed;
}

void checkpoint_writer_close(struct checkpoint_writer *writer)
{
    if (!writer)
        return;
    atomic_store(&writer->stop_warming, true);
    if (writer->snapshot)
        array_snapshot_cancel(writer->snapshot);
    join_thread(writer);
    if (writer->stage != STAGE_NONE) {
        /* A checkpoint that rank 0's thread has just committed has its final name, and is not removed. */
        if (writer->rank == 0)
            checkpoint_abandon(writer->setup.config->checkpoint_dir, writer->step);
        free_checkpoint(writer);
    }
    checkpoint_copier_close(writer->copier);
    array_snapshot_close(writer->snapshot);
    checkpoint_parts_close(&writer->parts);
    free(writer->sees);
    free(writer->records);
    free(writer);
}

/* SPDX-License-Identifier: Apache-2.0 */
#include "training/train/state/internal/checkpoint_copier.h"

#include "base/library_error.h"
#include "base/thread.h"
#include "training/checkpoint/copy.h"
#include "training/checkpoint/directory.h"
#include "training/parallel/agreement.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

#define NICENESS 10 /* a tenth of a core that computes */

enum copy_stage {
    COPY_NONE,
    COPY_PREPARE, /* rank 0 */
    COPY_PARTS,   /* all ranks */
    COPY_REST,    /* rank 0 */
};

/* A complete checkpoint, and the files of it that this rank wrote. */
struct copy_source {
    uint64_t step; /* UINT64_MAX: none */
    struct checkpoint_record files[PART_KINDS];
};

struct checkpoint_copier {
    const struct checkpoint_writer_setup *setup;
    uint32_t rank;
    struct checkpoint_claim *claim; /* rank 0's on the second directory, once it could be had */
    struct copy_source current, next;
    uint64_t completed, began;
    enum copy_stage stage;
    char claim_text[CHECKPOINT_CLAIM_BYTES]; /* rank 0's */

    /* The thread's; may be read once `finished` is set. */
    pthread_t thread;
    bool joinable;
    atomic_bool finished, stop;
    weft_status status;
    struct error error;
};

/* ---- the thread ---- */

static weft_status copier_prepare(struct checkpoint_copier *copier)
{
    const struct train_config *config = copier->setup->config;
    weft_status status = WEFT_OK;
    if (!copier->claim)
        status = checkpoint_claim(config->checkpoint_copy, &copier->claim, &copier->error);
    return status == WEFT_OK ? checkpoint_begin(config->checkpoint_copy, copier->current.step, &copier->error) : status;
}

static weft_status copier_copy_parts(struct checkpoint_copier *copier)
{
    const struct train_config *config = copier->setup->config;
    char seen[CHECKPOINT_CLAIM_BYTES];
    weft_status status = WEFT_OK;
    checkpoint_claim_text(config->checkpoint_copy, seen);
    if (!*seen || memcmp(seen, copier->claim_text, sizeof seen) != 0)
        return WEFT_OK; /* another directory, or none */
    for (int kind = 0; kind < PART_KINDS && status == WEFT_OK; kind++)
        if (*copier->current.files[kind].name)
            status = checkpoint_copy_file(config->checkpoint_dir, config->checkpoint_copy, copier->current.step,
                                          &copier->current.files[kind], &copier->stop, &copier->error);
    return status;
}

static void *copier_work(void *argument)
{
    struct checkpoint_copier *copier = argument;
    const struct train_config *config = copier->setup->config;
    setpriority(PRIO_PROCESS, 0, NICENESS); /* of this thread alone, in Linux */
    if (copier->stage == COPY_PREPARE)
        copier->status = copier_prepare(copier);
    else if (copier->stage == COPY_PARTS)
        copier->status = copier_copy_parts(copier);
    else
        copier->status = checkpoint_copy_complete(config->checkpoint_dir, config->checkpoint_copy, copier->current.step,
                                                  (unsigned)config->checkpoint_keep, &copier->stop, &copier->error);
    atomic_store(&copier->finished, true);
    return NULL;
}

/* Begin a stage, on this rank if it `works` there. Without a thread there is no copy: it must not delay training. */
static void copier_start(struct checkpoint_copier *copier, enum copy_stage stage, bool works)
{
    copier->stage = stage;
    copier->status = WEFT_OK;
    error_clear(&copier->error);
    atomic_store(&copier->finished, !works);
    if (!works)
        return;
    copier->joinable = thread_start(&copier->thread, copier_work, copier) == 0;
    if (copier->joinable)
        return;
    copier->status = error_set(&copier->error, WEFT_ERROR_SYSTEM, "no thread could be started to copy a checkpoint");
    atomic_store(&copier->finished, true);
}

static void copier_join(struct checkpoint_copier *copier)
{
    if (copier->joinable)
        pthread_join(copier->thread, NULL);
    copier->joinable = false;
}

/* ---- all ranks ---- */

/* The current copy ends with `status`, on which all ranks agree. */
static void copier_end(struct checkpoint_copier *copier, weft_status status, const struct error *error)
{
    const struct train_config *config = copier->setup->config;
    const uint64_t step = copier->current.step;
    if (status == WEFT_OK)
        copier->completed = step;
    copier->stage = COPY_NONE;
    copier->current.step = UINT64_MAX;
    if (copier->rank != 0)
        return;
    if (status != WEFT_OK && copier->claim)
        checkpoint_abandon(config->checkpoint_copy, step);
    struct report_copy result = {.step = step,
                                 .seconds = (double)(clock_now() - copier->began) * 1e-9,
                                 .problem = status == WEFT_OK ? NULL : error->text};
    directory_of_step(config->checkpoint_copy, step, result.path, NULL);
    report_copy(copier->setup->report, &result);
}

/* All threads have ended: go on to the next stage, or end. */
static weft_status copier_advance(struct checkpoint_copier *copier, struct error *error)
{
    const struct checkpoint_writer_setup *setup = copier->setup;
    struct error failure = {0};
    bool speaks;
    copier_join(copier);
    if (copier->status != WEFT_OK)
        error_set(&failure, copier->status, "%s", copier->error.text);
    weft_status status = agreement_reach(setup->context, setup->comm, copier->status, &failure, &speaks);
    if (status == WEFT_ERROR_PEER || status == WEFT_ERROR_TIMEOUT || status == WEFT_ERROR_NETWORK ||
        status == WEFT_ERROR_ABORTED)
        return error_set(error, status, "%s", failure.text);
    if (status != WEFT_OK || copier->stage == COPY_REST) {
        copier_end(copier, status, &failure);
        return WEFT_OK;
    }
    if (copier->stage == COPY_PARTS) {
        copier_start(copier, COPY_REST, copier->rank == 0);
        return WEFT_OK;
    }
    if (copier->rank == 0)
        checkpoint_claim_text(setup->config->checkpoint_copy, copier->claim_text);
    status = weft_broadcast(copier->claim_text, sizeof copier->claim_text, WEFT_U8, 0, setup->comm);
    copier_start(copier, COPY_PARTS, status == WEFT_OK);
    return library_error(setup->context, status, error);
}

static void copier_begin(struct checkpoint_copier *copier)
{
    copier->current = copier->next;
    copier->next.step = UINT64_MAX;
    copier->began = clock_now();
    copier_start(copier, COPY_PREPARE, copier->rank == 0);
}

weft_status checkpoint_copier_poll(struct checkpoint_copier *copier, bool may_begin, struct error *error)
{
    if (!copier)
        return WEFT_OK;
    if (copier->stage != COPY_NONE) {
        uint32_t busy = !atomic_load(&copier->finished);
        const weft_status status = library_error(
            copier->setup->context, weft_allreduce(&busy, &busy, 1, WEFT_U32, WEFT_MAX, copier->setup->comm), error);
        return status != WEFT_OK || busy ? status : copier_advance(copier, error);
    }
    if (may_begin && copier->next.step != UINT64_MAX)
        copier_begin(copier);
    return WEFT_OK;
}

weft_status checkpoint_copier_finish(struct checkpoint_copier *copier, struct error *error)
{
    weft_status status = WEFT_OK;
    while (copier && status == WEFT_OK && (copier->stage != COPY_NONE || copier->next.step != UINT64_MAX)) {
        if (copier->stage == COPY_NONE)
            copier_begin(copier);
        status = copier_advance(copier, error);
    }
    return status;
}

void checkpoint_copier_note(struct checkpoint_copier *copier, uint64_t step,
                            const struct checkpoint_record files[PART_KINDS])
{
    if (!copier)
        return;
    copier->next = (struct copy_source){.step = step};
    if (files)
        memcpy(copier->next.files, files, sizeof copier->next.files);
}

uint64_t checkpoint_copier_step(const struct checkpoint_copier *copier)
{
    return copier ? copier->current.step : UINT64_MAX;
}

uint64_t checkpoint_copier_uncopied(const struct checkpoint_copier *copier)
{
    if (!copier)
        return UINT64_MAX;
    return copier->next.step != UINT64_MAX ? copier->next.step : copier->current.step;
}

uint64_t checkpoint_copier_completed(const struct checkpoint_copier *copier)
{
    return copier ? copier->completed : UINT64_MAX;
}

/* ---- opening and closing ---- */

weft_status checkpoint_copier_open(const struct checkpoint_writer_setup *setup, struct checkpoint_copier **result,
                                   struct error *error)
{
    struct checkpoint_copier *copier = calloc(1, sizeof *copier);
    if (!copier)
        return error_memory(error, sizeof *copier, "copies of checkpoints");
    copier->setup = setup;
    copier->rank = (uint32_t)weft_comm_rank(setup->comm);
    copier->current.step = copier->next.step = copier->completed = UINT64_MAX;
    *result = copier;
    return WEFT_OK;
}

void checkpoint_copier_close(struct checkpoint_copier *copier)
{
    if (!copier)
        return;
    atomic_store(&copier->stop, true);
    copier_join(copier);
    if (copier->claim && copier->stage != COPY_NONE)
        checkpoint_abandon(copier->setup->config->checkpoint_copy, copier->current.step);
    checkpoint_release(copier->claim);
    free(copier);
}

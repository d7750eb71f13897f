/* SPDX-License-Identifier: Apache-2.0 */
#include "core/collective/internal/schedules.h"

#include "core/collective/communicator/context.h"
#include "core/schedule/verify/sweep.h"
#include "core/schedule/verify/verify.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

weft_status schedules_plan(const struct schedules *schedules, uint32_t number, const struct plan_shape *shape,
                           uint32_t rank, struct plan **plan, bool *near, struct error *error)
{
    const struct schedule *schedule = schedules->all;
    while (schedule->number != number)
        schedule = schedule->next;
    struct plan **plans;
    weft_status status = written_prove(schedule->written, shape, &plans, error);
    if (status != WEFT_OK)
        return status;
    *near = plans_use_near(plans, shape->ranks);
    *plan = plans[rank];
    plans[rank] = NULL;
    sweep_free(plans, shape->ranks);
    return WEFT_OK;
}

void schedules_free(struct schedules *schedules)
{
    for (struct schedule *schedule = schedules->all, *next; schedule; schedule = next) {
        next = schedule->next;
        written_free(schedule->written);
        free(schedule);
    }
    *schedules = (struct schedules){0};
}

/* What each rank says of its file. */
struct loaded {
    uint64_t status, hash;
};

/* Prove it for the first root that calls may have; others are proved when they are first called. */
static weft_status schedules_prove(const weft_comm *comm, const struct written *written, struct error *error)
{
    enum collective collective = written_collective(written);
    if (collective == COLLECTIVE_SENDRECEIVE)
        return error_set(
            error, WEFT_ERROR_ARGUMENT,
            "messages between two ranks have one plan: a schedule of sendreceive can be proved and shown only");
    struct plan_key key = {.collective = (uint8_t)collective,
                           .root = written_root(written, 0),
                           .in_place = written_in_place(written),
                           .reproducible = comm->reproducible};
    struct plan_shape shape = plan_shape_of(comm, &key);
    struct plan **plans;
    weft_status status = written_prove(written, &shape, &plans, error);
    if (status == WEFT_OK)
        sweep_free(plans, shape.ranks);
    return status;
}

/* Ask everybody how it went: all have the same text, and it is right, or nobody takes it. */
static weft_status schedules_agree(weft_comm *comm, const struct loaded *mine, struct error *error)
{
    struct loaded *all = malloc((size_t)comm->size * sizeof *all);
    if (!all)
        return error_memory(error, (size_t)comm->size * sizeof *all, "what ranks say of their schedules");
    weft_status status = weft_allgather(mine, all, sizeof *mine / sizeof(uint64_t), WEFT_U64, comm);
    if (status != WEFT_OK)
        error_set(error, status, "%s", weft_message(comm->context));
    for (uint32_t rank = 0; status == WEFT_OK && rank < comm->size; rank++) {
        if (all[rank].status != WEFT_OK)
            status = error_set(error, (weft_status)all[rank].status,
                               "rank %u could not load its schedule, so nobody does: its own message says why", rank);
        else if (all[rank].hash != all[0].hash)
            status = error_set(error, WEFT_ERROR_ARGUMENT,
                               "ranks 0 and %u have different texts of the schedule (hashes %016" PRIx64
                               " and %016" PRIx64 "): give all the same file",
                               rank, all[0].hash, all[rank].hash);
    }
    free(all);
    return status;
}

weft_status weft_comm_load_schedule(weft_comm *comm, const char *path)
{
    struct error error;
    error_clear(&error);
    if (!comm)
        return context_missing("weft_comm_load_schedule()", "communicator");
    struct written *written = NULL;
    struct schedule *schedule = calloc(1, sizeof *schedule);
    weft_status status = schedule ? WEFT_OK : error_memory(&error, sizeof *schedule, "a schedule");
    if (status == WEFT_OK && !path)
        status = error_set(&error, WEFT_ERROR_ARGUMENT, "weft_comm_load_schedule() was given no path");
    if (status == WEFT_OK)
        status = written_read(path, &written, &error);
    if (status == WEFT_OK)
        status = schedules_prove(comm, written, &error);
    struct loaded mine = {status, written ? written_hash(written) : 0};
    struct error others;
    error_clear(&others);
    weft_status agreed = schedules_agree(comm, &mine, status == WEFT_OK ? &error : &others);
    if (status == WEFT_OK)
        status = agreed;
    if (status != WEFT_OK) {
        written_free(written);
        free(schedule);
        return context_note(comm->context, &error);
    }
    progress_enter(comm->context);
    *schedule = (struct schedule){.written = written,
                                  .number = comm->schedules.all ? comm->schedules.all->number + 1 : 1,
                                  .next = comm->schedules.all};
    comm->schedules.all = schedule;
    comm->schedules.chosen[written_collective(written)] = schedule;
    comm->plans.last = NULL;
    progress_leave(comm->context);
    return WEFT_OK;
}

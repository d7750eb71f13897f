/* SPDX-License-Identifier: Apache-2.0 */
#include "core/collective/internal/loaded_schedules.h"

#include "core/collective/communicator/context.h"
#include "core/schedule/verify/sweep.h"
#include "core/schedule/verify/verify.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

weft_status loaded_schedules_of_rank(const struct loaded_schedules *loaded, uint32_t number,
                                     const struct schedule_shape *shape, uint32_t rank, struct schedule **schedule,
                                     bool *shm, struct error *error)
{
    const struct loaded_schedule *one = loaded->all;
    while (one->number != number)
        one = one->next;
    struct schedule **schedules;
    weft_status status = schedule_text_prove(one->written, shape, &schedules, error);
    if (status != WEFT_OK)
        return status;
    *shm = schedules_use_shm(schedules, shape->ranks);
    *schedule = schedules[rank];
    schedules[rank] = NULL;
    sweep_free(schedules, shape->ranks);
    return WEFT_OK;
}

void loaded_schedules_free(struct loaded_schedules *loaded)
{
    for (struct loaded_schedule *one = loaded->all, *next; one; one = next) {
        next = one->next;
        schedule_text_free(one->written);
        free(one);
    }
    *loaded = (struct loaded_schedules){0};
}

/* Each rank's result of reading its file. */
struct loaded {
    uint64_t status, hash;
};

/* Verify it for the first root that calls may have; for other roots it is verified at the first call. */
static weft_status loaded_schedules_prove(const weft_comm *comm, const struct schedule_text *written,
                                          struct error *error)
{
    enum collective collective = schedule_text_collective(written);
    if (collective == COLLECTIVE_SENDRECEIVE)
        return error_set(
            error, WEFT_ERROR_ARGUMENT,
            "messages between two ranks have a fixed schedule: one of sendreceive can only be verified and shown");
    struct schedule_key key = {.collective = (uint8_t)collective,
                               .root = schedule_text_root(written, 0),
                               .in_place = schedule_text_in_place(written),
                               .reproducible = comm->reproducible};
    struct schedule_shape shape = schedule_shape_of(comm, &key);
    struct schedule **schedules;
    weft_status status = schedule_text_prove(written, &shape, &schedules, error);
    if (status == WEFT_OK)
        sweep_free(schedules, shape.ranks);
    return status;
}

/* All-gather the results: all ranks have the same valid text, or none accepts it. */
static weft_status loaded_schedules_agree(weft_comm *comm, const struct loaded *mine, struct error *error)
{
    struct loaded *all = malloc((size_t)comm->size * sizeof *all);
    if (!all)
        return error_memory(error, (size_t)comm->size * sizeof *all, "the ranks' results of loading a schedule");
    weft_status status = weft_allgather(mine, all, sizeof *mine / sizeof(uint64_t), WEFT_U64, comm);
    if (status != WEFT_OK)
        error_set(error, status, "%s", weft_message(comm->context));
    for (uint32_t rank = 0; status == WEFT_OK && rank < comm->size; rank++) {
        if (all[rank].status != WEFT_OK)
            status =
                error_set(error, (weft_status)all[rank].status,
                          "rank %u could not load its schedule, so no rank does; see the message of that rank", rank);
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
    struct schedule_text *written = NULL;
    struct loaded_schedule *one = calloc(1, sizeof *one);
    weft_status status = one ? WEFT_OK : error_memory(&error, sizeof *one, "a schedule");
    if (status == WEFT_OK && !path)
        status = error_set(&error, WEFT_ERROR_ARGUMENT, "weft_comm_load_schedule() was given no path");
    if (status == WEFT_OK)
        status = schedule_text_read(path, &written, &error);
    if (status == WEFT_OK)
        status = loaded_schedules_prove(comm, written, &error);
    struct loaded mine = {status, written ? schedule_text_hash(written) : 0};
    struct error others;
    error_clear(&others);
    weft_status agreed = loaded_schedules_agree(comm, &mine, status == WEFT_OK ? &error : &others);
    if (status == WEFT_OK)
        status = agreed;
    if (status != WEFT_OK) {
        schedule_text_free(written);
        free(one);
        return context_note(comm->context, &error);
    }
    progress_enter(comm->context);
    *one = (struct loaded_schedule){
        .written = written, .number = comm->loaded.all ? comm->loaded.all->number + 1 : 1, .next = comm->loaded.all};
    comm->loaded.all = one;
    comm->loaded.chosen[schedule_text_collective(written)] = one;
    comm->schedules.last = NULL;
    progress_leave(comm->context);
    return WEFT_OK;
}

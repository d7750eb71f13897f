/* SPDX-License-Identifier: Apache-2.0 */
#include "core/schedule/simulate/goal.h"

#include "core/schedule/simulate/internal/simulation.h"

#include <inttypes.h>
#include <stdlib.h>

/* Tags of signals, after those of channels. */
#define GOAL_SIGNALS SCHEDULE_CHANNELS

struct goal_writer {
    struct schedule *const *schedules;
    const struct schedule *schedule; /* of the rank being written */
    uint64_t block_bytes;
    uint32_t iterations;
    double bandwidth;
    uint32_t *signals; /* by rank x SCHEDULE_LANES + lane: signals received so far */
    FILE *out;
    FILE *requirements; /* of the rank being written: they follow its operations, because readers may know no others */
};

/* The operation that completes a step: l<lane>_<iteration>_<step>. */
static void goal_require(const struct goal_writer *writer, const char *suffix, const char *name, uint32_t lane,
                         uint32_t iteration, uint32_t step)
{
    fprintf(writer->requirements, "%s%s requires l%" PRIu32 "_%" PRIu32 "_%" PRIu32 "\n", name, suffix, lane, iteration,
            step);
}

static uint32_t lane_steps(const struct schedule *schedule, uint32_t lane)
{
    return schedule->lane_first[lane + 1] - schedule->lane_first[lane];
}

/* What must be complete before a step begins: the one before it in its lane, and what it waits for. */
static void write_requirements(const struct goal_writer *writer, const char *suffix, const char *name, uint32_t lane,
                               uint32_t iteration, uint32_t at)
{
    const struct schedule *schedule = writer->schedule;
    const struct step *step = &schedule->steps[schedule->lane_first[lane] + at];
    if (at)
        goal_require(writer, suffix, name, lane, iteration, at - 1);
    else if (iteration)
        goal_require(writer, suffix, name, lane, iteration - 1, lane_steps(schedule, lane) - 1);
    if (step->wait_steps && iteration >= step->wait_lag && !(step->flags & STEP_WHERE_STAGED))
        goal_require(writer, suffix, name, step->wait_lane, iteration - step->wait_lag, step->wait_steps - 1u);
}

static bool group_has(const struct schedule *schedule, uint32_t index, uint32_t rank)
{
    const struct schedule_group *group = &schedule->groups[index];
    for (uint32_t i = 0; i < group->count; i++)
        if (schedule->members[group->first + i] == rank)
            return true;
    return false;
}

/* Whether a rank awaits signals of a lane of another. */
static bool awaits(const struct schedule *schedule, uint32_t rank, uint32_t lane)
{
    for (uint32_t i = 0; i < schedule->step_count; i++)
        if (schedule->steps[i].kind == STEP_AWAIT && schedule->steps[i].operands == lane &&
            group_has(schedule, schedule->steps[i].peer, rank))
            return true;
    return false;
}

/* A signal: a message to every rank of the group that awaits it, one after another. */
static void write_signal(const struct goal_writer *writer, const char *name, uint32_t lane, uint32_t iteration,
                         uint32_t at)
{
    const struct schedule *schedule = writer->schedule;
    const struct schedule_group *group = &schedule->groups[schedule->steps[schedule->lane_first[lane] + at].peer];
    fprintf(writer->out, "%s: calc 0\n", name);
    write_requirements(writer, "", name, lane, iteration, at);
    for (uint32_t i = 0; i < group->count; i++) {
        uint32_t peer = schedule->members[group->first + i];
        if (peer == schedule->rank || !awaits(writer->schedules[peer], schedule->rank, lane))
            continue;
        fprintf(writer->out, "%ss%" PRIu32 ": send 1b to %" PRIu32 " tag %" PRIu32 "\n", name, peer, peer,
                GOAL_SIGNALS + lane);
        fprintf(writer->requirements, "%ss%" PRIu32 " requires %s\n", name, peer, name);
    }
}

/* Signals awaited are received one after another from each rank; the operation requires the last one that it needs. */
static void write_await(const struct goal_writer *writer, const char *name, uint32_t lane, uint32_t iteration,
                        uint32_t at)
{
    const struct schedule *schedule = writer->schedule;
    const struct step *step = &schedule->steps[schedule->lane_first[lane] + at];
    const struct schedule_group *group = &schedule->groups[step->peer];
    fprintf(writer->out, "%s: calc 0\n", name);
    write_requirements(writer, "", name, lane, iteration, at);
    if (iteration < step->value_lag)
        return;
    uint32_t needed = step->stride * (iteration - step->value_lag) + step->value, awaited = step->operands;
    for (uint32_t i = 0; i < group->count; i++) {
        uint32_t peer = schedule->members[group->first + i];
        if (peer == schedule->rank || !needed)
            continue;
        uint32_t *received = &writer->signals[peer * SCHEDULE_LANES + awaited];
        for (; *received < needed; ++*received) {
            fprintf(writer->out, "g%" PRIu32 "_%" PRIu32 "_%" PRIu32 ": recv 1b from %" PRIu32 " tag %" PRIu32 "\n",
                    peer, awaited, *received + 1, peer, GOAL_SIGNALS + awaited);
            if (*received)
                fprintf(writer->requirements,
                        "g%" PRIu32 "_%" PRIu32 "_%" PRIu32 " requires g%" PRIu32 "_%" PRIu32 "_%" PRIu32 "\n", peer,
                        awaited, *received + 1, peer, awaited, *received);
        }
        fprintf(writer->requirements, "%s requires g%" PRIu32 "_%" PRIu32 "_%" PRIu32 "\n", name, peer, awaited,
                needed);
    }
}

static void goal_write_step(const struct goal_writer *writer, uint32_t lane, uint32_t iteration, uint32_t at)
{
    const struct schedule *schedule = writer->schedule;
    const struct step *step = &schedule->steps[schedule->lane_first[lane] + at];
    uint64_t bytes = simulation_step_bytes(schedule, step, writer->block_bytes, iteration);
    double work = simulation_step_seconds(schedule, step, bytes, writer->bandwidth) * 1e9;
    char name[48];
    snprintf(name, sizeof name, "l%" PRIu32 "_%" PRIu32 "_%" PRIu32, lane, iteration, at);
    bool reduces = step->kind == STEP_RECEIVE_REDUCE;
    switch (step->kind) {
    case STEP_SEND:
        fprintf(writer->out, "%s: send %" PRIu64 "b to %" PRIu32 " tag %u\n", name, bytes ? bytes : 1, step->peer,
                step->channel);
        break;
    case STEP_RECEIVE:
    case STEP_RECEIVE_REDUCE: /* then it sums */
        fprintf(writer->out, "%s%s: recv %" PRIu64 "b from %" PRIu32 " tag %u\n", name, reduces ? "r" : "",
                bytes ? bytes : 1, step->peer, step->channel);
        if (reduces) {
            fprintf(writer->out, "%s: calc %.0f\n", name, work);
            fprintf(writer->requirements, "%s requires %sr\n", name, name);
        }
        break;
    case STEP_SIGNAL:
        write_signal(writer, name, lane, iteration, at);
        return;
    case STEP_AWAIT:
        write_await(writer, name, lane, iteration, at);
        return;
    default:
        fprintf(writer->out, "%s: calc %.0f\n", name, work);
        break;
    }
    write_requirements(writer, reduces ? "r" : "", name, lane, iteration, at);
}

static weft_status write_rank(struct goal_writer *writer, struct error *error)
{
    const struct schedule *schedule = writer->schedule;
    size_t bytes = (size_t)schedule->ranks * SCHEDULE_LANES * sizeof *writer->signals, length;
    char *requirements = NULL;
    writer->signals = calloc(1, bytes);
    writer->requirements = open_memstream(&requirements, &length);
    bool ready = writer->signals && writer->requirements;
    if (ready) {
        fprintf(writer->out, "\nrank %" PRIu32 " {\n", schedule->rank);
        for (uint32_t iteration = 0; iteration < writer->iterations; iteration++)
            for (uint32_t lane = 0; lane < schedule->lane_count; lane++)
                for (uint32_t at = 0; at < lane_steps(schedule, lane); at++)
                    goal_write_step(writer, lane, iteration, at);
    }
    if (writer->requirements)
        ready = fclose(writer->requirements) == 0 && ready;
    if (ready)
        fprintf(writer->out, "%s}\n", requirements);
    free(requirements);
    free(writer->signals);
    return ready ? WEFT_OK : error_memory(error, bytes, "the operations of a rank");
}

weft_status schedule_write_goal(struct schedule *const *schedules, uint32_t ranks, const struct schedule_shape *shape,
                                const struct simulated_cluster *cluster, uint64_t block_bytes, FILE *out,
                                struct error *error)
{
    const struct schedule *first = schedules[0];
    uint32_t nodes = shape_units(shape, 0), ranks_of_node = (ranks + nodes - 1) / nodes;
    struct goal_writer writer = {.schedules = schedules,
                                 .block_bytes = block_bytes,
                                 .iterations = (uint32_t)schedule_iterations(first, block_bytes),
                                 .bandwidth = simulation_bandwidth(first, cluster, block_bytes, ranks_of_node),
                                 .out = out};
    for (uint32_t i = 0; i < first->step_count; i++)
        if (first->steps[i].kind == STEP_EXCHANGE)
            return error_set(error, WEFT_ERROR_ARGUMENT,
                             "%s by exchange is one step in shared memory, which GOAL cannot express; name another "
                             "algorithm",
                             collective_name(first->collective));
    fprintf(out, "num_ranks %" PRIu32 "\n", ranks);
    weft_status status = WEFT_OK;
    for (uint32_t rank = 0; rank < ranks && status == WEFT_OK; rank++) {
        writer.schedule = schedules[rank];
        status = write_rank(&writer, error);
    }
    return status;
}

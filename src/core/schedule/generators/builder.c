/* SPDX-License-Identifier: Apache-2.0 */
#include "core/schedule/generators/builder.h"

#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

static uint32_t input_blocks(const struct schedule_shape *shape, uint32_t rank)
{
    switch (shape->collective) {
    case COLLECTIVE_REDUCE_SCATTER:
    case COLLECTIVE_ALLTOALL:
    case COLLECTIVE_ALLTOALLV:
        return shape->ranks;
    case COLLECTIVE_SCATTER:
    case COLLECTIVE_SCATTERV:
        return rank == shape->root ? shape->ranks : 0;
    case COLLECTIVE_SENDRECEIVE:
        return rank == shape->root;
    case COLLECTIVE_BARRIER:
        return 0;
    default:
        return 1;
    }
}

static uint32_t output_blocks(const struct schedule_shape *shape, uint32_t rank)
{
    switch (shape->collective) {
    case COLLECTIVE_ALLGATHER:
    case COLLECTIVE_ALLGATHERV:
    case COLLECTIVE_ALLTOALL:
    case COLLECTIVE_ALLTOALLV:
        return shape->ranks;
    case COLLECTIVE_GATHER:
    case COLLECTIVE_GATHERV:
        return rank == shape->root ? shape->ranks : 0;
    case COLLECTIVE_REDUCE:
        return rank == shape->root;
    case COLLECTIVE_EXSCAN:
        return rank > 0;
    case COLLECTIVE_SENDRECEIVE:
        return rank == shape->peer;
    case COLLECTIVE_BARRIER:
        return 0;
    default:
        return 1;
    }
}

weft_status builder_open(struct builder *builder, const struct schedule_shape *shape, uint32_t rank,
                         const char *algorithm, struct error *error)
{
    *builder = (struct builder){.shape = shape, .schedule = calloc(1, sizeof *builder->schedule)};
    if (!builder->schedule)
        return error_memory(error, sizeof *builder->schedule, "a schedule");
    *builder->schedule = (struct schedule){
        .collective = shape->collective,
        .algorithm = algorithm,
        .ranks = shape->ranks,
        .rank = rank,
        .root =
            collective_is_rooted(shape->collective) || shape->collective == COLLECTIVE_SENDRECEIVE ? shape->root : 0,
        .input_blocks = input_blocks(shape, rank),
        .output_blocks = output_blocks(shape, rank),
        .parts = 1,
        .slots = 1,
    };
    return WEFT_OK;
}

struct step *builder_append(struct builder *builder, uint32_t lane, struct dependency after)
{
    uint32_t count = builder->lanes[lane].count;
    struct step *step = &builder->excess;
    if (builder->exhausted || count + 1 >= BUILDER_ALL ||
        ARRAY_RESERVE(builder->lanes[lane].steps, builder->lanes[lane].room, count + 1, "a schedule", NULL) != WEFT_OK)
        builder->exhausted = true;
    else
        step = &builder->lanes[lane].steps[builder->lanes[lane].count++];
    bool in_order =
        after.lane == lane && !after.lag && after.steps != BUILDER_ALL; /* steps of one lane are ordered anyway */
    bool never = after.lag && !builder->schedule->segment_bytes;        /* there is no iteration before the first */
    bool waits = after.steps && !in_order && !never;
    *step = (struct step){
        .wait_lane = waits ? after.lane : 0, .wait_lag = waits ? after.lag : 0, .wait_steps = waits ? after.steps : 0};
    return step;
}

struct dependency builder_add(struct builder *builder, uint32_t lane, struct step step)
{
    *builder_append(builder, lane, (struct dependency){0}) = step;
    return builder_now(builder, lane);
}

struct dependency builder_add_after(struct builder *builder, uint32_t lane, struct dependency after, struct step step)
{
    struct step *added = builder_append(builder, lane, after);
    if (added->wait_steps) {
        step.wait_lane = added->wait_lane;
        step.wait_lag = added->wait_lag;
        step.wait_steps = added->wait_steps;
    }
    *added = step;
    return builder_now(builder, lane);
}

static void generators_builder_hold(struct builder *builder, uint32_t lane, struct dependency after,
                                    enum step_flag flag)
{
    bool in_order = after.lane == lane && !after.lag;
    bool never = after.lag && !builder->schedule->segment_bytes;
    if (after.steps && !in_order && !never)
        builder_add_after(
            builder, lane, after,
            (struct step){.kind = STEP_COPY, .flags = flag, .source = BUFFER_SCRATCH, .target = BUFFER_SCRATCH});
}

void builder_hold(struct builder *builder, uint32_t lane, struct dependency after)
{
    generators_builder_hold(builder, lane, after, 0);
}

void builder_hold_staging(struct builder *builder, uint32_t lane, struct dependency after)
{
    generators_builder_hold(builder, lane, after, STEP_WHERE_STAGED);
}

struct dependency builder_now(const struct builder *builder, uint32_t lane)
{
    return (struct dependency){.lane = (uint8_t)lane, .steps = (uint16_t)builder->lanes[lane].count};
}

struct dependency builder_all(uint32_t lane, uint32_t lag)
{
    return (struct dependency){.lane = (uint8_t)lane, .lag = (uint8_t)lag, .steps = BUILDER_ALL};
}

uint32_t builder_group(struct builder *builder, const uint32_t *members, uint32_t count)
{
    struct schedule *schedule = builder->schedule;
    uint32_t used = 0;
    for (uint32_t i = 0; i < schedule->group_count; i++) {
        const struct schedule_group *group = &schedule->groups[i];
        if (group->count == count && memcmp(schedule->members + group->first, members, count * sizeof *members) == 0)
            return i;
        used = group->first + group->count;
    }
    struct schedule_group *groups = realloc(schedule->groups, (schedule->group_count + 1) * sizeof *groups);
    if (groups)
        schedule->groups = groups;
    uint32_t *all = realloc(schedule->members, (used + count) * sizeof *all);
    if (all)
        schedule->members = all;
    if (!groups || !all) {
        builder->exhausted = true;
        return 0;
    }
    memcpy(all + used, members, count * sizeof *members);
    groups[schedule->group_count] = (struct schedule_group){used, count};
    return schedule->group_count++;
}

uint32_t builder_group_of_first(struct builder *builder, uint32_t count)
{
    uint32_t *members = malloc(count * sizeof *members);
    if (!members) {
        builder->exhausted = true;
        return 0;
    }
    for (uint32_t i = 0; i < count; i++)
        members[i] = i;
    uint32_t group = builder_group(builder, members, count);
    free(members);
    return group;
}

uint32_t builder_group_of_all(struct builder *builder)
{
    return builder_group_of_first(builder, builder->shape->ranks);
}

bool builder_segment(struct builder *builder, uint64_t bytes, uint32_t slots)
{
    if (builder->shape->block_bytes <= bytes)
        return false;
    builder->schedule->segment_bytes = bytes;
    builder->schedule->slots = slots;
    return true;
}

void builder_scratch(struct builder *builder, uint32_t chunks)
{
    if (builder->schedule->scratch_chunks < chunks)
        builder->schedule->scratch_chunks = chunks;
}

/* Hash the properties that all ranks agree on. In place is local to a rank and left out. */
static uint64_t builder_hash_of(const struct builder *builder)
{
    const struct schedule_shape *shape = builder->shape;
    const struct schedule *schedule = builder->schedule;
    uint64_t words[] = {shape->collective,   shape->ranks,      schedule->root,          shape->peer,
                        schedule->parts,     schedule->slots,   schedule->segment_bytes, schedule->most_block_bytes,
                        shape->reproducible, builder->text_hash};
    uint64_t hash = XXH3_64bits_withSeed(schedule->algorithm, strlen(schedule->algorithm), 0);
    hash = XXH3_64bits_withSeed(words, sizeof words, hash);
    if (shape->nodes)
        hash = XXH3_64bits_withSeed(shape->nodes, shape->ranks * sizeof *shape->nodes, hash);
    for (uint32_t level = 1; level < shape_levels(shape); level++)
        hash = XXH3_64bits_withSeed(shape->above[level - 1],
                                    shape_units(shape, level - 1) * sizeof *shape->above[level - 1], hash);
    return hash;
}

static weft_status builder_lay_out(struct builder *builder, struct error *error)
{
    struct schedule *schedule = builder->schedule;
    uint32_t total = 0;
    for (uint32_t lane = 0; lane < SCHEDULE_LANES; lane++) {
        schedule->lane_first[lane] = total;
        total += builder->lanes[lane].count;
        if (builder->lanes[lane].count)
            schedule->lane_count = lane + 1;
    }
    for (uint32_t lane = schedule->lane_count; lane <= SCHEDULE_LANES; lane++)
        schedule->lane_first[lane] = total;
    schedule->step_count = total;
    schedule->steps = malloc((total ? total : 1) * sizeof *schedule->steps);
    if (!schedule->steps)
        return error_memory(error, total * sizeof *schedule->steps, "the steps of a schedule");
    for (uint32_t lane = 0; lane < schedule->lane_count; lane++)
        if (builder->lanes[lane].count)
            memcpy(schedule->steps + schedule->lane_first[lane], builder->lanes[lane].steps,
                   builder->lanes[lane].count * sizeof *schedule->steps);
    for (uint32_t i = 0; i < total; i++) {
        struct step *step = &schedule->steps[i];
        if (step->wait_steps != BUILDER_ALL)
            continue;
        step->wait_steps = (uint16_t)builder->lanes[step->wait_lane].count;
        if (!step->wait_steps) { /* a lane without steps: nothing to wait for */
            step->wait_lane = step->wait_lag = 0;
            step->flags &= (uint8_t)~STEP_WHERE_STAGED;
        }
    }
    schedule->hash = builder_hash_of(builder);
    return WEFT_OK;
}

void builder_discard(struct builder *builder)
{
    for (uint32_t lane = 0; lane < SCHEDULE_LANES; lane++)
        free(builder->lanes[lane].steps);
    schedule_free(builder->schedule);
    builder->schedule = NULL;
}

weft_status builder_close(struct builder *builder, struct schedule **schedule, struct error *error)
{
    weft_status status = WEFT_OK;
    if (builder->exhausted)
        status =
            error_set(error, WEFT_ERROR_MEMORY,
                      "no memory for a schedule of %s by %s over %u ranks, or it exceeds the range of a step's fields",
                      collective_name(builder->shape->collective), builder->schedule->algorithm, builder->shape->ranks);
    if (status == WEFT_OK)
        status = builder_lay_out(builder, error);
    if (status == WEFT_OK) {
        *schedule = builder->schedule;
        builder->schedule = NULL;
    }
    builder_discard(builder);
    return status;
}

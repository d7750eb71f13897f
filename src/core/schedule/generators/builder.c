/* SPDX-License-Identifier: Apache-2.0 */
#include "core/schedule/generators/builder.h"

#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

static uint32_t input_blocks(const struct plan_shape *shape, uint32_t rank)
{
    switch (shape->collective) {
    case COLLECTIVE_REDUCE_SCATTER:
    case COLLECTIVE_ALLTOALL:
    case COLLECTIVE_ALLTOALLV:
        return shape->ranks;
    case COLLECTIVE_SCATTER:
        return rank == shape->root ? shape->ranks : 0;
    case COLLECTIVE_SENDRECEIVE:
        return rank == shape->root;
    case COLLECTIVE_BARRIER:
        return 0;
    default:
        return 1;
    }
}

static uint32_t output_blocks(const struct plan_shape *shape, uint32_t rank)
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
    case COLLECTIVE_SENDRECEIVE:
        return rank == shape->peer;
    case COLLECTIVE_BARRIER:
        return 0;
    default:
        return 1;
    }
}

weft_status builder_open(struct builder *builder, const struct plan_shape *shape, uint32_t rank, const char *algorithm,
                         struct error *error)
{
    *builder = (struct builder){.shape = shape, .plan = calloc(1, sizeof *builder->plan)};
    if (!builder->plan)
        return error_memory(error, sizeof *builder->plan, "a plan");
    *builder->plan = (struct plan){
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

/* Room for one more in an array that doubles; false when memory ran out. */
static bool builder_make_room(void **array, uint32_t *capacity, uint32_t needed, size_t each)
{
    if (needed <= *capacity)
        return true;
    uint32_t larger = *capacity ? *capacity * 2 : 8;
    while (larger < needed)
        larger *= 2;
    void *grown = realloc(*array, larger * each);
    if (!grown)
        return false;
    *array = grown;
    *capacity = larger;
    return true;
}

struct moment builder_add(struct builder *builder, uint32_t lane, struct step step)
{
    void *steps = builder->lanes[lane].steps;
    uint32_t count = builder->lanes[lane].count;
    if (builder->exhausted || count + 1 >= BUILDER_ALL ||
        !builder_make_room(&steps, &builder->lanes[lane].capacity, count + 1, sizeof step)) {
        builder->exhausted = true;
        return (struct moment){0};
    }
    builder->lanes[lane].steps = steps;
    builder->lanes[lane].steps[count] = step;
    builder->lanes[lane].count = count + 1;
    return builder_now(builder, lane);
}

struct moment builder_add_after(struct builder *builder, uint32_t lane, struct moment after, struct step step)
{
    bool in_order = after.lane == lane && !after.lag && after.steps != BUILDER_ALL; /* a lane is in order by itself */
    bool never = after.lag && !builder->plan->segment_bytes; /* there is no iteration before the first */
    if (after.steps && !in_order && !never) {
        step.wait_lane = after.lane;
        step.wait_lag = after.lag;
        step.wait_steps = after.steps;
    }
    return builder_add(builder, lane, step);
}

static void generators_builder_hold(struct builder *builder, uint32_t lane, struct moment after, enum step_flag flag)
{
    bool in_order = after.lane == lane && !after.lag;
    bool never = after.lag && !builder->plan->segment_bytes;
    if (after.steps && !in_order && !never)
        builder_add_after(
            builder, lane, after,
            (struct step){.kind = STEP_COPY, .flags = flag, .source = BUFFER_SCRATCH, .target = BUFFER_SCRATCH});
}

void builder_hold(struct builder *builder, uint32_t lane, struct moment after)
{
    generators_builder_hold(builder, lane, after, 0);
}

void builder_hold_staging(struct builder *builder, uint32_t lane, struct moment after)
{
    generators_builder_hold(builder, lane, after, STEP_WHERE_STAGED);
}

struct moment builder_now(const struct builder *builder, uint32_t lane)
{
    return (struct moment){.lane = (uint8_t)lane, .steps = (uint16_t)builder->lanes[lane].count};
}

struct moment builder_all(uint32_t lane, uint32_t lag)
{
    return (struct moment){.lane = (uint8_t)lane, .lag = (uint8_t)lag, .steps = BUILDER_ALL};
}

uint32_t builder_group(struct builder *builder, const uint32_t *members, uint32_t count)
{
    struct plan *plan = builder->plan;
    uint32_t used = 0;
    for (uint32_t i = 0; i < plan->group_count; i++) {
        const struct plan_group *group = &plan->groups[i];
        if (group->count == count && memcmp(plan->members + group->first, members, count * sizeof *members) == 0)
            return i;
        used = group->first + group->count;
    }
    struct plan_group *groups = realloc(plan->groups, (plan->group_count + 1) * sizeof *groups);
    if (groups)
        plan->groups = groups;
    uint32_t *all = realloc(plan->members, (used + count) * sizeof *all);
    if (all)
        plan->members = all;
    if (!groups || !all) {
        builder->exhausted = true;
        return 0;
    }
    memcpy(all + used, members, count * sizeof *members);
    groups[plan->group_count] = (struct plan_group){used, count};
    return plan->group_count++;
}

uint32_t builder_group_of_all(struct builder *builder)
{
    uint32_t ranks = builder->shape->ranks;
    uint32_t *members = malloc(ranks * sizeof *members);
    if (!members) {
        builder->exhausted = true;
        return 0;
    }
    for (uint32_t i = 0; i < ranks; i++)
        members[i] = i;
    uint32_t group = builder_group(builder, members, ranks);
    free(members);
    return group;
}

bool builder_segment(struct builder *builder, uint64_t bytes, uint32_t slots)
{
    if (builder->shape->block_bytes <= bytes)
        return false;
    builder->plan->segment_bytes = bytes;
    builder->plan->slots = slots;
    return true;
}

void builder_scratch(struct builder *builder, uint32_t chunks)
{
    if (builder->plan->scratch_chunks < chunks)
        builder->plan->scratch_chunks = chunks;
}

/* What all ranks agree on. In place is local to a rank and stays out. */
static uint64_t builder_hash_of(const struct builder *builder)
{
    const struct plan_shape *shape = builder->shape;
    const struct plan *plan = builder->plan;
    uint64_t words[] = {shape->collective,   shape->ranks,      plan->root,          shape->peer,
                        plan->parts,         plan->slots,       plan->segment_bytes, plan->most_block_bytes,
                        shape->reproducible, builder->text_hash};
    uint64_t hash = XXH3_64bits_withSeed(plan->algorithm, strlen(plan->algorithm), 0);
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
    struct plan *plan = builder->plan;
    uint32_t total = 0;
    for (uint32_t lane = 0; lane < PLAN_LANES; lane++) {
        plan->lane_first[lane] = total;
        total += builder->lanes[lane].count;
        if (builder->lanes[lane].count)
            plan->lane_count = lane + 1;
    }
    for (uint32_t lane = plan->lane_count; lane <= PLAN_LANES; lane++)
        plan->lane_first[lane] = total;
    plan->step_count = total;
    plan->steps = malloc((total ? total : 1) * sizeof *plan->steps);
    if (!plan->steps)
        return error_memory(error, total * sizeof *plan->steps, "the steps of a plan");
    for (uint32_t lane = 0; lane < plan->lane_count; lane++)
        if (builder->lanes[lane].count)
            memcpy(plan->steps + plan->lane_first[lane], builder->lanes[lane].steps,
                   builder->lanes[lane].count * sizeof *plan->steps);
    for (uint32_t i = 0; i < total; i++) {
        struct step *step = &plan->steps[i];
        if (step->wait_steps != BUILDER_ALL)
            continue;
        step->wait_steps = (uint16_t)builder->lanes[step->wait_lane].count;
        if (!step->wait_steps) { /* a lane without steps: nothing to wait for */
            step->wait_lane = step->wait_lag = 0;
            step->flags &= (uint8_t)~STEP_WHERE_STAGED;
        }
    }
    plan->hash = builder_hash_of(builder);
    return WEFT_OK;
}

void builder_discard(struct builder *builder)
{
    for (uint32_t lane = 0; lane < PLAN_LANES; lane++)
        free(builder->lanes[lane].steps);
    plan_free(builder->plan);
    builder->plan = NULL;
}

weft_status builder_close(struct builder *builder, struct plan **plan, struct error *error)
{
    weft_status status = WEFT_OK;
    if (builder->exhausted)
        status = error_set(
            error, WEFT_ERROR_MEMORY, "no memory for a plan of %s by %s over %u ranks, or it is too long to write down",
            collective_name(builder->shape->collective), builder->plan->algorithm, builder->shape->ranks);
    if (status == WEFT_OK)
        status = builder_lay_out(builder, error);
    if (status == WEFT_OK) {
        *plan = builder->plan;
        builder->plan = NULL;
    }
    builder_discard(builder);
    return status;
}

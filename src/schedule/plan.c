/* SPDX-License-Identifier: Apache-2.0 */
/* Names of collectives and steps; the checks that one plan alone allows. */
#include "schedule/plan.h"

#include "base/text.h"

#include <stdlib.h>
#include <string.h>

static const char *const collective_names[COLLECTIVES] = {
    [COLLECTIVE_ALLREDUCE] = "allreduce",     [COLLECTIVE_REDUCE_SCATTER] = "reduce_scatter",
    [COLLECTIVE_ALLGATHER] = "allgather",     [COLLECTIVE_BROADCAST] = "broadcast",
    [COLLECTIVE_REDUCE] = "reduce",           [COLLECTIVE_ALLTOALL] = "alltoall",
    [COLLECTIVE_GATHER] = "gather",           [COLLECTIVE_SCATTER] = "scatter",
    [COLLECTIVE_ALLGATHERV] = "allgatherv",   [COLLECTIVE_GATHERV] = "gatherv",
    [COLLECTIVE_ALLTOALLV] = "alltoallv",     [COLLECTIVE_BARRIER] = "barrier",
    [COLLECTIVE_SENDRECEIVE] = "sendreceive",
};

static const char *const step_names[STEP_KINDS] = {
    [STEP_SEND] = "send",
    [STEP_RECEIVE] = "receive",
    [STEP_RECEIVE_REDUCE] = "receive-reduce",
    [STEP_COPY] = "copy",
    [STEP_REDUCE] = "reduce",
    [STEP_FINISH] = "finish",
    [STEP_EXPOSE] = "expose",
    [STEP_SIGNAL] = "signal",
    [STEP_AWAIT] = "await",
    [STEP_READ] = "read",
    [STEP_GATHER_REDUCE] = "gather-reduce",
    [STEP_SPREAD] = "spread",
    [STEP_REDUCE_SPREAD] = "reduce-spread",
    [STEP_DELIVER] = "deliver",
    [STEP_EXCHANGE] = "exchange",
};

const char *collective_name(enum collective collective)
{
    return (unsigned)collective < COLLECTIVES ? collective_names[collective] : "unknown";
}

weft_status collective_parse(const char *name, enum collective *collective, struct error *error)
{
    for (unsigned i = 0; i < COLLECTIVES; i++) {
        if (strcmp(name, collective_names[i]) == 0) {
            *collective = (enum collective)i;
            return WEFT_OK;
        }
    }
    const char *nearest = text_nearest(name, collective_names, COLLECTIVES);
    return error_set(error, WEFT_ERROR_ARGUMENT, "there is no collective '%s'%s%s%s", name,
                     nearest ? "; did you mean '" : "", nearest ? nearest : "", nearest ? "'?" : "");
}

const char *step_kind_name(enum step_kind kind)
{
    return (unsigned)kind < STEP_KINDS ? step_names[kind] : "unknown";
}

void plan_free(struct plan *plan)
{
    if (!plan)
        return;
    free(plan->groups);
    free(plan->members);
    free(plan->steps);
    free(plan);
}

/* Which fields a kind uses. */
enum uses {
    USES_SOURCE = 1,
    USES_TARGET = 2,
    USES_RANK = 4,   /* peer is another rank */
    USES_GROUP = 8,  /* peer is a group */
    USES_INPUT = 16, /* source is INPUT */
    USES_OUTPUT = 32 /* target is OUTPUT */
};

static const uint8_t step_uses[STEP_KINDS] = {
    [STEP_SEND] = USES_SOURCE | USES_RANK,
    [STEP_RECEIVE] = USES_TARGET | USES_RANK,
    [STEP_RECEIVE_REDUCE] = USES_SOURCE | USES_TARGET | USES_RANK,
    [STEP_COPY] = USES_SOURCE | USES_TARGET,
    [STEP_REDUCE] = USES_SOURCE | USES_TARGET,
    [STEP_FINISH] = USES_TARGET,
    [STEP_EXPOSE] = USES_SOURCE | USES_INPUT,
    [STEP_SIGNAL] = USES_GROUP,
    [STEP_AWAIT] = USES_GROUP,
    [STEP_READ] = USES_TARGET | USES_RANK,
    [STEP_GATHER_REDUCE] = USES_TARGET | USES_GROUP,
    [STEP_SPREAD] = USES_SOURCE | USES_GROUP,
    [STEP_REDUCE_SPREAD] = USES_GROUP,
    [STEP_DELIVER] = USES_TARGET | USES_RANK | USES_OUTPUT,
    [STEP_EXCHANGE] = USES_GROUP,
};

/* `span` chunks of a buffer from `chunk` on. */
static const char *check_range(const struct plan *plan, const struct step *step, uint8_t buffer, uint32_t chunk,
                               uint64_t span)
{
    uint64_t limit, last = chunk + span;
    switch (buffer) {
    case BUFFER_INPUT:
        limit = (uint64_t)plan->input_blocks * plan->parts;
        break;
    case BUFFER_OUTPUT:
        limit = (uint64_t)plan->output_blocks * plan->parts;
        break;
    case BUFFER_SCRATCH:
        limit = plan->scratch_chunks;
        break;
    default:
        return "names a buffer that does not exist";
    }
    if (last > limit)
        return "reaches beyond the end of a buffer";
    if (buffer == BUFFER_SCRATCH || step->chunks <= 1 || step->kind == STEP_EXPOSE)
        return NULL;
    bool within_block = chunk % plan->parts + step->chunks <= plan->parts;
    bool whole_blocks = plan->parts == 1 && !plan->segment_bytes;
    return within_block || whole_blocks ? NULL : "crosses from one block to the next in a segmented plan";
}

static const char *check_step(const struct plan *plan, const struct step *step)
{
    if (step->kind >= STEP_KINDS)
        return "is of a kind that does not exist";
    uint8_t uses = step_uses[step->kind];
    if (step->flags & ~(STEP_RECEIVED_FIRST | STEP_FINISHES))
        return "has a flag that does not exist";
    if (step->wait_lane >= plan->lane_count)
        return "waits for a lane that does not exist";
    if (step->wait_steps > plan->lane_first[step->wait_lane + 1] - plan->lane_first[step->wait_lane])
        return "waits for more steps than the lane has";
    if ((uses & USES_RANK) && (step->peer >= plan->ranks || step->peer == plan->rank))
        return "names a peer that is no other rank";
    if ((uses & USES_GROUP) && step->peer >= plan->group_count)
        return "names a group that does not exist";
    if (step->kind == STEP_REDUCE_SPREAD && step->operands >= plan->group_count)
        return "spreads to a group that does not exist";
    if ((step->kind == STEP_GATHER_REDUCE || step->kind == STEP_REDUCE_SPREAD) && !plan->groups[step->peer].count)
        return "sums over a group of nobody";
    if (step->kind == STEP_AWAIT && (step->operands >= PLAN_LANES || !step->value || step->value > step->stride))
        return "awaits signals that are never made";
    if (step->kind == STEP_REDUCE &&
        (!step->operands || step->source != BUFFER_SCRATCH || step->chunks != 1 || !step->stride))
        return "is a reduction without operands in scratch";
    if ((uses & USES_INPUT) && step->source != BUFFER_INPUT)
        return "exposes something else than the input";
    if ((uses & USES_OUTPUT) && step->target != BUFFER_OUTPUT)
        return "delivers to something else than the output";
    if ((uses & USES_TARGET) && step->target == BUFFER_INPUT)
        return "writes to the input";
    const char *what = NULL;
    uint64_t operands = step->kind == STEP_REDUCE ? (uint64_t)(step->operands - 1) * step->stride + 1 : step->chunks;
    if (uses & USES_SOURCE)
        what = check_range(plan, step, step->source, step->source_chunk, operands);
    if (!what && (uses & USES_TARGET))
        what = check_range(plan, step, step->target, step->target_chunk, step->chunks);
    if (!what && step->kind == STEP_EXCHANGE && (step->value > EXCHANGE_NOTHING || plan->step_count != 1))
        return "is an exchange of no known form, or not alone";
    if (!what && step->kind == STEP_EXCHANGE && step->value == EXCHANGE_TAKE &&
        step->operands >= plan->groups[step->peer].count)
        return "takes from a member that the group does not have";
    if (!what && (uses & (USES_SOURCE | USES_TARGET)) && step->kind != STEP_EXPOSE && plan->parts > 1 &&
        step->value + step->chunks > plan->parts)
        return "is about parts that do not exist";
    return what;
}

static weft_status check_frame(const struct plan *plan, struct error *error)
{
    if (plan->rank >= plan->ranks || plan->root >= plan->ranks || !plan->parts || !plan->slots ||
        plan->slots > PLAN_SLOTS || plan->lane_count > PLAN_LANES)
        return error_set(error, WEFT_ERROR_PLAN,
                         "the plan's frame is corrupt: rank %u of %u, %u parts, %u slots, %u lanes", plan->rank,
                         plan->ranks, plan->parts, plan->slots, plan->lane_count);
    for (uint32_t lane = 0; lane < plan->lane_count; lane++)
        if (plan->lane_first[lane] > plan->lane_first[lane + 1])
            return error_set(error, WEFT_ERROR_PLAN, "the plan's lane %u ends before it begins", lane);
    if (plan->lane_first[0] != 0 || plan->lane_first[plan->lane_count] != plan->step_count)
        return error_set(error, WEFT_ERROR_PLAN, "the plan's lanes do not cover its %u steps", plan->step_count);
    for (uint32_t group = 0; group < plan->group_count; group++)
        for (uint32_t i = 0; i < plan->groups[group].count; i++)
            if (plan->members[plan->groups[group].first + i] >= plan->ranks)
                return error_set(error, WEFT_ERROR_PLAN, "the plan's group %u names rank %u of %u", group,
                                 plan->members[plan->groups[group].first + i], plan->ranks);
    return WEFT_OK;
}

weft_status plan_check(const struct plan *plan, struct error *error)
{
    weft_status status = check_frame(plan, error);
    if (status != WEFT_OK)
        return status;
    for (uint32_t lane = 0; lane < plan->lane_count; lane++) {
        for (uint32_t i = plan->lane_first[lane]; i < plan->lane_first[lane + 1]; i++) {
            const char *what = check_step(plan, &plan->steps[i]);
            if (what)
                return error_set(error, WEFT_ERROR_PLAN, "%s by %s, rank %u, lane %u, step %u (%s): %s",
                                 collective_name(plan->collective), plan->algorithm, plan->rank, lane,
                                 i - plan->lane_first[lane], step_kind_name(plan->steps[i].kind), what);
        }
    }
    return WEFT_OK;
}

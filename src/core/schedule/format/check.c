/* SPDX-License-Identifier: Apache-2.0 */
/* The checks that need one schedule alone. */
#include "core/schedule/format/schedule.h"

#include <string.h>

/* The meaning of a kind's fields. */
enum uses {
    USES_SOURCE = 1, /* source chunks are this rank's */
    USES_TARGET = 2, /* target chunks are this rank's */
    USES_RANK = 4,   /* peer is another rank */
    USES_GROUP = 8,  /* peer is a group */
    USES_PARTS = 16, /* value is a part */
};

/* The fields that all kinds use, as a mask; then those of source, target, and a number of chunks. */
#define ANY    .kind = 0xff, .wait_lane = 0xff, .wait_lag = 0xff, .wait_steps = 0xffff
#define SOURCE .source = 0xff, .source_chunk = UINT32_MAX
#define TARGET .target = 0xff, .target_chunk = UINT32_MAX
#define CHUNKS .chunks = 0xffff, .value = UINT32_MAX
#define PEER   .peer = UINT32_MAX

static const struct {
    uint8_t uses;
    struct step fields; /* a mask of those that are used */
} forms[STEP_KINDS] = {
    [STEP_SEND] = {USES_SOURCE | USES_RANK | USES_PARTS, {ANY, SOURCE, CHUNKS, PEER, .channel = 0xff}},
    [STEP_RECEIVE] = {USES_TARGET | USES_RANK | USES_PARTS, {ANY, TARGET, CHUNKS, PEER, .channel = 0xff}},
    [STEP_RECEIVE_REDUCE] = {USES_SOURCE | USES_TARGET | USES_RANK | USES_PARTS,
                             {ANY, SOURCE, TARGET, CHUNKS, PEER, .channel = 0xff,
                              .flags = STEP_RECEIVED_FIRST | STEP_FINISHES}},
    [STEP_COPY] = {USES_SOURCE | USES_TARGET | USES_PARTS, {ANY, SOURCE, TARGET, CHUNKS}},
    [STEP_REDUCE] = {USES_SOURCE | USES_TARGET | USES_PARTS,
                     {ANY, SOURCE, TARGET, CHUNKS, .operands = 0xffff, .stride = 0xffff, .flags = STEP_FINISHES}},
    [STEP_FINISH] = {USES_TARGET | USES_PARTS, {ANY, TARGET, CHUNKS}},
    [STEP_EXPOSE] = {USES_SOURCE, {ANY, .source_chunk = UINT32_MAX, CHUNKS}},
    [STEP_SIGNAL] = {USES_GROUP, {ANY, PEER}},
    [STEP_AWAIT] = {USES_GROUP,
                    {ANY, PEER, .operands = 0xffff, .stride = 0xffff, .value = UINT32_MAX, .value_lag = 0xff}},
    [STEP_READ] = {USES_TARGET | USES_RANK | USES_PARTS, {ANY, .source_chunk = UINT32_MAX, TARGET, CHUNKS, PEER}},
    [STEP_GATHER_REDUCE] = {USES_TARGET | USES_GROUP | USES_PARTS,
                            {ANY, .source_chunk = UINT32_MAX, TARGET, CHUNKS, PEER, .flags = STEP_FINISHES}},
    [STEP_SPREAD] = {USES_SOURCE | USES_GROUP | USES_PARTS, {ANY, SOURCE, TARGET, CHUNKS, PEER}},
    [STEP_REDUCE_SPREAD] = {USES_GROUP | USES_PARTS,
                            {ANY, .source_chunk = UINT32_MAX, TARGET, CHUNKS, PEER, .operands = 0xffff,
                             .flags = STEP_FINISHES}},
    [STEP_DELIVER] = {USES_TARGET | USES_RANK | USES_PARTS, {ANY, TARGET, CHUNKS, PEER}},
    [STEP_EXCHANGE] = {USES_GROUP, {ANY, PEER, .source_chunk = UINT32_MAX, .operands = 0xffff, .value = UINT32_MAX}},
};

/* Whether the fields that a kind does not use are 0. */
static bool is_clean(const struct step *step)
{
    unsigned char fields[sizeof *step], used[sizeof *step];
    memcpy(fields, step, sizeof *step);
    struct step fields_used = forms[step->kind].fields;
    if (step->wait_steps && step->kind == STEP_COPY && !step->chunks) /* a hold */
        fields_used.flags |= STEP_WHERE_STAGED;
    memcpy(used, &fields_used, sizeof *step);
    for (size_t i = 0; i < sizeof *step; i++)
        if (fields[i] & ~used[i])
            return false;
    return true;
}

/* Check `span` chunks of a buffer from `chunk` on. */
static const char *check_range(const struct schedule *schedule, const struct step *step, uint8_t buffer, uint32_t chunk,
                               uint64_t span)
{
    uint64_t limit, last = chunk + span;
    switch (buffer) {
    case BUFFER_INPUT:
        limit = (uint64_t)schedule->input_blocks * schedule->parts;
        break;
    case BUFFER_OUTPUT:
        limit = (uint64_t)schedule->output_blocks * schedule->parts;
        break;
    case BUFFER_SCRATCH:
        limit = schedule->scratch_chunks;
        break;
    default:
        return "names a buffer that does not exist";
    }
    if (last > limit)
        return "reaches beyond the end of a buffer";
    if (step->chunks <= 1 || step->kind == STEP_EXPOSE)
        return NULL;
    if (buffer == BUFFER_SCRATCH)
        return schedule->parts > 1 ? NULL : "names several blocks of scratch, where blocks are not contiguous";
    bool within_block = chunk % schedule->parts + step->chunks <= schedule->parts;
    bool whole_blocks = schedule->parts == 1 && !schedule->segment_bytes &&
                        !collective_is_vector(schedule->collective) && step->kind <= STEP_COPY;
    return within_block || whole_blocks ? NULL : "crosses from one block to the next where blocks are not contiguous";
}

static const char *check_wait(const struct schedule *schedule, const struct step *step)
{
    if (!step->wait_steps)
        return step->wait_lane || step->wait_lag ? "names a lane and waits for none of its steps" : NULL;
    if (step->wait_lane >= schedule->lane_count)
        return "waits for a lane that does not exist";
    if (step->wait_steps > schedule->lane_first[step->wait_lane + 1] - schedule->lane_first[step->wait_lane])
        return "waits for more steps than the lane has";
    return NULL;
}

/* The most blocks that any rank's input, or output, has: shared-memory steps may name those of another rank. */
static uint64_t most_input_blocks(const struct schedule *schedule)
{
    return collective_widest_input(schedule->collective, schedule->ranks);
}

static uint64_t most_output_blocks(const struct schedule *schedule)
{
    bool many = schedule->collective == COLLECTIVE_ALLGATHER || schedule->collective == COLLECTIVE_ALLGATHERV ||
                schedule->collective == COLLECTIVE_ALLTOALL || schedule->collective == COLLECTIVE_ALLTOALLV ||
                schedule->collective == COLLECTIVE_GATHER || schedule->collective == COLLECTIVE_GATHERV;
    return many ? schedule->ranks : 1;
}

/* Accesses to others' input and output. */
static const char *format_check_others(const struct schedule *schedule, const struct step *step)
{
    bool reads = step->kind == STEP_READ || step->kind == STEP_GATHER_REDUCE || step->kind == STEP_REDUCE_SPREAD;
    bool spreads = step->kind == STEP_SPREAD || step->kind == STEP_REDUCE_SPREAD;
    if ((reads || spreads) && step->chunks > 1 && schedule->parts == 1)
        return "names several blocks of other ranks: a step may name one";
    if (reads && step->source_chunk + (uint64_t)step->chunks > most_input_blocks(schedule) * schedule->parts)
        return "reads beyond the end of another rank's input";
    if (spreads && step->target_chunk + (uint64_t)step->chunks > most_output_blocks(schedule) * schedule->parts)
        return "reaches beyond the end of another rank's output";
    return NULL;
}

/* Checks for one kind. */
static const char *format_check_kind(const struct schedule *schedule, const struct step *step)
{
    switch (step->kind) {
    case STEP_REDUCE:
        if (!step->operands || step->source != BUFFER_SCRATCH || step->chunks != 1 || !step->stride)
            return "is a sum without operands in scratch";
        return NULL;
    case STEP_AWAIT:
        if (step->operands >= SCHEDULE_LANES || !step->value || step->value > step->stride)
            return "awaits signals that are never made";
        return NULL;
    case STEP_EXPOSE:
        return step->value != step->source_chunk % schedule->parts ? "has a value that is not the part of its chunk"
                                                                   : NULL;
    case STEP_REDUCE_SPREAD:
        if (step->operands >= schedule->group_count)
            return "spreads to a group that does not exist";
        if (step->target != BUFFER_OUTPUT)
            return "spreads to a buffer other than OUTPUT";
        return schedule->groups[step->peer].count ? NULL : "sums over an empty group";
    case STEP_GATHER_REDUCE:
        return schedule->groups[step->peer].count ? NULL : "sums over an empty group";
    case STEP_SPREAD:
        return step->target != BUFFER_OUTPUT ? "spreads to a buffer other than OUTPUT" : NULL;
    case STEP_DELIVER:
        return step->target != BUFFER_OUTPUT ? "delivers to a buffer other than OUTPUT" : NULL;
    case STEP_EXCHANGE:
        if (step->value > EXCHANGE_NOTHING || schedule->step_count != 1 || schedule->segment_bytes)
            return "is an exchange of an unknown form, or not the only step";
        if (step->operands && step->value != EXCHANGE_TAKE && step->value != EXCHANGE_REDUCE)
            return "names a member, but its form takes from none";
        if (step->source_chunk && step->value == EXCHANGE_NOTHING)
            return "names a block, but its form takes none";
        if (step->operands >= schedule->groups[step->peer].count + (step->value == EXCHANGE_REDUCE))
            return "takes from a member that does not exist in the group";
        if (schedule->groups[step->peer].count != schedule->ranks)
            return "is an exchange among some of the ranks only";
        if (schedule->collective != COLLECTIVE_BARRIER && schedule->collective != COLLECTIVE_SENDRECEIVE &&
            (!schedule->most_block_bytes ||
             schedule->most_block_bytes > SCHEDULE_INLINE_BYTES / most_input_blocks(schedule)))
            return "may carry more than fits beside a flag: the limit of bytes per block is too large";
        return NULL;
    default:
        return NULL;
    }
}

static const char *check_step(const struct schedule *schedule, const struct step *step)
{
    if (step->kind >= STEP_KINDS)
        return "is of a kind that does not exist";
    uint8_t uses = forms[step->kind].uses;
    if (step->kind >= STEP_EXPOSE && collective_hides_sizes(schedule->collective))
        return "uses shared memory, which needs the sizes of other ranks' blocks: send messages instead";
    if (!is_clean(step))
        return "sets a field that its kind does not use";
    const char *what = check_wait(schedule, step);
    if (what)
        return what;
    if ((uses & USES_RANK) && (step->peer >= schedule->ranks || step->peer == schedule->rank))
        return "names a peer that is not another rank";
    if ((uses & USES_GROUP) && step->peer >= schedule->group_count)
        return "names a group that does not exist";
    if ((uses & USES_TARGET) && step->target == BUFFER_INPUT && step->chunks)
        return "writes to the input";
    if ((uses & USES_PARTS) && schedule->parts > 1 && step->value + (uint64_t)step->chunks > schedule->parts)
        return "names parts that do not exist";
    if ((uses & USES_PARTS) && step->value >= schedule->parts)
        return "names a part that does not exist";
    what = format_check_kind(schedule, step);
    if (!what)
        what = format_check_others(schedule, step);
    uint64_t span = step->kind == STEP_REDUCE ? (uint64_t)(step->operands - 1) * step->stride + 1 : step->chunks;
    if (!what && (uses & USES_SOURCE))
        what = check_range(schedule, step, step->source, step->source_chunk, span);
    if (!what && (uses & USES_TARGET))
        what = check_range(schedule, step, step->target, step->target_chunk, step->chunks);
    return what;
}

static weft_status check_frame(const struct schedule *schedule, struct error *error)
{
    if (schedule->rank >= schedule->ranks || schedule->root >= schedule->ranks || !schedule->parts ||
        !schedule->slots || schedule->slots > SCHEDULE_SLOTS || schedule->lane_count > SCHEDULE_LANES)
        return error_set(error, WEFT_ERROR_SCHEDULE,
                         "the schedule's frame is corrupt: rank %u of %u, %u parts, %u slots, %u lanes", schedule->rank,
                         schedule->ranks, schedule->parts, schedule->slots, schedule->lane_count);
    if (schedule->segment_bytes && collective_hides_sizes(schedule->collective))
        return error_set(error, WEFT_ERROR_SCHEDULE,
                         "%s by %s is segmented, but no rank knows the largest block, which decides how many segments "
                         "there are",
                         collective_name(schedule->collective), schedule->algorithm);
    for (uint32_t lane = 0; lane < schedule->lane_count; lane++)
        if (schedule->lane_first[lane] > schedule->lane_first[lane + 1])
            return error_set(error, WEFT_ERROR_SCHEDULE, "the schedule's lane %u ends before it begins", lane);
    if (schedule->lane_first[0] != 0 || schedule->lane_first[schedule->lane_count] != schedule->step_count)
        return error_set(error, WEFT_ERROR_SCHEDULE, "the schedule's lanes do not cover its %u steps",
                         schedule->step_count);
    for (uint32_t group = 0; group < schedule->group_count; group++) {
        const uint32_t *members = schedule->members + schedule->groups[group].first;
        for (uint32_t i = 0; i < schedule->groups[group].count; i++) {
            if (members[i] >= schedule->ranks)
                return error_set(error, WEFT_ERROR_SCHEDULE, "the schedule's group %u names rank %u of %u", group,
                                 members[i], schedule->ranks);
            if (i && members[i] <= members[i - 1])
                return error_set(error, WEFT_ERROR_SCHEDULE,
                                 "the schedule's group %u names rank %u after rank %u: not in canonical order", group,
                                 members[i], members[i - 1]);
        }
    }
    return WEFT_OK;
}

weft_status schedule_check(const struct schedule *schedule, struct error *error)
{
    weft_status status = check_frame(schedule, error);
    if (status != WEFT_OK)
        return status;
    for (uint32_t lane = 0; lane < schedule->lane_count; lane++) {
        for (uint32_t i = schedule->lane_first[lane]; i < schedule->lane_first[lane + 1]; i++) {
            const char *what = check_step(schedule, &schedule->steps[i]);
            if (what)
                return error_set(error, WEFT_ERROR_SCHEDULE, "%s by %s, rank %u, lane %u, step %u (%s): %s",
                                 collective_name(schedule->collective), schedule->algorithm, schedule->rank, lane,
                                 i - schedule->lane_first[lane], step_kind_name(schedule->steps[i].kind), what);
        }
    }
    return WEFT_OK;
}

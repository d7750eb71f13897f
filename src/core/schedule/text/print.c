/* SPDX-License-Identifier: Apache-2.0 */
#include "core/schedule/text/print.h"

#include <inttypes.h>

static const char *const buffer_names[] = {"input", "output", "scratch"};

/* "input[4]", "output[0..3]" */
static void print_range(FILE *out, uint8_t buffer, uint32_t first, uint32_t chunks)
{
    if (chunks == 0)
        fprintf(out, "nothing");
    else if (chunks == 1)
        fprintf(out, "%s[%u]", buffer_names[buffer % 3], first);
    else
        fprintf(out, "%s[%u..%u]", buffer_names[buffer % 3], first, first + chunks - 1);
}

static void print_group(FILE *out, const struct schedule *schedule, uint32_t index)
{
    const struct schedule_group *group = &schedule->groups[index];
    if (group->count == schedule->ranks) {
        fprintf(out, "all");
        return;
    }
    fprintf(out, "{");
    for (uint32_t i = 0; i < group->count; i++)
        fprintf(out, "%s%u", i ? ", " : "", schedule->members[group->first + i]);
    fprintf(out, "}");
}

static void print_source(FILE *out, const struct step *step)
{
    print_range(out, step->source, step->source_chunk, step->chunks);
}

static void print_target(FILE *out, const struct step *step)
{
    print_range(out, step->target, step->target_chunk, step->chunks);
}

static void print_exchange(FILE *out, const struct step *step)
{
    switch (step->value) {
    case EXCHANGE_REDUCE:
        fprintf(out, ", sum of block %u", step->source_chunk);
        if (step->operands)
            fprintf(out, " of the first %u", step->operands);
        fprintf(out, " to output");
        break;
    case EXCHANGE_GATHER:
        fprintf(out, ", block %u of each to output", step->source_chunk);
        break;
    case EXCHANGE_TAKE:
        fprintf(out, ", block %u of member %u to output", step->source_chunk, step->operands);
        break;
    default:
        break;
    }
}

static void print_what(const struct schedule *schedule, const struct step *step, FILE *out)
{
    switch (step->kind) {
    case STEP_SEND:
        print_source(out, step);
        fprintf(out, " to %u", step->peer);
        break;
    case STEP_RECEIVE:
        fprintf(out, "from %u into ", step->peer);
        print_target(out, step);
        break;
    case STEP_RECEIVE_REDUCE:
        print_target(out, step);
        fprintf(out, " = ");
        if (step->flags & STEP_RECEIVED_FIRST)
            fprintf(out, "from %u + ", step->peer);
        print_source(out, step);
        if (!(step->flags & STEP_RECEIVED_FIRST))
            fprintf(out, " + from %u", step->peer);
        break;
    case STEP_COPY:
        print_source(out, step);
        fprintf(out, " to ");
        print_target(out, step);
        break;
    case STEP_REDUCE:
        print_target(out, step);
        fprintf(out, " = tree of %s[%u..%u]", buffer_names[step->source % 3], step->source_chunk,
                step->source_chunk + (step->operands - 1u) * step->stride);
        if (step->stride > 1)
            fprintf(out, " by %u", step->stride);
        break;
    case STEP_FINISH:
        print_target(out, step);
        break;
    case STEP_EXPOSE:
        print_source(out, step);
        break;
    case STEP_SIGNAL:
        print_group(out, schedule, step->peer);
        break;
    case STEP_AWAIT:
        fprintf(out, "signal %u of %u, lane %u of ", step->value, step->stride, step->operands);
        print_group(out, schedule, step->peer);
        if (step->value_lag)
            fprintf(out, ", %u iterations back", step->value_lag);
        break;
    case STEP_READ:
        print_range(out, BUFFER_INPUT, step->source_chunk, step->chunks);
        fprintf(out, " of %u into ", step->peer);
        print_target(out, step);
        break;
    case STEP_GATHER_REDUCE:
        print_target(out, step);
        fprintf(out, " = tree of ");
        print_range(out, BUFFER_INPUT, step->source_chunk, step->chunks);
        fprintf(out, " of ");
        print_group(out, schedule, step->peer);
        break;
    case STEP_SPREAD:
        print_source(out, step);
        fprintf(out, " to ");
        print_range(out, BUFFER_OUTPUT, step->target_chunk, step->chunks);
        fprintf(out, " of ");
        print_group(out, schedule, step->peer);
        break;
    case STEP_REDUCE_SPREAD:
        fprintf(out, "tree of ");
        print_range(out, BUFFER_INPUT, step->source_chunk, step->chunks);
        fprintf(out, " of ");
        print_group(out, schedule, step->peer);
        fprintf(out, " to ");
        print_range(out, BUFFER_OUTPUT, step->target_chunk, step->chunks);
        fprintf(out, " of ");
        print_group(out, schedule, step->operands);
        break;
    case STEP_DELIVER:
        print_target(out, step);
        fprintf(out, " spread by %u", step->peer);
        break;
    case STEP_EXCHANGE:
        print_group(out, schedule, step->peer);
        print_exchange(out, step);
        break;
    default:
        break;
    }
}

/* Print the part where neither side is a part of a user's buffer, which would imply it. */
static bool needs_part(const struct step *step)
{
    static const uint8_t sides[STEP_KINDS] = {/* 1: source, 2: target */
                                              [STEP_SEND] = 1, [STEP_RECEIVE] = 2, [STEP_RECEIVE_REDUCE] = 3,
                                              [STEP_COPY] = 3, [STEP_REDUCE] = 3,  [STEP_FINISH] = 2};
    uint8_t side = sides[step->kind];
    return side && step->value && step->chunks && (!(side & 1) || step->source == BUFFER_SCRATCH) &&
           (!(side & 2) || step->target == BUFFER_SCRATCH);
}

static void print_step(const struct schedule *schedule, const struct step *step, uint32_t number, FILE *out)
{
    bool holds = step->kind == STEP_COPY && !step->chunks; /* a step that only waits */
    fprintf(out, "    %3u  %-14s  ", number, holds ? "hold" : step_kind_name(step->kind));
    if (!holds)
        print_what(schedule, step, out);
    if (step->flags & STEP_FINISHES)
        fprintf(out, ", finished");
    if (step->kind <= STEP_RECEIVE_REDUCE && step->channel)
        fprintf(out, ", channel %u", step->channel);
    if (needs_part(step))
        fprintf(out, ", part %u", step->value);
    if (step->wait_steps) {
        fprintf(out, "%s(after step %u of lane %u", holds ? "" : "  ", step->wait_steps - 1, step->wait_lane);
        if (step->wait_lag)
            fprintf(out, ", %u iteration%s back", step->wait_lag, step->wait_lag > 1 ? "s" : "");
        if (step->flags & STEP_WHERE_STAGED)
            fprintf(out, ", where staged");
        fprintf(out, ")");
    }
    fprintf(out, "\n");
}

/* Bytes in a schedule's notation, without rounding: "256K". */
static void text_print_bytes(FILE *out, const char *key, uint64_t bytes)
{
    unsigned shift = bytes % (1u << 20) == 0 ? 20 : bytes % (1u << 10) == 0 ? 10 : 0;
    fprintf(out, "%-12s%" PRIu64 "%s", key, bytes >> shift, shift == 20 ? "M" : shift == 10 ? "K" : "");
}

void schedule_print_frame(const struct schedule *schedule, const struct schedule_shape *shape, FILE *out)
{
    fprintf(out, "weft schedule 1\n");
    fprintf(out, "%-12s%s\n%-12s%s\n%-12s%u\n", "collective", collective_name(schedule->collective), "algorithm",
            schedule->algorithm, "ranks", schedule->ranks);
    if (collective_is_rooted(schedule->collective) || schedule->collective == COLLECTIVE_SENDRECEIVE)
        fprintf(out, "%-12s%u\n", "root", schedule->root);
    if (schedule->collective == COLLECTIVE_SENDRECEIVE)
        fprintf(out, "%-12s%u\n", "peer", shape->peer);
    if (schedule->parts > 1)
        fprintf(out, "%-12s%u\n", "parts", schedule->parts);
    if (schedule->segment_bytes) {
        text_print_bytes(out, "segment", schedule->segment_bytes);
        fprintf(out, " in %u slot%s\n", schedule->slots, schedule->slots > 1 ? "s" : "");
    }
    if (schedule->most_block_bytes) {
        text_print_bytes(out, "most", schedule->most_block_bytes);
        fprintf(out, "\n");
    }
    if (collective_reduces(schedule->collective) && schedule->canonical)
        fprintf(out, "canonical\n");
    if (schedule->collective == COLLECTIVE_ALLTOALL && shape->in_place)
        fprintf(out, "in-place\n");
}

void schedule_print(const struct schedule *schedule, FILE *out)
{
    fprintf(out, "\nrank %u    # %u input and %u output block%s, %u step%s\n", schedule->rank, schedule->input_blocks,
            schedule->output_blocks, schedule->output_blocks == 1 ? "" : "s", schedule->step_count,
            schedule->step_count == 1 ? "" : "s");
    if (schedule->scratch_chunks)
        fprintf(out, "  scratch %u\n", schedule->scratch_chunks);
    for (uint32_t lane = 0; lane < schedule->lane_count; lane++) {
        if (schedule->lane_first[lane] == schedule->lane_first[lane + 1])
            continue;
        fprintf(out, "  lane %u\n", lane);
        for (uint32_t i = schedule->lane_first[lane]; i < schedule->lane_first[lane + 1]; i++)
            print_step(schedule, &schedule->steps[i], i - schedule->lane_first[lane], out);
    }
}

/* SPDX-License-Identifier: Apache-2.0 */
#include "schedule/print.h"

#include "base/text.h"

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

static void print_group(FILE *out, const struct plan *plan, uint32_t index)
{
    const struct plan_group *group = &plan->groups[index];
    if (group->count == plan->ranks) {
        fprintf(out, "all");
        return;
    }
    fprintf(out, "{");
    for (uint32_t i = 0; i < group->count; i++)
        fprintf(out, "%s%u", i ? " " : "", plan->members[group->first + i]);
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
        fprintf(out, ", sum of block %u to output", step->source_chunk);
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

static void print_what(const struct plan *plan, const struct step *step, FILE *out)
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
        print_group(out, plan, step->peer);
        break;
    case STEP_AWAIT:
        fprintf(out, "signal %u of %u, lane %u of ", step->value, step->stride, step->operands);
        print_group(out, plan, step->peer);
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
        print_group(out, plan, step->peer);
        break;
    case STEP_SPREAD:
        print_source(out, step);
        fprintf(out, " to ");
        print_range(out, BUFFER_OUTPUT, step->target_chunk, step->chunks);
        fprintf(out, " of ");
        print_group(out, plan, step->peer);
        break;
    case STEP_REDUCE_SPREAD:
        fprintf(out, "tree of ");
        print_range(out, BUFFER_INPUT, step->source_chunk, step->chunks);
        fprintf(out, " of ");
        print_group(out, plan, step->peer);
        fprintf(out, " to ");
        print_range(out, BUFFER_OUTPUT, step->target_chunk, step->chunks);
        fprintf(out, " of ");
        print_group(out, plan, step->operands);
        break;
    case STEP_DELIVER:
        print_target(out, step);
        fprintf(out, " spread by %u", step->peer);
        break;
    case STEP_EXCHANGE:
        print_group(out, plan, step->peer);
        print_exchange(out, step);
        break;
    default:
        break;
    }
}

static void print_step(const struct plan *plan, const struct step *step, uint32_t number, FILE *out)
{
    bool holds = step->kind == STEP_COPY && !step->chunks; /* a step for the sake of its wait */
    fprintf(out, "    %3u  %-14s  ", number, holds ? "hold" : step_kind_name(step->kind));
    if (!holds)
        print_what(plan, step, out);
    if (step->flags & STEP_FINISHES)
        fprintf(out, ", finished");
    if (step->kind <= STEP_RECEIVE_REDUCE && step->channel)
        fprintf(out, ", channel %u", step->channel);
    if (step->wait_steps) {
        fprintf(out, "%s(after step %u of lane %u", holds ? "" : "  ", step->wait_steps - 1, step->wait_lane);
        if (step->wait_lag)
            fprintf(out, ", %u iteration%s back", step->wait_lag, step->wait_lag > 1 ? "s" : "");
        fprintf(out, ")");
    }
    fprintf(out, "\n");
}

void plan_print(const struct plan *plan, FILE *out)
{
    char text[32];
    fprintf(out, "%s by %s, rank %u of %u", collective_name(plan->collective), plan->algorithm, plan->rank,
            plan->ranks);
    fprintf(out, ": %u input and %u output blocks of %u part%s, %u steps", plan->input_blocks, plan->output_blocks,
            plan->parts, plan->parts > 1 ? "s" : "", plan->step_count);
    if (plan->segment_bytes)
        fprintf(out, ", segments of %s in %u slot%s", text_bytes(plan->segment_bytes, text, sizeof text), plan->slots,
                plan->slots > 1 ? "s" : "");
    if (plan->scratch_chunks)
        fprintf(out, ", scratch of %u chunks", plan->scratch_chunks);
    if (plan->most_block_bytes)
        fprintf(out, ", blocks up to %" PRIu64 " bytes", plan->most_block_bytes);
    fprintf(out, ", %scanonical, hash %016" PRIx64 "\n", plan->canonical ? "" : "not ", plan->hash);
    for (uint32_t lane = 0; lane < plan->lane_count; lane++) {
        if (plan->lane_first[lane] == plan->lane_first[lane + 1])
            continue;
        fprintf(out, "  lane %u\n", lane);
        for (uint32_t i = plan->lane_first[lane]; i < plan->lane_first[lane + 1]; i++)
            print_step(plan, &plan->steps[i], i - plan->lane_first[lane], out);
    }
}

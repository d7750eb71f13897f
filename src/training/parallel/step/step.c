/* SPDX-License-Identifier: Apache-2.0 */
/* What operations are called, and a schedule as text. */
#include "training/parallel/step/show.h"

static const struct kind_facts {
    const char *name;
    bool asynchronous, compute;
} kind_facts[OPERATION_KINDS] = {
    [OPERATION_FORWARD] = {.name = "forward", .compute = true},
    [OPERATION_BACKWARD_INPUT] = {.name = "backward-input", .compute = true},
    [OPERATION_BACKWARD_WEIGHTS] = {.name = "backward-weights", .compute = true},
    [OPERATION_SEND_OUTPUT] = {.name = "send-output", .asynchronous = true},
    [OPERATION_RECEIVE_INPUT] = {.name = "receive-input", .asynchronous = true},
    [OPERATION_SEND_GRADIENT] = {.name = "send-gradient", .asynchronous = true},
    [OPERATION_RECEIVE_GRADIENT] = {.name = "receive-gradient", .asynchronous = true},
    [OPERATION_GATHER] = {.name = "gather", .asynchronous = true},
    [OPERATION_RELEASE] = {.name = "release"},
    [OPERATION_REDUCE] = {.name = "reduce", .asynchronous = true},
    [OPERATION_TIE] = {.name = "tie", .asynchronous = true},
    [OPERATION_NORM] = {.name = "norm"},
    [OPERATION_UPDATE] = {.name = "update"},
    [OPERATION_SHARE] = {.name = "share", .asynchronous = true},
    [OPERATION_FINISH] = {.name = "finish"},
};

const char *step_operation_name(enum step_operation_kind kind)
{
    return kind_facts[kind].name;
}

bool step_operation_is_asynchronous(enum step_operation_kind kind)
{
    return kind_facts[kind].asynchronous;
}

bool step_operation_computes(enum step_operation_kind kind)
{
    return kind_facts[kind].compute;
}

static void print_number(const char *what, uint32_t number, struct buffer *text)
{
    if (number != STEP_NONE)
        buffer_print(text, " %s %u", what, number);
}

void step_print_operation(const struct step_schedule *schedule, size_t number, struct buffer *text)
{
    const struct step_operation *operation = &schedule->operations[number];
    buffer_print(text, "%zu %s", number, step_operation_name(operation->kind));
    print_number("stage", operation->stage, text);
    print_number("unit", operation->unit, text);
    print_number("micro-batch", operation->micro_batch, text);
    print_number("slot", operation->slot, text);
    print_number("input", operation->input, text);
    print_number("buffer", operation->buffer, text);
    for (uint32_t i = 0; i < operation->dependency_count; i++) {
        const uint32_t before = schedule->dependencies[operation->dependency + i];
        buffer_print(text, "%s %u%s", i ? "," : " after", before, before >= number ? " of the step before" : "");
    }
}

void step_print(const struct step_schedule *schedule, struct buffer *text)
{
    buffer_print(text, "pipeline rank %u: %zu operations, %u slots, %u inputs", schedule->pipeline_rank,
                 schedule->count, schedule->slots, schedule->inputs);
    if (schedule->gathered)
        buffer_print(text, ", %u units gathered", schedule->gathered);
    buffer_put_string(text, "\n");
    for (size_t i = 0; i < schedule->count; i++) {
        buffer_put_string(text, "  ");
        step_print_operation(schedule, i, text);
        buffer_put_string(text, "\n");
    }
}

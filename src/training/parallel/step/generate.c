/* SPDX-License-Identifier: Apache-2.0 */
/* From an order of passes to a schedule: units, messages, buffers, gathers, reductions and the optimizer. */
#include "training/parallel/step/internal/order.h"

#include <stdlib.h>
#include <string.h>

/* ---- pipeline schedules ---- */

const char *const step_pipeline_names[] = {
    [STEP_GPIPE] = "gpipe",          [STEP_1F1B] = "1f1b",     [STEP_INTERLEAVED] = "interleaved",
    [STEP_ZERO_BUBBLE_H1] = "zb-h1", [STEP_EVALUATION] = NULL, /* users do not choose it */
};

typedef void (*pipeline_order)(const struct step_shape *shape, uint32_t pipeline_rank, struct step_order *order);

static const pipeline_order pipeline_orders[] = {
    [STEP_GPIPE] = step_order_gpipe,
    [STEP_1F1B] = step_order_1f1b,
    [STEP_INTERLEAVED] = step_order_interleaved,
    [STEP_ZERO_BUBBLE_H1] = step_order_zero_bubble,
    [STEP_EVALUATION] = step_order_evaluation,
};

const char *step_pipeline_name(enum step_pipeline order)
{
    return order == STEP_EVALUATION ? "evaluation" : step_pipeline_names[order];
}

/* ---- the writer ---- */

/* Numbers of memory that are handed out, the lowest free one first. */
struct number_pool {
    bool *taken;
    uint32_t count; /* the largest that was taken, plus 1 */
    uint32_t first; /* all before it are taken */
};

static uint32_t number_pool_take(struct number_pool *pool)
{
    uint32_t number = pool->first;
    while (pool->taken[number])
        number++;
    pool->taken[number] = true;
    pool->first = number + 1;
    if (number >= pool->count)
        pool->count = number + 1;
    return number;
}

static void number_pool_give_back(struct number_pool *pool, uint32_t number)
{
    if (number == STEP_NONE)
        return;
    pool->taken[number] = false;
    pool->first = number < pool->first ? number : pool->first;
}

/* A micro-batch on a stage of this rank. */
struct stage_visit {
    uint32_t slot, input, gradient;           /* memory; STEP_NONE: none */
    uint32_t receive_input, receive_gradient; /* operations; STEP_NONE: none, or not written yet */
};

struct step_writer {
    const struct step_shape *shape;
    struct step_schedule *schedule;
    bool counts; /* memory alone: nothing is appended */
    struct step_order order;
    struct stage_visit *visits; /* of each local stage and micro-batch */
    struct number_pool slots, inputs;
    uint32_t outputs_sent[STEP_OUTPUT_BUFFERS]; /* the last send of each output, and of each gradient */
    uint32_t gradients_sent[STEP_GRADIENT_BUFFERS];
    uint32_t gradients_reduced[STEP_REDUCTION_BUFFERS]; /* ZeRO-2, 3: the last reduction of each buffer */
    uint32_t outputs, gradients, reductions;            /* handed out so far */
    uint32_t *uses;                                     /* ZeRO-3: the units that passes use, in order */
    uint32_t use_count, use, use_ahead;                 /* of them: all, that of the pass under way, gathered so far */
    uint32_t resident;                                  /* units gathered or being gathered */
    uint32_t *gather_of;                                /* the last gather of each unit */
    uint32_t *share_awaited; /* ZeRO-1, 2: of each unit, the place of the dependency on its share of the step before;
                                STEP_NONE: no pass has been written */
    bool *known_complete;    /* of each operation */
    size_t known_room;
    weft_status status; /* the first failure */
    struct error *error;
};

static struct stage_visit *visit_of(struct step_writer *writer, uint32_t stage, uint32_t micro_batch)
{
    return &writer->visits[stage / writer->shape->pipeline * writer->shape->micro_batches + micro_batch];
}

static bool writer_is_last_stage(const struct step_writer *writer, uint32_t stage)
{
    return stage + 1 == writer->shape->stages;
}

/* Append an operation; its number. After a failure of memory nothing is appended any more. */
static uint32_t writer_append(struct step_writer *writer, struct step_operation operation)
{
    struct step_schedule *schedule = writer->schedule;
    if (writer->counts)
        return 0;
    if (writer->status == WEFT_OK)
        writer->status =
            ARRAY_RESERVE(schedule->operations, schedule->room, schedule->count + 1, "a step", writer->error);
    if (writer->status == WEFT_OK)
        writer->status =
            ARRAY_RESERVE(writer->known_complete, writer->known_room, schedule->count + 1, "a step", writer->error);
    if (writer->status != WEFT_OK)
        return STEP_NONE;
    operation.dependency = (uint32_t)schedule->dependency_count;
    writer->known_complete[schedule->count] = !step_operation_is_asynchronous(operation.kind);
    schedule->operations[schedule->count] = operation;
    return (uint32_t)schedule->count++;
}

/* The operation appended last depends on `number`. */
static void append_dependency(struct step_writer *writer, uint32_t number)
{
    struct step_schedule *schedule = writer->schedule;
    if (writer->status == WEFT_OK)
        writer->status = ARRAY_RESERVE(schedule->dependencies, schedule->dependency_room,
                                       schedule->dependency_count + 1, "a step", writer->error);
    if (writer->status != WEFT_OK)
        return;
    schedule->dependencies[schedule->dependency_count++] = number;
    schedule->operations[schedule->count - 1].dependency_count++;
}

/* It needs that `number` is complete, unless that is known. */
static void writer_depend(struct step_writer *writer, uint32_t number)
{
    if (number == STEP_NONE || writer->counts || writer->status != WEFT_OK || writer->known_complete[number])
        return;
    append_dependency(writer, number);
    if (writer->status == WEFT_OK)
        writer->known_complete[number] = true;
}

/* The same for the share of a unit in the step before, whose number is not known yet. */
static void depend_on_share(struct step_writer *writer, uint32_t unit)
{
    if (!step_shares_move_on(writer->shape) || writer->share_awaited[unit] != STEP_NONE)
        return;
    append_dependency(writer, STEP_NONE);
    writer->share_awaited[unit] = (uint32_t)writer->schedule->dependency_count - 1;
}

static uint32_t append_message(struct step_writer *writer, enum step_operation_kind kind, const struct step_pass *pass,
                               uint32_t buffer)
{
    return writer_append(writer,
                         (struct step_operation){.kind = kind,
                                                 .stage = pass->stage,
                                                 .unit = STEP_NONE,
                                                 .micro_batch = pass->micro_batch,
                                                 .slot = STEP_NONE,
                                                 .input = kind == OPERATION_RECEIVE_INPUT ? buffer : STEP_NONE,
                                                 .buffer = kind == OPERATION_RECEIVE_INPUT ? STEP_NONE : buffer});
}

static uint32_t append_unit(struct step_writer *writer, enum step_operation_kind kind, uint32_t stage, uint32_t unit,
                            uint32_t micro_batch, uint32_t buffer)
{
    return writer_append(writer, (struct step_operation){.kind = kind,
                                                         .stage = stage,
                                                         .unit = unit,
                                                         .micro_batch = micro_batch,
                                                         .slot = STEP_NONE,
                                                         .input = STEP_NONE,
                                                         .buffer = buffer});
}

/* ---- ZeRO-3: weights only while they are used ---- */

static bool gathers(const struct step_shape *shape)
{
    return shape->zero == 3 && shape->data > 1;
}

/* Whether use `later` finds the unit where use `earlier` left it. */
static bool stays_between(const struct step_writer *writer, uint32_t earlier, uint32_t later)
{
    return later - earlier <= writer->shape->prefetch && writer->uses[earlier] == writer->uses[later];
}

static bool is_resident(const struct step_writer *writer, uint32_t use)
{
    for (uint32_t earlier = use; earlier-- > 0 && use - earlier <= writer->shape->prefetch;)
        if (stays_between(writer, earlier, use))
            return true;
    return false;
}

static bool is_used_again(const struct step_writer *writer, uint32_t use)
{
    for (uint32_t later = use + 1; later < writer->use_count && later - use <= writer->shape->prefetch; later++)
        if (stays_between(writer, use, later))
            return true;
    return false;
}

/* Before a unit is used: gather the ones to come. */
static void gather_ahead(struct step_writer *writer)
{
    if (!gathers(writer->shape))
        return;
    for (; writer->use_ahead < writer->use_count && writer->use_ahead <= writer->use + writer->shape->prefetch;
         writer->use_ahead++) {
        if (is_resident(writer, writer->use_ahead))
            continue;
        const uint32_t unit = writer->uses[writer->use_ahead];
        writer->gather_of[unit] =
            append_unit(writer, OPERATION_GATHER, step_unit_stage(writer->shape, unit), unit, STEP_NONE, STEP_NONE);
        if (++writer->resident > writer->schedule->gathered)
            writer->schedule->gathered = writer->resident;
    }
}

/* After it. */
static void release_behind(struct step_writer *writer, uint32_t stage, uint32_t unit)
{
    if (!gathers(writer->shape))
        return;
    if (!is_used_again(writer, writer->use)) {
        append_unit(writer, OPERATION_RELEASE, stage, unit, STEP_NONE, STEP_NONE);
        writer->resident--;
    }
    writer->use++;
}

/* ---- passes ---- */

/* The receive of a pass. It is written one pass ahead, so that what is received moves meanwhile. */
static void write_receive(struct step_writer *writer, const struct step_pass *pass)
{
    struct stage_visit *visit = visit_of(writer, pass->stage, pass->micro_batch);
    if (pass->kind == OPERATION_FORWARD && pass->stage > 0 && visit->receive_input == STEP_NONE) {
        visit->input = number_pool_take(&writer->inputs);
        visit->receive_input = append_message(writer, OPERATION_RECEIVE_INPUT, pass, visit->input);
    }
    if (pass->kind == OPERATION_BACKWARD_INPUT && visit->gradient == STEP_NONE) {
        visit->gradient = writer->gradients++ % STEP_GRADIENT_BUFFERS;
        if (writer_is_last_stage(writer, pass->stage))
            return;
        visit->receive_gradient = append_message(writer, OPERATION_RECEIVE_GRADIENT, pass, visit->gradient);
        writer_depend(writer, writer->gradients_sent[visit->gradient]);
    }
}

static void write_receives(struct step_writer *writer, size_t number)
{
    write_receive(writer, &writer->order.passes[number]);
    for (number++; number < writer->order.count; number++)
        if (writer->order.passes[number].kind != OPERATION_BACKWARD_WEIGHTS) {
            write_receive(writer, &writer->order.passes[number]);
            break;
        }
}

static uint32_t append_compute(struct step_writer *writer, enum step_operation_kind kind, const struct step_pass *pass,
                               uint32_t unit, uint32_t buffer)
{
    const struct stage_visit *visit = visit_of(writer, pass->stage, pass->micro_batch);
    return writer_append(writer, (struct step_operation){.kind = kind,
                                                         .stage = pass->stage,
                                                         .unit = unit,
                                                         .micro_batch = pass->micro_batch,
                                                         .slot = visit->slot,
                                                         .input = visit->input,
                                                         .buffer = buffer});
}

/* The micro-batch's last pass on a stage is done. */
static void leave_stage(struct step_writer *writer, const struct stage_visit *visit)
{
    number_pool_give_back(&writer->slots, visit->slot);
    number_pool_give_back(&writer->inputs, visit->input);
}

static void write_forward(struct step_writer *writer, const struct step_pass *pass)
{
    struct stage_visit *visit = visit_of(writer, pass->stage, pass->micro_batch);
    const uint32_t first = writer->shape->first_unit[pass->stage], end = writer->shape->first_unit[pass->stage + 1];
    const uint32_t output = writer->outputs % STEP_OUTPUT_BUFFERS;
    const bool sends = !writer_is_last_stage(writer, pass->stage);
    visit->slot = number_pool_take(&writer->slots);
    for (uint32_t unit = first; unit < end; unit++) {
        gather_ahead(writer);
        append_compute(writer, OPERATION_FORWARD, pass, unit, unit + 1 == end && sends ? output : STEP_NONE);
        depend_on_share(writer, unit);
        if (gathers(writer->shape))
            writer_depend(writer, writer->gather_of[unit]);
        if (unit == first)
            writer_depend(writer, visit->receive_input);
        if (unit + 1 == end && sends)
            writer_depend(writer, writer->outputs_sent[output]);
        release_behind(writer, pass->stage, unit);
    }
    if (sends) {
        writer->outputs_sent[output] = append_message(writer, OPERATION_SEND_OUTPUT, pass, output);
        writer->outputs++;
    }
    if (writer->shape->order == STEP_EVALUATION)
        leave_stage(writer, visit);
}

/* The gradients of a unit's weights, and what becomes of them. */
static void write_weights(struct step_writer *writer, const struct step_pass *pass, uint32_t unit)
{
    const struct step_shape *shape = writer->shape;
    const bool each = shape->zero >= 2 && shape->data > 1, last = pass->micro_batch + 1 == shape->micro_batches;
    const uint32_t buffer = each ? writer->reductions++ % STEP_REDUCTION_BUFFERS : STEP_NONE;
    append_compute(writer, OPERATION_BACKWARD_WEIGHTS, pass, unit, buffer);
    if (shape->recomputes && gathers(shape))
        writer_depend(writer, writer->gather_of[unit]);
    if (each)
        writer_depend(writer, writer->gradients_reduced[buffer]);
    if (shape->data == 1 || (!each && !last))
        return;
    const uint32_t reduction =
        append_unit(writer, OPERATION_REDUCE, pass->stage, unit, each ? pass->micro_batch : STEP_NONE, buffer);
    if (each)
        writer->gradients_reduced[buffer] = reduction;
}

static void write_backward(struct step_writer *writer, const struct step_pass *pass, bool weights, bool inputs)
{
    struct stage_visit *visit = visit_of(writer, pass->stage, pass->micro_batch);
    const uint32_t first = writer->shape->first_unit[pass->stage], end = writer->shape->first_unit[pass->stage + 1];
    for (uint32_t unit = end; inputs && unit-- > first;) {
        gather_ahead(writer);
        append_compute(writer, OPERATION_BACKWARD_INPUT, pass, unit, visit->gradient);
        if (gathers(writer->shape))
            writer_depend(writer, writer->gather_of[unit]);
        if (unit + 1 == end)
            writer_depend(writer, writer_is_last_stage(writer, pass->stage) ? writer->gradients_sent[visit->gradient]
                                                                            : visit->receive_gradient);
        if (unit == first && pass->stage > 0)
            writer->gradients_sent[visit->gradient] =
                append_message(writer, OPERATION_SEND_GRADIENT, pass, visit->gradient);
        else if (unit == first)
            writer->gradients_sent[visit->gradient] = STEP_NONE;
        if (weights)
            write_weights(writer, pass, unit);
        release_behind(writer, pass->stage, unit);
    }
    for (uint32_t unit = end; !inputs && unit-- > first;) {
        if (writer->shape->recomputes)
            gather_ahead(writer);
        write_weights(writer, pass, unit);
        if (writer->shape->recomputes)
            release_behind(writer, pass->stage, unit);
    }
    if (weights)
        leave_stage(writer, visit);
}

static bool is_followed_by_weights(const struct step_writer *writer, size_t number)
{
    const struct step_pass *passes = writer->order.passes, *pass = &passes[number];
    return number + 1 < writer->order.count && pass[1].kind == OPERATION_BACKWARD_WEIGHTS &&
           pass[1].stage == pass->stage && pass[1].micro_batch == pass->micro_batch;
}

static void write_passes(struct step_writer *writer)
{
    for (size_t i = 0; i < writer->order.count && writer->status == WEFT_OK; i++) {
        const struct step_pass *pass = &writer->order.passes[i];
        write_receives(writer, i);
        if (pass->kind == OPERATION_FORWARD)
            write_forward(writer, pass);
        else if (pass->kind == OPERATION_BACKWARD_WEIGHTS)
            write_backward(writer, pass, true, false);
        else if (is_followed_by_weights(writer, i))
            write_backward(writer, &writer->order.passes[i++], true, true);
        else
            write_backward(writer, pass, false, true);
    }
}

/* ---- the end of a step ---- */

/* The operation appended last needs all asynchronous ones before it, of `unit` alone or of any (STEP_NONE), but for
 * shares that are left to the next step. */
static void depend_on_all(struct step_writer *writer, uint32_t unit)
{
    const struct step_operation *operations = writer->schedule->operations;
    const size_t count = writer->schedule->count;
    const bool leaves_shares = step_shares_move_on(writer->shape);
    for (uint32_t i = 0; i + 1 < count; i++)
        if ((unit == STEP_NONE || operations[i].unit == unit) &&
            !(leaves_shares && operations[i].kind == OPERATION_SHARE))
            writer_depend(writer, i);
}

/* Add up the tied tensor's gradients, once those of both units are complete as far as this rank has them. */
static void write_tie(struct step_writer *writer, uint32_t unit)
{
    const uint32_t units = writer->shape->first_unit[writer->shape->stages];
    append_unit(writer, OPERATION_TIE, step_unit_stage(writer->shape, unit), unit, STEP_NONE, STEP_NONE);
    depend_on_all(writer, unit);
    if (writer->shape->pipeline == 1 && units > 1)
        depend_on_all(writer, units - 1);
}

static void write_share(struct step_writer *writer, uint32_t stage, uint32_t unit)
{
    const uint32_t share = append_unit(writer, OPERATION_SHARE, stage, unit, STEP_NONE, STEP_NONE);
    if (step_shares_move_on(writer->shape) && writer->status == WEFT_OK)
        writer->schedule->dependencies[writer->share_awaited[unit]] = share;
}

/* From the gradients of this rank to new weights. */
static void write_optimizer(struct step_writer *writer)
{
    const struct step_shape *shape = writer->shape;
    const uint32_t rank = writer->schedule->pipeline_rank, units = shape->first_unit[shape->stages];
    for (uint32_t unit = 0; unit < units; unit++)
        if (step_unit_adds_tied(shape, unit) && step_stage_is_local(shape, rank, step_unit_stage(shape, unit)))
            write_tie(writer, unit);
    append_unit(writer, OPERATION_NORM, STEP_NONE, STEP_NONE, STEP_NONE, STEP_NONE);
    depend_on_all(writer, STEP_NONE);
    for (uint32_t unit = 0; unit < units; unit++) {
        const uint32_t stage = step_unit_stage(shape, unit);
        if (!step_stage_is_local(shape, rank, stage))
            continue;
        append_unit(writer, OPERATION_UPDATE, stage, unit, STEP_NONE, STEP_NONE);
        if (step_shares(shape))
            write_share(writer, stage, unit);
    }
}

static void write_end(struct step_writer *writer)
{
    if (writer->shape->order != STEP_EVALUATION)
        write_optimizer(writer);
    append_unit(writer, OPERATION_FINISH, STEP_NONE, STEP_NONE, STEP_NONE, STEP_NONE);
    depend_on_all(writer, STEP_NONE);
}

/* ---- all of it ---- */

static void fill_none(uint32_t *numbers, size_t count)
{
    for (size_t i = 0; i < count; i++)
        numbers[i] = STEP_NONE;
}

static weft_status open_writer(struct step_writer *writer)
{
    const struct step_shape *shape = writer->shape;
    const size_t visits = (size_t)(shape->stages / shape->pipeline) * shape->micro_batches,
                 units = shape->first_unit[shape->stages];
    writer->order.passes = calloc(3 * visits, sizeof *writer->order.passes);
    writer->visits = malloc(visits * sizeof *writer->visits);
    writer->slots.taken = calloc(2 * visits + 4, sizeof *writer->slots.taken);
    writer->uses = calloc(2 * shape->micro_batches * units, sizeof *writer->uses);
    writer->gather_of = malloc(2 * units * sizeof *writer->gather_of);
    if (!writer->order.passes || !writer->visits || !writer->slots.taken || !writer->uses || !writer->gather_of)
        return error_memory(writer->error, visits * (3 * sizeof *writer->order.passes + sizeof *writer->visits),
                            "a step");
    writer->inputs.taken = writer->slots.taken + visits + 2;
    writer->share_awaited = writer->gather_of + units;
    fill_none((uint32_t *)writer->visits, visits * (sizeof *writer->visits / sizeof(uint32_t)));
    fill_none(writer->gather_of, 2 * units);
    fill_none(writer->outputs_sent, STEP_OUTPUT_BUFFERS);
    fill_none(writer->gradients_sent, STEP_GRADIENT_BUFFERS);
    fill_none(writer->gradients_reduced, STEP_REDUCTION_BUFFERS);
    return WEFT_OK;
}

/* Those of the first `passes` passes. */
static void list_uses(struct step_writer *writer, size_t passes)
{
    writer->use_count = 0;
    for (size_t i = 0; i < writer->order.count && i < passes; i++) {
        const struct step_pass *pass = &writer->order.passes[i];
        const uint32_t first = writer->shape->first_unit[pass->stage], end = writer->shape->first_unit[pass->stage + 1];
        const bool reads = pass->kind != OPERATION_BACKWARD_WEIGHTS ||
                           (writer->shape->recomputes && !(i && is_followed_by_weights(writer, i - 1)));
        for (uint32_t k = 0; reads && k < end - first; k++)
            writer->uses[writer->use_count++] = pass->kind == OPERATION_FORWARD ? first + k : end - 1 - k;
    }
}

static void close_writer(struct step_writer *writer)
{
    free(writer->order.passes);
    free(writer->visits);
    free(writer->slots.taken);
    free(writer->uses);
    free(writer->gather_of);
    free(writer->known_complete);
}

weft_status step_write(const struct step_shape *shape, uint32_t pipeline_rank, struct step_schedule *schedule,
                       struct error *error)
{
    weft_status status = step_check_shape(shape, error);
    if (status != WEFT_OK)
        return status;
    struct step_schedule written = {.pipeline_rank = pipeline_rank};
    struct step_writer writer = {.shape = shape, .schedule = &written, .error = error};
    if ((writer.status = open_writer(&writer)) == WEFT_OK) {
        pipeline_orders[shape->order](shape, pipeline_rank, &writer.order);
        list_uses(&writer, writer.order.count);
        write_passes(&writer);
        write_end(&writer);
        written.slots = writer.slots.count;
        written.inputs = writer.inputs.count;
    }
    close_writer(&writer);
    if (writer.status == WEFT_OK)
        *schedule = written;
    else
        step_free(&written);
    return writer.status;
}

/* ---- memory alone ---- */

/* Slots and inputs, as write_passes() hands them out. */
static void count_numbers(struct step_writer *writer)
{
    for (size_t i = 0; i < writer->order.count; i++) {
        const struct step_pass *pass = &writer->order.passes[i];
        struct stage_visit *visit = visit_of(writer, pass->stage, pass->micro_batch);
        write_receives(writer, i);
        if (pass->kind == OPERATION_FORWARD)
            visit->slot = number_pool_take(&writer->slots);
        if (pass->kind == OPERATION_BACKWARD_INPUT && is_followed_by_weights(writer, i))
            i++;
        else if (pass->kind != OPERATION_BACKWARD_WEIGHTS && writer->shape->order != STEP_EVALUATION)
            continue;
        leave_stage(writer, visit);
    }
}

/* Units gathered at a time, as gather_ahead() and release_behind() do: never more than those that are looked ahead for. */
static void count_gathered(struct step_writer *writer)
{
    const uint32_t most = writer->shape->prefetch + 1;
    uint32_t *gathered = &writer->schedule->gathered, resident = 0, ahead = 0;
    for (uint32_t use = 0; use < writer->use_count && *gathered < most; use++) {
        for (; ahead < writer->use_count && ahead < use + most; ahead++)
            if (!is_resident(writer, ahead) && ++resident > *gathered)
                *gathered = resident;
        resident -= !is_used_again(writer, use);
    }
}

#define FEW_PASSES 8

/* After the first forward passes, at most two rounds of the pipeline, what a rank does repeats itself each round. */
#define COUNTED_ROUNDS 4

weft_status step_count(const struct step_shape *shape, uint32_t pipeline_rank, struct step_schedule *schedule,
                       struct error *error)
{
    weft_status status = step_check_shape(shape, error);
    if (status != WEFT_OK)
        return status;
    struct step_shape counted = *shape;
    struct step_schedule counts = {.pipeline_rank = pipeline_rank};
    struct step_writer writer = {.shape = &counted, .schedule = &counts, .counts = true, .error = error};
    if (shape->order != STEP_GPIPE && shape->order != STEP_EVALUATION &&
        shape->micro_batches > COUNTED_ROUNDS * shape->pipeline)
        counted.micro_batches = COUNTED_ROUNDS * shape->pipeline;
    if ((status = open_writer(&writer)) == WEFT_OK) {
        pipeline_orders[shape->order](&counted, pipeline_rank, &writer.order);
        count_numbers(&writer);
        for (size_t passes = FEW_PASSES; gathers(shape); passes = writer.order.count) {
            list_uses(&writer, passes);
            count_gathered(&writer);
            if (passes >= writer.order.count || counts.gathered > shape->prefetch)
                break;
        }
        counts.slots = writer.slots.count;
        counts.inputs = writer.inputs.count;
    }
    close_writer(&writer);
    if (status == WEFT_OK)
        *schedule = counts;
    return status;
}

void step_free(struct step_schedule *schedule)
{
    free(schedule->operations);
    free(schedule->dependencies);
    *schedule = (struct step_schedule){0};
}

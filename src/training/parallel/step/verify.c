/* SPDX-License-Identifier: Apache-2.0 */
#include "training/parallel/step/verify.h"

#include "training/parallel/step/show.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

/* How far a micro-batch has come on a stage. */
struct passage {
    uint32_t slot, input, gradient;
    uint32_t forward, backward; /* units done */
    bool received, received_gradient, sent, sent_gradient;
    uint32_t weights;          /* units done */
    uint32_t receive, produce; /* operations: of the input's receive, and the one that wrote the output */
};

struct unit_facts {
    uint32_t weights;    /* micro-batches whose gradients are done */
    uint32_t reductions; /* begun */
    bool whole, reduced_whole;
    uint32_t gather; /* operation; STEP_NONE: not gathered */
    uint32_t share;  /* operation; that of the step before may still be under way; STEP_NONE: there is none */
    bool tied, updated, shared;
};

/* One rank's list, checked from its beginning to its end. */
struct step_checker {
    const struct step_shape *shape;
    const struct step_schedule *schedule;
    size_t at;
    struct passage *passages;                       /* of each local stage and micro-batch */
    struct unit_facts *units;                       /* of all stages */
    bool *complete;                                 /* of each operation: known when the list has come here */
    uint32_t *slot_owner;                           /* passage that has it; STEP_NONE: free */
    uint32_t *input_owner;                          /* the same */
    uint32_t output_user[STEP_OUTPUT_BUFFERS];      /* the operation that must be complete before it is written */
    uint32_t gradient_owner[STEP_GRADIENT_BUFFERS]; /* passage whose gradient it holds; STEP_NONE: none */
    uint32_t gradient_user[STEP_GRADIENT_BUFFERS];
    uint32_t reduction_user[STEP_REDUCTION_BUFFERS];
    uint32_t
        reduction_unit[STEP_REDUCTION_BUFFERS]; /* whose gradients it holds that are not reduced; STEP_NONE: none */
    uint32_t reduction_micro_batch[STEP_REDUCTION_BUFFERS];
    uint32_t resident;
    bool normed, finished;
    struct error *error;
};

static weft_status checker_refuse(const struct step_checker *checker, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

static weft_status checker_refuse(const struct step_checker *checker, const char *format, ...)
{
    char what[256];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(what, sizeof what, format, arguments);
    va_end(arguments);
    struct buffer text = {0};
    if (checker->at < checker->schedule->count)
        step_print_operation(checker->schedule, checker->at, &text);
    else
        buffer_put_string(&text, "(end)");
    const char *operation = buffer_string(&text);
    const weft_status status = error_set(checker->error, WEFT_ERROR_SCHEDULE, "pipeline rank %u, operation %s: %s",
                                         checker->schedule->pipeline_rank, operation ? operation : "", what);
    buffer_free(&text);
    return status;
}

static const struct step_operation *checker_operation(const struct step_checker *checker)
{
    return &checker->schedule->operations[checker->at];
}

/* Whether an asynchronous operation has ended when the one under way begins. */
static bool is_known_complete(const struct step_checker *checker, uint32_t number)
{
    return number == STEP_NONE || checker->complete[number];
}

static uint32_t passage_number(const struct step_checker *checker, const struct step_operation *operation)
{
    return operation->stage / checker->shape->pipeline * checker->shape->micro_batches + operation->micro_batch;
}

static struct passage *passage_of(const struct step_checker *checker)
{
    return &checker->passages[passage_number(checker, checker_operation(checker))];
}

static uint32_t stage_units(const struct step_checker *checker, uint32_t stage)
{
    return checker->shape->first_unit[stage + 1] - checker->shape->first_unit[stage];
}

static bool checker_is_last_stage(const struct step_checker *checker, uint32_t stage)
{
    return stage + 1 == checker->shape->stages;
}

static bool checker_evaluates(const struct step_checker *checker)
{
    return checker->shape->order == STEP_EVALUATION;
}

/* ---- forms ---- */

/* Numbers that a kind of operation may have; all others are STEP_NONE. */
enum { HAS_STAGE = 1, HAS_UNIT = 2, HAS_MICRO_BATCH = 4, HAS_SLOT = 8, HAS_INPUT = 16, HAS_BUFFER = 32 };

static unsigned numbers_of(enum step_operation_kind kind)
{
    if (step_operation_computes(kind))
        return HAS_STAGE | HAS_UNIT | HAS_MICRO_BATCH | HAS_SLOT | HAS_INPUT | HAS_BUFFER;
    switch (kind) {
    case OPERATION_RECEIVE_INPUT:
        return HAS_STAGE | HAS_MICRO_BATCH | HAS_INPUT;
    case OPERATION_SEND_OUTPUT:
    case OPERATION_SEND_GRADIENT:
    case OPERATION_RECEIVE_GRADIENT:
        return HAS_STAGE | HAS_MICRO_BATCH | HAS_BUFFER;
    case OPERATION_REDUCE:
        return HAS_STAGE | HAS_UNIT | HAS_MICRO_BATCH | HAS_BUFFER;
    case OPERATION_NORM:
    case OPERATION_FINISH:
        return 0;
    default:
        return HAS_STAGE | HAS_UNIT;
    }
}

/* Operations that an evaluation does not have. */
static bool is_of_training(enum step_operation_kind kind)
{
    switch (kind) {
    case OPERATION_FORWARD:
    case OPERATION_SEND_OUTPUT:
    case OPERATION_RECEIVE_INPUT:
    case OPERATION_GATHER:
    case OPERATION_RELEASE:
    case OPERATION_FINISH:
        return false;
    default:
        return true;
    }
}

/* Operations that go on when the next step begins. */
static bool is_left_by_the_step_before(const struct step_checker *checker, uint32_t number)
{
    return number < checker->schedule->count && step_shares_move_on(checker->shape) &&
           checker->schedule->operations[number].kind == OPERATION_SHARE;
}

/* The numbers of an operation are those that its kind has, and in range. */
static weft_status step_check_form(struct step_checker *checker)
{
    const struct step_operation *operation = checker_operation(checker);
    const struct step_shape *shape = checker->shape;
    const enum step_operation_kind kind = operation->kind;
    if (kind >= OPERATION_KINDS)
        return checker_refuse(checker, "there is no such kind of operation");
    if (checker->finished)
        return checker_refuse(checker, "it comes after the end of the step");
    for (uint32_t i = 0; i < operation->dependency_count; i++) {
        const uint32_t number = checker->schedule->dependencies[operation->dependency + i];
        if (number >= checker->at && !is_left_by_the_step_before(checker, number))
            return checker_refuse(checker, "it depends on operation %u, which does not come before it", number);
    }
    const uint32_t numbers[] = {operation->stage, operation->unit,  operation->micro_batch,
                                operation->slot,  operation->input, operation->buffer};
    const unsigned has = numbers_of(kind);
    for (size_t i = 0; i < ARRAY_SIZE(numbers); i++)
        if (!(has >> i & 1) && numbers[i] != STEP_NONE)
            return checker_refuse(checker, "it has a number that its kind does not have");
    if (has & HAS_STAGE && (operation->stage >= shape->stages ||
                            !step_stage_is_local(shape, checker->schedule->pipeline_rank, operation->stage)))
        return checker_refuse(checker, "its stage is not one of this rank's");
    if (has & HAS_UNIT && (operation->unit >= shape->first_unit[shape->stages] ||
                           step_unit_stage(shape, operation->unit) != operation->stage))
        return checker_refuse(checker, "its unit is not one of the stage's");
    if (has & HAS_MICRO_BATCH && kind != OPERATION_REDUCE && operation->micro_batch >= shape->micro_batches)
        return checker_refuse(checker, "there is no such micro-batch");
    if (checker_evaluates(checker) && is_of_training(kind))
        return checker_refuse(checker, "an evaluation has no such operation");
    if (has && checker->normed != (kind == OPERATION_UPDATE || kind == OPERATION_SHARE))
        return checker_refuse(checker, checker->normed ? "it comes after the norm" : "it comes before the norm");
    return WEFT_OK;
}

/* ---- compute ---- */

static weft_status step_check_weights_are_there(const struct step_checker *checker)
{
    const struct unit_facts *unit = &checker->units[checker_operation(checker)->unit];
    if (step_shares_move_on(checker->shape) && (unit->share == STEP_NONE || !is_known_complete(checker, unit->share)))
        return checker_refuse(checker, "it does not wait for the new weights of the step before");
    if (checker->shape->zero != 3 || checker->shape->data == 1)
        return WEFT_OK;
    if (unit->gather == STEP_NONE)
        return checker_refuse(checker, "the unit's weights are not gathered");
    return is_known_complete(checker, unit->gather)
               ? WEFT_OK
               : checker_refuse(checker, "it does not wait for the unit's weights");
}

static weft_status step_check_places(const struct step_checker *checker)
{
    const struct step_operation *operation = checker_operation(checker);
    const struct passage *passage = passage_of(checker);
    if (operation->slot != passage->slot || operation->slot == STEP_NONE)
        return checker_refuse(checker, "its activations are not in that slot");
    if (operation->input != passage->input)
        return checker_refuse(checker, "the stage's input is not there");
    return WEFT_OK;
}

/* After a micro-batch's last pass on a stage. */
static void leave_passage(struct step_checker *checker, const struct passage *passage)
{
    checker->slot_owner[passage->slot] = STEP_NONE;
    if (passage->input != STEP_NONE)
        checker->input_owner[passage->input] = STEP_NONE;
}

static weft_status step_check_forward(struct step_checker *checker)
{
    const struct step_operation *operation = checker_operation(checker);
    struct passage *passage = passage_of(checker);
    const uint32_t first = checker->shape->first_unit[operation->stage], number = passage_number(checker, operation);
    if (operation->unit != first + passage->forward)
        return checker_refuse(checker, "unit %u is next in this pass", first + passage->forward);
    if (operation->unit == first) {
        if (operation->slot >= checker->schedule->slots || checker->slot_owner[operation->slot] != STEP_NONE)
            return checker_refuse(checker, "the slot is in use, or there is none");
        checker->slot_owner[operation->slot] = number;
        passage->slot = operation->slot;
        if (operation->stage > 0 && !passage->received)
            return checker_refuse(checker, "the stage's input was not received");
        if (!is_known_complete(checker, passage->receive))
            return checker_refuse(checker, "it does not wait for the stage's input");
    }
    weft_status status = step_check_places(checker);
    if (status == WEFT_OK)
        status = step_check_weights_are_there(checker);
    if (status != WEFT_OK)
        return status;
    passage->forward++;
    if (passage->forward == stage_units(checker, operation->stage) && checker_evaluates(checker))
        leave_passage(checker, passage);
    if (passage->forward < stage_units(checker, operation->stage) || checker_is_last_stage(checker, operation->stage))
        return operation->buffer == STEP_NONE ? WEFT_OK : checker_refuse(checker, "it has no output to send");
    if (operation->buffer >= STEP_OUTPUT_BUFFERS)
        return checker_refuse(checker, "there is no such output");
    if (!is_known_complete(checker, checker->output_user[operation->buffer]))
        return checker_refuse(checker, "the output is still being sent");
    checker->output_user[operation->buffer] = (uint32_t)checker->at; /* never complete until it is sent */
    passage->produce = (uint32_t)checker->at;
    checker->complete[checker->at] = false;
    return WEFT_OK;
}

static weft_status step_check_backward_input(struct step_checker *checker)
{
    const struct step_operation *operation = checker_operation(checker);
    struct passage *passage = passage_of(checker);
    const uint32_t end = checker->shape->first_unit[operation->stage + 1], number = passage_number(checker, operation);
    weft_status status = step_check_places(checker);
    if (status == WEFT_OK)
        status = step_check_weights_are_there(checker);
    if (status != WEFT_OK)
        return status;
    if (passage->forward < stage_units(checker, operation->stage))
        return checker_refuse(checker, "the forward pass is not complete");
    if (operation->unit + 1 != end - passage->backward)
        return checker_refuse(checker, "unit %u is next in this pass", end - passage->backward - 1);
    if (operation->buffer >= STEP_GRADIENT_BUFFERS)
        return checker_refuse(checker, "there is no such gradient");
    if (passage->backward == 0 && checker_is_last_stage(checker, operation->stage)) {
        if (checker->gradient_owner[operation->buffer] != STEP_NONE ||
            !is_known_complete(checker, checker->gradient_user[operation->buffer]))
            return checker_refuse(checker, "the gradient's memory is in use");
        checker->gradient_owner[operation->buffer] = number;
        passage->gradient = operation->buffer;
    }
    if (operation->buffer != passage->gradient || checker->gradient_owner[operation->buffer] != number)
        return checker_refuse(checker, "the gradient is not there");
    if (passage->backward == 0 && !is_known_complete(checker, checker->gradient_user[operation->buffer]))
        return checker_refuse(checker, "it does not wait for the gradient");
    passage->backward++;
    if (passage->backward == stage_units(checker, operation->stage) && operation->stage == 0)
        checker->gradient_owner[operation->buffer] = STEP_NONE;
    return WEFT_OK;
}

static bool reduces_each(const struct step_checker *checker)
{
    return checker->shape->zero >= 2 && checker->shape->data > 1;
}

static weft_status step_check_backward_weights(struct step_checker *checker)
{
    const struct step_operation *operation = checker_operation(checker);
    struct passage *passage = passage_of(checker);
    struct unit_facts *unit = &checker->units[operation->unit];
    const uint32_t end = checker->shape->first_unit[operation->stage + 1];
    const weft_status status = step_check_places(checker);
    if (status != WEFT_OK)
        return status;
    if (operation->unit + 1 != end - passage->weights)
        return checker_refuse(checker, "unit %u is next in this pass", end - passage->weights - 1);
    if (checker->shape->recomputes && step_check_weights_are_there(checker) != WEFT_OK)
        return WEFT_ERROR_SCHEDULE;
    if (passage->backward <= passage->weights)
        return checker_refuse(checker, "the gradient of the unit's output is not there");
    if (unit->weights != operation->micro_batch)
        return checker_refuse(checker, "micro-batch %u is next in the canonical order", unit->weights);
    if (reduces_each(checker)) {
        if (operation->buffer >= STEP_REDUCTION_BUFFERS || checker->reduction_unit[operation->buffer] != STEP_NONE ||
            !is_known_complete(checker, checker->reduction_user[operation->buffer]))
            return checker_refuse(checker, "the memory of the gradients is in use, or there is none");
        checker->reduction_unit[operation->buffer] = operation->unit;
        checker->reduction_micro_batch[operation->buffer] = operation->micro_batch;
    } else if (operation->buffer != STEP_NONE) {
        return checker_refuse(checker, "gradients have one place each without ZeRO-2");
    }
    unit->weights++;
    passage->weights++;
    if (passage->weights == stage_units(checker, operation->stage))
        leave_passage(checker, passage);
    return WEFT_OK;
}

/* ---- messages ---- */

static weft_status step_check_receive_input(struct step_checker *checker)
{
    const struct step_operation *operation = checker_operation(checker);
    struct passage *passage = passage_of(checker);
    if (operation->stage == 0)
        return checker_refuse(checker, "nothing comes before stage 0");
    if (passage->received)
        return checker_refuse(checker, "it is received already");
    if (operation->input >= checker->schedule->inputs || checker->input_owner[operation->input] != STEP_NONE)
        return checker_refuse(checker, "the input's memory is in use, or there is none");
    checker->input_owner[operation->input] = passage_number(checker, operation);
    passage->input = operation->input;
    passage->received = true;
    passage->receive = (uint32_t)checker->at;
    return WEFT_OK;
}

static weft_status step_check_send_output(struct step_checker *checker)
{
    const struct step_operation *operation = checker_operation(checker);
    struct passage *passage = passage_of(checker);
    if (checker_is_last_stage(checker, operation->stage))
        return checker_refuse(checker, "nothing comes after the last stage");
    if (passage->forward < stage_units(checker, operation->stage) || passage->sent ||
        operation->buffer >= STEP_OUTPUT_BUFFERS || checker->output_user[operation->buffer] != passage->produce)
        return checker_refuse(checker, "that output does not hold this micro-batch, or it was sent before");
    passage->sent = true;
    checker->output_user[operation->buffer] = (uint32_t)checker->at;
    return WEFT_OK;
}

static weft_status step_check_receive_gradient(struct step_checker *checker)
{
    const struct step_operation *operation = checker_operation(checker);
    struct passage *passage = passage_of(checker);
    if (checker_is_last_stage(checker, operation->stage))
        return checker_refuse(checker, "nothing comes after the last stage");
    if (passage->received_gradient)
        return checker_refuse(checker, "it is received already");
    if (operation->buffer >= STEP_GRADIENT_BUFFERS || checker->gradient_owner[operation->buffer] != STEP_NONE ||
        !is_known_complete(checker, checker->gradient_user[operation->buffer]))
        return checker_refuse(checker, "the gradient's memory is in use, or there is none");
    checker->gradient_owner[operation->buffer] = passage_number(checker, operation);
    checker->gradient_user[operation->buffer] = (uint32_t)checker->at;
    passage->gradient = operation->buffer;
    passage->received_gradient = true;
    return WEFT_OK;
}

static weft_status step_check_send_gradient(struct step_checker *checker)
{
    const struct step_operation *operation = checker_operation(checker);
    struct passage *passage = passage_of(checker);
    if (operation->stage == 0)
        return checker_refuse(checker, "nothing comes before stage 0");
    if (passage->backward < stage_units(checker, operation->stage) || passage->sent_gradient ||
        operation->buffer != passage->gradient)
        return checker_refuse(checker, "that gradient is not of this micro-batch's input, or it was sent before");
    passage->sent_gradient = true;
    checker->gradient_owner[operation->buffer] = STEP_NONE;
    checker->gradient_user[operation->buffer] = (uint32_t)checker->at;
    return WEFT_OK;
}

/* ---- collectives and the optimizer ---- */

static weft_status step_check_gather(struct step_checker *checker)
{
    struct unit_facts *unit = &checker->units[checker_operation(checker)->unit];
    if (checker->shape->zero != 3 || checker->shape->data == 1)
        return checker_refuse(checker, "weights are whole without ZeRO-3");
    if (unit->gather != STEP_NONE)
        return checker_refuse(checker, "the unit's weights are gathered already");
    unit->gather = (uint32_t)checker->at;
    if (++checker->resident > checker->schedule->gathered || checker->resident > checker->shape->prefetch + 2)
        return checker_refuse(checker, "%u units of weights are more than there is room for", checker->resident);
    return WEFT_OK;
}

static weft_status step_check_release(struct step_checker *checker)
{
    struct unit_facts *unit = &checker->units[checker_operation(checker)->unit];
    if (unit->gather == STEP_NONE || !is_known_complete(checker, unit->gather))
        return checker_refuse(checker, "the unit's weights are not gathered");
    unit->gather = STEP_NONE;
    checker->resident--;
    return WEFT_OK;
}

static weft_status step_check_reduce(struct step_checker *checker)
{
    const struct step_operation *operation = checker_operation(checker);
    struct unit_facts *unit = &checker->units[operation->unit];
    if (checker->shape->data == 1)
        return checker_refuse(checker, "there is one rank on the data axis");
    if (!reduces_each(checker)) {
        if (operation->buffer != STEP_NONE || operation->micro_batch != STEP_NONE ||
            unit->weights < checker->shape->micro_batches || unit->reductions)
            return checker_refuse(checker, "the unit's gradients are not complete, or reduced already");
    } else {
        if (operation->buffer >= STEP_REDUCTION_BUFFERS ||
            checker->reduction_unit[operation->buffer] != operation->unit ||
            checker->reduction_micro_batch[operation->buffer] != operation->micro_batch ||
            unit->reductions != operation->micro_batch)
            return checker_refuse(checker, "the micro-batch's gradients are not there, or not the next ones");
        checker->reduction_unit[operation->buffer] = STEP_NONE;
        checker->reduction_user[operation->buffer] = (uint32_t)checker->at;
    }
    unit->reductions++;
    return WEFT_OK;
}

static uint32_t reductions_of(const struct step_checker *checker)
{
    if (checker->shape->data == 1)
        return 0;
    return reduces_each(checker) ? checker->shape->micro_batches : 1;
}

/* All reductions, of one unit or of any, have ended when the operation under way begins. */
static weft_status step_check_reductions_ended(const struct step_checker *checker, uint32_t unit)
{
    for (uint32_t i = 0; i < checker->at; i++) {
        const struct step_operation *operation = &checker->schedule->operations[i];
        if (operation->kind == OPERATION_REDUCE && (unit == STEP_NONE || operation->unit == unit) &&
            !is_known_complete(checker, i))
            return checker_refuse(checker, "it does not wait for the reduction in operation %u", i);
    }
    return WEFT_OK;
}

static weft_status step_check_tie(struct step_checker *checker)
{
    const struct step_shape *shape = checker->shape;
    const uint32_t number = checker_operation(checker)->unit, last = shape->first_unit[shape->stages] - 1;
    struct unit_facts *unit = &checker->units[number];
    if (!step_unit_adds_tied(shape, number) || unit->tied)
        return checker_refuse(checker, "the unit has no tied tensor, or its gradients are added already");
    unit->tied = true;
    for (uint32_t i = 0; i < (shape->pipeline == 1 ? 2 : 1); i++) {
        const uint32_t user = i ? last : number;
        if (checker->units[user].weights < shape->micro_batches ||
            checker->units[user].reductions != reductions_of(checker))
            return checker_refuse(checker, "the gradients of unit %u are not complete", user);
        const weft_status status = step_check_reductions_ended(checker, user);
        if (status != WEFT_OK)
            return status;
    }
    return WEFT_OK;
}

/* Everything before the norm is done. */
static weft_status step_check_norm(struct step_checker *checker)
{
    const struct step_shape *shape = checker->shape;
    if (checker->normed)
        return checker_refuse(checker, "the norm is known already");
    for (uint32_t unit = 0; unit < shape->first_unit[shape->stages]; unit++) {
        const struct unit_facts *facts = &checker->units[unit];
        if (!step_stage_is_local(shape, checker->schedule->pipeline_rank, step_unit_stage(shape, unit)))
            continue;
        if (facts->weights != shape->micro_batches || facts->reductions != reductions_of(checker))
            return checker_refuse(checker, "the gradients of unit %u are not complete", unit);
        if (facts->tied != step_unit_adds_tied(shape, unit))
            return checker_refuse(checker, "the tied gradients of unit %u are not added", unit);
    }
    for (uint32_t i = 0; i < checker->at; i++)
        if (checker->schedule->operations[i].kind == OPERATION_TIE && !is_known_complete(checker, i))
            return checker_refuse(checker, "it does not wait for the tied gradients in operation %u", i);
    checker->normed = true;
    return step_check_reductions_ended(checker, STEP_NONE);
}

static weft_status step_check_update(struct step_checker *checker)
{
    struct unit_facts *unit = &checker->units[checker_operation(checker)->unit];
    if (unit->updated)
        return checker_refuse(checker, "the unit is updated already");
    unit->updated = true;
    return WEFT_OK;
}

static weft_status step_check_share(struct step_checker *checker)
{
    struct unit_facts *unit = &checker->units[checker_operation(checker)->unit];
    if (!step_shares(checker->shape) || !unit->updated || unit->shared)
        return checker_refuse(checker, "the unit is not updated, not sharded, or shared already");
    unit->shared = true;
    return WEFT_OK;
}

static weft_status step_check_finish(struct step_checker *checker)
{
    const struct step_shape *shape = checker->shape;
    if (!checker->normed && !checker_evaluates(checker))
        return checker_refuse(checker, "the optimizer has not run");
    for (uint32_t unit = 0; unit < shape->first_unit[shape->stages]; unit++)
        if (step_stage_is_local(shape, checker->schedule->pipeline_rank, step_unit_stage(shape, unit)) &&
            !checker_evaluates(checker) &&
            (!checker->units[unit].updated || checker->units[unit].shared != step_shares(shape)))
            return checker_refuse(checker, "unit %u is not updated or not shared", unit);
    for (uint32_t i = 0; i < checker->at; i++)
        if (step_operation_is_asynchronous(checker->schedule->operations[i].kind) && !is_known_complete(checker, i) &&
            !is_left_by_the_step_before(checker, i))
            return checker_refuse(checker, "operation %u may still be under way", i);
    for (uint32_t s = checker->schedule->pipeline_rank; s < shape->stages; s += shape->pipeline)
        for (uint32_t m = 0; m < shape->micro_batches; m++) {
            const struct passage *passage = &checker->passages[s / shape->pipeline * shape->micro_batches + m];
            if (checker_evaluates(checker) && passage->forward < stage_units(checker, s))
                return checker_refuse(checker, "micro-batch %u has not passed stage %u", m, s);
            if (passage->sent == checker_is_last_stage(checker, s) ||
                passage->sent_gradient != (s > 0 && !checker_evaluates(checker)))
                return checker_refuse(checker, "what stage %u has for its neighbors of micro-batch %u was not sent", s,
                                      m);
        }
    if (checker->resident)
        return checker_refuse(checker, "%u units of weights are not released", checker->resident);
    checker->finished = true;
    return WEFT_OK;
}

/* ---- a rank's list ---- */

static weft_status step_check_operation(struct step_checker *checker)
{
    static weft_status (*const checks[OPERATION_KINDS])(struct step_checker *) = {
        [OPERATION_FORWARD] = step_check_forward,
        [OPERATION_BACKWARD_INPUT] = step_check_backward_input,
        [OPERATION_BACKWARD_WEIGHTS] = step_check_backward_weights,
        [OPERATION_SEND_OUTPUT] = step_check_send_output,
        [OPERATION_RECEIVE_INPUT] = step_check_receive_input,
        [OPERATION_SEND_GRADIENT] = step_check_send_gradient,
        [OPERATION_RECEIVE_GRADIENT] = step_check_receive_gradient,
        [OPERATION_GATHER] = step_check_gather,
        [OPERATION_RELEASE] = step_check_release,
        [OPERATION_REDUCE] = step_check_reduce,
        [OPERATION_TIE] = step_check_tie,
        [OPERATION_NORM] = step_check_norm,
        [OPERATION_UPDATE] = step_check_update,
        [OPERATION_SHARE] = step_check_share,
        [OPERATION_FINISH] = step_check_finish,
    };
    const struct step_operation *operation = checker_operation(checker);
    const weft_status status = step_check_form(checker);
    if (status != WEFT_OK)
        return status;
    for (uint32_t i = 0; i < operation->dependency_count; i++)
        checker->complete[checker->schedule->dependencies[operation->dependency + i]] = true;
    checker->complete[checker->at] = !step_operation_is_asynchronous(operation->kind);
    return checks[operation->kind](checker);
}

static void set_none(uint32_t *numbers, size_t count)
{
    for (size_t i = 0; i < count; i++)
        numbers[i] = STEP_NONE;
}

static weft_status step_check_list(struct step_checker *checker)
{
    const struct step_shape *shape = checker->shape;
    const struct step_schedule *schedule = checker->schedule;
    const size_t passages = (size_t)(shape->stages / shape->pipeline) * shape->micro_batches,
                 units = shape->first_unit[shape->stages];
    checker->passages = calloc(passages, sizeof *checker->passages);
    checker->units = calloc(units, sizeof *checker->units);
    checker->complete = calloc(schedule->count + 1, sizeof *checker->complete);
    checker->slot_owner = malloc(((size_t)schedule->slots + schedule->inputs + 1) * sizeof *checker->slot_owner);
    if (!checker->passages || !checker->units || !checker->complete || !checker->slot_owner)
        return error_memory(checker->error, passages * sizeof *checker->passages, "the check of a step");
    checker->input_owner = checker->slot_owner + schedule->slots;
    set_none(checker->slot_owner, (size_t)schedule->slots + schedule->inputs);
    set_none(checker->output_user, STEP_OUTPUT_BUFFERS);
    set_none(checker->gradient_owner, STEP_GRADIENT_BUFFERS);
    set_none(checker->gradient_user, STEP_GRADIENT_BUFFERS);
    set_none(checker->reduction_user, STEP_REDUCTION_BUFFERS);
    set_none(checker->reduction_unit, STEP_REDUCTION_BUFFERS);
    for (size_t i = 0; i < passages; i++)
        checker->passages[i] = (struct passage){
            .slot = STEP_NONE, .input = STEP_NONE, .gradient = STEP_NONE, .receive = STEP_NONE, .produce = STEP_NONE};
    for (size_t i = 0; i < units; i++)
        checker->units[i].gather = checker->units[i].share = STEP_NONE;
    for (uint32_t i = 0; i < schedule->count; i++)
        if (schedule->operations[i].kind == OPERATION_SHARE && schedule->operations[i].unit < units)
            checker->units[schedule->operations[i].unit].share = i;
    if (schedule->slots > step_slots_bound(shape, schedule->pipeline_rank))
        return checker_refuse(checker, "%u micro-batches at a time are more than the %u that %s promises",
                              schedule->slots, step_slots_bound(shape, schedule->pipeline_rank),
                              step_pipeline_name(shape->order));
    for (checker->at = 0; checker->at < schedule->count; checker->at++) {
        const weft_status status = step_check_operation(checker);
        if (status != WEFT_OK)
            return status;
    }
    return checker->finished ? WEFT_OK : checker_refuse(checker, "the step does not end");
}

static double no_time(void *context, const struct step_operation *operation)
{
    return 0;
}

weft_status step_verify(const struct step_shape *shape, const struct step_schedule *schedules, struct error *error)
{
    for (uint32_t rank = 0; rank < shape->pipeline; rank++) {
        struct step_checker checker = {.shape = shape, .schedule = &schedules[rank], .error = error};
        const weft_status status = schedules[rank].pipeline_rank == rank
                                       ? step_check_list(&checker)
                                       : error_set(error, WEFT_ERROR_SCHEDULE, "schedule %u is that of rank %u", rank,
                                                   schedules[rank].pipeline_rank);
        free(checker.passages);
        free(checker.units);
        free(checker.complete);
        free(checker.slot_owner);
        if (status != WEFT_OK)
            return status;
    }
    struct step_times times;
    const weft_status status = step_play(shape, schedules, no_time, NULL, &times, error);
    if (status == WEFT_OK)
        step_times_free(shape, &times);
    return status;
}

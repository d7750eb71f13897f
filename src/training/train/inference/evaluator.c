/* SPDX-License-Identifier: Apache-2.0 */
#include "training/train/inference/evaluator.h"

#include "base/clock.h"
#include "base/library_error.h"
#include "training/model/passes.h"
#include "training/parallel/agreement.h"
#include "training/parallel/execute/executor.h"
#include "training/train/loop/run_data.h"
#include "training/train/text/text.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ---- evaluation ---- */

/* Micro-batches of the same model. */
struct evaluation {
    weft_context *context;
    weft_comm *comm;
    struct model *model;
    struct sample_source *source;
    uint64_t first;                    /* held-out sequence */
    uint32_t micro_batches;            /* of all ranks */
    const struct model_arrays *arrays; /* room for one micro-batch */
};

/* Their mean scores. Collective. */
static weft_status evaluation_run(const struct evaluation *evaluation, const float *parameters,
                                  struct executor_scores *scores, struct error *error)
{
    uint32_t rank = (uint32_t)weft_comm_rank(evaluation->comm), ranks = (uint32_t)weft_comm_size(evaluation->comm);
    uint32_t share = (evaluation->micro_batches + ranks - 1) / ranks;
    uint64_t batch = model_get_batch(evaluation->model);
    struct executor_scores *mine = calloc((size_t)share * (ranks + 1), sizeof *mine), *all = mine + share, sum = {0};
    if (!mine)
        return error_memory(error, (size_t)share * (ranks + 1) * sizeof *mine, "the losses of an evaluation");

    /* Micro-batch i is computed on rank i mod ranks, so ranks differ by at most one micro-batch. */
    weft_status status = WEFT_OK;
    for (uint32_t n = 0; n < share && status == WEFT_OK; n++) {
        const uint32_t i = n * ranks + rank;
        struct model_batch input = {0};
        if (i >= evaluation->micro_batches)
            break;
        status = sample_source_read(evaluation->source, DATASET_HELD_OUT, evaluation->first + i * batch, batch,
                                    evaluation->arrays, error);
        memcpy(input.inputs, evaluation->arrays->of, sizeof input.inputs);
        if (status == WEFT_OK)
            status = model_evaluate(evaluation->model, parameters, &input, &mine[n].loss, error);
        if (status == WEFT_OK)
            status = model_slot_accuracy(evaluation->model, 0, &mine[n].accuracy, error);
    }
    if (status == WEFT_OK)
        status =
            library_error(evaluation->context, weft_allgather(mine, all, share * 2, WEFT_F64, evaluation->comm), error);
    for (uint32_t i = 0; status == WEFT_OK && i < evaluation->micro_batches; i++) {
        const struct executor_scores *one = &all[(size_t)(i % ranks) * share + i / ranks];
        sum.loss += one->loss;
        sum.accuracy += one->accuracy;
    }
    if (status == WEFT_OK)
        *scores = (struct executor_scores){.loss = sum.loss / evaluation->micro_batches,
                                           .accuracy = sum.accuracy / evaluation->micro_batches};
    free(mine);
    return status;
}

/* ---- weft eval ---- */

struct evaluator {
    const struct evaluator_config *config;
    weft_context *context;
    weft_comm *comm;
    struct kernel_choice kernels; /* of all ranks */
    struct device *device;
    struct model_description *description;
    struct text_sources sources;
    struct run_data_habits habits; /* of the run that wrote the weights */
    struct text text;
    struct sample_source *source;
    struct model *model; /* for whole micro-batches */
    struct model *last;  /* for the sequences that remain; NULL: none do */
    float *parameters;
    struct model_arrays arrays; /* of a micro-batch */
    uint64_t sequence;          /* tokens */
    uint64_t sequences;         /* in all */
};

static void evaluator_close(struct evaluator *evaluator)
{
    model_close(evaluator->model);
    model_close(evaluator->last);
    sample_source_close(evaluator->source);
    text_close(&evaluator->text);
    if (evaluator->parameters)
        weft_free(evaluator->context, evaluator->parameters);
    model_description_free(evaluator->description);
    if (evaluator->device)
        evaluator->device->close(evaluator->device);
    model_arrays_free(&evaluator->arrays);
}

static weft_status open_data(struct evaluator *evaluator, struct error *error)
{
    const struct evaluator_config *config = evaluator->config;
    const struct run_data_options options = {
        .data = config->data,
        .sequence = evaluator->sequence,
        .text = &evaluator->text,
        .classify = config->shape.classes > 0,
        .classes_chosen = true,
        .images = {.changes = evaluator->habits.changes, .skip = config->skip},
        .normalization = evaluator->habits.normalization,
        .class_names = config->pretrained ? pretrained_class_names(config->pretrained) : NULL};
    struct model_shape shape = config->shape;
    double bytes_per_token = 0;
    const bool is_random = strcmp(config->data, "random") == 0;
    weft_status status = run_data_open(&options, &shape, &evaluator->source, &bytes_per_token, error);
    if (status != WEFT_OK)
        return status;
    if (is_random && !config->sequences)
        return error_set(error, WEFT_ERROR_ARGUMENT, "random data has no end; say with --sequences how much to take");
    const uint64_t all = sample_source_samples(evaluator->source, DATASET_HELD_OUT);
    text_settle(&evaluator->text, config->shape.vocabulary);
    if (bytes_per_token > 0)
        evaluator->text.bytes_per_token = bytes_per_token;
    evaluator->sequences = config->sequences ? (uint64_t)config->sequences : all;
    if (evaluator->sequences > all)
        return error_set(error, WEFT_ERROR_ARGUMENT,
                         "--sequences %" PRIu64 " exceeds the %" PRIu64 " that the held-out part of '%s' has",
                         evaluator->sequences, all, config->data);
    if (evaluator->sequences / (uint64_t)config->micro_batch > UINT32_MAX)
        return error_set(error, WEFT_ERROR_ARGUMENT, "%" PRIu64 " sequences are too many for --micro-batch %" PRId64,
                         evaluator->sequences, config->micro_batch);
    return WEFT_OK;
}

static weft_status evaluator_open_model(struct evaluator *evaluator, uint64_t batch, struct model **model,
                                        struct error *error)
{
    return model_open(evaluator->description, evaluator->device,
                      &(struct model_options){.batch = batch, .sequence = evaluator->sequence}, model, error);
}

/* Rows of later positions may not be trained: samples are as long as those of the run, unless the user wants others. */
static uint64_t text_sequence(const struct evaluator *evaluator)
{
    const uint64_t own = evaluator->habits.sequence, context = evaluator->config->shape.context;
    return own && own < context ? own : context;
}

/* Local preparation. */
static weft_status evaluator_prepare(struct evaluator *evaluator, struct error *error)
{
    const struct evaluator_config *config = evaluator->config;
    if (config->sequence > 0 && (uint64_t)config->sequence > config->shape.context)
        return error_set(error, WEFT_ERROR_ARGUMENT,
                         "--sequence %" PRId64 " is longer than the model's context of %zu tokens", config->sequence,
                         config->shape.context);
    evaluator->sequence = config->sequence ? (uint64_t)config->sequence : config->shape.context;
    if (model_samples_of(&config->shape) == SAMPLES_OF_IMAGES)
        evaluator->sequence = 1;
    else if (model_samples_of(&config->shape) == SAMPLES_OF_TEXTS && !config->sequence)
        evaluator->sequence = text_sequence(evaluator);
    weft_status status = device_open_with(device_cpu_name(config->activations), evaluator->kernels.set,
                                          (int)config->threads, &evaluator->device, error);
    if (status == WEFT_OK)
        status = model_describe(&config->shape, &evaluator->description, error);
    if (status == WEFT_OK && model_samples_of(&config->shape) == SAMPLES_OF_TOKENS)
        status = text_match_data(&evaluator->sources, &evaluator->text, error);
    if (status == WEFT_OK)
        status = open_data(evaluator, error);
    if (status != WEFT_OK)
        return status;
    const uint64_t batch = (uint64_t)config->micro_batch, rest = evaluator->sequences % batch;
    if (evaluator->sequences >= batch)
        status = evaluator_open_model(evaluator, batch, &evaluator->model, error);
    if (status == WEFT_OK && rest)
        status = evaluator_open_model(evaluator, rest, &evaluator->last, error);
    if (status != WEFT_OK)
        return status;
    status = model_arrays_allocate(evaluator->description, NULL, evaluator->sequence, batch, &evaluator->arrays, error);
    if (status != WEFT_OK)
        return status;
    evaluator->parameters = weft_alloc(evaluator->context, evaluator->description->elements * sizeof(float));
    if (!evaluator->parameters)
        return error_set(error, WEFT_ERROR_MEMORY, "%s", weft_message(evaluator->context));
    return WEFT_OK;
}

/* Whole micro-batches, then the remainder, weighted by their sequences. */
static weft_status evaluator_evaluate(const struct evaluator *evaluator, struct executor_scores *scores,
                                      struct error *error)
{
    const uint64_t batch = (uint64_t)evaluator->config->micro_batch, rest = evaluator->sequences % batch;
    struct evaluation evaluation = {
        .context = evaluator->context,
        .comm = evaluator->comm,
        .model = evaluator->model,
        .source = evaluator->source,
        .micro_batches = (uint32_t)(evaluator->sequences / batch),
        .arrays = &evaluator->arrays,
    };
    struct executor_scores of_whole = {0}, of_rest = {0};
    weft_status status = WEFT_OK;
    if (evaluator->model)
        status = evaluation_run(&evaluation, evaluator->parameters, &of_whole, error);
    if (status == WEFT_OK && evaluator->last) {
        evaluation.model = evaluator->last;
        evaluation.first = evaluator->sequences - rest;
        evaluation.micro_batches = 1;
        status = evaluation_run(&evaluation, evaluator->parameters, &of_rest, error);
    }
    const double whole = (double)(evaluator->sequences - rest);
    const double all = (double)evaluator->sequences;
    scores->loss = (of_whole.loss * whole + of_rest.loss * (double)rest) / all;
    scores->accuracy = (of_whole.accuracy * whole + of_rest.accuracy * (double)rest) / all;
    return status;
}

/* Rank 0 has the weights' settings. */
static weft_status share_habits(struct evaluator *evaluator, struct error *error)
{
    if (weft_comm_rank(evaluator->comm) == 0)
        evaluator->habits = run_data_habits_of(pretrained_settings(evaluator->config->pretrained));
    return library_error(evaluator->context,
                         weft_broadcast(&evaluator->habits, sizeof evaluator->habits, WEFT_U8, 0, evaluator->comm),
                         error);
}

weft_status evaluator_run(const struct evaluator_config *config, weft_context *context, weft_comm *comm,
                          struct evaluator_result *result, bool *speaks, struct error *error)
{
    *speaks = true;
    struct evaluator evaluator = {.config = config, .context = context, .comm = comm};
    struct evaluator_result found = {0};
    struct executor_scores scores = {0};
    evaluator.sources = (struct text_sources){.from = config->from,
                                              .tokenizer = config->tokenizer,
                                              .data = config->data,
                                              .vocabulary = config->shape.vocabulary};
    weft_status status =
        kernel_choice_reach(context, comm, config->kernels, config->activations, &evaluator.kernels, speaks, error);
    if (status == WEFT_OK)
        status = text_open_together(&evaluator.sources, context, comm, &evaluator.text, speaks, error);
    if (status == WEFT_OK)
        status = share_habits(&evaluator, error);
    if (status == WEFT_OK)
        status = agreement_reach(context, comm, evaluator_prepare(&evaluator, error), error, speaks);
    if (status != WEFT_OK)
        goto close;
    uint64_t begin = clock_now();
    if (weft_comm_rank(comm) == 0)
        status = pretrained_read(config->pretrained, evaluator.description, evaluator.parameters, error);
    if ((status = agreement_reach(context, comm, status, error, speaks)) != WEFT_OK)
        goto close;
    status = weft_broadcast(evaluator.parameters, evaluator.description->elements, WEFT_F32, 0, comm);
    if (status != WEFT_OK)
        error_set(error, status, "%s", weft_message(context));
    found.load_seconds = (double)(clock_now() - begin) * 1e-9;
    begin = clock_now();
    if (status == WEFT_OK)
        status = evaluator_evaluate(&evaluator, &scores, error);
    found.seconds = (double)(clock_now() - begin) * 1e-9;
    if (status != WEFT_OK) { /* the others would wait for this rank */
        weft_abort(context, error->text);
        goto close;
    }
    found.loss = scores.loss;
    found.accuracy = scores.accuracy;
    if (!isfinite(found.loss)) {
        *speaks = weft_comm_rank(comm) == 0;
        status = error_set(error, WEFT_ERROR_DATA,
                           "the loss on the held-out part of '%s' is %g, though every weight is finite: the weights "
                           "are so large that the forward pass overflows, as after a training that diverged; evaluate "
                           "an older checkpoint",
                           config->data, fabs(found.loss)); /* no "-nan" */
        goto close;
    }
    found.sequences = evaluator.sequences;
    found.sequence = evaluator.sequence;
    found.reads_images = model_samples_of(&config->shape) == SAMPLES_OF_IMAGES;
    found.tokens = evaluator.sequences * evaluator.sequence;
    found.bytes_per_token = evaluator.text.bytes_per_token;
    found.weights = evaluator.description->weights;
    found.kernels = kernel_set_names[evaluator.kernels.set];
    snprintf(found.data, sizeof found.data, "%s", sample_source_describe(evaluator.source));
    *result = found;
close:
    evaluator_close(&evaluator);
    return status;
}

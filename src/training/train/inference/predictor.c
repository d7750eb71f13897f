/* SPDX-License-Identifier: Apache-2.0 */
#include "training/train/inference/predictor.h"

#include "training/data/bert/labeled.h"
#include "training/train/loop/run_data.h"
#include "training/train/text/text.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define CLASS_NAME_BYTES 24 /* of a number */

struct predictor {
    struct predictor_config config;
    enum model_samples samples;
    struct device *device;
    struct model_description *description;
    struct model *model;
    void *parameters; /* on the device */
    struct text text;
    struct run_data_habits habits;     /* of the run that wrote the weights */
    size_t sequence;                   /* tokens of a text */
    struct model_arrays arrays;        /* of a sample */
    char (*numbers)[CLASS_NAME_BYTES]; /* in place of names */
};

static weft_status check_network(const struct predictor_config *config, struct error *error)
{
    if (!config->shape.classes)
        return error_set(
            error, WEFT_ERROR_ARGUMENT,
            "the model in '%s' (%s) gives no classes; take an image model, or a bert that was trained with "
            "--task classify",
            config->from, config->shape.kind);
    return WEFT_OK;
}

static weft_status open_tokenizer_of(struct predictor *predictor, struct error *error)
{
    const struct predictor_config *config = &predictor->config;
    const char *trained =
        cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(pretrained_settings(config->pretrained), "tokenizer"));
    if (predictor->samples == SAMPLES_OF_IMAGES)
        return config->tokenizer ? error_set(error, WEFT_ERROR_ARGUMENT,
                                             "--tokenizer is for models that read text, and a %s reads images; leave "
                                             "it out",
                                             config->shape.kind)
                                 : WEFT_OK;
    if (config->tokenizer && !tokenizer_is_in(config->tokenizer))
        return error_set(error, WEFT_ERROR_ARGUMENT, "there is no tokenizer in '%s'; name a directory with vocab.txt",
                         config->tokenizer);
    const weft_status status =
        text_open_weights(config->tokenizer ? config->tokenizer : config->from, 0, &predictor->text, error);
    if (status != WEFT_OK)
        return status;
    if (!predictor->text.tokenizer)
        return error_set(error, WEFT_ERROR_ARGUMENT,
                         "there is no vocab.txt at '%s', by which texts become tokens; give --tokenizer DIR",
                         config->from);
    if (trained && strcmp(trained, predictor->text.identity) != 0)
        return error_set(error, WEFT_ERROR_DATA,
                         "the weights in '%s' were trained on tokens of another tokenizer than that in '%s'; leave out "
                         "--tokenizer",
                         config->from, config->tokenizer ? config->tokenizer : config->from);
    return WEFT_OK;
}

static weft_status read_predictor_weights(struct predictor *predictor, struct error *error)
{
    struct device *device = predictor->device;
    const size_t count = predictor->description->elements, bytes = count * sizeof(float);
    predictor->parameters = device->allocate(device, bytes, "the model's weights", error);
    if (!predictor->parameters)
        return WEFT_ERROR_MEMORY;
    return pretrained_read(predictor->config.pretrained, predictor->description, predictor->parameters, error);
}

static weft_status open_network(struct predictor *predictor, struct error *error)
{
    const struct predictor_config *config = &predictor->config;
    const uint64_t own = predictor->habits.sequence, context = config->shape.context;
    const size_t sequence = predictor->samples == SAMPLES_OF_IMAGES ? 1
                            : own && own < context                  ? own
                                                                    : context,
                 classes = config->shape.classes;
    predictor->sequence = sequence;
    weft_status status = device_open(device_cpu_name(config->activations), config->threads, &predictor->device, error);
    if (status == WEFT_OK)
        status = model_describe(&config->shape, &predictor->description, error);
    if (status == WEFT_OK)
        status = read_predictor_weights(predictor, error);
    if (status == WEFT_OK)
        status = model_open(predictor->description, predictor->device,
                            &(struct model_options){.batch = 1, .sequence = sequence}, &predictor->model, error);
    if (status == WEFT_OK)
        status = model_arrays_allocate(predictor->description, NULL, sequence, 1, &predictor->arrays, error);
    if (status != WEFT_OK)
        return status;
    predictor->numbers = calloc(classes, sizeof *predictor->numbers);
    if (!predictor->numbers)
        return error_memory(error, classes * sizeof *predictor->numbers, "the names of classes");
    for (size_t i = 0; i < classes; i++)
        snprintf(predictor->numbers[i], sizeof *predictor->numbers, "%zu", i);
    return WEFT_OK;
}

weft_status predictor_open(const struct predictor_config *config, struct predictor **result, struct error *error)
{
    weft_status status = check_network(config, error);
    if (status != WEFT_OK)
        return status;
    struct predictor *predictor = calloc(1, sizeof *predictor);
    if (!predictor)
        return error_memory(error, sizeof *predictor, "a predictor");
    predictor->config = *config;
    predictor->samples = model_samples_of(&config->shape);
    predictor->habits = run_data_habits_of(pretrained_settings(config->pretrained));
    status = open_tokenizer_of(predictor, error);
    if (status == WEFT_OK)
        status = open_network(predictor, error);
    if (status != WEFT_OK) {
        predictor_close(predictor);
        return status;
    }
    *result = predictor;
    return WEFT_OK;
}

void predictor_close(struct predictor *predictor)
{
    if (!predictor)
        return;
    model_close(predictor->model);
    if (predictor->parameters)
        predictor->device->release(predictor->device, predictor->parameters);
    model_description_free(predictor->description);
    if (predictor->device)
        predictor->device->close(predictor->device);
    text_close(&predictor->text);
    model_arrays_free(&predictor->arrays);
    free(predictor->numbers);
    free(predictor);
}

bool predictor_reads_images(const struct predictor *predictor)
{
    return predictor->samples == SAMPLES_OF_IMAGES;
}

size_t predictor_classes(const struct predictor *predictor)
{
    return predictor->config.shape.classes;
}

const char *predictor_class_name(const struct predictor *predictor, size_t number)
{
    const cJSON *names = pretrained_class_names(predictor->config.pretrained);
    const char *name = cJSON_GetStringValue(cJSON_GetArrayItem(names, (int)number));
    return name ? name : predictor->numbers[number];
}

/* Probabilities from the arrays of the sample. */
static weft_status predictor_run(struct predictor *predictor, double *probabilities, struct error *error)
{
    const size_t classes = predictor_classes(predictor);
    struct model_batch batch = {0};
    memcpy(batch.inputs, predictor->arrays.of, sizeof batch.inputs);
    batch.targets = batch.labels = NULL;
    const weft_status status = model_classify(predictor->model, predictor->parameters, &batch, probabilities, error);
    double most = -INFINITY, sum = 0;
    for (size_t i = 0; status == WEFT_OK && i < classes; i++)
        most = probabilities[i] > most ? probabilities[i] : most;
    for (size_t i = 0; status == WEFT_OK && i < classes; i++)
        sum += probabilities[i] = exp(probabilities[i] - most);
    for (size_t i = 0; status == WEFT_OK && i < classes; i++)
        probabilities[i] /= sum;
    return status;
}

weft_status predictor_image(struct predictor *predictor, const char *path, double *probabilities, struct error *error)
{
    const struct run_data_options options = {.images = {.changes = predictor->habits.changes},
                                             .normalization = predictor->habits.normalization};
    const struct images_options images = run_data_images(&options, &predictor->config.shape);
    const weft_status status = images_read_file(path, &images, predictor->arrays.pixels, error);
    return status == WEFT_OK ? predictor_run(predictor, probabilities, error) : status;
}

weft_status predictor_text(struct predictor *predictor, const char *text, const char *other, double *probabilities,
                           struct error *error)
{
    const struct bert_data_options options = {.sequence = predictor->sequence,
                                              .vocabulary = predictor->config.shape.vocabulary,
                                              .tokenizer = predictor->text.tokenizer};
    const struct model_arrays *arrays = &predictor->arrays;
    const weft_status status =
        labeled_encode(&options, text, other, arrays->tokens, arrays->segments, arrays->lengths, error);
    return status == WEFT_OK ? predictor_run(predictor, probabilities, error) : status;
}

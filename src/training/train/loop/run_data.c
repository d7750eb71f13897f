/* SPDX-License-Identifier: Apache-2.0 */
#include "training/train/loop/run_data.h"

#include "training/data/bert/labeled.h"
#include "training/data/bert/pairs.h"
#include "training/data/dataset.h"
#include "training/data/random_source.h"

#include <inttypes.h>
#include <string.h>

static bool is_random(const struct run_data_options *options)
{
    return strcmp(options->data, "random") == 0;
}

bool run_data_decides_classes(const struct run_data_options *options, const struct model_shape *shape)
{
    const enum model_samples samples = model_samples_of(shape);
    return !is_random(options) && (samples == SAMPLES_OF_IMAGES || (samples == SAMPLES_OF_TEXTS && options->classify));
}

/* ---- tokens ---- */

static weft_status open_tokens(const struct run_data_options *options, const struct model_shape *shape,
                               struct sample_source **source, double *bytes_per_token, struct error *error)
{
    const struct dataset_options tokens = {.sequence = options->sequence,
                                           .seed = options->seed,
                                           .vocabulary = shape->vocabulary,
                                           .tokenizer = options->text->tokenizer};
    struct dataset *dataset;
    if (options->classify)
        return error_set(error, WEFT_ERROR_ARGUMENT,
                         "--task classify needs a model of kind bert; a %s predicts the next tokens of a text",
                         shape->kind);
    const weft_status status = is_random(options) ? dataset_open_random(&tokens, &dataset, error)
                                                  : dataset_open(&options->data, 1, &tokens, &dataset, error);
    if (status != WEFT_OK)
        return status;
    if (dataset_bytes_per_token(dataset) > 0)
        *bytes_per_token = dataset_bytes_per_token(dataset);
    *source = dataset_source(dataset);
    return WEFT_OK;
}

/* ---- texts ---- */

static weft_status open_texts(const struct run_data_options *options, const struct model_shape *shape,
                              struct sample_source **source, struct error *error)
{
    const struct bert_data_options texts = {.sequence = options->sequence,
                                            .seed = options->seed,
                                            .vocabulary = shape->vocabulary,
                                            .tokenizer = options->text->tokenizer,
                                            .whole_words = options->whole_words};
    if (!texts.tokenizer)
        return error_set(error, WEFT_ERROR_ARGUMENT,
                         "a model of kind bert reads texts as WordPiece tokens, but there is no tokenizer; give "
                         "--tokenizer DIR with a vocab.txt (weft data tokenizer --kind wordpiece makes one)");
    return options->classify ? labeled_open(&options->data, 1, &texts, source, error)
                             : pairs_open(&options->data, 1, &texts, source, error);
}

/* ---- images ---- */

/* Small images are moved by some pixels, larger ones are cropped. */
static struct image_augment augment_of(const struct image_choice *choice, const struct model_shape *shape)
{
    struct image_augment augment = {.mixup = choice->mixup, .erase = choice->erase};
    enum image_changes changes = choice->changes;
    if (changes == IMAGE_CHANGES_AUTO)
        changes = model_has_small_images(shape) ? IMAGE_CHANGES_SMALL : IMAGE_CHANGES_LARGE;
    if (changes != IMAGE_CHANGES_NONE)
        augment.mirror = 0.5;
    if (changes == IMAGE_CHANGES_SMALL)
        augment.pad = (uint32_t)(shape->image + 7) / 8;
    if (changes == IMAGE_CHANGES_LARGE) {
        augment.scale_least = 0.08;
        augment.scale_most = 1;
        augment.brightness = augment.contrast = augment.saturation = 0.4;
    }
    return augment;
}

/* An array of three numbers in the settings of a run. */
static bool read_three(const cJSON *settings, const char *name, double to[3])
{
    const cJSON *array = cJSON_GetObjectItemCaseSensitive(settings, name);
    if (!cJSON_IsArray(array) || cJSON_GetArraySize(array) != 3)
        return false;
    for (int i = 0; i < 3; i++)
        to[i] = cJSON_GetNumberValue(cJSON_GetArrayItem(array, i));
    return true;
}

struct run_data_habits run_data_habits_of(const cJSON *settings)
{
    struct run_data_habits habits = {0};
    const char *changes = cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(settings, "augment"));
    const cJSON *sequence = cJSON_GetObjectItemCaseSensitive(settings, "sequence");
    if (!read_three(settings, "image_mean", habits.normalization.mean) ||
        !read_three(settings, "image_deviation", habits.normalization.deviation))
        habits.normalization = (struct image_normalization){0};
    for (int i = 0; changes && image_changes_names[i]; i++)
        if (strcmp(changes, image_changes_names[i]) == 0)
            habits.changes = (enum image_changes)i;
    if (cJSON_IsNumber(sequence) && sequence->valuedouble >= 1 && sequence->valuedouble < 1e9)
        habits.sequence = (uint64_t)sequence->valuedouble;
    return habits;
}

struct images_options run_data_images(const struct run_data_options *options, const struct model_shape *shape)
{
    const struct images_options images = {.size = (uint32_t)shape->image,
                                          .channels = (uint32_t)shape->channels,
                                          .seed = options->seed,
                                          .augment = augment_of(&options->images, shape),
                                          .normalization = options->normalization,
                                          .threads = (uint32_t)options->images.threads,
                                          .skip = options->images.skip};
    return images;
}

uint64_t run_data_skipped(const struct sample_source *source, const struct model_shape *shape)
{
    const bool has_images = sample_source_classes(source) && model_samples_of(shape) == SAMPLES_OF_IMAGES;
    return has_images ? images_skipped(source) : 0;
}

/* ---- all ---- */

size_t run_data_other_class(const cJSON *names, const struct sample_source *source)
{
    const size_t classes = sample_source_classes(source);
    for (size_t i = 0; cJSON_IsArray(names) && i < classes; i++) {
        const char *name = cJSON_GetStringValue(cJSON_GetArrayItem(names, (int)i));
        if (name && strcmp(name, sample_source_class_name(source, i)) != 0)
            return i;
    }
    return classes;
}

/* Classes are numbered by their names, so others would be mixed up silently. */
static weft_status compare_class_names(const struct run_data_options *options, const struct sample_source *source,
                                       struct error *error)
{
    const size_t other = run_data_other_class(options->class_names, source);
    if (other == sample_source_classes(source))
        return WEFT_OK;
    return error_set(error, WEFT_ERROR_DATA,
                     "class %zu of the weights is '%s', but that of '%s' is '%s'; take data of the same classes", other,
                     cJSON_GetStringValue(cJSON_GetArrayItem(options->class_names, (int)other)), options->data,
                     sample_source_class_name(source, other));
}

static weft_status settle_classes(const struct run_data_options *options, struct model_shape *shape,
                                  const struct sample_source *source, struct error *error)
{
    const size_t classes = sample_source_classes(source);
    if (!classes)
        return WEFT_OK;
    if (options->classes_chosen && shape->classes && shape->classes != classes)
        return error_set(error, WEFT_ERROR_DATA,
                         "the model has %zu classes, but '%s' has %zu; take data of the same classes, or train the "
                         "model on these first (weft train --from)",
                         shape->classes, options->data, classes);
    shape->classes = classes;
    return options->classes_chosen ? compare_class_names(options, source, error) : WEFT_OK;
}

weft_status run_data_open(const struct run_data_options *options, struct model_shape *shape,
                          struct sample_source **source, double *bytes_per_token, struct error *error)
{
    const enum model_samples samples = model_samples_of(shape);
    struct sample_source *opened = NULL;
    weft_status status = WEFT_OK;
    if (samples == SAMPLES_OF_TOKENS) {
        status = open_tokens(options, shape, &opened, bytes_per_token, error);
    } else if (is_random(options)) {
        const struct model_inputs inputs = model_shape_inputs(shape, options->sequence);
        status = random_source_open(&inputs, options->seed, &opened, error);
    } else if (samples == SAMPLES_OF_TEXTS) {
        status = open_texts(options, shape, &opened, error);
    } else {
        const struct images_options images = run_data_images(options, shape);
        status = images_open(options->data, &images, &opened, error);
    }
    if (status == WEFT_OK)
        status = settle_classes(options, shape, opened, error);
    if (status != WEFT_OK) {
        sample_source_close(opened);
        return status;
    }
    *source = opened;
    return WEFT_OK;
}

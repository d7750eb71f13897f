/* SPDX-License-Identifier: Apache-2.0 */
#include "training/train/inference/language_model.h"

#include "base/file/file.h"
#include "core/topology/limits.h"

static weft_status open_text(const struct language_model_config *config, struct text *text, struct error *error)
{
    const char *path = config->tokenizer ? config->tokenizer : config->from;
    if (!file_exists(path))
        return error_set(error, WEFT_ERROR_ARGUMENT, "there is nothing at '%s'", path);
    weft_status status = text_open_weights(path, config->tokenizer ? 0 : config->shape.vocabulary, text, error);
    if (status == WEFT_OK && text_is_known(text) && text_tokens(text) > config->shape.vocabulary)
        return error_set(error, WEFT_ERROR_ARGUMENT,
                         "the tokenizer at '%s' has %zu tokens, but the model only %zu: it is not the model's", path,
                         text_tokens(text), config->shape.vocabulary);
    if (status != WEFT_OK || text_is_known(text))
        return status;
    return error_set(error, WEFT_ERROR_ARGUMENT,
                     "the text of the %zu tokens of '%s' is not known: there is no vocab.json and merges.txt "
                     "at '%s'; %s",
                     config->shape.vocabulary, config->from, path,
                     config->tokenizer ? "weft data tokenizer makes them, and directories of public weights have them"
                                       : "give --tokenizer");
}

static weft_status read_weights(const struct language_model_config *config, struct language_model *model,
                                struct error *error)
{
    struct limits limits;
    const size_t bytes = model->description->elements * sizeof(float);
    weft_status status = limits_read(&limits, error);
    if (status == WEFT_OK)
        status = limits_check(&limits, bytes, bytes, "the model's weights", error);
    if (status != WEFT_OK)
        return status;
    model->parameters = model->device->allocate(model->device, bytes, "the model's weights", error);
    if (!model->parameters)
        return WEFT_ERROR_MEMORY;
    return pretrained_read(config->pretrained, model->description, model->parameters, error);
}

weft_status language_model_open(const struct language_model_config *config, struct language_model *model,
                                struct error *error)
{
    *model = (struct language_model){0};
    weft_status status = open_text(config, &model->text, error);
    if (status == WEFT_OK)
        status = device_open(device_cpu_name(config->activations), config->threads, &model->device, error);
    if (status == WEFT_OK)
        status = model_describe(&config->shape, &model->description, error);
    if (status == WEFT_OK)
        status = read_weights(config, model, error);
    return status;
}

void language_model_close(struct language_model *model)
{
    if (model->parameters)
        model->device->release(model->device, model->parameters);
    model_description_free(model->description);
    if (model->device)
        model->device->close(model->device);
    text_close(&model->text);
}

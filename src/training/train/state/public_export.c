/* SPDX-License-Identifier: Apache-2.0 */
#include "training/train/state/public_export.h"

#include "base/file/file.h"
#include "training/checkpoint/convert.h"
#include "training/data/tokenizer/tokenizer.h"
#include "training/model/file/public_config.h"
#include "training/model/file/shape_json.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* The weights in memory, a tensor each. */
struct weights {
    struct model_description *description;
    struct named_tensor *tensors;
    float *memory;
};

static weft_status weights_read(struct weights *weights, const struct checkpoint *checkpoint, struct error *error)
{
    char where[FILE_PATH_BYTES + 64];
    struct model_shape shape;
    *weights = (struct weights){0};
    snprintf(where, sizeof where, "the model of the checkpoint '%s'", checkpoint_directory(checkpoint));
    weft_status status = shape_from_json(checkpoint_get_state(checkpoint)->model, where, &shape, error);
    if (status == WEFT_OK)
        status = model_describe(&shape, &weights->description, error);
    if (status != WEFT_OK)
        return status;
    const size_t count = weights->description->parameter_count, bytes = weights->description->elements * sizeof(float);
    weights->tensors = calloc(count, sizeof *weights->tensors);
    weights->memory = malloc(bytes);
    if (!weights->tensors || !weights->memory)
        return error_memory(error, bytes, "a checkpoint's weights");
    float *next = weights->memory;
    for (size_t i = 0; i < count; i++) {
        const struct model_parameter *parameter = &weights->description->parameters[i];
        weights->tensors[i] = (struct named_tensor){.name = parameter->name,
                                                    .type = WEFT_F32,
                                                    .dimensions = (unsigned)parameter->dimensions,
                                                    .count = parameter->count,
                                                    .data = next};
        for (size_t d = 0; d < parameter->dimensions; d++)
            weights->tensors[i].shape[d] = parameter->shape[d];
        next += parameter->count;
    }
    return checkpoint_read(checkpoint, weights->tensors, count, error);
}

static void weights_convert(struct weights *weights, weft_type type)
{
    for (size_t i = 0; i < weights->description->parameter_count; i++) {
        struct named_tensor *tensor = &weights->tensors[i];
        convert_from_f32(type, tensor->count, tensor->data, tensor->data);
        tensor->type = type;
    }
}

/* The tokenizer that the checkpoint carries, if any. */
static weft_status public_export_write_tokenizer(const struct checkpoint *checkpoint, const char *directory,
                                                 struct error *error)
{
    struct tokenizer *tokenizer;
    if (!tokenizer_is_in(checkpoint_directory(checkpoint)))
        return WEFT_OK;
    weft_status status = tokenizer_open(checkpoint_directory(checkpoint), &tokenizer, error);
    if (status != WEFT_OK)
        return status;
    status = tokenizer_write(tokenizer, directory, error);
    tokenizer_close(tokenizer);
    return status;
}

static weft_status write_files(const struct weights *weights, const struct checkpoint *checkpoint,
                               const char *directory, weft_type type, struct error *error)
{
    char path[FILE_PATH_BYTES], *text;
    const cJSON *class_names = cJSON_GetObjectItemCaseSensitive(checkpoint_get_state(checkpoint)->training, "classes");
    struct file_digest digest;
    weft_status status = file_join(path, directory, "model.safetensors", error);
    if (status == WEFT_OK)
        status = safetensors_write(path, weights->tensors, weights->description->parameter_count, &digest, error);
    if (status != WEFT_OK || weights->description->shape.image) /* torchvision's files have no config.json */
        return status;
    status = file_join(path, directory, PUBLIC_CONFIG_NAME, error);
    if (status == WEFT_OK)
        status = public_config_format(&weights->description->shape, class_names, type, &text, error);
    if (status != WEFT_OK)
        return status;
    status = file_write(path, text, strlen(text), error);
    free(text);
    return status == WEFT_OK ? public_export_write_tokenizer(checkpoint, directory, error) : status;
}

/* `directory` without slashes at its end, and the name under which it is written first. */
static weft_status name_directories(const char *directory, char target[FILE_PATH_BYTES], char partial[FILE_PATH_BYTES],
                                    struct error *error)
{
    size_t length = strlen(directory);
    while (length > 1 && directory[length - 1] == '/')
        length--;
    if (length == 0 || length + sizeof ".partial" > FILE_PATH_BYTES)
        return error_set(error, WEFT_ERROR_ARGUMENT, "'%.200s' cannot be a directory's name", directory);
    snprintf(target, FILE_PATH_BYTES, "%.*s", (int)length, directory);
    snprintf(partial, FILE_PATH_BYTES, "%.*s.partial", (int)length, directory);
    return WEFT_OK;
}

static weft_status public_export_publish(const char *partial, const char *target, struct error *error)
{
    char parent[FILE_PATH_BYTES];
    if (rename(partial, target) != 0) /* replaces an empty directory and nothing else */
        return error_system(error, "cannot rename '%s' to '%s'", partial, target);
    snprintf(parent, sizeof parent, "%.*s", (int)(file_name(target) - target), target);
    return file_sync_directory(*parent ? parent : ".", error);
}

weft_status public_export(const struct checkpoint *checkpoint, const char *directory, weft_type type,
                          struct error *error)
{
    char target[FILE_PATH_BYTES], partial[FILE_PATH_BYTES];
    struct weights weights = {0};
    if (!convert_knows(type))
        return error_set(error, WEFT_ERROR_ARGUMENT, "weights can be written as f32, f16 or bf16, not as %s",
                         weft_type_name(type));
    weft_status status = name_directories(directory, target, partial, error);
    if (status != WEFT_OK)
        return status;
    if (file_exists(target) && rmdir(target) != 0)
        return error_set(error, WEFT_ERROR_ARGUMENT, "'%s' is there already; give --output a directory that is not",
                         target);
    status = weights_read(&weights, checkpoint, error);
    if (status == WEFT_OK) {
        weights_convert(&weights, type);
        status = file_remove_tree(partial, error);
    }
    if (status == WEFT_OK)
        status = file_make_directory(partial, error);
    if (status == WEFT_OK)
        status = write_files(&weights, checkpoint, partial, type, error);
    if (status == WEFT_OK)
        status = public_export_publish(partial, target, error);
    if (status != WEFT_OK)
        file_remove_tree(partial, NULL);
    model_description_free(weights.description);
    free(weights.tensors);
    free(weights.memory);
    return status;
}

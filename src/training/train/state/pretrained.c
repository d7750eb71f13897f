/* SPDX-License-Identifier: Apache-2.0 */
#include "training/train/state/pretrained.h"

#include "base/file/file.h"
#include "base/float_bits.h"
#include "base/text.h"
#include "training/checkpoint/checkpoint.h"
#include "training/checkpoint/convert.h"
#include "training/checkpoint/tensor_files.h"
#include "training/model/file/public_config.h"
#include "training/model/file/shape_json.h"
#include "training/parallel/agreement.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define PREFIX "transformer."

struct pretrained {
    char path[FILE_PATH_BYTES];
    struct checkpoint *checkpoint; /* one of the two */
    struct tensor_files *files;
    bool has_shape;
    struct model_shape shape;
    cJSON *class_names; /* of public weights; NULL: they have none */
    char about[FILE_PATH_BYTES + 128];
};

/* ---- opening ---- */

/* A checkpoint, or a directory that has one. Other directories with a model.safetensors hold public weights. */
static bool is_of_weft(const char *path)
{
    char manifest[FILE_PATH_BYTES];
    size_t count;
    if (!file_is_directory(path))
        return false;
    if (file_join(manifest, path, CHECKPOINT_MANIFEST, NULL) == WEFT_OK && file_exists(manifest))
        return true;
    return checkpoint_list(path, NULL, 0, &count, NULL) == WEFT_OK && count > 0;
}

static weft_status open_checkpoint(struct pretrained *pretrained, struct error *error)
{
    char where[FILE_PATH_BYTES + 64];
    weft_status status = checkpoint_open(pretrained->path, &pretrained->checkpoint, error);
    if (status != WEFT_OK)
        return status;
    const struct checkpoint_state *state = checkpoint_get_state(pretrained->checkpoint);
    snprintf(where, sizeof where, "the model of the checkpoint '%s'", checkpoint_directory(pretrained->checkpoint));
    status = shape_from_json(state->model, where, &pretrained->shape, error);
    pretrained->has_shape = status == WEFT_OK;
    snprintf(pretrained->about, sizeof pretrained->about, "the checkpoint %s, after step %" PRIu64,
             checkpoint_directory(pretrained->checkpoint), state->step);
    return status;
}

/* The config.json in the directory that `path` is or lies in. */
static weft_status find_config(const char *path, char config[FILE_PATH_BYTES], struct error *error)
{
    char directory[FILE_PATH_BYTES];
    if (file_is_directory(path))
        return file_join(config, path, PUBLIC_CONFIG_NAME, error);
    snprintf(directory, sizeof directory, "%.*s", (int)(file_name(path) - path), path);
    return file_join(config, *directory ? directory : ".", PUBLIC_CONFIG_NAME, error);
}

static void describe_files(struct pretrained *pretrained)
{
    size_t count = tensor_files_count(pretrained->files), of[WEFT_TYPES] = {0};
    int length = snprintf(pretrained->about, sizeof pretrained->about, "%s, %zu tensors", pretrained->path, count);
    for (size_t i = 0; i < count; i++)
        of[tensor_files_tensor(pretrained->files, i)->type]++;
    const char *separator = " of ";
    for (weft_type type = 0; type < WEFT_TYPES; type++) {
        if (!of[type] || (size_t)length >= sizeof pretrained->about)
            continue;
        length += snprintf(pretrained->about + length, sizeof pretrained->about - (size_t)length, "%s%s", separator,
                           weft_type_name(type));
        separator = ", ";
    }
}

static weft_status pretrained_open_files(struct pretrained *pretrained, struct error *error)
{
    char config[FILE_PATH_BYTES];
    weft_status status = tensor_files_open(pretrained->path, &pretrained->files, error);
    if (status == WEFT_OK)
        status = find_config(pretrained->path, config, error);
    if (status != WEFT_OK)
        return status;
    describe_files(pretrained);
    if (!file_exists(config))
        return WEFT_OK;
    status = public_config_read(config, &pretrained->shape, error);
    pretrained->has_shape = status == WEFT_OK;
    if (status == WEFT_OK && pretrained->shape.classes)
        status = public_config_class_names(config, &pretrained->class_names, error);
    return status;
}

/* Names from files appear in messages, so control characters are replaced. */
static weft_status pretrained_told(weft_status status, struct error *error)
{
    if (status != WEFT_OK && error)
        text_printable(error->text);
    return status;
}

weft_status pretrained_open(const char *path, struct pretrained **result, struct error *error)
{
    struct pretrained *pretrained = calloc(1, sizeof *pretrained);
    if (!pretrained)
        return error_memory(error, sizeof *pretrained, "pre-trained weights");
    if (strlen(path) >= sizeof pretrained->path) {
        free(pretrained);
        return error_set(error, WEFT_ERROR_ARGUMENT, "the path '%.200s...' is too long", path);
    }
    strcpy(pretrained->path, path);
    weft_status status =
        is_of_weft(path) ? open_checkpoint(pretrained, error) : pretrained_open_files(pretrained, error);
    if (status != WEFT_OK) {
        pretrained_close(pretrained);
        return pretrained_told(status, error);
    }
    *result = pretrained;
    return WEFT_OK;
}

void pretrained_close(struct pretrained *pretrained)
{
    if (!pretrained)
        return;
    checkpoint_close(pretrained->checkpoint);
    tensor_files_close(pretrained->files);
    cJSON_Delete(pretrained->class_names);
    free(pretrained);
}

const struct model_shape *pretrained_shape(const struct pretrained *pretrained)
{
    return pretrained->has_shape ? &pretrained->shape : NULL;
}

const char *pretrained_describe(const struct pretrained *pretrained)
{
    return pretrained->about;
}

const cJSON *pretrained_settings(const struct pretrained *pretrained)
{
    return pretrained->checkpoint ? checkpoint_get_state(pretrained->checkpoint)->training : NULL;
}

const cJSON *pretrained_class_names(const struct pretrained *pretrained)
{
    return pretrained->checkpoint ? cJSON_GetObjectItemCaseSensitive(pretrained_settings(pretrained), "classes")
                                  : pretrained->class_names;
}

uint64_t pretrained_step(const struct pretrained *pretrained)
{
    return pretrained->checkpoint ? checkpoint_get_state(pretrained->checkpoint)->step : 0;
}

/* ---- heads ---- */

/* A classifier's weights are new where a pre-trained network had another head or other classes. Its head is not used then. */
#define OTHER_HEAD "cls."

static bool has_prefix(const char *name, const char *prefix)
{
    return strncmp(name, prefix, strlen(prefix)) == 0;
}

static bool is_of_classifier(const struct model_parameter *parameter)
{
    return has_prefix(parameter->name, "classifier.") || has_prefix(parameter->name, "fc.");
}

/* Whether a parameter keeps its value. */
static bool is_of_new_head(const struct model_parameter *parameter, bool head_is_new)
{
    return head_is_new && is_of_classifier(parameter);
}

/* ---- a checkpoint's weights ---- */

static struct named_tensor pretrained_tensor_of(const struct model_parameter *parameter, float *parameters)
{
    struct named_tensor tensor = {.name = parameter->name,
                                  .type = WEFT_F32,
                                  .dimensions = (unsigned)parameter->dimensions,
                                  .count = parameter->count,
                                  .data = parameters + parameter->offset};
    for (size_t d = 0; d < parameter->dimensions; d++)
        tensor.shape[d] = parameter->shape[d];
    return tensor;
}

static weft_status pretrained_read_checkpoint(const struct checkpoint *checkpoint,
                                              const struct model_description *description, bool head_is_new,
                                              float *parameters, struct error *error)
{
    size_t count = 0;
    struct named_tensor *wanted = calloc(description->parameter_count, sizeof *wanted);
    if (!wanted)
        return error_memory(error, description->parameter_count * sizeof *wanted, "a list of tensors");
    for (size_t i = 0; i < description->parameter_count; i++)
        if (!is_of_new_head(&description->parameters[i], head_is_new))
            wanted[count++] = pretrained_tensor_of(&description->parameters[i], parameters);
    weft_status status = checkpoint_read(checkpoint, wanted, count, error);
    free(wanted);
    return status;
}

/* ---- public weights ---- */

/* The ends of names in older files of BERT, and what they are called now. */
static const char *const older_names[][2] = {{".LayerNorm.gamma", ".LayerNorm.weight"},
                                             {".LayerNorm.beta", ".LayerNorm.bias"}};

/* `name` with another end; false where it does not have that end. */
static bool name_with_end(const char *name, const char *end, const char *other, char to[MODEL_NAME_BYTES])
{
    if (!text_ends_in(name, end) || strlen(name) >= MODEL_NAME_BYTES)
        return false;
    snprintf(to, MODEL_NAME_BYTES, "%.*s%s", (int)(strlen(name) - strlen(end)), name, other);
    return true;
}

/* The name without the prefix that some tools add. */
static const char *without_prefix(const char *name)
{
    return strncmp(name, PREFIX, strlen(PREFIX)) == 0 ? name + strlen(PREFIX) : name;
}

static const struct named_tensor *find_parameter(const struct tensor_files *files, const char *name)
{
    char prefixed[sizeof PREFIX + MODEL_NAME_BYTES];
    const struct named_tensor *found = tensor_files_find(files, name);
    if (found)
        return found;
    for (size_t i = 0; i < ARRAY_SIZE(older_names); i++)
        if (name_with_end(name, older_names[i][1], older_names[i][0], prefixed) &&
            (found = tensor_files_find(files, prefixed)))
            return found;
    snprintf(prefixed, sizeof prefixed, PREFIX "%s", name);
    return tensor_files_find(files, prefixed);
}

/* Whether the weights have a tensor of a parameter's name and shape. */
static bool has_alike(const struct pretrained *pretrained, const struct model_description *description,
                      const struct model_parameter *parameter)
{
    if (pretrained->checkpoint)
        return checkpoint_where(pretrained->checkpoint, parameter->name) &&
               pretrained->shape.classes == description->shape.classes;
    const struct named_tensor wanted = pretrained_tensor_of(parameter, NULL),
                              *found = find_parameter(pretrained->files, parameter->name);
    return found && named_tensor_same_shape(&wanted, found);
}

bool pretrained_lacks_head(const struct pretrained *pretrained, const struct model_description *description)
{
    for (size_t i = 0; description->shape.classes && i < description->parameter_count; i++)
        if (is_of_classifier(&description->parameters[i]))
            return !has_alike(pretrained, description, &description->parameters[i]);
    return false;
}

/* Why a file's weights are not this model's: the first of what is wanted that is not there. */
static weft_status check_all_there(const struct pretrained *pretrained, const struct model_description *description,
                                   bool head_is_new, struct error *error)
{
    const char *first = NULL;
    size_t missing = 0;
    for (size_t i = 0; i < description->parameter_count; i++) {
        if (find_parameter(pretrained->files, description->parameters[i].name) ||
            is_of_new_head(&description->parameters[i], head_is_new))
            continue;
        if (!missing++)
            first = description->parameters[i].name;
    }
    if (!missing)
        return WEFT_OK;
    return error_set(error, WEFT_ERROR_DATA,
                     "'%s' lacks tensor '%s'%s of a %s of %zu layers (%zu of its %zu tensors are missing)%s",
                     pretrained->path, first, missing > 1 ? " and others" : "", description->shape.kind,
                     description->shape.layers, missing, description->parameter_count,
                     pretrained->has_shape ? "" : "; no config.json has its shape: give --model and its other options");
}

static weft_status pretrained_check_shape(const struct pretrained *pretrained, const struct model_parameter *parameter,
                                          struct error *error)
{
    const struct named_tensor wanted = pretrained_tensor_of(parameter, NULL);
    const struct named_tensor *found = find_parameter(pretrained->files, parameter->name);
    char there[256], here[256];
    if (!convert_knows(found->type))
        return error_set(error, WEFT_ERROR_DATA, "tensor '%s' of '%s' is of type %s; weights can be f32, f16 or bf16",
                         found->name, pretrained->path, weft_type_name(found->type));
    if (!named_tensor_same_shape(&wanted, found))
        return error_set(error, WEFT_ERROR_DATA, "tensor '%s' of '%s' has shape %s, but the model's has %s",
                         found->name, pretrained->path, named_tensor_shape_text(found, there, sizeof there),
                         named_tensor_shape_text(&wanted, here, sizeof here));
    return WEFT_OK;
}

/* Tensors that files store twice, under two names. */
static const struct {
    const char *name, *same; /* NULL: the model's first */
} stored_twice[] = {{"lm_head.weight", NULL},
                    {"cls.predictions.decoder.weight", NULL},
                    {"cls.predictions.decoder.bias", "cls.predictions.bias"}};

/* A head stored in addition to its tied table: it must have the same bits, or it is another model. */
static weft_status check_tied_head(const struct pretrained *pretrained, const struct model_description *description,
                                   const struct named_tensor *head, const char *same, struct error *error)
{
    const struct named_tensor *table = find_parameter(pretrained->files, same ? same : description->parameters[0].name);
    if (head->type == table->type && named_tensor_same_shape(head, table) &&
        memcmp(head->data, table->data, named_tensor_elements(table) * weft_type_size(table->type)) == 0)
        return WEFT_OK;
    return error_set(error, WEFT_ERROR_DATA,
                     "'%s' has a tensor '%s' that differs from '%s', but the head of this %s is its embedding table",
                     pretrained->path, head->name, table->name, description->shape.kind);
}

/* What public files keep besides weights. */
static bool is_no_weight(const char *name)
{
    static const char *const ends[] = {".attn.bias", ".attn.masked_bias", ".rotary_emb.inv_freq",
                                       "embeddings.position_ids", ".num_batches_tracked"};
    for (size_t i = 0; i < ARRAY_SIZE(ends); i++)
        if (text_ends_in(name, ends[i]))
            return true;
    return false;
}

/* A tensor of a file that is not one of the model's. */
static weft_status check_other(const struct pretrained *pretrained, const struct model_description *description,
                               const struct named_tensor *tensor, struct error *error)
{
    const char *name = without_prefix(tensor->name);
    for (size_t i = 0; i < ARRAY_SIZE(stored_twice); i++)
        if (strcmp(name, stored_twice[i].name) == 0 &&
            (!stored_twice[i].same || model_parameter_find(description, stored_twice[i].same)))
            return check_tied_head(pretrained, description, tensor, stored_twice[i].same, error);
    return error_set(error, WEFT_ERROR_DATA,
                     "'%s' has a tensor '%.200s', which a %s of %zu layers does not: it is another network",
                     pretrained->path, tensor->name, description->shape.kind, description->shape.layers);
}

/* The parameter that a file's tensor is; NULL: none. */
static const struct model_parameter *parameter_of_tensor(const struct model_description *description, const char *name)
{
    char newer[MODEL_NAME_BYTES];
    for (size_t i = 0; i < ARRAY_SIZE(older_names); i++)
        if (name_with_end(name, older_names[i][0], older_names[i][1], newer))
            return model_parameter_find(description, newer);
    return model_parameter_find(description, name);
}

static weft_status pretrained_check_others(const struct pretrained *pretrained,
                                           const struct model_description *description, bool head_is_new,
                                           struct error *error)
{
    weft_status status = WEFT_OK;
    for (size_t i = 0; status == WEFT_OK && i < tensor_files_count(pretrained->files); i++) {
        const struct named_tensor *tensor = tensor_files_tensor(pretrained->files, i);
        const char *name = without_prefix(tensor->name);
        const struct model_parameter *parameter = parameter_of_tensor(description, name);
        if (parameter && find_parameter(pretrained->files, parameter->name) != tensor)
            return error_set(error, WEFT_ERROR_DATA, "'%s' has tensor '%s' twice, under another name, too",
                             pretrained->path, parameter->name);
        if (!parameter && !is_no_weight(name) && !(head_is_new && has_prefix(name, OTHER_HEAD)))
            status = check_other(pretrained, description, tensor, error);
    }
    return status;
}

static weft_status read_files(const struct pretrained *pretrained, const struct model_description *description,
                              bool head_is_new, float *parameters, struct error *error)
{
    weft_status status = check_all_there(pretrained, description, head_is_new, error);
    for (size_t i = 0; status == WEFT_OK && i < description->parameter_count; i++)
        if (!is_of_new_head(&description->parameters[i], head_is_new))
            status = pretrained_check_shape(pretrained, &description->parameters[i], error);
    if (status == WEFT_OK)
        status = pretrained_check_others(pretrained, description, head_is_new, error);
    for (size_t i = 0; status == WEFT_OK && i < description->parameter_count; i++) {
        const struct model_parameter *parameter = &description->parameters[i];
        if (is_of_new_head(parameter, head_is_new))
            continue;
        const struct named_tensor *found = find_parameter(pretrained->files, parameter->name);
        convert_to_f32(found->type, parameter->count, found->data, parameters + parameter->offset);
        file_map_let_go(found->data, parameter->count * weft_type_size(found->type));
    }
    return status;
}

/* ---- both ---- */

/* Training and evaluation are useless with weights that are not finite. */
static weft_status check_finite(const struct pretrained *pretrained, const struct model_parameter *parameter,
                                const float *parameters, struct error *error)
{
    const float *values = parameters + parameter->offset;
    const size_t odd = float_count_not_finite(values, parameter->count);
    if (!odd)
        return WEFT_OK;
    size_t first = 0;
    while (!float_count_not_finite(values + first, 1))
        first++;
    const char *where = pretrained->checkpoint
                            ? checkpoint_where(pretrained->checkpoint, parameter->name)
                            : tensor_files_where(pretrained->files, find_parameter(pretrained->files, parameter->name));
    return error_set(error, WEFT_ERROR_DATA,
                     "%zu of the %zu elements of tensor '%s' in %s are not finite; the first is element %zu, %s; the "
                     "file is damaged, or the training that wrote it had diverged: get it again, or use an older "
                     "checkpoint",
                     odd, parameter->count, parameter->name, where, first,
                     isnan(values[first]) ? "nan"
                     : values[first] < 0  ? "-inf"
                                          : "inf");
}

static weft_status pretrained_read_all(const struct pretrained *pretrained, const struct model_description *description,
                                       bool head_is_new, float *parameters, struct error *error)
{
    weft_status status = pretrained->checkpoint ? pretrained_read_checkpoint(pretrained->checkpoint, description,
                                                                             head_is_new, parameters, error)
                                                : read_files(pretrained, description, head_is_new, parameters, error);
    for (size_t i = 0; status == WEFT_OK && i < description->parameter_count; i++) {
        const struct model_parameter *parameter = &description->parameters[i];
        const size_t end = parameter->offset + parameter->count, next = i + 1 < description->parameter_count
                                                                            ? description->parameters[i + 1].offset
                                                                            : description->elements;
        status = check_finite(pretrained, parameter, parameters, error);
        memset(parameters + end, 0, (next - end) * sizeof *parameters);
    }
    return pretrained_told(status, error);
}

weft_status pretrained_read(const struct pretrained *pretrained, const struct model_description *description,
                            float *parameters, struct error *error)
{
    return pretrained_read_all(pretrained, description, false, parameters, error);
}

weft_status pretrained_read_body(const struct pretrained *pretrained, const struct model_description *description,
                                 float *parameters, struct error *error)
{
    return pretrained_read_all(pretrained, description, true, parameters, error);
}

static size_t names_append(char *text, size_t size, size_t length, const char *what, const char *name)
{
    if (length < size)
        length += (size_t)snprintf(text + length, size - length, "%s%s", what, name);
    return length;
}

char *pretrained_head_changes(const struct pretrained *pretrained, const struct model_description *description,
                              char *text, size_t size)
{
    size_t length = 0, of_checkpoint = 0, unused = 0;
    const struct named_tensor *tensors =
        pretrained->checkpoint ? checkpoint_tensors(pretrained->checkpoint, &of_checkpoint) : NULL;
    *text = '\0';
    for (size_t i = 0; i < description->parameter_count; i++)
        if (is_of_classifier(&description->parameters[i]))
            length = names_append(text, size, length, length ? ", " : "new: ", description->parameters[i].name);
    const size_t count = tensors ? of_checkpoint : tensor_files_count(pretrained->files);
    for (size_t i = 0; i < count; i++) {
        const char *name = tensors ? tensors[i].name : tensor_files_tensor(pretrained->files, i)->name;
        if (has_prefix(name, OTHER_HEAD))
            length = names_append(text, size, length, unused++ ? ", " : "; not used: ", name);
    }
    text_printable(text);
    return text;
}

/* ---- among ranks ---- */

/* A shape in transit: its kind is sent as the index of a named size of that kind. */
struct travelling_shape {
    struct model_shape shape;
    uint64_t size;
    bool known;
};

/* The static string equal to `kind`, whose address differs between ranks. */
static uint64_t number_of_kind(const char *kind)
{
    size_t count, i = 0;
    const struct model_size *sizes = model_sizes(&count);
    while (i + 1 < count && strcmp(sizes[i].shape.kind, kind) != 0)
        i++;
    return i;
}

weft_status pretrained_open_together(const char *path, weft_context *context, weft_comm *comm,
                                     struct pretrained **result, struct model_shape *shape, bool *known, bool *speaks,
                                     struct error *error)
{
    struct pretrained *pretrained = NULL;
    struct travelling_shape travelling = {0};
    weft_status status = WEFT_OK;
    if (weft_comm_rank(comm) == 0)
        status = pretrained_open(path, &pretrained, error);
    if (status == WEFT_OK && pretrained && pretrained->has_shape)
        travelling = (struct travelling_shape){pretrained->shape, number_of_kind(pretrained->shape.kind), true};
    status = agreement_reach(context, comm, status, error, speaks);
    if (status == WEFT_OK) {
        status = weft_broadcast(&travelling, sizeof travelling, WEFT_U8, 0, comm);
        if (status != WEFT_OK)
            error_set(error, status, "%s", weft_message(context));
    }
    if (status != WEFT_OK) {
        pretrained_close(pretrained);
        return status;
    }
    size_t count;
    *result = pretrained;
    *known = travelling.known;
    if (*known) {
        *shape = travelling.shape;
        shape->kind = model_sizes(&count)[travelling.size].shape.kind;
    }
    return WEFT_OK;
}

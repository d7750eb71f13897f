/* SPDX-License-Identifier: Apache-2.0 */
#include "training/plan/run/plan_file.h"

#include "base/file/file.h"
#include "base/format/json_put.h"
#include "base/hash.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

void plan_free(struct plan *plan)
{
    free(plan->first_unit);
    free(plan->shares);
    plan->first_unit = plan->shares = NULL;
}

/* Whether a dimension is the number of classes of a classifier, whose weights are the last. */
static bool counts_classes(const struct model_description *description, size_t parameter, size_t dimension)
{
    return description->shape.classes && parameter + 2 >= description->parameter_count &&
           description->parameters[parameter].shape[dimension] == description->shape.classes;
}

/* Dimensions that are the vocabulary's or the classes' do not count: the data may decide them after the plan. */
uint64_t plan_model_hash(const struct model_description *description)
{
    uint64_t hash = hash_number(description->layer_count, 0);
    for (size_t layer = 0; layer < description->layer_count; layer++)
        hash = hash_text(model_layer_kind(description, layer), hash);
    for (size_t i = 0; i < description->parameter_count; i++) {
        const struct model_parameter *parameter = &description->parameters[i];
        hash = hash_text(parameter->name, hash);
        for (size_t d = 0; d < parameter->dimensions; d++)
            if (parameter->shape[d] != description->shape.vocabulary && !counts_classes(description, i, d))
                hash = hash_number(parameter->shape[d], hash);
    }
    return hash;
}

/* ---- writing ---- */

void plan_put_strategy(struct json_writer *writer, const struct strategy *strategy)
{
    char mesh[MESH_TEXT_BYTES], placement[MESH_TEXT_BYTES];
    JSON_PUT(writer, "mesh", mesh_print(&strategy->mesh, mesh), "placement",
             mesh_placement_print(&strategy->placement, placement), "zero", strategy->zero, "pipeline_schedule",
             step_pipeline_name(strategy->schedule), "stages_per_rank", strategy->stages, "micro_batch",
             strategy->micro_batch, "recompute", model_recompute_names[strategy->recompute], "recompute_layers",
             strategy->recompute_layers, "precision", weft_type_name(strategy->precision), "sequence_parallel",
             strategy->sequence_parallel, "bucket", strategy->bucket_bytes);
}

#define SHARES_KEY "micro_batches_of_data_ranks"

void plan_put_shares(struct json_writer *writer, const uint32_t *shares, uint32_t data)
{
    if (!shares)
        return;
    json_open_array(writer, SHARES_KEY);
    for (uint32_t d = 0; d < data; d++)
        json_put_integer(writer, NULL, shares[d]);
    json_close(writer);
}

static void put_plan_strategy(struct json_writer *writer, const struct plan *plan)
{
    json_open_object(writer, "strategy");
    plan_put_strategy(writer, &plan->strategy);
    json_open_array(writer, "stages_begin_at");
    for (uint32_t stage = 0; stage <= plan->strategy.stages * plan->strategy.mesh.extent[MESH_PIPELINE]; stage++)
        json_put_integer(writer, NULL, plan->first_unit[stage]);
    json_close(writer);
    plan_put_shares(writer, plan->shares, plan->strategy.mesh.extent[MESH_DATA]);
    json_close(writer);
}

static void put_prediction(struct json_writer *writer, const struct plan *plan)
{
    json_open_object(writer, "predicted");
    JSON_PUT(writer, "step_seconds", plan->price.seconds, "memory_bytes", plan->memory);
    json_open_object(writer, "terms");
    for (unsigned term = 0; term < STEP_TERMS; term++)
        json_put_number(writer, step_term_names[term], plan->price.terms[term]);
    json_close(writer);
    json_close(writer);
}

weft_status plan_save(const struct plan *plan, const char *path, struct error *error)
{
    char hash[24];
    struct json_writer writer;
    snprintf(hash, sizeof hash, "%016" PRIx64, plan->model_hash);
    json_begin(&writer, JSON_INDENTED);
    json_open_object(&writer, NULL);
    JSON_PUT(&writer, "version", PLAN_FILE_VERSION, "model", plan->model, "model_hash", hash, "cluster", plan->cluster,
             "ranks", mesh_ranks(&plan->strategy.mesh), "batch", plan->batch, "sequence", plan->sequence, "optimizer",
             optimizer_names[plan->optimizer], "gradients", weft_type_name(plan->gradients));
    put_plan_strategy(&writer, plan);
    put_prediction(&writer, plan);
    json_close(&writer);
    buffer_put_string(&writer.text, "\n");
    const char *text = json_text(&writer);
    const weft_status status =
        text ? file_write(path, text, json_size(&writer), error) : error_memory(error, 0, "a plan's file");
    json_end(&writer);
    return status;
}

/* ---- reading ---- */

/* A member that is one of `names`, NULL at the end. */
static weft_status get_choice(const cJSON *object, const char *key, const char *where, const char *const *names,
                              int *index, struct error *error)
{
    const char *text;
    weft_status status = json_get_text(object, key, where, &text, error);
    if (status != WEFT_OK)
        return status;
    for (*index = 0; names[*index]; ++*index)
        if (strcmp(names[*index], text) == 0)
            return WEFT_OK;
    return error_set(error, WEFT_ERROR_DATA, "%s: '%s' is '%s', which is not among its values (the first is '%s')",
                     where, key, text, names[0]);
}

static weft_status get_word(const cJSON *object, const char *key, const char *where, char *text, size_t size,
                            struct error *error)
{
    const char *word;
    const weft_status status = json_get_text(object, key, where, &word, error);
    if (status == WEFT_OK)
        snprintf(text, size, "%s", word);
    return status;
}

weft_status plan_get_number(const cJSON *object, const char *key, const char *where, int64_t least, int64_t most,
                            uint32_t *number, struct error *error)
{
    int64_t value;
    const weft_status status = json_get_integer(object, key, where, least, most, &value, error);
    if (status == WEFT_OK)
        *number = (uint32_t)value;
    return status;
}

static const char *const precisions[] = {"f32", "bf16", "f16", NULL};
static const weft_type precision_types[] = {WEFT_F32, WEFT_BF16, WEFT_F16};

weft_status plan_get_type(const cJSON *object, const char *key, const char *where, weft_type *type, struct error *error)
{
    int index;
    const weft_status status = get_choice(object, key, where, precisions, &index, error);
    if (status == WEFT_OK)
        *type = precision_types[index];
    return status;
}

static weft_status get_stages(const cJSON *object, const char *where, struct plan *plan, struct error *error)
{
    const uint32_t count = plan->strategy.stages * plan->strategy.mesh.extent[MESH_PIPELINE] + 1;
    const cJSON *list, *item;
    uint32_t number = 0;
    weft_status status = json_get_array(object, "stages_begin_at", where, &list, error);
    if (status != WEFT_OK)
        return status;
    if (cJSON_GetArraySize(list) != (int)count)
        return error_set(error, WEFT_ERROR_DATA, "%s: 'stages_begin_at' has %d numbers, but %u stages need %u", where,
                         cJSON_GetArraySize(list), count - 1, count);
    plan->first_unit = calloc(count, sizeof *plan->first_unit);
    if (!plan->first_unit)
        return error_memory(error, count * sizeof *plan->first_unit, "the stages of a plan");
    cJSON_ArrayForEach(item, list) {
        if (!cJSON_IsNumber(item) || item->valuedouble < (number ? plan->first_unit[number - 1] + 1 : 0) ||
            item->valuedouble > INT32_MAX)
            return error_set(error, WEFT_ERROR_DATA, "%s: 'stages_begin_at' must be rising numbers of layers", where);
        plan->first_unit[number++] = (uint32_t)item->valuedouble;
    }
    return WEFT_OK;
}

/* Only where ranks of the data axis have unequal shares. */
static weft_status get_shares(const cJSON *object, const char *where, struct plan *plan, struct error *error)
{
    static const char *const key = SHARES_KEY;
    const uint32_t data = plan->strategy.mesh.extent[MESH_DATA];
    const cJSON *list, *item;
    uint32_t number = 0;
    if (!cJSON_GetObjectItemCaseSensitive(object, key))
        return WEFT_OK;
    weft_status status = json_get_array(object, key, where, &list, error);
    if (status != WEFT_OK)
        return status;
    if (cJSON_GetArraySize(list) != (int)data)
        return error_set(error, WEFT_ERROR_DATA, "%s: '%s' has %d numbers, but there are %u data ranks", where, key,
                         cJSON_GetArraySize(list), data);
    plan->shares = calloc(data, sizeof *plan->shares);
    if (!plan->shares)
        return error_memory(error, data * sizeof *plan->shares, "the shares of a plan");
    cJSON_ArrayForEach(item, list) {
        if (!cJSON_IsNumber(item) || item->valuedouble < 1 || item->valuedouble > INT32_MAX)
            return error_set(error, WEFT_ERROR_DATA, "%s: '%s' must be numbers from 1 on", where, key);
        plan->shares[number++] = (uint32_t)item->valuedouble;
    }
    plan->strategy.shares_by_speed = true;
    return WEFT_OK;
}

static weft_status get_axes(const cJSON *object, const char *where, uint32_t ranks, struct strategy *strategy,
                            struct error *error)
{
    const char *mesh, *placement;
    weft_status status = json_get_text(object, "mesh", where, &mesh, error);
    if (status == WEFT_OK)
        status = json_get_text(object, "placement", where, &placement, error);
    if (status == WEFT_OK)
        status = mesh_parse(mesh, ranks, &strategy->mesh, error);
    return status == WEFT_OK ? mesh_placement_parse(placement, &strategy->placement, error) : status;
}

static weft_status get_strategy(const cJSON *root, const char *where, uint32_t ranks, struct plan *plan,
                                struct error *error)
{
    struct strategy *strategy = &plan->strategy;
    const cJSON *object;
    int schedule = 0, recompute = 0;
    weft_status status = json_get_object(root, "strategy", where, &object, error);
    if (status == WEFT_OK)
        status = get_axes(object, where, ranks, strategy, error);
    if (status == WEFT_OK)
        status = plan_get_number(object, "zero", where, 0, 3, &strategy->zero, error);
    if (status == WEFT_OK)
        status = get_choice(object, "pipeline_schedule", where, step_pipeline_names, &schedule, error);
    if (status == WEFT_OK)
        status = plan_get_number(object, "stages_per_rank", where, 1, STRATEGY_STAGES_MOST, &strategy->stages, error);
    if (status == WEFT_OK)
        status = plan_get_number(object, "micro_batch", where, 1, 1000000, &strategy->micro_batch, error);
    if (status == WEFT_OK)
        status = get_choice(object, "recompute", where, model_recompute_names, &recompute, error);
    if (status == WEFT_OK && cJSON_HasObjectItem(object, "recompute_layers")) /* older plans recompute all */
        status = plan_get_number(object, "recompute_layers", where, 0, INT32_MAX, &strategy->recompute_layers, error);
    if (status == WEFT_OK)
        status = plan_get_type(object, "precision", where, &strategy->precision, error);
    if (status == WEFT_OK)
        status = json_get_bool(object, "sequence_parallel", where, &strategy->sequence_parallel, error);
    if (status == WEFT_OK)
        status = json_get_unsigned(object, "bucket", where, &strategy->bucket_bytes, error);
    strategy->schedule = (enum step_pipeline)schedule;
    strategy->recompute = (enum model_recompute)recompute;
    if (status == WEFT_OK)
        status = get_stages(object, where, plan, error);
    return status == WEFT_OK ? get_shares(object, where, plan, error) : status;
}

static weft_status get_prediction(const cJSON *root, const char *where, struct plan *plan, struct error *error)
{
    const cJSON *object, *terms;
    weft_status status = json_get_object(root, "predicted", where, &object, error);
    if (status == WEFT_OK)
        status = json_get_number(object, "step_seconds", where, &plan->price.seconds, error);
    if (status == WEFT_OK)
        status = json_get_unsigned(object, "memory_bytes", where, &plan->memory, error);
    if (status == WEFT_OK)
        status = json_get_object(object, "terms", where, &terms, error);
    for (unsigned term = 0; status == WEFT_OK && term < STEP_TERMS; term++)
        status = json_get_number(terms, step_term_names[term], where, &plan->price.terms[term], error);
    return status;
}

static weft_status plan_read(const cJSON *root, const char *where, struct plan *plan, struct error *error)
{
    uint32_t version = 0, ranks = 0;
    int optimizer = 0;
    const char *hash;
    weft_status status = plan_get_number(root, "version", where, 1, INT32_MAX, &version, error);
    if (status == WEFT_OK && version != PLAN_FILE_VERSION)
        return error_set(error, WEFT_ERROR_DATA, "%s: it is a plan of version %u, and this weft reads version %d",
                         where, version, PLAN_FILE_VERSION);
    if (status == WEFT_OK)
        status = get_word(root, "model", where, plan->model, sizeof plan->model, error);
    if (status == WEFT_OK)
        status = json_get_text(root, "model_hash", where, &hash, error);
    if (status == WEFT_OK)
        plan->model_hash = strtoull(hash, NULL, 16);
    if (status == WEFT_OK)
        status = get_word(root, "cluster", where, plan->cluster, sizeof plan->cluster, error);
    if (status == WEFT_OK)
        status = plan_get_number(root, "ranks", where, 1, 1 << 20, &ranks, error);
    if (status == WEFT_OK)
        status = plan_get_number(root, "batch", where, 1, 1000000000, &plan->batch, error);
    if (status == WEFT_OK)
        status = plan_get_number(root, "sequence", where, 1, 1000000, &plan->sequence, error);
    if (status == WEFT_OK)
        status = get_choice(root, "optimizer", where, optimizer_names, &optimizer, error);
    plan->optimizer = (enum optimizer_kind)optimizer;
    if (status == WEFT_OK)
        status = plan_get_type(root, "gradients", where, &plan->gradients, error);
    if (status == WEFT_OK)
        status = get_strategy(root, where, ranks, plan, error);
    return status == WEFT_OK ? get_prediction(root, where, plan, error) : status;
}

weft_status plan_load(const char *path, struct plan *plan, struct error *error)
{
    cJSON *root;
    *plan = (struct plan){0};
    weft_status status = json_read(path, &root, error);
    if (status != WEFT_OK)
        return status;
    status = plan_read(root, path, plan, error);
    cJSON_Delete(root);
    if (status != WEFT_OK)
        plan_free(plan);
    return status;
}

/* ---- differences ---- */

static void plan_note_difference(char *text, const char *format, ...) __attribute__((format(printf, 2, 3)));

static void plan_note_difference(char *text, const char *format, ...)
{
    const size_t used = strlen(text);
    va_list values;
    if (used && used + 2 < PLAN_DIFFERENCES_BYTES)
        strcat(text, "; ");
    const size_t now = strlen(text);
    va_start(values, format);
    vsnprintf(text + now, PLAN_DIFFERENCES_BYTES - now, format, values);
    va_end(values);
}

const char *plan_differences(const struct plan *plan, const struct train_config *config,
                             const struct model_description *description, uint32_t ranks,
                             char text[PLAN_DIFFERENCES_BYTES])
{
    const uint32_t planned = mesh_ranks(&plan->strategy.mesh);
    text[0] = '\0';
    if (description && plan_model_hash(description) != plan->model_hash)
        plan_note_difference(text, "the plan is for the model '%s', and '%s' has other layers", plan->model,
                             config->model ? config->model : "this one");
    if (ranks != planned)
        plan_note_difference(text, "the plan is for %u ranks, and the run has %u", planned, ranks);
    if (config->batch != plan->batch)
        plan_note_difference(text, "the plan is for --batch %u, and the run has %" PRId64, plan->batch, config->batch);
    if (config->sequence != plan->sequence)
        plan_note_difference(text, "the plan is for --sequence %u, and the run has %" PRId64, plan->sequence,
                             config->sequence);
    if (config->optimizer.kind != plan->optimizer)
        plan_note_difference(text, "the plan is for --optimizer %s, and the run has %s",
                             optimizer_names[plan->optimizer], optimizer_names[config->optimizer.kind]);
    if (config->gradients != plan->gradients)
        plan_note_difference(text, "the plan is for --gradients %s, and the run has %s",
                             weft_type_name(plan->gradients), weft_type_name(config->gradients));
    return text;
}

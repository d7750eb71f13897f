/* SPDX-License-Identifier: Apache-2.0 */
#include "training/plan/run/layer_times.h"

#include "base/file/file.h"
#include "base/format/json_put.h"
#include "training/plan/run/plan_file.h"

#include <inttypes.h>
#include <stdlib.h>

#define TIMES_NUMBER_MOST 1000000

/* ---- writing ---- */

static void put_measurement(struct json_writer *writer, const struct machine_measurement *item, size_t layers)
{
    json_open_object(writer, NULL);
    JSON_PUT(writer, "micro_batch", item->micro_batch, "tensor", item->tensor, "sequence_parallel", item->divides_rows,
             "precision", weft_type_name(item->precision), "ranks_at_once", item->together);
    json_open_array(writer, "seconds");
    for (size_t layer = 0; layer < layers; layer++)
        for (int pass = 0; pass < COSTS_PASSES; pass++)
            json_put_number(writer, NULL, item->seconds[layer][pass]);
    json_close(writer);
    json_close(writer);
}

weft_status layer_times_save(const struct machine_costs *costs, const char *model, const char *path,
                             struct error *error)
{
    char hash[24];
    struct json_writer writer;
    snprintf(hash, sizeof hash, "%016" PRIx64, plan_model_hash(costs->description));
    json_begin(&writer, JSON_LINE);
    json_open_object(&writer, NULL);
    JSON_PUT(&writer, "version", LAYER_TIMES_VERSION, "model", model, "model_hash", hash, "vocabulary",
             (int64_t)costs->description->shape.vocabulary, "layers", (int64_t)costs->description->layer_count,
             "sequence", (int64_t)costs->sequence, "threads", (int64_t)costs->threads);
    json_open_array(&writer, "measurements");
    for (size_t i = 0; i < costs->count; i++)
        put_measurement(&writer, &costs->items[i], costs->description->layer_count);
    json_close(&writer);
    json_close(&writer);
    buffer_put_string(&writer.text, "\n");
    const char *text = json_text(&writer);
    const weft_status status =
        text ? file_write(path, text, json_size(&writer), error) : error_memory(error, 0, "a file of layer times");
    json_end(&writer);
    return status;
}

/* ---- reading ---- */

static weft_status get_seconds(const cJSON *object, const char *where, size_t layers, double (*seconds)[COSTS_PASSES],
                               struct error *error)
{
    const cJSON *list, *item;
    size_t number = 0;
    weft_status status = json_get_array(object, "seconds", where, &list, error);
    if (status != WEFT_OK)
        return status;
    if (cJSON_GetArraySize(list) != (int)(layers * COSTS_PASSES))
        return error_set(error, WEFT_ERROR_DATA, "%s: 'seconds' has %d numbers, but %zu layers have %zu passes", where,
                         cJSON_GetArraySize(list), layers, layers * COSTS_PASSES);
    cJSON_ArrayForEach(item, list) {
        if (!cJSON_IsNumber(item) || !(item->valuedouble >= 0 && item->valuedouble < 1e9))
            return error_set(error, WEFT_ERROR_DATA, "%s: 'seconds' has an item that is not a time", where);
        seconds[number / COSTS_PASSES][number % COSTS_PASSES] = item->valuedouble;
        number++;
    }
    return WEFT_OK;
}

static weft_status get_measurement(struct machine_costs *costs, const cJSON *object, const char *where,
                                   struct error *error)
{
    const size_t layers = costs->description->layer_count;
    struct machine_measurement item = {0};
    weft_status status = plan_get_number(object, "micro_batch", where, 1, TIMES_NUMBER_MOST, &item.micro_batch, error);
    if (status == WEFT_OK)
        status = plan_get_number(object, "tensor", where, 1, TIMES_NUMBER_MOST, &item.tensor, error);
    if (status == WEFT_OK)
        status = json_get_bool(object, "sequence_parallel", where, &item.divides_rows, error);
    if (status == WEFT_OK)
        status = plan_get_type(object, "precision", where, &item.precision, error);
    if (status == WEFT_OK)
        status = plan_get_number(object, "ranks_at_once", where, 1, TIMES_NUMBER_MOST, &item.together, error);
    if (status == WEFT_OK)
        status = ARRAY_RESERVE(costs->items, costs->room, costs->count + 1, "the times of layers", error);
    if (status != WEFT_OK)
        return status;
    item.seconds = calloc(layers, sizeof *item.seconds);
    if (!item.seconds)
        return error_memory(error, layers * sizeof *item.seconds, "the times of layers");
    costs->items[costs->count++] = item;
    return get_seconds(object, where, layers, item.seconds, error);
}

/* Times of another network, or of other sequences, are of no use. */
static weft_status check_times(const struct machine_costs *costs, const cJSON *root, const char *where,
                               struct error *error)
{
    const struct model_description *description = costs->description;
    const char *model, *hash;
    uint32_t version = 0, vocabulary = 0, sequence = 0;
    weft_status status = plan_get_number(root, "version", where, 1, TIMES_NUMBER_MOST, &version, error);
    if (status == WEFT_OK && version != LAYER_TIMES_VERSION)
        return error_set(error, WEFT_ERROR_DATA, "%s: its version is %u, and this weft reads version %d", where,
                         version, LAYER_TIMES_VERSION);
    if (status == WEFT_OK)
        status = json_get_text(root, "model", where, &model, error);
    if (status == WEFT_OK)
        status = json_get_text(root, "model_hash", where, &hash, error);
    if (status == WEFT_OK)
        status = plan_get_number(root, "vocabulary", where, 1, TIMES_NUMBER_MOST, &vocabulary, error);
    if (status == WEFT_OK)
        status = plan_get_number(root, "sequence", where, 1, TIMES_NUMBER_MOST, &sequence, error);
    if (status != WEFT_OK)
        return status;
    if (strtoull(hash, NULL, 16) != plan_model_hash(description) || vocabulary != description->shape.vocabulary)
        return error_set(error, WEFT_ERROR_ARGUMENT,
                         "%s: these are times of the model '%s' with %u tokens, which has other layers than this one",
                         where, model, vocabulary);
    if (sequence != costs->sequence)
        return error_set(error, WEFT_ERROR_ARGUMENT,
                         "%s: these are times of sequences of %u tokens, not of %zu: measure with weft profile layers "
                         "--sequence %zu",
                         where, sequence, costs->sequence, costs->sequence);
    return WEFT_OK;
}

weft_status layer_times_read(struct machine_costs *costs, const char *path, struct error *error)
{
    const cJSON *list, *item;
    cJSON *root;
    weft_status status = json_read(path, &root, error);
    if (status != WEFT_OK)
        return status;
    status = check_times(costs, root, path, error);
    if (status == WEFT_OK)
        status = json_get_array(root, "measurements", path, &list, error);
    if (status == WEFT_OK) {
        cJSON_ArrayForEach(item, list) {
            if (status == WEFT_OK)
                status = get_measurement(costs, item, path, error);
        }
    }
    cJSON_Delete(root);
    costs->is_read = true;
    return status;
}

/* SPDX-License-Identifier: Apache-2.0 */
#include "training/model/file/shape_json.h"

#include "training/model/networks/networks.h"
#include "training/model/shape.h"

#include <string.h>

cJSON *shape_to_json(const struct model_shape *shape)
{
    cJSON *object = cJSON_CreateObject();
    cJSON_AddStringToObject(object, "kind", shape->kind);
    for (size_t i = 0; i < shape_number_count; i++) {
        const struct shape_number *number = &shape_numbers[i];
        const double value = shape_number_get(shape, number);
        if (number->is_newer && value == 0)
            continue;
        if (number->kind == SHAPE_FLAG)
            cJSON_AddBoolToObject(object, number->name, value != 0);
        else
            cJSON_AddNumberToObject(object, number->name, value);
    }
    return object;
}

static weft_status shape_json_read_number(const cJSON *object, const struct shape_number *number, const char *where,
                                          struct model_shape *shape, struct error *error)
{
    int64_t whole = 0;
    double value = 0;
    bool flag = false;
    weft_status status;
    if (!cJSON_HasObjectItem(object, number->name)) /* older than the number */
        return WEFT_OK;
    switch (number->kind) {
    case SHAPE_FLAG:
        status = json_get_bool(object, number->name, where, &flag, error);
        value = flag;
        break;
    case SHAPE_REAL:
        status = json_get_number(object, number->name, where, &value, error);
        break;
    default:
        status = json_get_integer(object, number->name, where, 0, (int64_t)number->most, &whole, error);
        value = (double)whole;
    }
    if (status == WEFT_OK)
        shape_number_set(shape, number, value);
    return status;
}

weft_status shape_from_json(const cJSON *object, const char *where, struct model_shape *result, struct error *error)
{
    struct model_shape shape = {0};
    const char *kind;
    weft_status status = json_get_text(object, "kind", where, &kind, error);
    if (status == WEFT_OK && strcmp(kind, SHAPE_KIND_PROGRAM) == 0)
        status =
            error_set(error, WEFT_ERROR_DATA,
                      "%s is that of another program, which trained it through weft/train.h; Weft does not know its "
                      "layers, but its weights are in the safetensors files of that directory",
                      where);
    for (size_t i = 0; status == WEFT_OK && i < shape_number_count; i++)
        status = shape_json_read_number(object, &shape_numbers[i], where, &shape, error);
    if (status != WEFT_OK)
        return status;
    const struct network *network = network_find(kind, error);
    if (!network)
        return WEFT_ERROR_DATA;
    shape.kind = network->kind;
    *result = shape;
    return WEFT_OK;
}

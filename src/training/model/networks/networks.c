/* SPDX-License-Identifier: Apache-2.0 */
#include "training/model/networks/networks.h"

#include "base/text.h"

#include <stdio.h>
#include <string.h>

const struct network *const networks[] = {
#define NETWORK(kind) &kind##_network,
#include "training/model/networks/networks.def"
#undef NETWORK
    NULL};

char *network_kinds(char *text, size_t size)
{
    size_t length = 0;
    for (const struct network *const *network = networks; *network && length < size; network++) {
        const char *before = network == networks ? "" : network[1] ? ", " : " or ";
        length += (size_t)snprintf(text + length, size - length, "%s%s", before, (*network)->kind);
    }
    return text;
}

const struct network *network_find(const char *kind, struct error *error)
{
    const char *kinds[ARRAY_SIZE(networks)];
    size_t count = 0;
    for (; networks[count]; count++) {
        kinds[count] = networks[count]->kind;
        if (strcmp(kind, kinds[count]) == 0)
            return networks[count];
    }
    const char *nearest = text_nearest(kind, kinds, count);
    error_set(error, WEFT_ERROR_ARGUMENT, "there is no kind of model '%s'; did you mean '%s'?", kind,
              nearest ? nearest : kinds[0]);
    return NULL;
}

bool network_has(const struct network *network, const struct shape_number *number)
{
    if (number->of_all && !network->reads_images)
        return true;
    for (const char *const *name = network->numbers; *name; name++)
        if (strcmp(*name, number->name) == 0)
            return true;
    return false;
}

weft_status network_check(const struct network *network, const struct model_shape *shape, struct error *error)
{
    for (size_t i = 0; i < shape_number_count; i++) {
        const struct shape_number *number = &shape_numbers[i];
        const double value = shape_number_get(shape, number);
        const bool is_context = network->reads_images && number->offset == offsetof(struct model_shape, context);
        if (!network_has(network, number) && value != (is_context ? 1 : 0))
            return error_set(error, WEFT_ERROR_ARGUMENT, "a network of kind %s has no '%s'; leave it out",
                             network->kind, number->name);
        if (value == 0 && number->may_be_usual)
            continue;
        if (network_has(network, number) && !(value >= number->least && value <= number->most))
            return error_set(error, WEFT_ERROR_ARGUMENT,
                             "a network of kind %s cannot have %s %.10g; it must be from %.10g to %.10g", network->kind,
                             number->name, value, number->least, number->most);
    }
    return WEFT_OK;
}

weft_status transformer_check(const struct model_shape *shape, struct error *error)
{
    if (shape->width % shape->heads != 0)
        return error_set(error, WEFT_ERROR_ARGUMENT,
                         "a width of %zu cannot be divided among %zu heads; make it a multiple of them", shape->width,
                         shape->heads);
    if (shape->kv_heads && shape->heads % shape->kv_heads != 0)
        return error_set(error, WEFT_ERROR_ARGUMENT,
                         "%zu heads cannot share %zu kv_heads evenly; make heads a multiple of kv_heads", shape->heads,
                         shape->kv_heads);
    return WEFT_OK;
}

/* SPDX-License-Identifier: Apache-2.0 */
#include "model/networks/networks.h"

#include "base/text.h"

#include <string.h>

const struct network *const networks[] = {&gpt_network, &llama_network, NULL};

const struct network *network_find(const char *kind, struct error *error)
{
    const char *kinds[sizeof networks / sizeof *networks];
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

weft_status transformer_check(const struct model_shape *shape, struct error *error)
{
    const struct {
        size_t number, most;
        const char *what;
    } numbers[] = {
        {shape->layers, 1024, "layers"},
        {shape->heads, 4096, "heads"},
        {shape->kv_heads, 4096, "kv_heads"},
        {shape->width, 131072, "width"},
        {shape->hidden, 1048576, "hidden"},
        {shape->context, 16777216, "context"},
        {shape->vocabulary, 16777216, "vocabulary"},
    };
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++)
        if (numbers[i].number < 1 || numbers[i].number > numbers[i].most)
            return error_set(error, WEFT_ERROR_ARGUMENT, "a %s cannot have %s %zu; it must be from 1 to %zu",
                             shape->kind, numbers[i].what, numbers[i].number, numbers[i].most);
    if (shape->width % shape->heads != 0)
        return error_set(error, WEFT_ERROR_ARGUMENT,
                         "a width of %zu cannot be divided among %zu heads; make it a multiple of them", shape->width,
                         shape->heads);
    if (shape->heads % shape->kv_heads != 0)
        return error_set(error, WEFT_ERROR_ARGUMENT,
                         "%zu heads cannot share %zu kv_heads evenly; make heads a multiple of kv_heads", shape->heads,
                         shape->kv_heads);
    if (!(shape->norm_epsilon > 0 && shape->norm_epsilon < 1))
        return error_set(error, WEFT_ERROR_ARGUMENT, "norm_epsilon is %g; it must be between 0 and 1",
                         shape->norm_epsilon);
    return WEFT_OK;
}

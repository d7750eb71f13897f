/* SPDX-License-Identifier: Apache-2.0 */
/* Any numbers as the shape of a network, any text as its name: refused with a message, or the parameters fill the flat
 * array in order, without overlap. Nothing of the network's size is allocated. */
#include "training/model/model.h"

#include <stdlib.h>
#include <string.h>

#define LAYERS_MOST 200 /* a description has some entries for each */

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void describe(const struct model_shape *shape)
{
    struct model_description *description = NULL;
    struct error error = {0};
    if (model_describe(shape, &description, &error) != WEFT_OK) {
        if (!*error.text || description)
            abort();
        return;
    }
    size_t end = 0, weights = 0;
    for (size_t i = 0; i < description->parameter_count; i++) {
        const struct model_parameter *parameter = &description->parameters[i];
        size_t count = 1;
        for (size_t d = 0; d < parameter->dimensions; d++)
            if (__builtin_mul_overflow(count, parameter->shape[d], &count))
                abort();
        if (count != parameter->count || count == 0 || parameter->offset < end || parameter->offset % 16 ||
            __builtin_add_overflow(parameter->offset, count, &end))
            abort();
        weights += count;
        if (model_parameter_find(description, parameter->name) != parameter)
            abort();
    }
    if (end > description->elements || weights != description->weights)
        abort();
    model_description_free(description);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const char *const kinds[] = {"gpt", "llama", "mlp"};
    size_t numbers[8] = {0};
    memcpy(numbers, data, size < sizeof numbers ? size : sizeof numbers);
    const char *kind = kinds[numbers[7] % 3];
    const bool is_mlp = kind == kinds[2]; /* which has a window and no heads */
    describe(&(struct model_shape){.kind = kind,
                                   .layers = numbers[0] > LAYERS_MOST ? LAYERS_MOST : numbers[0],
                                   .heads = is_mlp ? 0 : numbers[1],
                                   .width = numbers[2],
                                   .context = numbers[3],
                                   .vocabulary = numbers[4],
                                   .kv_heads = is_mlp ? 0 : numbers[5],
                                   .hidden = numbers[6],
                                   .window = is_mlp ? numbers[1] : numbers[7] >> 32,
                                   .untied = numbers[7] & 8});
    char *name = strndup((const char *)data, size);
    struct model_shape shape;
    struct error error = {0};
    if (model_shape_find(name, &shape, &error) == WEFT_OK)
        describe(&shape);
    else if (!*error.text)
        abort();
    free(name);
    return 0;
}

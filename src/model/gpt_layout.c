/* SPDX-License-Identifier: Apache-2.0 */
/* What a GPT is made of: its parameters, how they begin, how much arithmetic they cost. */
#include "model/gpt.h"

#include <math.h>
#include <string.h>

static weft_status check_number(size_t number, size_t most, const char *what, struct error *error)
{
    if (number >= 1 && number <= most)
        return WEFT_OK;
    return error_set(error, WEFT_ERROR_ARGUMENT, "a GPT cannot have %s %zu; it must be from 1 to %zu", what, number,
                     most);
}

static weft_status check_shape(const struct model_shape *shape, struct error *error)
{
    if (check_number(shape->layers, 1024, "layers", error) != WEFT_OK ||
        check_number(shape->heads, 4096, "heads", error) != WEFT_OK ||
        check_number(shape->width, 131072, "width", error) != WEFT_OK ||
        check_number(shape->context, 16777216, "context", error) != WEFT_OK ||
        check_number(shape->vocabulary, 16777216, "vocabulary", error) != WEFT_OK)
        return WEFT_ERROR_ARGUMENT;
    if (shape->width % shape->heads != 0)
        return error_set(error, WEFT_ERROR_ARGUMENT,
                         "a width of %zu cannot be divided among %zu heads; make it a multiple of them", shape->width,
                         shape->heads);
    return WEFT_OK;
}

weft_status gpt_describe(struct model_description *description, struct error *error)
{
    const struct model_shape *shape = &description->shape;
    const size_t width = shape->width;
    weft_status status = check_shape(shape, error);
    if (status == WEFT_OK)
        status = description_add(description, shape->vocabulary, width, error, "wte.weight");
    if (status == WEFT_OK)
        status = description_add(description, shape->context, width, error, "wpe.weight");
    const struct {
        const char *name;
        size_t rows, columns;
    } block[GPT_BLOCK_PARAMETERS] = {
        [GPT_LN_1_GAIN] = {"ln_1.weight", width, 0},
        [GPT_LN_1_BIAS] = {"ln_1.bias", width, 0},
        [GPT_ATTN_WEIGHT] = {"attn.c_attn.weight", width, 3 * width},
        [GPT_ATTN_BIAS] = {"attn.c_attn.bias", 3 * width, 0},
        [GPT_ATTN_PROJ_WEIGHT] = {"attn.c_proj.weight", width, width},
        [GPT_ATTN_PROJ_BIAS] = {"attn.c_proj.bias", width, 0},
        [GPT_LN_2_GAIN] = {"ln_2.weight", width, 0},
        [GPT_LN_2_BIAS] = {"ln_2.bias", width, 0},
        [GPT_FC_WEIGHT] = {"mlp.c_fc.weight", width, 4 * width},
        [GPT_FC_BIAS] = {"mlp.c_fc.bias", 4 * width, 0},
        [GPT_FC_PROJ_WEIGHT] = {"mlp.c_proj.weight", 4 * width, width},
        [GPT_FC_PROJ_BIAS] = {"mlp.c_proj.bias", width, 0},
    };
    for (size_t layer = 0; status == WEFT_OK && layer < shape->layers; layer++)
        for (size_t i = 0; status == WEFT_OK && i < GPT_BLOCK_PARAMETERS; i++)
            status =
                description_add(description, block[i].rows, block[i].columns, error, "h.%zu.%s", layer, block[i].name);
    if (status == WEFT_OK)
        status = description_add(description, width, 0, error, "ln_f.weight");
    if (status == WEFT_OK)
        status = description_add(description, width, 0, error, "ln_f.bias");
    return status;
}

static bool ends_with(const char *text, const char *ending)
{
    size_t length = strlen(text), tail = strlen(ending);
    return length >= tail && strcmp(text + length - tail, ending) == 0;
}

struct model_initial gpt_initial(const struct model_description *description, const struct model_parameter *parameter)
{
    if (ends_with(parameter->name,
                  "c_proj.weight")) /* they end the residual branches, two a block, whose sums would grow */
        return (struct model_initial){0, 0.02 / sqrt(2.0 * (double)description->shape.layers)};
    if (parameter->dimensions == 2)
        return (struct model_initial){0, 0.02};
    return (struct model_initial){ends_with(parameter->name, ".weight") ? 1 : 0, 0};
}

double gpt_flops_per_token(const struct model_description *description, size_t sequence)
{
    const struct model_shape *shape = &description->shape;
    double matrices = 0;
    for (size_t i = 0; i < description->parameter_count; i++)
        if (description->parameters[i].dimensions == 2 && i != GPT_WPE)
            matrices += (double)description->parameters[i].count;
    return 6 * matrices + 12 * (double)shape->layers * (double)shape->width * (double)sequence;
}

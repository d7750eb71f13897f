/* SPDX-License-Identifier: Apache-2.0 */
/* Descriptions of one rank of a tensor axis. */
#include "training/model/layer.h"
#include "training/model/tensor_group.h"

void description_divide(struct model_description *description, size_t number, const struct model_division *division)
{
    if (number != NO_PARAMETER)
        description->parameters[number].division = *division;
}

/* What `parameter` has along the dimension that is divided, of segments [0, segments). */
static size_t division_length(const struct model_division *division, size_t segments, size_t ranks, size_t rank)
{
    size_t length = 0;
    for (size_t i = 0; i < segments; i++)
        length += tensor_part_count(division->lengths[i], ranks, rank);
    return length;
}

weft_status model_check_division(const struct model_description *description, size_t ranks, struct error *error)
{
    const struct model_shape *shape = &description->shape;
    const struct {
        const char *name;
        size_t count;
    } numbers[] = {{"heads", shape->heads}, {"kv_heads", shape->kv_heads}, {"hidden", shape->hidden}};
    if (ranks > 1 && shape->image)
        return error_set(error, WEFT_ERROR_ARGUMENT,
                         "a %s has no tensor axis: its convolutions cannot be divided over %zu ranks; use the data and "
                         "pipeline axes",
                         shape->kind, ranks);
    for (size_t i = 0; i < ARRAY_SIZE(numbers); i++)
        if (numbers[i].count % ranks != 0)
            return error_set(
                error, WEFT_ERROR_ARGUMENT,
                "%s is %zu, which %zu ranks of the tensor axis cannot divide evenly; use a number of ranks "
                "that divides heads, kv_heads and hidden",
                numbers[i].name, numbers[i].count, ranks);
    if (!shape->image && shape->vocabulary < ranks)
        return error_set(error, WEFT_ERROR_ARGUMENT,
                         "a vocabulary of %zu tokens is too small for %zu ranks of the tensor axis", shape->vocabulary,
                         ranks);
    return WEFT_OK;
}

weft_status model_divide(struct model_description *description, size_t ranks, size_t rank, struct error *error)
{
    const weft_status status = model_check_division(description, ranks, error);
    if (status != WEFT_OK)
        return status;
    description->tensor_ranks = ranks;
    description->tensor_rank = rank;
    for (size_t i = 0; i < description->layer_count; i++)
        if (ranks > 1) /* layers of images lack it */
            description->layers[i].kind->divide(description->layers[i].settings, ranks, rank);
    for (size_t i = 0; i < description->parameter_count; i++) {
        struct model_parameter *parameter = &description->parameters[i];
        const struct model_division *division = &parameter->division;
        if (division->segments)
            parameter->shape[division->dimension] = division_length(division, division->segments, ranks, rank);
    }
    model_lay_out_parameters(description);
    return WEFT_OK;
}

/* ---- ranges ---- */

/* Elements of a parameter before and after the dimension that is divided. */
static size_t division_outer(const struct model_parameter *parameter)
{
    size_t product = 1;
    for (size_t d = 0; d < parameter->division.dimension; d++)
        product *= parameter->shape[d];
    return product;
}

static size_t division_inner(const struct model_parameter *parameter)
{
    size_t product = 1;
    for (size_t d = parameter->division.dimension + 1; d < parameter->dimensions; d++)
        product *= parameter->shape[d];
    return product;
}

struct division_counts division_counts_of(const struct model_description *description, size_t number)
{
    const struct model_parameter *parameter = &description->parameters[number];
    const struct model_division *division = &parameter->division;
    if (!division->segments || description->tensor_ranks < 2)
        return (struct division_counts){.whole = parameter->count, .largest = parameter->count};
    const size_t each = division_outer(parameter) * division_inner(parameter);
    struct division_counts counts = {0};
    for (size_t i = 0; i < division->segments; i++) {
        counts.whole += division->lengths[i] * each;
        counts.largest += tensor_part_largest(division->lengths[i], description->tensor_ranks) * each;
    }
    return counts;
}

static bool is_divided(const struct model_description *description, size_t number)
{
    return description->tensor_ranks > 1 && description->parameters[number].division.segments;
}

size_t model_whole_length(const struct model_description *description, size_t number, size_t dimension)
{
    const struct model_parameter *parameter = &description->parameters[number];
    const struct model_division *division = &parameter->division;
    return division->segments && division->dimension == dimension ? division_length(division, division->segments, 1, 0)
                                                                  : parameter->shape[dimension];
}

size_t model_range_count(const struct model_description *description, size_t number)
{
    const struct model_parameter *parameter = &description->parameters[number];
    return is_divided(description, number) ? division_outer(parameter) * parameter->division.segments : 1;
}

struct model_range model_get_range(const struct model_description *description, size_t number, size_t range)
{
    const struct model_parameter *parameter = &description->parameters[number];
    const struct model_division *division = &parameter->division;
    if (!is_divided(description, number))
        return (struct model_range){.count = parameter->count};
    const size_t ranks = description->tensor_ranks, rank = description->tensor_rank;
    const size_t inner = division_inner(parameter), outer = range / division->segments,
                 segment = range % division->segments, length = division->lengths[segment];
    const size_t row = division_length(division, division->segments, 1, 0),
                 before = division_length(division, segment, 1, 0),
                 local_row = division_length(division, division->segments, ranks, rank),
                 local_before = division_length(division, segment, ranks, rank);
    return (struct model_range){
        .first = (outer * row + before + tensor_part_begin(length, ranks, rank)) * inner,
        .local = (outer * local_row + local_before) * inner,
        .count = tensor_part_count(length, ranks, rank) * inner,
    };
}

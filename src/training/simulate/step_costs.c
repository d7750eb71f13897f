/* SPDX-License-Identifier: Apache-2.0 */
/* From a strategy to the costs of all operations of its step. */
#include "training/simulate/step_costs.h"

#include "training/parallel/execute/stages.h"
#include "training/simulate/device_time.h"
#include "training/simulate/step_reductions.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Layers that others are compared with: more kinds in one network are costed one by one. */
#define UNIT_FIRSTS 16

/* Elements of a layer's parameters on a rank. */
struct costing_unit {
    double own, tied; /* its own, and of a tied table that it uses */
    double updated;   /* a tied table is updated by each pipeline rank that uses it, once */
    uint32_t alike;   /* the first layer with the same elements and the same work, which has the same costs */
};

/* What costs are made from. */
struct step_costing {
    const struct step_setting *setting;
    const struct executor_config *config;
    const struct implementation *implementation;
    struct step_prices *prices;
    struct step_costs *costs;
    struct model_description *divided; /* of one rank of the tensor axis; NULL: the setting has it */
    struct model_work *recorded;       /* of that */
    const struct model_description *description;
    const struct model_work *work;
    struct costing_unit *layers;
    struct step_placements placements[MESH_AXES];
    uint32_t zero;
    struct step_reductions reductions;
    struct error *error;
};

static uint32_t costing_extent(const struct step_costing *costing, enum mesh_axis axis)
{
    return costing->config->mesh.extent[axis];
}

static weft_status out_of_memory(const struct step_costing *costing)
{
    return error_memory(costing->error, costing->costs->units * sizeof *costing->costs->layers, "the costs of a step");
}

/* ---- places ---- */

static weft_status check_cluster(const struct step_costing *costing)
{
    const struct step_cluster *cluster = costing->setting->cluster;
    const uint32_t ranks = mesh_ranks(&costing->config->mesh);
    if (ranks > cluster->ranks)
        return error_set(costing->error, WEFT_ERROR_ARGUMENT, "the mesh has %u ranks, but the cluster only %u", ranks,
                         cluster->ranks);
    if (!cluster->device_count && !costing->setting->measured)
        return error_set(
            costing->error, WEFT_ERROR_ARGUMENT,
            "the cluster does not say what its ranks compute with: give it a device, or measure the layers");
    weft_status status = WEFT_OK;
    for (uint32_t d = 0; status == WEFT_OK && d < cluster->device_count && !costing->setting->measured; d++)
        status = device_check(&cluster->devices[d], costing->implementation, costing->error);
    return status;
}

static weft_status place_ranks(struct step_costing *costing)
{
    struct step_costs *costs = costing->costs;
    const struct executor_config *config = costing->config;
    const struct step_cluster *cluster = costing->setting->cluster;
    uint32_t *hosts = calloc(costs->ranks, sizeof *hosts);
    costs->points = calloc((size_t)costs->ranks * MESH_AXES, sizeof *costs->points);
    costs->shares = calloc(costing_extent(costing, MESH_DATA), sizeof *costs->shares);
    weft_status status = hosts && costs->points && costs->shares ? WEFT_OK : out_of_memory(costing);
    for (uint32_t rank = 0; status == WEFT_OK && rank < costs->ranks; rank++)
        hosts[rank] = cluster->hosts ? cluster->hosts[rank] : 0;
    if (status == WEFT_OK)
        status = mesh_place(&config->mesh, &config->placement, hosts, costs->points, costing->error);
    const struct micro_batch_division division = executor_division_of(config);
    for (uint32_t d = 0; status == WEFT_OK && d < costing_extent(costing, MESH_DATA); d++)
        costs->shares[d] = micro_batch_share_of(costing->zero, &division, d).count;
    for (enum mesh_axis axis = 0; status == WEFT_OK && axis < MESH_AXES; axis++)
        status = step_placements_open(costs, axis, &costing->placements[axis], costing->error);
    free(hosts);
    return status;
}

/* ---- layers ---- */

/* What a rank has of so many elements: the largest slice, as weft train makes them of whole blocks. */
static double slice_of(const struct step_costing *costing, double elements)
{
    const uint32_t ranks = costing_extent(costing, MESH_DATA);
    if (!costing->zero || !costing->implementation->runnable)
        return costing->zero ? elements / ranks : elements;
    const size_t blocks = (tree_blocks((size_t)elements) + ranks - 1) / ranks;
    const double slice = (double)(blocks * DEVICE_SQUARES_BLOCK);
    return slice < elements ? slice : elements;
}

static double seconds_of(const struct step_costing *costing, uint32_t device, const struct layer_work *work)
{
    const struct step_cluster *cluster = costing->setting->cluster;
    return device < cluster->device_count ? device_seconds(&cluster->devices[device], work) : 0;
}

/* What was measured was without recomputation, which repeats the forward pass. */
static double measured_pass(const struct step_costing *costing, uint32_t unit, enum work_pass pass)
{
    const double *seconds = costing->setting->measured[unit];
    if (pass != WORK_RECOMPUTE)
        return seconds[pass];
    return layer_work_flops(model_work_of(costing->work, unit, WORK_RECOMPUTE)) > 0 ? seconds[WORK_FORWARD] : 0;
}

static void cost_layer(const struct step_costing *costing, uint32_t device, uint32_t unit,
                       struct step_unit_costs *layer)
{
    const struct implementation *implementation = costing->implementation;
    const struct costing_unit *elements = &costing->layers[unit];
    const struct layer_work accumulate = work_accumulate(implementation, elements->own + elements->tied),
                            update = work_step(implementation, costing->config->optimizer.kind,
                                               slice_of(costing, elements->updated));
    for (enum work_pass pass = 0; pass < WORK_PASSES; pass++)
        layer->passes[pass] = costing->setting->measured
                                  ? measured_pass(costing, unit, pass)
                                  : seconds_of(costing, device, model_work_of(costing->work, unit, pass));
    layer->passes[WORK_BACKWARD_WEIGHTS] += seconds_of(costing, device, &accumulate);
    layer->update = seconds_of(costing, device, &update);
}

static weft_status record_work(struct step_costing *costing)
{
    const struct executor_config *config = costing->config;
    const uint32_t tensor = costing_extent(costing, MESH_TENSOR);
    const struct work_settings settings = {.implementation = costing->implementation,
                                           .batch = config->model.batch,
                                           .sequence = config->model.sequence,
                                           .divides_rows = config->sequence_parallel && tensor > 1,
                                           .recompute = config->model.recompute,
                                           .recompute_layers = config->model.recompute_layers,
                                           .dropout = config->model.dropout};
    weft_status status = model_description_copy(config->description, &costing->divided, costing->error);
    if (status == WEFT_OK && tensor > 1)
        status = model_divide(costing->divided, tensor, 0, costing->error);
    if (status == WEFT_OK)
        status = model_work_open(costing->divided, &settings, &costing->recorded, costing->error);
    costing->work = costing->recorded;
    return status;
}

static bool units_are_alike(const struct step_costing *costing, uint32_t a, uint32_t b)
{
    const struct costing_unit *one = &costing->layers[a], *other = &costing->layers[b];
    for (enum work_pass pass = 0; pass < WORK_PASSES; pass++)
        if (model_work_of(costing->work, a, pass) != model_work_of(costing->work, b, pass))
            return false;
    return one->own == other->own && one->tied == other->tied && one->updated == other->updated &&
           model_layer_reads_values(costing->description, a) == model_layer_reads_values(costing->description, b);
}

static weft_status list_units(struct step_costing *costing)
{
    const struct model_description *description = costing->description;
    const size_t tied = model_tied_group(description);
    uint32_t firsts[UNIT_FIRSTS], count = 0;
    costing->layers = calloc(costing->costs->units, sizeof *costing->layers);
    if (!costing->layers)
        return out_of_memory(costing);
    for (uint32_t unit = 0; unit < costing->costs->units; unit++) {
        struct costing_unit *layer = &costing->layers[unit];
        const size_t group = model_layer_group(description, unit);
        const bool second = unit > 0 && costing_extent(costing, MESH_PIPELINE) == 1;
        uint32_t first = 0;
        layer->own = group == NO_PARAMETER ? 0 : (double)description->groups[group].count;
        layer->tied = model_layer_uses_tied(description, unit) ? (double)description->groups[tied].count : 0;
        layer->updated = layer->own + (second ? 0 : layer->tied);
        while (first < count && !units_are_alike(costing, firsts[first], unit))
            first++;
        layer->alike = first < count ? firsts[first] : unit;
        if (first == count && count < UNIT_FIRSTS)
            firsts[count++] = unit;
    }
    return WEFT_OK;
}

static weft_status cost_layers(struct step_costing *costing)
{
    struct step_costs *costs = costing->costs;
    const uint32_t devices = costing->setting->cluster->device_count;
    weft_status status = WEFT_OK;
    costing->work = costing->setting->work;
    if (!costing->work)
        status = record_work(costing);
    if (status != WEFT_OK)
        return status;
    costing->description = model_work_description(costing->work);
    status = list_units(costing);
    costs->layers = calloc((size_t)(devices ? devices : 1) * costs->units, sizeof *costs->layers);
    if (status != WEFT_OK || !costs->layers)
        return status != WEFT_OK ? status : out_of_memory(costing);
    for (uint32_t device = 0; device < devices || device == 0; device++) {
        struct step_unit_costs *layers = &costs->layers[(size_t)device * costs->units];
        for (uint32_t unit = 0; unit < costs->units; unit++)
            if (costing->layers[unit].alike < unit && !costing->setting->measured)
                layers[unit] = layers[costing->layers[unit].alike];
            else
                cost_layer(costing, device, unit, &layers[unit]);
    }
    return WEFT_OK;
}

/* ---- stages ---- */

/* A unit's passes on the device where they take longest, with the collectives within them. */
static double balanced_cost(const struct step_costing *costing, uint32_t unit)
{
    const struct step_costs *costs = costing->costs;
    const uint32_t devices = costing->setting->cluster->device_count;
    double slowest = 0;
    for (uint32_t device = 0; device < devices || device == 0; device++) {
        const struct step_unit_costs *layer = &costs->layers[(size_t)device * costs->units + unit];
        double sum = 0;
        for (enum work_pass pass = 0; pass < WORK_PASSES; pass++)
            sum += layer->passes[pass];
        slowest = sum > slowest ? sum : slowest;
    }
    for (enum work_pass pass = 0; pass < WORK_RECOMPUTE; pass++)
        slowest += costs->within[unit * WORK_PASSES + pass].seconds;
    return slowest;
}

static weft_status costing_cut_stages(struct step_costing *costing)
{
    struct step_costs *costs = costing->costs;
    struct executor_config config = *costing->config;
    const uint32_t stages = config.stages ? config.stages : costing_extent(costing, MESH_PIPELINE);
    config.zero = costing->zero;
    costs->first_unit = calloc((size_t)stages + 1, sizeof *costs->first_unit);
    double *balanced = calloc(2 * (size_t)costs->units, sizeof *balanced);
    weft_status status = costs->first_unit && balanced ? WEFT_OK : out_of_memory(costing);
    for (uint32_t unit = 0; status == WEFT_OK && unit < costs->units; unit++)
        balanced[unit] = balanced_cost(costing, unit);
    config.costs = balanced;
    if (costing->setting->first_unit)
        config.first_unit = costing->setting->first_unit;
    if (status == WEFT_OK)
        status = stages_cut(&config, stages, balanced + costs->units, costs->first_unit, costing->error);
    free(balanced);
    if (status != WEFT_OK)
        return status;
    costs->shape = stages_shape(&config, stages, costs->first_unit);
    costs->shape.shares_within = !costing->implementation->overlaps_sharing;
    return step_check_shape(&costs->shape, costing->error);
}

/* ---- collectives within passes ---- */

static weft_status price_exchanges(struct step_costing *costing, const struct step_placement *placement,
                                   const struct layer_work *work, struct step_transfer *transfer)
{
    weft_status status = WEFT_OK;
    for (uint32_t i = 0; status == WEFT_OK && i < work->exchange_count; i++) {
        const struct step_request request = {.collective = work->exchanges[i].collective,
                                             .bytes = work->exchanges[i].bytes,
                                             .reproducible = costing->implementation->runnable};
        status = step_prices_add(costing->prices, placement, &request, transfer, costing->error);
    }
    return status;
}

/* A pass for weights that repeats the forward pass takes both; so does one for inputs. */
static weft_status price_unit_within(struct step_costing *costing, const struct step_placement *placement,
                                     uint32_t unit, struct step_transfer within[WORK_PASSES])
{
    weft_status status = WEFT_OK;
    for (enum work_pass pass = 0; status == WEFT_OK && pass < WORK_PASSES; pass++)
        status = price_exchanges(costing, placement, model_work_of(costing->work, unit, pass), &within[pass]);
    const struct layer_work *again = model_work_of(costing->work, unit, WORK_RECOMPUTE),
                            *weights = model_work_of(costing->work, unit, WORK_BACKWARD_WEIGHTS);
    if (status == WEFT_OK)
        status = price_exchanges(costing, placement, again, &within[WORK_BACKWARD_INPUT]);
    return status == WEFT_OK ? price_exchanges(costing, placement, weights, &within[WORK_RECOMPUTE]) : status;
}

static weft_status price_within(struct step_costing *costing)
{
    struct step_costs *costs = costing->costs;
    const struct step_placements *placements = &costing->placements[MESH_TENSOR];
    costs->within = calloc((size_t)placements->count * costs->units * WORK_PASSES, sizeof *costs->within);
    if (!costs->within)
        return out_of_memory(costing);
    weft_status status = WEFT_OK;
    for (uint32_t class = 0; class < placements->count; class ++) {
        struct step_transfer *of_class = &costs->within[(size_t) class * costs->units * WORK_PASSES];
        for (uint32_t unit = 0; status == WEFT_OK && unit < costs->units; unit++) {
            const uint32_t alike = costing->layers[unit].alike;
            struct step_transfer *within = &of_class[unit * WORK_PASSES];
            if (alike < unit)
                memcpy(within, &of_class[alike * WORK_PASSES], WORK_PASSES * sizeof *within);
            else
                status = price_unit_within(costing, &placements->classes[class], unit, within);
        }
    }
    return status;
}

/* ---- the data axis ---- */

/* Gradients of the embedding table that are rows of the tokens that occur move as such. */
static double table_row_bytes(const struct step_costing *costing)
{
    const struct executor_config *config = costing->config;
    const size_t rows = config->micro_batches * config->model.batch * config->model.sequence;
    const double width = (double)costing->description->parameters[costing->description->tied].shape[1];
    return (double)rows * (width * costing->reductions.element_bytes + 4);
}

static bool table_is_sparse(const struct step_costing *costing)
{
    return costing->implementation->runnable && executor_wants_sparse_table(costing->config);
}

/* Rows of a sparse table, and `bytes` of other gradients of a unit, or of a bucket. `last_share` is that of a last round that
 * lacks ranks, otherwise 0. */
static weft_status price_reduction(struct step_costing *costing, const struct step_placement *placement, bool sparse,
                                   double bytes, double last_share, struct step_transfer *transfer)
{
    const struct step_reductions *reductions = &costing->reductions;
    const struct step_request rows = {
        .collective = COLLECTIVE_ALLGATHER, .bytes = sparse ? table_row_bytes(costing) : 0, .reproducible = true};
    weft_status status = step_prices_add(costing->prices, placement, &rows, transfer, costing->error);
    if (status != WEFT_OK || !(bytes > 0))
        return status;
    return last_share > 0
               ? step_reductions_add_last(reductions, costing->prices, placement, bytes, last_share, transfer,
                                          costing->error)
               : step_reductions_add(reductions, costing->prices, placement, bytes, transfer, costing->error);
}

/* Reductions of one class of groups: transfers[unit]. A bucket takes the units of a stage from the last one on; all of it is
 * reduced with its last unit. In weft train buckets are all-reduced only, otherwise each unit is by itself. */
static weft_status price_reductions(struct step_costing *costing, const struct step_placement *placement,
                                    double last_share, struct step_transfer *transfers)
{
    struct step_costs *costs = costing->costs;
    const bool buckets = costing->implementation->runnable ? costing->reductions.in_place : costing->zero < 2;
    weft_status status = WEFT_OK;
    for (uint32_t stage = costs->shape.stages; stage-- > 0 && status == WEFT_OK;) {
        double filled = 0;
        for (uint32_t unit = costs->first_unit[stage + 1]; unit-- > costs->first_unit[stage] && status == WEFT_OK;) {
            const struct costing_unit *layer = &costing->layers[unit];
            const bool sparse = unit == 0 && layer->tied > 0 && table_is_sparse(costing);
            filled += costing->reductions.element_bytes * (layer->own + (sparse ? 0 : layer->tied));
            if (buckets && filled < (double)costing->config->bucket_bytes && unit > costs->first_unit[stage])
                continue;
            status = price_reduction(costing, placement, sparse, filled, last_share, &transfers[unit]);
            filled = 0;
        }
    }
    return status;
}

static weft_status price_rounds(struct step_costing *costing, uint32_t class)
{
    struct step_costs *costs = costing->costs;
    const struct step_placement *placement = &costing->placements[MESH_DATA].classes[class];
    const size_t first = (size_t) class * costs->units;
    weft_status status = price_reductions(costing, placement, 0, costs->reductions + first);
    if (status == WEFT_OK && costs->last_reductions)
        status = price_reductions(costing, placement, step_reductions_last_share(&costing->reductions, placement),
                                  costs->last_reductions + first);
    return status;
}

/* Weights that go to all ranks: before passes (ZeRO-3), and after the update (ZeRO-1 and 2). */
static weft_status price_weights(struct step_costing *costing, uint32_t class)
{
    struct step_costs *costs = costing->costs;
    const struct step_placement *placement = &costing->placements[MESH_DATA].classes[class];
    weft_status status = WEFT_OK;
    for (uint32_t unit = 0; status == WEFT_OK && unit < costs->units; unit++) {
        const size_t place = (size_t) class * costs->units + unit;
        const struct costing_unit *layer = &costing->layers[unit];
        const double read = layer->own + layer->tied, element = (double)weft_type_size(costing->implementation->type),
                     activation = model_layer_reads_values(costing->description, unit)
                                      ? element
                                      : (double)weft_type_size(costing->implementation->activations);
        const struct step_request gather = {.collective = COLLECTIVE_ALLGATHER, .bytes = read * activation},
                                  share = {.collective = COLLECTIVE_ALLGATHER, .bytes = layer->updated * element};
        if (layer->alike < unit) {
            const size_t alike = (size_t) class * costs->units + layer->alike;
            costs->gathers[place] = costs->gathers[alike];
            costs->sharings[place] = costs->sharings[alike];
        } else if (costing->zero == 3)
            status = step_prices_add(costing->prices, placement, &gather, &costs->gathers[place], costing->error);
        else if (costing->zero > 0)
            status = step_prices_add(costing->prices, placement, &share, &costs->sharings[place], costing->error);
    }
    return status;
}

static weft_status price_data_axis(struct step_costing *costing)
{
    struct step_costs *costs = costing->costs;
    const uint32_t classes = costing->placements[MESH_DATA].count;
    const size_t count = (size_t)classes * costs->units;
    costs->gathers = calloc(count, sizeof *costs->gathers);
    costs->reductions = calloc(count, sizeof *costs->reductions);
    costs->sharings = calloc(count, sizeof *costs->sharings);
    const struct micro_batch_division division = executor_division_of(costing->config);
    costing->reductions =
        step_reductions_of(costing->implementation, costing->zero, &division, costing->config->gradients);
    if (costing->reductions.last)
        costs->last_reductions = calloc(count, sizeof *costs->last_reductions);
    if (!costs->gathers || !costs->reductions || !costs->sharings ||
        (costing->reductions.last && !costs->last_reductions))
        return out_of_memory(costing);
    weft_status status = WEFT_OK;
    for (uint32_t class = 0; status == WEFT_OK && costing_extent(costing, MESH_DATA) > 1 && class < classes; class ++) {
        status = price_rounds(costing, class);
        if (status == WEFT_OK)
            status = price_weights(costing, class);
    }
    costs->reductions_wait = !costing->implementation->overlaps_reductions && costing->zero < 2;
    return status;
}

/* ---- messages, the norm ---- */

/* A message between stages on each level. */
static void cost_rows(struct step_costing *costing, double bytes)
{
    struct step_costs *costs = costing->costs;
    const struct step_cluster *cluster = costing->setting->cluster;
    const double ranks = costing_extent(costing, MESH_TENSOR), part = bytes / ranks;
    const bool scatters =
        costing->implementation->scatters_messages && ranks > 1 && !costing->config->sequence_parallel;
    const struct step_transfer rest = step_message_of(cluster, 0, bytes - part);
    for (uint32_t level = 0; level < STEP_LINK_LEVELS; level++) {
        costs->messages[level] = step_message_of(cluster, level, scatters ? part : bytes);
        if (!scatters)
            continue;
        costs->messages[level].seconds += rest.seconds + cluster->collective_launch;
        costs->messages[level].bytes[0] += rest.bytes[0];
    }
}

static void cost_messages(struct step_costing *costing)
{
    struct step_costs *costs = costing->costs;
    const struct step_cluster *cluster = costing->setting->cluster;
    const uint32_t boundary = costs->shape.stages > 1 ? costs->first_unit[1] - 1 : 0;
    double tied = costing->layers[0].tied;
    if (table_is_sparse(costing) && tied > 0) { /* rows one way, a slice the other: the longer one counts */
        const double rows = table_row_bytes(costing), slice = slice_of(costing, tied) * 4;
        tied = rows > slice ? rows : slice;
    } else {
        tied = slice_of(costing, tied) * costing->reductions.element_bytes;
    }
    cost_rows(costing, model_work_output_bytes(costing->work, boundary));
    for (uint32_t level = 0; level < STEP_LINK_LEVELS; level++)
        costs->ties[level] = step_message_of(cluster, level, tied);
    costs->messages_block = !costing->implementation->overlaps_pipeline;
}

#define NORM_RANKS 64

static weft_status cost_norm(struct step_costing *costing)
{
    struct step_costs *costs = costing->costs;
    const struct step_cluster *cluster = costing->setting->cluster;
    const uint32_t pipeline = costs->shape.pipeline, devices = cluster->device_count ? cluster->device_count : 1;
    const size_t tensor = costing_extent(costing, MESH_TENSOR);
    costs->norms = calloc((size_t)devices * pipeline, sizeof *costs->norms);
    if (!costs->norms)
        return out_of_memory(costing);
    for (uint32_t stage = 0; stage < costs->shape.stages; stage++)
        for (uint32_t unit = costs->first_unit[stage]; unit < costs->first_unit[stage + 1]; unit++) {
            const struct layer_work work =
                work_norm(costing->implementation, slice_of(costing, costing->layers[unit].updated));
            for (uint32_t device = 0; device < devices; device++)
                costs->norms[device * pipeline + stage % pipeline] += seconds_of(costing, device, &work);
        }
    if (costs->ranks == 1)
        return WEFT_OK;
    const struct step_placement *all;
    const bool runnable = costing->implementation->runnable;
    /* Sums of squares and losses. A power of two, so that strategies that differ a little share a price. */
    double numbers = 1;
    while (runnable && numbers < (double)(costing->description->blocks * tensor + costing->config->micro_batches + 1))
        numbers *= 2;
    const struct step_request request = {
        .collective = COLLECTIVE_ALLREDUCE, .bytes = 8 * numbers, .reproducible = runnable};
    /* A few bytes take rounds, whose number is the logarithm of the ranks: fewer ranks are simulated. */
    const uint32_t simulated = !runnable && costs->ranks > NORM_RANKS ? NORM_RANKS : costs->ranks;
    weft_status status = step_prices_placement(costing->prices, simulated, &all, costing->error);
    if (status == WEFT_OK)
        status = step_prices_add(costing->prices, all, &request, &costs->norm, costing->error);
    costs->norm.seconds *= log2(costs->ranks) / log2(simulated);
    return status;
}

/* ---- all of it ---- */

weft_status step_costs_of(const struct step_setting *setting, struct step_prices *prices, struct step_costs *costs,
                          struct error *error)
{
    const struct executor_config *config = setting->config;
    *costs = (struct step_costs){.units = (uint32_t)config->description->layer_count,
                                 .ranks = mesh_ranks(&config->mesh),
                                 .mesh = config->mesh,
                                 .cluster = setting->cluster};
    struct step_costing costing = {.setting = setting,
                                   .config = config,
                                   .implementation = setting->implementation ? setting->implementation
                                                                             : implementation_weft(setting->precision),
                                   .prices = prices,
                                   .costs = costs,
                                   .zero = config->mesh.extent[MESH_DATA] > 1 ? config->zero : 0,
                                   .error = error};
    weft_status status = check_cluster(&costing);
    if (status == WEFT_OK)
        status = executor_check_config(config, error);
    if (status == WEFT_OK)
        status = place_ranks(&costing);
    if (status == WEFT_OK)
        status = cost_layers(&costing);
    if (status == WEFT_OK)
        status = price_within(&costing);
    if (status == WEFT_OK)
        status = costing_cut_stages(&costing);
    if (status == WEFT_OK)
        status = price_data_axis(&costing);
    if (status == WEFT_OK)
        cost_messages(&costing);
    if (status == WEFT_OK)
        status = cost_norm(&costing);
    for (enum mesh_axis axis = 0; axis < MESH_AXES; axis++)
        step_placements_free(&costing.placements[axis]);
    model_work_close(costing.recorded);
    model_description_free(costing.divided);
    free(costing.layers);
    if (status != WEFT_OK)
        step_costs_free(costs);
    return status;
}

void step_costs_free(struct step_costs *costs)
{
    for (enum mesh_axis axis = 0; axis < MESH_AXES; axis++) {
        free(costs->groups[axis]);
        free(costs->group_class[axis]);
    }
    free(costs->first_unit);
    free(costs->points);
    free(costs->shares);
    free(costs->layers);
    free(costs->within);
    free(costs->gathers);
    free(costs->reductions);
    free(costs->last_reductions);
    free(costs->sharings);
    free(costs->norms);
    *costs = (struct step_costs){0};
}

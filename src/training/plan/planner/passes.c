/* SPDX-License-Identifier: Apache-2.0 */
/* What layers cost for each choice of passes: computed once, kept. */
#include "training/plan/planner/internal/parts.h"

#include "base/hash.h"
#include "training/simulate/device_time.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* The network as one rank of a tensor axis has it. */
static weft_status divide_network(struct planner *planner, uint32_t tensor, const struct model_description **divided,
                                  struct error *error)
{
    struct model_description **kept = &planner->divided[tensor];
    weft_status status = WEFT_OK;
    if (tensor == 1) {
        *divided = planner->setting.description;
        return WEFT_OK;
    }
    if (!*kept) {
        status = model_description_copy(planner->setting.description, kept, error);
        if (status == WEFT_OK)
            status = model_divide(*kept, tensor, 0, error);
    }
    *divided = *kept;
    return status;
}

/* ---- work ---- */

/* Elements of layers and bytes that they keep. Where rows between layers are divided, a rank may have but its part. */
static void fill_layers(const struct planner *planner, const struct strategy *strategy,
                        const struct model_description *divided, struct pass_work *layers)
{
    const struct model_options options = {.batch = strategy->micro_batch,
                                          .sequence = planner->space.sequence,
                                          .training = true,
                                          .recompute = strategy->recompute,
                                          .recompute_layers = strategy->recompute_layers};
    const double parts = strategy->sequence_parallel ? strategy->mesh.extent[MESH_TENSOR] : 1;
    for (size_t u = 0; u < planner->units; u++) {
        struct model_layer layer;
        model_get_layer(divided, u, WEFT_F32, strategy->precision, &options, &layer);
        const size_t group = model_layer_group(divided, u);
        const weft_type type = model_layer_reads_values(divided, u) ? WEFT_F32 : strategy->precision;
        layers->owned[u] = group == NO_PARAMETER ? 0 : (double)divided->groups[group].count;
        layers->gathered[u] = layers->owned[u] * (double)weft_type_size(type);
        layers->elements[u] = (double)layer.weights;
        layers->kept[u] = (double)layer.kept / parts;
    }
}

static void fill_balance(const struct planner *planner, const struct implementation *implementation, uint32_t number,
                         struct pass_work *layers)
{
    const struct cluster_device *device = &planner->setting.cluster->step.devices[number];
    const struct layer_work *last[WORK_PASSES] = {NULL};
    double seconds[WORK_PASSES] = {0};
    for (size_t u = 0; u < planner->units; u++) {
        const struct layer_work accumulate = work_accumulate(implementation, layers->elements[u]);
        double *all = &layers->balance[number * planner->units + u];
        for (int pass = 0; pass < WORK_PASSES; pass++) {
            const struct layer_work *one = model_work_of(layers->work, u, (enum work_pass)pass);
            if (one != last[pass]) /* neighbors are mostly alike */
                seconds[pass] = device_seconds(device, one);
            last[pass] = one;
            *all += seconds[pass];
        }
        *all += device_seconds(device, &accumulate);
    }
}

/* How many ranks compute on the fullest host. */
static uint32_t ranks_of_host(const struct planner *planner, const struct strategy *strategy)
{
    const uint32_t ranks = mesh_ranks(&strategy->mesh), most = planner->setting.cluster->ranks_per_host;
    return ranks < most ? ranks : most;
}

/* Measured passes. */
static weft_status fill_measured(struct planner *planner, const struct strategy *strategy, struct pass_work *layers,
                                 struct error *error)
{
    const uint32_t cores = planner->setting.cluster->links.cores, together = ranks_of_host(planner, strategy);
    const double slower = cores && together > cores ? (double)together / cores : 1; /* ranks take turns on cores */
    layers->measured = calloc(planner->units, sizeof *layers->measured);
    layers->costs = calloc(planner->units, sizeof *layers->costs);
    if (!layers->measured || !layers->costs)
        return error_memory(error, planner->units * sizeof *layers->measured, "the costs of layers");
    weft_status status = planner->setting.measure(planner->setting.context, strategy, layers->measured, error);
    for (size_t u = 0; status == WEFT_OK && u < planner->units; u++) {
        const bool repeats = layer_work_flops(model_work_of(layers->work, u, WORK_RECOMPUTE)) > 0;
        for (int pass = 0; pass < COSTS_PASSES; pass++)
            layers->costs[u] += layers->measured[u][pass] *= slower;
        for (uint32_t d = 0; d < planner->setting.cluster->step.device_count; d++)
            layers->balance[d * planner->units + u] =
                layers->costs[u] + (repeats ? layers->measured[u][WORK_FORWARD] : 0);
    }
    return status;
}

static weft_status work_fill(struct planner *planner, const struct strategy *strategy, struct pass_work *layers,
                             struct error *error)
{
    const struct work_settings settings = {
        .implementation = implementation_weft(step_precision_of(strategy->precision)),
        .batch = strategy->micro_batch,
        .sequence = planner->space.sequence,
        .divides_rows = strategy->sequence_parallel,
        .recompute = strategy->recompute,
        .recompute_layers = strategy->recompute_layers,
        .dropout = planner->setting.config->dropout,
    };
    const struct model_description *divided;
    weft_status status = divide_network(planner, strategy->mesh.extent[MESH_TENSOR], &divided, error);
    if (status == WEFT_OK)
        status = model_work_open(divided, &settings, &layers->work, error);
    if (status != WEFT_OK)
        return status;
    fill_layers(planner, strategy, divided, layers);
    for (uint32_t d = 0; d < planner->setting.cluster->step.device_count && !planner->setting.measure; d++)
        fill_balance(planner, settings.implementation, d, layers);
    for (size_t u = 0; u < planner->units; u++) {
        const double bytes = model_work_output_bytes(layers->work, u);
        if (u == 0 || (u + 1 < planner->units && bytes < layers->message_bytes))
            layers->message_bytes = bytes;
        for (int pass = 0; pass < WORK_PASSES; pass++) {
            const double flops = layer_work_flops(model_work_of(layers->work, u, (enum work_pass)pass));
            layers->flops += flops;
            layers->chain_flops += pass <= WORK_BACKWARD_INPUT ? flops : 0;
        }
    }
    return planner->setting.measure ? fill_measured(planner, strategy, layers, error) : WEFT_OK;
}

static void work_free(void *value)
{
    struct pass_work *layers = value;
    for (size_t i = 0; i < layers->cut_count; i++) {
        free(layers->cuts[i].first_unit);
        free(layers->cuts[i].shares);
    }
    free(layers->cuts);
    free(layers->balance);
    free(layers->elements);
    free(layers->owned);
    free(layers->gathered);
    free(layers->kept);
    free(layers->measured);
    free(layers->costs);
    model_work_close(layers->work);
    free(layers);
}

static weft_status work_open(struct planner *planner, const struct strategy *strategy, struct pass_work **result,
                             struct error *error)
{
    const size_t cells = planner->setting.cluster->step.device_count * planner->units;
    struct pass_work *layers = calloc(1, sizeof *layers);
    if (layers) {
        layers->balance = calloc(cells, sizeof *layers->balance);
        layers->elements = calloc(planner->units, sizeof *layers->elements);
        layers->owned = calloc(planner->units, sizeof *layers->owned);
        layers->gathered = calloc(planner->units, sizeof *layers->gathered);
        layers->kept = calloc(planner->units, sizeof *layers->kept);
    }
    weft_status status =
        layers && layers->balance && layers->elements && layers->owned && layers->gathered && layers->kept
            ? WEFT_OK
            : error_memory(error, cells * sizeof *layers->balance, "the costs of passes");
    if (status == WEFT_OK)
        status = work_fill(planner, strategy, layers, error);
    if (status == WEFT_OK)
        *result = layers;
    else if (layers)
        work_free(layers);
    return status;
}

/* Of measured costs, the number of ranks on a host is in place of the data axis. */
uint64_t planner_work_key(const struct planner *planner, const struct strategy *strategy)
{
    const uint32_t key[] = {planner->setting.measure ? ranks_of_host(planner, strategy) : 1,
                            strategy->mesh.extent[MESH_TENSOR],
                            strategy->micro_batch,
                            (uint32_t)strategy->recompute,
                            strategy->recompute_layers,
                            (uint32_t)strategy->precision,
                            strategy->sequence_parallel};
    return hash_bytes(key, sizeof key, 0);
}

weft_status planner_work(struct planner *planner, const struct strategy *strategy, struct pass_work **result,
                         struct error *error)
{
    const uint64_t key = planner_work_key(planner, strategy);
    struct pass_work *layers = hash_index_find(&planner->works, key);
    weft_status status = WEFT_OK;
    if (!layers) {
        status = work_open(planner, strategy, &layers, error);
        if (status == WEFT_OK && (status = hash_index_add(&planner->works, key, layers, error)) != WEFT_OK)
            work_free(layers);
    }
    *result = layers;
    return status;
}

/* ---- seconds with collectives ---- */

/* Seconds that links need for the bytes that any algorithm has to move over them. */
static double exchange_bound(const struct planner *planner, const struct planner_place *place,
                             const struct work_exchange *exchange)
{
    const double ranks = place->groups.mesh.extent[MESH_TENSOR],
                 bytes = exchange->bytes * (exchange->collective == COLLECTIVE_ALLREDUCE ? 2 : 1),
                 near_seconds = bytes * (ranks - 1) / ranks / planner->near_bandwidth,
                 far_seconds = bytes * place->tensor_lacks / planner->far_bandwidth;
    return near_seconds > far_seconds ? near_seconds : far_seconds;
}

/* Whether prices take little time: groups on one host, all alike. */
static bool exchanges_are_simple(const struct planner_place *place)
{
    return !(place->tensor_lacks > 0) && place->tensor.count == 1;
}

/* Larger groups are never priced for a bound, only for a strategy. */
#define TENSOR_RANKS_PRICED 64

/* What a collective takes on the placement where it is fastest; or at least. */
static weft_status exchange_seconds(struct planner *planner, const struct planner_place *place, bool tight,
                                    const struct work_exchange *exchange, double *seconds, struct error *error)
{
    const struct step_request request = {
        .collective = exchange->collective, .bytes = exchange->bytes, .reproducible = true};
    double least = INFINITY;
    weft_status status = WEFT_OK;
    if (!exchanges_are_simple(place) && (!tight || place->groups.mesh.extent[MESH_TENSOR] > TENSOR_RANKS_PRICED)) {
        *seconds += exchange_bound(planner, place, exchange);
        return WEFT_OK;
    }
    for (uint32_t class = 0; class < place->tensor.count && status == WEFT_OK; class ++) {
        struct step_transfer transfer = {0};
        status = step_prices_add(planner->prices, &place->tensor.classes[class], &request, &transfer, error);
        least = transfer.seconds < least ? transfer.seconds : least;
    }
    *seconds += least;
    return status;
}

static weft_status exchanges_of(struct planner *planner, const struct planner_place *place, bool tight,
                                const struct layer_work *work, double *seconds, struct error *error)
{
    weft_status status = WEFT_OK;
    *seconds = 0;
    for (uint32_t i = 0; i < work->exchange_count && status == WEFT_OK; i++)
        status = exchange_seconds(planner, place, tight, &work->exchanges[i], seconds, error);
    return status;
}

/* Recomputation is in the pass for inputs, adding to the sum over micro-batches in that for weights. */
static unsigned kind_of(int pass)
{
    return pass == WORK_RECOMPUTE ? WORK_BACKWARD_INPUT : (unsigned)pass;
}

static double computing_of(const struct planner *planner, const struct pass_work *layers, uint32_t device, size_t unit,
                           int pass)
{
    const struct layer_work *work = model_work_of(layers->work, unit, (enum work_pass)pass);
    if (layers->measured)
        return pass != WORK_RECOMPUTE       ? layers->measured[unit][pass]
               : layer_work_flops(work) > 0 ? layers->measured[unit][WORK_FORWARD]
                                            : 0;
    return device_seconds(&planner->setting.cluster->step.devices[device], work);
}

static weft_status table_fill(struct planner *planner, const struct strategy *strategy,
                              const struct planner_place *place, bool tight, struct pass_table *table,
                              struct error *error)
{
    const struct step_cluster *cluster = &planner->setting.cluster->step;
    const struct implementation *implementation = implementation_weft(step_precision_of(strategy->precision));
    const struct layer_work *last[WORK_PASSES] = {NULL};
    double exchanges[WORK_PASSES] = {0}, computing[WORK_PASSES][CLUSTER_DEVICES_MOST];
    weft_status status = WEFT_OK;
    for (size_t u = 0; u < planner->units && status == WEFT_OK; u++) {
        const struct layer_work accumulate = work_accumulate(implementation, table->work->elements[u]);
        for (int pass = 0; pass < WORK_PASSES && status == WEFT_OK; pass++) {
            const struct layer_work *one = model_work_of(table->work->work, u, (enum work_pass)pass);
            const bool is_new = one != last[pass];
            if (is_new)
                status = exchanges_of(planner, place, tight, one, &exchanges[pass], error);
            last[pass] = one;
            for (uint32_t d = 0; d < cluster->device_count; d++) {
                if (is_new || table->work->measured)
                    computing[pass][d] = computing_of(planner, table->work, d, u, pass);
                table->seconds[d * planner->units + u][kind_of(pass)] += computing[pass][d] + exchanges[pass];
            }
        }
        for (uint32_t d = 0; d < cluster->device_count; d++)
            table->seconds[d * planner->units + u][OPERATION_BACKWARD_WEIGHTS] +=
                table->work->measured ? 0 : device_seconds(&cluster->devices[d], &accumulate);
    }
    return status;
}

/* Seconds of the first `passes` kinds of passes of a layer. */
static double fastest_of(const struct planner *planner, const struct pass_table *table, size_t unit, unsigned passes)
{
    double least = 0;
    for (uint32_t d = 0; d < planner->setting.cluster->step.device_count; d++) {
        double all = 0;
        for (unsigned p = 0; p < passes; p++)
            all += table->seconds[d * planner->units + unit][p];
        if (d == 0 || all < least)
            least = all;
    }
    return least;
}

static void table_free(void *value)
{
    struct pass_table *table = value;
    free(table->seconds);
    free(table);
}

static weft_status table_open(struct planner *planner, const struct strategy *strategy, struct pass_work *layers,
                              const struct planner_place *place, bool tight, struct pass_table **result,
                              struct error *error)
{
    const size_t cells = planner->setting.cluster->step.device_count * planner->units;
    struct pass_table *table = calloc(1, sizeof *table);
    if (table) {
        table->work = layers;
        table->seconds = calloc(cells, sizeof *table->seconds);
    }
    weft_status status = table && table->seconds
                             ? table_fill(planner, strategy, place, tight, table, error)
                             : error_memory(error, cells * sizeof *table->seconds, "the costs of passes");
    for (size_t u = 0; u < planner->units && status == WEFT_OK; u++) {
        const double seconds = fastest_of(planner, table, u, PASS_KINDS);
        table->sum += seconds;
        table->chain += fastest_of(planner, table, u, WORK_BACKWARD_INPUT + 1);
        table->unit_most = seconds > table->unit_most ? seconds : table->unit_most;
    }
    if (status == WEFT_OK)
        *result = table;
    else if (table)
        table_free(table);
    return status;
}

weft_status planner_passes(struct planner *planner, const struct strategy *strategy, bool tight,
                           const struct pass_table **result, struct error *error)
{
    const struct planner_place *place;
    struct pass_work *layers;
    struct pass_table *table = NULL;
    weft_status status = planner_work(planner, strategy, &layers, error);
    if (status == WEFT_OK)
        status = planner_place_of(planner, strategy, &place, error);
    if (status != WEFT_OK)
        return status;
    tight = tight && !exchanges_are_simple(place);
    const uint64_t key = hash_number(place->tensor_key + tight, planner_work_key(planner, strategy));
    table = hash_index_find(&planner->tables, key);
    if (!table) {
        status = table_open(planner, strategy, layers, place, tight, &table, error);
        if (status == WEFT_OK && (status = hash_index_add(&planner->tables, key, table, error)) != WEFT_OK)
            table_free(table);
    }
    *result = table;
    return status;
}

void planner_passes_free(struct planner *planner)
{
    hash_index_free(&planner->tables, table_free);
    hash_index_free(&planner->works, work_free);
    for (uint32_t tensor = 0; planner->divided && tensor <= planner->space.ranks_most; tensor++)
        model_description_free(planner->divided[tensor]);
    free(planner->divided);
}

/* SPDX-License-Identifier: Apache-2.0 */
/* What layers cost for each choice of passes: computed once, kept. */
#include "training/plan/internal/planner_parts.h"

#include "training/simulate/device_time.h"
#include "training/simulate/work.h"

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

/* ---- collectives within layers, at least ---- */

/* Seconds that the slowest level needs for the bytes that any algorithm has to move over it. */
static double exchange_seconds(const struct planner *planner, const struct strategy *strategy,
                               const struct work_exchange *exchange)
{
    const struct link_parameters *far = &planner->setting.cluster->links.far;
    const double ranks = strategy->mesh.extent[MESH_TENSOR],
                 hosts = planner_hosts_of(planner, strategy, MESH_TENSOR, false),
                 times = exchange->collective == COLLECTIVE_ALLREDUCE ? 2 : 1,
                 near_seconds = times * (ranks - 1) / ranks * exchange->bytes / planner->near_bandwidth,
                 far_seconds = hosts > 1 ? times * (hosts - 1) / hosts * exchange->bytes / far->bandwidth : 0;
    return near_seconds > far_seconds ? near_seconds : far_seconds;
}

static double pass_seconds_of(const struct planner *planner, const struct strategy *strategy,
                              const struct cluster_device *device, const struct layer_work *work)
{
    double seconds = device_seconds(device, work);
    for (uint32_t i = 0; i < work->exchange_count; i++)
        seconds += exchange_seconds(planner, strategy, &work->exchanges[i]);
    return seconds;
}

/* ---- tables ---- */

/* Elements of layers and bytes that they keep. Where rows between layers are divided, a rank may have but its part. */
static void fill_layers(const struct planner *planner, const struct strategy *strategy,
                        const struct model_description *divided, struct pass_table *table)
{
    const struct model_options options = {.batch = strategy->micro_batch,
                                          .sequence = planner->space.sequence,
                                          .training = true,
                                          .recompute = strategy->recompute};
    const double parts = strategy->sequence_parallel ? strategy->mesh.extent[MESH_TENSOR] : 1;
    for (size_t u = 0; u < planner->units; u++) {
        struct model_layer layer;
        model_get_layer(divided, u, WEFT_F32, strategy->precision, &options, &layer);
        table->elements[u] = (double)layer.weights;
        table->kept[u] = (double)layer.kept / parts;
    }
}

static void fill_device(const struct planner *planner, const struct strategy *strategy, const struct model_work *work,
                        uint32_t number, struct pass_table *table)
{
    const struct cluster_device *device = &planner->setting.cluster->step.devices[number];
    const struct implementation *implementation = implementation_weft(step_precision_of(strategy->precision));
    for (size_t u = 0; u < planner->units; u++) {
        struct pass_seconds *seconds = &table->seconds[number * planner->units + u];
        const struct layer_work accumulate = work_accumulate(implementation, table->elements[u]);
        double *all = &table->balance[number * planner->units + u];
        for (int pass = 0; pass < WORK_PASSES; pass++) {
            const struct layer_work *one = model_work_of(work, u, (enum work_pass)pass);
            seconds->pass[pass == WORK_RECOMPUTE ? WORK_BACKWARD_INPUT : pass] +=
                pass_seconds_of(planner, strategy, device, one);
            *all += device_seconds(device, one);
        }
        seconds->pass[WORK_BACKWARD_WEIGHTS] += device_seconds(device, &accumulate);
        *all += device_seconds(device, &accumulate);
    }
}

/* A third of a measured cost for each pass, and for recomputation where there is some. On a tensor axis each rank has its part. */
static weft_status fill_measured(struct planner *planner, const struct strategy *strategy,
                                 const struct model_work *work, struct pass_table *table, struct error *error)
{
    const uint32_t cores = planner->setting.cluster->links.cores, together = strategy->mesh.extent[MESH_DATA];
    const double slower = cores && together > cores ? (double)together / cores : 1; /* ranks take turns on cores */
    table->measured = calloc(planner->units, sizeof *table->measured);
    if (!table->measured)
        return error_memory(error, planner->units * sizeof *table->measured, "the costs of layers");
    weft_status status = planner->setting.measure(planner->setting.context, strategy, table->measured, error);
    for (size_t u = 0; status == WEFT_OK && u < planner->units; u++) {
        const bool repeats = layer_work_flops(model_work_of(work, u, WORK_RECOMPUTE)) > 0;
        table->measured[u] *= slower / strategy->mesh.extent[MESH_TENSOR];
        for (uint32_t d = 0; d < planner->setting.cluster->step.device_count; d++) {
            const size_t at = d * planner->units + u;
            for (unsigned p = 0; p < PASS_KINDS; p++)
                table->seconds[at].pass[p] = table->measured[u] / 3;
            table->seconds[at].pass[OPERATION_BACKWARD_INPUT] += repeats ? table->measured[u] / 3 : 0;
            table->balance[at] = table->measured[u] * (repeats ? 4 : 3) / 3;
        }
    }
    return status;
}

static weft_status table_fill(struct planner *planner, const struct strategy *strategy, struct pass_table *table,
                              struct error *error)
{
    const struct train_config *config = planner->setting.config;
    const struct step_cluster *cluster = &planner->setting.cluster->step;
    const struct work_settings settings = {
        .implementation = implementation_weft(step_precision_of(strategy->precision)),
        .batch = strategy->micro_batch,
        .sequence = planner->space.sequence,
        .divides_rows = strategy->sequence_parallel,
        .recompute = strategy->recompute,
        .dropout = config->dropout,
    };
    const struct model_description *divided;
    struct model_work *work = NULL;
    weft_status status = divide_network(planner, strategy->mesh.extent[MESH_TENSOR], &divided, error);
    if (status == WEFT_OK)
        status = model_work_open(divided, &settings, &work, error);
    if (status != WEFT_OK)
        return status;
    fill_layers(planner, strategy, divided, table);
    for (uint32_t d = 0; d < cluster->device_count && !planner->setting.measure; d++)
        fill_device(planner, strategy, work, d, table);
    if (planner->setting.measure)
        status = fill_measured(planner, strategy, work, table, error);
    for (size_t u = 0; u < planner->units; u++)
        for (int pass = 0; pass < WORK_PASSES; pass++) {
            const double flops = layer_work_flops(model_work_of(work, u, (enum work_pass)pass));
            table->flops += flops;
            table->chain_flops += pass <= WORK_BACKWARD_INPUT ? flops : 0;
        }
    model_work_close(work);
    return status;
}

/* Seconds of the first `passes` kinds of passes of a layer. */
static double fastest_of(const struct planner *planner, const struct pass_table *table, size_t unit, unsigned passes)
{
    double least = 0;
    for (uint32_t d = 0; d < planner->setting.cluster->step.device_count; d++) {
        double all = 0;
        for (unsigned p = 0; p < passes; p++)
            all += table->seconds[d * planner->units + unit].pass[p];
        if (d == 0 || all < least)
            least = all;
    }
    return least;
}

static void table_free(struct pass_table *table)
{
    for (size_t i = 0; i < table->cut_count; i++)
        free(table->cuts[i].first_unit);
    free(table->cuts);
    free(table->seconds);
    free(table->balance);
    free(table->elements);
    free(table->kept);
    free(table->measured);
    free(table);
}

static weft_status table_open(struct planner *planner, const struct strategy *key, struct pass_table **result,
                              struct error *error)
{
    const size_t cells = planner->setting.cluster->step.device_count * planner->units;
    struct pass_table *table = calloc(1, sizeof *table);
    if (table) {
        table->key = *key;
        table->seconds = calloc(cells, sizeof *table->seconds);
        table->balance = calloc(cells, sizeof *table->balance);
        table->elements = calloc(planner->units, sizeof *table->elements);
        table->kept = calloc(planner->units, sizeof *table->kept);
    }
    weft_status status = table && table->seconds && table->balance && table->elements && table->kept
                             ? WEFT_OK
                             : error_memory(error, cells * sizeof *table->seconds, "the costs of passes");
    if (status == WEFT_OK)
        status = table_fill(planner, key, table, error);
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

/* ---- keeping them ---- */

/* What a table depends on. Of measured costs, the number of ranks on a host is in place of the data axis. */
static struct strategy passes_key_of(const struct planner *planner, const struct strategy *strategy)
{
    const uint32_t ranks = mesh_ranks(&strategy->mesh), most = planner->setting.cluster->ranks_per_host;
    return (struct strategy){
        .mesh = {{planner->setting.measure ? ranks < most ? ranks : most : 1, 1, strategy->mesh.extent[MESH_TENSOR]}},
        .micro_batch = strategy->micro_batch,
        .recompute = strategy->recompute,
        .precision = strategy->precision,
        .sequence_parallel = strategy->sequence_parallel};
}

static bool keys_are_equal(const struct strategy *a, const struct strategy *b)
{
    return a->mesh.extent[MESH_DATA] == b->mesh.extent[MESH_DATA] &&
           a->mesh.extent[MESH_TENSOR] == b->mesh.extent[MESH_TENSOR] && a->micro_batch == b->micro_batch &&
           a->recompute == b->recompute && a->precision == b->precision && a->sequence_parallel == b->sequence_parallel;
}

static size_t hash_of(const struct strategy *key)
{
    size_t hash = key->mesh.extent[MESH_TENSOR] + key->mesh.extent[MESH_DATA] * 4099;
    hash = hash * 1000003 + key->micro_batch;
    hash = hash * 31 + (size_t)key->recompute * 8 + (size_t)key->precision * 2 + key->sequence_parallel;
    return hash * 0x9E3779B97F4A7C15u >> 20;
}

static uint32_t *table_slot_of(struct planner *planner, const struct strategy *key)
{
    size_t at = hash_of(key) % planner->table_slot_count;
    while (planner->table_slots[at] && !keys_are_equal(&planner->tables[planner->table_slots[at] - 1]->key, key))
        at = (at + 1) % planner->table_slot_count;
    return &planner->table_slots[at];
}

static weft_status grow_table_slots(struct planner *planner, struct error *error)
{
    const size_t count = planner->table_slot_count ? 2 * planner->table_slot_count : 256;
    uint32_t *slots = calloc(count, sizeof *slots);
    if (!slots)
        return error_memory(error, count * sizeof *slots, "the costs of passes");
    free(planner->table_slots);
    planner->table_slots = slots;
    planner->table_slot_count = count;
    for (size_t i = 0; i < planner->table_count; i++)
        *table_slot_of(planner, &planner->tables[i]->key) = (uint32_t)i + 1;
    return WEFT_OK;
}

weft_status planner_passes(struct planner *planner, const struct strategy *strategy, const struct pass_table **table,
                           struct error *error)
{
    const struct strategy key = passes_key_of(planner, strategy);
    weft_status status = WEFT_OK;
    if (2 * planner->table_count >= planner->table_slot_count)
        status = grow_table_slots(planner, error);
    if (status != WEFT_OK)
        return status;
    uint32_t *slot = table_slot_of(planner, &key);
    if (!*slot) {
        status =
            ARRAY_RESERVE(planner->tables, planner->table_room, planner->table_count + 1, "the costs of passes", error);
        if (status == WEFT_OK)
            status = table_open(planner, &key, &planner->tables[planner->table_count], error);
        if (status != WEFT_OK)
            return status;
        *slot = (uint32_t)++planner->table_count;
    }
    *table = planner->tables[*slot - 1];
    return WEFT_OK;
}

void planner_passes_free(struct planner *planner)
{
    for (size_t i = 0; i < planner->table_count; i++)
        table_free(planner->tables[i]);
    free(planner->tables);
    free(planner->table_slots);
    for (uint32_t tensor = 0; planner->divided && tensor <= planner->space.ranks_most; tensor++)
        model_description_free(planner->divided[tensor]);
    free(planner->divided);
}

/* SPDX-License-Identifier: Apache-2.0 */
/* An iteration by closed formulas: layers' work on a device, rings, and the shape of 1F1B. */
#include "predict.h"

#include "training/simulate/device_time.h"

#include <math.h>
#include <string.h>

const struct parameter_facts parameter_facts[PARAMETERS] = {
    [PARAMETER_PRODUCT_SHARE] = {"product_share", "of 312 TFLOP/s", 0.80, 0.4, 1, "large f16 products by cuBLAS"},
    [PARAMETER_PRODUCT_HALF] = {"product_half", "operations", 2e9, 1e6, 1e12, "tiles of 108 processors, assumed"},
    [PARAMETER_MEMORY_SHARE] = {"memory_share", "of 2039 GB/s", 0.80, 0.3, 1, "streaming kernels"},
    [PARAMETER_LAUNCH] = {"launch", "s", 5e-6, 1e-7, 1e-4, "CUDA"},
    [PARAMETER_NVLINK_SHARE] = {"nvlink_share", "of 300 GB/s", 0.77, 0.2, 1, "NCCL all-reduce of 1 GiB on 8 A100"},
    [PARAMETER_NVLINK_LATENCY] = {"nvlink_latency", "s a collective", 85e-6, 1e-6, 1e-3, "NCCL all-reduce of 1 MiB"},
    [PARAMETER_NIC_SHARE] = {"nic_share", "of the interfaces", 0.80, 0.2, 1, "assumed"},
    [PARAMETER_NIC_LATENCY] = {"nic_latency", "s a message", 20e-6, 1e-6, 1e-3, "assumed"},
};

/* ---- the clusters ---- */

#define NODE_RANKS 8
#define NVLINK     300e9 /* bytes/s of a device, each way */

static double interface_bandwidth(const struct row *row)
{
    const double ports = strcmp(row->cluster, "dgx-a100") ? 4 : 8,
                 port = strcmp(row->cluster, "dgx-a100-4x100") ? 25e9 : 12.5e9;
    return ports * port;
}

static struct cluster_device device_of(const double parameters[PARAMETERS])
{
    return (struct cluster_device){.kind = "A100-80GB",
                                   .memory_bandwidth = 2039e9,
                                   .flops = {[CLUSTER_F16] = 312e12, [CLUSTER_BF16] = 312e12},
                                   .launch_seconds = parameters[PARAMETER_LAUNCH],
                                   .product_share = parameters[PARAMETER_PRODUCT_SHARE],
                                   .product_half = parameters[PARAMETER_PRODUCT_HALF],
                                   .memory_share = parameters[PARAMETER_MEMORY_SHARE]};
}

/* ---- opening ---- */

static struct work_settings settings_of(const struct row *row, uint32_t micro_batch)
{
    return (struct work_settings){.implementation = row->implementation,
                                  .batch = micro_batch,
                                  .sequence = row->shape.context,
                                  .divides_rows = row->divides_rows,
                                  .recompute = row->recompute,
                                  .dropout = 0.1};
}

static weft_status add_candidate(struct prediction *prediction, uint32_t micro_batch, uint32_t virtual_stages,
                                 struct error *error)
{
    struct candidate *candidate = &prediction->candidates[prediction->count];
    *candidate = (struct candidate){.micro_batch = micro_batch, .virtual_stages = virtual_stages};
    const struct work_settings settings = settings_of(prediction->row, micro_batch);
    weft_status status = model_work_open(prediction->description, &settings, &candidate->work, error);
    prediction->count += status == WEFT_OK;
    return status;
}

weft_status prediction_open(const struct row *row, struct prediction *prediction, struct error *error)
{
    *prediction = (struct prediction){.row = row};
    const uint32_t stage_layers = (uint32_t)row->shape.layers / row->pipeline, share = row->global_batch / row->data;
    weft_status status = model_describe(&row->shape, &prediction->description, error);
    if (status == WEFT_OK && row->tensor > 1)
        status = model_divide(prediction->description, row->tensor, 0, error);
    for (uint32_t b = row->micro_batch ? row->micro_batch : 1; status == WEFT_OK && b <= 8; b *= 2) {
        for (uint32_t v = row->virtual_stages ? row->virtual_stages : 1; status == WEFT_OK && v <= stage_layers; v++)
            if ((row->virtual_stages || stage_layers % v == 0) && share % b == 0 &&
                (v == 1 || share / b % row->pipeline == 0) && prediction->count < CANDIDATES_MOST) {
                status = add_candidate(prediction, b, v, error);
                if (row->virtual_stages)
                    break;
            }
        if (row->micro_batch)
            break;
    }
    if (status == WEFT_OK && row->micro_batch > 8)
        status = add_candidate(prediction, row->micro_batch, row->virtual_stages ? row->virtual_stages : 1, error);
    return status;
}

void prediction_close(struct prediction *prediction)
{
    for (size_t i = 0; i < prediction->count; i++)
        model_work_close(prediction->candidates[i].work);
    model_description_free(prediction->description);
}

/* ---- communication ---- */

/* A ring over `ranks` ranks, `inside` of them on each node, while as many such groups as fit run on every node;
 * `rounds` is 2 for an all-reduce and 1 for its halves. */
static double ring_seconds(const struct row *row, const double parameters[PARAMETERS], double ranks, double inside,
                           double bytes, double rounds)
{
    if (ranks < 2)
        return 0;
    const double nodes = ranks / inside, moved = rounds * (ranks - 1) / ranks * bytes,
                 near = moved / (NVLINK * parameters[PARAMETER_NVLINK_SHARE]);
    if (nodes <= 1)
        return near + parameters[PARAMETER_NVLINK_LATENCY];
    const double groups = NODE_RANKS / inside,
                 far = moved * groups / (interface_bandwidth(row) * parameters[PARAMETER_NIC_SHARE]);
    return fmax(near, far) + parameters[PARAMETER_NVLINK_LATENCY] +
           rounds * (nodes - 1) * parameters[PARAMETER_NIC_LATENCY];
}

static double exchange_seconds(const struct row *row, const double parameters[PARAMETERS],
                               const struct layer_work *work)
{
    const double inside = fmin(row->tensor, NODE_RANKS);
    double seconds = 0;
    for (uint32_t i = 0; i < work->exchange_count; i++)
        seconds += ring_seconds(row, parameters, row->tensor, inside, work->exchanges[i].bytes,
                                work->exchanges[i].collective == COLLECTIVE_ALLREDUCE ? 2 : 1);
    return seconds;
}

/* ---- an iteration ---- */

#define KINDS_MOST 64

/* Seconds of a stage for a micro-batch. */
struct stage_seconds {
    double compute, tensor;
};

/* Megatron-LM gives each stage equally many blocks; the embedding is on the first one and the head on the last. A layer
 * of the description is half of a block. */
static uint32_t stage_of(const struct row *row, size_t layer)
{
    const size_t blocks = row->shape.layers;
    if (layer == 0)
        return 0;
    if (layer > 2 * blocks)
        return row->pipeline - 1;
    return (uint32_t)((layer - 1) / 2 * row->pipeline / blocks);
}

static double parameters_of_stage(const struct row *row, bool first)
{
    const double width = (double)row->shape.width, blocks = (double)row->shape.layers / row->pipeline;
    return (12 * width * width * blocks + (first ? (double)row->shape.vocabulary * width : 0)) / row->tensor;
}

static double candidate_seconds(const struct prediction *prediction, const struct candidate *candidate,
                                const double parameters[PARAMETERS], struct breakdown *breakdown)
{
    const struct row *row = prediction->row;
    const struct implementation *implementation = row->implementation;
    const struct cluster_device device = device_of(parameters);
    const double stages = row->pipeline, micro_batches = (double)row->global_batch / row->data / candidate->micro_batch,
                 turns = candidate->virtual_stages, elements = parameters_of_stage(row, true),
                 interfaces = interface_bandwidth(row) * parameters[PARAMETER_NIC_SHARE];
    double computes[KINDS_MOST], exchanges[KINDS_MOST];
    struct stage_seconds seconds[128] = {{0}};
    for (size_t kind = 0; kind < model_work_kinds(candidate->work); kind++)
        computes[kind] = -1;
    for (size_t i = 0; i < prediction->description->layer_count; i++) {
        struct stage_seconds *stage = &seconds[stage_of(row, i)];
        for (enum work_pass pass = 0; pass < WORK_PASSES; pass++) {
            const size_t kind = model_work_kind(candidate->work, i, pass);
            const struct layer_work *work = model_work_of(candidate->work, i, pass);
            if (computes[kind] < 0) {
                computes[kind] = device_seconds(&device, work);
                exchanges[kind] = exchange_seconds(row, parameters, work);
            }
            stage->compute += computes[kind];
            stage->tensor += exchanges[kind];
        }
    }
    const struct layer_work accumulate = work_accumulate(implementation, elements);
    struct stage_seconds slowest = {0}, sum = {0};
    for (uint32_t s = 0; s < row->pipeline; s++) {
        seconds[s].compute += device_seconds(&device, &accumulate);
        sum.compute += seconds[s].compute;
        sum.tensor += seconds[s].tensor;
        if (seconds[s].compute + seconds[s].tensor > slowest.compute + slowest.tensor)
            slowest = seconds[s];
    }
    /* Rows between stages: the ranks of a tensor axis send a part each and gather within the node (Narayanan et al. 2021,
     * section 4.1). All devices of a node send at once. */
    const double rows = model_work_output_bytes(candidate->work, 1) / (row->divides_rows ? 1 : row->tensor),
                 message = stages < 2 ? 0
                           : row->ranks <= NODE_RANKS
                               ? rows / NVLINK
                               : rows * NODE_RANKS / interfaces + parameters[PARAMETER_NIC_LATENCY];
    const double passes = slowest.compute + slowest.tensor, all = sum.compute + sum.tensor,
                 ramp = turns > 1 ? (stages - 1) / turns * all / stages : all - passes;
    *breakdown = (struct breakdown){
        .compute = micro_batches * slowest.compute,
        .tensor = micro_batches * slowest.tensor,
        .bubble = ramp,
        .pipeline = stages > 1 ? (micro_batches * turns + stages - 1) * 2 * message : 0,
        .micro_batch = candidate->micro_batch,
        .virtual_stages = candidate->virtual_stages,
    };
    const double neighbors = fmax(1, fmin(row->data, (double)NODE_RANKS / fmin(row->tensor, NODE_RANKS)));
    breakdown->data =
        ring_seconds(row, parameters, row->data, neighbors, elements * implementation->gradient_wire_bytes, 2);
    if (row->pipeline > 1) /* the tied table of the first and the last stage */
        breakdown->data += ring_seconds(row, parameters, 2, 1,
                                        (double)row->shape.vocabulary * (double)row->shape.width / row->tensor *
                                            implementation->gradient_wire_bytes,
                                        2);
    const struct layer_work norm = work_norm(implementation, elements), update = work_update(implementation, elements);
    breakdown->update = device_seconds(&device, &norm) + device_seconds(&device, &update);
    return breakdown->compute + breakdown->tensor + breakdown->bubble + breakdown->pipeline + breakdown->data +
           breakdown->update;
}

double prediction_seconds(const struct prediction *prediction, const double parameters[PARAMETERS],
                          struct breakdown *breakdown)
{
    double best = INFINITY;
    for (size_t i = 0; i < prediction->count; i++) {
        struct breakdown parts;
        const double seconds = candidate_seconds(prediction, &prediction->candidates[i], parameters, &parts);
        if (seconds < best) {
            best = seconds;
            if (breakdown)
                *breakdown = parts;
        }
    }
    return best;
}

/* ---- memory ---- */

double prediction_memory(const struct prediction *prediction, struct described_memory *of_largest)
{
    const struct row *row = prediction->row;
    const struct candidate *candidate = &prediction->candidates[0];
    const uint32_t micro_batches = row->global_batch / row->data / candidate->micro_batch;
    const size_t layers = prediction->description->layer_count;
    const struct work_settings settings = settings_of(row, candidate->micro_batch);
    double largest = 0;
    for (uint32_t s = 0; s < row->pipeline; s++) {
        struct described_stage stage = {
            .description = prediction->description,
            .settings = &settings,
            .first_layer = layers,
            .under_way = described_under_way(row->pipeline, s, candidate->virtual_stages, micro_batches),
            .data = row->data,
            .zero = row->zero};
        for (size_t i = 0; i < layers; i++)
            if (stage_of(row, i) == s) {
                stage.first_layer = i < stage.first_layer ? i : stage.first_layer;
                stage.layer_end = i + 1;
            }
        const struct described_memory memory = described_memory_of(&stage);
        const double bytes = described_memory_total(&memory);
        if (bytes > largest) {
            largest = bytes;
            *of_largest = memory;
        }
    }
    return largest;
}

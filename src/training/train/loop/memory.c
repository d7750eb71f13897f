/* SPDX-License-Identifier: Apache-2.0 */
#include "training/train/loop/memory.h"

#include "base/text.h"
#include "core/schedule/generators/generate.h"
#include "core/transport/copy.h"
#include "training/tensor/devices.h"
#include "training/train/loop/internal/memory_search.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MIB 1048576.0

/* model_open() refuses larger micro-batches. Below it all sizes are within 64 bits. */
#define TOKENS_MOST ((int64_t)1 << 26)

static uint64_t larger_bytes(uint64_t a, uint64_t b)
{
    return a > b ? a : b;
}

uint32_t memory_node_count(const struct memory_ranks *ranks)
{
    uint32_t count = 0;
    for (uint32_t r = 0; r < ranks->count; r++)
        count = ranks->nodes[r] + 1 > count ? ranks->nodes[r] + 1 : count;
    return count;
}

/* ---- one rank ---- */

static weft_status training_of(const struct train_config *config, const struct model_description *description,
                               const struct parallel_choice *choice, struct executor_networks *networks,
                               const uint32_t point[MESH_AXES], struct executor_memory *memory, struct error *error)
{
    struct device types = {.type = WEFT_F32, .activations = config->activations};
    struct executor_config options = parallel_choice_executor(config, choice);
    options.device = &types;
    options.description = (struct model_description *)(uintptr_t)description; /* it does not change */
    return executor_memory_of(&options, point, networks, memory, error);
}

/* Transient memory of rank 0: weights that it reads for all, or the model that samples, and the weights for it. */
static uint64_t first_rank_of(const struct train_config *config, const struct model_description *description,
                              const struct parallel_choice *choice)
{
    const struct model_options reader = {.batch = 1, .sequence = config->shape.context};
    const uint64_t array = description->elements * sizeof(float), read = config->from ? array : 0;
    const bool has_all = choice->zero < 3 && choice->mesh.extent[MESH_DATA] == mesh_ranks(&choice->mesh);
    uint64_t sample = 0;
    if (config->sample && model_samples_of(&description->shape) == SAMPLES_OF_TOKENS)
        sample = model_memory(description, WEFT_F32, config->activations, &reader) + (has_all ? 0 : array) +
                 MEMORY_OF_SAMPLE;
    return read > sample ? read : sample;
}

/* Room to copy what this rank writes of a checkpoint: see training/train/state/internal/checkpoint_parts.h. */
static uint64_t checkpoint_of(const struct train_config *config, const struct model_description *description,
                              uint32_t rank, uint32_t ranks)
{
    const uint64_t arrays = optimizer_has_second_moments(config->optimizer.kind) ? 3 : 2,
                   whole = arrays * description->weights * sizeof(float);
    if (!config->checkpoint_dir)
        return 0;
    if (whole < config->checkpoint_part)
        return rank == 0 ? whole : 0;
    return whole / ranks;
}

/* Bytes of the weights and the optimizer state that a rank copies. */
static uint64_t copied_part_of(const struct train_config *config, const struct executor_memory *training)
{
    const uint64_t moments = optimizer_has_second_moments(config->optimizer.kind) ? 2 : 1;
    return training->optimizer / moments * (moments + 1);
}

/* Two copies of this rank's state, and two of its neighbor's, which may be as large as any: see
 * training/parallel/state_copies.h. */
static uint64_t copies_of(const struct train_config *config, const struct executor_memory *training,
                          uint64_t largest_part)
{
    return largest_part ? 2 * (copied_part_of(config, training) + largest_part) : 0;
}

/* The largest part of any rank; 0: ranks keep no copies. It is that of a first data rank, which may be a parameter server: no
 * other one has larger slices, but for a block of some groups with few. */
static weft_status find_largest_part(const struct train_config *config, const struct model_description *description,
                                     const struct parallel_choice *choice, struct executor_networks *networks,
                                     uint64_t *largest, struct error *error)
{
    const uint32_t pipeline = parallel_choice_needs_copies(config, choice) ? choice->mesh.extent[MESH_PIPELINE] : 0;
    struct executor_memory training = {0};
    weft_status status = WEFT_OK;
    *largest = 0;
    for (uint32_t place = 0; place < pipeline && status == WEFT_OK; place++) {
        const uint32_t point[MESH_AXES] = {[MESH_PIPELINE] = place};
        status = training_of(config, description, choice, networks, point, &training, error);
        *largest = larger_bytes(*largest, copied_part_of(config, &training));
    }
    return status;
}

/* A ring through which the ranks of a node hand each other ordinary memory (core/collective/internal/staging.h). */
static uint64_t staging_of(uint32_t others, struct memory_kept *kept)
{
    if (!kept->staging)
        kept->staging = copy_forgotten_after();
    return others ? kept->staging / others : 0;
}

static uint32_t ranks_on_node(const struct memory_ranks *ranks, uint32_t node)
{
    uint32_t count = 0;
    for (uint32_t r = 0; r < ranks->count; r++)
        count += ranks->nodes[r] == node;
    return count;
}

/* Scratch for the largest product of a pass of whole layers, where its operands are cast. */
static uint64_t casts_of(const struct train_config *config, const struct model_description *description,
                         const struct memory_ranks *ranks)
{
    const size_t tokens = (size_t)(config->micro_batch * config->sequence);
    uint64_t most = 0;
    if (config->activations != WEFT_F16 && !(config->activations == WEFT_BF16 && ranks->casts_bf16))
        return 0;
    for (size_t i = 0; i < description->parameter_count; i++) {
        const struct model_parameter *parameter = &description->parameters[i];
        const size_t in = parameter->shape[0], out = parameter->shape[1];
        if (parameter->dimensions != 2)
            continue;
        most = larger_bytes(most, cpu_cast_bytes(tokens, out, in));
        most = larger_bytes(most, cpu_cast_bytes(tokens, in, out));
        most = larger_bytes(most, cpu_cast_bytes(in, out, tokens));
    }
    return most + MEMORY_OF_CASTS;
}

/* Scratch of the reduce-scatters of gradients that are under way at a time, where the data axis may reach over all nodes. */
static uint64_t scatters_of(const struct train_config *config, const struct model_description *description,
                            const struct parallel_choice *choice, uint32_t nodes)
{
    const struct micro_batch_division division = parallel_choice_division(choice);
    const uint32_t data = division.ranks;
    size_t largest = 0; /* elements of an even slice */
    if (data == 1 || choice->central || !micro_batch_sums_scatter(choice->zero, &division))
        return 0;
    for (size_t g = 0; g < description->group_count; g++) {
        const struct group_range range = {.count = description->groups[g].count / choice->mesh.extent[MESH_TENSOR]};
        const size_t even = group_even_slice(&range, data);
        largest = even > largest ? even : largest;
    }
    return GRADIENT_EXCHANGES *
           reduce_scatter_scratch(data, nodes < data ? nodes : data, largest * weft_type_size(config->gradients));
}

/* What is around a rank, whatever its place in the mesh. */
struct memory_place {
    uint32_t rank, together; /* ranks on its node */
    uint64_t scatters;       /* scatters_of() */
};

static struct memory_estimate surroundings_of(const struct train_config *config,
                                              const struct model_description *description,
                                              const struct parallel_choice *choice, const struct memory_ranks *ranks,
                                              const struct memory_place *place, struct memory_kept *kept)
{
    return (struct memory_estimate){
        .checkpoint = checkpoint_of(config, description, place->rank, ranks->count),
        .data = ranks->data,
        .first_rank = place->rank == 0 ? first_rank_of(config, description, choice) : 0,
        .rest =
            MEMORY_OF_PROCESS + staging_of(place->together - 1, kept) +
            (place->together < ranks->count ? MEMORY_OF_NETWORK + larger_bytes(MEMORY_OF_SUMS, place->scatters) : 0) +
            casts_of(config, description, ranks),
    };
}

weft_status memory_estimate_of(const struct train_config *config, const struct model_description *description,
                               const struct parallel_choice *choice, const struct memory_ranks *ranks, uint32_t rank,
                               const uint32_t point[MESH_AXES], struct memory_estimate *estimate, struct error *error)
{
    struct memory_kept own = {0}, *kept = ranks->kept ? ranks->kept : &own;
    const struct memory_place place = {
        .rank = rank,
        .together = ranks_on_node(ranks, ranks->nodes[rank]),
        .scatters = scatters_of(config, description, choice, memory_node_count(ranks)),
    };
    uint64_t largest;
    *estimate = surroundings_of(config, description, choice, ranks, &place, kept);
    weft_status status = find_largest_part(config, description, choice, &kept->networks, &largest, error);
    if (status == WEFT_OK)
        status = training_of(config, description, choice, &kept->networks, point, &estimate->training, error);
    memory_kept_free(&own);
    estimate->copies = copies_of(config, &estimate->training, largest);
    return status;
}

void memory_kept_free(struct memory_kept *kept)
{
    executor_networks_free(&kept->networks);
    *kept = (struct memory_kept){0};
}

uint64_t memory_estimate_total(const struct memory_estimate *estimate)
{
    return executor_memory_total(&estimate->training) + estimate->checkpoint + estimate->copies + estimate->first_rank +
           estimate->data + estimate->rest;
}

const char *memory_estimate_describe(const struct memory_estimate *estimate, char text[MEMORY_TEXT_BYTES])
{
    const struct executor_memory *training = &estimate->training;
    const struct {
        const char *name;
        uint64_t bytes;
    } parts[] = {
        {"weights", training->weights},
        {"gathered weights", training->gathered},
        {"gradients", training->gradients},
        {"optimizer", training->optimizer},
        {"partial sums", training->partial_sums},
        {"exchanges", training->exchanges},
        {"embedding's gradient", training->table_rows},
        {"16-bit copy", training->copy},
        {"activations", training->activations},
        {"lists of pieces", training->pieces},
        {"rows", training->rows},
        {"checkpoints", estimate->checkpoint},
        {"copies", estimate->copies},
        {"rank 0 (transient)", estimate->first_rank},
        {"data", estimate->data},
        {"the rest", estimate->rest},
    };
    char bytes[32];
    int used = snprintf(text, MEMORY_TEXT_BYTES, "%s a rank",
                        text_bytes(memory_estimate_total(estimate) - estimate->first_rank, bytes, sizeof bytes));
    for (size_t i = 0; i < ARRAY_SIZE(parts); i++)
        if (parts[i].bytes)
            used += snprintf(text + used, MEMORY_TEXT_BYTES - (size_t)used, "%s%s %s", i ? ", " : ": ", parts[i].name,
                             text_bytes(parts[i].bytes, bytes, sizeof bytes));
    return text;
}

/* ---- data ranks ---- */

/* What a data rank's memory depends on, but for the size of its slices. */
struct data_rank_sums {
    uint32_t micro_batches;
    uint32_t room, roots; /* partial sums while it adds up its micro-batches, and at the end; 0: those of all ranks */
};

static bool sums_are_equal(const struct data_rank_sums *a, const struct data_rank_sums *b)
{
    return a->micro_batches == b->micro_batches && a->room == b->room && a->roots == b->roots;
}

/* Of a run of micro-batches that begins at `first`. */
static struct data_rank_sums sums_of_run(uint32_t first, uint32_t count)
{
    struct canonical_stack roots;
    canonical_stack_of_run(first, count, &roots);
    return (struct data_rank_sums){count, canonical_stack_room(first, count ? count - 1 : 0), roots.depth};
}

/* Runs of equal length differ in few ways: in where subtrees begin. If there should be more, a rank is like no other. */
#define DATA_RANK_KINDS 64

void memory_alike_data_ranks(const struct parallel_choice *choice, uint32_t *alike)
{
    const struct micro_batch_division division = parallel_choice_division(choice);
    const bool same_sums = choice->zero >= 2 || micro_batch_runs_are_subtrees(&division);
    struct data_rank_sums kinds[DATA_RANK_KINDS];
    uint32_t ranks[DATA_RANK_KINDS], count = 0, first = 0;
    alike[0] = 0;
    for (uint32_t d = 0; d < division.ranks; d++) {
        const uint32_t own =
            choice->shares ? choice->shares[d] : micro_batch_share_of(choice->zero, &division, d).count;
        const struct data_rank_sums sums =
            same_sums ? (struct data_rank_sums){.micro_batches = own} : sums_of_run(first, own);
        uint32_t kind = 0;
        first += own;
        while (d > 0 && kind < count && !sums_are_equal(&kinds[kind], &sums))
            kind++;
        alike[d] = d > 0 && kind < count ? ranks[kind] : d;
        if (d > 0 && kind == count && count < DATA_RANK_KINDS) {
            kinds[count] = sums;
            ranks[count++] = d;
        }
    }
}

/* ---- nodes ---- */

/* Bytes of the training of the data ranks that others are like: [pipeline][data]. */
static weft_status list_stages(const struct train_config *config, const struct model_description *description,
                               const struct parallel_choice *choice, struct executor_networks *networks,
                               const uint32_t *alike, uint64_t *stages, struct error *error)
{
    const uint32_t data = choice->mesh.extent[MESH_DATA];
    struct executor_memory memory = {0};
    uint64_t largest;
    weft_status status = find_largest_part(config, description, choice, networks, &largest, error);
    for (uint32_t i = 0; status == WEFT_OK && i < choice->mesh.extent[MESH_PIPELINE] * data; i++) {
        const uint32_t point[MESH_AXES] = {[MESH_PIPELINE] = i / data, [MESH_DATA] = i % data};
        if (alike[i % data] < i % data)
            continue;
        status = training_of(config, description, choice, networks, point, &memory, error);
        stages[i] = executor_memory_total(&memory) + copies_of(config, &memory, largest);
    }
    return status;
}

weft_status memory_needs_of_nodes(const struct train_config *config, const struct model_description *description,
                                  const struct parallel_choice *choice, const struct memory_ranks *ranks,
                                  uint64_t *needs, struct error *error)
{
    struct memory_kept own = {0}, *kept = ranks->kept ? ranks->kept : &own;
    const uint32_t nodes = memory_node_count(ranks), data = choice->mesh.extent[MESH_DATA];
    uint32_t *points = malloc(ranks->count * MESH_AXES * sizeof *points), *alike = malloc(data * sizeof *alike),
             *together = malloc(nodes * sizeof *together); /* ranks of each node */
    uint64_t *stages = calloc((size_t)choice->mesh.extent[MESH_PIPELINE] * data, sizeof *stages);
    weft_status status = WEFT_OK;
    if (!points || !alike || !together || !stages)
        status = error_memory(error, ranks->count * MESH_AXES * sizeof *points, "the memory of the ranks");
    if (status == WEFT_OK) {
        memory_alike_data_ranks(choice, alike);
        status = list_stages(config, description, choice, &kept->networks, alike, stages, error);
    }
    if (status == WEFT_OK)
        status = mesh_place(&choice->mesh, &choice->placement, ranks->nodes, points, error);
    memset(needs, 0, nodes * sizeof *needs);
    for (uint32_t node = 0; status == WEFT_OK && node < nodes; node++)
        together[node] = ranks_on_node(ranks, node);
    struct memory_place place = {.scatters = scatters_of(config, description, choice, nodes)};
    for (uint32_t r = 0; status == WEFT_OK && r < ranks->count; r++) {
        place.rank = r;
        place.together = together[ranks->nodes[r]];
        const struct memory_estimate others = surroundings_of(config, description, choice, ranks, &place, kept);
        const uint32_t *point = points + (size_t)r * MESH_AXES;
        needs[ranks->nodes[r]] +=
            stages[point[MESH_PIPELINE] * data + alike[point[MESH_DATA]]] + memory_estimate_total(&others);
    }
    memory_kept_free(&own);
    free(stages);
    free(together);
    free(alike);
    free(points);
    return status;
}

/* ---- the check ---- */

static weft_status estimate_rank(const struct train_config *config, const struct model_description *description,
                                 const struct parallel_choice *choice, const struct memory_ranks *ranks, uint32_t rank,
                                 struct memory_estimate *estimate, struct error *error)
{
    uint32_t *points = malloc(ranks->count * MESH_AXES * sizeof *points);
    if (!points)
        return error_memory(error, ranks->count * MESH_AXES * sizeof *points, "the points of a mesh");
    weft_status status = mesh_place(&choice->mesh, &choice->placement, ranks->nodes, points, error);
    if (status == WEFT_OK)
        status = memory_estimate_of(config, description, choice, ranks, rank, points + (size_t)rank * MESH_AXES,
                                    estimate, error);
    free(points);
    return status;
}

static weft_status memory_refuse(const struct memory_problem *problem, uint32_t rank, uint64_t need,
                                 const struct memory_estimate *estimate, struct error *error)
{
    const struct memory_ranks *ranks = problem->ranks;
    char parts[MEMORY_TEXT_BYTES], remedies[MEMORY_REMEDIES_BYTES];
    uint32_t local = 0;
    for (uint32_t r = 0; r < ranks->count; r++)
        local += ranks->nodes[r] == ranks->nodes[rank];
    memory_remedies(problem, need, ranks->nodes[rank], remedies);
    return error_set(error, WEFT_ERROR_MEMORY,
                     "training needs %.0f MiB of memory for the %u rank%s of this machine (%s), but only %.0f MiB are "
                     "available; try %smore machines or a smaller model",
                     ceil((double)need / MIB), local, local == 1 ? "" : "s", memory_estimate_describe(estimate, parts),
                     floor((double)problem->available / MIB), remedies);
}

weft_status memory_check(const struct train_config *config, const struct model_description *description,
                         const struct parallel_choice *choice, const struct memory_ranks *ranks, uint32_t rank,
                         uint64_t available, struct memory_estimate *estimate, struct error *error)
{
    *estimate = (struct memory_estimate){0};
    if (config->micro_batch > TOKENS_MOST / config->sequence)
        return WEFT_OK;
    const struct memory_problem problem = {config, description, choice, ranks, available};
    uint64_t *needs = calloc(memory_node_count(ranks), sizeof *needs);
    if (!needs)
        return error_memory(error, ranks->count * sizeof *needs, "the memory of the nodes");
    weft_status status = estimate_rank(config, description, choice, ranks, rank, estimate, error);
    if (status == WEFT_OK)
        status = memory_needs_of_nodes(config, description, choice, ranks, needs, error);
    if (status == WEFT_OK && needs[ranks->nodes[rank]] > available)
        status = memory_refuse(&problem, rank, needs[ranks->nodes[rank]], estimate, error);
    free(needs);
    return status;
}

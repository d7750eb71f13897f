/* SPDX-License-Identifier: Apache-2.0 */
#include "training/train/loop/memory.h"

#include "base/text.h"
#include "training/parallel/sharding/canonical_runs.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#define MIB 1048576.0

/* model_open() refuses larger micro-batches. Below it all sizes are within 64 bits. */
#define TOKENS_MOST ((int64_t)1 << 26)

/* Arrays of partial sums: see training/parallel/sharding/gradient_groups.h. */
static uint64_t memory_levels_of(const struct train_config *config, uint32_t rank, uint32_t ranks)
{
    const struct micro_batch_share share =
        micro_batch_run((uint32_t)(config->batch / config->micro_batch), rank, ranks);
    return share.count ? canonical_stack_room(share.first, share.count - 1) : 0;
}

/* Elements of the largest share. */
static uint64_t shard_of(uint64_t elements, uint32_t ranks)
{
    const uint64_t blocks = (elements + DEVICE_SQUARES_BLOCK - 1) / DEVICE_SQUARES_BLOCK;
    const uint64_t shard = (blocks + ranks - 1) / ranks * DEVICE_SQUARES_BLOCK;
    return shard < elements ? shard : elements;
}

/* Transient memory of rank 0: the model that samples. */
static uint64_t first_rank_of(const struct train_config *config, const struct model_description *description,
                              weft_type activations)
{
    const struct model_options reader = {.batch = 1, .sequence = config->shape.context};
    return config->sample ? model_memory(description, WEFT_F32, activations, &reader) : 0;
}

/* Room to copy what this rank writes of a checkpoint: see training/train/state/internal/checkpoint_parts.h. */
static uint64_t checkpoint_memory(const struct train_config *config, uint64_t weights, uint64_t moments, uint32_t rank,
                                  uint32_t ranks)
{
    const uint64_t whole = weights + moments;
    if (whole < config->checkpoint_part)
        return rank == 0 ? whole : 0;
    return whole / ranks;
}

struct memory_estimate memory_estimate_of(const struct train_config *config,
                                          const struct model_description *description, uint32_t rank, uint32_t ranks,
                                          uint32_t nodes)
{
    const uint64_t elements = description->elements, array = elements * sizeof(float);
    const uint64_t arrays = optimizer_has_second_moments(config->optimizer.kind) ? 2 : 1;
    const bool sharded = config->zero > 0 && ranks > 1;
    const weft_type activations = config->mixed ? WEFT_BF16 : WEFT_F32;
    const struct model_options options = {.batch = (size_t)config->micro_batch,
                                          .sequence = (size_t)config->sequence,
                                          .training = true,
                                          .recompute = config->recompute};
    const uint64_t bf16_copy = config->mixed ? elements * weft_type_size(activations) : 0;
    const uint64_t model = model_memory(description, WEFT_F32, activations, &options);
    struct memory_estimate estimate = {
        .weights = array,
        .gradients = description->gradient_elements * sizeof(float) +
                     (config->gradients == WEFT_BF16 ? elements * weft_type_size(WEFT_BF16) : 0),
        .optimizer = arrays * (sharded ? shard_of(elements, ranks) * sizeof(float) : array),
        .partial_sums = memory_levels_of(config, rank, ranks) * array,
        .bf16_copy = bf16_copy,
        .activations = model > bf16_copy ? model - bf16_copy : 0,
        .rest = MEMORY_OF_PROCESS + (nodes > 1 ? MEMORY_OF_NETWORK : 0),
    };
    if (config->checkpoint_dir)
        estimate.checkpoint = checkpoint_memory(config, array, arrays * array, rank, ranks);
    if (rank == 0)
        estimate.first_rank = first_rank_of(config, description, activations);
    return estimate;
}

uint64_t memory_estimate_total(const struct memory_estimate *estimate)
{
    return estimate->weights + estimate->gradients + estimate->optimizer + estimate->partial_sums +
           estimate->bf16_copy + estimate->activations + estimate->checkpoint + estimate->rest + estimate->first_rank;
}

const char *memory_estimate_describe(const struct memory_estimate *estimate, char text[MEMORY_TEXT_BYTES])
{
    const struct {
        const char *name;
        uint64_t bytes;
    } parts[] = {
        {"weights", estimate->weights},        {"gradients", estimate->gradients},
        {"optimizer", estimate->optimizer},    {"partial sums", estimate->partial_sums},
        {"bf16 copy", estimate->bf16_copy},    {"activations", estimate->activations},
        {"checkpoints", estimate->checkpoint}, {"rank 0 (transient)", estimate->first_rank},
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

/* The sum over the ranks of this rank's node. */
static uint64_t need_of_node(const struct train_config *config, const struct model_description *description,
                             const weft_comm *comm)
{
    const uint32_t ranks = (uint32_t)weft_comm_size(comm), nodes = (uint32_t)weft_comm_nodes(comm);
    const uint64_t local = (uint64_t)weft_comm_local_size(comm);
    /* All ranks but rank 0 need the same amount. */
    const struct memory_estimate first = memory_estimate_of(config, description, 0, ranks, nodes),
                                 other = memory_estimate_of(config, description, 1, ranks, nodes);
    if (weft_comm_node_of(comm, 0) != weft_comm_node(comm))
        return local * memory_estimate_total(&other);
    return memory_estimate_total(&first) + (local - 1) * memory_estimate_total(&other);
}

#define REMEDIES_BYTES 256

/* The options that would need less memory, and how much. */
static void tell_remedies(const struct train_config *config, const struct model_description *description,
                          const weft_comm *comm, uint64_t need, char text[REMEDIES_BYTES])
{
    struct train_config remedies[] = {*config, *config, *config, *config};
    static const char *const options[] = {"--micro-batch 1", "--recompute all", "--zero 1", "--precision bf16"};
    const bool shards = config->optimizer.kind == OPTIMIZER_ADAMW || config->optimizer.kind == OPTIMIZER_SGD;
    remedies[0].micro_batch = 1;
    remedies[1].recompute = MODEL_RECOMPUTE_ALL;
    remedies[2].zero = shards ? 1 : config->zero;
    remedies[3].mixed = true;
    int used = 0;
    text[0] = '\0';
    for (size_t i = 0; i < ARRAY_SIZE(remedies); i++) {
        const uint64_t lessened = need_of_node(&remedies[i], description, comm);
        char bytes[32];
        if (lessened < need - need / 100)
            used += snprintf(text + used, REMEDIES_BYTES - (size_t)used, "%s (%s), ", options[i],
                             text_bytes(lessened, bytes, sizeof bytes));
    }
}

weft_status memory_check(const struct train_config *config, const struct model_description *description,
                         const weft_comm *comm, uint64_t available, struct error *error)
{
    if (config->micro_batch > TOKENS_MOST / config->sequence)
        return WEFT_OK;
    const uint64_t need = need_of_node(config, description, comm);
    if (need <= available)
        return WEFT_OK;
    const int local = weft_comm_local_size(comm);
    const struct memory_estimate estimate =
        memory_estimate_of(config, description, 0, (uint32_t)weft_comm_size(comm), (uint32_t)weft_comm_nodes(comm));
    char parts[MEMORY_TEXT_BYTES], remedies[REMEDIES_BYTES];
    tell_remedies(config, description, comm, need, remedies);
    return error_set(error, WEFT_ERROR_MEMORY,
                     "training needs %.0f MiB of memory for the %d rank%s of this machine (%s), but only %.0f MiB are "
                     "available; try %smore machines or a smaller model",
                     ceil((double)need / MIB), local, local == 1 ? "" : "s", memory_estimate_describe(&estimate, parts),
                     floor((double)available / MIB), remedies);
}

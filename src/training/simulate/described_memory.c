/* SPDX-License-Identifier: Apache-2.0 */
#include "training/simulate/described_memory.h"

#include "training/model/tensor_group.h"

#include <string.h>

static double memory_larger(double a, double b)
{
    return a > b ? a : b;
}

/* What a layer keeps for a micro-batch. */
struct layer_kept {
    double input; /* the rows that enter */
    double rest;  /* within the layer, all of it */
    double core;  /* of this, scores: what recomputing attention's core drops */
};

static struct model_layer facts_of(const struct described_stage *stage, size_t layer)
{
    const struct work_settings *settings = stage->settings;
    const struct tensor_group group = {.ranks = stage->description->tensor_ranks,
                                       .divides_rows = settings->divides_rows};
    const struct model_options options = {.batch = settings->batch,
                                          .sequence = settings->sequence,
                                          .training = true,
                                          .slots = 1,
                                          .tensor = group.ranks > 1 ? &group : NULL};
    struct model_layer facts;
    model_get_layer(stage->description, layer, settings->implementation->type, settings->implementation->activations,
                    &options, &facts);
    return facts;
}

static struct layer_kept kept_of(const struct described_stage *stage, size_t layer)
{
    const struct work_settings *settings = stage->settings;
    const struct implementation *implementation = settings->implementation;
    const struct model_shape *shape = &stage->description->shape;
    const struct model_layer facts = facts_of(stage, layer);
    const double rows = (double)(settings->batch * settings->sequence),
                 ranks = (double)stage->description->tensor_ranks, part = settings->divides_rows ? ranks : 1,
                 element = (double)weft_type_size(implementation->type),
                 activation = (double)weft_type_size(implementation->activations),
                 width = layer ? (double)facts_of(stage, layer - 1).width : 0;
    struct layer_kept kept = {.input = rows * width / part * element, .rest = (double)facts.kept};
    if (implementation->gathers_again && width > 0)
        kept.rest -= rows * width * (1 - 1 / part) * activation;
    if (settings->dropout > 0 && facts.width)
        kept.rest += rows * (double)facts.width / part;
    if (implementation->stores_scores && !strcmp(facts.kind, "attention")) {
        const double scores = rows * (double)settings->sequence * (double)shape->heads / ranks;
        kept.core = scores * (activation + (implementation->score_dropout > 0 ? 1 + activation : 0));
        kept.rest += kept.core;
    }
    return kept;
}

/* Parameters of the stage; a tied table counts where its first user is, and again where another stage has the other. */
static double elements_of(const struct described_stage *stage)
{
    const struct model_description *description = stage->description;
    double elements = 0;
    for (size_t i = stage->first_layer; i < stage->layer_end; i++)
        elements += (double)facts_of(stage, i).weights;
    if (description->tied != NO_PARAMETER && stage->first_layer > 0 && stage->layer_end == description->layer_count)
        elements += (double)description->parameters[description->tied].count;
    return elements;
}

static void add_activations(const struct described_stage *stage, struct described_memory *memory)
{
    const struct model_description *description = stage->description;
    const struct work_settings *settings = stage->settings;
    const struct implementation *implementation = settings->implementation;
    const size_t layers = implementation->layers_of_checkpoint;
    double kept = 0, largest = 0, open = 0;
    for (size_t i = stage->first_layer; i < stage->layer_end; i++) {
        const struct layer_kept layer = kept_of(stage, i);
        const bool is_block = i > 0 && i + 1 < description->layer_count;
        if (settings->recompute == MODEL_RECOMPUTE_NOTHING || !is_block) {
            kept += layer.input + layer.rest;
        } else if (settings->recompute == MODEL_RECOMPUTE_ATTENTION) {
            const bool is_attention = !strcmp(model_layer_kind(description, i), "attention");
            const double dropped = !is_attention ? 0 : implementation->recomputes_core_only ? layer.core : layer.rest;
            kept += layer.input + layer.rest - dropped;
            largest = memory_larger(largest, dropped);
        } else {
            const bool begins = (i - 1) % layers == 0;
            kept += begins ? layer.input : 0;
            open = (begins ? 0 : open) + layer.input + layer.rest;
            largest = memory_larger(largest, open);
        }
    }
    if (implementation->keeps_outputs && stage->layer_end < description->layer_count)
        kept += kept_of(stage, stage->layer_end).input;
    memory->activations = kept * stage->under_way;
    memory->working = largest + 2 * (double)(settings->batch * settings->sequence * description->widest) *
                                    (double)weft_type_size(implementation->type);
    if (stage->layer_end == description->layer_count)
        memory->working += (double)(settings->batch * settings->sequence * description->shape.vocabulary) /
                           (double)description->tensor_ranks * implementation->logit_bytes;
}

struct described_memory described_memory_of(const struct described_stage *stage)
{
    const struct implementation *implementation = stage->settings->implementation;
    const double elements = elements_of(stage), data = (double)stage->data;
    struct described_memory memory = {
        .weights = elements * implementation->weight_bytes / (stage->zero >= 3 ? data : 1),
        .gradients = elements * implementation->gradient_bytes / (stage->zero >= 2 ? data : 1),
        .optimizer = elements * implementation->optimizer_bytes / (stage->zero >= 1 ? data : 1),
        .runtime = implementation->runtime_bytes,
    };
    add_activations(stage, &memory);
    return memory;
}

double described_memory_total(const struct described_memory *memory)
{
    return memory->weights + memory->gradients + memory->optimizer + memory->activations + memory->working +
           memory->runtime;
}

double described_under_way(uint32_t pipeline, uint32_t rank, uint32_t turns, uint32_t micro_batches)
{
    const double follow = pipeline - rank,
                 chunks = turns > 1 ? 2 * (follow - 1) + (double)(turns - 1) * pipeline + 1 : follow,
                 most = (double)micro_batches * turns;
    return (chunks < most ? chunks : most) / turns;
}

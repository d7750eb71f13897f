/* SPDX-License-Identifier: Apache-2.0 */
#include "training/plan/configure.h"

void strategy_configure(const struct strategy *strategy, struct strategy_words *words, struct train_config *config)
{
    config->mesh = mesh_print(&strategy->mesh, words->mesh);
    config->placement = mesh_placement_print(&strategy->placement, words->placement);
    config->micro_batch = strategy->micro_batch;
    config->recompute = strategy->recompute;
    config->activations = strategy->precision;
    config->sequence_parallel = strategy->sequence_parallel;
    config->zero = strategy->zero;
    config->schedule = strategy->schedule;
    config->stages = strategy->stages;
    config->bucket_bytes = strategy->bucket_bytes;
    config->parameter_server = false;
    config->first_unit = NULL;
}

struct strategy strategy_of(const struct train_config *config, const struct parallel_choice *choice)
{
    return (struct strategy){
        .mesh = choice->mesh,
        .placement = choice->placement,
        .micro_batch = (uint32_t)config->micro_batch,
        .recompute = config->recompute,
        .precision = config->activations,
        .sequence_parallel = config->sequence_parallel && choice->mesh.extent[MESH_TENSOR] > 1,
        .zero = choice->zero,
        .schedule = choice->schedule,
        .stages = choice->stages / choice->mesh.extent[MESH_PIPELINE],
        .bucket_bytes = config->bucket_bytes,
    };
}

/* SPDX-License-Identifier: Apache-2.0 */
#include "training/simulate/implementation.h"

#include "base/array.h"
#include "base/text.h"

#include <stdio.h>
#include <string.h>

/*
 * Bytes for each parameter. Weft adds a micro-batch's gradients to an array of sums (3 x 4); what its optimizers move is in
 * optimizer_traffic_of(), and its moments are AdamW's here.
 *
 * Megatron-LM in f16 (Micikevicius et al. 2018; Rajbhandari et al. 2020, section 3): weights and gradients of 2 bytes, a
 * master copy and two moments in f32, and gradients cast to f32 for the step. Its update casts (2 + 4), reads for the norm
 * (4), steps (7 x 4) and casts back (4 + 2). Since 2022 gradients are summed in f32 by the products themselves
 * (Korthikanti et al. 2022 measure that version). DeepSpeed's ZeRO-1 also keeps a rank's part of the gradients in f32, and
 * by default has two buckets of 5e8 gradients and one of as many weights, 1 GB each.
 *
 * runtime_bytes, besides those buckets: CUDA context, cuBLAS workspaces, NCCL's buffers of three communicators, and
 * fragments of PyTorch's allocator, 5 GB together. That is an estimate.
 *
 * launches: PyTorch composes casts, transposed copies, masks and additions of biases from kernels of their own, about 40 for
 * the forward pass of a block, where Weft has 13.
 */
#define WEFT_COMMON                                                                                                    \
    .launches = 1, .layers_of_checkpoint = 1, .runnable = true, .type = WEFT_F32, .gradient_bytes = 4,                 \
    .gradient_wire_bytes = 4, .optimizer_bytes = 8, .accumulation_bytes = 12, .skips_masked = true,                    \
    .overlaps_reductions = true, .overlaps_sharing = true, .overlaps_pipeline = true
#define MEGATRON_COMMON                                                                                                \
    .precision = CLUSTER_F16, .type = WEFT_F16, .activations = WEFT_F16, .launches = 3, .layers_of_checkpoint = 2,     \
    .logit_bytes = 8, .gathers_again = true, .stores_scores = true, .score_dropout = 0.1,                              \
    .recomputes_core_only = true, .recomputes_outputs = true, .scatters_messages = true, .weight_bytes = 2,            \
    .update_traffic_bytes = 44

static const struct implementation table[] = {
    {.name = "weft",
     .about = "weft train in f32",
     .precision = CLUSTER_F32,
     .activations = WEFT_F32,
     .weight_bytes = 4,
     WEFT_COMMON},
    {.name = "weft-bf16",
     .about = "weft train with activations in bf16",
     .precision = CLUSTER_BF16,
     .activations = WEFT_BF16,
     .weight_bytes = 6,
     WEFT_COMMON},
    {.name = "weft-f16",
     .about = "weft train with activations in f16",
     .precision = CLUSTER_F16,
     .activations = WEFT_F16,
     .weight_bytes = 6,
     WEFT_COMMON},
    {.name = "megatron-2021",
     .about = "Megatron-LM as of 2021, f16",
     .gradient_bytes = 2,
     .gradient_wire_bytes = 2,
     .accumulation_bytes = 6,
     .optimizer_bytes = 12,
     .runtime_bytes = 5e9,
     .keeps_outputs = true,
     MEGATRON_COMMON},
    {.name = "megatron-deepspeed",
     .about = "Megatron-DeepSpeed as of 2022, f16",
     .gradient_bytes = 2,
     .gradient_wire_bytes = 2,
     .accumulation_bytes = 6,
     .optimizer_bytes = 16,
     .runtime_bytes = 8e9,
     .keeps_outputs = true,
     MEGATRON_COMMON},
    {.name = "megatron-2022",
     .about = "Megatron-LM as of 2022, gradients summed in f32",
     .gradient_bytes = 4,
     .gradient_wire_bytes = 4,
     .accumulation_bytes = 0,
     .optimizer_bytes = 12,
     .runtime_bytes = 5e9,
     MEGATRON_COMMON},
};

const struct implementation *implementation_weft(enum cluster_precision precision)
{
    return &table[precision];
}

weft_status implementation_find(const char *name, const struct implementation **implementation, struct error *error)
{
    const char *names[ARRAY_SIZE(table)];
    char list[256] = "";
    for (size_t i = 0; i < ARRAY_SIZE(table); i++) {
        if (!strcmp(table[i].name, name)) {
            *implementation = &table[i];
            return WEFT_OK;
        }
        names[i] = table[i].name;
        const size_t used = strlen(list);
        snprintf(list + used, sizeof list - used, "%s%s", i ? ", " : "", table[i].name);
    }
    const char *nearest = text_nearest(name, names, ARRAY_SIZE(table));
    return error_set(error, WEFT_ERROR_ARGUMENT, "no implementation is called '%s'%s%s%s; there are %s", name,
                     nearest ? ", did you mean '" : "", nearest ? nearest : "", nearest ? "'?" : "", list);
}

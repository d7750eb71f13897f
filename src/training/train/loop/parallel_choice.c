/* SPDX-License-Identifier: Apache-2.0 */
#include "training/train/loop/parallel_choice.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

/* ---- checks ---- */

static weft_status check_batch(const struct train_config *config, struct error *error)
{
    if (config->batch % config->micro_batch)
        return error_set(error, WEFT_ERROR_ARGUMENT,
                         "--batch %" PRId64 " cannot be divided into micro-batches of %" PRId64
                         " sequences; choose a multiple of --micro-batch",
                         config->batch, config->micro_batch);
    if (config->batch / config->micro_batch > INT32_MAX)
        return error_set(error, WEFT_ERROR_ARGUMENT, "--batch %" PRId64 " has more than 2^31 micro-batches",
                         config->batch);
    return WEFT_OK;
}

static weft_status check_zero(const struct train_config *config, struct error *error)
{
    if (config->zero && config->parameter_server)
        return error_set(error, WEFT_ERROR_ARGUMENT,
                         "--parameter-server keeps all optimizer state on one rank, and --zero %" PRId64
                         " divides it; use one of them",
                         config->zero);
    if (config->verify_every && config->zero == 3)
        return error_set(error, WEFT_ERROR_ARGUMENT,
                         "--verify-every compares replicated state, and --zero 3 replicates none; use one of them");
    return WEFT_OK;
}

static weft_status check_recomputation(const struct train_config *config, struct error *error)
{
    if (config->recompute_layers && config->recompute == MODEL_RECOMPUTE_NOTHING)
        return error_set(error, WEFT_ERROR_ARGUMENT,
                         "--recompute-layers %" PRId64 " does not say what is recomputed in them: give --recompute "
                         "attention or --recompute all",
                         config->recompute_layers);
    return WEFT_OK;
}

static weft_status check_micro_batches(const struct train_config *config, const struct parallel_choice *choice,
                                       struct error *error)
{
    const uint32_t data = choice->mesh.extent[MESH_DATA], pipeline = choice->mesh.extent[MESH_PIPELINE];
    const uint32_t rounds = (choice->micro_batches + data - 1) / data;
    if (choice->micro_batches < data)
        return error_set(error, WEFT_ERROR_ARGUMENT,
                         "a global batch of %u micro-batch%s is too small for %u ranks, which need one each; use a "
                         "larger --batch, a smaller --micro-batch or fewer ranks",
                         choice->micro_batches, choice->micro_batches == 1 ? "" : "es", data);
    if (choice->schedule == STEP_INTERLEAVED && pipeline > 1 && rounds % pipeline)
        return error_set(
            error, WEFT_ERROR_ARGUMENT,
            "--pipeline-schedule interleaved needs a multiple of %u micro-batches on each rank of the data "
            "axis, not %u; use --batch %" PRIu64 ", or another schedule",
            pipeline, rounds,
            (uint64_t)((rounds + pipeline - 1) / pipeline) * pipeline * data * (uint64_t)config->micro_batch);
    return WEFT_OK;
}

static weft_status check_tensor(const struct train_config *config, const struct model_description *description,
                                const struct parallel_choice *choice, struct error *error)
{
    const uint32_t tensor = choice->mesh.extent[MESH_TENSOR];
    struct model_description *divided;
    if (config->sequence_parallel && tensor == 1)
        return error_set(error, WEFT_ERROR_ARGUMENT,
                         "--sequence-parallel divides rows over the ranks of a tensor axis, and there is one; give "
                         "--mesh tensor=N");
    if (tensor == 1)
        return WEFT_OK;
    if (config->sequence_parallel && config->micro_batch * config->sequence % tensor)
        return error_set(error, WEFT_ERROR_ARGUMENT,
                         "--sequence-parallel divides the %" PRId64
                         " tokens of a micro-batch over %u ranks of the tensor "
                         "axis; choose --sequence or --micro-batch so that it is possible",
                         config->micro_batch * config->sequence, tensor);
    weft_status status = model_description_copy(description, &divided, error);
    if (status != WEFT_OK)
        return status;
    status = model_divide(divided, tensor, 0, error);
    model_description_free(divided);
    return status;
}

static weft_status check_batch_norms(const struct train_config *config, const struct model_description *description,
                                     const struct parallel_choice *choice, struct error *error)
{
    const struct executor_config executor = parallel_choice_executor(config, choice);
    for (size_t i = 0; i < description->parameter_count; i++)
        if (description->parameters[i].statistic)
            return executor_check_config(&executor, error);
    return error_set(
        error, WEFT_ERROR_ARGUMENT,
        "--sync-batch-norm is for networks with batch norms, and a network of kind '%s' has none; leave it out",
        description->shape.kind);
}

static weft_status choose_stages(const struct train_config *config, const struct model_description *description,
                                 struct parallel_choice *choice, struct error *error)
{
    const uint32_t pipeline = choice->mesh.extent[MESH_PIPELINE], layers = (uint32_t)description->layer_count;
    const uint32_t each = config->stages ? (uint32_t)config->stages : choice->schedule == STEP_INTERLEAVED ? 2 : 1;
    if (pipeline == 1) {
        choice->stages = 1;
        choice->schedule = STEP_1F1B;
        return WEFT_OK;
    }
    choice->stages = pipeline * each;
    if (each > 1 && choice->schedule != STEP_INTERLEAVED)
        return error_set(error, WEFT_ERROR_ARGUMENT,
                         "--stages-per-rank %u needs --pipeline-schedule interleaved; %s has one stage on each rank",
                         each, step_pipeline_name(choice->schedule));
    if (choice->stages > layers)
        return error_set(
            error, WEFT_ERROR_ARGUMENT,
            "a pipeline of %u ranks with %u stage%s each needs %u layers, but the network has %u (each block "
            "counts two, embedding and head one each); use at most pipeline=%u",
            pipeline, each, each == 1 ? "" : "s", choice->stages, layers, layers / each);
    return WEFT_OK;
}

weft_status parallel_choice_of(const struct train_config *config, const struct model_description *description,
                               uint32_t ranks, struct parallel_choice *choice, struct error *error)
{
    *choice = (struct parallel_choice){.schedule = config->schedule,
                                       .zero = config->parameter_server ? 1 : (uint32_t)config->zero,
                                       .central = config->parameter_server,
                                       .micro_batches = (uint32_t)(config->batch / config->micro_batch)};
    weft_status status = check_batch(config, error);
    if (status == WEFT_OK)
        status = mesh_parse(config->mesh, ranks, &choice->mesh, error);
    if (status == WEFT_OK)
        status = check_zero(config, error);
    if (status == WEFT_OK)
        status = check_recomputation(config, error);
    if (status == WEFT_OK)
        status = check_tensor(config, description, choice, error);
    if (status == WEFT_OK)
        status = choose_stages(config, description, choice, error);
    if (status == WEFT_OK)
        status = check_micro_batches(config, choice, error);
    if (status == WEFT_OK && config->first_unit && config->unit_stages == choice->stages)
        choice->first_unit = config->first_unit;
    if (status == WEFT_OK && config->shares && config->share_ranks == choice->mesh.extent[MESH_DATA])
        choice->shares = config->shares;
    if (status == WEFT_OK && config->sync_batch_norm)
        status = check_batch_norms(config, description, choice, error);
    if (status == WEFT_OK && choice->mesh.extent[MESH_DATA] == 1)
        choice->zero = 0; /* there is nobody to divide with */
    return status;
}

/* ---- placement ---- */

/* Bytes that a rank sends along each axis in a step. */
static void bytes_of_axes(const struct train_config *config, const struct model_description *description,
                          const struct parallel_choice *choice, double bytes[MESH_AXES])
{
    const double rows = (double)config->micro_batch * (double)config->sequence * (double)description->widest * 4,
                 share = (double)choice->micro_batches / choice->mesh.extent[MESH_DATA];
    const double weights = (double)description->weights / choice->mesh.extent[MESH_PIPELINE] /
                           choice->mesh.extent[MESH_TENSOR] * (double)weft_type_size(config->gradients);
    bytes[MESH_DATA] = weights * (choice->zero >= 2 ? share : 1) * (choice->zero == 3 ? 3 : 2);
    bytes[MESH_PIPELINE] = 2 * rows * share * (choice->stages / choice->mesh.extent[MESH_PIPELINE]);
    bytes[MESH_TENSOR] = 2 * rows * share * 2 * (double)description->layer_count;
}

weft_status parallel_choice_place(const struct train_config *config, const struct model_description *description,
                                  const uint32_t *nodes, struct parallel_choice *choice, struct error *error)
{
    double bytes[MESH_AXES];
    if (config->placement)
        return mesh_placement_parse(config->placement, &choice->placement, error);
    bytes_of_axes(config, description, choice, bytes);
    return mesh_placement_choose(&choice->mesh, nodes, bytes, &choice->placement, error);
}

/* ---- the executor ---- */

struct executor_config parallel_choice_executor(const struct train_config *config, const struct parallel_choice *choice)
{
    return (struct executor_config){
        .model = {.batch = (size_t)config->micro_batch,
                  .sequence = (size_t)config->sequence,
                  .recompute = config->recompute,
                  .recompute_layers = (uint32_t)config->recompute_layers,
                  .label_smoothing = config->label_smoothing,
                  .dropout = config->dropout},
        .optimizer = config->optimizer,
        .clip = config->clip,
        .mesh = choice->mesh,
        .placement = choice->placement,
        .schedule = choice->schedule,
        .stages = choice->stages,
        .costs = choice->costs,
        .first_unit = choice->first_unit,
        .sync_batch_norm = config->sync_batch_norm,
        .zero = choice->zero,
        .central = choice->central,
        .sequence_parallel = config->sequence_parallel && choice->mesh.extent[MESH_TENSOR] > 1,
        .micro_batches = choice->micro_batches,
        .shares = choice->shares,
        .gradients = config->gradients,
        .bucket_bytes = config->bucket_bytes,
    };
}

/* ---- copies ---- */

bool parallel_choice_needs_copies(const struct train_config *config, const struct parallel_choice *choice)
{
    const struct executor_config executor = parallel_choice_executor(config, choice);
    return config->min_ranks && config->copy_every && mesh_ranks(&choice->mesh) > 1 &&
           (!executor_updates_alone(&executor) || choice->mesh.extent[MESH_DATA] == 1);
}

/* ---- text ---- */

const char *parallel_choice_describe(const struct parallel_choice *choice, char text[PARALLEL_CHOICE_TEXT_BYTES])
{
    const uint32_t ranks = mesh_ranks(&choice->mesh);
    char mesh[MESH_TEXT_BYTES], zero[32] = "", pipeline[64] = "";
    if (choice->zero)
        snprintf(zero, sizeof zero, "ZeRO-%u", choice->zero);
    if (choice->zero && choice->central)
        snprintf(zero, sizeof zero, "parameter server");
    if (choice->mesh.extent[MESH_DATA] == ranks) {
        snprintf(text, PARALLEL_CHOICE_TEXT_BYTES, "data parallel over %u rank%s%s%s", ranks, ranks == 1 ? "" : "s",
                 *zero ? ", " : "", zero);
        return text;
    }
    if (choice->mesh.extent[MESH_PIPELINE] > 1)
        snprintf(pipeline, sizeof pipeline, "%s, %u stages", step_pipeline_name(choice->schedule), choice->stages);
    snprintf(text, PARALLEL_CHOICE_TEXT_BYTES, "%s over %u ranks%s%s%s%s%s", mesh_print(&choice->mesh, mesh), ranks,
             *pipeline || *zero ? " (" : "", pipeline, *pipeline && *zero ? ", " : "", zero,
             *pipeline || *zero ? ")" : "");
    return text;
}

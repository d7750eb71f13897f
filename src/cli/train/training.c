/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/train/training.h"

#include "base/file/address_space.h"
#include "training/model/file/model_file.h"
#include "training/parallel/mesh/mesh.h"
#include "training/train/state/pretrained.h"

#include <inttypes.h>
#include <malloc.h>
#include <math.h>
#include <string.h>
#include <sys/resource.h>

const char *const training_precisions[] = {"f32", "bf16", "f16", NULL};

const char *const training_gradients[] = {"f32", "bf16", NULL};

const char *const training_corrupt[] = {"refuse", "skip", NULL};

const char *const training_tasks[] = {"pretrain", "classify", NULL};

void training_shape_for_task(bool classify, struct model_shape *shape)
{
    if (model_samples_of(shape) == SAMPLES_OF_TEXTS)
        shape->classes = !classify ? 0 : shape->classes ? shape->classes : 2;
}

weft_status training_planned_shape(const char *from, const char *task, struct train_config *config, struct error *error)
{
    const bool classify = cli_choice_index(task, training_tasks) == 1;
    struct pretrained *pretrained = NULL;
    weft_status status = WEFT_OK;
    if (!config->model && !from)
        config->model = "gpt";
    if (from)
        status = pretrained_open(from, &pretrained, error);
    if (status == WEFT_OK)
        status = training_shape_of(from, config->model, pretrained ? pretrained_shape(pretrained) : NULL,
                                   &config->shape, error);
    pretrained_close(pretrained);
    if (status != WEFT_OK)
        return status;
    if (!config->model)
        config->model = config->shape.kind;
    if (classify && model_samples_of(&config->shape) != SAMPLES_OF_TEXTS)
        return error_set(error, WEFT_ERROR_ARGUMENT, "--task classify is for a bert, and '%s' is a %s; leave it out",
                         config->model, config->shape.kind);
    training_shape_for_task(classify, &config->shape);
    return WEFT_OK;
}

weft_type training_type_of(const char *precision)
{
    static const weft_type types[] = {WEFT_F32, WEFT_BF16, WEFT_F16};
    return types[cli_choice_index(precision, training_precisions)];
}

void training_recompute_apply(const struct training_recompute *recompute, struct train_config *config)
{
    config->recompute = recompute->what ? (enum model_recompute)cli_choice_index(recompute->what, model_recompute_names)
                                        : MODEL_RECOMPUTE_NOTHING;
    config->recompute_layers = recompute->layers;
}

void training_mesh_apply(const struct training_mesh *mesh, struct train_config *config)
{
    config->mesh = mesh->axes;
    config->placement = mesh->placement;
    config->schedule =
        mesh->schedule ? (enum step_pipeline)cli_choice_index(mesh->schedule, step_pipeline_names) : STEP_1F1B;
    config->stages = mesh->stages;
    config->zero = mesh->zero;
    config->sequence_parallel = mesh->sequence_parallel;
    config->gradients = mesh->gradients ? training_type_of(mesh->gradients) : WEFT_F32;
}

/* The largest micro-batch that gives each rank of the data axis one. */
static weft_status choose_micro_batch(const struct training_measure *measure, uint32_t ranks, int64_t *micro_batch,
                                      struct error *error)
{
    struct mesh mesh;
    weft_status status = mesh_parse(measure->mesh.axes, ranks, &mesh, error);
    if (status != WEFT_OK)
        return status;
    *micro_batch = measure->batch / mesh.extent[MESH_DATA];
    if (measure->batch % mesh.extent[MESH_DATA])
        return error_set(error, WEFT_ERROR_ARGUMENT,
                         "--batch %" PRId64 " cannot be divided among %u ranks of the data axis; choose a multiple, or "
                         "give --micro-batch",
                         measure->batch, mesh.extent[MESH_DATA]);
    return WEFT_OK;
}

static weft_status training_measure_config(const struct training_measure *measure, int ranks,
                                           struct train_config *config, struct error *error)
{
    *config = (struct train_config){
        .model = measure->model,
        .data = "random",
        .steps = measure->warm + measure->steps,
        .batch = measure->batch,
        .micro_batch = measure->micro_batch,
        .sequence = measure->sequence,
        .seed = 1,
        .rate = 1e-4,
        .floor_share = 1,
        .optimizer = {.kind = OPTIMIZER_ADAMW,
                      .beta1 = 0.9,
                      .beta2 = 0.95,
                      .epsilon = 1e-8,
                      .momentum = 0.9,
                      .trust = 1e-3,
                      .weight_decay = 0.1},
        .clip = 1,
        .bucket_bytes = measure->bucket_bytes ? measure->bucket_bytes : 4u << 20,
        .threads = measure->threads,
        .activations = training_type_of(measure->precision),
        .dropout = measure->dropout,
        .profile = measure->profile,
        .observe = measure->observe,
        .observer = measure->observer,
    };
    training_mesh_apply(&measure->mesh, config);
    training_recompute_apply(&measure->recompute, config);
    weft_status status = WEFT_OK;
    if (!measure->micro_batch)
        status = choose_micro_batch(measure, (uint32_t)ranks, &config->micro_batch, error);
    return status == WEFT_OK ? model_shape_load(measure->model, &config->shape, error) : status;
}

static weft_status training_measure_steps(const struct train_config *config, weft_context *context,
                                          training_measure_report *report, FILE *output, bool *speaks,
                                          struct error *error)
{
    struct trainer *trainer = NULL;
    weft_status status = trainer_open(config, context, weft_world(context), NULL, NULL, &trainer, speaks, error);
    if (status != WEFT_OK)
        return status;
    struct device *device = trainer_device(trainer);
    const double peak = device->peak(device);
    status = trainer_run(trainer, speaks, error);
    if (status == WEFT_OK) /* something else may have had a core while one of the peaks was measured */
        status = report(trainer, config, context, fmax(peak, device->peak(device)), output, error);
    trainer_close(trainer);
    return status;
}

weft_status training_measure_run(struct command_call *call, const struct training_measure *measure,
                                 training_measure_report *report, struct error *error)
{
    weft_context *context;
    struct train_config config;
    bool speaks = true;
    training_prepare_process();
    weft_status status = command_check(NULL, weft_init(NULL, &context), error);
    if (status != WEFT_OK)
        return status;
    weft_comm *world = weft_world(context);
    status = agreement_reach(context, world, training_measure_config(measure, weft_comm_size(world), &config, error),
                             error, &speaks);
    if (status == WEFT_OK && measure->prepare)
        status = measure->prepare(measure->observer, &config, context, &speaks, error);
    if (status == WEFT_OK)
        status = training_measure_steps(&config, context, report, call->output, &speaks, error);
    return training_leave(call, context, status, speaks, error);
}

weft_status training_shape_of(const char *from, const char *name, const struct model_shape *known,
                              struct model_shape *shape, struct error *error)
{
    if (name)
        return model_shape_load(name, shape, error);
    if (!known)
        return error_set(error, WEFT_ERROR_ARGUMENT,
                         "nothing says what model the weights in '%s' are of: there is no config.json beside them; "
                         "give --model",
                         from);
    *shape = *known;
    return WEFT_OK;
}

weft_status training_leave(struct command_call *call, weft_context *context, weft_status status, bool speaks,
                           struct error *error)
{
    weft_status end = weft_finalize(context);
    if (status == WEFT_OK && end != WEFT_OK)
        return error_set(error, end, "%s", weft_message(NULL));
    if (status != WEFT_OK && !speaks) {
        call->exit_code = 1;
        return WEFT_OK;
    }
    return status;
}

void training_prepare_process(void)
{
    struct rlimit files;
    if (getrlimit(RLIMIT_NOFILE, &files) == 0) {
        files.rlim_cur = files.rlim_max;
        setrlimit(RLIMIT_NOFILE, &files);
    }
    if (address_space_is_limited())
        mallopt(M_ARENA_MAX, 1);
}

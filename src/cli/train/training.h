/* SPDX-License-Identifier: Apache-2.0 */
/** Options and steps that the commands that train share. */
#ifndef WEFT_CLI_TRAIN_TRAINING_H
#define WEFT_CLI_TRAIN_TRAINING_H

#include "cli/frame/command.h"
#include "training/train/loop/trainer.h"
#include "training/train/state/config.h"

/** "f32", "bf16", "f16": choices of --precision. */
extern const char *const training_precisions[];

/** Of them, the choices of --gradients. */
extern const char *const training_gradients[];

/** "refuse", "skip": choices of --corrupt. */
extern const char *const training_corrupt[];

/** "pretrain", "classify": choices of --task. */
extern const char *const training_tasks[];

/**
 * Give a bert the head of its task before data says how many classes there are: to pre-train none, to classify its own or
 * two. Other kinds stay as they are.
 */
void training_shape_for_task(bool classify, struct model_shape *shape);

/**
 * The shape of a network that is planned for without data: that of --from's weights (NULL: none), or of config->model,
 * "gpt" if that is NULL, with the head of the task. Sets config->model where it is NULL, and config->shape. Errors: those of
 * pretrained_open() and training_shape_of(); ARGUMENT where only a bert can classify.
 */
weft_status training_planned_shape(const char *from, const char *task, struct train_config *config,
                                   struct error *error);

/** Options of such a shape, into static variables. */
#define TRAINING_PLANNED_OPTIONS(model, from, task)                                                                    \
    CLI_TEXT("model", 'm', "NAME", &(model), NULL, "a model size by name, or a YAML file",                             \
             .default_text = "gpt, or the model of --from"),                                                           \
        CLI_TEXT("from", 0, "PATH", &(from), NULL, "the model of these weights: a checkpoint, or public weights"),     \
        CLI_CHOICE("task", 0, "NAME", &(task), "pretrain", training_tasks,                                             \
                   "bert: the head of pre-training, or that of a classifier")

/** The type of this name, one of training_precisions. */
weft_type training_type_of(const char *precision);

/** How steps are spread over ranks: values of TRAINING_MESH_OPTIONS. */
struct training_mesh {
    const char *axes, *placement; /**< NULL: the default */
    const char *schedule;         /**< of step_pipeline_names; NULL: 1F1B */
    const char *gradients;        /**< of training_gradients; NULL: f32 */
    int64_t zero, stages;
    bool sequence_parallel;
};

/** Options that spread steps over ranks, into a static struct training_mesh. */
#define TRAINING_MESH_OPTIONS(chosen_mesh)                                                                             \
    CLI_TEXT("mesh", 0, "AXES", &(chosen_mesh).axes, NULL,                                                             \
             "axes and their ranks ('data=2,pipeline=2,tensor=2'); one number may be 'auto'",                          \
             .default_text = "all ranks are data"),                                                                    \
        CLI_INTEGER("zero", 0, "STAGE", &(chosen_mesh).zero, "0", 0, 3,                                                \
                    "divide among the ranks of the data axis: 1: the optimizer's state; 2: and gradients; 3: and "     \
                    "weights (ZeRO)"),                                                                                 \
        CLI_FLAG("sequence-parallel", 0, &(chosen_mesh).sequence_parallel,                                             \
                 "on a tensor axis: divide the rows between layers, too", .advanced = true),                           \
        CLI_CHOICE("pipeline-schedule", 0, "NAME", &(chosen_mesh).schedule, "1f1b", step_pipeline_names,               \
                   "order in which a pipeline computes", .advanced = true),                                            \
        CLI_INTEGER("stages-per-rank", 0, "N", &(chosen_mesh).stages, "0", 0, 64, "pipeline stages on each rank",      \
                    .default_text = "2 with interleaved, otherwise 1", .advanced = true),                              \
        CLI_TEXT("placement", 0, "AXES", &(chosen_mesh).placement, NULL,                                               \
                 "axes from the closest neighbors to the farthest ('tensor,data,pipeline')",                           \
                 .default_text = "the fewest bytes between nodes", .advanced = true),                                  \
        CLI_CHOICE("gradients", 0, "TYPE", &(chosen_mesh).gradients, "f32", training_gradients,                        \
                   "type in which gradients are summed; bf16 rounds every sum and sends half the bytes",               \
                   .advanced = true)

/** Put the values of such options into a configuration. */
void training_mesh_apply(const struct training_mesh *mesh, struct train_config *config);

/** What the backward pass computes again: values of TRAINING_RECOMPUTE_OPTIONS. */
struct training_recompute {
    const char *what; /**< of model_recompute_names; NULL: nothing */
    int64_t layers;   /**< 0: all that this means */
};

/** Options of recomputation, into a static struct training_recompute. */
#define TRAINING_RECOMPUTE_OPTIONS(chosen_recompute)                                                                   \
    CLI_CHOICE("recompute", 0, "WHAT", &(chosen_recompute).what, "nothing", model_recompute_names,                     \
               "what the backward pass computes again instead of keeping: less memory, more time", .advanced = true),  \
        CLI_INTEGER("recompute-layers", 0, "N", &(chosen_recompute).layers, "0", 0, 1e6,                               \
                    "recompute only N of these layers, spread evenly (a block has two layers)", .default_text = "all", \
                    .advanced = true)

void training_recompute_apply(const struct training_recompute *recompute, struct train_config *config);

/** Training steps on random tokens, to be measured. */
struct training_measure {
    const char *model;
    const char *precision; /**< of training_precisions */
    int64_t warm, steps;   /**< that are not measured, and that are */
    int64_t batch, sequence, threads;
    int64_t micro_batch; /**< 0: the batch divided by the ranks of the data axis */
    struct training_mesh mesh;
    uint64_t bucket_bytes; /**< 0: 4 MiB */
    double dropout;
    struct training_recompute recompute;

    /** Called on all ranks before the trainer is opened, with the configuration of the steps, which it may change; NULL:
     * not called. *speaks as in training/parallel/agreement.h. */
    weft_status (*prepare)(void *observer, struct train_config *config, weft_context *context, bool *speaks,
                           struct error *error);

    /** Set by the command: see struct train_config. */
    struct profile *profile;
    void (*observe)(void *observer, const struct report_step *step);
    void *observer;
};

/** Options of all commands that measure such steps, into a static struct training_measure. */
#define TRAINING_MEASURE_OPTIONS(measure)                                                                              \
    CLI_TEXT("model", 'm', "NAME", &(measure).model, "gpt2-124m",                                                      \
             "a model size by name, or a YAML file, as for weft train"),                                               \
        CLI_INTEGER("batch", 'b', "N", &(measure).batch, "4", 1, 1e6, "sequences in a global batch, over all ranks"),  \
        CLI_INTEGER("micro-batch", 0, "N", &(measure).micro_batch, "0", 0, 1e6,                                        \
                    "sequences in one forward and backward pass", .default_text = "a rank's share of the batch"),      \
        CLI_INTEGER("sequence", 0, "N", &(measure).sequence, "64", 1, 1e6, "tokens in a sequence"),                    \
        CLI_INTEGER("threads", 't', "N", &(measure).threads, "1", 1, 1024, "compute threads per rank"),                \
        CLI_CHOICE("precision", 0, "TYPE", &(measure).precision, "f32", training_precisions,                           \
                   "type of products and activations; weights and sums are always f32")

/**
 * Report such steps: `trainer` has taken them, and one rank's device reached `peak` floating-point operations per second.
 * All ranks call it.
 */
typedef weft_status training_measure_report(struct trainer *trainer, const struct train_config *config,
                                            weft_context *context, double peak, FILE *output, struct error *error);

/** Join the job, train with AdamW on random tokens, evaluate nothing, let `report` report the steps, leave the job. */
weft_status training_measure_run(struct command_call *call, const struct training_measure *measure,
                                 training_measure_report *report, struct error *error);

/**
 * The shape of the weights in `from`: that of the model called `name`, if given, else `known`, which comes from the
 * weights themselves. Errors: ARGUMENT if both are NULL.
 */
weft_status training_shape_of(const char *from, const char *name, const struct model_shape *known,
                              struct model_shape *shape, struct error *error);

/**
 * Leave the job after a training that ended with `status`. If another rank reports the failure to the user (`speaks` is
 * false), this rank only sets the exit code.
 */
weft_status training_leave(struct command_call *call, weft_context *context, weft_status status, bool speaks,
                           struct error *error);

/**
 * Adapt this process to its limits. The soft limit of open files is raised to the hard one, because a dataset keeps its
 * shards open, and there can be more than 1024. If the address space is limited (ulimit -v), malloc uses one arena,
 * because each further arena reserves 64 MiB.
 */
void training_prepare_process(void);

#endif

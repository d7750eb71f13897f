/* SPDX-License-Identifier: Apache-2.0 */
/* `weft train`: train a model on a dataset, on all ranks of the job. */
#include "cli/platform/client/preemption.h"
#include "cli/train/train_plan.h"
#include "cli/train/training.h"

#include "base/file/file.h"
#include "base/text.h"
#include "launch/job_directory.h"
#include "training/model/file/model_file.h"
#include "training/train/loop/trainer.h"

#include <stdlib.h>
#include <string.h>

static const char *const failures[] = {"stop", "continue", NULL};
static struct {
    struct train_config config;
    int64_t layers, heads, kv_heads, width, hidden, window, context, vocabulary, image, channels;
    double multiplier;
    struct training_mesh mesh;
    struct train_plan plan;
    const char *scaling, *rate_shape, *optimizer, *trace, *precision, *kernels, *failure, *from, *task, *augment,
        *corrupt;
    struct training_recompute recompute;
    struct cli_list rates;
    double grace, hang_limit;
    bool quiet, fresh;
    char events[FILE_PATH_BYTES]; /* of the job */
    FILE *output;                 /* NULL: --quiet */
    struct pretrained *pretrained;
} chosen;

#define INTEGER(name, letter, value, where, start, least, most, ...)                                                   \
    CLI_INTEGER(name, letter, value, &chosen.where, start, least, most, __VA_ARGS__)
#define NUMBER(name, where, start, least, most, ...)                                                                   \
    CLI_NUMBER(name, 0, "X", &chosen.where, start, least, most, __VA_ARGS__)
#define AS_NAMED .default_text = "that of the named size", .advanced = true

/* The common options come first in each group. */
static const struct cli_option options[] = {
    CLI_GROUP("Model"),
    CLI_TEXT("model", 'm', "NAME", &chosen.config.model, NULL,
             "a model size by name (see weft model list) or a YAML file",
             .default_text = "gpt, or the model of --from"),
    CLI_TEXT("from", 0, "PATH", &chosen.from, NULL,
             "start from these weights: a checkpoint, a safetensors file, or a directory with config.json"),
    CLI_CHOICE("task", 0, "NAME", &chosen.task, "pretrain", training_tasks,
               "bert: predict masked words and whether texts belong together, or classify labeled texts"),
    CLI_FLAG("whole-words", 0, &chosen.config.whole_words, "bert: mask all pieces of a word, or none",
             .advanced = true),
    INTEGER("layers", 0, "N", layers, "0", 0, 1000, "number of transformer blocks", AS_NAMED),
    INTEGER("heads", 0, "N", heads, "0", 0, 1000, "number of attention heads", AS_NAMED),
    INTEGER("kv-heads", 0, "N", kv_heads, "0", 0, 1000, "number of key and value heads", AS_NAMED),
    INTEGER("width", 0, "N", width, "0", 0, 100000, "width of the residual stream", AS_NAMED),
    INTEGER("hidden", 0, "N", hidden, "0", 0, 1000000, "width of the feed-forward layers", AS_NAMED),
    INTEGER("window", 0, "N", window, "0", 0, 4096, "mlp: number of tokens that a prediction is made from", AS_NAMED),
    INTEGER("context", 0, "N", context, "0", 0, 1000000, "longest sequence, in tokens", AS_NAMED),
    INTEGER("vocabulary", 0, "N", vocabulary, "0", 0, 10000000, "number of different tokens",
            .default_text = "that of the data's tokenizer, or of the named size", .advanced = true),
    INTEGER("image", 0, "N", image, "0", 0, 4096, "height and width of images, in pixels", AS_NAMED),
    INTEGER("channels", 0, "N", channels, "0", 0, 3, "channels of images: 1 (gray) or 3", AS_NAMED),
    NUMBER("multiplier", multiplier, "0", 0, 4, "of the channels of an image network's layers", AS_NAMED),
    NUMBER("dropout", config.dropout, "0", 0, 0.99,
           "share of the elements of embeddings and branches that are dropped; rarely above 0.2",
           .default_text = "none", .advanced = true),

    CLI_GROUP("Data"),
    CLI_TEXT("data", 'd', "PATH", &chosen.config.data, NULL,
             "a text file, a token shard, or a directory of shards (see weft data pack); labeled texts; images: a "
             "directory per class, idx files or tar shards; random: only measure speed"),
    CLI_TEXT("tokenizer", 0, "DIR", &chosen.config.tokenizer, NULL,
             "encode a text with this tokenizer: vocab.json and merges.txt, or vocab.txt",
             .default_text = "that of --from or --resume; without one, bytes are tokens"),
    INTEGER("batch", 'b', "N", config.batch, "32", 1, 1e9, "sequences in a global batch, over all ranks"),
    INTEGER("sequence", 0, "N", config.sequence, "0", 0, 1000000, "tokens in a sequence",
            .default_text = "the model's context"),
    INTEGER("seed", 0, "N", config.seed, "1", 0, 9e15, "seed of initial weights, data order and sampling"),
    INTEGER("micro-batch", 0, "N", config.micro_batch, "4", 1, 1e6, "sequences in one forward and backward pass",
            .advanced = true),

    CLI_GROUP("Images"),
    CLI_CHOICE("augment", 0, "HOW", &chosen.augment, "auto", image_changes_names,
               "random changes of training images; small: mirrored and moved; large: mirrored, a random part resized, "
               "colors changed",
               .default_text = "small below 64 pixels, otherwise large"),
    NUMBER("mixup", config.images.mixup, "0", 0, 1, "mix pairs of images by shares from a Beta(X, X) distribution",
           .default_text = "none"),
    NUMBER("erase", config.images.erase, "0", 0, 1, "probability that a box of an image is erased",
           .default_text = "none", .advanced = true),
    CLI_FLAG(
        "sync-batch-norm", 0, &chosen.config.sync_batch_norm,
        "normalize the micro-batches that all data ranks compute at the same time as one; the bits then depend on the "
        "number of these ranks"),
    CLI_CHOICE("corrupt", 0, "WHAT", &chosen.corrupt, "refuse", training_corrupt,
               "what happens to damaged images; skip: others take their places"),
    INTEGER("decode-threads", 0, "N", config.images.threads, "1", 0, 256, "threads per rank that decode images ahead",
            .advanced = true),

    CLI_GROUP("Optimizer"),
    INTEGER("steps", 's', "N", config.steps, "200", 1, 1e12, "steps of the whole run"),
    NUMBER("learning-rate", config.rate, "1e-3", 0, 100, "peak learning rate"),
    INTEGER("warmup", 0, "N", config.warmup, "0", 0, 1e12, "steps over which the learning rate rises",
            .default_text = "none"),
    CLI_CHOICE("optimizer", 0, "NAME", &chosen.optimizer, "adamw", optimizer_names, "the optimizer"),
    NUMBER("weight-decay", config.optimizer.weight_decay, "0.1", 0, 100,
           "pulls matrices toward 0; gains and biases are left alone"),
    CLI_CHOICE("rate-shape", 0, "SHAPE", &chosen.rate_shape, "cosine", learning_rate_shapes,
               "how the learning rate falls after warm-up; wsd: only at the end", .advanced = true),
    NUMBER("final-rate", config.floor_share, "0.1", 0, 1, "learning rate of the last step, as a share of the peak",
           .advanced = true),
    CLI_CHOICE("scale-rate", 0, "HOW", &chosen.scaling, "none", learning_rate_scalings,
               "how the learning rate follows the number of ranks", .advanced = true),
    CLI_LIST("rate-for", 0, "PATTERNS=X", &chosen.rates, "multiply the learning rate of these tensors ('wte,wpe=0.1')",
             .advanced = true),
    CLI_TEXT("freeze", 0, "PATTERNS", &chosen.config.rules.freeze, NULL,
             "do not train these tensors: names, prefixes or shell patterns ('wte,h.0-5,*.bias')", .advanced = true),
    CLI_TEXT("no-decay", 0, "PATTERNS", &chosen.config.rules.no_decay, NULL,
             "no weight decay for these tensors, besides gains and biases", .advanced = true),
    NUMBER("clip", config.clip, "1", 0, 1e30, "largest norm of the gradient; 0: no clipping", .advanced = true),
    NUMBER("beta1", config.optimizer.beta1, "0.9", 0, 0.999999, "adamw, lamb: decay of the first moment",
           .advanced = true),
    NUMBER("beta2", config.optimizer.beta2, "0.99", 0, 0.999999, "adamw, lamb: decay of the second moment",
           .advanced = true),
    NUMBER("epsilon", config.optimizer.epsilon, "1e-8", 1e-30, 1, "adamw, lamb: added to the root of the second moment",
           .advanced = true),
    NUMBER("momentum", config.optimizer.momentum, "0.9", 0, 0.999999, "sgd, lars: decay of the momentum",
           .advanced = true),
    NUMBER("trust", config.optimizer.trust, "1e-3", 1e-12, 1,
           "lars: largest change of a tensor, as a share of its norm", .advanced = true),
    NUMBER("label-smoothing", config.label_smoothing, "0", 0, 0.99, "share of a target that is spread over all tokens",
           .default_text = "none", .advanced = true),
    INTEGER("stop-at", 0, "N", config.stop_at, "0", 0, 1e12, "end after this step, as if interrupted",
            .default_text = "run to the end", .advanced = true),

    CLI_GROUP("Parallelism"),
    INTEGER("threads", 't', "N", config.threads, "1", 1, 1024, "compute threads per rank"),
    CLI_CHOICE("precision", 0, "TYPE", &chosen.precision, "f32", training_precisions,
               "type of products and activations; weights and sums are always f32, and f16 scales the loss"),
    CLI_CHOICE("kernels", 0, "SET", &chosen.kernels, "common", kernel_rule_names,
               "instruction set that all ranks compute with; same: refuse ranks whose processors differ",
               .default_text = "common, the highest that all can use", .advanced = true),
    TRAINING_MESH_OPTIONS(chosen.mesh),
    CLI_TEXT("plan", 0, "FILE", &chosen.plan.path, NULL,
             "take mesh, ZeRO stage, schedule, micro-batch and the rest of the strategy from a plan of weft plan "
             "--save; --mesh auto makes a plan for the ranks of this job"),
    CLI_FLAG("force", 0, &chosen.plan.force,
             "train by --plan although it is for another model, batch or number of ranks", .advanced = true),
    INTEGER("verify-every", 0, "N", config.verify_every, "0", 0, 1e12,
            "steps between comparisons of the weights, gradients and optimizer state that ranks replicate",
            .default_text = "never", .advanced = true),
    CLI_FLAG("parameter-server", 0, &chosen.config.parameter_server,
             "one rank of the data axis sums and updates for all: slower, to compare with", .advanced = true),
    CLI_BYTES("bucket", 0, "BYTES", &chosen.config.bucket_bytes, "1M", "bytes of gradients fused into one all-reduce",
              .advanced = true),
    TRAINING_RECOMPUTE_OPTIONS(chosen.recompute),

    CLI_GROUP("Checkpoints"),
    CLI_TEXT("checkpoint-dir", 'c', "DIR", &chosen.config.checkpoint_dir, NULL, "write checkpoints to this directory",
             .default_text = "$WEFT_CHECKPOINT_DIR, from which the run then resumes"),
    CLI_TEXT(
        "checkpoint-copy", 0, "DIR", &chosen.config.checkpoint_copy, NULL,
        "keep verified copies of the checkpoints in this directory, such as on another disk, and resume from there "
        "what --checkpoint-dir has lost"),
    INTEGER("checkpoint-every", 0, "N", config.checkpoint_every, "0", 0, 1e12, "steps between checkpoints",
            .default_text = "only at the end"),
    CLI_TEXT("resume", 'r', "DIR", &chosen.config.resume, NULL,
             "continue from the newest whole checkpoint in this directory; auto: in --checkpoint-dir, if there is one"),
    CLI_TEXT("resume-change", 0, "NAMES", &chosen.config.resume_change, NULL,
             "options that may differ from those of the run that is resumed ('learning-rate,data'); the bits then "
             "differ from those of an uninterrupted run",
             .default_text = "none but --steps", .advanced = true),
    INTEGER("checkpoint-keep", 0, "N", config.checkpoint_keep, "2", 0, 1e6,
            "number of newest checkpoints to keep; 0: all", .advanced = true),
    CLI_BYTES("checkpoint-part", 0, "BYTES", &chosen.config.checkpoint_part, "64M",
              "ranks divide a checkpoint into files of at least this size; a smaller one is one file",
              .advanced = true),
    CLI_CHOICE("checkpoint-failure", 0, "WHAT", &chosen.failure, "stop", failures,
               "what the run does when a checkpoint cannot be written", .advanced = true),
    NUMBER("grace", grace, "0", 0, 1e6, "seconds to write a checkpoint after SIGTERM or SIGUSR1",
           .default_text = "$WEFT_GRACE, or 30", .advanced = true),
    INTEGER("copy-every", 0, "N", config.copy_every, "1", 0, 1e12,
            "under weft run --min-ranks: steps between copies on other ranks of what only one rank holds; 0: none",
            .advanced = true),
    NUMBER(
        "hang-limit", hang_limit, "0", 0, 1e9,
        "a rank that makes no progress for this many seconds, although it waits for no other, hangs: it is named and "
        "killed, and counts as lost",
        .default_text = "$WEFT_HANG_LIMIT, or never", .advanced = true),
    NUMBER("straggler-factor", config.straggler_factor, "0", 0, 1e9,
           "report a rank that takes more than X times as long as its peers, without its waiting",
           .default_text = "report none", .advanced = true),
    INTEGER("straggler-steps", 0, "N", config.straggler_steps, "20", 1, 1000000,
            "steps between comparisons of the ranks' times", .advanced = true),
    CLI_FLAG("replace-stragglers", 0, &chosen.config.replace_stragglers,
             "under weft run --restarts: such a rank ends, and another one is started in its place", .advanced = true),

    CLI_GROUP("Output"),
    INTEGER("evaluate-every", 0, "N", config.evaluate_every, "0", 0, 1e12, "steps between evaluations",
            .default_text = "only at the end"),
    INTEGER("log-every", 0, "N", config.log_every, "10", 0, 1e12, "steps between progress lines; 0: none"),
    CLI_TEXT("metrics", 0, "FILE", &chosen.config.metrics, NULL,
             "append the metrics of every step to FILE, as JSON lines"),
    CLI_FLAG("quiet", 'q', &chosen.quiet, "print errors only"),
    INTEGER("evaluate-sequences", 0, "N", config.evaluate_sequences, "-1", -1, 1e9,
            "held-out sequences or images in an evaluation, rounded up to whole micro-batches; 0: none",
            .default_text = "64; all where samples have classes", .advanced = true),
    INTEGER("patience", 0, "N", config.patience, "0", 0, 1e9,
            "end after this many evaluations without improvement, and keep the best checkpoint",
            .default_text = "never end early", .advanced = true),
    INTEGER("sample", 0, "N", config.sample, "200", 0, 1e6, "tokens to sample from the model at the end; 0: none",
            .advanced = true),
    CLI_TEXT("prompt", 0, "TEXT", &chosen.config.prompt, "And God said", "text that the sample begins with",
             .advanced = true),
    NUMBER("temperature", config.temperature, "0.7", 0, 100, "of sampling; 0: always the likeliest token",
           .advanced = true),
    CLI_TEXT("metrics-prometheus", 0, "FILE", &chosen.config.prometheus, NULL,
             "keep the newest metrics in FILE, for Prometheus's textfile collector", .advanced = true),
    CLI_TEXT("tensorboard", 0, "DIR", &chosen.config.tensorboard, NULL, "write an event file for TensorBoard in DIR",
             .advanced = true),
    CLI_TEXT("run-name", 0, "NAME", &chosen.config.run_name, NULL, "name of the run in metrics",
             .default_text = "the checkpoint directory's name, or the model's", .advanced = true),
    CLI_TEXT("trace", 0, "FILE", &chosen.trace, NULL, "write a timeline of all ranks to FILE (see weft trace show)",
             .advanced = true),
};

static const char *name_of_run(const struct train_config *config)
{
    const char *directory = config->checkpoint_dir ? file_name(config->checkpoint_dir) : "";
    return config->run_name ? config->run_name : *directory ? directory : config->model;
}

/* Read a number that weft run sets in the environment; *result stays as it is without it. */
static weft_status read_number(const char *text, const char *name, uint32_t *result, struct error *error)
{
    int64_t number = 0;
    if (!text || !*text)
        return WEFT_OK;
    const weft_status status = text_parse_integer(text, name, 0, 1 << 20, &number, error);
    *result = (uint32_t)number;
    return status;
}

/* Resolve all options except for the model's shape. */
static weft_status train_resolve(struct error *error)
{
    struct train_config *config = &chosen.config;
    if (!config->data)
        return error_set(
            error, WEFT_ERROR_ARGUMENT,
            "weft train needs --data: a text, token shards, labeled texts or images, as the model reads them");
    weft_status status;
    if (!*config->prompt)
        return error_set(error, WEFT_ERROR_ARGUMENT,
                         "--prompt is empty; a sample needs at least one character to begin with");
    if (chosen.rates.count > PARAMETER_RATES_MOST)
        return error_set(error, WEFT_ERROR_ARGUMENT, "--rate-for is given %zu times; at most %d are possible",
                         chosen.rates.count, PARAMETER_RATES_MOST);
    memcpy(config->rules.rates, chosen.rates.items, chosen.rates.count * sizeof *chosen.rates.items);
    config->rules.rate_count = chosen.rates.count;
    config->rate_shape = (enum learning_rate_shape)cli_choice_index(chosen.rate_shape, learning_rate_shapes);
    config->optimizer.kind = (enum optimizer_kind)cli_choice_index(chosen.optimizer, optimizer_names);
    config->activations = training_type_of(chosen.precision);
    config->kernels = cli_choice_index(chosen.kernels, kernel_rule_names);
    training_mesh_apply(&chosen.mesh, config);
    training_recompute_apply(&chosen.recompute, config);
    config->checkpoint_go_on = strcmp(chosen.failure, "continue") == 0;
    config->warnings = stderr;
    const char *collected = getenv("WEFT_METRICS");
    config->collected = collected && *collected ? collected : NULL;
    const char *job_directory = getenv("WEFT_JOB_DIR");
    if (job_directory && *job_directory) {
        const weft_status found = file_join(chosen.events, job_directory, JOB_DIRECTORY_EVENTS, error);
        if (found != WEFT_OK)
            return found;
        config->events = chosen.events;
    }
    config->classify = cli_choice_index(chosen.task, training_tasks) == 1;
    config->images.changes = (enum image_changes)cli_choice_index(chosen.augment, image_changes_names);
    config->images.skip = cli_choice_index(chosen.corrupt, training_corrupt) == 1;
    config->scaling = (weft_rate_scaling)cli_choice_index(chosen.scaling, learning_rate_scalings);
    if ((status = read_number(getenv("WEFT_MIN_RANKS"), "WEFT_MIN_RANKS", &config->min_ranks, error)) != WEFT_OK ||
        (status = read_number(getenv("WEFT_RESTARTS"), "WEFT_RESTARTS", &config->restarts, error)) != WEFT_OK)
        return status;
    if (config->replace_stragglers && !(config->restarts && config->straggler_factor > 0))
        return error_set(error, WEFT_ERROR_ARGUMENT, "--replace-stragglers needs %s",
                         config->restarts ? "a --straggler-factor above 0"
                                          : "weft run --min-ranks N --restarts N, which starts ranks in their place");
    if ((status = preemption_grace(chosen.grace, &chosen.grace, error)) != WEFT_OK)
        return status;
    return preemption_find_checkpoint(config, &chosen.fresh, error);
}

/* Replace numbers of the shape by those that were given. */
static void adjust_shape(struct train_config *config)
{
    struct model_shape *shape = &config->shape;
    const struct {
        int64_t given;
        size_t *place;
    } numbers[] = {
        {chosen.layers, &shape->layers},     {chosen.heads, &shape->heads},
        {chosen.kv_heads, &shape->kv_heads}, {chosen.width, &shape->width},
        {chosen.hidden, &shape->hidden},     {chosen.window, &shape->window},
        {chosen.context, &shape->context},   {chosen.vocabulary, &shape->vocabulary},
        {chosen.image, &shape->image},       {chosen.channels, &shape->channels},
    };
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++)
        if (numbers[i].given)
            *numbers[i].place = (size_t)numbers[i].given;
    if (chosen.multiplier > 0)
        shape->multiplier = chosen.multiplier;
    /* Weights keep their vocabulary, whatever the data's is. */
    config->vocabulary_chosen = chosen.vocabulary || chosen.from;
}

static weft_status resolve_shape(struct train_config *config, const struct model_shape *known, struct error *error)
{
    if (!chosen.from && !config->model)
        config->model = "gpt";
    weft_status status = training_shape_of(chosen.from, config->model, known, &config->shape, error);
    if (status != WEFT_OK)
        return status;
    if (!config->model)
        config->model = known->kind;
    config->run_name = name_of_run(config);
    adjust_shape(config);
    return WEFT_OK;
}

/* Open the weights of --from, and take their shape. */
static weft_status begin_from(weft_context *context, struct train_config *config, bool *speaks, struct error *error)
{
    struct model_shape shape;
    bool known;
    weft_comm *world = weft_world(context);
    pretrained_close(chosen.pretrained); /* of a beginning that failed */
    chosen.pretrained = NULL;
    weft_status status =
        pretrained_open_together(chosen.from, context, world, &chosen.pretrained, &shape, &known, speaks, error);
    if (status != WEFT_OK)
        return status;
    config->pretrained = chosen.pretrained;
    config->from = chosen.from;
    *speaks = weft_comm_rank(world) == 0; /* errors from here on are the same on all ranks */
    return resolve_shape(config, known ? &shape : NULL, error);
}

/* Settings that are still open come from the ranks of the running job. */
static void expect_settings(struct train_config *config)
{
    config->from = chosen.from;
    if (!config->model)
        config->model = chosen.from;
    config->run_name = name_of_run(config);
}

static weft_status train_settle(weft_context *context, uint32_t first_ranks, struct train_config *config, bool *speaks,
                                struct error *error)
{
    weft_status status = WEFT_OK;
    if (!first_ranks) {
        expect_settings(config);
        return WEFT_OK;
    }
    if (chosen.from)
        status = begin_from(context, config, speaks, error);
    if (status == WEFT_OK)
        status = train_plan_settle(&chosen.plan, context, first_ranks, config, stderr, chosen.output, speaks, error);
    return status;
}

static weft_status train_run(struct command_call *call, struct error *error)
{
    weft_status status = train_resolve(error);
    if (status == WEFT_OK)
        status = train_plan_begin(&chosen.plan, call->arguments, &chosen.config, error);
    if (status == WEFT_OK && !chosen.from)
        status = resolve_shape(&chosen.config, NULL, error);
    if (status != WEFT_OK)
        return status;
    weft_context *context;
    if (chosen.trace)
        setenv("WEFT_TRACE", chosen.trace, 1);
    training_prepare_process();
    const atomic_int *stop = preemption_watch(chosen.grace);
    weft_config config = WEFT_CONFIG_DEFAULT;
    config.hang_limit = chosen.hang_limit;
    status = command_check(NULL, weft_init(&config, &context), error);
    if (status != WEFT_OK)
        return status;
    const bool first = weft_comm_rank(weft_world(context)) == 0;
    if (!first)
        preemption_be_silent();

    if (chosen.fresh && !chosen.quiet && first)
        fprintf(call->output, "no checkpoint in %s yet: from the first step\n", chosen.config.checkpoint_dir);

    struct trainer *trainer = NULL;
    bool speaks = true;
    chosen.output = chosen.quiet ? NULL : call->output;
    chosen.config.settle = train_settle;
    status = trainer_open(&chosen.config, context, weft_world(context), chosen.output, stop, &trainer, &speaks, error);
    pretrained_close(chosen.pretrained);
    if (status == WEFT_OK)
        status = trainer_run(trainer, &speaks, error);
    const int stopped_by = trainer ? trainer_stopped_by(trainer) : 0;
    trainer_close(trainer);
    train_plan_free(&chosen.plan);
    status = training_leave(call, context, status, speaks, error);
    if (status == WEFT_OK && stopped_by)
        call->exit_code = preemption_exit_code(stopped_by);
    return status;
}

const struct command command_train = {
    .name = "train",
    .group = COMMAND_TRAIN,
    .summary = "train a language model, a BERT or an image model",
    .description =
        "Trains a GPT, a Llama or a multilayer perceptron on text (tokens are bytes, or those of --tokenizer or of "
        "the tokenizer of --from) or on token shards, a BERT on text or labeled texts, a MobileNet or ResNet on labeled "
        "images, over the ranks that it was launched with: "
        "alone, under weft run, mpirun or srun, or with torchrun's variables. Ranks compute different micro-batches "
        "(the data axis of --mesh), different layers (pipeline) or different parts of each layer (tensor); --zero divides "
        "what data-parallel ranks keep.\n\n"
        "The same command gives the same weights, bit for bit, on any mesh of data and pipeline ranks with a micro-batch "
        "for each data rank, with any --zero, --pipeline-schedule and number of threads, stopped and resumed or not, on "
        "machines with the same --kernels. "
        "A different --micro-batch gives different bits.\n\n"
        "SIGTERM or SIGUSR1 to any rank ends the run after the current step, or during an evaluation, with a "
        "checkpoint and exit code 75. To continue, run the same command again with WEFT_CHECKPOINT_DIR or --resume "
        "auto. SIGINT does the same with exit code 130. A second signal ends it at once.\n\n"
        "Sizes: gpt-nano (0.2M parameters), gpt-micro (0.8M; also called gpt), up to gpt2 (124M); llama-micro "
        "(0.8M; also called llama), up to smollm-135m and tinyllama; mlp-micro; bert-micro to bert-large; mobilenet-v2, resnet-50 and others for images. weft model list shows all. A file "
        "describes a network in lines such as \"kind: llama\" and \"layers: 6\": see weft model show.",
    .examples = "weft train --data data/bible.txt --steps 200\n"
                "weft run -n 4 -- weft train --model gpt --data data/bible.txt --steps 200 --checkpoint-dir /tmp/run1\n"
                "weft train --data data/bible.txt --steps 400 --resume /tmp/run1\n"
                "weft train --data shards --from gpt2 --freeze 'wte,wpe,h.0-5' --learning-rate 1e-4\n",
    COMMAND_OPTIONS(options),
    .run = train_run,
};

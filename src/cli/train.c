/* SPDX-License-Identifier: Apache-2.0 */
/* `weft train`: train a model on a dataset, on however many ranks it was launched with. */
#include "cli/preemption.h"
#include "cli/training.h"

#include "base/file.h"
#include "model/model_file.h"
#include "train/trainer.h"

#include <stdlib.h>
#include <string.h>

static const char *const scalings[] = {"none", "linear", "root", NULL};

static const char *const failures[] = {"stop", "continue", NULL};

static struct {
    struct train_config config;
    int64_t layers, heads, kv_heads, width, hidden, window, context, vocabulary;
    const char *scaling, *rate_shape, *optimiser, *trace, *precision, *gradients, *recompute, *failure, *from;
    struct cli_list rates;
    double grace;
    bool quiet, fresh;
} chosen;

#define INTEGER(name, letter, value, where, start, least, most, text)                                                  \
    CLI_INTEGER(name, letter, value, &chosen.where, start, least, most, text)
#define NUMBER(name, where, start, least, most, text) CLI_NUMBER(name, 0, "X", &chosen.where, start, least, most, text)

static const struct cli_option options[] = {
    CLI_TEXT("model", 'm', "NAME", &chosen.config.model, NULL,
             "a size of model by name (weft model list), or a YAML file; gpt, or with --from what is said there"),
    CLI_TEXT("from", 0, "PATH", &chosen.from, NULL,
             "begin with these weights: a checkpoint, a safetensors file, or a folder with config.json"),
    CLI_TEXT("freeze", 0, "PATTERNS", &chosen.config.rules.freeze, NULL,
             "leave tensors as they are: names, their beginnings, shell patterns ('wte,h.0-5,*.bias')"),
    CLI_TEXT("no-decay", 0, "PATTERNS", &chosen.config.rules.no_decay, NULL,
             "tensors without weight decay, besides gains and biases"),
    CLI_LIST("rate-for", 0, "PATTERNS=X", &chosen.rates, "multiply the learning rate of these tensors ('wte,wpe=0.1')"),
    INTEGER("layers", 0, "N", layers, "0", 0, 1000, "transformer blocks, in place of the named size's; 0: as named"),
    INTEGER("heads", 0, "N", heads, "0", 0, 1000, "attention heads; 0: as named"),
    INTEGER("kv-heads", 0, "N", kv_heads, "0", 0, 1000, "heads of keys and values; 0: as named"),
    INTEGER("width", 0, "N", width, "0", 0, 100000, "width of the residual stream; 0: as named"),
    INTEGER("hidden", 0, "N", hidden, "0", 0, 1000000, "width within the feed-forward layers; 0: as named"),
    INTEGER("window", 0, "N", window, "0", 0, 4096, "mlp: tokens that a prediction is made from; 0: as named"),
    INTEGER("context", 0, "N", context, "0", 0, 1000000, "longest sequence; 0: as named"),
    INTEGER("vocabulary", 0, "N", vocabulary, "0", 0, 10000000,
            "number of different tokens; 0: as the tokenizer of the data has, or as named"),
    CLI_TEXT("data", 'd', "PATH", &chosen.config.data, NULL,
             "a text file, a token shard, or a folder of shards, as weft data pack makes it; random: to measure speed"),
    INTEGER("steps", 's', "N", config.steps, "200", 1, 1e12, "steps of the whole run"),
    INTEGER("stop-at", 0, "N", config.stop_at, "0", 0, 1e12,
            "end after this step, as if interrupted; 0: run to the end"),
    INTEGER("batch", 'b', "N", config.batch, "32", 1, 1e9, "sequences in a global batch, over all ranks"),
    INTEGER("micro-batch", 0, "N", config.micro_batch, "4", 1, 1e6, "sequences in one forward and backward pass"),
    INTEGER("sequence", 0, "N", config.sequence, "0", 0, 1000000, "tokens in a sequence; 0: the model's context"),
    INTEGER("seed", 0, "N", config.seed, "1", 0, 9e15, "of initial weights, data order and sampling"),
    NUMBER("learning-rate", config.rate, "1e-3", 0, 100, "peak learning rate"),
    NUMBER("final-rate", config.floor_share, "0.1", 0, 1, "last step's learning rate, as a share of the peak"),
    INTEGER("warmup", 0, "N", config.warmup, "0", 0, 1e12, "steps in which the learning rate rises"),
    CLI_CHOICE("scale-rate", 0, "HOW", &chosen.scaling, "none", scalings,
               "how the learning rate follows the number of ranks"),
    CLI_CHOICE("rate-shape", 0, "SHAPE", &chosen.rate_shape, "cosine", learning_rate_shapes,
               "how the learning rate falls after warm-up; wsd: at the end only"),
    CLI_CHOICE("optimizer", 0, "NAME", &chosen.optimiser, "adamw", optimiser_names, "how weights follow gradients"),
    NUMBER("beta1", config.optimiser.beta1, "0.9", 0, 0.999999, "adamw, lamb: decay of the first moment"),
    NUMBER("beta2", config.optimiser.beta2, "0.99", 0, 0.999999, "adamw, lamb: decay of the second moment"),
    NUMBER("epsilon", config.optimiser.epsilon, "1e-8", 1e-30, 1,
           "adamw, lamb: added to the root of the second moment"),
    NUMBER("momentum", config.optimiser.momentum, "0.9", 0, 0.999999, "sgd, lars: decay of the moment"),
    NUMBER("trust", config.optimiser.trust, "1e-3", 1e-12, 1, "lars: how far a tensor may go, as a share of its norm"),
    NUMBER("weight-decay", config.optimiser.weight_decay, "0.1", 0, 100,
           "pulls matrices towards 0; gains and biases are left alone"),
    NUMBER("clip", config.clip, "1", 0, 1e30, "largest norm of the gradient; 0: no clipping"),
    INTEGER("evaluate-every", 0, "N", config.evaluate_every, "0", 0, 1e12, "steps between evaluations; 0: at the end"),
    INTEGER("evaluate-sequences", 0, "N", config.evaluate_sequences, "64", 0, 1e9,
            "held-out sequences in an evaluation; 0: none"),
    INTEGER("patience", 0, "N", config.patience, "0", 0, 1e9,
            "end after so many evaluations without a better one, and keep the best checkpoint; 0: never"),
    CLI_TEXT("checkpoint-dir", 'c', "DIR", &chosen.config.checkpoint_dir, NULL,
             "write checkpoints below this folder; otherwise WEFT_CHECKPOINT_DIR's, and go on from there"),
    INTEGER("checkpoint-every", 0, "N", config.checkpoint_every, "0", 0, 1e12,
            "steps between checkpoints; 0: at the end"),
    INTEGER("checkpoint-keep", 0, "N", config.checkpoint_keep, "2", 0, 1e6, "newest checkpoints to keep; 0: all"),
    CLI_BYTES("checkpoint-part", 0, "BYTES", &chosen.config.checkpoint_part, "64M",
              "ranks divide a checkpoint into files of at least so many bytes; a smaller one is one file"),
    CLI_CHOICE("checkpoint-failure", 0, "WHAT", &chosen.failure, "stop", failures,
               "what a checkpoint that cannot be written does to the run"),
    CLI_TEXT("resume", 'r', "DIR", &chosen.config.resume, NULL,
             "go on from the newest checkpoint below this folder; auto: below --checkpoint-dir, if there is one"),
    NUMBER("grace", grace, "0", 0, 1e6,
           "seconds to write a checkpoint after SIGTERM or SIGUSR1; 0: WEFT_GRACE if that is set, or 30"),
    INTEGER("sample", 0, "N", config.sample, "200", 0, 1e6, "tokens to sample from the model at the end; 0: none"),
    CLI_TEXT("prompt", 0, "TEXT", &chosen.config.prompt, "And God said", "what the sample begins with"),
    NUMBER("temperature", config.temperature, "0.7", 0, 100, "of sampling; 0: always the likeliest token"),
    INTEGER("zero", 0, "LEVEL", config.zero, "0", 0, 1, "1: divide the optimizer's state among the ranks (ZeRO-1)"),
    CLI_BYTES("bucket", 0, "BYTES", &chosen.config.bucket_bytes, "1M", "gradient bytes fused into one all-reduce"),
    INTEGER("threads", 't', "N", config.threads, "1", 1, 1024, "compute threads a rank"),
    CLI_CHOICE("precision", 0, "TYPE", &chosen.precision, "f32", training_precisions,
               "of products and activations; weights and sums are f32 always"),
    CLI_CHOICE("gradients", 0, "TYPE", &chosen.gradients, "f32", training_precisions,
               "in which gradients are summed; bf16: rounded at every sum, half the bytes between ranks"),
    CLI_CHOICE("recompute", 0, "WHAT", &chosen.recompute, "nothing", training_recomputes,
               "what backward makes anew instead of keeping it: less memory, more time"),
    NUMBER("dropout", config.dropout, "0", 0, 0.99,
           "share of the embedding's and branches' elements dropped in training; seldom more than 0.2"),
    NUMBER("label-smoothing", config.label_smoothing, "0", 0, 0.99, "share of a target spread over all tokens"),
    INTEGER("log-every", 0, "N", config.log_every, "10", 0, 1e12, "steps between progress lines; 0: none"),
    CLI_TEXT("metrics", 0, "FILE", &chosen.config.metrics, NULL, "append figures of every step to FILE, as JSON lines"),
    CLI_TEXT("metrics-prometheus", 0, "FILE", &chosen.config.prometheus, NULL,
             "keep the newest figures in FILE, for Prometheus's textfile collector"),
    CLI_TEXT("tensorboard", 0, "DIR", &chosen.config.tensorboard, NULL, "write an event file for TensorBoard in DIR"),
    CLI_TEXT("run-name", 0, "NAME", &chosen.config.run_name, NULL,
             "what metrics call the run; the checkpoint folder's name or the model's if not given"),
    CLI_TEXT("trace", 0, "FILE", &chosen.trace, NULL, "write a timeline of all ranks to FILE: see weft trace show"),
    CLI_FLAG("quiet", 'q', &chosen.quiet, "print errors only"),
};

static const char *name_of_run(const struct train_config *config)
{
    const char *folder = config->checkpoint_dir ? file_name(config->checkpoint_dir) : "";
    return config->run_name ? config->run_name : *folder ? folder : config->model;
}

/* What is not the model's shape. */
static weft_status resolve(struct error *error)
{
    struct train_config *config = &chosen.config;
    if (!config->data)
        return error_set(error, WEFT_ERROR_ARGUMENT,
                         "weft train needs --data: a text file, a token shard or a folder of shards");
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
    config->optimiser.kind = (enum optimiser_kind)cli_choice_index(chosen.optimiser, optimiser_names);
    config->mixed = training_is_mixed(chosen.precision);
    config->gradients = training_is_mixed(chosen.gradients) ? WEFT_BF16 : WEFT_F32;
    config->recompute = (enum model_recompute)cli_choice_index(chosen.recompute, training_recomputes);
    config->checkpoint_go_on = strcmp(chosen.failure, "continue") == 0;
    config->warnings = stderr;
    const char *collected = getenv("WEFT_METRICS");
    config->collected = collected && *collected ? collected : NULL;
    config->scaling = (weft_rate_scaling)cli_choice_index(chosen.scaling, scalings);
    if ((status = preemption_grace(chosen.grace, &chosen.grace, error)) != WEFT_OK)
        return status;
    return preemption_find_checkpoint(config, &chosen.fresh, error);
}

/* The numbers that are given, in place of the shape's own. */
static void adjust_shape(struct train_config *config)
{
    struct model_shape *shape = &config->shape;
    const struct {
        int64_t given;
        size_t *place;
    } numbers[] = {
        {chosen.layers, &shape->layers},   {chosen.heads, &shape->heads},           {chosen.kv_heads, &shape->kv_heads},
        {chosen.width, &shape->width},     {chosen.hidden, &shape->hidden},         {chosen.window, &shape->window},
        {chosen.context, &shape->context}, {chosen.vocabulary, &shape->vocabulary},
    };
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++)
        if (numbers[i].given)
            *numbers[i].place = (size_t)numbers[i].given;
    /* Weights have their vocabulary, whatever the data has. */
    config->vocabulary_chosen = chosen.vocabulary || chosen.from;
}

static weft_status resolve_shape(const struct model_shape *known, struct error *error)
{
    struct train_config *config = &chosen.config;
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

/* Open the weights of --from, and take the shape that they tell. */
static weft_status begin_from(weft_context *context, struct pretrained **pretrained, bool *speaks, struct error *error)
{
    struct model_shape shape;
    bool known;
    weft_comm *world = weft_world(context);
    weft_status status =
        pretrained_open_together(chosen.from, context, world, pretrained, &shape, &known, speaks, error);
    if (status != WEFT_OK)
        return status;
    chosen.config.pretrained = *pretrained;
    *speaks = weft_comm_rank(world) == 0; /* what follows fails on all alike */
    return resolve_shape(known ? &shape : NULL, error);
}

static weft_status run(struct command_call *call, struct error *error)
{
    weft_status status = resolve(error);
    if (status == WEFT_OK && !chosen.from)
        status = resolve_shape(NULL, error);
    if (status != WEFT_OK)
        return status;
    weft_context *context;
    if (chosen.trace)
        setenv("WEFT_TRACE", chosen.trace, 1);
    const atomic_int *stop = preemption_watch(chosen.grace);
    status = weft_init(NULL, &context);
    if (status != WEFT_OK)
        return error_set(error, status, "%s", weft_message(NULL));
    const bool first = weft_comm_rank(weft_world(context)) == 0;
    if (!first)
        preemption_be_silent();

    if (chosen.fresh && !chosen.quiet && first)
        fprintf(call->output, "no checkpoint in %s yet: from the first step\n", chosen.config.checkpoint_dir);

    struct trainer *trainer = NULL;
    struct pretrained *pretrained = NULL;
    bool speaks = true;
    if (chosen.from)
        status = begin_from(context, &pretrained, &speaks, error);
    if (status == WEFT_OK)
        status = trainer_open(&chosen.config, context, weft_world(context), chosen.quiet ? NULL : call->output, stop,
                              &trainer, &speaks, error);
    pretrained_close(pretrained);
    if (status == WEFT_OK)
        status = trainer_run(trainer, &speaks, error);
    const int stopped_by = trainer ? trainer_stopped_by(trainer) : 0;
    trainer_close(trainer);
    status = training_leave(call, context, status, speaks, error);
    if (status == WEFT_OK && stopped_by)
        call->exit_code = preemption_exit_code(stopped_by);
    return status;
}

const struct command command_train = {
    .name = "train",
    .group = COMMAND_TRAIN,
    .summary = "train a language model",
    .description =
        "Trains a GPT, a Llama or a multilayer perceptron on a text (tokens are bytes) or on token shards, "
        "data-parallel over the ranks that it "
        "was "
        "launched with: alone, under weft run, mpirun, srun or torchrun's variables.\n\n"
        "The same batch gives the same weights, bit for bit, on any number of ranks, stopped and resumed or not.\n\n"
        "SIGTERM or SIGUSR1 to any rank ends the run after the step under way with a checkpoint and exit code 75: run "
        "the "
        "same command again, with WEFT_CHECKPOINT_DIR or --resume auto, and it goes on. SIGINT does the same with exit "
        "code 130. A second signal ends it at once.\n\n"
        "Sizes: gpt-nano (0.2M parameters), gpt-micro (0.8M; also called gpt), and on to gpt2 (124M); llama-micro "
        "(0.8M; also called llama), and on to smollm-135m and tinyllama; mlp-micro. weft model list shows all. A file "
        "describes a network in lines such as \"kind: llama\" and \"layers: 6\": see weft model show.",
    .examples = "weft train --data data/bible.txt --steps 200\n"
                "weft run -n 4 -- weft train --model gpt --data data/bible.txt --steps 200 --checkpoint-dir /tmp/run1\n"
                "weft train --data data/bible.txt --steps 400 --resume /tmp/run1\n"
                "weft train --data shards --from gpt2 --freeze 'wte,wpe,h.0-5' --learning-rate 1e-4\n",
    .options = options,
    .option_count = sizeof options / sizeof *options,
    .run = run,
};

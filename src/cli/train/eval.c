/* SPDX-License-Identifier: Apache-2.0 */
/* `weft eval`: the loss of weights on held-out data. */
#include "cli/train/training.h"

#include "base/format/json_put.h"
#include "base/text.h"
#include "training/train/inference/evaluator.h"
#include "training/train/report/names.h"
#include "weft/report.h"

#include <inttypes.h>
#include <math.h>

static struct {
    struct evaluator_config config;
    const char *checkpoint, *from, *model, *precision, *kernels, *corrupt;
    bool json;
} chosen;

static const struct cli_option options[] = {
    CLI_TEXT("data", 'd', "PATH", &chosen.config.data, NULL,
             "a text file, a token shard, a directory of shards, labeled texts, or images, as for weft train"),
    CLI_TEXT("checkpoint", 'c', "DIR", &chosen.checkpoint, NULL,
             "a checkpoint, or a directory of checkpoints (the newest is used)"),
    CLI_TEXT("from", 0, "PATH", &chosen.from, NULL,
             "public weights: a safetensors file, or a directory with config.json"),
    CLI_TEXT("tokenizer", 0, "DIR", &chosen.config.tokenizer, NULL,
             "encode a text with this tokenizer: vocab.json and merges.txt", .default_text = "that of the weights"),
    CLI_TEXT("model", 'm', "NAME", &chosen.model, NULL, "a model size by name, where there is no config.json"),
    CLI_INTEGER("sequences", 'n', "N", &chosen.config.sequences, "0", 0, 1e12,
                "number of held-out sequences or images to evaluate, from the first", .default_text = "all"),
    CLI_INTEGER("sequence", 0, "N", &chosen.config.sequence, "0", 0, 1000000, "tokens in a sequence",
                .default_text = "the model's context"),
    CLI_INTEGER("micro-batch", 0, "N", &chosen.config.micro_batch, "4", 1, 1e6, "sequences in one forward pass"),
    CLI_INTEGER("threads", 't', "N", &chosen.config.threads, "1", 1, 1024, "compute threads per rank"),
    CLI_CHOICE("precision", 0, "TYPE", &chosen.precision, "f32", training_precisions,
               "type of products and activations"),
    CLI_CHOICE("kernels", 0, "SET", &chosen.kernels, "common", kernel_rule_names,
               "instruction set that all ranks compute with; same: refuse ranks whose processors differ",
               .default_text = "common, the highest that all can use"),
    CLI_CHOICE("corrupt", 0, "WHAT", &chosen.corrupt, "refuse", training_corrupt, "what happens to damaged images"),
    CLI_FLAG("json", 0, &chosen.json, "print a JSON object"),
};

static weft_status eval_check(struct error *error)
{
    if (!chosen.config.data)
        return error_set(
            error, WEFT_ERROR_ARGUMENT,
            "weft eval needs --data: a text file, a token shard, a directory of shards, or what else the model reads");
    if (!chosen.checkpoint == !chosen.from)
        return error_set(error, WEFT_ERROR_ARGUMENT, "weft eval needs --checkpoint DIR or --from PATH%s",
                         chosen.from ? ", not both" : "");
    chosen.config.skip = cli_choice_index(chosen.corrupt, training_corrupt) == 1;
    chosen.config.activations = training_type_of(chosen.precision);
    chosen.config.kernels = cli_choice_index(chosen.kernels, kernel_rule_names);
    return WEFT_OK;
}

static weft_status print_result(FILE *output, const struct pretrained *weights, const struct evaluator_result *result,
                                int ranks, struct error *error)
{
    const bool has_bytes = result->bytes_per_token > 0;
    const double bits = has_bytes ? result->loss / log(2.0) / result->bytes_per_token : 0;
    const double each_second = (double)result->tokens / result->seconds;
    if (chosen.json) {
        struct json_writer writer;
        json_begin_line(&writer);
        json_put_number(&writer, "loss", result->loss);
        if (isnan(result->accuracy))
            json_put_number(&writer, "perplexity", exp(result->loss));
        else
            json_put_number(&writer, "accuracy", result->accuracy);
        if (has_bytes)
            json_put_number(&writer, "bits_per_byte", bits);
        JSON_PUT(&writer, "sequences", result->sequences, "tokens", result->tokens, "step", pretrained_step(weights),
                 "parameters", result->weights, "ranks", ranks, "kernels", result->kernels, "load_seconds",
                 result->load_seconds, "seconds", result->seconds);
        return json_complete(&writer, output, error);
    }
    char load[32], seconds[32];
    fprintf(output, "data   %s\n", result->data);
    fprintf(output, "from   %s; %.2fM parameters, read in %s\n", pretrained_describe(weights),
            (double)result->weights * 1e-6, text_seconds(result->load_seconds, load, sizeof load));
    if (isnan(result->accuracy))
        fprintf(output, "held-out text: loss %.6f, perplexity %.3f", result->loss, exp(result->loss));
    else
        fprintf(output, "held-out data: loss %.6f, accuracy %.4f", result->loss, result->accuracy);
    if (has_bytes)
        fprintf(output, ", %.4f bit/byte", bits);
    text_seconds(result->seconds, seconds, sizeof seconds);
    if (result->reads_images)
        fprintf(output, "\n%" PRIu64 " images in %s", result->sequences, seconds);
    else
        fprintf(output, "\n%" PRIu64 " sequences of %" PRIu64 " tokens in %s", result->sequences, result->sequence,
                seconds);
    fprintf(output, " on %d rank%s (%s), %.0f %s/s\n", ranks, ranks == 1 ? "" : "s", result->kernels, each_second,
            result->reads_images ? "images" : "tokens");
    return WEFT_OK;
}

/* Report a point to the collector of metrics (WEFT_METRICS), ignoring errors. */
static void report_result(const struct pretrained *weights, const struct evaluator_result *result)
{
    const int64_t step = (int64_t)pretrained_step(weights);
    weft_reporter *reporter;
    if (weft_reporter_open(NULL, &reporter) != WEFT_OK)
        return;
    (void)weft_report(reporter, REPORT_NAME_HELD_OUT "/loss", step, result->loss);
    if (!isnan(result->accuracy))
        (void)weft_report(reporter, REPORT_NAME_HELD_OUT "/accuracy", step, result->accuracy);
    if (result->bytes_per_token > 0)
        (void)weft_report(reporter, REPORT_NAME_HELD_OUT "/bits_per_byte", step,
                          result->loss / log(2.0) / result->bytes_per_token);
    (void)weft_reporter_close(reporter);
}

static weft_status eval_evaluate(struct command_call *call, weft_context *context, bool *speaks, struct error *error)
{
    weft_comm *world = weft_world(context);
    struct pretrained *weights = NULL;
    struct model_shape shape;
    struct evaluator_result result;
    bool known;
    const char *from = chosen.checkpoint ? chosen.checkpoint : chosen.from;
    weft_status status = pretrained_open_together(from, context, world, &weights, &shape, &known, speaks, error);
    if (status != WEFT_OK)
        return status;
    *speaks = weft_comm_rank(world) == 0; /* errors from here on are the same on all ranks */
    status = training_shape_of(from, chosen.model, known ? &shape : NULL, &chosen.config.shape, error);
    chosen.config.pretrained = weights;
    chosen.config.from = from;
    if (status == WEFT_OK)
        status = evaluator_run(&chosen.config, context, world, &result, speaks, error);
    if (status == WEFT_OK && weft_comm_rank(world) == 0) {
        report_result(weights, &result);
        status = print_result(call->output, weights, &result, weft_comm_size(world), error);
    }
    pretrained_close(weights);
    return status;
}

static weft_status eval_run(struct command_call *call, struct error *error)
{
    weft_context *context;
    bool speaks = true;
    weft_status status = eval_check(error);
    if (status != WEFT_OK)
        return status;
    training_prepare_process();
    status = command_check(NULL, weft_init(NULL, &context), error);
    if (status != WEFT_OK)
        return status;
    status = eval_evaluate(call, context, &speaks, error);
    return training_leave(call, context, status, speaks, error);
}

const struct command command_eval = {
    .name = "eval",
    .group = COMMAND_TRAIN,
    .summary = "measure weights on held-out data",
    .description =
        "Prints the loss (natural logarithm, mean over predictions) of a checkpoint or of public weights on the part of the "
        "data that training holds out; of a language model also the perplexity and, if the bytes per token are known, "
        "the bits per byte; of a BERT or an image model the share of predictions that are right. The ranks share the sequences. The figures are the same, bit for bit, on any "
        "number of ranks with the same --micro-batch and --kernels.",
    .examples = "weft eval --data data/bible.txt --checkpoint runs/first\n"
                "weft run -n 4 -- weft eval --data shards --from gpt2 --json\n",
    COMMAND_OPTIONS(options),
    .run = eval_run,
};

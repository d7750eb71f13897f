/* SPDX-License-Identifier: Apache-2.0 */
/* `weft generate`: text from the weights of a checkpoint, or from public ones. */
#include "cli/train/training.h"

#include "base/file/file.h"
#include "base/format/json_put.h"
#include "base/text.h"
#include "training/train/inference/language_model.h"
#include "training/train/state/generation.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define PROMPT_MOST ((size_t)64 << 20) /* bytes from standard input */

static struct {
    const char *prompt, *tokenizer, *model, *precision;
    int64_t tokens, top_k, seed, samples, threads;
    double temperature, top_p;
    struct cli_list stops;
    bool echo, json;
} chosen;

static const struct cli_option options[] = {
    CLI_TEXT("prompt", 'p', "TEXT", &chosen.prompt, NULL, "text to continue; -: read it from standard input",
             .default_text = "begin a new text, where the vocabulary has an end-of-text token"),
    CLI_INTEGER("tokens", 'n', "N", &chosen.tokens, "200", 1, 1e9, "most tokens to generate in a sample"),
    CLI_INTEGER("samples", 0, "N", &chosen.samples, "1", 1, 1e6, "number of texts to generate, one after another"),
    CLI_LIST("stop", 0, "STRING", &chosen.stops, "end a sample before this string; may be given several times"),
    CLI_FLAG("echo", 0, &chosen.echo, "print the prompt before each sample"),
    CLI_FLAG("json", 0, &chosen.json, "print a JSON object for each sample once it is complete"),

    CLI_GROUP("Sampling"),
    CLI_NUMBER("temperature", 0, "X", &chosen.temperature, "0.7", 0, 100,
               "logits are divided by it; 0: always the likeliest token"),
    CLI_INTEGER("top-k", 0, "N", &chosen.top_k, "0", 0, 1e9, "draw among this many of the likeliest tokens",
                .default_text = "all"),
    CLI_NUMBER("top-p", 0, "X", &chosen.top_p, "1", 1e-9, 1,
               "draw among the fewest of the likeliest tokens that together have this probability",
               .default_text = "1, all"),
    CLI_INTEGER("seed", 0, "N", &chosen.seed, "1", 0, 9e15, "seed of sampling: the same seed gives the same texts"),

    CLI_GROUP("Model"),
    CLI_TEXT("tokenizer", 0, "PATH", &chosen.tokenizer, NULL,
             "a directory with vocab.json and merges.txt, or one of them",
             .default_text = "the tokenizer that lies with the weights"),
    CLI_TEXT("model", 'm', "NAME", &chosen.model, NULL, "a model size by name, where there is no config.json"),
    CLI_INTEGER("threads", 't', "N", &chosen.threads, "1", 1, 1024, "compute threads"),
    CLI_CHOICE("precision", 0, "TYPE", &chosen.precision, "f32", training_precisions,
               "type of products and activations"),
};

/* Of all samples together. */
struct train_generate_totals {
    size_t tokens, passes;
    bool forgets; /* some text was longer than the model's context */
    double read_seconds, write_seconds;
};

static weft_status read_prompt(struct generation_options *wanted, char **read, struct error *error)
{
    wanted->prompt = chosen.prompt ? chosen.prompt : "";
    wanted->prompt_size = strlen(wanted->prompt);
    if (strcmp(wanted->prompt, "-") != 0)
        return WEFT_OK;
    weft_status status = file_read("/dev/stdin", PROMPT_MOST, read, &wanted->prompt_size, error);
    wanted->prompt = *read;
    return status;
}

static weft_status check_stops(struct error *error)
{
    for (size_t i = 0; i < chosen.stops.count; i++)
        if (!*chosen.stops.items[i])
            return error_set(error, WEFT_ERROR_ARGUMENT, "--stop is empty; it must have at least one character");
    return WEFT_OK;
}

/* Tokens a second: each but the first of a sample took one pass. */
static double generation_rate(size_t passes, double seconds)
{
    return passes && seconds > 0 ? (double)passes / seconds : 0;
}

static void add_to(struct train_generate_totals *totals, const struct generation_result *result)
{
    totals->tokens += result->tokens;
    totals->passes += result->tokens ? result->tokens - 1 : 0;
    totals->forgets = totals->forgets || result->forgotten > 0;
    totals->read_seconds += result->read_seconds;
    totals->write_seconds += result->write_seconds;
}

static weft_status generate_print_json(FILE *output, int64_t number, const struct generation *generation,
                                       const struct generation_result *result, const char *text, struct error *error)
{
    return JSON_PRINT(output, error, "sample", number, "text", text, "end", generation_end_names[result->end],
                      "prompt_tokens", generation_prompt_tokens(generation), "tokens", result->tokens,
                      "forgotten_tokens", result->forgotten, "prompt_seconds", result->read_seconds, "seconds",
                      result->write_seconds, "tokens_per_second",
                      generation_rate(result->tokens ? result->tokens - 1 : 0, result->write_seconds));
}

/* Write a sample as JSON, after collecting its text. */
static weft_status write_json(FILE *output, int64_t number, struct generation *generation,
                              struct generation_result *result, struct error *error)
{
    char *text = NULL;
    size_t size;
    FILE *collected = open_memstream(&text, &size);
    if (!collected)
        return error_system(error, "cannot collect the text of a sample");
    weft_status status = generation_write(generation, (uint64_t)number - 1, collected, false, result, error);
    if (fclose(collected) != 0 && status == WEFT_OK)
        status = error_system(error, "cannot collect the text of a sample");
    if (status == WEFT_OK)
        status = generate_print_json(output, number, generation, result, text, error);
    free(text);
    return status;
}

static weft_status write_text(FILE *output, int64_t number, struct generation *generation,
                              struct generation_result *result, struct error *error)
{
    if (chosen.samples > 1)
        fprintf(output, "--- sample %" PRId64 " of %" PRId64 " ---\n", number, chosen.samples);
    weft_status status =
        generation_write(generation, (uint64_t)number - 1, output, isatty(fileno(output)), result, error);
    fputc('\n', output);
    fflush(output);
    return status;
}

static void generate_print_totals(const struct train_generate_totals *totals, size_t prompt_tokens)
{
    char read[32], wrote[32];
    fprintf(stderr, "%zu token%s in %s", totals->tokens, totals->tokens == 1 ? "" : "s",
            text_seconds(totals->write_seconds, wrote, sizeof wrote));
    if (totals->passes)
        fprintf(stderr, ", %.1f tokens/s", generation_rate(totals->passes, totals->write_seconds));
    fprintf(stderr, "; prompt of %zu token%s read in %s\n", prompt_tokens, prompt_tokens == 1 ? "" : "s",
            text_seconds(totals->read_seconds, read, sizeof read));
}

static weft_status write_samples(struct command_call *call, struct generation *generation, size_t context,
                                 struct error *error)
{
    const size_t prompt_tokens = generation_prompt_tokens(generation);
    struct train_generate_totals totals = {0};
    weft_status status = WEFT_OK;
    if (prompt_tokens > context)
        fprintf(stderr, "weft: the prompt has %zu tokens, but the model's context is %zu: only the last %zu are read\n",
                prompt_tokens, context, context);
    bool interrupted = false;
    for (int64_t number = 1; number <= chosen.samples && status == WEFT_OK && !interrupted; number++) {
        struct generation_result result = {0};
        status = chosen.json ? write_json(call->output, number, generation, &result, error)
                             : write_text(call->output, number, generation, &result, error);
        interrupted = result.end == GENERATION_INTERRUPTED;
        add_to(&totals, &result);
    }
    if (status != WEFT_OK)
        return status;
    if (interrupted)
        call->exit_code = 128 + (int)*interrupts_catch();
    if (totals.forgets && prompt_tokens <= context)
        fprintf(stderr,
                "weft: the text became longer than the model's context of %zu tokens: further tokens follow from its "
                "last %zu to %zu tokens only\n",
                context, (context + 1) / 2, context);
    if (!chosen.json)
        generate_print_totals(&totals, prompt_tokens);
    return WEFT_OK;
}

static weft_status generate_tokens(struct command_call *call, const struct language_model *model,
                                   struct generation_options *wanted, struct error *error)
{
    struct generation *generation;
    weft_status status =
        generation_open(model->description, model->device, model->parameters, &model->text, wanted, &generation, error);
    if (status != WEFT_OK)
        return status;
    status = write_samples(call, generation, model->description->shape.context, error);
    generation_close(generation);
    return status;
}

static weft_status generate_open_model(const char *from, struct pretrained **pretrained, struct language_model *model,
                                       struct error *error)
{
    struct language_model_config config = {.from = from,
                                           .tokenizer = chosen.tokenizer,
                                           .threads = (int)chosen.threads,
                                           .activations = training_type_of(chosen.precision)};
    weft_status status = pretrained_open(from, pretrained, error);
    if (status != WEFT_OK)
        return status;
    config.pretrained = *pretrained;
    status = training_shape_of(from, chosen.model, pretrained_shape(*pretrained), &config.shape, error);
    return status == WEFT_OK ? language_model_open(&config, model, error) : status;
}

static weft_status generate_run(struct command_call *call, struct error *error)
{
    struct pretrained *pretrained = NULL;
    struct language_model model = {0};
    char *read = NULL;
    struct generation_options wanted = {
        .tokens = (size_t)chosen.tokens,
        .stops = chosen.stops.items,
        .stop_count = chosen.stops.count,
        .echo = chosen.echo,
        .sampling = {.temperature = chosen.temperature,
                     .top_k = (size_t)chosen.top_k,
                     .top_p = chosen.top_p,
                     .seed = (uint64_t)chosen.seed},
    };
    training_prepare_process();
    weft_status status = check_stops(error);
    if (status == WEFT_OK)
        status = read_prompt(&wanted, &read, error);
    if (status == WEFT_OK)
        status = generate_open_model(call->words[0], &pretrained, &model, error);
    if (status == WEFT_OK) {
        wanted.interrupted = interrupts_catch();
        status = generate_tokens(call, &model, &wanted, error);
    }
    language_model_close(&model);
    pretrained_close(pretrained);
    free(read);
    return status;
}

const struct command command_generate = {
    .name = "generate",
    .group = COMMAND_TRAIN,
    .summary = "generate text with a checkpoint or with public weights",
    .description =
        "CHECKPOINT is a checkpoint, a directory of checkpoints (the newest is used), a directory of public GPT-2 "
        "or Llama weights with config.json, or a safetensors file. The text is printed token by token, in whole "
        "UTF-8 characters; bytes that are not UTF-8 are printed as U+FFFD. A line feed follows each sample. The "
        "speed is printed to standard error.\n\n"
        "A sample ends after --tokens, before a --stop string, or at the model's end-of-text token. A text may "
        "become longer than the model's context: whenever the context is full, the model forgets its first "
        "half.\n\n"
        "The same weights, prompt and options give the same text on the same machine: sample 2 of 5 is also sample "
        "2 of 2. Ctrl-C ends with what has been generated, and exit code 130.",
    .examples = "weft generate runs/first --prompt \"And God said\"\n"
                "weft generate gpt2 --prompt - --tokens 100 --top-p 0.9 --stop \"The end\" <story.txt\n"
                "weft generate runs/first --prompt Behold --samples 3 --seed 7 --json\n",
    .words = "CHECKPOINT",
    COMMAND_OPTIONS(options),
    .run = generate_run,
};

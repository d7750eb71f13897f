/* SPDX-License-Identifier: Apache-2.0 */
/* `weft predict`: the classes of images or texts. */
#include "cli/train/training.h"

#include "base/format/json_put.h"
#include "base/text.h"
#include "training/train/inference/predictor.h"

#include <stdlib.h>

static struct {
    const char *model, *tokenizer, *other, *precision;
    int64_t top, threads;
    bool json;
} chosen;

static const struct cli_option options[] = {
    CLI_TEXT("model", 'm', "DIR", &chosen.model, NULL,
             "a checkpoint, or a directory of checkpoints (the newest is used)"),
    CLI_INTEGER("top", 'n', "N", &chosen.top, "3", 1, 1000000, "number of classes to print, the likeliest first"),
    CLI_TEXT("pair", 0, "TEXT", &chosen.other, NULL, "the second text of each pair, of a model that classifies pairs"),
    CLI_TEXT("tokenizer", 0, "DIR", &chosen.tokenizer, NULL, "a directory with vocab.txt",
             .default_text = "that of the weights"),
    CLI_INTEGER("threads", 't', "N", &chosen.threads, "1", 1, 1024, "compute threads"),
    CLI_CHOICE("precision", 0, "TYPE", &chosen.precision, "f32", training_precisions,
               "type of products and activations"),
    CLI_FLAG("json", 0, &chosen.json, "print a JSON object for each image or text"),
};

/* The classes from the likeliest to the least likely; ties go to the lower number. */
static void rank_classes(const double *probabilities, size_t count, size_t *order, size_t wanted)
{
    for (size_t i = 0; i < count; i++)
        order[i] = i;
    for (size_t i = 0; i < wanted; i++) {
        size_t best = i;
        for (size_t k = i + 1; k < count; k++)
            if (probabilities[order[k]] > probabilities[order[best]] ||
                (probabilities[order[k]] == probabilities[order[best]] && order[k] < order[best]))
                best = k;
        const size_t found = order[best];
        order[best] = order[i];
        order[i] = found;
    }
}

/* Names come from files: control characters are replaced. */
static void print_class(FILE *output, const char *separator, const char *name, double probability)
{
    char printed[256];
    snprintf(printed, sizeof printed, "%s", name);
    fprintf(output, "%s%s %.4f", separator, text_printable(printed), probability);
}

static weft_status print_classes(FILE *output, const struct predictor *predictor, const char *sample,
                                 const double *probabilities, size_t *order, struct error *error)
{
    const size_t count = predictor_classes(predictor), wanted = (size_t)chosen.top < count ? (size_t)chosen.top : count;
    rank_classes(probabilities, count, order, wanted);
    if (!chosen.json) {
        fprintf(output, "%s: ", sample);
        for (size_t i = 0; i < wanted; i++)
            print_class(output, i ? ", " : "", predictor_class_name(predictor, order[i]), probabilities[order[i]]);
        fputc('\n', output);
        return WEFT_OK;
    }
    struct json_writer writer;
    json_begin_line(&writer);
    json_put_text(&writer, "sample", sample);
    json_open_array(&writer, "classes");
    for (size_t i = 0; i < wanted; i++) {
        json_open_object(&writer, NULL);
        JSON_PUT(&writer, "class", predictor_class_name(predictor, order[i]), "probability", probabilities[order[i]]);
        json_close(&writer);
    }
    json_close(&writer);
    return json_complete(&writer, output, error);
}

static weft_status predict_all(struct command_call *call, struct predictor *predictor, struct error *error)
{
    const size_t classes = predictor_classes(predictor);
    double *probabilities = calloc(classes, sizeof *probabilities);
    size_t *order = calloc(classes, sizeof *order);
    weft_status status = WEFT_OK;
    if (!probabilities || !order)
        status = error_memory(error, classes * (sizeof *probabilities + sizeof *order), "the probabilities of classes");
    if (status == WEFT_OK && chosen.other && predictor_reads_images(predictor))
        status = error_set(error, WEFT_ERROR_ARGUMENT, "--pair is a text, but the model in '%s' classifies images",
                           chosen.model);
    for (size_t i = 0; status == WEFT_OK && i < call->word_count; i++) {
        const char *sample = call->words[i];
        status = predictor_reads_images(predictor)
                     ? predictor_image(predictor, sample, probabilities, error)
                     : predictor_text(predictor, sample, chosen.other, probabilities, error);
        if (status == WEFT_OK)
            status = print_classes(call->output, predictor, sample, probabilities, order, error);
    }
    free(probabilities);
    free(order);
    return status;
}

static weft_status predict_run(struct command_call *call, struct error *error)
{
    struct pretrained *pretrained = NULL;
    struct predictor *predictor = NULL;
    struct predictor_config config = {.from = chosen.model,
                                      .tokenizer = chosen.tokenizer,
                                      .threads = (int)chosen.threads,
                                      .activations = training_type_of(chosen.precision)};
    if (!chosen.model)
        return error_set(error, WEFT_ERROR_ARGUMENT, "weft predict needs --model DIR, a checkpoint of weft train");
    training_prepare_process();
    weft_status status = pretrained_open(chosen.model, &pretrained, error);
    config.pretrained = pretrained;
    if (status == WEFT_OK && !pretrained_shape(pretrained))
        status = error_set(error, WEFT_ERROR_ARGUMENT,
                           "the weights in '%s' do not say of which network they are; take a checkpoint of weft train",
                           chosen.model);
    if (status == WEFT_OK)
        config.shape = *pretrained_shape(pretrained);
    if (status == WEFT_OK)
        status = predictor_open(&config, &predictor, error);
    if (status == WEFT_OK)
        status = predict_all(call, predictor, error);
    predictor_close(predictor);
    pretrained_close(pretrained);
    return status;
}

const struct command command_predict = {
    .name = "predict",
    .group = COMMAND_TRAIN,
    .summary = "classify images or texts with a checkpoint",
    .description =
        "SAMPLE is the path of a JPEG or PNG image where the model classifies images, and a text where it is a bert "
        "that was trained with --task classify. The likeliest classes are printed with their probabilities. Images are "
        "resized, cropped to a square and normalized as in the evaluations of the run that wrote the checkpoint.",
    .examples = "weft predict --model runs/clothes shirt.png boots.jpg\n"
                "weft predict --model runs/verses --top 2 --json \"In the beginning God created the heaven\"\n",
    .words = "SAMPLE ...",
    .most_words = 1000000,
    COMMAND_OPTIONS(options),
    .run = predict_run,
};

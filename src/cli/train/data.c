/* SPDX-License-Identifier: Apache-2.0 */
/* `weft data`, and `weft data pack`: texts to token shards, images to tar shards. */
#include "cli/train/data.h"
#include "base/clock.h"
#include "base/text.h"
#include "cli/frame/arguments.h"
#include "training/data/image/image_pack.h"
#include "training/data/pack.h"
#include "training/data/shard_writer.h"

#include <inttypes.h>

static struct {
    const char *tokenizer, *output;
    double held_out;
    int64_t shard, size, quality;
    uint64_t shard_bytes;
    bool skip_damaged;
} chosen;

static const struct cli_option options[] = {
    CLI_TEXT("tokenizer", 't', "DIR", &chosen.tokenizer, NULL,
             "directory with vocab.json and merges.txt, or with vocab.txt"),
    CLI_TEXT("output", 'o', "DIR", &chosen.output, NULL, "directory to create"),
    CLI_NUMBER("held-out", 0, "SHARE", &chosen.held_out, "0.1", 0, 0.9,
               "share of the text kept for evaluation; 0: none"),
    CLI_INTEGER("shard", 0, "TOKENS", &chosen.shard, "100000000", 1, (double)SHARD_WRITER_MOST,
                "largest number of tokens in a file"),
    CLI_GROUP("For images"),
    CLI_INTEGER("size", 0, "PIXELS", &chosen.size, "0", 0, 16384,
                "make images smaller whose shorter side is longer than this", .default_text = "keep all as they are"),
    CLI_INTEGER("quality", 0, "N", &chosen.quality, "90", 1, 100, "of JPEG images that are made smaller"),
    CLI_BYTES("shard-bytes", 0, "BYTES", &chosen.shard_bytes, "256M", "largest shard"),
    CLI_FLAG("skip-damaged", 0, &chosen.skip_damaged, "leave out images that cannot be decoded"),
};

static void print_split(FILE *output, const char *what, const struct packed_split *split)
{
    char bytes[32];
    if (split->files > 0)
        fprintf(output, "%-12s%" PRIu64 " tokens of %s (%.2f bytes a token), %" PRIu64 " file%s\n", what, split->tokens,
                text_bytes(split->bytes, bytes, sizeof bytes), (double)split->bytes / (double)split->tokens,
                split->files, split->files == 1 ? "" : "s");
}

/* Images keep their own split, and shards of images have a number of bytes. */
static weft_status refuse_text_options(struct command_call *call, struct error *error)
{
    const bool held_out = arguments_have(call->arguments, "held-out", 0);
    if (!held_out && !arguments_have(call->arguments, "shard", 0))
        return WEFT_OK;
    return error_set(error, WEFT_ERROR_ARGUMENT, "--%s is for texts, and '%s' has images; leave it out%s",
                     held_out ? "held-out" : "shard", call->words[0],
                     held_out ? ", or divide the images into train/ and val/" : ", or give --shard-bytes");
}

static weft_status pack_images_of(struct command_call *call, struct error *error)
{
    const weft_status status = refuse_text_options(call, error);
    if (status != WEFT_OK)
        return status;
    const struct image_pack_options pack = {
        .output = chosen.output,
        .size = (uint32_t)chosen.size,
        .quality = (int)chosen.quality,
        .shard_bytes = chosen.shard_bytes,
        .skip = chosen.skip_damaged,
        .stop = interrupts_catch(),
    };
    return data_images_pack(call, call->words[0], &pack, error);
}

static weft_status data_pack_run(struct command_call *call, struct error *error)
{
    const bool images = !chosen.tokenizer && call->word_count == 1 && image_pack_is_for(call->words[0]);
    if (images && chosen.output)
        return pack_images_of(call, error);
    if (!chosen.tokenizer || !chosen.output)
        return error_set(error, WEFT_ERROR_ARGUMENT, "%s needs --%s: %s", call->name,
                         chosen.tokenizer || images ? "output" : "tokenizer",
                         chosen.tokenizer || images
                             ? "the directory to make"
                             : "a directory with vocab.json and merges.txt; weft data tokenizer makes one");
    const struct pack_options pack = {
        .tokenizer = chosen.tokenizer,
        .output = chosen.output,
        .held_out = chosen.held_out,
        .shard_tokens = (uint64_t)chosen.shard,
        .stop = interrupts_catch(),
    };
    struct packed packed;
    uint64_t begin = clock_now();
    weft_status status = data_pack((const char *const *)call->words, call->word_count, &pack, &packed, error);
    if (status != WEFT_OK)
        return status;
    double seconds = (double)(clock_now() - begin) * 1e-9;
    char took[32];
    print_split(call->output, "train", &packed.splits[DATASET_TRAIN]);
    print_split(call->output, "held out", &packed.splits[DATASET_HELD_OUT]);
    fprintf(call->output, "wrote %s in %s (%.1f MB/s)\n", chosen.output, text_seconds(seconds, took, sizeof took),
            (double)(packed.splits[0].bytes + packed.splits[1].bytes) * 1e-6 / seconds);
    return WEFT_OK;
}

static const struct command command_data_pack = {
    .name = "pack",
    .summary = "turn texts or images into shards, once, for training to read",
    .description =
        "Reads each TEXT (a file, or a directory of .txt files) and writes a directory for weft train --data: "
        "token shards in llm.c's format (16-bit tokens if the vocabulary fits, else 32-bit), the tokenizer, and "
        "dataset.json with the numbers of tokens and bytes. The directory is created complete or not at "
        "all.\n\n"
        "Texts are split and encoded as GPT-2 does. The tokenizer's <|endoftext|> is put before each file, and "
        "wherever a text contains these letters.\n\n"
        "Files with the word val in their name are held out for evaluation; if there are none, the last tenth of "
        "the text is (--held-out).\n\n"
        "Without --tokenizer, a directory with a directory per class, or with train/ and val/ above such directories, is "
        "packed as images: into tar shards of WebDataset (NAME.jpg or NAME.png, and NAME.cls with the number of the "
        "class), in a random order. Each image is decoded to see that it is whole. Without val/, a tenth of each class "
        "is held out.",
    .examples = "weft data pack data/bible.txt --tokenizer data/gpt2 --output data/bible-gpt2\n"
                "weft data pack corpus/ --tokenizer tokenizers/mine --output data/corpus --held-out 0.01\n"
                "weft data pack photos/ --size 256 --output data/photos\n",
    .words = "TEXT...",
    .most_words = DATA_TEXTS_MOST,
    COMMAND_OPTIONS(options),
    .run = data_pack_run,
};

const struct command command_data = {
    .name = "data",
    .group = COMMAND_TRAIN,
    .summary = "make tokenizers and shards from texts, and shards from images",
    COMMAND_SUBCOMMANDS(&command_data_pack, &command_data_show, &command_data_tokenizer),
};

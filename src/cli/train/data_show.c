/* SPDX-License-Identifier: Apache-2.0 */
/* `weft data show`: describe a dataset. */
#include "cli/train/data.h"
#include "training/data/files.h"
#include "training/data/packed.h"
#include "training/data/shard.h"
#include "training/data/tokenizer/tokenizer.h"

#include <inttypes.h>
#include <math.h>

static struct {
    int64_t tokens;
} chosen;

#define FIRST_MOST 1000

static const struct cli_option options[] = {
    CLI_INTEGER("tokens", 'n', "N", &chosen.tokens, "40", 0, FIRST_MOST, "number of tokens to decode, from the first"),
};

/* Print bytes, with control characters other than line feeds as '?'. */
static void data_show_print_bytes(FILE *output, const uint8_t *bytes, size_t size)
{
    for (size_t i = 0; i < size; i++)
        fputc((bytes[i] < ' ' && bytes[i] != '\n') || bytes[i] == 0x7f ? '?' : bytes[i], output);
}

/* Print the first tokens of a file, as text if they can be decoded. */
static weft_status print_first(FILE *output, const struct shard *shard, const struct tokenizer *tokenizer,
                               struct error *error)
{
    int32_t tokens[FIRST_MOST];
    uint64_t count = (uint64_t)chosen.tokens;
    if (count > shard->layout.count)
        count = shard->layout.count;
    uint32_t highest;
    if (count == 0)
        return WEFT_OK;
    weft_status status = shard_read(shard, 0, count, tokens, &highest, error);
    if (status != WEFT_OK)
        return status;
    fprintf(output, "the first %" PRIu64 " tokens of '%s':\n", count, shard->path);
    for (uint64_t i = 0; i < count; i++) {
        uint8_t byte = (uint8_t)tokens[i];
        size_t size = 1;
        const uint8_t *bytes = &byte;
        if (tokenizer)
            bytes = tokenizer_decode(tokenizer, tokens[i], &size);
        if (tokenizer || shard->layout.format == SHARD_BYTES)
            data_show_print_bytes(output, bytes, size);
        else
            fprintf(output, "%s%" PRId32, i ? " " : "", tokens[i]);
    }
    fputc('\n', output);
    return WEFT_OK;
}

static void print_packed(FILE *output, const struct packed *packed)
{
    static const char *const names[] = {[DATASET_TRAIN] = "to train on", [DATASET_HELD_OUT] = "held out"};
    for (int i = 0; i < 2; i++) {
        const struct packed_split *split = &packed->splits[i];
        if (split->tokens > 0)
            fprintf(output, "%s: %" PRIu64 " tokens of %" PRIu64 " bytes of text, %.3f bytes a token\n", names[i],
                    split->tokens, split->bytes, (double)split->bytes / (double)split->tokens);
    }
}

static weft_status show_files(FILE *output, const struct string_list *files, const struct tokenizer *tokenizer,
                              struct error *error)
{
    struct shard shard;
    for (size_t i = 0; i < files->count; i++) {
        weft_status status = shard_open(files->items[i], &shard, error);
        if (status != WEFT_OK)
            return status;
        fprintf(output, "'%s': %" PRIu64 " tokens, %s%s\n", shard.path, shard.layout.count,
                shard_format_name(shard.layout.format), data_file_is_held_out(shard.path) ? ", held out" : "");
        shard_close(&shard);
    }
    weft_status status = shard_open(files->items[0], &shard, error);
    if (status != WEFT_OK)
        return status;
    status = print_first(output, &shard, tokenizer, error);
    shard_close(&shard);
    return status;
}

/* Show the files next to token shards. */
static weft_status show_company(FILE *output, const char *directory, struct tokenizer **tokenizer, struct error *error)
{
    struct packed packed;
    weft_status status = WEFT_OK;
    if (packed_is_in(directory) && (status = packed_read(directory, &packed, error)) == WEFT_OK)
        print_packed(output, &packed);
    if (status != WEFT_OK || !tokenizer_is_in(directory))
        return status;
    status = tokenizer_open(directory, tokenizer, error);
    if (status == WEFT_OK)
        fprintf(output,
                tokenizer_get_kind(*tokenizer) == TOKENIZER_WORDPIECE ? "tokenizer: WordPiece, %" PRIu32 " tokens\n"
                                                                      : "tokenizer: %" PRIu32 " tokens, %" PRIu32
                                                                        " merges\n",
                tokenizer_vocabulary(*tokenizer), tokenizer_merges(*tokenizer));
    return status;
}

static weft_status data_show_run(struct command_call *call, struct error *error)
{
    const char *path = call->words[0];
    char directory[FILE_PATH_BYTES];
    struct string_list files = {0};
    struct tokenizer *tokenizer = NULL;
    bool are_tokens;
    weft_status status = packed_find(path, directory, &are_tokens, error);
    if (status == WEFT_OK && are_tokens)
        status = show_company(call->output, directory, &tokenizer, error);
    if (status == WEFT_OK)
        status = data_files_find(&path, 1, false, &files, error);
    if (status == WEFT_OK)
        status = show_files(call->output, &files, tokenizer, error);
    tokenizer_close(tokenizer);
    string_list_free(&files);
    return status;
}

const struct command command_data_show = {
    .name = "show",
    .summary = "show what a dataset is: tokens, format, tokenizer, its beginning",
    .description =
        "PATH is a directory of shards, as weft data pack writes it, or a file: anything that weft train --data "
        "accepts.",
    .examples = "weft data show data/bible-gpt2\n",
    .words = "PATH",
    COMMAND_OPTIONS(options),
    .run = data_show_run,
};

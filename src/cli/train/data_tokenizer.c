/* SPDX-License-Identifier: Apache-2.0 */
/* `weft data tokenizer`: learn a vocabulary from texts. */
#include "base/clock.h"
#include "base/text.h"
#include "cli/train/data.h"
#include "training/data/new_directory.h"
#include "training/data/text_reader.h"
#include "training/data/tokenizer/train.h"

#include <inttypes.h>

static const char *const kinds[] = {[TOKENIZER_BYTE_PAIRS] = "byte-pairs", [TOKENIZER_WORDPIECE] = "wordpiece", NULL};

static struct {
    const char *output;
    const char *kind; /* of `kinds` */
    bool cased;
    int64_t vocabulary;
} chosen;

static const struct cli_option options[] = {
    CLI_INTEGER("vocabulary", 'v', "N", &chosen.vocabulary, "8192", TOKENIZER_TRAINING_LEAST, TOKENIZER_VOCABULARY_MOST,
                "size of the vocabulary"),
    CLI_CHOICE("kind", 'k', "NAME", &chosen.kind, "byte-pairs", kinds, "byte-pairs, of GPT-2, or wordpiece, of BERT"),
    CLI_FLAG("cased", 0, &chosen.cased, "wordpiece: keep capitals and accents; default: remove them"),
    CLI_TEXT("output", 'o', "DIR", &chosen.output, NULL, "directory to create"),
};

static bool is_wordpiece(void)
{
    return chosen.kind == kinds[TOKENIZER_WORDPIECE];
}

static weft_status stopped(struct error *error)
{
    return error_set(error, WEFT_ERROR_ABORTED, "stopped as asked; '%s' was not written", chosen.output);
}

static weft_status learn_text(struct tokenizer_training *training, const char *path, uint64_t size,
                              const volatile sig_atomic_t *stop, struct error *error)
{
    struct text_reader reader;
    struct text_piece piece;
    bool more;
    weft_status status = text_reader_open(&reader, path, size, 0, size, error);
    if (status != WEFT_OK)
        return status;
    while (status == WEFT_OK && (status = text_reader_next(&reader, &piece, &more, error)) == WEFT_OK && more)
        status = *stop ? stopped(error) : tokenizer_training_read(training, piece.bytes, piece.size, error);
    text_reader_close(&reader);
    return status;
}

static weft_status data_tokenizer_learn(const struct text_files *texts, const volatile sig_atomic_t *stop,
                                        struct tokenizer **tokenizer, uint32_t *words, struct error *error)
{
    struct tokenizer_training *training;
    const struct wordpiece_rules rules = {.lower_case = !chosen.cased, .strip_accents = !chosen.cased};
    weft_status status = tokenizer_training_open(is_wordpiece() ? &rules : NULL, &training, error);
    if (status != WEFT_OK)
        return status;
    for (size_t i = 0; i < texts->count && status == WEFT_OK; i++)
        status = learn_text(training, texts->paths.items[i], texts->sizes[i], stop, error);
    *words = tokenizer_training_words(training);
    if (status == WEFT_OK)
        status = tokenizer_training_finish(training, (uint32_t)chosen.vocabulary, stop, tokenizer, error);
    tokenizer_training_close(training);
    return status;
}

static weft_status write_directory(const struct tokenizer *tokenizer, struct error *error)
{
    struct new_directory directory;
    weft_status status = new_directory_open(&directory, chosen.output, error);
    if (status == WEFT_OK)
        status = tokenizer_write(tokenizer, directory.partial, error);
    if (status == WEFT_OK)
        return new_directory_close(&directory, error);
    new_directory_discard(&directory);
    return status;
}

static weft_status data_tokenizer_run(struct command_call *call, struct error *error)
{
    if (!chosen.output)
        return error_set(error, WEFT_ERROR_ARGUMENT, "%s needs --output: the directory to make", call->name);
    if (chosen.cased && !is_wordpiece())
        return error_set(error, WEFT_ERROR_ARGUMENT,
                         "--cased is for WordPiece alone, byte pairs keep all capitals; add --kind wordpiece or leave "
                         "it out");
    const volatile sig_atomic_t *stop = interrupts_catch();
    uint64_t begin = clock_now();
    struct text_files texts;
    struct tokenizer *tokenizer = NULL;
    uint32_t words;
    weft_status status = text_files_open((const char *const *)call->words, call->word_count, true, &texts, error);
    if (status != WEFT_OK)
        return status;
    status = data_tokenizer_learn(&texts, stop, &tokenizer, &words, error);
    if (status == WEFT_OK)
        status = write_directory(tokenizer, error);
    if (status == WEFT_OK) {
        char bytes[32], took[32], merges[32] = "";
        uint32_t tokens = tokenizer_vocabulary(tokenizer);
        if (!is_wordpiece())
            snprintf(merges, sizeof merges, "%u merges, ", tokenizer_merges(tokenizer));
        fprintf(call->output, "wrote %s: %u tokens, %slearnt from %u different words of %s in %s\n", chosen.output,
                tokens, merges, words, text_bytes(texts.bytes, bytes, sizeof bytes),
                text_seconds((double)(clock_now() - begin) * 1e-9, took, sizeof took));
        if (tokens < (uint32_t)chosen.vocabulary)
            fprintf(call->output, "that is fewer than %" PRId64 ": no more pairs occur twice in the text\n",
                    chosen.vocabulary);
    }
    tokenizer_close(tokenizer);
    text_files_close(&texts);
    return status;
}

const struct command command_data_tokenizer = {
    .name = "tokenizer",
    .summary = "learn a tokenizer from texts",
    .description =
        "Learns byte-pair merges from each TEXT (a file, or a directory of .txt files) and writes a directory with "
        "vocab.json and merges.txt, in GPT-2's formats. Tokens 0 to 255 are the bytes, and the last one is "
        "<|endoftext|>.\n\n"
        "With --kind wordpiece it writes vocab.txt and tokenizer_config.json, in BERT's formats. [PAD], [UNK], [CLS], "
        "[SEP] and [MASK] are tokens 0 to 4, characters follow.\n\n"
        "The same texts give the same tokenizer: the most frequent pair is merged next; ties go to the lower left "
        "token, then to the lower right token.",
    .examples = "weft data tokenizer data/bible.txt --vocabulary 8192 --output data/bible-8192\n"
                "weft data tokenizer data/bible.txt --kind wordpiece --vocabulary 8000 --output data/bible-words\n",
    .words = "TEXT...",
    .most_words = DATA_TEXTS_MOST,
    COMMAND_OPTIONS(options),
    .run = data_tokenizer_run,
};

/* SPDX-License-Identifier: Apache-2.0 */
/* Any bytes as a text of sentences and as labeled texts: refused with a message, or all samples can be read and are what
 * a network may read. */
#include "fuzz_file.h"
#include "training/data/bert/labeled.h"
#include "training/data/bert/pairs.h"
#include "training/data/tokenizer/tokenizer.h"

#include <string.h>

#define SEQUENCE    16
#define PREDICTIONS 3
#define VOCABULARY  13

static struct tokenizer *open_tokenizer(void)
{
    static const char vocabulary[] = "[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\na\n##a\nb\n##b\nc\n##c\n.\n!\n";
    char copy[sizeof vocabulary];
    struct tokenizer_file files[TOKENIZER_FILES] = {{TOKENIZER_WORDPIECES, copy, sizeof vocabulary - 1}};
    struct tokenizer *tokenizer;
    memcpy(copy, vocabulary, sizeof copy);
    if (tokenizer_parse(TOKENIZER_WORDPIECE, files, &tokenizer, NULL) != WEFT_OK)
        abort();
    return tokenizer;
}

static void demand(bool fact)
{
    if (!fact)
        abort();
}

static void read_all(struct sample_source *source, bool masked, size_t classes)
{
    int32_t tokens[SEQUENCE], segments[SEQUENCE], positions[PREDICTIONS], targets[PREDICTIONS], length, label;
    const struct model_arrays arrays = {.tokens = tokens,
                                        .segments = segments,
                                        .lengths = &length,
                                        .labels = &label,
                                        .positions = masked ? positions : NULL,
                                        .targets = masked ? targets : NULL};
    for (int split = 0; split < 2; split++) {
        const uint64_t samples = sample_source_samples(source, (enum dataset_split)split);
        demand(samples > 0);
        for (uint64_t i = 0; i < samples + 2; i++) {
            demand(sample_source_read(source, (enum dataset_split)split, i, 1, &arrays, NULL) == WEFT_OK);
            demand(length >= 2 && length <= SEQUENCE && label >= 0 && (size_t)label < classes && tokens[0] == 2 &&
                   tokens[length - 1] == 3);
            for (int j = 0; j < SEQUENCE; j++)
                demand(tokens[j] >= 0 && tokens[j] < VOCABULARY && (segments[j] & ~1) == 0 &&
                       (j < length || (tokens[j] == 0 && segments[j] == 0)));
            for (int j = 0; masked && j < PREDICTIONS; j++)
                demand(positions[j] >= 0 && positions[j] < length - 1 && targets[j] >= -1 && targets[j] < VOCABULARY);
        }
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char path[FUZZ_PATH_BYTES];
    const char *paths[] = {path};
    struct sample_source *source;
    struct tokenizer *tokenizer = open_tokenizer();
    struct bert_data_options options = {.sequence = SEQUENCE, .tokenizer = tokenizer, .vocabulary = VOCABULARY};
    int descriptor = fuzz_file(data, size, path);
    options.whole_words = size & 1;
    struct error error = {0};
    if (pairs_open(paths, 1, &options, &source, &error) == WEFT_OK) {
        read_all(source, true, 2);
        sample_source_close(source);
    } else if (error.text[0] == '\0') {
        abort();
    }
    error_clear(&error);
    if (labeled_open(paths, 1, &options, &source, &error) == WEFT_OK) {
        read_all(source, false, labeled_classes(source));
        sample_source_close(source);
    } else if (error.text[0] == '\0') {
        abort();
    }
    close(descriptor);
    tokenizer_close(tokenizer);
    return 0;
}

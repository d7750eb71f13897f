/* SPDX-License-Identifier: Apache-2.0 */
/**
 * The text of tokens: the vocabulary of a run's data, encoding prompts, printing samples.
 *
 * Tokens are those of a tokenizer (training/data/tokenizer/tokenizer.h), or bytes, or their text is not known. A checkpoint carries the
 * tokenizer that its weights were trained with: its files lie beside the weights, as in public
 * directories of weights, and the manifest's "training" object has its identity as "tokenizer". So text can be sampled
 * from weights alone:
 *
 *     struct text text;
 *     text_open_weights(path, shape.vocabulary, &text, error);
 *     if (text_is_known(&text)) { text_encode(&text, prompt, size, ...); ... text_decode(&text, token, &size); }
 *     text_close(&text);
 */
#ifndef WEFT_TRAINING_TRAIN_TEXT_TEXT_H
#define WEFT_TRAINING_TRAIN_TEXT_TEXT_H

#include "training/data/tokenizer/tokenizer.h"

#include <weft/weft.h>

#define TEXT_OF_BYTES "bytes" /* an identity */

struct text {
    struct tokenizer *tokenizer;             /**< NULL: none */
    char identity[TOKENIZER_IDENTITY_BYTES]; /**< tokenizer_identify()'s, TEXT_OF_BYTES, or "": not known */
    double bytes_per_token;                  /**< of the held-out text; 0: not known */
    bool is_bytes;                           /**< a prompt's bytes are its tokens */
    uint64_t vocabulary;                     /**< tokens of the tokenizer; 0: not known */
};

/** The possible sources of a run's tokenizer. The same on all ranks. */
struct text_sources {
    const char *resume;    /**< the checkpoint that is resumed; NULL: none */
    const char *from;      /**< the weights that it begins with, or evaluates; NULL: none */
    const char *tokenizer; /**< the directory that the user names; NULL: none */
    const char *data;
    size_t vocabulary; /**< of the weights */
};

/**
 * The text of the tokens of the weights at `path`: a checkpoint, a directory of checkpoints (the newest one), a
 * directory of public weights, or a safetensors file in one. It is the tokenizer in that directory; otherwise bytes, if
 * the checkpoint's manifest has them or the model has a `vocabulary` of 256; otherwise it is not known
 * (text_is_known()), as for public weights without a tokenizer's files. The tensors are not read. Errors: those
 * of tokenizer_open(); SYSTEM for a missing checkpoint; DATA for a malformed manifest.
 */
weft_status text_open_weights(const char *path, size_t vocabulary, struct text *text, struct error *error);

/**
 * The text of the tokens of a run's model, read by rank 0 and sent to all: that of `resume`, else that of `from`, else
 * the user's tokenizer. A user's tokenizer must equal that of `resume` or `from`. Collective; fails on all ranks or on
 * none (*speaks as in training/parallel/agreement.h).
 */
weft_status text_open_together(const struct text_sources *sources, weft_context *context, weft_comm *comm,
                               struct text *text, bool *speaks, struct error *error);

/** All ranks get rank `root`'s, in place of what their `text` held, which they have closed. Collective, as above. */
weft_status text_share(struct text *text, int root, weft_context *context, weft_comm *comm, bool *speaks,
                       struct error *error);

/**
 * Compare `text`, of a run's model, with the run's data, and complete it. Text data must be encoded with
 * text->tokenizer; if that is NULL, its bytes are tokens. Errors: DATA for text data if the tokenizer of the weights is
 * not known, and for tokens of another tokenizer; those of tokenizer_open() and packed_read().
 */
weft_status text_match_data(const struct text_sources *sources, struct text *text, struct error *error);

void text_close(struct text *text);

/**
 * The vocabulary of a model whose named size has `named` tokens: the tokenizer's, or the size's own where that is of
 * tokens (not 256, of bytes) and at least as large.
 */
size_t text_vocabulary(const struct text *text, size_t named);

/** The model has `vocabulary` tokens: without a tokenizer, 256 are bytes. */
void text_settle(struct text *text, size_t vocabulary);

/** Whether a prompt can be encoded and a sample printed. */
bool text_is_known(const struct text *text);

/** Encode the `size` bytes of a prompt. */
weft_status text_encode(const struct text *text, const char *prompt, size_t size, struct token_list *tokens,
                        struct error *error);

/** Tokens that stand for something, numbered from 0: a model may have more. */
size_t text_tokens(const struct text *text);

/** The bytes that `token`, below text_tokens(), stands for. They live as long as the text. */
const uint8_t *text_decode(const struct text *text, int32_t token, size_t *size);

#endif

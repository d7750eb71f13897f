/* SPDX-License-Identifier: Apache-2.0 */
/**
 * The layers, and how a network appends them to its description. For networks only.
 *
 * Names are those of the public safetensors, after a prefix such as "h.3."; a NULL name means that there is no such
 * parameter. Deviations are those of the initial values.
 */
#ifndef WEFT_TRAINING_MODEL_LAYERS_LAYERS_H
#define WEFT_TRAINING_MODEL_LAYERS_LAYERS_H

#include "training/model/layers/internal/common.h"
#include "training/model/layers/internal/pooler.h"
#include "training/model/layers/internal/convolution_unit.h"

/** Rows of a table by token, plus rows of others by position and by segment, perhaps normalized. The first layer of a
 * network. */
struct embedding {
    size_t vocabulary;
    size_t context;
    size_t width;
    double norm_epsilon;
    size_t table;     /**< indices of the parameters */
    size_t positions; /**< NO_PARAMETER: none */
    size_t segments;  /**< EMBEDDING_SEGMENTS rows; NO_PARAMETER: none */
    struct norm norm; /**< gain NO_PARAMETER: none */
};

#define EMBEDDING_SEGMENTS 2

struct embedding_names {
    const char *table, *positions, *segments;
    const char *norm_gain, *norm_bias;
};

weft_status embedding_add(struct model_description *description, const struct embedding *embedding, double deviation,
                          const struct embedding_names *names, size_t *table_number, struct error *error);

/** Self-attention as a branch of the residual stream: x + out(attention(qkv(norm(x)))), or with norm.after norm(x +
 * out(attention(qkv(x)))). */
struct attention_layer {
    struct norm norm;
    size_t heads, kv_heads, head_width;
    bool sees_all;      /**< not causal: each position sees all of its sequence that is no padding */
    double rotary_base; /**< 0: no rotary positions */
    struct linear qkv;  /**< one product, or the next three */
    struct linear q, k, v;
    struct linear out;
};

struct attention_names {
    const char *prefix;
    const char *norm_gain, *norm_bias;
    const char *qkv, *qkv_bias; /**< all in one, or: */
    const char *q, *k, *v;
    const char *q_bias, *k_bias, *v_bias; /**< all or none */
    const char *out, *out_bias;
};

weft_status attention_add(struct model_description *description, const struct attention_layer *attention,
                          const struct attention_names *names, bool outputs_first, double deviation,
                          double out_deviation, struct error *error);

/** x + down(gelu(up(norm(x)))), or x + down(silu(gate(n)) up(n)) with n = norm(x), or with norm.after norm(x +
 * down(gelu(up(x)))). */
struct feed_forward {
    struct norm norm;
    size_t hidden; /**< elements of a row between up and down */
    bool gated;
    bool by_erf; /**< GELU itself, not its approximation by tanh */
    struct linear gate, up, down;
};

struct feed_forward_names {
    const char *prefix;
    const char *norm_gain, *norm_bias;
    const char *gate; /**< NULL: GELU */
    const char *up, *up_bias;
    const char *down, *down_bias;
};

weft_status feed_forward_add(struct model_description *description, const struct feed_forward *feed_forward,
                             const struct feed_forward_names *names, bool outputs_first, double deviation,
                             double down_deviation, struct error *error);

/** gelu(linear(the concatenated norms of the last `window` rows)); rows before the first of a sequence are 0. It is not
 * a branch: its output rows may have another width than its input rows. */
struct dense {
    struct norm norm; /**< of the rows that enter */
    size_t window;    /**< 1: each row by itself */
    struct linear linear;
};

weft_status dense_add(struct model_description *description, const struct dense *dense, size_t width,
                      const char *prefix, double deviation, struct error *error);

/** Cross entropy of the next tokens, from norm(x) and a matrix of vocabulary x width. The last layer of a network.
 */
struct head {
    struct norm norm;
    size_t vocabulary; /**< of this tensor rank */
    size_t all;        /**< of all of them */
    struct linear logits;
};

/** With `matrix` NULL the head's matrix is parameter `table`, the first of the embedding. */
weft_status head_add(struct model_description *description, const struct head *head, double deviation,
                     const char *norm_gain, const char *norm_bias, const char *matrix, size_t table,
                     struct error *error);

/**
 * The head of a masked language model (Devlin et al. 2018, "BERT"): of the chosen rows cross entropy of their tokens, from
 * norm(gelu(transform(x))) and a matrix of vocabulary x width with a bias, and of each sample that of its label, from the
 * pooler. The last layer of a network. It leaves, in pass->losses, those of predictions and of labels, and the sums over
 * classes that they were made from.
 */
struct masked_head {
    struct norm norm;
    size_t vocabulary; /**< of this tensor rank */
    size_t all;        /**< of all of them */
    struct linear transform, logits;
    struct pooler pooler;
};

struct masked_head_names {
    const char *transform, *transform_bias;
    const char *norm_gain, *norm_bias;
    const char *bias; /**< of the logits */
    struct pooler_names pooler;
};

/** The matrix is parameter `table`, the first of the embedding. */
weft_status masked_head_add(struct model_description *description, const struct masked_head *head, double deviation,
                            const struct masked_head_names *names, size_t table, struct error *error);

/** The class of a whole sample, from the pooler. The last layer of a network. */
weft_status class_head_add(struct model_description *description, const struct pooler *pooler, double deviation,
                           const struct pooler_names *names, struct error *error);
/* ---- images: a row is an image, height x width x channels ---- */

#define BLOCK_UNITS_MOST 3

/** The names of kinds of blocks, for people. */
enum block_kind {
    BLOCK_STEM,       /**< reads the pixels */
    BLOCK_SEPARABLE,  /**< depthwise, then 1 x 1 (Howard et al. 2017, "MobileNets") */
    BLOCK_INVERTED,   /**< 1 x 1, depthwise, 1 x 1 (Sandler et al. 2018, "MobileNetV2: inverted residuals") */
    BLOCK_BASIC,      /**< two of 3 x 3 (He et al. 2015, "Deep residual learning") */
    BLOCK_BOTTLENECK, /**< 1 x 1, 3 x 3, 1 x 1 (the same) */
};

/**
 * Convolutions one after another, each with its batch norm and rectifier. What is added to the last norm's output, before
 * its rectifier: nothing, the input, or a shortcut, a convolution of the input with a batch norm. A max pool may follow.
 */
struct convolution_block {
    enum block_kind kind;
    size_t count;
    struct convolution_unit units[BLOCK_UNITS_MOST];
    bool adds_input;
    bool adds_shortcut;
    struct convolution_unit shortcut;
    bool pools;
    struct max_pool pool; /**< `batch` is 1 */
};

struct convolution_block_names {
    const char *layer; /**< "features.3" */
    struct convolution_unit_names units[BLOCK_UNITS_MOST], shortcut;
};

weft_status convolution_block_add(struct model_description *description, const struct convolution_block *block,
                                  const struct convolution_block_names *names, struct error *error);

/** The last layer of a network of images: the mean over all positions, linear(dropout(it)), and the cross entropy of the
 * two targets of each image with their shares. */
struct classifier {
    size_t positions, channels; /**< of the rows that enter */
    bool has_unit;              /**< a convolution comes before the mean */
    struct convolution_unit unit;
    bool drops; /**< where the run has dropout */
    struct linear linear;
};

struct classifier_names {
    struct convolution_unit_names unit;
    const char *weight, *bias;
};

weft_status classifier_add(struct model_description *description, const struct classifier *classifier, size_t classes,
                           const struct classifier_names *names, double deviation, struct error *error);

#endif

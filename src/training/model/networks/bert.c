/* SPDX-License-Identifier: Apache-2.0 */
/*
 * BERT (Devlin et al. 2018, "BERT: pre-training of deep bidirectional transformers for language understanding"):
 *
 *     x = norm(word[token] + position[position] + type[segment])
 *     each block:  x = norm(x + output(attention(query(x), key(x), value(x))))   every token sees all that are no padding
 *                  x = norm(x + output(gelu(intermediate(x))))
 *     pooled = tanh(pooler(x[0]))
 *
 * To pre-train, with `classes` 0: logits of the masked tokens = norm(gelu(transform(x))) word' + bias, and of whether the
 * second segment follows the first in its source = seq_relationship(pooled). To classify: logits = classifier(dropout(pooled)).
 *
 * Weights of linear layers lie as [outputs, inputs], named as in the published safetensors.
 */
#include "training/model/networks/networks.h"

#include <stdio.h>

#define BERT_DEVIATION    0.02
#define BERT_PAIR_CLASSES 2 /* of pairs in pre-training: the second segment follows the first, or it is random */

static void bert_complete(struct model_shape *shape)
{
    if (!shape->hidden)
        shape->hidden = 4 * shape->width;
    if (shape->norm_epsilon == 0)
        shape->norm_epsilon = 1e-12;
}

static void bert_inputs(const struct model_shape *shape, size_t sequence, struct model_inputs *inputs)
{
    inputs->elements[INPUT_TOKENS] = inputs->elements[INPUT_SEGMENTS] = sequence;
    inputs->most[INPUT_TOKENS] = (int64_t)shape->vocabulary - 1;
    inputs->most[INPUT_SEGMENTS] = EMBEDDING_SEGMENTS - 1;
    inputs->elements[INPUT_LENGTHS] = inputs->elements[INPUT_LABELS] = 1;
    inputs->least[INPUT_LENGTHS] = 1;
    inputs->most[INPUT_LENGTHS] = (int64_t)sequence;
    inputs->most[INPUT_LABELS] = (int64_t)(shape->classes ? shape->classes : BERT_PAIR_CLASSES) - 1;
    if (shape->classes)
        return;
    inputs->elements[INPUT_TARGETS] = inputs->elements[INPUT_POSITIONS] = model_masked_predictions(sequence);
    inputs->least[INPUT_TARGETS] = -1;
    inputs->most[INPUT_TARGETS] = (int64_t)shape->vocabulary - 1;
    inputs->most[INPUT_POSITIONS] = (int64_t)sequence - 1;
}

static weft_status bert_add_block(struct model_description *description, size_t number, struct error *error)
{
    const struct model_shape *shape = &description->shape;
    const struct norm norm = {.width = shape->width, .epsilon = shape->norm_epsilon, .after = true};
    const struct attention_layer attention = {.norm = norm,
                                              .heads = shape->heads,
                                              .kv_heads = shape->heads,
                                              .head_width = shape->width / shape->heads,
                                              .sees_all = true};
    const struct feed_forward feed_forward = {.norm = norm, .hidden = shape->hidden, .by_erf = true};
    char prefix[48];
    snprintf(prefix, sizeof prefix, "bert.encoder.layer.%zu.", number);
    weft_status status = attention_add(description, &attention,
                                       &(struct attention_names){.prefix = prefix,
                                                                 .norm_gain = "attention.output.LayerNorm.weight",
                                                                 .norm_bias = "attention.output.LayerNorm.bias",
                                                                 .q = "attention.self.query.weight",
                                                                 .q_bias = "attention.self.query.bias",
                                                                 .k = "attention.self.key.weight",
                                                                 .k_bias = "attention.self.key.bias",
                                                                 .v = "attention.self.value.weight",
                                                                 .v_bias = "attention.self.value.bias",
                                                                 .out = "attention.output.dense.weight",
                                                                 .out_bias = "attention.output.dense.bias"},
                                       true, BERT_DEVIATION, BERT_DEVIATION, error);
    if (status == WEFT_OK)
        status = feed_forward_add(description, &feed_forward,
                                  &(struct feed_forward_names){.prefix = prefix,
                                                               .norm_gain = "output.LayerNorm.weight",
                                                               .norm_bias = "output.LayerNorm.bias",
                                                               .up = "intermediate.dense.weight",
                                                               .up_bias = "intermediate.dense.bias",
                                                               .down = "output.dense.weight",
                                                               .down_bias = "output.dense.bias"},
                                  true, BERT_DEVIATION, BERT_DEVIATION, error);
    return status;
}

static weft_status bert_add_head(struct model_description *description, size_t table, struct error *error)
{
    const struct model_shape *shape = &description->shape;
    const struct pooler pooler = {.width = shape->width,
                                  .classes = shape->classes ? shape->classes : BERT_PAIR_CLASSES,
                                  .drops = shape->classes != 0};
    struct pooler_names names = {.dense = "bert.pooler.dense.weight",
                                 .dense_bias = "bert.pooler.dense.bias",
                                 .classifier = "classifier.weight",
                                 .classifier_bias = "classifier.bias"};
    if (shape->classes)
        return class_head_add(description, &pooler, BERT_DEVIATION, &names, error);
    names.classifier = "cls.seq_relationship.weight";
    names.classifier_bias = "cls.seq_relationship.bias";
    const struct masked_head head = {.norm = {.width = shape->width, .epsilon = shape->norm_epsilon},
                                     .vocabulary = shape->vocabulary,
                                     .pooler = pooler};
    return masked_head_add(description, &head, BERT_DEVIATION,
                           &(struct masked_head_names){.transform = "cls.predictions.transform.dense.weight",
                                                       .transform_bias = "cls.predictions.transform.dense.bias",
                                                       .norm_gain = "cls.predictions.transform.LayerNorm.weight",
                                                       .norm_bias = "cls.predictions.transform.LayerNorm.bias",
                                                       .bias = "cls.predictions.bias",
                                                       .pooler = names},
                           table, error);
}

static weft_status bert_describe(struct model_description *description, struct error *error)
{
    const struct model_shape *shape = &description->shape;
    const struct embedding embedding = {.vocabulary = shape->vocabulary,
                                        .context = shape->context,
                                        .width = shape->width,
                                        .norm_epsilon = shape->norm_epsilon};
    size_t table = NO_PARAMETER;
    weft_status status = transformer_check(shape, error);
    if (status == WEFT_OK)
        status = embedding_add(description, &embedding, BERT_DEVIATION,
                               &(struct embedding_names){.table = "bert.embeddings.word_embeddings.weight",
                                                         .positions = "bert.embeddings.position_embeddings.weight",
                                                         .segments = "bert.embeddings.token_type_embeddings.weight",
                                                         .norm_gain = "bert.embeddings.LayerNorm.weight",
                                                         .norm_bias = "bert.embeddings.LayerNorm.bias"},
                               &table, error);
    for (size_t i = 0; status == WEFT_OK && i < shape->layers; i++)
        status = bert_add_block(description, i, error);
    if (status == WEFT_OK)
        status = bert_add_head(description, table, error);
    return status;
}

static const char *const numbers[] = {"heads", "hidden", "classes", NULL};

const struct network bert_network = {
    .kind = "bert",
    .numbers = numbers,
    .complete = bert_complete,
    .inputs = bert_inputs,
    .describe = bert_describe,
};

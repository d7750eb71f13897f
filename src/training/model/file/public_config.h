/* SPDX-License-Identifier: Apache-2.0 */
/**
 * config.json, the file next to public weights that describes their shape, as the transformers library reads and writes
 * it.
 *
 *     model_type    read, and what must have this value where it is there
 *     gpt2          n_layer n_head n_embd n_positions (or n_ctx) vocab_size n_inner layer_norm_epsilon;
 *                   activation_function: gelu_new; tie_word_embeddings, scale_attn_weights: true; others
 *     llama         num_hidden_layers num_attention_heads num_key_value_heads hidden_size intermediate_size
 *                   max_position_embeddings vocab_size rms_norm_eps rope_theta tie_word_embeddings;
 *                   hidden_act: silu; rope_scaling: none; attention_bias, mlp_bias: false; head_dim: hidden_size / heads
 *     bert          num_hidden_layers num_attention_heads hidden_size intermediate_size max_position_embeddings
 *                   vocab_size layer_norm_eps; of BertForSequenceClassification num_labels, or the number of id2label;
 *                   hidden_act: gelu; position_embedding_type: absolute; type_vocab_size: 2; tie_word_embeddings: true;
 *                   is_decoder: false
 *
 * Keys that would make it another network are refused with a message. The rest (dropout, token numbers, types) does not
 * change the shape and is ignored.
 */
#ifndef WEFT_TRAINING_MODEL_FILE_PUBLIC_CONFIG_H
#define WEFT_TRAINING_MODEL_FILE_PUBLIC_CONFIG_H

#include "base/format/json.h"
#include "training/model/model.h"

#define PUBLIC_CONFIG_NAME "config.json"

/** Read the text of a config.json; `where` names it in messages. Errors: DATA. */
weft_status public_config_parse(const char *text, size_t size, const char *where, struct model_shape *shape,
                                struct error *error);

/** The same for the file at `path`. */
weft_status public_config_read(const char *path, struct model_shape *shape, struct error *error);

/** The names of classes in the file at `path`, by number; NULL: it names none, or only LABEL_0 and so on, which stand for
 * numbers. The caller frees `*names` with cJSON_Delete(). Errors: SYSTEM; DATA for a file that is not an object. */
weft_status public_config_class_names(const char *path, cJSON **names, struct error *error);

/** The text of a config.json for weights of `type` (f32, f16, bf16) and a complete shape; the caller frees `*text`.
 * `class_names`: an array of strings for id2label and label2id; NULL: LABEL_0 and so on. */
weft_status public_config_format(const struct model_shape *shape, const cJSON *class_names, weft_type type, char **text,
                                 struct error *error);

#endif

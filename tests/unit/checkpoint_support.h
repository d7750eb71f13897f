/* SPDX-License-Identifier: Apache-2.0 */
/** For tests of checkpoints: a small model's tensors and state, made from a number, and their hash. */
#ifndef WEFT_TESTS_CHECKPOINT_SUPPORT_H
#define WEFT_TESTS_CHECKPOINT_SUPPORT_H

#include "base/random.h"
#include "temporary.h"
#include "training/checkpoint/checkpoint.h"

#define SUPPORT_WEIGHTS 3

/** Weights and two moments of each, of `rows` rows, filled from `seed`. */
struct small_model {
    struct named_tensor weights[SUPPORT_WEIGHTS];
    struct named_tensor optimizer[2 * SUPPORT_WEIGHTS];
    struct checkpoint_state state;
    cJSON *model, *training;
    float *memory;
};

static inline void small_model_make(struct small_model *small, uint64_t seed, uint64_t step, uint64_t rows)
{
    static const char *const names[3 * SUPPORT_WEIGHTS] = {
        "wte.weight",
        "h.0.ln_1.bias",
        "ln_f.weight",
        "wte.weight.exp_avg",
        "h.0.ln_1.bias.exp_avg",
        "ln_f.weight.exp_avg",
        "wte.weight.exp_avg_sq",
        "h.0.ln_1.bias.exp_avg_sq",
        "ln_f.weight.exp_avg_sq",
    };
    uint64_t sizes[SUPPORT_WEIGHTS] = {rows * 6, 6, 1}, total = 3 * (rows * 6 + 6 + 1);
    small->memory = malloc(total * sizeof(float));
    for (uint64_t i = 0; i < total; i++)
        small->memory[i] = (float)random_uniform(seed, i);
    float *next = small->memory;
    for (int i = 0; i < 3 * SUPPORT_WEIGHTS; i++) {
        int kind = i % SUPPORT_WEIGHTS;
        struct named_tensor tensor = {names[i], WEFT_F32, kind == 0 ? 2 : 1, {0}, 0, 0, next};
        memcpy(tensor.shape, kind == 0 ? (uint64_t[]){rows, 6} : (uint64_t[]){sizes[kind], 0}, 2 * sizeof(uint64_t));
        *(i < SUPPORT_WEIGHTS ? &small->weights[i] : &small->optimizer[i - SUPPORT_WEIGHTS]) = tensor;
        next += sizes[kind];
    }
    small->model = cJSON_CreateObject();
    cJSON_AddStringToObject(small->model, "kind", "gpt");
    cJSON_AddNumberToObject(small->model, "layers", 1);
    cJSON_AddNumberToObject(small->model, "width", 6);
    small->training = cJSON_CreateObject();
    cJSON_AddNumberToObject(small->training, "learning_rate", 3e-4);
    small->state = (struct checkpoint_state){step, 32 * step, seed, small->model, small->training, false};
}

static inline void small_model_free(struct small_model *small)
{
    cJSON_Delete(small->model);
    cJSON_Delete(small->training);
    free(small->memory);
}

static inline weft_status small_model_save(const struct small_model *small, const char *run, unsigned keep,
                                           struct error *error)
{
    return checkpoint_save(run, &small->state, small->weights, SUPPORT_WEIGHTS, small->optimizer, 2 * SUPPORT_WEIGHTS,
                           keep, error);
}

static inline const void *support_take(void *owner, const void *bytes, uint64_t size)
{
    return bytes;
}

static inline void support_give_back(void *owner, const void *bytes, uint64_t size)
{
}

/** The same as two ranks write it: parts of whole tensors, from a source, and an index. */
static inline weft_status small_model_save_in_parts(const struct small_model *small, const char *run, unsigned keep,
                                                    struct error *error)
{
    const struct byte_source source = {NULL, support_take, support_give_back};
    const struct checkpoint_place places[SUPPORT_WEIGHTS] = {
        {small->weights[0].name, 0}, {small->weights[1].name, 1}, {small->weights[2].name, 1}};
    const uint64_t bytes = 4 * (small->weights[0].shape[0] * 6 + 6 + 1), step = small->state.step;
    struct checkpoint_record records[5];
    weft_status status = checkpoint_begin(run, step, error);
    for (unsigned part = 0; part < 2 && status == WEFT_OK; part++) {
        status = checkpoint_write_part(run, step, "model", part, 2, &small->weights[part], part ? 2 : 1, &source,
                                       &records[part], error);
        if (status == WEFT_OK)
            status = checkpoint_write_part(run, step, "optimizer", part, 2, &small->optimizer[SUPPORT_WEIGHTS * part],
                                           SUPPORT_WEIGHTS, &source, &records[2 + part], error);
    }
    if (status == WEFT_OK)
        status = checkpoint_write_index(run, step, places, SUPPORT_WEIGHTS, 2, bytes, &records[4], error);
    if (status == WEFT_OK)
        status = checkpoint_commit(run, &small->state, records, 5, keep, error);
    if (status != WEFT_OK)
        checkpoint_abandon(run, step);
    return status;
}

static inline void support_hash_number(struct sha256 *hash, uint64_t number)
{
    sha256_update(hash, &number, sizeof number);
}

static inline void support_hash_text(struct sha256 *hash, const char *text)
{
    support_hash_number(hash, strlen(text));
    sha256_update(hash, text, strlen(text));
}

/** The hash of checkpoint_hash() over `count` whole tensors in memory, in any order, by its definition. */
static inline weft_status support_hash_tensors(const struct named_tensor *tensors, size_t count,
                                               uint8_t digest[SHA256_BYTES])
{
    const struct named_tensor *order[4 * SUPPORT_WEIGHTS];
    struct sha256 hash;
    named_tensors_sort(tensors, count, order);
    weft_status status = sha256_begin(&hash, NULL);
    if (status != WEFT_OK)
        return status;
    sha256_update(&hash, "weft tensors 1\n", 15);
    for (size_t i = 0; i < count; i++) {
        support_hash_text(&hash, order[i]->name);
        support_hash_text(&hash, weft_type_name(order[i]->type));
        support_hash_number(&hash, order[i]->dimensions);
        for (unsigned d = 0; d < order[i]->dimensions; d++)
            support_hash_number(&hash, order[i]->shape[d]);
        sha256_update(&hash, order[i]->data, named_tensor_held(order[i]) * weft_type_size(order[i]->type));
    }
    return sha256_end(&hash, digest, NULL);
}

/** The hash over weights and optimizer state, as text. */
static inline const char *small_model_hash(const struct small_model *small, char text[SHA256_TEXT_BYTES])
{
    struct named_tensor all[3 * SUPPORT_WEIGHTS];
    uint8_t digest[SHA256_BYTES];
    memcpy(all, small->optimizer, sizeof small->optimizer);
    memcpy(all + 2 * SUPPORT_WEIGHTS, small->weights, sizeof small->weights);
    if (support_hash_tensors(all, 3 * SUPPORT_WEIGHTS, digest) != WEFT_OK)
        exit(1);
    return sha256_text(digest, text);
}

#endif

/* SPDX-License-Identifier: Apache-2.0 */
#include "training/checkpoint/internal/tensor_hash.h"

#include <stdlib.h>
#include <string.h>

#define HASH_HEADING "weft tensors 1\n"

static void tensor_hash_put_number(struct sha256 *hash, uint64_t number)
{
    sha256_update(hash, &number, sizeof number);
}

static void tensor_hash_put_text(struct sha256 *hash, const char *text)
{
    tensor_hash_put_number(hash, strlen(text));
    sha256_update(hash, text, strlen(text));
}

weft_status tensor_hash_begin(struct sha256 *hash, struct error *error)
{
    weft_status status = sha256_begin(hash, error);
    if (status == WEFT_OK)
        sha256_update(hash, HASH_HEADING, strlen(HASH_HEADING));
    return status;
}

void tensor_hash_describe(struct sha256 *hash, const struct named_tensor *tensor)
{
    tensor_hash_put_text(hash, tensor->name);
    tensor_hash_put_text(hash, weft_type_name(tensor->type));
    tensor_hash_put_number(hash, tensor->dimensions);
    for (unsigned i = 0; i < tensor->dimensions; i++)
        tensor_hash_put_number(hash, tensor->shape[i]);
}

void tensor_hash_elements(struct sha256 *hash, const struct named_tensor *tensor)
{
    sha256_update(hash, tensor->data, named_tensor_held(tensor) * weft_type_size(tensor->type));
}

weft_status checkpoint_hash_tensors(const struct named_tensor *tensors, size_t count, uint8_t digest[SHA256_BYTES],
                                    struct error *error)
{
    const struct named_tensor **order = malloc((count + 1) * sizeof *order);
    if (!order)
        return error_memory(error, count * sizeof *order, "a list of tensors");
    const char *twice = named_tensors_sort(tensors, count, order);
    struct sha256 hash;
    weft_status status = twice ? error_set(error, WEFT_ERROR_ARGUMENT, "two tensors to hash are called '%s'", twice)
                               : tensor_hash_begin(&hash, error);
    if (status == WEFT_OK) {
        for (size_t i = 0; i < count && status == WEFT_OK; i++) {
            if (!named_tensor_is_whole(order[i]))
                status = error_set(error, WEFT_ERROR_ARGUMENT,
                                   "tensor '%s' is only a piece, and pieces cannot be hashed alone", order[i]->name);
            tensor_hash_describe(&hash, order[i]);
            tensor_hash_elements(&hash, order[i]);
        }
        weft_status ended = sha256_end(&hash, status == WEFT_OK ? digest : NULL, error);
        status = status == WEFT_OK ? ended : status;
    }
    free((void *)order);
    return status;
}

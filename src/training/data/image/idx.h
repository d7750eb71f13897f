/* SPDX-License-Identifier: Apache-2.0 */
/**
 * Files in MNIST's format idx, plain or compressed by gzip: a magic number (0, 0, the type 8 of unsigned bytes, the number
 * of dimensions), the dimensions as big-endian 32-bit numbers, and the bytes (LeCun, Cortes, Burges, "The MNIST
 * database"). Read whole into memory. Thread-safe.
 */
#ifndef WEFT_TRAINING_DATA_IMAGE_IDX_H
#define WEFT_TRAINING_DATA_IMAGE_IDX_H

#include "base/error.h"

#include <stdint.h>

#define IDX_DIMENSIONS_MOST 4u

struct idx {
    uint32_t dimensions; /**< 1 to 4 */
    uint32_t sizes[IDX_DIMENSIONS_MOST];
    uint8_t *values; /**< the product of all sizes; the caller frees it with idx_free() */
};

/**
 * Read the file at `path`. Errors: SYSTEM; DATA for another format, bytes that are missing or too many, a size of 0, and
 * sizes that no file of this length can have.
 */
weft_status idx_read(const char *path, struct idx *idx, struct error *error);

/** The same from `size` bytes; `path` is for messages. */
weft_status idx_parse(const void *bytes, size_t size, const char *path, struct idx *idx, struct error *error);

/** Free the values. */
void idx_free(struct idx *idx);

#endif

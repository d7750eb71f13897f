/* SPDX-License-Identifier: Apache-2.0 */
/**
 * The safetensors file format, https://github.com/huggingface/safetensors: read with every check of the reference
 * implementation, and written as it writes, so that Weft and other tools can read each other's files.
 *
 *     8 bytes     size N of the header, little-endian, at most 100,000,000
 *     N bytes     a JSON object: {"NAME": {"dtype": "F32", "shape": [2,3], "data_offsets": [0,24]}, ...,
 *                 "__metadata__": {"KEY": "TEXT", ...}}, padded with spaces to a multiple of 8
 *     the rest    the elements, little-endian, row-major: touching, not overlapping, nothing left over
 *
 * A *piece* is Weft's one addition, for files in which several ranks each write a range of a large tensor: it is stored
 * as a one-dimensional tensor of its elements, and `__metadata__` has "piece NAME": "FIRST D0 D1 ...", the number of
 * its first element and the shape of the whole. Other tools see a valid file with flat tensors.
 */
#ifndef WEFT_TRAINING_CHECKPOINT_SAFETENSORS_H
#define WEFT_TRAINING_CHECKPOINT_SAFETENSORS_H

#include "base/error.h"
#include "base/sha256.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define NAMED_TENSOR_DIMENSIONS 8

/** A tensor, or a piece of one, with the name it has in files. `name` and `data` belong to the code that made the struct. */
struct named_tensor {
    const char *name;
    weft_type type;
    unsigned dimensions;
    uint64_t shape[NAMED_TENSOR_DIMENSIONS]; /**< of the whole tensor, row-major */
    uint64_t first;                          /**< number of the first element held here; 0 for a whole tensor */
    uint64_t count;                          /**< elements held here; 0: all from `first` on */
    void *data;                              /**< the elements held here: count x weft_type_size(type) bytes */
};

/** Elements of the whole tensor; UINT64_MAX if the product overflows. 1 for no dimensions. */
uint64_t named_tensor_elements(const struct named_tensor *tensor);

/** Elements held here. */
uint64_t named_tensor_held(const struct named_tensor *tensor);

/** Whether all elements are held here; whether two have the same shape. */
bool named_tensor_is_whole(const struct named_tensor *tensor);
bool named_tensor_same_shape(const struct named_tensor *a, const struct named_tensor *b);

/** Fill `order` with pointers to `count` tensors, sorted by name (by bytes); returns a name that is there twice, or
 * NULL. */
const char *named_tensors_sort(const struct named_tensor *tensors, size_t count, const struct named_tensor **order);

/** Write "[768, 50257]" to `text`; returns it. */
char *named_tensor_shape_text(const struct named_tensor *tensor, char *text, size_t size);

/** Size and hash of a written file. */
struct file_digest {
    uint64_t bytes;
    uint8_t sha256[SHA256_BYTES];
};

/**
 * Write `count` tensors to the file at `path` and sync it; not atomic by itself (see base/file/file.h). In the file they are
 * in the reference implementation's order: larger element types first, then by name. On an error the file is removed.
 * Errors: ARGUMENT for an empty or double name, an impossible shape or range; SYSTEM for a full disk and the like.
 */
weft_status safetensors_write(const char *path, const struct named_tensor *tensors, size_t count,
                              struct file_digest *digest, struct error *error);

/**
 * Access to the elements of a file while it is written, for memory that its owner may change. The writer acquires a
 * range just before reading it, and releases it afterwards. Called by the writing thread alone.
 */
struct byte_source {
    void *owner;
    /** Where the `size` bytes that were at `bytes` can be read now; NULL cancels the file. */
    const void *(*acquire)(void *owner, const void *bytes, uint64_t size);
    /** The acquired range has been read. */
    void (*release)(void *owner, const void *bytes, uint64_t size);
};

/**
 * The same by the calling thread alone, in pieces of at most SAFETENSORS_PIECE bytes, each acquired from `source`, hashed
 * and written while it is in the processor's cache: for a thread that shares a core with others. Errors besides those
 * above: ABORTED if `source` cancels the file.
 */
#define SAFETENSORS_PIECE ((uint64_t)1 << 20)
weft_status safetensors_write_from(const char *path, const struct named_tensor *tensors, size_t count,
                                   const struct byte_source *source, struct file_digest *digest, struct error *error);

struct safetensors;

/**
 * Map the file at `path` and check its structure (not its content: there is no checksum in the format). Errors: DATA,
 * with a message that names file and tensor, for everything that the reference implementation refuses, and for element
 * types that weft_type lacks.
 */
weft_status safetensors_open(const char *path, struct safetensors **file, struct error *error);

/**
 * The same for `size` bytes in memory, which must outlive `*file`; `where` names them in messages
 * ("'RUN/model.safetensors'").
 */
weft_status safetensors_parse(const uint8_t *bytes, uint64_t size, const char *where, struct safetensors **file,
                              struct error *error);
void safetensors_close(struct safetensors *file);

/** The tensors, in the order of their data; valid until close. Their `data` is read-only memory of the file, of any
 * alignment. */
size_t safetensors_count(const struct safetensors *file);
const struct named_tensor *safetensors_tensor(const struct safetensors *file, size_t index);

/** The file as error messages name it: its path in quotes, or safetensors_parse()'s `where`. */
const char *safetensors_where(const struct safetensors *file);

/** The text of `key` in "__metadata__", or NULL. */
const char *safetensors_metadata(const struct safetensors *file, const char *key);

/** The format's word for an element type ("F32"). */
const char *safetensors_type_name(weft_type type);

#endif

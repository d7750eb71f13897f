/* SPDX-License-Identifier: Apache-2.0 */
/**
 * Writes token shards of llm.c (dataset.h has the format) sequentially: NAME_000000.bin, NAME_000001.bin ... in a
 * directory, each with a bounded number of tokens. Belongs to one thread at a time.
 */
#ifndef WEFT_TRAINING_DATA_SHARD_WRITER_H
#define WEFT_TRAINING_DATA_SHARD_WRITER_H

#include "base/file/file.h"
#include "training/data/shard.h"

#define SHARD_WRITER_BUFFER 65536                     /* tokens */
#define SHARD_WRITER_MOST   (((uint64_t)1 << 31) - 1) /* tokens in a file: the header counts with an int32 */

struct shard_writer {
    char directory[FILE_PATH_BYTES];
    const char *name;         /**< "train" or "val", borrowed */
    enum shard_format format; /**< SHARD_LLMC or SHARD_LLMC_WIDE */
    uint64_t most;            /**< tokens in a file */
    uint64_t files;           /**< begun so far */
    uint64_t tokens;          /**< given so far */
    uint64_t in_file;         /**< tokens in the open file, those in the buffer included */
    size_t buffered;
    struct file_writer file;
    bool open;
    uint32_t buffer[SHARD_WRITER_BUFFER]; /**< tokens in the file's form */
};

/** The narrowest format for numbers below `vocabulary`. */
enum shard_format shard_writer_format(uint64_t vocabulary);

/** Begin. The first file is created with the first token. The struct is large: do not put it on the stack. */
void shard_writer_open(struct shard_writer *writer, const char *directory, const char *name, enum shard_format format,
                       uint64_t most);

/** Append tokens. After an error, only discard is allowed. */
weft_status shard_writer_append(struct shard_writer *writer, const int32_t *tokens, size_t count, struct error *error);

/** Finish the last file. */
weft_status shard_writer_close(struct shard_writer *writer, struct error *error);

/** Discard the open file; harmless after close. Finished files stay. */
void shard_writer_discard(struct shard_writer *writer);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
#include "training/data/shard_writer.h"

#include <endian.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum shard_format shard_writer_format(uint64_t vocabulary)
{
    return vocabulary <= UINT16_MAX + 1 ? SHARD_LLMC : SHARD_LLMC_WIDE;
}

void shard_writer_open(struct shard_writer *writer, const char *directory, const char *name, enum shard_format format,
                       uint64_t most)
{
    snprintf(writer->directory, sizeof writer->directory, "%s", directory);
    writer->name = name;
    writer->format = format;
    writer->most = most;
    writer->files = writer->tokens = writer->in_file = 0;
    writer->buffered = 0;
    writer->open = false;
}

static weft_status shard_writer_begin_file(struct shard_writer *writer, struct error *error)
{
    char name[64], path[FILE_PATH_BYTES];
    uint8_t header[SHARD_HEADER_BYTES] = {0};
    snprintf(name, sizeof name, "%s_%06" PRIu64 ".bin", writer->name, writer->files);
    weft_status status = file_join(path, writer->directory, name, error);
    if (status == WEFT_OK)
        status = file_writer_open(&writer->file, path, 0, error);
    if (status != WEFT_OK)
        return status;
    writer->open = true;
    writer->files++;
    writer->in_file = 0;
    return file_writer_append(&writer->file, header, sizeof header, error);
}

static weft_status shard_writer_flush(struct shard_writer *writer, struct error *error)
{
    size_t count = writer->buffered, width = 4;
    if (writer->format == SHARD_LLMC) {
        uint16_t *packed = (uint16_t *)writer->buffer; /* the front of the same memory: no token is read after that */
        for (size_t i = 0; i < count; i++) {
            uint16_t token = htole16((uint16_t)writer->buffer[i]);
            memcpy(&packed[i], &token, sizeof token);
        }
        width = sizeof *packed;
    } else {
        for (size_t i = 0; i < count; i++)
            writer->buffer[i] = htole32(writer->buffer[i]);
    }
    writer->buffered = 0;
    return file_writer_append(&writer->file, writer->buffer, count * width, error);
}

/* The header is known at the end. */
static weft_status shard_writer_end_file(struct shard_writer *writer, struct error *error)
{
    weft_status status = shard_writer_flush(writer, error);
    if (status != WEFT_OK)
        return status;
    uint8_t header[SHARD_HEADER_BYTES];
    shard_header_write(header, writer->format, writer->in_file);
    if (pwrite(writer->file.descriptor, header, sizeof header, 0) != (ssize_t)sizeof header)
        return error_system(error, "cannot write the header of '%s'", writer->file.path);
    writer->open = false;
    return file_writer_close(&writer->file, error);
}

weft_status shard_writer_append(struct shard_writer *writer, const int32_t *tokens, size_t count, struct error *error)
{
    weft_status status = WEFT_OK;
    writer->tokens += count;
    while (count > 0 && status == WEFT_OK) {
        if (!writer->open && (status = shard_writer_begin_file(writer, error)) != WEFT_OK)
            return status;
        uint64_t left = writer->most - writer->in_file;
        size_t room = SHARD_WRITER_BUFFER - writer->buffered, some = count < room ? count : room;
        if (some > left)
            some = (size_t)left;
        for (size_t i = 0; i < some; i++)
            writer->buffer[writer->buffered + i] = (uint32_t)tokens[i];
        writer->buffered += some;
        writer->in_file += some;
        tokens += some;
        count -= some;
        if (writer->in_file == writer->most)
            status = shard_writer_end_file(writer, error);
        else if (writer->buffered == SHARD_WRITER_BUFFER)
            status = shard_writer_flush(writer, error);
    }
    return status;
}

weft_status shard_writer_close(struct shard_writer *writer, struct error *error)
{
    return writer->open ? shard_writer_end_file(writer, error) : WEFT_OK;
}

void shard_writer_discard(struct shard_writer *writer)
{
    if (writer->open)
        file_writer_discard(&writer->file);
    writer->open = false;
}

/* SPDX-License-Identifier: Apache-2.0 */
#include "launch/internal/output.h"

#include "base/file/file.h"
#include "base/terminal.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define WAITING_MOST (1u << 20)
#define LINE_MOST    65536 /* a longer line is cut */
#define PATIENCE_MS  5000

static weft_status launch_output_prepare_files(struct output *output, struct error *error)
{
    weft_status status = file_make_directory(output->directory, error);
    output->files = malloc(2 * output->ranks * sizeof *output->files);
    if (status == WEFT_OK && !output->files)
        status = error_memory(error, 2 * output->ranks * sizeof *output->files, "the output files");
    for (uint32_t i = 0; output->files && i < 2 * output->ranks; i++)
        output->files[i] = -1;
    return status;
}

static weft_status launch_output_open_files(struct output *output, uint32_t rank, struct error *error)
{
    static const char *const endings[] = {"out", "err"};
    weft_status status = WEFT_OK;
    for (uint32_t i = 0; status == WEFT_OK && i < 2; i++) {
        char name[40], path[FILE_PATH_BYTES];
        snprintf(name, sizeof name, "rank-%u.%s", rank, endings[i]);
        status = file_join(path, output->directory, name, error);
        if (status != WEFT_OK)
            break;
        const int file = open(path, O_WRONLY | O_CREAT | O_CLOEXEC | (output->appends ? O_APPEND : O_TRUNC), 0666);
        if (file < 0)
            status = error_system(error, "cannot write the output file '%s'", path);
        output->files[2 * rank + i] = file;
    }
    return status;
}

weft_status output_rank_begin(struct output *output, uint32_t rank, const char *host, struct error *error)
{
    if (output->files)
        return launch_output_open_files(output, rank, error);
    if (output->prefixes &&
        asprintf(&output->prefixes[rank], host ? "[rank %u %s] " : "[rank %u] ", rank, host ? host : "") < 0)
        output->prefixes[rank] = NULL;
    return WEFT_OK;
}

weft_status output_open(struct output *output, uint32_t ranks, const char *directory, bool prefix, struct error *error)
{
    *output = (struct output){.ranks = ranks,
                              .directory = directory,
                              .sinks = {{.descriptor = STDOUT_FILENO}, {.descriptor = STDERR_FILENO}}};
    for (int i = 0; i < 2; i++)
        output->sinks[i].columns = terminal_columns(output->sinks[i].descriptor);
    output->partial = calloc(2 * ranks, sizeof *output->partial);
    weft_status status =
        output->partial ? WEFT_OK : error_memory(error, 2 * ranks * sizeof *output->partial, "the output");
    if (status == WEFT_OK && directory)
        status = launch_output_prepare_files(output, error);
    else if (status == WEFT_OK && prefix)
        output->prefixes = calloc(ranks, sizeof *output->prefixes);
    if (status != WEFT_OK)
        output_close(output);
    return status;
}

static void launch_output_write_file(int descriptor, const uint8_t *bytes, size_t size)
{
    while (size > 0) {
        ssize_t n = write(descriptor, bytes, size);
        if (n < 0 && errno != EINTR)
            return;
        bytes += n > 0 ? n : 0;
        size -= n > 0 ? (size_t)n : 0;
    }
}

/* ---- the live line ---- */

#define ERASE_LINE "\r\033[K"

uint32_t output_live_columns(const struct output *output)
{
    size_t prefix = 0;
    for (uint32_t rank = 0; output->prefixes && rank < output->ranks; rank++)
        if (output->prefixes[rank] && strlen(output->prefixes[rank]) > prefix)
            prefix = strlen(output->prefixes[rank]);
    const uint32_t columns = output->files ? 0 : output->sinks[0].columns;
    return columns > prefix ? columns - (uint32_t)prefix : 0;
}

/* Both streams may be the same terminal, so the next write to either erases the line. */
static void output_live_erase(struct output *output, struct output_sink *sink)
{
    if (output->live && sink->columns)
        buffer_put(&sink->waiting, ERASE_LINE, strlen(ERASE_LINE));
    output->live = false;
}

/* The text after the last carriage return that no newline follows; `bytes` if there is none. */
static const uint8_t *output_after_return(const uint8_t *bytes, size_t size)
{
    const size_t newline = size >= 2 && bytes[size - 1] == '\n' && bytes[size - 2] == '\r' ? 2 : 0;
    const uint8_t *found = memrchr(bytes, '\r', size - newline);
    return found ? found + 1 : bytes;
}

/* Bytes of `text` that fit `columns`. Control sequences take no column, nor do the further bytes of a character. */
static size_t output_bytes_fitting(const uint8_t *text, size_t size, uint32_t columns)
{
    size_t used = 0, i = 0;
    while (i < size) {
        if (text[i] == '\033') {
            for (i += i + 1 < size && text[i + 1] == '[' ? 2 : 1; i < size && (text[i] < 0x40 || text[i] > 0x7e);)
                i++;
            i += i < size;
            continue;
        }
        used += (text[i] & 0xc0) != 0x80;
        if (used > columns)
            break;
        i++;
    }
    return i;
}

/* Show a line that the rank will overwrite, and forget those that it has overwritten. */
static void output_live_show(struct output *output, uint32_t rank, uint32_t stream, struct buffer *partial)
{
    struct output_sink *sink = &output->sinks[stream - 1];
    const uint8_t *bytes = buffer_begin(partial), *text = output_after_return(bytes, buffer_size(partial));
    if (!sink->columns || sink->broken || text == bytes)
        return;
    const size_t size = buffer_size(partial) - (size_t)(text - bytes);
    const char *prefix = output->prefixes && output->prefixes[rank] ? output->prefixes[rank] : "";
    const bool is_seen = output_bytes_fitting(text, size, 0) < size;
    output_live_erase(output, sink);
    if (is_seen && strlen(prefix) < sink->columns) {
        buffer_put(&sink->waiting, prefix, strlen(prefix));
        /* The last column stays empty: some terminals wrap when it is written. */
        buffer_put(&sink->waiting, text,
                   output_bytes_fitting(text, size, sink->columns - 1 - (uint32_t)strlen(prefix)));
        output->live = true;
    }
    buffer_consume(partial, (size_t)(text - bytes) - 1); /* the return stays: the text after it is live, too */
}

/* ---- lines ---- */

static void launch_output_put_line(struct output *output, uint32_t rank, uint32_t stream, const uint8_t *bytes,
                                   size_t size)
{
    struct output_sink *sink = &output->sinks[stream - 1];
    if (sink->broken)
        return;
    output_live_erase(output, sink);
    if (sink->columns) {
        const uint8_t *text = output_after_return(bytes, size);
        size -= (size_t)(text - bytes);
        bytes = text;
        if (output_bytes_fitting(bytes, size, 0) == size) /* a line of progress that was erased at the end */
            return;
    }
    if (output->prefixes && output->prefixes[rank])
        buffer_put(&sink->waiting, output->prefixes[rank], strlen(output->prefixes[rank]));
    buffer_put(&sink->waiting, bytes, size);
    if (bytes[size - 1] != '\n' && output->prefixes)
        buffer_put(&sink->waiting, "\n", 1);
}

void output_take(struct output *output, uint32_t rank, uint32_t stream, const uint8_t *bytes, size_t size)
{
    if (rank >= output->ranks || stream < 1 || stream > 2)
        return;
    uint32_t slot = 2 * rank + stream - 1;
    if (output->files) {
        launch_output_write_file(output->files[slot], bytes, size);
        return;
    }
    struct buffer *partial = &output->partial[slot];
    while (size > 0) {
        const uint8_t *end = memchr(bytes, '\n', size);
        size_t piece = end ? (size_t)(end - bytes) + 1 : size;
        buffer_put(partial, bytes, piece);
        bytes += piece;
        size -= piece;
        if (!end && buffer_size(partial) < LINE_MOST) {
            output_live_show(output, rank, stream, partial);
            return;
        }
        launch_output_put_line(output, rank, stream, buffer_begin(partial), buffer_size(partial));
        buffer_consume(partial, buffer_size(partial));
    }
}

void output_say(struct output *output, const char *line)
{
    struct output_sink *sink = &output->sinks[1];
    output_live_erase(output, sink);
    buffer_put(&sink->waiting, line, strlen(line));
    buffer_put(&sink->waiting, "\n", 1);
}

bool output_is_full(const struct output *output)
{
    return buffer_size(&output->sinks[0].waiting) > WAITING_MOST ||
           buffer_size(&output->sinks[1].waiting) > WAITING_MOST;
}

/* These streams may be shared with other programs, so they stay blocking: write no more than a ready pipe takes. */
static void output_sink_write(struct output_sink *sink)
{
    size_t size = buffer_size(&sink->waiting);
    ssize_t n = write(sink->descriptor, buffer_begin(&sink->waiting), size < PIPE_BUF ? size : PIPE_BUF);
    if (n > 0) {
        buffer_consume(&sink->waiting, (size_t)n);
    } else if (n < 0 && errno != EAGAIN && errno != EINTR) {
        sink->broken = true;
        buffer_consume(&sink->waiting, size);
    }
}

void output_write(struct output *output, const bool ready[2])
{
    for (int i = 0; i < 2; i++)
        if (ready[i] && buffer_size(&output->sinks[i].waiting) > 0)
            output_sink_write(&output->sinks[i]);
}

void output_close(struct output *output)
{
    for (uint32_t slot = 0; output->partial && slot < 2 * output->ranks; slot++) {
        struct buffer *partial = &output->partial[slot];
        if (buffer_size(partial) > 0)
            launch_output_put_line(output, slot / 2, slot % 2 + 1, buffer_begin(partial), buffer_size(partial));
        buffer_free(partial);
    }
    output_live_erase(output, &output->sinks[0]);
    for (int i = 0; i < 2; i++) {
        struct output_sink *sink = &output->sinks[i];
        while (buffer_size(&sink->waiting) > 0) {
            struct pollfd wait = {sink->descriptor, POLLOUT, 0};
            if (poll(&wait, 1, PATIENCE_MS) <= 0)
                break;
            output_sink_write(sink);
        }
        buffer_free(&sink->waiting);
    }
    for (uint32_t i = 0; output->files && i < 2 * output->ranks; i++)
        file_close(output->files[i]);
    for (uint32_t rank = 0; output->prefixes && rank < output->ranks; rank++)
        free(output->prefixes[rank]);
    free(output->files);
    free(output->prefixes);
    free(output->partial);
    output->files = NULL;
    output->prefixes = NULL;
    output->partial = NULL;
}

/* SPDX-License-Identifier: Apache-2.0 */
#include "platform/node_output.h"

#include "base/clock.h"
#include "platform/run_metrics.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <pwd.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define PIECE_BYTES     ((size_t)64 << 10)
#define LINE_MOST       ((size_t)64 << 10)
#define WAIT_SECONDS    0.5
#define METRICS_SECONDS 0.5

uint32_t node_output_rank(const char *line, size_t size, size_t *prefix)
{
    static const char begin[] = "[rank ";
    size_t at = sizeof begin - 1, digits = 0;
    uint32_t rank = 0;
    *prefix = 0;
    if (size <= at || memcmp(line, begin, at) != 0)
        return JOURNAL_NO_RANK;
    for (; at < size && line[at] >= '0' && line[at] <= '9' && digits < 8; at++, digits++)
        rank = rank * 10 + (uint32_t)(line[at] - '0');
    const char *end = at < size ? memchr(line + at, ']', size - at) : NULL;
    if (digits == 0 || !end || (line[at] != ' ' && line[at] != ']'))
        return JOURNAL_NO_RANK;
    *prefix = (size_t)(end - line) + 1;
    if (*prefix < size && line[*prefix] == ' ')
        ++*prefix;
    return rank;
}

/* ---- records ---------------------------------------------------------------------------------------------------- */

static bool append(struct node_output *output, enum journal_kind kind, uint32_t stream, uint32_t rank, const char *text,
                   size_t size)
{
    struct journal_record record = {.kind = kind, .output = {stream, rank}, .text = text, .size = (uint32_t)size};
    if (size == 0)
        return false;
    if (journal_append(output->journal, &record, NULL) != WEFT_OK) {
        output->refused += size;
        return false;
    }
    if (output->refused > 0) {
        char sentence[128];
        int length = snprintf(sentence, sizeof sentence,
                              "%" PRIu64 " bytes of output are lost: the disk did not take them", output->refused);
        struct journal_record note = {.kind = JOURNAL_NOTE, .text = sentence, .size = (uint32_t)length};
        if (journal_append(output->journal, &note, NULL) == WEFT_OK)
            output->refused = 0;
    }
    return true;
}

/* Whether a line without its rank is metrics that a program may report; `size` loses blanks at its end. */
static bool is_metrics(struct metric_line *metrics, const char *line, size_t *size)
{
    while (*size > 0 && (line[*size - 1] == ' ' || line[*size - 1] == '\r' || line[*size - 1] == '\n'))
        --*size;
    if (*size < 2 || line[0] != '{' || line[*size - 1] != '}' || !metric_line_read(line, *size, metrics))
        return false;
    for (size_t i = 0; i < metrics->count; i++)
        if (strncmp(metrics->values[i].name, RUN_METRICS_SYSTEM, sizeof RUN_METRICS_SYSTEM - 1) != 0)
            return true;
    return false;
}

/* Take the whole lines of a stream. */
static bool take_lines(struct node_output *output, int index)
{
    struct node_stream *stream = &output->streams[index];
    const char *text = (const char *)buffer_begin(&stream->line), *end;
    size_t size = buffer_size(&stream->line), at = 0, group = 0; /* [group, at): lines of one rank, to be written */
    uint32_t rank = JOURNAL_NO_RANK;
    bool any = false;
    while (at < size && (end = memchr(text + at, '\n', size - at))) {
        size_t length = (size_t)(end - (text + at)) + 1, prefix = 0;
        uint32_t own = stream->continued ? stream->rank : node_output_rank(text + at, length, &prefix);
        size_t inner = length - prefix;
        bool metrics = index == 0 && !stream->continued && is_metrics(&output->line, text + at + prefix, &inner);
        stream->continued = false;
        if (at > group && (metrics || own != rank || at - group + length > PIECE_BYTES)) {
            any |= append(output, JOURNAL_OUTPUT, (uint32_t)index + 1, rank, text + group, at - group);
            group = at;
        }
        if (metrics) {
            any |= append(output, JOURNAL_METRICS, (uint32_t)index + 1, own, text + at + prefix, inner);
            group = at + length;
        }
        rank = own;
        at += length;
    }
    any |= append(output, JOURNAL_OUTPUT, (uint32_t)index + 1, rank, text + group, at - group);
    buffer_consume(&stream->line, at);
    return any;
}

/* Take a line that has no end yet. */
static bool take_rest(struct node_output *output, int index)
{
    struct node_stream *stream = &output->streams[index];
    const char *text = (const char *)buffer_begin(&stream->line);
    size_t size = buffer_size(&stream->line), prefix;
    stream->flush_at = 0;
    if (size == 0)
        return false;
    if (!stream->continued)
        stream->rank = node_output_rank(text, size, &prefix);
    stream->continued = true;
    bool any = append(output, JOURNAL_OUTPUT, (uint32_t)index + 1, stream->rank, text, size);
    buffer_consume(&stream->line, size);
    return any;
}

/* ---- streams ---------------------------------------------------------------------------------------------------- */

bool node_output_read(struct node_output *output, int index)
{
    struct node_stream *stream = &output->streams[index];
    uint8_t *place = buffer_reserve(&stream->line, PIECE_BYTES);
    if (!place)
        return take_rest(output, index);
    ssize_t n = read(stream->descriptor, place, PIECE_BYTES);
    if (n < 0 && (errno == EAGAIN || errno == EINTR))
        return false;
    if (n <= 0) {
        close(stream->descriptor);
        stream->descriptor = -1;
        return take_rest(output, index);
    }
    stream->line.end += (size_t)n;
    bool any = take_lines(output, index);
    if (buffer_size(&stream->line) >= LINE_MOST)
        any |= take_rest(output, index);
    if (buffer_size(&stream->line) == 0)
        stream->flush_at = 0;
    else if (stream->flush_at == 0)
        stream->flush_at = clock_after(WAIT_SECONDS);
    return any;
}

/* ---- the file of metrics ---------------------------------------------------------------------------------------- */

static bool take_metrics(struct node_output *output)
{
    bool any = false;
    for (;;) {
        uint8_t *place = buffer_reserve(&output->metrics_line, PIECE_BYTES);
        ssize_t n =
            place && output->metrics >= 0 ? pread(output->metrics, place, PIECE_BYTES, (off_t)output->metrics_read) : 0;
        if (n <= 0)
            break;
        output->metrics_line.end += (size_t)n;
        output->metrics_read += (uint64_t)n;
        const char *text, *end;
        size_t size;
        while ((text = (const char *)buffer_begin(&output->metrics_line)),
               (size = buffer_size(&output->metrics_line)) > 0 && (end = memchr(text, '\n', size))) {
            size_t length = (size_t)(end - text), prefix;
            uint32_t rank = node_output_rank(text, length, &prefix);
            any |= append(output, JOURNAL_METRICS, JOURNAL_FILE, rank, text + prefix, length - prefix);
            buffer_consume(&output->metrics_line, length + 1);
        }
        if (buffer_size(&output->metrics_line) >= LINE_MOST) /* no line */
            buffer_consume(&output->metrics_line, buffer_size(&output->metrics_line));
    }
    /* What was read is in the journal: the disk can have it back. */
    if (any && output->metrics_read > (1u << 20))
        fallocate(output->metrics, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0,
                  (off_t)(output->metrics_read & ~(uint64_t)4095));
    return any;
}

/* ---- the whole -------------------------------------------------------------------------------------------------- */

void node_output_open(struct node_output *output, struct journal_writer *journal, const char *folder, const char *user)
{
    char path[FILE_PATH_BYTES];
    *output =
        (struct node_output){.journal = journal, .streams = {{.descriptor = -1}, {.descriptor = -1}}, .metrics = -1};
    if (file_join(path, folder, "metrics", NULL) == WEFT_OK)
        output->metrics = open(path, O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600);
    const struct passwd *owner = user && *user ? getpwnam(user) : NULL;
    if (output->metrics >= 0 && owner)
        (void)!fchown(output->metrics, owner->pw_uid, owner->pw_gid);
}

bool node_output_tick(struct node_output *output)
{
    uint64_t now = clock_now();
    bool any = take_metrics(output);
    for (int i = 0; i < 2; i++)
        if (output->streams[i].flush_at && now >= output->streams[i].flush_at)
            any |= take_rest(output, i);
    return any;
}

uint64_t node_output_next(const struct node_output *output)
{
    uint64_t next = clock_after(METRICS_SECONDS);
    for (int i = 0; i < 2; i++)
        if (output->streams[i].flush_at && output->streams[i].flush_at < next)
            next = output->streams[i].flush_at;
    return next;
}

void node_output_close(struct node_output *output)
{
    take_metrics(output);
    for (int i = 0; i < 2; i++) {
        take_rest(output, i);
        if (output->streams[i].descriptor >= 0)
            close(output->streams[i].descriptor);
        output->streams[i].descriptor = -1;
        buffer_free(&output->streams[i].line);
    }
    if (output->metrics >= 0)
        close(output->metrics);
    output->metrics = -1;
    buffer_free(&output->metrics_line);
}

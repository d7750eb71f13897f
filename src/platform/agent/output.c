/* SPDX-License-Identifier: Apache-2.0 */
#include "platform/agent/output.h"

#include "base/clock.h"
#include "platform/metrics/read/lines.h"

#include <assert.h>
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
#define METRICS_TURN                                                                                                   \
    ((uint64_t)1 << 20)   /* bytes of the file of metrics per call; also the size of a hole worth skipping */
#define METRICS_LAST 10.0 /* seconds to read the rest of it at the end */

static_assert(METRIC_NO_RANK == JOURNAL_NO_RANK, "a line without a rank is a record without one");

/* ---- records ---- */

static bool append_record(struct node_output *output, enum journal_kind kind, uint32_t stream, uint32_t rank,
                          const char *text, size_t size)
{
    struct journal_record record = {.kind = kind, .output = {stream, rank}, .text = text, .size = (uint32_t)size};
    if (size == 0)
        return false;
    if (journal_append(output->journal, &record, NULL) != WEFT_OK) {
        output->refused += size;
        return false;
    }
    if (output->refused > 0) {
        char message[128];
        int length = snprintf(message, sizeof message,
                              "%" PRIu64 " bytes of output are lost: the disk did not take them", output->refused);
        struct journal_record note = {.kind = JOURNAL_NOTE, .text = message, .size = (uint32_t)length};
        if (journal_append(output->journal, &note, NULL) == WEFT_OK)
            output->refused = 0;
    }
    return true;
}

/* Streams are redacted when they are read, lines of the file of metrics here. */
static bool agent_output_append(struct node_output *output, enum journal_kind kind, uint32_t stream, uint32_t rank,
                                const char *text, size_t size)
{
    struct buffer redacted = {0};
    bool any = false;
    if (stream != JOURNAL_FILE || !output->redactor.count)
        return append_record(output, kind, stream, rank, text, size);
    redactor_take(&output->redactor, text, size, true, &redacted);
    if (!redacted.failed)
        any = append_record(output, kind, stream, rank, (const char *)buffer_begin(&redacted), buffer_size(&redacted));
    buffer_free(&redacted);
    return any;
}

static bool agent_output_is_blank(char c)
{
    return c == ' ' || c == '\t' || c == '\r' || c == '\n';
}

/* Length of leading whitespace. */
static size_t leading_whitespace(const char *line, size_t size)
{
    size_t length = 0;
    while (length < size && agent_output_is_blank(line[length]))
        length++;
    return length;
}

/* Whether a line, without its rank and leading whitespace, is metrics that a program may report. Removes trailing
 * whitespace from `size`. */
static bool is_metrics(struct metric_line *metrics, const char *line, size_t *size)
{
    while (*size > 0 && agent_output_is_blank(line[*size - 1]))
        --*size;
    if (*size < 2 || line[0] != '{' || line[*size - 1] != '}' || !metric_line_read(line, *size, metrics))
        return false;
    if (metrics->progress.known)
        return true;
    for (size_t i = 0; i < metrics->count; i++)
        if (strncmp(metrics->values[i].name, METRIC_SYSTEM, sizeof METRIC_SYSTEM - 1) != 0)
            return true;
    return false;
}

/* Whether an unfinished line of standard output may become metrics: a brace follows the rank and whitespace, or may
 * still follow. The rank itself may be incomplete. */
static bool may_be_metrics(const char *text, size_t size)
{
    static const char begin[] = METRIC_RANK_PREFIX;
    const size_t known = size < sizeof begin - 1 ? size : sizeof begin - 1;
    size_t prefix;
    metric_line_rank(text, size, &prefix);
    if (prefix == 0 && memcmp(text, begin, known) == 0 && !memchr(text, ']', size))
        return true;
    const size_t at = prefix + leading_whitespace(text + prefix, size - prefix);
    return at == size || text[at] == '{';
}

/* Write the complete lines of a stream to the journal. */
static bool take_lines(struct node_output *output, int index)
{
    struct node_stream *stream = &output->streams[index];
    const char *text = (const char *)buffer_begin(&stream->line), *end;
    size_t size = buffer_size(&stream->line), at = 0, group = 0; /* [group, at): lines of one rank to be written */
    uint32_t rank = JOURNAL_NO_RANK;
    bool any = false;
    while (at < size && (end = memchr(text + at, '\n', size - at))) {
        size_t length = (size_t)(end - (text + at)) + 1, prefix = 0;
        uint32_t own = stream->continued ? stream->rank : metric_line_rank(text + at, length, &prefix);
        prefix += leading_whitespace(text + at + prefix, length - prefix);
        size_t inner = length - prefix;
        bool metrics = index == 0 && !stream->continued && is_metrics(&output->line, text + at + prefix, &inner);
        stream->continued = false;
        if (at > group && (metrics || own != rank || at - group + length > PIECE_BYTES)) {
            any |= agent_output_append(output, JOURNAL_OUTPUT, (uint32_t)index + 1, rank, text + group, at - group);
            group = at;
        }
        if (metrics) {
            any |= agent_output_append(output, JOURNAL_METRICS, (uint32_t)index + 1, own, text + at + prefix, inner);
            group = at + length;
        }
        rank = own;
        at += length;
    }
    any |= agent_output_append(output, JOURNAL_OUTPUT, (uint32_t)index + 1, rank, text + group, at - group);
    buffer_consume(&stream->line, at);
    if (at > 0)
        stream->flush_at = 0; /* the rest is a new line, which has not waited yet */
    return any;
}

/* Write an unfinished line. */
static bool take_rest(struct node_output *output, int index)
{
    struct node_stream *stream = &output->streams[index];
    const char *text = (const char *)buffer_begin(&stream->line);
    size_t size = buffer_size(&stream->line), prefix;
    stream->flush_at = 0;
    if (size == 0)
        return false;
    if (!stream->continued)
        stream->rank = metric_line_rank(text, size, &prefix);
    stream->continued = true;
    bool any = agent_output_append(output, JOURNAL_OUTPUT, (uint32_t)index + 1, stream->rank, text, size);
    buffer_consume(&stream->line, size);
    return any;
}

/* The stream has ended: the rest is a line without a newline. */
static bool take_last(struct node_output *output, int index)
{
    struct node_stream *stream = &output->streams[index];
    const char *text = (const char *)buffer_begin(&stream->line);
    size_t size = buffer_size(&stream->line), prefix;
    if (index != 0 || stream->continued || size == 0)
        return take_rest(output, index);
    const uint32_t rank = metric_line_rank(text, size, &prefix);
    prefix += leading_whitespace(text + prefix, size - prefix);
    size_t inner = size - prefix;
    if (!is_metrics(&output->line, text + prefix, &inner))
        return take_rest(output, index);
    bool any = agent_output_append(output, JOURNAL_METRICS, (uint32_t)index + 1, rank, text + prefix, inner);
    buffer_consume(&stream->line, size);
    return any;
}

/* ---- the rate ---- */

static uint64_t time_of(uint64_t bytes)
{
    return bytes * 1000 / (NODE_OUTPUT_RATE / 1000000);
}

/* When to read again; NODE_OUTPUT_BURST bytes may be ahead of the rate. */
static uint64_t due_at(const struct node_output *output)
{
    const uint64_t burst = time_of(NODE_OUTPUT_BURST);
    return output->hurried || output->read_until < burst ? 0 : output->read_until - burst;
}

bool node_output_is_due(const struct node_output *output)
{
    return due_at(output) <= clock_now();
}

void node_output_hurry(struct node_output *output)
{
    output->hurried = true;
}

static void count_read(struct node_output *output, uint64_t bytes)
{
    const uint64_t now = clock_now();
    output->read_until = (output->read_until > now ? output->read_until : now) + time_of(bytes);
}

/* ---- streams ---- */

/* Redact what was read. At the end of the stream (`last`) nothing is held back. */
static void redact(struct node_output *output, struct node_stream *stream, bool last)
{
    if (output->redactor.count)
        buffer_consume(&stream->raw, redactor_take(&output->redactor, buffer_begin(&stream->raw),
                                                   buffer_size(&stream->raw), last, &stream->line));
}

bool node_output_read(struct node_output *output, int index)
{
    struct node_stream *stream = &output->streams[index];
    struct buffer *into = output->redactor.count ? &stream->raw : &stream->line;
    uint8_t *place = buffer_reserve(into, PIECE_BYTES);
    if (!place)
        return take_rest(output, index);
    ssize_t n = read(stream->descriptor, place, PIECE_BYTES);
    if (n < 0 && (errno == EAGAIN || errno == EINTR))
        return false;
    if (n <= 0) {
        close(stream->descriptor);
        stream->descriptor = -1;
        redact(output, stream, true);
        const bool lines = take_lines(output, index);
        return take_last(output, index) || lines;
    }
    into->end += (size_t)n;
    redact(output, stream, false);
    count_read(output, (uint64_t)n);
    bool any = take_lines(output, index);
    if (buffer_size(&stream->line) >= LINE_MOST)
        any |= take_rest(output, index);
    const size_t rest = buffer_size(&stream->line);
    if (rest == 0 ||
        (index == 0 && !stream->continued && may_be_metrics((const char *)buffer_begin(&stream->line), rest)))
        stream->flush_at = 0; /* hold metrics back until the line is complete */
    else if (stream->flush_at == 0)
        stream->flush_at = clock_after(WAIT_SECONDS);
    return any;
}

/* ---- the file of metrics ---- */

/* Write the complete lines to the journal. */
static bool take_metric_lines(struct node_output *output)
{
    struct buffer *held = &output->metrics_line;
    const char *text, *end;
    size_t size;
    bool any = false;
    while ((text = (const char *)buffer_begin(held)),
           (size = buffer_size(held)) > 0 && (end = memchr(text, '\n', size))) {
        size_t length = (size_t)(end - text), hole = 0, prefix;
        while (hole < length && text[hole] == '\0') /* left of the block in which the line begins */
            hole++;
        uint32_t rank = metric_line_rank(text + hole, length - hole, &prefix);
        prefix += hole;
        any |= agent_output_append(output, JOURNAL_METRICS, JOURNAL_FILE, rank, text + prefix, length - prefix);
        buffer_consume(held, length + 1);
    }
    if (buffer_size(held) >= LINE_MOST) /* no line */
        buffer_consume(held, buffer_size(held));
    return any;
}

/* Skip a hole: a program can make the file arbitrarily long for free. False if no data follows yet. */
static bool skip_hole(struct node_output *output)
{
    off_t data = lseek(output->metrics, (off_t)output->metrics_read, SEEK_DATA);
    if (data < 0)
        return errno != ENXIO; /* the file system does not support SEEK_DATA */
    if ((uint64_t)data > output->metrics_read + METRICS_TURN) {
        output->metrics_read = (uint64_t)data;
        buffer_consume(&output->metrics_line, buffer_size(&output->metrics_line));
    }
    return true;
}

/* Free the disk space of what is in the journal. */
static void punch(struct node_output *output)
{
    if (output->metrics_read - output->metrics_punched < METRICS_TURN)
        return;
    const uint64_t from = output->metrics_punched, to = output->metrics_read & ~(uint64_t)4095;
    fallocate(output->metrics, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, (off_t)from, (off_t)(to - from));
    output->metrics_punched = to;
}

/* Read at most METRICS_TURN bytes, so that the agent can attend to other events. */
static bool take_metrics(struct node_output *output)
{
    bool any = false;
    uint64_t taken = 0;
    output->metrics_more = false;
    while (output->metrics >= 0 && taken < METRICS_TURN && skip_hole(output)) {
        uint8_t *place = buffer_reserve(&output->metrics_line, PIECE_BYTES);
        ssize_t n = place ? pread(output->metrics, place, PIECE_BYTES, (off_t)output->metrics_read) : 0;
        if (n <= 0)
            return any;
        output->metrics_line.end += (size_t)n;
        output->metrics_read += (uint64_t)n;
        taken += (uint64_t)n;
        count_read(output, (uint64_t)n);
        any |= take_metric_lines(output);
        punch(output);
    }
    output->metrics_more = taken >= METRICS_TURN;
    return any;
}

/* Nothing more is written, but the file may be too long to read all of it. */
static void take_last_metrics(struct node_output *output)
{
    static const char message[] = "the last of its file of metrics is lost: there was too much to read";
    const uint64_t end = clock_after(METRICS_LAST);
    do
        take_metrics(output);
    while (output->metrics_more && clock_now() < end);
    if (output->metrics_more)
        journal_append(output->journal,
                       &(struct journal_record){.kind = JOURNAL_NOTE, .text = message, .size = sizeof message - 1},
                       NULL);
}

/* ---- the whole ---- */

void node_output_open(struct node_output *output, struct journal_writer *journal, const char *directory,
                      const char *user)
{
    char path[FILE_PATH_BYTES];
    *output =
        (struct node_output){.journal = journal, .streams = {{.descriptor = -1}, {.descriptor = -1}}, .metrics = -1};
    if (file_join(path, directory, "metrics", NULL) == WEFT_OK)
        output->metrics = open(path, O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600);
    const struct passwd *owner = user && *user ? getpwnam(user) : NULL;
    if (output->metrics >= 0 && owner)
        (void)!fchown(output->metrics, owner->pw_uid, owner->pw_gid);
}

bool node_output_tick(struct node_output *output)
{
    uint64_t now = clock_now();
    bool any = node_output_is_due(output) && take_metrics(output);
    for (int i = 0; i < 2; i++)
        if (output->streams[i].flush_at && now >= output->streams[i].flush_at)
            any |= take_rest(output, i);
    return any;
}

uint64_t node_output_next(const struct node_output *output)
{
    const uint64_t due = due_at(output), now = clock_now();
    uint64_t next = due > now ? due : output->metrics_more ? now : clock_after(METRICS_SECONDS);
    for (int i = 0; i < 2; i++)
        if (output->streams[i].flush_at && output->streams[i].flush_at < next)
            next = output->streams[i].flush_at;
    return next;
}

void node_output_close(struct node_output *output)
{
    take_last_metrics(output);
    for (int i = 0; i < 2; i++) {
        redact(output, &output->streams[i], true);
        take_lines(output, i);
        take_last(output, i);
        file_close(output->streams[i].descriptor);
        output->streams[i].descriptor = -1;
        buffer_free(&output->streams[i].line);
        buffer_free(&output->streams[i].raw);
    }
    /* Its contents are in the journal, redacted. */
    if (output->metrics >= 0 && output->redactor.count && !output->metrics_more)
        (void)!ftruncate(output->metrics, 0);
    file_close(output->metrics);
    output->metrics = -1;
    buffer_free(&output->metrics_line);
    redactor_free(&output->redactor);
}

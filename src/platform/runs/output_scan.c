/* SPDX-License-Identifier: Apache-2.0 */
#include "platform/runs/internal/output_scan.h"

#include "base/text.h"
#include "platform/agent/journal/file.h"
#include "platform/metrics/read/lines.h"

#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>
#include <unistd.h>

#define SEGMENT_MOST  ((size_t)64 << 20)
#define RECORD_MOST   (JOURNAL_HEADER_BYTES + JOURNAL_PAYLOAD_MOST)
#define GARBAGE_BYTES ((size_t)8 << 20)
#define ESCAPE        '\033'
#define BELL          '\007'

/* ---- printable lines ---- */

/* Length of the terminal escape sequence at `at`. */
static size_t escape_length(const char *at, size_t left)
{
    size_t length = 2;
    if (left < 2)
        return left;
    if (at[1] == '[') { /* CSI: parameters, then a letter */
        while (length < left && ((unsigned char)at[length] < '@' || (unsigned char)at[length] > '~'))
            length++;
        return length < left ? length + 1 : left;
    }
    if (at[1] == ']' || at[1] == 'P' || at[1] == '_' || at[1] == '^') { /* OSC and such: a string with an end */
        while (length < left && at[length] != BELL && at[length] != ESCAPE)
            length++;
        if (length < left && at[length] == ESCAPE && length + 1 < left && at[length + 1] == '\\')
            return length + 2;
        return length < left && at[length] == BELL ? length + 1 : length;
    }
    if (strchr("()*+#%", at[1])) /* a character set */
        return left < 3 ? left : 3;
    return 2;
}

size_t run_output_text(char *line, size_t size)
{
    size_t used = 0;
    while (size > 0 && (line[size - 1] == '\r' || line[size - 1] == '\n'))
        size--;
    for (size_t i = 0; i < size;) {
        if (line[i] == ESCAPE) {
            i += escape_length(line + i, size - i);
        } else if (line[i] == '\r') {
            used = 0;
            i++;
        } else if (line[i] == '\b') {
            used -= used > 0;
            i++;
        } else {
            line[used++] = line[i++];
        }
    }
    /* Check the text between tabs, so that these stay; a NUL would end it. */
    for (size_t begin = 0, end; begin <= used; begin = end + 1) {
        for (end = begin; end < used && line[end] != '\t'; end++)
            if (line[end] == '\0')
                line[end] = '?';
        line[end] = '\0';
        text_printable(line + begin);
        if (end < used)
            line[end] = '\t';
    }
    return used;
}

/* ---- lines of segments ---- */

void run_output_scan_begin(struct run_output_scan *scan, const struct run_output_query *query,
                           const struct run_output_line *cursor, bool forwards)
{
    *scan = (struct run_output_scan){.query = query, .cursor = cursor, .forwards = forwards};
}

void run_output_scan_end(struct run_output_scan *scan)
{
    free(scan->lines);
    free(scan->bytes);
    buffer_free(&scan->texts);
}

/* During a scan `text` is the offset of a length, which precedes the bytes. */
static size_t offset_of(const struct run_output_line *line)
{
    return (size_t)(uintptr_t)line->text;
}

size_t run_output_scan_size(const struct run_output_scan *scan, const struct run_output_line *line)
{
    uint32_t size;
    memcpy(&size, buffer_begin(&scan->texts) + offset_of(line), sizeof size);
    return size;
}

/* ---- lines ---- */

/* Whether a line is on the requested side of the cursor. */
static bool is_beyond(const struct run_output_scan *scan, const struct run_output_line *line)
{
    const struct run_output_line *cursor = scan->cursor;
    if (!cursor)
        return true;
    bool behind, same = false;
    if (line->node == cursor->node) { /* regardless of the clock */
        same = line->sequence == cursor->sequence && line->index == cursor->index;
        behind = line->sequence != cursor->sequence ? line->sequence > cursor->sequence : line->index > cursor->index;
    } else {
        behind = line->time != cursor->time ? line->time > cursor->time : line->node > cursor->node;
    }
    return !same && behind == scan->forwards;
}

/* Add a line if it matches. */
static weft_status output_scan_add(struct run_output_scan *scan, const struct run_output_line *line, const char *text,
                                   size_t size, struct error *error)
{
    const char *search = scan->query->search;
    if (!is_beyond(scan, line))
        return WEFT_OK;
    weft_status status = ARRAY_RESERVE(scan->lines, scan->room, scan->count + 1, "lines of a run", error);
    if (status != WEFT_OK)
        return status;
    uint32_t length = (uint32_t)size;
    size_t begin = buffer_size(&scan->texts);
    uint8_t *place = buffer_reserve(&scan->texts, sizeof length + size + 1);
    if (!place)
        return error_memory(error, size, "lines of a run");
    memcpy(place + sizeof length, text, size);
    if (search && *search) {
        char *shown = (char *)place + sizeof length;
        length = (uint32_t)run_output_text(shown, size);
        if (!strcasestr(shown, search))
            return WEFT_OK;
    }
    memcpy(place, &length, sizeof length);
    scan->texts.end += sizeof length + length + 1;
    scan->lines[scan->count] = *line;
    scan->lines[scan->count++].text = (const char *)(uintptr_t)begin;
    return WEFT_OK;
}

/* Whether the text contains `search`, ignoring case. */
static bool contains(const char *text, size_t size, const char *search)
{
    size_t length = strlen(search);
    const char letters[2] = {(char)tolower((unsigned char)*search), (char)toupper((unsigned char)*search)};
    const char *end = text + size, *next[2] = {text, letters[1] == letters[0] ? NULL : text};
    for (int i = 0; i < 2; i++)
        next[i] = next[i] ? memchr(text, letters[i], size) : NULL;
    while (next[0] || next[1]) {
        int i = !next[0] || (next[1] && next[1] < next[0]); /* the earlier one */
        if ((size_t)(end - next[i]) >= length && strncasecmp(next[i], search, length) == 0)
            return true;
        next[i] = memchr(next[i] + 1, letters[i], (size_t)(end - next[i] - 1));
    }
    return false;
}

/* Skip lines whose raw bytes do not contain the search text before making them printable. */
static bool output_scan_may_have(const struct run_output_scan *scan, const struct journal_record *record)
{
    const char *search = scan->query->search;
    return !search || !*search || memchr(record->text, '\033', record->size) ||
           memchr(record->text, '\b', record->size) || strchr(search, '?') ||
           contains(record->text, record->size, search);
}

static weft_status add_output(struct run_output_scan *scan, struct run_output_line *line,
                              const struct journal_record *record, struct error *error)
{
    const struct run_output_query *query = scan->query;
    if ((query->rank != RUN_OUTPUT_ANY && record->output.rank != query->rank) ||
        (query->stream != RUN_OUTPUT_ANY && record->output.stream != query->stream) ||
        !output_scan_may_have(scan, record))
        return WEFT_OK;
    line->rank = record->output.rank;
    line->stream = record->output.stream;
    weft_status status = WEFT_OK;
    for (size_t at = 0; at < record->size && status == WEFT_OK; line->index++) {
        const char *text = record->text + at, *end = memchr(text, '\n', record->size - at);
        size_t size = end ? (size_t)(end - text) : record->size - at, prefix = 0;
        at += size + 1;
        if (line->rank != JOURNAL_NO_RANK)
            metric_line_rank(text, size, &prefix);
        status = output_scan_add(scan, line, text + prefix, size - prefix, error);
    }
    return status;
}

static weft_status add_note(struct run_output_scan *scan, struct run_output_line *line,
                            const struct journal_record *record, struct error *error)
{
    char message[160];
    const char *text = record->text;
    size_t size = record->size;
    if (scan->query->rank != RUN_OUTPUT_ANY || scan->query->stream != RUN_OUTPUT_ANY)
        return WEFT_OK;
    if (record->kind == JOURNAL_DROPPED) {
        size = (size_t)snprintf(message, sizeof message,
                                "%" PRIu64 " bytes of older output were dropped, to keep what is kept small",
                                record->dropped.bytes);
        text = message;
    }
    line->rank = JOURNAL_NO_RANK;
    return output_scan_add(scan, line, text, size, error);
}

static weft_status add_record(struct run_output_scan *scan, uint32_t node, const struct journal_record *record,
                              struct error *error)
{
    struct run_output_line line = {.time = record->time, .node = node, .sequence = record->sequence};
    if (record->kind == JOURNAL_OUTPUT)
        return add_output(scan, &line, record, error);
    if (record->kind == JOURNAL_NOTE || record->kind == JOURNAL_UNFIT || record->kind == JOURNAL_DROPPED ||
        record->kind == JOURNAL_LOST)
        return add_note(scan, &line, record, error);
    return WEFT_OK;
}

/* ---- segments ---- */

/* Read up to `most` bytes of a file from `offset`; `*there` is how many it has. */
static weft_status output_scan_load(struct run_output_scan *scan, const char *path, uint64_t offset, size_t most,
                                    size_t *got, uint64_t *there, struct error *error)
{
    struct stat found;
    *got = 0;
    *there = 0;
    int file = open(path, O_RDONLY | O_CLOEXEC);
    if (file < 0)
        return errno == ENOENT ? WEFT_OK : error_system(error, "cannot open '%s'", path);
    weft_status status = fstat(file, &found) == 0 ? WEFT_OK : error_system(error, "cannot look at '%s'", path);
    if (status == WEFT_OK && (uint64_t)found.st_size > offset)
        *there = (uint64_t)found.st_size - offset;
    size_t size = *there < most ? (size_t)*there : most;
    if (size > SEGMENT_MOST)
        size = SEGMENT_MOST;
    if (size > scan->size) {
        free(scan->bytes);
        scan->bytes = malloc(size);
        scan->size = scan->bytes ? size : 0;
        if (!scan->bytes)
            status = error_memory(error, size, "a segment of a journal");
    }
    while (status == WEFT_OK && *got < size) {
        ssize_t n = pread(file, scan->bytes + *got, size - *got, (off_t)(offset + *got));
        if (n < 0 && errno != EINTR)
            status = error_system(error, "cannot read '%s'", path);
        if (n == 0)
            break;
        *got += n > 0 ? (size_t)n : 0;
    }
    close(file);
    scan->read += *got;
    return status;
}

weft_status run_output_scan(struct run_output_scan *scan, const char *directory, uint32_t node,
                            struct run_output_place *place, size_t most, struct run_output_seen *seen,
                            struct error *error)
{
    const size_t count_most = scan->count_most ? scan->count_most : SIZE_MAX;
    char path[FILE_PATH_BYTES];
    size_t got = 0, used = 0;
    uint64_t there = 0;
    struct journal_record record;
    *seen = (struct run_output_seen){0};
    weft_status status = journal_segment_path(path, directory, place->segment, error);
    if (status == WEFT_OK)
        status = output_scan_load(scan, path, place->offset, most, &got, &there, error);
    if (status == WEFT_OK && got < there && journal_get(scan->bytes, got, &record, &used) != JOURNAL_FOUND)
        status =
            output_scan_load(scan, path, place->offset, most > RECORD_MOST ? most : RECORD_MOST, &got, &there, error);
    while (status == WEFT_OK && seen->bytes < got && (seen->bytes == 0 || seen->bytes < most) &&
           scan->count < count_most &&
           journal_get(scan->bytes + seen->bytes, got - seen->bytes, &record, &used) == JOURNAL_FOUND) {
        if (!seen->any)
            seen->first = record.time;
        seen->any = true;
        seen->last = record.time;
        seen->bytes += used;
        status = add_record(scan, node, &record, error);
    }
    /* If nothing more can be parsed, the rest is torn or damaged. */
    const bool left_out = got < there ? seen->any : seen->bytes >= most || scan->count >= count_most;
    seen->partial = left_out && seen->bytes < there;
    place->offset += seen->bytes;
    return status;
}

/* ---- giving them ---- */

weft_status run_output_scan_compact(struct run_output_scan *scan, struct error *error)
{
    size_t live = 0;
    struct buffer kept = {0};
    if (buffer_size(&scan->texts) < GARBAGE_BYTES)
        return WEFT_OK;
    for (size_t i = 0; i < scan->count; i++)
        live += sizeof(uint32_t) + run_output_scan_size(scan, &scan->lines[i]) + 1;
    if (2 * live > buffer_size(&scan->texts))
        return WEFT_OK;
    if (!buffer_reserve(&kept, live))
        return error_memory(error, live, "lines of a run");
    for (size_t i = 0; i < scan->count; i++) {
        size_t begin = buffer_size(&kept);
        buffer_put(&kept, buffer_begin(&scan->texts) + offset_of(&scan->lines[i]),
                   sizeof(uint32_t) + run_output_scan_size(scan, &scan->lines[i]) + 1);
        scan->lines[i].text = (const char *)(uintptr_t)begin;
    }
    buffer_free(&scan->texts);
    scan->texts = kept;
    return WEFT_OK;
}

void run_output_scan_give(struct run_output_scan *scan, struct run_output_page *page)
{
    bool raw = !scan->query->search || !*scan->query->search;
    for (size_t i = 0; i < scan->count; i++) {
        struct run_output_line *line = &scan->lines[i];
        size_t size = run_output_scan_size(scan, line);
        char *text = (char *)buffer_begin(&scan->texts) + offset_of(line) + sizeof(uint32_t);
        text[size] = '\0';
        if (raw)
            run_output_text(text, size);
        line->text = text;
    }
    page->lines = scan->lines;
    page->count = scan->count;
    page->texts = scan->texts;
    scan->lines = NULL;
    scan->count = scan->room = 0;
    scan->texts = (struct buffer){0};
}

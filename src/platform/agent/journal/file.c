/* SPDX-License-Identifier: Apache-2.0 */
#include "platform/agent/journal/file.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define SEGMENT_BYTES ((uint64_t)4 << 20)
#define OUTPUT_BYTES  ((uint64_t)256 << 20)
#define SUFFIX        ".journal"
#define DIGITS        20
#define RECORD_MOST   (JOURNAL_HEADER_BYTES + JOURNAL_PAYLOAD_MOST)
#define PIECE_BYTES   ((size_t)4 << 10) /* a reader's buffer grows by this */

/* ---- segments ---- */

weft_status journal_segment_path(char path[FILE_PATH_BYTES], const char *directory, uint64_t first, struct error *error)
{
    char name[DIGITS + sizeof SUFFIX];
    snprintf(name, sizeof name, "%0*" PRIu64 SUFFIX, DIGITS, first);
    return file_join(path, directory, name, error);
}

/* The sequence in a file's name; 0: not a segment. */
static uint64_t segment_first(const char *name)
{
    if (strlen(name) != DIGITS + sizeof SUFFIX - 1 || strcmp(name + DIGITS, SUFFIX) != 0 ||
        strspn(name, "0123456789") != DIGITS)
        return 0;
    errno = 0;
    uint64_t first = strtoull(name, NULL, 10);
    return errno ? 0 : first;
}

static int by_first(const void *left, const void *right)
{
    const struct journal_segment *a = left, *b = right;
    return (a->first > b->first) - (a->first < b->first);
}

/* All segments of `directory` in order; none if it does not exist. */
static weft_status list_segments(const char *directory, struct journal_segment **segments, size_t *count,
                                 struct error *error)
{
    struct journal_segment *list = NULL;
    size_t used = 0, room = 0;
    weft_status status = WEFT_OK;
    DIR *listing = opendir(directory);
    if (!listing && errno != ENOENT)
        return error_system(error, "cannot read the directory '%s'", directory);
    for (const char *name; status == WEFT_OK && (name = file_listing_next(listing));) {
        const uint64_t first = segment_first(name);
        if (first == 0)
            continue;
        status = ARRAY_RESERVE(list, room, used + 1, "a journal's segments", error);
        if (status == WEFT_OK)
            list[used++] = (struct journal_segment){.first = first};
    }
    if (status == WEFT_OK && listing && errno)
        status = error_system(error, "cannot read the directory '%s'", directory);
    file_listing_close(listing);
    if (status != WEFT_OK) {
        free(list);
        return status;
    }
    if (used > 1)
        qsort(list, used, sizeof *list, by_first);
    *segments = list;
    *count = used;
    return WEFT_OK;
}

weft_status journal_segments(const char *directory, uint64_t **firsts, size_t *count, struct error *error)
{
    struct journal_segment *segments;
    weft_status status = list_segments(directory, &segments, count, error);
    if (status != WEFT_OK)
        return status;
    *firsts = malloc((*count + 1) * sizeof **firsts);
    for (size_t i = 0; *firsts && i < *count; i++)
        (*firsts)[i] = segments[i].first;
    free(segments);
    return *firsts ? WEFT_OK : error_memory(error, *count * sizeof **firsts, "a journal's segments");
}

static void count_record(struct journal_segment *segment, const struct journal_record *record)
{
    if (record->kind != JOURNAL_OUTPUT)
        return;
    if (segment->output_records++ == 0)
        segment->output_first = record->sequence;
    segment->output_last = record->sequence;
    segment->output_bytes += record->size;
}

static weft_status journal_file_damaged(const char *directory, uint64_t first, uint64_t offset, struct error *error)
{
    return error_set(error, WEFT_ERROR_DATA,
                     "the journal '%s' is damaged: what begins at byte %" PRIu64 " of %0*" PRIu64 SUFFIX
                     " is not the record that belongs there",
                     directory, offset, DIGITS, first);
}

/* ---- writing ---- */

static void note_record(struct journal_writer *writer, const struct journal_record *record)
{
    writer->ended = journal_is_end(record->kind);
    writer->time = record->time;
}

/* Read a whole segment while opening the journal: count its records, and find the end of the valid ones. */
static weft_status scan_segment(struct journal_writer *writer, size_t index, uint64_t *good, struct error *error)
{
    struct journal_segment *segment = &writer->segments[index];
    char path[FILE_PATH_BYTES], *content = NULL;
    size_t size = 0, at = 0, used = 0;
    weft_status status = journal_segment_path(path, writer->directory, segment->first, error);
    if (status == WEFT_OK)
        status = file_read(path, SIZE_MAX / 4, &content, &size, error);
    struct journal_record record;
    while (status == WEFT_OK && at < size &&
           journal_get((uint8_t *)content + at, size - at, &record, &used) == JOURNAL_FOUND) {
        if (record.sequence < writer->next || (at == 0 && index > 0 && record.sequence < segment->first))
            status = journal_file_damaged(writer->directory, segment->first, at, error);
        writer->next = record.sequence + 1;
        note_record(writer, &record);
        count_record(segment, &record);
        at += used;
    }
    if (status == WEFT_OK && at < size && index + 1 < writer->count) /* in the last segment it is a torn tail */
        status = journal_file_damaged(writer->directory, segment->first, at, error);
    free(content);
    writer->kept += segment->output_bytes;
    *good = at;
    return status;
}

/* Room for one segment more. */
static weft_status journal_file_add_segment(struct journal_writer *writer, uint64_t first, struct error *error)
{
    weft_status status =
        ARRAY_RESERVE(writer->segments, writer->room, writer->count + 1, "a journal's segments", error);
    if (status == WEFT_OK)
        writer->segments[writer->count++] = (struct journal_segment){.first = first};
    return status;
}

/* Begin the next segment. */
static weft_status begin_segment(struct journal_writer *writer, struct error *error)
{
    char path[FILE_PATH_BYTES];
    weft_status status = journal_segment_path(path, writer->directory, writer->next, error);
    if (status != WEFT_OK)
        return status;
    int file = open(path, O_RDWR | O_CREAT | O_EXCL | O_APPEND | O_CLOEXEC, 0666);
    if (file < 0)
        return error_system(error, "cannot create '%s'", path);
    status = journal_file_add_segment(writer, writer->next, error);
    if (status != WEFT_OK) {
        close(file);
        unlink(path);
        return status;
    }
    if (writer->file >= 0) {
        fdatasync(writer->file);
        close(writer->file);
    }
    writer->file = file;
    writer->bytes = 0;
    return WEFT_OK;
}

/* Allocate space that is freed when the disk is full. */
static void make_reserve(struct journal_writer *writer)
{
    char path[FILE_PATH_BYTES];
    if (file_join(path, writer->directory, "reserve", NULL) != WEFT_OK)
        return;
    int file = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0666);
    writer->reserve = file >= 0 && posix_fallocate(file, 0, (off_t)JOURNAL_RESERVE_BYTES) == 0;
    file_close(file);
}

static void give_up_reserve(struct journal_writer *writer)
{
    char path[FILE_PATH_BYTES];
    if (file_join(path, writer->directory, "reserve", NULL) == WEFT_OK)
        unlink(path);
    writer->reserve = false;
}

static weft_status open_existing(struct journal_writer *writer, struct error *error)
{
    weft_status status = list_segments(writer->directory, &writer->segments, &writer->count, error);
    writer->room = writer->count;
    writer->next = 1;
    for (size_t i = 0; status == WEFT_OK && i < writer->count; i++)
        status = scan_segment(writer, i, &writer->bytes, error);
    if (status != WEFT_OK || writer->count == 0)
        return status;
    uint64_t first = writer->segments[writer->count - 1].first;
    if (writer->next < first) /* the last segment is empty */
        writer->next = first;
    char path[FILE_PATH_BYTES];
    status = journal_segment_path(path, writer->directory, first, error);
    if (status != WEFT_OK)
        return status;
    writer->file = open(path, O_RDWR | O_APPEND | O_CLOEXEC);
    if (writer->file < 0)
        return error_system(error, "cannot open '%s'", path);
    if (ftruncate(writer->file, (off_t)writer->bytes) != 0)
        return error_system(error, "cannot cut off the torn end of '%s'", path);
    return WEFT_OK;
}

weft_status journal_writer_open(struct journal_writer *writer, const char *directory,
                                const struct journal_limits *limits, struct error *error)
{
    *writer = (struct journal_writer){.file = -1};
    if (limits)
        writer->limits = *limits;
    if (!writer->limits.segment_bytes)
        writer->limits.segment_bytes = SEGMENT_BYTES;
    if (!writer->limits.output_bytes)
        writer->limits.output_bytes = OUTPUT_BYTES;
    if (snprintf(writer->directory, sizeof writer->directory, "%s", directory) >= (int)sizeof writer->directory)
        return error_set(error, WEFT_ERROR_ARGUMENT, "the path '%.200s...' is too long", directory);
    weft_status status = file_make_directory(directory, error);
    if (status == WEFT_OK)
        status = open_existing(writer, error);
    if (status == WEFT_OK && writer->file < 0)
        status = begin_segment(writer, error);
    if (status == WEFT_OK && !writer->ended)
        make_reserve(writer);
    if (status != WEFT_OK)
        journal_writer_close(writer);
    return status;
}

/* Write `writer->record` completely or not at all. */
static weft_status journal_file_write_record(struct journal_writer *writer, bool output, struct error *error)
{
    const uint8_t *bytes = buffer_begin(&writer->record);
    size_t size = buffer_size(&writer->record), done = 0;
    while (done < size) {
        ssize_t put = write(writer->file, bytes + done, size - done);
        if (put > 0) {
            done += (size_t)put;
        } else if (put < 0 && (errno == ENOSPC || errno == EDQUOT) && !output && writer->reserve) {
            give_up_reserve(writer);
        } else if (put < 0 && errno != EINTR) {
            error_system(error, "cannot write %zu bytes to the journal '%s'", size, writer->directory);
            /* Until then a reader sees an incomplete record. If this fails too, the next writer truncates. */
            (void)!ftruncate(writer->file, (off_t)writer->bytes);
            return WEFT_ERROR_SYSTEM;
        }
    }
    writer->bytes += size;
    return WEFT_OK;
}

/* Append a record as it is, with the sequence writer->next. */
static weft_status journal_file_put(struct journal_writer *writer, const struct journal_record *record,
                                    struct error *error)
{
    buffer_consume(&writer->record, buffer_size(&writer->record));
    journal_put(&writer->record, record);
    if (writer->record.failed) {
        writer->record.failed = false;
        return error_memory(error, record->size, "a record of the journal");
    }
    weft_status status = journal_file_write_record(writer, record->kind == JOURNAL_OUTPUT, error);
    if (status != WEFT_OK)
        return status;
    writer->next = record->sequence + 1;
    note_record(writer, record);
    count_record(&writer->segments[writer->count - 1], record);
    if (record->kind == JOURNAL_OUTPUT)
        writer->kept += record->size;
    return WEFT_OK;
}

static weft_status journal_file_append(struct journal_writer *writer, struct journal_record *record,
                                       struct error *error)
{
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    record->sequence = writer->next;
    const uint64_t time = (uint64_t)now.tv_sec * 1000000u + (uint64_t)now.tv_nsec / 1000u;
    if (!record->time || record->time > time)
        record->time = time;
    return journal_file_put(writer, record, error);
}

/* Rewrite a segment without its output. */
static weft_status thin_segment(struct journal_writer *writer, size_t index, struct error *error)
{
    struct journal_segment *segment = &writer->segments[index];
    struct buffer others = {0};
    char path[FILE_PATH_BYTES], *content = NULL;
    size_t size = 0, used;
    weft_status status = journal_segment_path(path, writer->directory, segment->first, error);
    if (status == WEFT_OK)
        status = file_read(path, SIZE_MAX / 4, &content, &size, error);
    struct journal_record record;
    for (size_t at = 0; status == WEFT_OK && at < size; at += used) {
        if (journal_get((uint8_t *)content + at, size - at, &record, &used) != JOURNAL_FOUND) {
            status = journal_file_damaged(writer->directory, segment->first, at, error);
            break;
        }
        if (record.kind != JOURNAL_OUTPUT)
            buffer_put(&others, content + at, used);
    }
    if (status == WEFT_OK && others.failed)
        status = error_memory(error, size, "what is kept of a journal's segment");
    if (status == WEFT_OK)
        status = file_write(path, buffer_size(&others) ? buffer_begin(&others) : (const uint8_t *)"",
                            buffer_size(&others), error);
    buffer_free(&others);
    free(content);
    if (status != WEFT_OK)
        return status;
    writer->kept -= segment->output_bytes;
    *segment = (struct journal_segment){.first = segment->first};
    return WEFT_OK;
}

/* Drop output of old segments until the rest is within the limit. Failures are retried at the next segment. */
static void drop_output(struct journal_writer *writer)
{
    for (size_t i = 0; i + 1 < writer->count && writer->kept > writer->limits.output_bytes; i++) {
        const struct journal_segment *segment = &writer->segments[i];
        if (segment->output_records == 0)
            continue;
        struct journal_record told = {
            .kind = JOURNAL_DROPPED,
            .dropped = {segment->output_bytes, segment->output_records, segment->output_first, segment->output_last}};
        /* Record first, then drop: after a crash in between, a second record is harmless. */
        if (journal_file_append(writer, &told, NULL) != WEFT_OK || thin_segment(writer, i, NULL) != WEFT_OK)
            return;
    }
}

weft_status journal_append(struct journal_writer *writer, struct journal_record *record, struct error *error)
{
    if (writer->ended)
        return error_set(error, WEFT_ERROR_STATE, "the journal '%s' has its last record already", writer->directory);
    if (writer->bytes >= writer->limits.segment_bytes && begin_segment(writer, NULL) == WEFT_OK)
        drop_output(writer);
    return journal_file_append(writer, record, error);
}

weft_status journal_append_copy(struct journal_writer *writer, const struct journal_record *record, struct error *error)
{
    if (record->sequence < writer->next)
        return WEFT_OK;
    if (writer->ended)
        return error_set(error, WEFT_ERROR_STATE, "the journal '%s' has its last record already", writer->directory);
    writer->next = record->sequence;
    if (writer->bytes >= writer->limits.segment_bytes)
        (void)begin_segment(writer, NULL);
    weft_status status = journal_file_put(writer, record, error);
    for (size_t i = 0; status == WEFT_OK && record->kind == JOURNAL_DROPPED && i + 1 < writer->count; i++)
        if (writer->segments[i].output_records && writer->segments[i].output_last <= record->dropped.last)
            (void)thin_segment(writer, i, NULL); /* what could not be dropped is only larger than it need be */
    return status;
}

weft_status journal_sync(struct journal_writer *writer, struct error *error)
{
    if (fdatasync(writer->file) != 0)
        return error_system(error, "cannot sync the journal '%s'", writer->directory);
    return WEFT_OK;
}

void journal_writer_close(struct journal_writer *writer)
{
    if (writer->segments || writer->count)
        give_up_reserve(writer);
    if (writer->segments && writer->file >= 0)
        close(writer->file);
    free(writer->segments);
    buffer_free(&writer->record);
    writer->segments = NULL;
    writer->count = writer->room = 0;
    writer->file = -1;
}

/* ---- reading ---- */

/* Fit the buffer to `size` bytes: thousands of journals are read concurrently, most with some lines per minute. */
static weft_status journal_file_make_room(struct journal_reader *reader, size_t size, struct error *error)
{
    const size_t room = (size + PIECE_BYTES - 1) / PIECE_BYTES * PIECE_BYTES;
    if (reader->room == room)
        return WEFT_OK;
    uint8_t *bytes = realloc(reader->bytes, room);
    if (!bytes)
        return error_memory(error, room, "reading a journal");
    reader->bytes = bytes;
    reader->room = room;
    return WEFT_OK;
}

weft_status journal_reader_open(struct journal_reader *reader, const char *directory, uint64_t after,
                                struct error *error)
{
    *reader = (struct journal_reader){.after = after, .file = -1};
    if (snprintf(reader->directory, sizeof reader->directory, "%s", directory) >= (int)sizeof reader->directory)
        return error_set(error, WEFT_ERROR_ARGUMENT, "the path '%.200s...' is too long", directory);
    return journal_file_make_room(reader, PIECE_BYTES, error);
}

/* The segment to read next: at first the one with the record after `after`, then the following one. */
static weft_status journal_file_find_segment(const struct journal_reader *reader, uint64_t *first, struct error *error)
{
    struct journal_segment *segments;
    size_t count;
    weft_status status = list_segments(reader->directory, &segments, &count, error);
    if (status != WEFT_OK)
        return status;
    *first = 0;
    for (size_t i = 0; i < count; i++) {
        if (reader->first != 0 && segments[i].first > reader->first) {
            *first = segments[i].first;
            break;
        }
        if (reader->first == 0 && (i == 0 || segments[i].first <= reader->after + 1))
            *first = segments[i].first;
    }
    free(segments);
    return WEFT_OK;
}

static weft_status enter_segment(struct journal_reader *reader, uint64_t first, struct error *error)
{
    char path[FILE_PATH_BYTES];
    weft_status status = journal_segment_path(path, reader->directory, first, error);
    if (status != WEFT_OK)
        return status;
    int file = open(path, O_RDONLY | O_CLOEXEC);
    if (file < 0)
        return error_system(error, "cannot open '%s'", path);
    file_close(reader->file);
    reader->file = file;
    reader->first = first;
    reader->offset = reader->begin = 0;
    reader->size = 0;
    return WEFT_OK;
}

/* Fill the buffer from the next record on. */
static weft_status refill(struct journal_reader *reader, struct error *error)
{
    struct stat status;
    ssize_t got = fstat(reader->file, &status);
    if (got == 0) {
        const uint64_t left = (uint64_t)status.st_size > reader->offset ? (uint64_t)status.st_size - reader->offset : 0;
        const weft_status made = journal_file_make_room(reader,
                                                        left < 1             ? 1
                                                        : left < RECORD_MOST ? left
                                                                             : RECORD_MOST,
                                                        error);
        if (made != WEFT_OK)
            return made;
        do
            got = pread(reader->file, reader->bytes, reader->room, (off_t)reader->offset);
        while (got < 0 && errno == EINTR);
    }
    if (got < 0)
        return error_system(error, "cannot read the journal '%s'", reader->directory);
    reader->begin = reader->offset;
    reader->size = (size_t)got;
    return WEFT_OK;
}

/* The next record of this segment, from the buffer or the file. */
static weft_status next_here(struct journal_reader *reader, struct journal_record *record, bool *found,
                             struct error *error)
{
    for (int attempt = 0; attempt < 2; attempt++) {
        size_t at = (size_t)(reader->offset - reader->begin), used;
        enum journal_found what = JOURNAL_MORE;
        if (at <= reader->size)
            what = journal_get(reader->bytes + at, reader->size - at, record, &used);
        if (what == JOURNAL_FOUND) {
            if (record->sequence < reader->first)
                return journal_file_damaged(reader->directory, reader->first, reader->offset, error);
            reader->offset += used;
            *found = true;
            return WEFT_OK;
        }
        if (attempt == 1 && what == JOURNAL_DAMAGED) {
            struct stat status;
            /* The last record may be a write in progress or a torn tail. */
            if (fstat(reader->file, &status) != 0 || (uint64_t)status.st_size > reader->offset + RECORD_MOST)
                return journal_file_damaged(reader->directory, reader->first, reader->offset, error);
            uint32_t payload = reader->size >= 4
                                   ? (uint32_t)reader->bytes[0] | (uint32_t)reader->bytes[1] << 8 |
                                         (uint32_t)reader->bytes[2] << 16 | (uint32_t)reader->bytes[3] << 24
                                   : 0;
            if (reader->offset + JOURNAL_HEADER_BYTES + payload < (uint64_t)status.st_size)
                return journal_file_damaged(reader->directory, reader->first, reader->offset, error);
        }
        if (attempt == 0) {
            weft_status status = refill(reader, error);
            if (status != WEFT_OK)
                return status;
        }
    }
    *found = false;
    return WEFT_OK;
}

/* The next record of any segment. */
static weft_status next_anywhere(struct journal_reader *reader, struct journal_record *record, bool *found,
                                 struct error *error)
{
    for (;;) {
        weft_status status = WEFT_OK;
        *found = false;
        if (reader->first != 0)
            status = next_here(reader, record, found, error);
        if (status != WEFT_OK || *found)
            return status;
        uint64_t following = 0;
        status = journal_file_find_segment(reader, &following, error);
        if (status != WEFT_OK || following == 0)
            return status;
        /* The segment is complete now, but records may have been added before the next one began. */
        if (reader->first != 0)
            status = next_here(reader, record, found, error);
        if (status != WEFT_OK || *found)
            return status;
        status = enter_segment(reader, following, error);
        if (status != WEFT_OK)
            return status;
    }
}

weft_status journal_reader_next(struct journal_reader *reader, struct journal_record *record, bool *found,
                                struct error *error)
{
    struct journal_record next;
    do {
        bool there = false;
        weft_status status = next_anywhere(reader, &next, &there, error);
        if (status != WEFT_OK)
            return status;
        if (!there) {
            *found = false;
            return WEFT_OK;
        }
    } while (next.sequence <= reader->after);
    reader->after = next.sequence;
    *record = next;
    *found = true;
    return WEFT_OK;
}

void journal_reader_close(struct journal_reader *reader)
{
    if (reader->bytes && reader->file >= 0)
        close(reader->file);
    free(reader->bytes);
    reader->bytes = NULL;
    reader->file = -1;
}

/* SPDX-License-Identifier: Apache-2.0 */
#include "platform/metrics/read/internal/tensorboard_events.h"

#include "base/crc32c.h"
#include "platform/metrics/read/internal/event_message.h"
#include "training/train/report/names.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define HEAD_BYTES  12 /* of a record: length and its checksum */
#define TAIL_BYTES  4  /* checksum of the rest */
#define READ_BYTES  ((size_t)64 << 10)
#define RECORD_SANE ((uint64_t)1 << 40) /* a larger length is invalid, even with a correct checksum */

static uint64_t tensorboard_events_little_endian(const uint8_t *bytes, size_t size)
{
    uint64_t number = 0;
    for (size_t i = 0; i < size; i++)
        number |= (uint64_t)bytes[i] << 8 * i;
    return number;
}

weft_status events_open(struct events_reader *reader, const char *path, uint64_t offset, struct error *error)
{
    *reader = (struct events_reader){.descriptor = -1, .offset = offset, .path = strdup(path)};
    if (!reader->path)
        return error_memory(error, strlen(path) + 1, "the name of an event file");
    /* A pipe of that name would be waited for. */
    reader->descriptor = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    struct stat file;
    weft_status status = WEFT_OK;
    if (reader->descriptor < 0 || fstat(reader->descriptor, &file) != 0)
        status = error_system(error, "cannot read the event file '%s'", path);
    else if (!S_ISREG(file.st_mode))
        status = error_set(error, WEFT_ERROR_DATA, "cannot read the event file '%s': it is no file", path);
    if (status != WEFT_OK)
        events_close(reader);
    return status;
}

void events_close(struct events_reader *reader)
{
    if (reader->path && reader->descriptor >= 0)
        close(reader->descriptor);
    free(reader->path);
    free(reader->bytes);
    *reader = (struct events_reader){.descriptor = -1};
}

bool events_is_file(const char *name)
{
    static const char collected[] = REPORT_NAME_COLLECTED;
    const size_t length = strlen(name), end = sizeof collected - 1;
    return strstr(name, "tfevents") && !(length >= end && strcmp(name + length - end, collected) == 0);
}

/* `done` bytes are done with. */
static void tensorboard_events_advance(struct events_reader *reader, uint64_t done)
{
    const size_t held = done < reader->count ? (size_t)done : reader->count;
    memmove(reader->bytes, reader->bytes + held, reader->count - held);
    reader->count -= held;
    reader->offset += done;
}

/* Read on; `*more` is false at the end of the file. */
static weft_status tensorboard_events_fill(struct events_reader *reader, bool *more, struct error *error)
{
    weft_status status =
        ARRAY_RESERVE(reader->bytes, reader->room, reader->count + READ_BYTES, "a record of an event file", error);
    if (status != WEFT_OK)
        return status;
    ssize_t got;
    do
        got = pread(reader->descriptor, reader->bytes + reader->count, READ_BYTES,
                    (off_t)(reader->offset + reader->count));
    while (got < 0 && errno == EINTR);
    if (got < 0)
        return error_system(error, "cannot read the event file '%s'", reader->path);
    reader->count += (size_t)got;
    if (reader->count > 0)
        reader->seen = reader->offset + reader->count;
    *more = got > 0;
    return WEFT_OK;
}

static bool is_head(const uint8_t *head, uint64_t *length)
{
    *length = tensorboard_events_little_endian(head, 8);
    return *length <= RECORD_SANE && tensorboard_events_little_endian(head + 8, 4) == crc32c_masked(head, 8);
}

/* Go on to where a record may begin; the last bytes, which may be part of a beginning, stay. */
static size_t find_head(struct events_reader *reader, size_t from)
{
    uint64_t length;
    while (from + HEAD_BYTES <= reader->count) {
        if (is_head(reader->bytes + from, &length) && length > 0) {
            reader->lost = false;
            break;
        }
        from++;
    }
    return from;
}

/* Take the records that are whole, from `reader->bytes` on; `*done`: bytes of them. */
static weft_status take_records(struct events_reader *reader, events_take *take, void *state, uint64_t *done,
                                struct error *error)
{
    weft_status status = WEFT_OK;
    size_t at = 0;
    *done = 0;
    while (status == WEFT_OK) {
        uint64_t length;
        if (reader->lost)
            at = find_head(reader, at);
        *done = at;
        if (reader->lost || at + HEAD_BYTES > reader->count)
            break;
        const uint8_t *record = reader->bytes + at;
        if (!is_head(record, &length)) {
            reader->damaged++;
            reader->lost = true;
            at++;
            continue;
        }
        if (length > EVENTS_RECORD_MOST) {
            reader->skipped++;
            *done = at + HEAD_BYTES + length + TAIL_BYTES;
            break;
        }
        const size_t whole = HEAD_BYTES + (size_t)length + TAIL_BYTES;
        if (at + whole > reader->count)
            break;
        if (tensorboard_events_little_endian(record + whole - TAIL_BYTES, TAIL_BYTES) !=
            crc32c_masked(record + HEAD_BYTES, (size_t)length))
            reader->damaged++;
        else
            status = event_message_read(record + HEAD_BYTES, (size_t)length, take, state, &reader->left_out, error);
        at += status == WEFT_OK ? whole : 0;
    }
    return status;
}

/* A file that is shorter than what was read of it is another one, or was cut. */
static weft_status check_size(const struct events_reader *reader, struct error *error)
{
    struct stat file;
    if (fstat(reader->descriptor, &file) != 0)
        return error_system(error, "cannot look at the event file '%s'", reader->path);
    if ((uint64_t)file.st_size < reader->seen)
        return error_set(error, WEFT_ERROR_DATA,
                         "the event file '%s' has %" PRIu64 " bytes, but %" PRIu64
                         " were read before: it was replaced or truncated",
                         reader->path, (uint64_t)file.st_size, reader->seen);
    return WEFT_OK;
}

weft_status events_read(struct events_reader *reader, events_take *take, void *state, struct error *error)
{
    bool more = true;
    weft_status status = check_size(reader, error);
    while (status == WEFT_OK && more) {
        uint64_t done;
        status = tensorboard_events_fill(reader, &more, error);
        if (status != WEFT_OK)
            break;
        do {
            status = take_records(reader, take, state, &done, error);
            tensorboard_events_advance(reader, done);
        } while (status == WEFT_OK && done > 0 && reader->count >= HEAD_BYTES);
    }
    return status;
}

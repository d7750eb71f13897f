/* SPDX-License-Identifier: Apache-2.0 */
#include "training/train/report/internal/event_file.h"

#include "base/crc32c.h"
#include "base/float_bits.h"
#include "base/varint.h"
#include "training/train/report/names.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define NUMBERS_MOST 1000 /* files that a process makes in one directory in one second */

/* ---- protocol buffers: fields are a key (number and kind of what follows) and a value ---- */

#define VALUE_BYTES  (EVENT_TAG_MOST + 16)
#define RECORD_BYTES (64 + EVENT_VALUES_MOST * VALUE_BYTES)

enum event_file_wire {
    WIRE_VARINT = 0,
    WIRE_FIXED64 = 1,
    WIRE_BYTES = 2,
    WIRE_FIXED32 = 5,
};

struct event_file_message {
    uint8_t bytes[RECORD_BYTES];
    size_t size;
};

static void put_varint(struct event_file_message *message, uint64_t number)
{
    message->size = (size_t)(varint_put(message->bytes + message->size, number) - message->bytes);
}

static void put_key(struct event_file_message *message, unsigned field, enum event_file_wire wire)
{
    put_varint(message, field << 3 | wire);
}

static void put_little_endian(uint8_t *to, uint64_t number, size_t bytes)
{
    for (size_t i = 0; i < bytes; i++)
        to[i] = (uint8_t)(number >> 8 * i);
}

static void put_fixed(struct event_file_message *message, uint64_t number, size_t bytes)
{
    put_little_endian(message->bytes + message->size, number, bytes);
    message->size += bytes;
}

static void put_double(struct event_file_message *message, unsigned field, double value)
{
    put_key(message, field, WIRE_FIXED64);
    put_fixed(message, double_to_bits(value), sizeof value);
}

static void put_float(struct event_file_message *message, unsigned field, float value)
{
    put_key(message, field, WIRE_FIXED32);
    put_fixed(message, float_to_bits(value), sizeof value);
}

static void put_bytes(struct event_file_message *message, unsigned field, const void *bytes, size_t size)
{
    put_key(message, field, WIRE_BYTES);
    put_varint(message, size);
    memcpy(message->bytes + message->size, bytes, size);
    message->size += size;
}

/* ---- records ---- */

static weft_status put_record(struct event_file *events, const struct event_file_message *message, struct error *error)
{
    uint8_t head[12], tail[4];
    put_little_endian(head, message->size, 8);
    put_little_endian(head + 8, crc32c_masked(head, 8), 4);
    put_little_endian(tail, crc32c_masked(message->bytes, message->size), 4);
    if (fwrite(head, 1, sizeof head, events->file) != sizeof head ||
        fwrite(message->bytes, 1, message->size, events->file) != message->size ||
        fwrite(tail, 1, sizeof tail, events->file) != sizeof tail || fflush(events->file) != 0)
        return error_system(error, "the event file '%s' cannot be written", events->path);
    return WEFT_OK;
}

static weft_status put_version(struct event_file *events, double time, struct error *error)
{
    static const char version[] = "brain.Event:2";
    struct event_file_message event = {0};
    put_double(&event, 1, time);
    put_bytes(&event, 3, version, sizeof version - 1);
    return put_record(events, &event, error);
}

weft_status event_file_put(struct event_file *events, double time, uint64_t step, const struct event_value *values,
                           size_t count, struct error *error)
{
    struct event_file_message event = {0}, summary = {0};
    for (size_t i = 0; i < count && i < EVENT_VALUES_MOST; i++) {
        struct event_file_message value = {0};
        put_bytes(&value, 1, values[i].tag, strnlen(values[i].tag, EVENT_TAG_MOST));
        put_float(&value, 2, (float)values[i].value);
        put_bytes(&summary, 1, value.bytes, value.size);
    }
    put_double(&event, 1, time);
    put_key(&event, 2, WIRE_VARINT);
    put_varint(&event, step);
    put_bytes(&event, 5, summary.bytes, summary.size);
    return put_record(events, &event, error);
}

/* ---- files ---- */

/* A resumed run gets a new file; TensorBoard merges the files of a directory. */
static int event_file_make_file(struct event_file *events, const char *directory, double time, bool collected,
                                struct error *error)
{
    char host[256] = "", name[FILE_PATH_BYTES];
    gethostname(host, sizeof host - 1);
    for (unsigned number = 0; number < NUMBERS_MOST; number++) {
        snprintf(name, sizeof name, "events.out.tfevents.%010" PRIu64 ".%s.%ld.%u%s", (uint64_t)time,
                 *host ? host : "localhost", (long)getpid(), number, collected ? REPORT_NAME_COLLECTED : "");
        if (file_join(events->path, directory, name, error) != WEFT_OK)
            return -1;
        const int descriptor = open(events->path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
        if (descriptor >= 0 || errno != EEXIST)
            return descriptor;
    }
    return -1;
}

weft_status event_file_open(struct event_file *events, const char *directory, double time, bool collected,
                            struct error *error)
{
    events->file = NULL;
    weft_status status = file_make_directory(directory, error);
    if (status != WEFT_OK)
        return status;
    const int descriptor = event_file_make_file(events, directory, time, collected, error);
    events->file = descriptor >= 0 ? fdopen(descriptor, "w") : NULL;
    if (!events->file) {
        status = error_system(error, "cannot make the event file '%s'", events->path);
        if (descriptor >= 0)
            close(descriptor);
        return status;
    }
    if ((status = put_version(events, time, error)) != WEFT_OK) {
        event_file_close(events);
        remove(events->path);
    }
    return status;
}

void event_file_close(struct event_file *events)
{
    if (events->file)
        fclose(events->file); /* every record was flushed */
    events->file = NULL;
}

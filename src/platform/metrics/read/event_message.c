/* SPDX-License-Identifier: Apache-2.0 */
#include "platform/metrics/read/internal/event_message.h"

#include "base/float_bits.h"
#include "base/text.h"
#include "base/varint.h"
#include "training/checkpoint/convert.h"

#include <math.h>
#include <string.h>

#define TIME_MOST 9e9 /* seconds since 1970 whose microseconds a double holds */

enum event_message_wire {
    WIRE_VARINT = 0,
    WIRE_FIXED64 = 1,
    WIRE_BYTES = 2,
    WIRE_FIXED32 = 5,
};

/* A field: what follows its key. */
struct event_message_field {
    uint64_t number;
    enum event_message_wire wire;
    uint64_t value;             /* of all kinds but bytes */
    struct varint_reader bytes; /* of that one */
};

static uint64_t event_message_little_endian(const uint8_t *bytes, size_t size)
{
    uint64_t number = 0;
    for (size_t i = 0; i < size; i++)
        number |= (uint64_t)bytes[i] << 8 * i;
    return number;
}

/* False at the end of the message, and where it makes no sense. */
static bool next_field(struct varint_reader *message, struct event_message_field *field)
{
    uint64_t key, size;
    if (!varint_get(message, &key))
        return false;
    field->number = key >> 3;
    field->wire = (enum event_message_wire)(key & 7);
    switch (field->wire) {
    case WIRE_VARINT:
        return varint_get(message, &field->value);
    case WIRE_FIXED64:
    case WIRE_FIXED32:
        size = field->wire == WIRE_FIXED64 ? 8 : 4;
        if ((uint64_t)(message->end - message->at) < size)
            return false;
        field->value = event_message_little_endian(message->at, (size_t)size);
        message->at += size;
        return true;
    case WIRE_BYTES:
        if (!varint_get(message, &size) || (uint64_t)(message->end - message->at) < size)
            return false;
        field->bytes = (struct varint_reader){message->at, message->at + size};
        message->at += size;
        return true;
    default: /* groups, which nobody writes any more */
        return false;
    }
}

static double of_half(uint64_t bits)
{
    const uint16_t half = (uint16_t)bits;
    float value;
    convert_to_f32(WEFT_F16, 1, &half, &value);
    return (double)value;
}

/* ---- tensors ---- */

/* tensorflow/core/framework/types.proto */
enum type {
    TYPE_FLOAT = 1,
    TYPE_DOUBLE = 2,
    TYPE_INT32 = 3,
    TYPE_UINT8 = 4,
    TYPE_INT16 = 5,
    TYPE_INT8 = 6,
    TYPE_INT64 = 9,
    TYPE_BOOL = 10,
    TYPE_BFLOAT16 = 14,
    TYPE_UINT16 = 17,
    TYPE_HALF = 19,
    TYPE_UINT32 = 22,
    TYPE_UINT64 = 23,
};

/* Bytes of a number of `type` in tensor_content; 0: no type that is known. */
static size_t event_message_size_of(uint64_t type)
{
    static const uint8_t sizes[] = {
        [TYPE_FLOAT] = 4, [TYPE_DOUBLE] = 8, [TYPE_INT32] = 4,  [TYPE_UINT8] = 1,  [TYPE_INT16] = 2,
        [TYPE_INT8] = 1,  [TYPE_INT64] = 8,  [TYPE_BOOL] = 1,   [TYPE_UINT16] = 2, [TYPE_BFLOAT16] = 2,
        [TYPE_HALF] = 2,  [TYPE_UINT32] = 4, [TYPE_UINT64] = 8,
    };
    return type < sizeof sizes ? sizes[type] : 0;
}

/* The number of a known `type` that these bits of memory are. */
static double event_message_number_of(uint64_t type, uint64_t bits)
{
    switch (type) {
    case TYPE_FLOAT:
        return (double)float_from_bits((uint32_t)bits);
    case TYPE_DOUBLE:
        return double_from_bits(bits);
    case TYPE_BFLOAT16:
        return (double)float_from_bits((uint32_t)((bits & 0xffff) << 16));
    case TYPE_HALF:
        return of_half(bits);
    case TYPE_UINT64:
        return (double)bits;
    case TYPE_UINT32:
        return (double)(uint32_t)bits;
    case TYPE_UINT16:
        return (double)(uint16_t)bits;
    case TYPE_UINT8:
    case TYPE_BOOL:
        return (double)(uint8_t)bits;
    case TYPE_INT32:
        return (double)(int32_t)(uint32_t)bits;
    case TYPE_INT16:
        return (double)(int16_t)(uint16_t)bits;
    case TYPE_INT8:
        return (double)(int8_t)(uint8_t)bits;
    default:
        return (double)(int64_t)bits;
    }
}

/* Whether a shape is that of one number: no dimension, or only such of 1. */
static bool is_single(struct varint_reader shape)
{
    struct event_message_field field, size;
    while (next_field(&shape, &field))
        if (field.number == 2 && field.wire == WIRE_BYTES)
            while (next_field(&field.bytes, &size))
                if (size.number == 1 && size.wire == WIRE_VARINT && size.value != 1)
                    return false;
    return true;
}

/* The first number of a list of them, packed or not, as float_val, int_val and their like have it. */
static bool first_of(struct event_message_field *field, uint64_t *bits)
{
    if (field->wire != WIRE_BYTES) {
        *bits = field->value;
        return true;
    }
    const size_t size = (size_t)(field->bytes.end - field->bytes.at);
    if (field->number == 5 || field->number == 6) {
        const size_t width = field->number == 5 ? 4 : 8;
        *bits = size >= width ? event_message_little_endian(field->bytes.at, width) : 0;
        return size >= width;
    }
    return varint_get(&field->bytes, bits);
}

static bool event_message_read_tensor(struct varint_reader tensor, double *value)
{
    struct event_message_field field;
    uint64_t type = 0, bits = 0;
    bool found = false, content = false;
    size_t size = 0;
    while (next_field(&tensor, &field)) {
        if (field.number == 1 && field.wire == WIRE_VARINT) {
            type = field.value;
        } else if (field.number == 2 && field.wire == WIRE_BYTES) {
            if (!is_single(field.bytes))
                return false;
        } else if (field.number == 4 && field.wire == WIRE_BYTES) {
            size = (size_t)(field.bytes.end - field.bytes.at);
            found = content = size >= 1 && size <= 8;
            bits = found ? event_message_little_endian(field.bytes.at, size) : 0;
        } else if ((field.number >= 5 && field.number <= 7) || field.number == 10 || field.number == 11 ||
                   field.number == 13 || field.number == 16 || field.number == 17) {
            found = found || first_of(&field, &bits);
        }
    }
    const size_t expected = event_message_size_of(type);
    if (!found || !expected || (content && size != expected))
        return false;
    *value = event_message_number_of(type, bits);
    return true;
}

/* ---- summaries ---- */

/* Whether metadata is of another plugin than that of scalars; old ones and files that go on have none. */
static bool event_message_is_foreign(struct varint_reader metadata)
{
    static const char scalars[] = "scalars";
    struct event_message_field field, name;
    while (next_field(&metadata, &field))
        if (field.number == 1 && field.wire == WIRE_BYTES)
            while (next_field(&field.bytes, &name))
                if (name.number == 1 && name.wire == WIRE_BYTES)
                    return name.bytes.end - name.bytes.at != sizeof scalars - 1 ||
                           memcmp(name.bytes.at, scalars, sizeof scalars - 1) != 0;
    return false;
}

static weft_status event_message_read_value(struct varint_reader message, struct events_scalar *scalar,
                                            events_take *take, void *state, uint64_t *left_out, struct error *error)
{
    char name[EVENTS_NAME_MOST + 1];
    struct event_message_field field;
    size_t length = 0;
    bool found = false;
    while (next_field(&message, &field)) {
        if (field.number == 1 && field.wire == WIRE_BYTES) {
            length = (size_t)(field.bytes.end - field.bytes.at);
            memcpy(name, field.bytes.at, length <= EVENTS_NAME_MOST ? length : 0);
        } else if (field.number == 2 && field.wire == WIRE_FIXED32) {
            scalar->value = (double)float_from_bits((uint32_t)field.value);
            found = true;
        } else if (field.number == 8 && field.wire == WIRE_BYTES) {
            found = event_message_read_tensor(field.bytes, &scalar->value) || found;
        } else if (field.number == 9 && field.wire == WIRE_BYTES && event_message_is_foreign(field.bytes)) {
            return WEFT_OK;
        }
    }
    if (!found)
        return WEFT_OK;
    if (length == 0 || length > EVENTS_NAME_MOST || memchr(name, 0, length)) {
        ++*left_out;
        return WEFT_OK;
    }
    name[length] = 0;
    scalar->name = text_printable_name(name);
    return take(state, scalar, error);
}

weft_status event_message_read(const uint8_t *bytes, size_t size, events_take *take, void *state, uint64_t *left_out,
                               struct error *error)
{
    const struct varint_reader whole = {bytes, bytes + size};
    struct varint_reader event = whole;
    struct events_scalar scalar = {0};
    struct event_message_field field, value;
    weft_status status = WEFT_OK;
    /* Step and time first: they may come after the values. */
    while (next_field(&event, &field)) {
        if (field.number == 2 && field.wire == WIRE_VARINT)
            scalar.step = (int64_t)field.value;
        const double time = field.number == 1 && field.wire == WIRE_FIXED64 ? double_from_bits(field.value) : NAN;
        if (time >= 0 && time <= TIME_MOST)
            scalar.time = (int64_t)(time * 1e6);
    }
    event = whole;
    while (status == WEFT_OK && next_field(&event, &field))
        if (field.number == 5 && field.wire == WIRE_BYTES)
            while (status == WEFT_OK && next_field(&field.bytes, &value))
                if (value.number == 1 && value.wire == WIRE_BYTES)
                    status = event_message_read_value(value.bytes, &scalar, take, state, left_out, error);
    return status;
}

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * version, form of values, number of points (varint); steps: the first, then differences of differences; times: the
 * first, then differences; values, little-endian. Differences wrap, so that any two numbers have one.
 */
#include "platform/metrics/store/internal/block.h"

#include "base/float_bits.h"
#include "base/varint.h"

#define VERSION 1

enum form {
    FORM_F64,
    FORM_F32,
};

static void block_put_little_endian(uint8_t *to, uint64_t number, size_t bytes)
{
    for (size_t i = 0; i < bytes; i++)
        to[i] = (uint8_t)(number >> 8 * i);
}

static uint64_t get_little_endian(const uint8_t *from, size_t bytes)
{
    uint64_t number = 0;
    for (size_t i = 0; i < bytes; i++)
        number |= (uint64_t)from[i] << 8 * i;
    return number;
}

/* Bits are compared, not values: -0 and the payload of a NaN count. */
static enum form form_of(const struct metric_point *points, size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (double_to_bits((double)(float)points[i].value) != double_to_bits(points[i].value))
            return FORM_F64;
    return FORM_F32;
}

size_t metric_block_write(const struct metric_point *points, size_t count, uint8_t bytes[METRIC_BLOCK_BYTES])
{
    const enum form form = form_of(points, count);
    uint64_t before = 0, stride = 0;
    uint8_t *at = bytes;
    *at++ = VERSION;
    *at++ = (uint8_t)form;
    at = varint_put(at, count);
    for (size_t i = 0; i < count; i++) {
        const uint64_t step = (uint64_t)points[i].step, difference = step - before;
        at = varint_put(at, varint_zigzag(difference - stride));
        stride = i > 0 ? difference : 0;
        before = step;
    }
    before = 0;
    for (size_t i = 0; i < count; i++) {
        at = varint_put(at, varint_zigzag((uint64_t)points[i].time - before));
        before = (uint64_t)points[i].time;
    }
    const size_t width = form == FORM_F32 ? 4 : 8;
    for (size_t i = 0; i < count; i++, at += width)
        block_put_little_endian(
            at, form == FORM_F32 ? float_to_bits((float)points[i].value) : double_to_bits(points[i].value), width);
    return (size_t)(at - bytes);
}

static bool block_read_head(struct varint_reader *reader, enum form *form, uint64_t *count)
{
    if (reader->end - reader->at < 2 || reader->at[0] != VERSION || reader->at[1] > FORM_F32)
        return false;
    *form = (enum form)reader->at[1];
    reader->at += 2;
    return varint_get(reader, count) && *count >= 1 && *count <= METRIC_BLOCK_POINTS;
}

static bool read_places(struct varint_reader *reader, struct metric_point *points, size_t count)
{
    uint64_t before = 0, stride = 0, number;
    for (size_t i = 0; i < count; i++) {
        if (!varint_get(reader, &number))
            return false;
        const uint64_t difference = varint_unzigzag(number) + stride;
        before += difference;
        stride = i > 0 ? difference : 0;
        points[i].step = (int64_t)before;
    }
    before = 0;
    for (size_t i = 0; i < count; i++) {
        if (!varint_get(reader, &number))
            return false;
        before += varint_unzigzag(number);
        points[i].time = (int64_t)before;
    }
    return true;
}

static bool read_values(struct varint_reader *reader, enum form form, struct metric_point *points, size_t count)
{
    const size_t width = form == FORM_F32 ? 4 : 8;
    if ((size_t)(reader->end - reader->at) < count * width)
        return false;
    for (size_t i = 0; i < count; i++, reader->at += width) {
        const uint64_t bits = get_little_endian(reader->at, width);
        if (form == FORM_F32)
            points[i].value = (double)float_from_bits((uint32_t)bits);
        else
            points[i].value = double_from_bits(bits);
    }
    return true;
}

weft_status metric_block_read(const uint8_t *bytes, size_t size, const char *where,
                              struct metric_point points[METRIC_BLOCK_POINTS], size_t *count, size_t *used,
                              struct error *error)
{
    struct varint_reader reader = {bytes, bytes + size};
    enum form form;
    uint64_t number;
    if (!block_read_head(&reader, &form, &number) || !read_places(&reader, points, (size_t)number) ||
        !read_values(&reader, form, points, (size_t)number) || (!used && reader.at != reader.end))
        return error_set(error, WEFT_ERROR_DATA, "%s: %zu bytes that are no block of metrics", where, size);
    *count = (size_t)number;
    if (used)
        *used = (size_t)(reader.at - bytes);
    return WEFT_OK;
}

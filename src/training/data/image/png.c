/* SPDX-License-Identifier: Apache-2.0 */
/* PNG by libpng. Its errors come back here by longjmp(). What is needed after that lives in one struct. */
#include "base/buffer.h"
#include "training/data/image/internal/codecs.h"

#include <setjmp.h>
#include <stdlib.h>
#include <string.h>

#include <png.h>

/* Deflate makes at most 1032 bytes of one (zlib's technical notes); a file as small as its headers has no more. */
#define PNG_EXPANSION_MOST 1032.0

/* Most bytes of a chunk beside the pixels. */
#define PNG_CHUNK_MOST ((png_alloc_size_t)8 << 20)

/* libpng's count of texts and the like that it keeps, plus 1; 0 would be no limit. */
#define PNG_CHUNKS_KEPT 1

struct png_reading {
    png_structp png;
    png_infop info;
    const struct image_bytes *bytes;
    size_t at; /* bytes read */
    struct error *error;
    weft_status status;
    uint8_t *rows; /* one row, or all of an interlaced image */
    uint8_t **pointers;
};

static void png_fail(png_structp png, png_const_charp text)
{
    struct png_reading *reading = png_get_error_ptr(png);
    reading->status =
        error_set(reading->error, WEFT_ERROR_DATA, "'%s' is not a whole PNG image: %s; get it again or remove it",
                  reading->bytes->name, text);
    png_longjmp(png, 1);
}

static void png_warn(png_structp png, png_const_charp text)
{
}

static void png_take(png_structp png, png_bytep into, size_t size)
{
    struct png_reading *reading = png_get_io_ptr(png);
    if (size > reading->bytes->size - reading->at)
        png_error(png, "it is truncated");
    memcpy(into, reading->bytes->bytes + reading->at, size);
    reading->at += size;
}

static weft_status png_create(struct png_reading *reading, const struct image_bytes *bytes, struct error *error)
{
    reading->bytes = bytes;
    reading->error = error;
    reading->png = png_create_read_struct(PNG_LIBPNG_VER_STRING, reading, png_fail, png_warn);
    reading->info = reading->png ? png_create_info_struct(reading->png) : NULL;
    if (reading->info)
        return WEFT_OK;
    png_destroy_read_struct(&reading->png, NULL, NULL);
    return error_set(error, WEFT_ERROR_MEMORY, "no memory to decode the image '%s'", bytes->name);
}

static void png_destroy(struct png_reading *reading)
{
    free(reading->rows);
    free(reading->pointers);
    png_destroy_read_struct(&reading->png, &reading->info, NULL);
}

/* Read all before the pixels, and check the size. May fail by longjmp(). */
static weft_status png_begin(struct png_reading *reading)
{
    png_set_read_fn(reading->png, reading, png_take);
    png_set_user_limits(reading->png, 0x7fffffff, 0x7fffffff);
    png_set_chunk_malloc_max(reading->png, PNG_CHUNK_MOST);
    png_set_chunk_cache_max(reading->png, PNG_CHUNKS_KEPT);
    /* Texts, color profiles and the like are skipped: small ones may expand to gigabytes. The palette and transparency
     * are no such chunks. */
    png_set_keep_unknown_chunks(reading->png, PNG_HANDLE_CHUNK_NEVER, NULL, -1);
    png_read_info(reading->png, reading->info);
    const double bits =
        (double)png_get_bit_depth(reading->png, reading->info) * (double)png_get_channels(reading->png, reading->info);
    return image_check_size(reading->bytes, png_get_image_height(reading->png, reading->info),
                            png_get_image_width(reading->png, reading->info),
                            (double)reading->bytes->size * PNG_EXPANSION_MOST * 8 / bits, reading->error);
}

weft_status png_measure(const struct image_bytes *bytes, struct image_size *measured, struct error *error)
{
    struct png_reading reading = {0};
    weft_status status = png_create(&reading, bytes, error);
    if (status != WEFT_OK)
        return status;
    if (setjmp(png_jmpbuf(reading.png))) {
        png_destroy(&reading);
        return reading.status;
    }
    reading.status = png_begin(&reading);
    if (reading.status == WEFT_OK)
        *measured = (struct image_size){png_get_image_height(reading.png, reading.info),
                                        png_get_image_width(reading.png, reading.info)};
    png_destroy(&reading);
    return reading.status;
}

/* ---- decoding ---- */

static uint8_t png_blend(uint8_t value, uint8_t alpha)
{
    return (uint8_t)((value * alpha + 255 * (255 - alpha) + 127) / 255);
}

/* Pixels of 1 to 4 channels (gray, gray and alpha, RGB, RGBA) to 1 or 3, on white. */
static void png_convert(const uint8_t *from, unsigned has, uint32_t width, uint32_t channels, uint8_t *pixels)
{
    const bool color = has >= 3, alpha = has % 2 == 0;
    for (uint32_t x = 0; x < width; x++, from += has, pixels += channels) {
        uint8_t rgb[3];
        for (unsigned c = 0; c < 3; c++) {
            const uint8_t value = from[color ? c : 0];
            rgb[c] = alpha ? png_blend(value, from[has - 1]) : value;
        }
        if (channels == 3)
            memcpy(pixels, rgb, 3);
        else
            pixels[0] = (uint8_t)((299 * rgb[0] + 587 * rgb[1] + 114 * rgb[2] + 500) / 1000);
    }
}

/* Memory for one row, or for all rows of an interlaced image. */
static weft_status png_allocate_rows(struct png_reading *reading, size_t row, uint32_t rows)
{
    reading->rows = malloc(row * rows);
    reading->pointers = malloc(rows * sizeof *reading->pointers);
    if (!reading->rows || !reading->pointers)
        return error_memory(reading->error, row * rows, "the rows of an image");
    for (uint32_t y = 0; y < rows; y++)
        reading->pointers[y] = reading->rows + y * row;
    return WEFT_OK;
}

static weft_status png_read(struct png_reading *reading, const struct image_request *request, struct image *image)
{
    png_structp png = reading->png;
    struct image_region region;
    weft_status status = png_begin(reading);
    if (status != WEFT_OK)
        return status;
    const uint32_t height = png_get_image_height(png, reading->info);
    status = image_find_region(reading->bytes, request, height, png_get_image_width(png, reading->info), &region,
                               reading->error);
    if (status != WEFT_OK)
        return status;
    png_set_expand(png);
    png_set_scale_16(png);
    const bool interlaced = png_set_interlace_handling(png) > 1;
    png_read_update_info(png, reading->info);
    const size_t row_bytes = png_get_rowbytes(png, reading->info);
    status = png_allocate_rows(reading, row_bytes, interlaced ? height : 1);
    if (status == WEFT_OK)
        status = image_allocate(image, region.height, region.width, request->channels, reading->error);
    if (status != WEFT_OK)
        return status;
    image->left = region.x;
    image->top = region.y;
    const unsigned has = png_get_channels(png, reading->info);
    if (interlaced)
        png_read_image(png, reading->pointers);
    for (uint32_t y = 0; y < region.y + region.height; y++) {
        uint8_t *row = reading->rows + (interlaced ? y * row_bytes : 0);
        if (!interlaced)
            png_read_row(png, row, NULL);
        if (y >= region.y)
            png_convert(row + (size_t)region.x * has, has, region.width, request->channels,
                        image->pixels + (size_t)(y - region.y) * region.width * request->channels);
    }
    return WEFT_OK;
}

weft_status png_decode(const struct image_bytes *bytes, const struct image_request *request, struct image *image,
                       struct error *error)
{
    struct png_reading reading = {0};
    weft_status status = png_create(&reading, bytes, error);
    if (status != WEFT_OK)
        return status;
    if (setjmp(png_jmpbuf(reading.png))) {
        png_destroy(&reading);
        return reading.status;
    }
    reading.status = png_read(&reading, request, image);
    png_destroy(&reading);
    return reading.status;
}

/* ---- encoding ---- */

static void png_put(png_structp png, png_bytep from, size_t size)
{
    struct buffer *buffer = png_get_io_ptr(png);
    buffer_put(buffer, from, size);
    if (buffer->failed)
        png_error(png, "no memory");
}

static void png_flush_nothing(png_structp png)
{
}

weft_status png_encode(const struct image *image, uint8_t **bytes, size_t *size, struct error *error)
{
    const struct image_bytes name = {.name = "an image to be written"};
    struct png_reading writing = {.bytes = &name};
    struct buffer buffer = {0};
    png_structp png = png_create_write_struct(PNG_LIBPNG_VER_STRING, &writing, png_fail, png_warn);
    writing.png = png;
    writing.info = png ? png_create_info_struct(png) : NULL;
    if (!writing.info || setjmp(png_jmpbuf(png))) {
        png_destroy_write_struct(&writing.png, &writing.info);
        buffer_free(&buffer);
        return error_set(error, WEFT_ERROR_MEMORY, "no memory to encode an image");
    }
    png_set_write_fn(png, &buffer, png_put, png_flush_nothing);
    png_set_IHDR(png, writing.info, image->width, image->height, 8,
                 image->channels == 1 ? PNG_COLOR_TYPE_GRAY : PNG_COLOR_TYPE_RGB, PNG_INTERLACE_NONE,
                 PNG_COMPRESSION_TYPE_DEFAULT, PNG_FILTER_TYPE_DEFAULT);
    png_write_info(png, writing.info);
    for (uint32_t y = 0; y < image->height; y++)
        png_write_row(png, image->pixels + (size_t)y * image->width * image->channels);
    png_write_end(png, NULL);
    png_destroy_write_struct(&writing.png, &writing.info);
    *bytes = buffer.bytes;
    *size = buffer_size(&buffer);
    return WEFT_OK;
}

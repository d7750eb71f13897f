/* SPDX-License-Identifier: Apache-2.0 */
/* JPEG by libjpeg-turbo. Its errors come back here by longjmp(). What is needed after that lives in one struct. */
#include "training/data/image/internal/codecs.h"

#include <setjmp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <jerror.h>
#include <jpeglib.h>

/* A progressive image has about ten scans. Each one may be tiny and cost a pass over all blocks. */
#define JPEG_SCANS_MOST 200

/* Pixels of a block over the bits that it takes at least, for a whole byte; twice that to be sure. */
#define JPEG_PIXELS_PER_BYTE 1024.0

/* Columns after a region that smooth upsampling of the color looks at. */
#define JPEG_MARGIN 2u

struct jpeg_failure {
    struct jpeg_error_mgr manager; /* first: libjpeg knows its address */
    jmp_buf caller;
    const char *name;
    struct error *error;
    weft_status status;
};

struct jpeg_reading {
    struct jpeg_decompress_struct jpeg;
    struct jpeg_progress_mgr progress;
    struct jpeg_failure failure;
    JSAMPLE *row; /* of a CMYK image */
};

static void jpeg_fail(j_common_ptr common)
{
    struct jpeg_failure *failure = (struct jpeg_failure *)common->err;
    char text[JMSG_LENGTH_MAX];
    common->err->format_message(common, text);
    failure->status =
        common->err->msg_code == JERR_OUT_OF_MEMORY
            ? error_set(failure->error, WEFT_ERROR_MEMORY, "no memory to decode the image '%s'", failure->name)
            : error_set(failure->error, WEFT_ERROR_DATA,
                        "'%s' is not a whole JPEG image: %s; get it again or remove it", failure->name, text);
    longjmp(failure->caller, 1);
}

/* Warnings that mean lost pixels are errors. Others, such as bytes before a marker, are common in files that are whole. */
static void jpeg_warn(j_common_ptr common, int level)
{
    const int code = common->err->msg_code;
    if (level < 0 && (code == JWRN_JPEG_EOF || code == JWRN_HIT_MARKER || code == JWRN_HUFF_BAD_CODE ||
                      code == JWRN_MUST_RESYNC || code == JWRN_BOGUS_PROGRESSION))
        jpeg_fail(common);
}

static void jpeg_limit_scans(j_common_ptr common)
{
    if (common->is_decompressor && ((j_decompress_ptr)common)->input_scan_number > JPEG_SCANS_MOST)
        ERREXITS(common, JERR_BAD_PROGRESSION, "");
}

static struct jpeg_error_mgr *jpeg_failure_init(struct jpeg_failure *failure, const char *name, struct error *error)
{
    jpeg_std_error(&failure->manager);
    failure->manager.error_exit = jpeg_fail;
    failure->manager.emit_message = jpeg_warn;
    failure->name = name;
    failure->error = error;
    failure->status = WEFT_OK;
    return &failure->manager;
}

/* Read the header and check the size. May fail by longjmp(). */
static weft_status jpeg_begin(struct jpeg_reading *reading, const struct image_bytes *bytes, struct error *error)
{
    struct jpeg_decompress_struct *jpeg = &reading->jpeg;
    jpeg_create_decompress(jpeg);
    reading->progress.progress_monitor = jpeg_limit_scans;
    jpeg->progress = &reading->progress;
    jpeg_mem_src(jpeg, bytes->bytes, bytes->size);
    jpeg_read_header(jpeg, TRUE);
    return image_check_size(bytes, jpeg->image_height, jpeg->image_width, (double)bytes->size * JPEG_PIXELS_PER_BYTE,
                            error);
}

weft_status jpeg_measure(const struct image_bytes *bytes, struct image_size *measured, struct error *error)
{
    struct jpeg_reading reading = {0};
    reading.jpeg.err = jpeg_failure_init(&reading.failure, bytes->name, error);
    if (setjmp(reading.failure.caller)) {
        jpeg_destroy_decompress(&reading.jpeg);
        return reading.failure.status;
    }
    reading.failure.status = jpeg_begin(&reading, bytes, error);
    if (reading.failure.status == WEFT_OK)
        *measured = (struct image_size){reading.jpeg.image_height, reading.jpeg.image_width};
    jpeg_destroy_decompress(&reading.jpeg);
    return reading.failure.status;
}

/* ---- decoding ---- */

/* Eighths of the full size: the fewest that leave the region with `wanted` pixels, among those with fast code. */
static unsigned jpeg_find_scale(const struct image_region *region, uint32_t wanted)
{
    unsigned eighths = 8;
    const uint32_t shorter = region->height < region->width ? region->height : region->width;
    while (wanted && eighths > 1 && (uint64_t)shorter * (eighths / 2) >= (uint64_t)wanted * 8)
        eighths /= 2;
    return eighths;
}

static void jpeg_choose_colors(struct jpeg_decompress_struct *jpeg, uint32_t channels)
{
    if (jpeg->jpeg_color_space == JCS_CMYK || jpeg->jpeg_color_space == JCS_YCCK)
        jpeg->out_color_space = JCS_CMYK;
    else
        jpeg->out_color_space = channels == 1 ? JCS_GRAYSCALE : JCS_RGB;
}

/* Adobe writes inks inverted: 255 is no ink. */
static void jpeg_convert_cmyk(const JSAMPLE *inks, bool inverted, uint32_t width, uint32_t channels, uint8_t *pixels)
{
    for (uint32_t x = 0; x < width; x++, inks += 4, pixels += channels) {
        unsigned rgb[3];
        for (int c = 0; c < 3; c++) {
            const unsigned ink = inverted ? inks[c] : 255u - inks[c], black = inverted ? inks[3] : 255u - inks[3];
            rgb[c] = (ink * black + 127) / 255;
        }
        if (channels == 1)
            pixels[0] = (uint8_t)((299 * rgb[0] + 587 * rgb[1] + 114 * rgb[2] + 500) / 1000);
        else
            for (int c = 0; c < 3; c++)
                pixels[c] = (uint8_t)rgb[c];
    }
}

/* Decode rows [first, first + image->height) of what libjpeg has been asked for. */
static void jpeg_read_rows(struct jpeg_reading *reading, struct image *image, JDIMENSION first)
{
    struct jpeg_decompress_struct *jpeg = &reading->jpeg;
    if (first > 0)
        jpeg_skip_scanlines(jpeg, first);
    for (uint32_t y = 0; y < image->height; y++) {
        uint8_t *pixels = image->pixels + (size_t)y * image->width * image->channels;
        if (jpeg->out_color_space != JCS_CMYK) {
            jpeg_read_scanlines(jpeg, &pixels, 1);
            continue;
        }
        jpeg_read_scanlines(jpeg, &reading->row, 1);
        jpeg_convert_cmyk(reading->row, jpeg->saw_Adobe_marker, image->width, image->channels, pixels);
    }
}

static weft_status jpeg_read(struct jpeg_reading *reading, const struct image_bytes *bytes,
                             const struct image_request *request, struct image *image, struct error *error)
{
    struct jpeg_decompress_struct *jpeg = &reading->jpeg;
    struct image_region region;
    weft_status status = jpeg_begin(reading, bytes, error);
    if (status == WEFT_OK)
        status = image_find_region(bytes, request, jpeg->image_height, jpeg->image_width, &region, error);
    if (status != WEFT_OK)
        return status;
    const unsigned eighths = jpeg_find_scale(&region, request->wanted);
    jpeg_choose_colors(jpeg, request->channels);
    jpeg->scale_num = eighths;
    jpeg->scale_denom = 8;
    jpeg_start_decompress(jpeg);
    /* The region in scaled pixels, rounded outward. */
    JDIMENSION x = region.x * eighths / 8, y = region.y * eighths / 8;
    JDIMENSION width = ((region.x + region.width) * eighths + 7) / 8 - x;
    JDIMENSION height = ((region.y + region.height) * eighths + 7) / 8 - y;
    height = height < jpeg->output_height - y ? height : jpeg->output_height - y;
    width = width < jpeg->output_width - x - JPEG_MARGIN ? width + JPEG_MARGIN : jpeg->output_width - x;
    if (jpeg->output_width - x <= JPEG_MARGIN)
        width = jpeg->output_width - x;
    if (width < jpeg->output_width)
        jpeg_crop_scanline(jpeg, &x, &width);
    status = image_allocate(image, height, width, request->channels, error);
    if (status != WEFT_OK)
        return status;
    image->shrink = 8.0 / eighths;
    image->left = x * image->shrink;
    image->top = y * image->shrink;
    if (jpeg->out_color_space == JCS_CMYK)
        reading->row = jpeg->mem->alloc_small((j_common_ptr)jpeg, JPOOL_IMAGE, (size_t)jpeg->output_width * 4);
    jpeg_read_rows(reading, image, y);
    return WEFT_OK;
}

weft_status jpeg_decode(const struct image_bytes *bytes, const struct image_request *request, struct image *image,
                        struct error *error)
{
    struct jpeg_reading reading = {0};
    reading.jpeg.err = jpeg_failure_init(&reading.failure, bytes->name, error);
    if (setjmp(reading.failure.caller)) {
        jpeg_destroy_decompress(&reading.jpeg);
        return reading.failure.status;
    }
    reading.failure.status = jpeg_read(&reading, bytes, request, image, error);
    jpeg_destroy_decompress(&reading.jpeg);
    return reading.failure.status;
}

/* ---- encoding ---- */

struct jpeg_writing {
    struct jpeg_compress_struct jpeg;
    struct jpeg_failure failure;
    unsigned char *bytes;
    unsigned long size;
};

static void jpeg_write(struct jpeg_writing *writing, const struct image *image, int quality)
{
    struct jpeg_compress_struct *jpeg = &writing->jpeg;
    jpeg_create_compress(jpeg);
    jpeg_mem_dest(jpeg, &writing->bytes, &writing->size);
    jpeg->image_width = image->width;
    jpeg->image_height = image->height;
    jpeg->input_components = (int)image->channels;
    jpeg->in_color_space = image->channels == 1 ? JCS_GRAYSCALE : JCS_RGB;
    jpeg_set_defaults(jpeg);
    jpeg_set_quality(jpeg, quality, TRUE);
    jpeg_start_compress(jpeg, TRUE);
    for (uint32_t y = 0; y < image->height; y++) {
        JSAMPROW row = image->pixels + (size_t)y * image->width * image->channels;
        jpeg_write_scanlines(jpeg, &row, 1);
    }
    jpeg_finish_compress(jpeg);
}

weft_status jpeg_encode(const struct image *image, int quality, uint8_t **bytes, size_t *size, struct error *error)
{
    struct jpeg_writing writing = {0};
    writing.jpeg.err = jpeg_failure_init(&writing.failure, "an image to be written", error);
    if (setjmp(writing.failure.caller)) {
        if (writing.bytes) /* it may have been freed for a larger block, which only the destination knows */
            writing.jpeg.dest->term_destination(&writing.jpeg);
        jpeg_destroy_compress(&writing.jpeg);
        free(writing.bytes);
        return writing.failure.status;
    }
    jpeg_write(&writing, image, quality);
    jpeg_destroy_compress(&writing.jpeg);
    *bytes = writing.bytes;
    *size = writing.size;
    return WEFT_OK;
}

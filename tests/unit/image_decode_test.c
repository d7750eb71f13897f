/* SPDX-License-Identifier: Apache-2.0 */
/* All forms of JPEG and PNG are decoded, whole or in part, and damaged or excessive ones refused with a message. */
#include "image_support.h"

#include <sys/resource.h>

#include <jpeglib.h>
#include <png.h>

#define NAME "photo.img"

static struct image must_decode(const struct encoded *encoded, const struct image_request *request)
{
    struct image image = {0};
    struct error error = {0};
    if (image_decode(encoded->bytes, encoded->size, NAME, request, &image, &error) != WEFT_OK)
        fail_msg("%s", error.text);
    return image;
}

static void must_refuse(const uint8_t *bytes, size_t size, const struct image_request *request, const char *words)
{
    struct image image = {0};
    struct error error = {0};
    if (image_decode(bytes, size, NAME, request, &image, &error) == WEFT_OK)
        fail_msg("%zu bytes were decoded", size);
    image_free(&image);
    if (!strstr(error.text, NAME) || !strstr(error.text, words))
        fail_msg("'%s' is not in: %s", words, error.text);
}

/* The pixels are those of a smooth image to within `most`. */
static void check_pixels_near(const struct image *image, const struct image *truth, int most)
{
    for (uint32_t y = 0; y < image->height; y++)
        for (uint32_t x = 0; x < image->width; x++)
            for (uint32_t c = 0; c < image->channels; c++) {
                /* The center of the pixel in the whole image. */
                const double tx = image->left + (x + 0.5) * image->shrink, ty = image->top + (y + 0.5) * image->shrink;
                const uint32_t column = tx < truth->width ? (uint32_t)tx : truth->width - 1;
                const uint32_t row = ty < truth->height ? (uint32_t)ty : truth->height - 1;
                const int found = image->pixels[(y * image->width + x) * image->channels + c];
                const int expected = truth->pixels[(row * truth->width + column) * truth->channels + c];
                if (abs(found - expected) > most)
                    fail_msg("pixel (%u, %u) channel %u is %d, not %d", x, y, c, found, expected);
            }
}

static void whole_images(void **state)
{
    for (int quality = 0; quality <= 100; quality += 100)
        for (uint32_t channels = 1; channels <= 3; channels += 2) {
            struct encoded encoded = encode_smooth(1, 61, 45, channels, quality);
            struct image truth = smooth_image(1, 61, 45, channels);
            const struct image_request request = {.channels = channels};
            struct image image = must_decode(&encoded, &request);
            assert_int_equal(image.height, 61);
            assert_int_equal(image.width, 45);
            check_pixels_near(&image, &truth, quality ? 4 : 0);
            struct image_size size;
            assert_int_equal(image_measure(encoded.bytes, encoded.size, NAME, &size, NULL), WEFT_OK);
            assert_true(size.height == 61 && size.width == 45);
            image_free(&image);
            image_free(&truth);
            free(encoded.bytes);
        }
}

static void channels_are_converted(void **state)
{
    for (int quality = 0; quality <= 100; quality += 100) {
        struct encoded gray = encode_smooth(2, 20, 30, 1, quality), color = encode_smooth(2, 20, 30, 3, quality);
        struct image image = must_decode(&gray, &(struct image_request){.channels = 3});
        for (size_t i = 0; i < 20 * 30; i++)
            assert_true(image.pixels[3 * i] == image.pixels[3 * i + 1] &&
                        image.pixels[3 * i] == image.pixels[3 * i + 2]);
        image_free(&image);
        struct image truth = smooth_image(2, 20, 30, 3);
        image = must_decode(&color, &(struct image_request){.channels = 1});
        assert_int_equal(image.channels, 1);
        const uint8_t *pixel = truth.pixels + 3 * 300;
        assert_true(abs(image.pixels[300] - (299 * pixel[0] + 587 * pixel[1] + 114 * pixel[2]) / 1000) <= 3);
        image_free(&image);
        image_free(&truth);
        free(gray.bytes);
        free(color.bytes);
    }
}

/* A region, in full size and smaller, has the pixels of the whole image. */
static void regions(void **state)
{
    static const struct image_region places[] = {
        {0, 0, 1, 1}, {0, 0, 200, 150}, {40, 30, 100, 90}, {199, 149, 1, 1}, {17, 3, 64, 140}, {100, 64, 100, 86},
    };
    struct image truth = smooth_image(3, 150, 200, 3);
    for (int quality = 0; quality <= 100; quality += 100) {
        struct encoded encoded = encode_smooth(3, 150, 200, 3, quality);
        for (size_t i = 0; i < ARRAY_SIZE(places); i++)
            for (uint32_t wanted = 0; wanted < 100; wanted += 10) {
                const struct image_region *place = &places[i];
                const struct image_request request = {.channels = 3, .region = *place, .wanted = wanted};
                struct image image = must_decode(&encoded, &request);
                check_pixels_near(&image, &truth, quality ? 6 : 0);
                /* All of the region is there, with as many pixels as wanted if it has them. */
                assert_true(image.left <= place->x && image.top <= place->y);
                assert_true(image.left + image.width * image.shrink >= place->x + place->width);
                assert_true(image.top + image.height * image.shrink >= place->y + place->height);
                assert_true(image.shrink == 1 || place->width / image.shrink >= wanted);
                image_free(&image);
            }
        struct image image = {0};
        const struct image_request outside = {.channels = 3, .region = {150, 0, 51, 10}};
        assert_int_equal(image_decode(encoded.bytes, encoded.size, NAME, &outside, &image, NULL), WEFT_ERROR_ARGUMENT);
        free(encoded.bytes);
    }
    image_free(&truth);
}

/* ---- forms of PNG ---- */

struct png_form {
    int color, depth, interlace;
    png_byte rows[4][16]; /* of 4 x 4 pixels */
    png_byte opacity;     /* of the palette's first color, unless it is 0 */
    char *text;           /* of a compressed chunk before the pixels; may be NULL */
};

static void png_form_put(png_structp png, png_bytep bytes, size_t size)
{
    struct encoded *encoded = png_get_io_ptr(png);
    encoded->bytes = realloc(encoded->bytes, encoded->size + size);
    memcpy(encoded->bytes + encoded->size, bytes, size);
    encoded->size += size;
}

static struct encoded encode_form(const struct png_form *form)
{
    static const png_color palette[2] = {{255, 0, 10}, {0, 200, 30}};
    struct encoded encoded = {0};
    png_structp png = png_create_write_struct(PNG_LIBPNG_VER_STRING, NULL, NULL, NULL);
    png_infop info = png_create_info_struct(png);
    png_set_write_fn(png, &encoded, png_form_put, NULL);
    png_set_IHDR(png, info, 4, 4, form->depth, form->color, form->interlace, PNG_COMPRESSION_TYPE_DEFAULT,
                 PNG_FILTER_TYPE_DEFAULT);
    if (form->color == PNG_COLOR_TYPE_PALETTE)
        png_set_PLTE(png, info, palette, 2);
    if (form->opacity)
        png_set_tRNS(png, info, &form->opacity, 1, NULL);
    png_text text = {.compression = PNG_TEXT_COMPRESSION_zTXt, .key = "Comment", .text = form->text};
    if (form->text)
        png_set_text(png, info, &text, 1);
    png_bytep rows[4];
    for (int y = 0; y < 4; y++)
        rows[y] = (png_bytep)form->rows[y];
    png_set_rows(png, info, rows);
    png_write_png(png, info, PNG_TRANSFORM_IDENTITY, NULL);
    png_destroy_write_struct(&png, &info);
    return encoded;
}

static void check_form(const struct png_form *form, uint32_t x, uint32_t y, const uint8_t color[3])
{
    struct encoded encoded = encode_form(form);
    struct image image = must_decode(&encoded, &(struct image_request){.channels = 3});
    assert_memory_equal(image.pixels + (y * 4 + x) * 3, color, 3);
    const struct image_request part = {.channels = 3, .region = {x, y, 1, 1}};
    struct image one = must_decode(&encoded, &part);
    assert_memory_equal(one.pixels, color, 3);
    image_free(&one);
    image_free(&image);
    free(encoded.bytes);
}

static void forms_of_png(void **state)
{
    struct png_form form = {PNG_COLOR_TYPE_PALETTE, 1, PNG_INTERLACE_NONE, .rows = {{0x40}}};
    check_form(&form, 1, 0, (uint8_t[]){0, 200, 30});
    check_form(&form, 2, 0, (uint8_t[]){255, 0, 10});
    form.opacity = 51; /* of 255, on white */
    check_form(&form, 1, 0, (uint8_t[]){0, 200, 30});
    check_form(&form, 2, 0, (uint8_t[]){255, 204, 206});
    form = (struct png_form){PNG_COLOR_TYPE_GRAY, 1, PNG_INTERLACE_ADAM7, .rows = {{0}, {0x20}}};
    check_form(&form, 2, 1, (uint8_t[]){255, 255, 255});
    check_form(&form, 3, 1, (uint8_t[]){0, 0, 0});
    /* 100 at an opacity of 51 / 255 on white */
    form = (struct png_form){PNG_COLOR_TYPE_GRAY_ALPHA, 8, PNG_INTERLACE_NONE, .rows = {{0}, {0}, {0, 0, 100, 51}}};
    check_form(&form, 1, 2, (uint8_t[]){224, 224, 224});
    form = (struct png_form){PNG_COLOR_TYPE_RGB_ALPHA, 8, PNG_INTERLACE_ADAM7, .rows = {{0, 0, 0, 0, 10, 20, 30, 255}}};
    check_form(&form, 0, 0, (uint8_t[]){255, 255, 255});
    check_form(&form, 1, 0, (uint8_t[]){10, 20, 30});
    form = (struct png_form){PNG_COLOR_TYPE_GRAY, 16, PNG_INTERLACE_NONE, .rows = {{0x80, 0x80}}};
    check_form(&form, 0, 0, (uint8_t[]){128, 128, 128});
}

/* ---- forms of JPEG ---- */

static struct encoded encode_jpeg(J_COLOR_SPACE space, int channels, bool progressive, const uint8_t *color)
{
    struct jpeg_compress_struct jpeg;
    struct jpeg_error_mgr manager;
    unsigned long size = 0;
    struct encoded encoded = {0};
    uint8_t pixels[40 * 4], *row = pixels;
    for (int i = 0; i < 40; i++)
        memcpy(pixels + i * channels, color, (size_t)channels);
    jpeg.err = jpeg_std_error(&manager);
    jpeg_create_compress(&jpeg);
    jpeg_mem_dest(&jpeg, &encoded.bytes, &size);
    jpeg.image_width = jpeg.image_height = 40;
    jpeg.input_components = channels;
    jpeg.in_color_space = space;
    jpeg_set_defaults(&jpeg);
    if (progressive)
        jpeg_simple_progression(&jpeg);
    jpeg_set_quality(&jpeg, 100, TRUE);
    jpeg_start_compress(&jpeg, TRUE);
    for (int y = 0; y < 40; y++)
        jpeg_write_scanlines(&jpeg, &row, 1);
    jpeg_finish_compress(&jpeg);
    jpeg_destroy_compress(&jpeg);
    encoded.size = size;
    return encoded;
}

static void forms_of_jpeg(void **state)
{
    static const struct {
        J_COLOR_SPACE space;
        int channels;
        bool progressive;
        uint8_t color[4], expected[3];
    } forms[] = {
        {JCS_RGB, 3, true, {200, 100, 50}, {200, 100, 50}},
        {JCS_GRAYSCALE, 1, true, {77}, {77, 77, 77}},
        /* inverted inks: as much light as they let through */
        {JCS_CMYK, 4, false, {255, 128, 0, 200}, {200, 100, 0}},
    };
    const struct image_request request = {.channels = 3, .region = {20, 8, 9, 17}};
    for (size_t i = 0; i < ARRAY_SIZE(forms); i++) {
        struct encoded encoded = encode_jpeg(forms[i].space, forms[i].channels, forms[i].progressive, forms[i].color);
        struct image image = must_decode(&encoded, &request);
        for (size_t j = 0; j < (size_t)image.height * image.width * 3; j++)
            assert_true(abs(image.pixels[j] - forms[i].expected[j % 3]) <= 3);
        image_free(&image);
        free(encoded.bytes);
    }
}

/* ---- what is refused ---- */

static void truncated_images(void **state)
{
    const struct image_request request = {.channels = 3};
    for (int quality = 0; quality <= 90; quality += 90) {
        struct encoded encoded = encode_smooth(4, 40, 40, 3, quality);
        must_refuse(encoded.bytes, 0, &request, "empty");
        for (size_t size = 8; size + 16 < encoded.size; size++) {
            uint8_t *cut = malloc(size); /* an access beyond it is found by sanitizers */
            memcpy(cut, encoded.bytes, size);
            must_refuse(cut, size, &request, quality ? "whole JPEG" : "whole PNG");
            free(cut);
        }
        free(encoded.bytes);
    }
    must_refuse((const uint8_t *)"GIF89a", 6, &request, "neither a JPEG nor a PNG");
}

/* A small file whose header promises many pixels is refused before memory is allocated for them. */
static void bombs(void **state)
{
    const struct image_request request = {.channels = 3};
    struct encoded png = encode_smooth(5, 16, 16, 3, 0), jpeg = encode_smooth(5, 16, 16, 3, 90);
    /* IHDR: width and height at 16 and 20, its checksum after 13 bytes. */
    static const uint8_t sizes[2][8] = {{0, 0, 0x20, 0, 0, 0, 0x20, 0}, {0, 0, 0xff, 0xff, 0, 0, 0xff, 0xff}};
    for (int i = 0; i < 2; i++) {
        memcpy(png.bytes + 16, sizes[i], 8);
        uint32_t crc = 0xffffffff;
        for (int at = 12; at < 29; at++) {
            crc ^= png.bytes[at];
            for (int bit = 0; bit < 8; bit++)
                crc = crc >> 1 ^ (crc & 1 ? 0xedb88320u : 0);
        }
        for (int byte = 0; byte < 4; byte++)
            png.bytes[29 + byte] = (uint8_t)(~crc >> (24 - 8 * byte));
        must_refuse(png.bytes, png.size, &request, i ? "at most 67108864 are read" : "more than a file of");
    }
    for (size_t at = 2; at + 9 < jpeg.size; at += 2 + (size_t)(jpeg.bytes[at + 2] << 8 | jpeg.bytes[at + 3]))
        if (jpeg.bytes[at + 1] == 0xc0) { /* SOF0: height and width at 5 and 7 */
            memcpy(jpeg.bytes + at + 5, (uint8_t[]){0x20, 0, 0x20, 0}, 4);
            break;
        }
    must_refuse(jpeg.bytes, jpeg.size, &request, "more than a file of");
    free(png.bytes);
    free(jpeg.bytes);
}

/* Small chunks of text that expand to 64 x 4 MiB are skipped, in the same memory. */
static void text_bombs(void **state)
{
    enum { TEXT = 4 << 20, COPIES = 64 };
    struct png_form form = {PNG_COLOR_TYPE_GRAY, 8, PNG_INTERLACE_NONE, .rows = {{77}}};
    struct rusage before, after;
    form.text = malloc(TEXT + 1);
    memset(form.text, 'a', TEXT);
    form.text[TEXT] = '\0';
    struct encoded one = encode_form(&form), many = {0};
    free(form.text);
    size_t at = 33; /* after the signature and IHDR */
    assert_memory_equal(one.bytes + at + 4, "zTXt", 4);
    const size_t chunk = 12 + ((size_t)one.bytes[at + 2] << 8 | one.bytes[at + 3]);
    many.bytes = malloc(one.size + COPIES * chunk);
    memcpy(many.bytes, one.bytes, at);
    for (many.size = at; many.size < at + COPIES * chunk; many.size += chunk)
        memcpy(many.bytes + many.size, one.bytes + at, chunk);
    memcpy(many.bytes + many.size, one.bytes + at, one.size - at);
    many.size += one.size - at;
    getrusage(RUSAGE_SELF, &before);
    struct image image = must_decode(&many, &(struct image_request){.channels = 1});
    getrusage(RUSAGE_SELF, &after);
    assert_int_equal(image.pixels[0], 77);
    assert_true(after.ru_maxrss - before.ru_maxrss < 64 << 10); /* KiB */
    image_free(&image);
    free(one.bytes);
    free(many.bytes);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(whole_images),  cmocka_unit_test(channels_are_converted),
        cmocka_unit_test(regions),       cmocka_unit_test(forms_of_png),
        cmocka_unit_test(forms_of_jpeg), cmocka_unit_test(truncated_images),
        cmocka_unit_test(bombs),         cmocka_unit_test(text_bombs),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Images a second that are read, decoded, cropped at random, resized to 224 x 224 and normalized. For bench/images, which
 * starts it:
 *
 *     image_loading make DIRECTORY COUNT               write COUNT images of 500 x 375 that compress as photos do
 *     image_loading read DIRECTORY THREADS SECONDS     an object as JSON
 */
#include "base/clock.h"
#include "base/file/file.h"
#include "base/random.h"
#include "training/data/image/image.h"
#include "training/data/image/images.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define WIDTH   500u
#define HEIGHT  375u
#define CLASSES 10u
#define QUALITY 92 /* makes about as many bytes as ImageNet's images have */
#define BATCH   64u
#define SIZE    224u
#define OCTAVES 8u
#define DISCS   12u

static void check(weft_status status, const struct error *error)
{
    if (status == WEFT_OK)
        return;
    fprintf(stderr, "image_loading: %s\n", error->text);
    exit(1);
}

/* ---- images ---- */

/* Smooth noise: random values at the corners of a lattice of cells of `size` pixels, interpolated. */
static double noise_at(uint64_t seed, double x, double y, double size)
{
    const double cx = x / size, cy = y / size;
    const uint64_t left = (uint64_t)cx, top = (uint64_t)cy;
    const double fx = cx - (double)left, fy = cy - (double)top;
    const double a = random_uniform(seed, top << 20 | left), b = random_uniform(seed, top << 20 | (left + 1));
    const double c = random_uniform(seed, (top + 1) << 20 | left),
                 d = random_uniform(seed, (top + 1) << 20 | (left + 1));
    return (a + (b - a) * fx) * (1 - fy) + (c + (d - c) * fx) * fy - 0.5;
}

/* Photos have spectra that fall as 1 / f (Field 1987), edges, and colors that go together. */
static double photo_value(uint64_t seed, uint32_t x, uint32_t y, uint32_t channel)
{
    double sum = 0, size = 256;
    for (unsigned octave = 0; octave < OCTAVES; octave++, size /= 2)
        sum += noise_at(random_bits(seed, octave), x, y, size) * size / 256 * 190 +
               noise_at(random_bits(seed, 100 + 10 * octave + channel), x, y, size) * size / 256 * 60;
    for (uint64_t disc = 0; disc < DISCS; disc++) {
        const uint64_t key = random_bits(seed, 1000 + disc);
        const double dx = x - random_uniform(key, 0) * WIDTH, dy = y - random_uniform(key, 1) * HEIGHT;
        const double radius = 10 + random_uniform(key, 2) * 80;
        if (dx * dx + dy * dy < radius * radius)
            sum += (random_uniform(key, 3 + channel) - 0.5) * 80;
    }
    sum += (random_uniform(random_bits(seed, 999), (uint64_t)y * WIDTH + x) - 0.5) * 14;
    return sum + 128;
}

static void make_photo(const char *directory, uint64_t number)
{
    struct image image = {0};
    struct error error = {0};
    char path[FILE_PATH_BYTES];
    uint8_t *bytes;
    size_t size;
    check(image_allocate(&image, HEIGHT, WIDTH, 3, &error), &error);
    for (uint32_t y = 0; y < HEIGHT; y++)
        for (uint32_t x = 0; x < WIDTH; x++)
            for (uint32_t c = 0; c < 3; c++) {
                const double value = photo_value(random_bits(1, number), x, y, c);
                image.pixels[(y * WIDTH + x) * 3 + c] = (uint8_t)(value < 0 ? 0 : value > 255 ? 255 : value);
            }
    check(image_encode(&image, QUALITY, &bytes, &size, &error), &error);
    snprintf(path, sizeof path, "%s/class%02u/%06" PRIu64 ".jpg", directory, (unsigned)(number % CLASSES), number);
    check(file_make_directory_of(path, &error), &error);
    check(file_write(path, bytes, size, &error), &error);
    free(bytes);
    image_free(&image);
}

/* ---- reading ---- */

static void read_images(const char *directory, uint32_t threads, double seconds)
{
    const struct images_options options = {
        .size = SIZE,
        .threads = threads,
        .augment = {.scale_least = 0.08, .scale_most = 1, .mirror = 0.5},
    };
    struct sample_source *source;
    struct error error = {0};
    float *pixels = calloc((size_t)BATCH * SIZE * SIZE * 3, sizeof *pixels);
    int32_t targets[BATCH * 2];
    const struct model_arrays arrays = {.pixels = pixels, .targets = targets};
    if (!pixels)
        check(error_memory(&error, sizeof *pixels * BATCH * SIZE * SIZE * 3, "a batch"), &error);
    check(images_open(directory, &options, &source, &error), &error);
    uint64_t first = 0;
    for (int i = 0; i < 4; i++, first += BATCH)
        check(sample_source_read(source, DATASET_TRAIN, first, BATCH, &arrays, &error), &error);
    const uint64_t begin = clock_now(), cpu = clock_process_cpu(), before = first;
    while (clock_now() - begin < (uint64_t)(seconds * 1e9)) {
        check(sample_source_read(source, DATASET_TRAIN, first, BATCH, &arrays, &error), &error);
        first += BATCH;
    }
    const double took = (double)(clock_now() - begin) * 1e-9, used = (double)(clock_process_cpu() - cpu) * 1e-9;
    printf("{\"images_per_second\": %.1f, \"images_per_processor_second\": %.1f}\n", (double)(first - before) / took,
           (double)(first - before) / used);
    sample_source_close(source);
    free(pixels);
}

int main(int argc, char **argv)
{
    if (argc == 4 && strcmp(argv[1], "make") == 0)
        for (uint64_t i = 0; i < strtoull(argv[3], NULL, 10); i++)
            make_photo(argv[2], i);
    else if (argc == 5 && strcmp(argv[1], "read") == 0)
        read_images(argv[2], (uint32_t)strtoul(argv[3], NULL, 10), strtod(argv[4], NULL));
    else
        return 2;
    return 0;
}

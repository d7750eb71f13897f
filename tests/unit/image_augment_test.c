/* SPDX-License-Identifier: Apache-2.0 */
/* Images are resized as defined, and changed at random with the frequencies and bounds that the settings give. */
#include "base/random.h"
#include "image_support.h"
#include "training/data/image/augment.h"

#include <math.h>

#define DRAWS 20000

static double triangle(double x)
{
    return fabs(x) < 1 ? 1 - fabs(x) : 0;
}

/* The definition in double precision, one number at a time. */
static double reference(const struct image *image, const struct resample_box *box, uint32_t size, uint32_t x,
                        uint32_t y, uint32_t channel)
{
    const double across = box->width / size, down = box->height / size;
    const double wide = fmax(across, 1), high = fmax(down, 1);
    const double cx = box->x + (x + 0.5) * across, cy = box->y + (y + 0.5) * down;
    double sum = 0, weights = 0;
    for (uint32_t row = 0; row < image->height; row++)
        for (uint32_t column = 0; column < image->width; column++) {
            if (row + 1 <= box->y || row >= box->y + box->height || column + 1 <= box->x ||
                column >= box->x + box->width)
                continue;
            const double weight = triangle((column + 0.5 - cx) / wide) * triangle((row + 0.5 - cy) / high);
            sum += weight * image->pixels[(row * image->width + column) * image->channels + channel];
            weights += weight;
        }
    return sum / weights;
}

static void resizing_is_as_defined(void **state)
{
    static const struct resample_box boxes[] = {
        {0, 0, 37, 23}, {3, 2, 20, 9}, {1.5, 0.25, 30.5, 22.5}, {10, 10, 1, 1}, {36, 0, 1, 23},
    };
    struct resampler resampler = {0};
    for (uint32_t channels = 1; channels <= 3; channels += 2) {
        struct image image = smooth_image(1, 23, 37, channels);
        for (size_t i = 0; i < (size_t)23 * 37 * channels; i++)
            image.pixels[i] = (uint8_t)random_bits(1, i);
        for (size_t i = 0; i < ARRAY_SIZE(boxes); i++)
            for (uint32_t size = 1; size < 60; size += 11)
                for (int mirrored = 0; mirrored < 2; mirrored++) {
                    float pixels[60 * 60 * 3];
                    assert_int_equal(image_resample(&resampler, &image, &boxes[i], (struct image_size){size, size},
                                                    mirrored, pixels, NULL),
                                     WEFT_OK);
                    for (uint32_t at = 0; at < size * size * channels; at++) {
                        const uint32_t x = at / channels % size, y = at / channels / size;
                        const double expected =
                            reference(&image, &boxes[i], size, mirrored ? size - 1 - x : x, y, at % channels);
                        if (fabs((double)pixels[at] - expected) > 1e-3)
                            fail_msg("box %zu, size %u: number %u is %g, not %g", i, size, at, (double)pixels[at],
                                     expected);
                    }
                }
        image_free(&image);
    }
    resampler_free(&resampler);
}

/* In its own size an image keeps its very bytes. */
static void same_size_is_a_copy(void **state)
{
    struct resampler resampler = {0};
    struct image image = smooth_image(2, 32, 32, 3);
    float pixels[32 * 32 * 3];
    const struct resample_box all = {0, 0, 32, 32};
    assert_int_equal(image_resample(&resampler, &image, &all, (struct image_size){32, 32}, false, pixels, NULL),
                     WEFT_OK);
    for (size_t i = 0; i < ARRAY_SIZE(pixels); i++)
        assert_true(pixels[i] == (float)image.pixels[i]);
    image_free(&image);
    resampler_free(&resampler);
}

static void boxes_have_the_right_distribution(void **state)
{
    const struct image_augment augment = {.scale_least = 0.08, .scale_most = 0.5, .mirror = 0.25, .erase = 0.1};
    const struct image_size size = {375, 500};
    double area = 0, logarithm = 0, x = 0, y = 0;
    int mirrored = 0, erased = 0;
    for (uint64_t i = 0; i < DRAWS; i++) {
        const uint64_t key = random_bits(7, i);
        const struct image_plan plan = image_plan_training(&augment, key, size, 224),
                                again = image_plan_training(&augment, key, size, 224);
        const struct resample_box *box = &plan.box;
        assert_memory_equal(box, &again.box, sizeof *box);
        assert_true(box->x >= 0 && box->y >= 0 && box->x + box->width <= 500 && box->y + box->height <= 375);
        const double share = box->width * box->height / (500 * 375), ratio = box->width / box->height;
        assert_true(share > 0.079 && share < 0.505 && ratio > 0.74 && ratio < 1.35);
        area += share / DRAWS;
        logarithm += log(ratio) / DRAWS;
        x += (box->x + box->width / 2) / 500 / DRAWS;
        y += (box->y + box->height / 2) / 375 / DRAWS;
        mirrored += plan.mirrored;
        erased += plan.erased.width > 0;
        assert_true(plan.erased.x + plan.erased.width <= 224 && plan.erased.y + plan.erased.height <= 224);
    }
    assert_true(fabs(area - 0.29) < 0.003);
    assert_true(fabs(logarithm) < 0.005);
    assert_true(fabs(x - 0.5) < 0.005 && fabs(y - 0.5) < 0.005);
    assert_true(fabs(mirrored / (double)DRAWS - 0.25) < 0.01);
    assert_true(fabs(erased / (double)DRAWS - 0.1) < 0.01);
}

/* A box that fits nowhere falls back to the center. */
static void thin_images_are_cropped_in_the_center(void **state)
{
    const struct image_augment augment = {.scale_least = 0.9, .scale_most = 1};
    const struct image_plan plan = image_plan_training(&augment, 1, (struct image_size){10, 1000}, 8);
    assert_true(fabs(plan.box.width - 10 * 4 / 3.0) < 1e-9 && plan.box.height == 10);
    assert_true(fabs(plan.box.x - (1000 - plan.box.width) / 2) < 1e-9);
    const struct image_plan center = image_plan_evaluation((struct image_size){300, 200}, 0.875);
    assert_true(center.box.width == 175 && center.box.height == 175 && center.box.x == 12.5 && center.box.y == 62.5);
    const struct image_region region = image_plan_region(&center, (struct image_size){300, 200});
    assert_true(region.x == 12 && region.y == 62 && region.width == 176 && region.height == 176);
}

static const struct image_normalization plain = {{0, 0, 0}, {1 / 255.0, 1 / 255.0, 1 / 255.0}};

static void padding_moves_the_image(void **state)
{
    const struct image_augment augment = {.pad = 2};
    bool seen[5][5] = {{false}};
    for (uint64_t key = 0; key < 400; key++) {
        struct image_plan plan = image_plan_training(&augment, random_bits(3, key), (struct image_size){6, 6}, 6);
        assert_true(abs(plan.right) <= 2 && abs(plan.down) <= 2);
        seen[plan.down + 2][plan.right + 2] = true;
        float pixels[6 * 6];
        for (int i = 0; i < 36; i++)
            pixels[i] = (float)(100 + i);
        image_adjust(&plan, &plain, 6, 1, pixels);
        for (int y = 0; y < 6; y++)
            for (int x = 0; x < 6; x++) {
                const int from_x = x - plan.right, from_y = y - plan.down;
                const bool inside = from_x >= 0 && from_x < 6 && from_y >= 0 && from_y < 6;
                assert_true(fabsf(pixels[y * 6 + x] - (inside ? (float)(100 + from_y * 6 + from_x) : 0)) < 1e-3f);
            }
    }
    for (int i = 0; i < 25; i++)
        assert_true(seen[i / 5][i % 5]);
}

static void colors_change_within_bounds(void **state)
{
    const struct image_augment augment = {.brightness = 0.4, .contrast = 0.3, .saturation = 0.2};
    double sums[3] = {0};
    int orders[3] = {0};
    for (uint64_t i = 0; i < DRAWS; i++) {
        const struct image_plan plan = image_plan_training(&augment, random_bits(5, i), (struct image_size){4, 4}, 4);
        const double changes[3] = {0.4, 0.3, 0.2};
        for (int j = 0; j < 3; j++) {
            assert_true(fabs(plan.factors[j] - 1) <= changes[j]);
            sums[j] += fabs(plan.factors[j] - 1) / changes[j] / DRAWS;
        }
        orders[plan.order[0]]++;
    }
    for (int j = 0; j < 3; j++) {
        assert_true(fabs(sums[j] - 0.5) < 0.01);
        assert_true(fabs(orders[j] / (double)DRAWS - 1 / 3.0) < 0.015);
    }
    /* Each change by itself. */
    struct image_plan plan = {.factors = {0.5, 1, 1}, .order = {0, 1, 2}};
    float pixels[6] = {200, 100, 0, 100, 100, 100};
    image_adjust(&plan, &plain, 1, 3, pixels);
    assert_true(fabsf(pixels[0] - 100) < 1e-3f && fabsf(pixels[1] - 50) < 1e-3f);
    plan = (struct image_plan){.factors = {1, 1, 0}, .order = {2, 1, 0}};
    float colored[3] = {200, 100, 0};
    image_adjust(&plan, &plain, 1, 3, colored);
    for (int c = 0; c < 3; c++)
        assert_true(fabsf(colored[c] - (0.299f * 200 + 0.587f * 100)) < 1e-2f);
    plan = (struct image_plan){.factors = {1, 2, 1}, .order = {1, 0, 2}};
    float grays[4] = {0, 100, 100, 240};
    image_adjust(&plan, &plain, 2, 1, grays);
    assert_true(fabsf(grays[0]) < 1e-3f && fabsf(grays[1] - 90) < 1e-3f && fabsf(grays[3] - 255) < 1e-3f);
}

static void normalization_and_erasing(void **state)
{
    const struct image_normalization normalization = {{0.5, 0.4, 0.3}, {0.1, 0.2, 0.3}};
    struct image_plan plan = {.factors = {1, 1, 1}, .order = {0, 1, 2}, .erased = {1, 0, 1, 2}};
    float pixels[2 * 2 * 3];
    for (int i = 0; i < 12; i++)
        pixels[i] = 255;
    image_adjust(&plan, &normalization, 2, 3, pixels);
    for (int i = 0; i < 4; i++)
        for (int c = 0; c < 3; c++) {
            const double expected = i % 2 ? 0 : (1 - normalization.mean[c]) / normalization.deviation[c];
            assert_true(fabs((double)pixels[3 * i + c] - expected) < 1e-4);
        }
}

/* The variance of a Beta(a, a) variate is 1 / (4 (2 a + 1)). */
static void mixup_shares(void **state)
{
    static const double alphas[] = {1, 0.4, 0.2, 0.01};
    for (size_t i = 0; i < ARRAY_SIZE(alphas); i++) {
        double square = 0;
        for (uint64_t j = 0; j < DRAWS; j++) {
            const double share = image_mixup_share(alphas[i], random_bits(11, j));
            assert_true(share >= 0.5 && share <= 1);
            square += (share - 0.5) * (share - 0.5) / DRAWS;
        }
        assert_true(fabs(square - 1 / (4 * (2 * alphas[i] + 1))) < 0.002);
    }
}

static void settings_are_checked(void **state)
{
    static const struct {
        struct image_augment augment;
        const char *words;
    } bad[] = {
        {{.scale_most = 1.5, .scale_least = 1}, "largest share of the area"},
        {{.scale_most = 1, .scale_least = 0}, "smallest share of the area"},
        {{.scale_most = 0.5, .scale_least = 0.6}, "smallest share of the area"},
        {{.ratio_most = 2, .ratio_least = 3}, "smallest aspect ratio"},
        {{.mirror = -1}, "mirror"},
        {{.brightness = NAN}, "brightness"},
        {{.mixup = 2}, "mixup"},
    };
    struct error error = {0};
    for (size_t i = 0; i < ARRAY_SIZE(bad); i++) {
        assert_int_equal(image_augment_check(&bad[i].augment, &error), WEFT_ERROR_ARGUMENT);
        assert_non_null(strstr(error.text, bad[i].words));
        error_clear(&error);
    }
    assert_int_equal(image_augment_check(&(struct image_augment){0}, &error), WEFT_OK);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(resizing_is_as_defined),
        cmocka_unit_test(same_size_is_a_copy),
        cmocka_unit_test(boxes_have_the_right_distribution),
        cmocka_unit_test(thin_images_are_cropped_in_the_center),
        cmocka_unit_test(padding_moves_the_image),
        cmocka_unit_test(colors_change_within_bounds),
        cmocka_unit_test(normalization_and_erasing),
        cmocka_unit_test(mixup_shares),
        cmocka_unit_test(settings_are_checked),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

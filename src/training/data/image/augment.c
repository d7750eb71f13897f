/* SPDX-License-Identifier: Apache-2.0 */
#include "training/data/image/augment.h"
#include "base/random.h"

#include <math.h>
#include <string.h>

/* torchvision's RandomResizedCrop tries as often before it falls back to the center. */
#define CROP_TRIES 10u

/* torchvision's RandomErasing: shares of the area, and aspect ratios. */
#define ERASE_AREA_LEAST  0.02
#define ERASE_AREA_MOST   0.33
#define ERASE_RATIO_LEAST 0.3
#define ERASE_RATIO_MOST  3.3

/* Which number of a sample's stream is for what. A box takes four for each try. */
enum augment_counter {
    COUNTER_CROP = 0,
    COUNTER_ERASE = 64,
    COUNTER_MIRROR = 128,
    COUNTER_ORDER,
    COUNTER_FACTORS,
    COUNTER_RIGHT = COUNTER_FACTORS + 3,
    COUNTER_DOWN,
    COUNTER_IS_ERASED,
};

static weft_status augment_check_number(const char *what, double value, double least, double most, struct error *error)
{
    if (value >= least && value <= most)
        return WEFT_OK;
    return error_set(error, WEFT_ERROR_ARGUMENT, "the %s of training images is %g; it must be from %g to %g", what,
                     value, least, most);
}

weft_status image_augment_check(const struct image_augment *augment, struct error *error)
{
    const struct {
        const char *what;
        double value, least, most;
    } numbers[] = {
        {"largest share of the area", augment->scale_most, 0, 1},
        {"smallest share of the area", augment->scale_least, augment->scale_most > 0 ? 1e-4 : 0, augment->scale_most},
        {"largest aspect ratio", augment->ratio_most, 0, 100},
        {"smallest aspect ratio", augment->ratio_least, augment->ratio_most > 0 ? 0.01 : 0, augment->ratio_most},
        {"probability of a mirror image", augment->mirror, 0, 1},
        {"change of brightness", augment->brightness, 0, 1},
        {"change of contrast", augment->contrast, 0, 1},
        {"change of saturation", augment->saturation, 0, 1},
        {"padding", augment->pad, 0, 4096},
        {"probability of erasing", augment->erase, 0, 1},
        {"parameter of mixup", augment->mixup, 0, 1},
    };
    weft_status status = WEFT_OK;
    for (size_t i = 0; i < ARRAY_SIZE(numbers) && status == WEFT_OK; i++)
        status = augment_check_number(numbers[i].what, numbers[i].value, numbers[i].least, numbers[i].most, error);
    return status;
}

/* ---- plans ---- */

static double uniform_between(uint64_t key, uint64_t counter, double least, double most)
{
    return least + random_uniform(key, counter) * (most - least);
}

/* A box of whole pixels with a random area, aspect ratio and place. False: it does not fit within the image. */
static bool random_box(uint64_t key, uint64_t counter, struct image_size image, const double area[2],
                       const double ratio[2], struct image_region *box)
{
    const double pixels = (double)image.height * image.width * uniform_between(key, counter, area[0], area[1]);
    const double aspect = exp(uniform_between(key, counter + 1, log(ratio[0]), log(ratio[1])));
    const double width = round(sqrt(pixels * aspect)), height = round(sqrt(pixels / aspect));
    if (width < 1 || height < 1 || width > image.width || height > image.height)
        return false;
    box->width = (uint32_t)width;
    box->height = (uint32_t)height;
    box->x = (uint32_t)random_below(key, counter + 2, image.width - box->width + 1);
    box->y = (uint32_t)random_below(key, counter + 3, image.height - box->height + 1);
    return true;
}

/* The largest box in the center with an aspect ratio within the limits. */
static struct resample_box center_box(struct image_size image, double least, double most)
{
    double width = image.width, height = image.height;
    if (width < height * least)
        height = width / least;
    else if (width > height * most)
        width = height * most;
    return (struct resample_box){(image.width - width) / 2, (image.height - height) / 2, width, height};
}

static struct resample_box training_box(const struct image_augment *augment, uint64_t key, struct image_size image)
{
    const double area[2] = {augment->scale_least, augment->scale_most};
    const double ratio[2] = {augment->ratio_most > 0 ? augment->ratio_least : 3.0 / 4,
                             augment->ratio_most > 0 ? augment->ratio_most : 4.0 / 3};
    struct image_region box;
    if (!(augment->scale_most > 0))
        return center_box(image, 1, 1);
    for (unsigned i = 0; i < CROP_TRIES; i++)
        if (random_box(key, COUNTER_CROP + 4 * i, image, area, ratio, &box))
            return (struct resample_box){box.x, box.y, box.width, box.height};
    return center_box(image, ratio[0], ratio[1]);
}

static struct image_region erased_box(uint64_t key, uint32_t size)
{
    static const double area[2] = {ERASE_AREA_LEAST, ERASE_AREA_MOST}, ratio[2] = {ERASE_RATIO_LEAST, ERASE_RATIO_MOST};
    struct image_region box;
    for (unsigned i = 0; i < CROP_TRIES; i++)
        if (random_box(key, COUNTER_ERASE + 4 * i, (struct image_size){size, size}, area, ratio, &box))
            return box;
    return (struct image_region){0};
}

static int32_t random_move(uint64_t key, uint64_t counter, uint32_t pad)
{
    return (int32_t)random_below(key, counter, 2 * (uint64_t)pad + 1) - (int32_t)pad;
}

struct image_plan image_plan_training(const struct image_augment *augment, uint64_t key, struct image_size image,
                                      uint32_t size)
{
    static const uint8_t orders[6][3] = {{0, 1, 2}, {0, 2, 1}, {1, 0, 2}, {1, 2, 0}, {2, 0, 1}, {2, 1, 0}};
    const double changes[3] = {augment->brightness, augment->contrast, augment->saturation};
    struct image_plan plan = {
        .box = training_box(augment, key, image),
        .mirrored = random_uniform(key, COUNTER_MIRROR) < augment->mirror,
        .right = random_move(key, COUNTER_RIGHT, augment->pad),
        .down = random_move(key, COUNTER_DOWN, augment->pad),
    };
    memcpy(plan.order, orders[random_below(key, COUNTER_ORDER, 6)], sizeof plan.order);
    for (unsigned i = 0; i < 3; i++)
        plan.factors[i] = uniform_between(key, COUNTER_FACTORS + i, 1 - changes[i], 1 + changes[i]);
    if (random_uniform(key, COUNTER_IS_ERASED) < augment->erase)
        plan.erased = erased_box(key, size);
    return plan;
}

struct image_plan image_plan_evaluation(struct image_size image, double share)
{
    const double side = share * (image.height < image.width ? image.height : image.width);
    return (struct image_plan){
        .box = {(image.width - side) / 2, (image.height - side) / 2, side, side},
        .factors = {1, 1, 1},
    };
}

struct image_region image_plan_region(const struct image_plan *plan, struct image_size image)
{
    const struct resample_box *box = &plan->box;
    const double x = fmax(floor(box->x), 0), y = fmax(floor(box->y), 0);
    const double right = fmin(ceil(box->x + box->width), image.width);
    const double bottom = fmin(ceil(box->y + box->height), image.height);
    return (struct image_region){(uint32_t)x, (uint32_t)y, (uint32_t)(right - x), (uint32_t)(bottom - y)};
}

/* ---- colors ---- */

static float clamp_color(float value)
{
    return value < 0 ? 0 : value > 255 ? 255 : value;
}

/* ITU-R BT.601, as in torchvision. */
static float gray_of(const float *pixel, uint32_t channels)
{
    return channels == 1 ? pixel[0] : 0.299f * pixel[0] + 0.587f * pixel[1] + 0.114f * pixel[2];
}

static void adjust_brightness(float *pixels, size_t count, float factor)
{
    for (size_t i = 0; i < count; i++)
        pixels[i] = clamp_color(pixels[i] * factor);
}

/* Away from the mean gray of the image. */
static void adjust_contrast(float *pixels, size_t count, uint32_t channels, float factor)
{
    double sum = 0;
    for (size_t i = 0; i < count; i += channels)
        sum += (double)gray_of(pixels + i, channels);
    const float mean = (float)(sum * channels / (double)count);
    for (size_t i = 0; i < count; i++)
        pixels[i] = clamp_color(mean + factor * (pixels[i] - mean));
}

/* Away from the gray of each pixel. */
static void adjust_saturation(float *pixels, size_t count, uint32_t channels, float factor)
{
    for (size_t i = 0; channels == 3 && i < count; i += 3) {
        const float gray = gray_of(pixels + i, channels);
        for (size_t c = 0; c < 3; c++)
            pixels[i + c] = clamp_color(gray + factor * (pixels[i + c] - gray));
    }
}

static void adjust_colors(const struct image_plan *plan, float *pixels, size_t count, uint32_t channels)
{
    for (int i = 0; i < 3; i++) {
        const float factor = (float)plan->factors[plan->order[i]];
        if (factor == 1)
            continue;
        if (plan->order[i] == 0)
            adjust_brightness(pixels, count, factor);
        else if (plan->order[i] == 1)
            adjust_contrast(pixels, count, channels, factor);
        else
            adjust_saturation(pixels, count, channels, factor);
    }
}

/* ---- places ---- */

/* Move the image; black comes in. */
static void move_pixels(float *pixels, uint32_t size, uint32_t channels, int32_t right, int32_t down)
{
    const int64_t side = size;
    for (int64_t i = 0; i < side; i++) {
        /* From the end that nothing is taken from any more. */
        const int64_t y = down > 0 ? side - 1 - i : i, from = y - down;
        float *row = pixels + y * side * channels;
        const int64_t kept = side - (right < 0 ? -(int64_t)right : right);
        if (from < 0 || from >= side || kept <= 0) {
            memset(row, 0, (size_t)(side * channels) * sizeof *row);
            continue;
        }
        const float *source = pixels + from * side * channels;
        const int64_t to = right > 0 ? right : 0, begin = right < 0 ? -(int64_t)right : 0;
        memmove(row + to * channels, source + begin * channels, (size_t)(kept * channels) * sizeof *row);
        memset(right > 0 ? row : row + kept * channels, 0, (size_t)((side - kept) * channels) * sizeof *row);
    }
}

static void normalize_pixels(const struct image_normalization *normalization, float *pixels, size_t count,
                             uint32_t channels)
{
    float scale[3] = {0}, shift[3] = {0};
    for (uint32_t c = 0; c < channels; c++) {
        scale[c] = (float)(1 / (255 * normalization->deviation[c]));
        shift[c] = (float)(-normalization->mean[c] / normalization->deviation[c]);
    }
    if (channels == 1) {
        for (size_t i = 0; i < count; i++)
            pixels[i] = pixels[i] * scale[0] + shift[0];
        return;
    }
    for (size_t i = 0; i < count; i += 3)
        for (size_t c = 0; c < 3; c++)
            pixels[i + c] = pixels[i + c] * scale[c] + shift[c];
}

void image_adjust(const struct image_plan *plan, const struct image_normalization *normalization, uint32_t size,
                  uint32_t channels, float *pixels)
{
    const size_t count = (size_t)size * size * channels;
    const struct image_region *erased = &plan->erased;
    adjust_colors(plan, pixels, count, channels);
    if (plan->right || plan->down)
        move_pixels(pixels, size, channels, plan->right, plan->down);
    normalize_pixels(normalization, pixels, count, channels);
    for (uint32_t y = 0; erased->width && y < erased->height; y++)
        memset(pixels + ((size_t)(erased->y + y) * size + erased->x) * channels, 0,
               (size_t)erased->width * channels * sizeof *pixels);
}

/* ---- mixing ---- */

/* Johnk's algorithm for Beta variates (1964), in logarithms so that small parameters do not underflow. */
double image_mixup_share(double alpha, uint64_t key)
{
    for (uint64_t i = 0;; i += 2) {
        const double x = log(1 - random_uniform(key, i)) / alpha, y = log(1 - random_uniform(key, i + 1)) / alpha;
        if (exp(x) + exp(y) > 1)
            continue;
        const double share = 1 / (1 + exp(y - x));
        return share < 0.5 ? 1 - share : share;
    }
}

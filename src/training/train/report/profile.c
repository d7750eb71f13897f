/* SPDX-License-Identifier: Apache-2.0 */
#include "training/train/report/profile.h"

#include "base/clock.h"

#include <stdlib.h>
#include <string.h>

struct profile {
    size_t warm, room, count, seen;
    size_t layer_count;
    const struct device *devices[PROFILE_DEVICES];
    size_t device_count;
    struct profile_step *steps;                     /* capacity in steps, and the current step */
    struct profile_layer *layers;                   /* of all of these */
    struct profiled_count last[PROFILED_KERNELS];   /* at the end of the last step */
    struct profiled_count begin[PROFILED_KERNELS];  /* of the layer under way */
    struct profiled_count inside[PROFILED_KERNELS]; /* of this step, in layers */
    uint64_t began;                                 /* of the layer under way, clock_now() */
};

weft_status profile_open(size_t warm, size_t count, struct profile **result, struct error *error)
{
    struct profile *profile = calloc(1, sizeof *profile);
    struct profile_step *steps = profile ? calloc(count + 1, sizeof *steps) : NULL;
    if (!steps) {
        free(profile);
        return error_memory(error, (count + 1) * sizeof *steps, "a profile");
    }
    *profile = (struct profile){.warm = warm, .room = count, .steps = steps};
    *result = profile;
    return WEFT_OK;
}

void profile_close(struct profile *profile)
{
    if (!profile)
        return;
    free(profile->steps);
    free(profile->layers);
    free(profile);
}

weft_status profile_describe(struct profile *profile, const struct model_description *description, struct error *error)
{
    const size_t layers = description->layer_count, steps = profile->room + 1;
    profile->layers = calloc(steps * layers, sizeof *profile->layers);
    if (!profile->layers)
        return error_memory(error, steps * layers * sizeof *profile->layers, "a profile of layers");
    for (size_t i = 0; i < steps; i++)
        profile->steps[i].layers = profile->layers + i * layers;
    profile->layer_count = layers;
    return WEFT_OK;
}

weft_status profile_measure(struct profile *profile, struct device **device, struct error *error)
{
    const weft_status status = profiled_wrap(device, error);
    if (status == WEFT_OK)
        profile->devices[profile->device_count++] = *device;
    return status;
}

/* sum += now - then. */
static void add_difference(struct profiled_count *sum, const struct profiled_count *now,
                           const struct profiled_count *then)
{
    sum->calls += now->calls - then->calls;
    sum->seconds += now->seconds - then->seconds;
    sum->flops += now->flops - then->flops;
    sum->bytes += now->bytes - then->bytes;
}

/* What all devices have counted. */
static void profile_count_all(const struct profile *profile, struct profiled_count sums[PROFILED_KERNELS])
{
    static const struct profiled_count nothing;
    memset(sums, 0, PROFILED_KERNELS * sizeof *sums);
    for (size_t device = 0; device < profile->device_count; device++)
        for (size_t k = 0; k < PROFILED_KERNELS; k++)
            add_difference(&sums[k], &profiled_counts(profile->devices[device])[k], &nothing);
}

void profile_watch(void *context, const struct model_turn *turn)
{
    struct profile *profile = context;
    struct profiled_count now[PROFILED_KERNELS];
    if (turn->begins) {
        profile_count_all(profile, profile->begin);
        profile->began = clock_now();
        return;
    }
    struct profile_turn *sum = &profile->steps[profile->count].layers[turn->layer].turns[turn->direction];
    sum->seconds += (double)(clock_now() - profile->began) * 1e-9;
    profile_count_all(profile, now);
    for (size_t k = 0; k < PROFILED_KERNELS; k++) {
        sum->flops += now[k].flops - profile->begin[k].flops;
        add_difference(&profile->inside[k], &now[k], &profile->begin[k]);
    }
}

void profile_step_done(struct profile *profile, double seconds, double wait_seconds)
{
    struct profiled_count now[PROFILED_KERNELS];
    struct profile_step *step = &profile->steps[profile->count];
    profile_count_all(profile, now);
    profile->seen++;
    step->seconds = seconds;
    step->wait_seconds = wait_seconds;
    memset(step->kernels, 0, sizeof step->kernels);
    for (size_t k = 0; k < PROFILED_KERNELS; k++) {
        add_difference(&step->kernels[k], &now[k], &profile->last[k]);
        step->outside[k] = (struct profiled_count){0};
        add_difference(&step->outside[k], &step->kernels[k], &profile->inside[k]);
    }
    memcpy(profile->last, now, sizeof profile->last);
    memset(profile->inside, 0, sizeof profile->inside);
    if (profile->seen > profile->warm && profile->count < profile->room)
        profile->count++; /* what follows goes to the next place */
    memset(profile->steps[profile->count].layers, 0, profile->layer_count * sizeof *profile->layers);
}

const struct profile_step *profile_median(const struct profile *profile)
{
    for (size_t i = 0; i < profile->count; i++) {
        size_t before = 0;
        for (size_t j = 0; j < profile->count; j++) {
            const double mine = profile->steps[i].seconds, other = profile->steps[j].seconds;
            before += other < mine || (other == mine && j < i);
        }
        if (before == (profile->count - 1) / 2)
            return &profile->steps[i];
    }
    return NULL;
}

/* SPDX-License-Identifier: Apache-2.0 */
#include "training/tensor/device.h"

#include "base/text.h"
#include "training/tensor/devices.h"

#include <string.h>

typedef weft_status (*device_opener)(enum kernel_set set, int threads, struct device **device, struct error *error);

static const struct {
    const char *name;
    device_opener open;
    weft_type activations; /* of which its kernels are */
} openers[] = {
    {"cpu", cpu_open, WEFT_F32},
    {"cpu-bf16", cpu_bf16_open, WEFT_BF16},
    {"cpu-f16", cpu_f16_open, WEFT_F16},
    {"reference", reference_f64_open, WEFT_F64},
    {"reference-f32", reference_f32_open, WEFT_F32},
};
#define OPENERS ARRAY_SIZE(openers)

const char *const device_names[OPENERS + 1] = {"cpu", "cpu-bf16", "cpu-f16", "reference", "reference-f32", NULL};

const char *device_cpu_name(weft_type activations)
{
    return activations == WEFT_BF16 ? "cpu-bf16" : activations == WEFT_F16 ? "cpu-f16" : "cpu";
}

weft_status device_open(const char *name, int threads, struct device **device, struct error *error)
{
    return device_open_with(name, KERNEL_SETS, threads, device, error);
}

/* KERNEL_SETS: the highest set that this process can use. */
static weft_status open_set(size_t opener, enum kernel_set set, int threads, struct device **device,
                            struct error *error)
{
    const weft_type activations = openers[opener].activations;
    const enum kernel_set best = kernel_set_best(activations), highest = kernel_set_highest(activations);
    if (set == KERNEL_SETS)
        set = best;
    else if (set > highest)
        set = highest;
    if (set > best)
        return error_set(error, WEFT_ERROR_ARGUMENT, "this process can use the kernels %s at most, not %s",
                         kernel_set_names[best], kernel_set_names[set]);
    return openers[opener].open(set, threads, device, error);
}

weft_status device_open_with(const char *name, enum kernel_set set, int threads, struct device **device,
                             struct error *error)
{
    if (threads < 1 || threads > DEVICE_THREADS_MOST)
        return error_set(error, WEFT_ERROR_ARGUMENT, "a device cannot have %d threads; give it 1 to %d", threads,
                         DEVICE_THREADS_MOST);
    for (size_t i = 0; i < OPENERS; i++)
        if (strcmp(name, openers[i].name) == 0)
            return open_set(i, set, threads, device, error);
    const char *nearest = text_nearest(name, device_names, OPENERS);
    return error_set(error, WEFT_ERROR_ARGUMENT,
                     "there is no device '%s'%s%s%s; there are cpu, cpu-bf16, cpu-f16, reference and reference-f32",
                     name, nearest ? ", did you mean '" : "", nearest ? nearest : "", nearest ? "'?" : "");
}

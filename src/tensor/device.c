/* SPDX-License-Identifier: Apache-2.0 */
#include "tensor/device.h"

#include "base/text.h"
#include "tensor/devices.h"

#include <string.h>

typedef weft_status (*device_opener)(int threads, struct device **device, struct error *error);

static const struct {
    const char *name;
    device_opener open;
} openers[] = {
    {"cpu", cpu_open},
    {"cpu-bf16", cpu_bf16_open},
    {"reference", reference_f64_open},
    {"reference-f32", reference_f32_open},
};
#define OPENERS (sizeof openers / sizeof *openers)

const char *const device_names[OPENERS + 1] = {"cpu", "cpu-bf16", "reference", "reference-f32", NULL};

weft_status device_open(const char *name, int threads, struct device **device, struct error *error)
{
    if (threads < 1 || threads > DEVICE_THREADS_MOST)
        return error_set(error, WEFT_ERROR_ARGUMENT, "a device cannot have %d threads; give it 1 to %d", threads,
                         DEVICE_THREADS_MOST);
    for (size_t i = 0; i < OPENERS; i++)
        if (strcmp(name, openers[i].name) == 0)
            return openers[i].open(threads, device, error);
    const char *nearest = text_nearest(name, device_names, OPENERS);
    return error_set(error, WEFT_ERROR_ARGUMENT,
                     "there is no device '%s'%s%s%s; there are cpu, cpu-bf16, reference and reference-f32", name,
                     nearest ? ", did you mean '" : "", nearest ? nearest : "", nearest ? "'?" : "");
}

/* SPDX-License-Identifier: Apache-2.0 */
#include "training/simulate/device_time.h"

#include <math.h>

static const char *const precision_names[CLUSTER_PRECISIONS] = {"f32", "bf16", "f16"};

static double share_or(double share, double otherwise)
{
    return share > 0 ? share : otherwise;
}

/* The operations for which a product keeps all processors of a device busy: those of whole waves of tiles. */
static double tiled_operations(const struct cluster_device *device, const struct work_product *product)
{
    if (!device->processors)
        return 2 * product->rows * product->columns * product->inner * product->batch;
    const double processors = device->processors,
                 across = ceil(product->rows / DEVICE_TILE_SHORT) * ceil(product->columns / DEVICE_TILE_LONG),
                 along = ceil(product->rows / DEVICE_TILE_LONG) * ceil(product->columns / DEVICE_TILE_SHORT),
                 waves = ceil(product->batch * fmin(across, along) / processors);
    return 2 * waves * processors * DEVICE_TILE_SHORT * DEVICE_TILE_LONG * (product->inner + device->product_fill);
}

double device_seconds(const struct cluster_device *device, const struct layer_work *work)
{
    const double bandwidth = device->memory_bandwidth * share_or(device->memory_share, DEVICE_MEMORY_SHARE),
                 flops = device->flops[work->precision] * share_or(device->product_share, DEVICE_PRODUCT_SHARE);
    double seconds = work->bytes / bandwidth + work->kernels * device->launch_seconds;
    for (uint32_t i = 0; i < work->product_count; i++) {
        const struct work_product *product = &work->products[i];
        const double arithmetic = (tiled_operations(device, product) + device->product_half) / flops,
                     memory = product->bytes / bandwidth;
        seconds += product->count * (arithmetic > memory ? arithmetic : memory);
    }
    return seconds;
}

weft_status device_check(const struct cluster_device *device, const struct implementation *implementation,
                         struct error *error)
{
    const enum cluster_precision precision = implementation->precision;
    if (!(device->memory_bandwidth > 0))
        return error_set(error, WEFT_ERROR_ARGUMENT,
                         "device %s has no memory_bandwidth; add it to the cluster file to predict times",
                         device->kind);
    if (!(device->flops[precision] > 0))
        return error_set(error, WEFT_ERROR_ARGUMENT,
                         "device %s has no rate for %s; add '%s' to the cluster file or choose another --precision",
                         device->kind, precision_names[precision], precision_names[precision]);
    return WEFT_OK;
}

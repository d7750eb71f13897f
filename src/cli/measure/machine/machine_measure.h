/* SPDX-License-Identifier: Apache-2.0 */
/**
 * What one rank of this machine computes with, measured: for `weft profile machine`.
 *
 * All ranks measure at the same time, because cores share memory, caches and a power budget; a figure is that of the
 * slowest rank, as a training step waits for it.
 */
#ifndef WEFT_CLI_MEASURE_MACHINE_MACHINE_MEASURE_H
#define WEFT_CLI_MEASURE_MACHINE_MACHINE_MEASURE_H

#include "base/error.h"
#include "core/topology/cluster_device.h"

/**
 * Square products of several sizes are timed, in the three forms that a layer's passes have; the seconds of a size are
 * their mean, in the best of several calls.
 */
#define MACHINE_PRODUCTS_MOST 10

struct machine_products {
    size_t count;
    double operations[MACHINE_PRODUCTS_MOST], seconds[MACHINE_PRODUCTS_MOST];
    double peak; /**< operations/s, as struct device has it */
};

/** seconds = operations / rate + half / rate, fitted to the products so that relative errors are smallest. */
struct machine_fit {
    double rate;  /**< operations/s of large products */
    double half;  /**< operations of a product that takes twice the time that `rate` would need */
    double error; /**< largest relative difference between the fit and a product */
};

/** At least two products. Pure. */
struct machine_fit machine_fit_products(const struct machine_products *products);

/**
 * Measure products in all precisions and passes over memory with `threads` threads a rank, and fill `device` except for
 * its name and memory size. Product share and half are those of f32; the other peaks are those that fit their products
 * best with this share and half. Collective over the world of `context`; every rank gets the same. *fit is that of f32.
 */
weft_status machine_measure_device(weft_context *context, int threads, struct cluster_device *device,
                                   struct machine_fit *fit, struct error *error);

/**
 * How much longer a rank computes while an all-reduce of all ranks progresses: 0.1 is 10 % longer; 0 for one rank.
 * Collective.
 */
weft_status machine_measure_overlap(weft_context *context, int threads, double *slowdown, struct error *error);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/**
 * The time that a device takes for the work of a pass. Pure functions; thread-safe.
 *
 *     products       the longer of  operations / (flops x share x operations / (operations + half))
 *                             and   bytes / (memory_bandwidth x memory share)
 *     other kernels  bytes / (memory_bandwidth x memory share)
 *     each kernel    launch_seconds more
 *
 * The first line is the roofline (Williams et al. 2009) with a saturating peak: a product of `half` operations takes twice
 * the time that the peak share would need, which stands for starting and draining the pipeline of tiles, so that each
 * product costs half / (flops x share) besides its operations (the model of Hockney's r_infinity and n_1/2, 1982).
 * Operations are those of one kernel; products that one kernel computes together count together. Collectives within
 * layers are not included.
 *
 * A GPU's processors compute a tile of the result each: 128 x 256 elements, the size at which cuBLAS comes closest to the
 * peak. Where a description says how many processors there are, a product's operations are those of whole waves of tiles,
 * one for each processor, because a last wave that is not full takes as long as a full one ("wave quantization": NVIDIA,
 * "Matrix Multiplication Background User's Guide"). Filling the pipeline of a tile and writing its result take as long as
 * `product_fill` elements of the inner dimension:
 *
 *     operations     2 x waves x processors x 128 x 256 x (inner + fill),  waves = ceil(tiles / processors)
 *
 * Both make products of small micro-batches, which have fewer tiles and, for gradients of weights, a short inner dimension,
 * slower than their operations tell.
 *
 * Where the description leaves them at 0: DEVICE_PRODUCT_SHARE of the peak, DEVICE_MEMORY_SHARE of the bandwidth, no half
 * and no tiles.
 */
#ifndef WEFT_TRAINING_SIMULATE_DEVICE_TIME_H
#define WEFT_TRAINING_SIMULATE_DEVICE_TIME_H

#include "core/topology/cluster_device.h"
#include "training/simulate/work.h"

/** Near what published training iterations on A100 give: bench/published. */
#define DEVICE_PRODUCT_SHARE 0.8
#define DEVICE_MEMORY_SHARE  0.65

/** Elements of a tile of a product's result; either side may be the longer one. */
#define DEVICE_TILE_SHORT 128
#define DEVICE_TILE_LONG  256

/** Seconds. The device must be able to compute in the precision of the products: device_check(). */
double device_seconds(const struct cluster_device *device, const struct layer_work *work);

/** Whether a device can run an implementation: it needs flops in its precision and a memory bandwidth. Errors: ARGUMENT,
 * with the device and the key that is missing. */
weft_status device_check(const struct cluster_device *device, const struct implementation *implementation,
                         struct error *error);

#endif

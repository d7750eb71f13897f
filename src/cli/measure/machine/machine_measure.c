/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/measure/machine/machine_measure.h"

#include "base/array.h"
#include "base/clock.h"
#include "cli/frame/command.h"
#include "cli/measure/bench_timing.h"
#include "training/tensor/device.h"

#include <math.h>
#include <stdlib.h>

#define REPETITIONS      25
#define CALL_SECONDS     2e-3 /* a timed call repeats a kernel for about so long: short, to fit between interruptions */
#define PASS_ELEMENTS    ((size_t)4 << 20) /* 16 MiB of f32: beyond the caches of a core */
#define PASS_WIDTH       1024
#define OVERLAP_ELEMENTS ((size_t)8 << 20)
#define OVERLAP_PRODUCT  256
#define OVERLAP_SHARE    0.5 /* computing lasts this share of the collective, so that it does not outlive it */

#define SECONDS_SINCE(began) ((double)(clock_now() - (began)) * 1e-9)

static const size_t product_sizes[] = {64, 96, 128, 192, 256, 384, 512, 640};
_Static_assert(ARRAY_SIZE(product_sizes) <= MACHINE_PRODUCTS_MOST, "room for all sizes");

struct machine_fit machine_fit_products(const struct machine_products *products)
{
    /* Least squares of (a + b x - t) / t over a and b. */
    double s = 0, sx = 0, sxx = 0, st = 0, sxt = 0;
    struct machine_fit fit = {0};
    for (size_t i = 0; i < products->count; i++) {
        double x = products->operations[i], t = products->seconds[i], weight = 1 / (t * t);
        s += weight;
        sx += weight * x;
        sxx += weight * x * x;
        st += weight * t;
        sxt += weight * x * t;
    }
    double b = (s * sxt - sx * st) / (s * sxx - sx * sx), a = (st - b * sx) / s;
    if (!(a > 0) || !(b > 0)) { /* no fixed cost to be seen */
        a = 0;
        b = sxt / sxx;
    }
    fit.rate = 1 / b;
    fit.half = a / b;
    for (size_t i = 0; i < products->count; i++)
        fit.error = fmax(fit.error, fabs((a + b * products->operations[i]) / products->seconds[i] - 1));
    return fit;
}

/* The rate that fits best where the fixed cost is `half` operations: least squares of (x + half) / (rate t) - 1. */
static double machine_fit_rate(const struct machine_products *products, double half)
{
    double sum = 0, squares = 0;
    for (size_t i = 0; i < products->count; i++) {
        double rate = (products->operations[i] + half) / products->seconds[i];
        sum += rate;
        squares += rate * rate;
    }
    return squares / sum;
}

/* ---- timing kernels ---- */

#define MACHINE_PRODUCTS 3 /* of machine_product() */

/* A kernel and its arrays of PASS_ELEMENTS elements. */
struct machine_kernel {
    struct device *device;
    size_t size; /* of a product */
    float *arrays[4];
    void (*run)(const struct machine_kernel *kernel);
    double bytes; /* that a pass reads and writes */
};

/* The three products of a linear layer: of its forward pass, and of its backward pass for inputs and for weights. */
static void machine_product(const struct machine_kernel *kernel)
{
    struct matmul product = {.rows = kernel->size,
                             .columns = kernel->size,
                             .inner = kernel->size,
                             .a = kernel->arrays[0],
                             .b = kernel->arrays[1],
                             .c = kernel->arrays[2]};
    kernel->device->matmul(kernel->device, &product);
    product.transpose_b = true;
    kernel->device->matmul(kernel->device, &product);
    product.transpose_b = false;
    product.transpose_a = true;
    product.wide = true;
    kernel->device->matmul(kernel->device, &product);
}

static void machine_copy(const struct machine_kernel *kernel)
{
    kernel->device->copy(kernel->device, kernel->arrays[0], kernel->arrays[1], PASS_ELEMENTS * sizeof(float));
}

static void machine_add(const struct machine_kernel *kernel)
{
    kernel->device->add_branch(kernel->device, PASS_ELEMENTS, kernel->arrays[0], kernel->arrays[1], kernel->arrays[2]);
}

static void machine_gelu(const struct machine_kernel *kernel)
{
    kernel->device->gelu_forward(kernel->device, PASS_ELEMENTS, kernel->arrays[0], kernel->arrays[1]);
}

static void machine_norm(const struct machine_kernel *kernel)
{
    kernel->device->rms_norm_forward(kernel->device, PASS_ELEMENTS / PASS_WIDTH, PASS_WIDTH, 1e-5, kernel->arrays[0],
                                     kernel->arrays[3], kernel->arrays[1], kernel->arrays[2]);
}

static void machine_adamw(const struct machine_kernel *kernel)
{
    const struct adamw step = {.rate = 1e-3,
                               .beta1 = 0.9,
                               .beta2 = 0.99,
                               .epsilon = 1e-8,
                               .correction1 = 1,
                               .correction2 = 1,
                               .gradient_scale = 1};
    kernel->device->adamw(kernel->device, &step, PASS_ELEMENTS, kernel->arrays[0], kernel->arrays[1], kernel->arrays[2],
                          kernel->arrays[3], NULL);
}

/* Seconds of one run on this rank: the best of the repetitions, as other programs can only make it look slower. */
static weft_status machine_time(const struct machine_kernel *kernel, double *seconds, struct error *error)
{
    double best = HUGE_VAL;
    uint64_t began = clock_now();
    kernel->run(kernel); /* warms up */
    weft_status status = kernel->device->finish(kernel->device, error);
    size_t calls = (size_t)fmax(1, CALL_SECONDS / SECONDS_SINCE(began));
    for (int i = 0; i < REPETITIONS && status == WEFT_OK; i++) {
        began = clock_now();
        for (size_t call = 0; call < calls; call++)
            kernel->run(kernel);
        status = kernel->device->finish(kernel->device, error);
        best = fmin(best, SECONDS_SINCE(began) / (double)calls);
    }
    *seconds = best;
    return status;
}

/* The same for all ranks at once: that of the slowest one. */
static weft_status machine_time_together(weft_context *context, const struct machine_kernel *kernel, double *seconds,
                                         struct error *error)
{
    double mine = 0;
    weft_status status = command_check(context, weft_barrier(weft_world(context)), error);
    if (status == WEFT_OK)
        status = machine_time(kernel, &mine, error);
    if (status == WEFT_OK)
        status =
            command_check(context, weft_allreduce(&mine, seconds, 1, WEFT_F64, WEFT_MAX, weft_world(context)), error);
    return status;
}

static void machine_kernel_close(struct machine_kernel *kernel)
{
    for (size_t i = 0; i < ARRAY_SIZE(kernel->arrays) && kernel->device; i++)
        kernel->device->release(kernel->device, kernel->arrays[i]);
    if (kernel->device)
        kernel->device->close(kernel->device);
    *kernel = (struct machine_kernel){0};
}

static weft_status machine_kernel_open(const char *name, int threads, struct machine_kernel *kernel,
                                       struct error *error)
{
    *kernel = (struct machine_kernel){0};
    weft_status status = device_open(name, threads, &kernel->device, error);
    for (size_t i = 0; i < ARRAY_SIZE(kernel->arrays) && status == WEFT_OK; i++) {
        kernel->arrays[i] =
            kernel->device->allocate(kernel->device, PASS_ELEMENTS * sizeof(float), "arrays to measure with", error);
        status = kernel->arrays[i] ? WEFT_OK : WEFT_ERROR_MEMORY;
    }
    if (status != WEFT_OK)
        machine_kernel_close(kernel);
    return status;
}

/* ---- a device ---- */

static weft_status machine_measure_products(weft_context *context, struct machine_kernel *kernel,
                                            struct machine_products *products, struct error *error)
{
    weft_status status = WEFT_OK;
    double peak = kernel->device->peak(kernel->device);
    kernel->run = machine_product;
    for (size_t i = 0; i < ARRAY_SIZE(product_sizes) && status == WEFT_OK; i++) {
        double n = (double)product_sizes[i];
        kernel->size = product_sizes[i];
        products->operations[i] = 2 * n * n * n;
        status = machine_time_together(context, kernel, &products->seconds[i], error);
        products->seconds[i] /= MACHINE_PRODUCTS;
    }
    products->count = ARRAY_SIZE(product_sizes);
    if (status == WEFT_OK)
        status = command_check(
            context, weft_allreduce(&peak, &products->peak, 1, WEFT_F64, WEFT_MIN, weft_world(context)), error);
    return status;
}

/* Copying, and what passes over arrays reach of its rate. */
static weft_status machine_measure_memory(weft_context *context, struct machine_kernel *kernel,
                                          struct cluster_device *device, struct error *error)
{
    const struct {
        void (*run)(const struct machine_kernel *kernel);
        double moved; /* bytes read and written for each element */
    } passes[] = {{machine_copy, 8}, {machine_add, 12}, {machine_gelu, 8}, {machine_norm, 8}, {machine_adamw, 28}};
    double moved = 0, seconds = 0, took = 0;
    weft_status status = WEFT_OK;
    for (size_t i = 0; i < ARRAY_SIZE(passes) && status == WEFT_OK; i++) {
        kernel->run = passes[i].run;
        status = machine_time_together(context, kernel, &took, error);
        if (i == 0) {
            device->memory_bandwidth = passes[i].moved * PASS_ELEMENTS / took;
            continue;
        }
        moved += passes[i].moved * PASS_ELEMENTS;
        seconds += took;
    }
    if (status == WEFT_OK)
        device->memory_bandwidth = fmax(device->memory_bandwidth, moved / seconds);
    if (status == WEFT_OK)
        device->memory_share = moved / seconds / device->memory_bandwidth;
    return status;
}

weft_status machine_measure_device(weft_context *context, int threads, struct cluster_device *device,
                                   struct machine_fit *fit, struct error *error)
{
    static const weft_type types[CLUSTER_PRECISIONS] = {
        [CLUSTER_F32] = WEFT_F32, [CLUSTER_BF16] = WEFT_BF16, [CLUSTER_F16] = WEFT_F16};
    weft_status status = WEFT_OK;
    for (size_t precision = 0; precision < CLUSTER_PRECISIONS && status == WEFT_OK; precision++) {
        struct machine_kernel kernel;
        struct machine_products products = {0};
        status = machine_kernel_open(device_cpu_name(types[precision]), threads, &kernel, error);
        if (status == WEFT_OK)
            status = machine_measure_products(context, &kernel, &products, error);
        if (status == WEFT_OK && precision == CLUSTER_F32)
            status = machine_measure_memory(context, &kernel, device, error);
        machine_kernel_close(&kernel);
        if (status != WEFT_OK)
            return status;
        if (precision == CLUSTER_F32) {
            *fit = machine_fit_products(&products);
            device->flops[precision] = fmax(products.peak, fit->rate);
            device->product_share = fit->rate / device->flops[precision];
            device->product_half = fit->half;
        } else {
            device->flops[precision] = machine_fit_rate(&products, fit->half) / device->product_share;
        }
    }
    return status;
}

/* ---- overlap ---- */

/* Medians of the time of an all-reduce alone, and of `calls` products alone and while an all-reduce progresses. */
static weft_status machine_overlap_times(weft_context *context, const struct machine_kernel *kernel, size_t calls,
                                         double times[3], struct error *error)
{
    double runs[3][REPETITIONS], mine[3];
    weft_comm *world = weft_world(context);
    float *data = weft_alloc(context, OVERLAP_ELEMENTS * sizeof *data); /* as a trainer's gradients are */
    weft_status status = data ? WEFT_OK : WEFT_ERROR_MEMORY;
    for (int i = 0; i < REPETITIONS && status == WEFT_OK; i++) {
        weft_request *request = NULL;
        status = weft_barrier(world);
        uint64_t began = clock_now();
        if (status == WEFT_OK)
            status = weft_allreduce(data, data, OVERLAP_ELEMENTS, WEFT_F32, WEFT_SUM, world);
        runs[0][i] = SECONDS_SINCE(began);
        began = clock_now();
        for (size_t call = 0; call < calls; call++)
            kernel->run(kernel);
        runs[1][i] = SECONDS_SINCE(began);
        if (status == WEFT_OK)
            status = weft_barrier(world);
        if (status == WEFT_OK)
            status = weft_allreduce_start(data, data, OVERLAP_ELEMENTS, WEFT_F32, WEFT_SUM, world, &request);
        began = clock_now();
        for (size_t call = 0; call < calls; call++)
            kernel->run(kernel);
        runs[2][i] = SECONDS_SINCE(began);
        if (status == WEFT_OK)
            status = weft_wait(&request);
    }
    for (size_t kind = 0; kind < ARRAY_SIZE(runs) && status == WEFT_OK; kind++)
        mine[kind] = bench_median(runs[kind], REPETITIONS);
    if (status == WEFT_OK)
        status = weft_allreduce(mine, times, 3, WEFT_F64, WEFT_MAX, world);
    status = command_check(context, status, error);
    weft_free(context, data);
    return status;
}

weft_status machine_measure_overlap(weft_context *context, int threads, double *slowdown, struct error *error)
{
    struct machine_kernel kernel;
    double once = 0, times[3] = {0};
    *slowdown = 0;
    if (weft_comm_size(weft_world(context)) == 1)
        return WEFT_OK;
    weft_status status = machine_kernel_open("cpu", threads, &kernel, error);
    if (status != WEFT_OK)
        return status;
    kernel.run = machine_product;
    kernel.size = OVERLAP_PRODUCT;
    status = machine_time_together(context, &kernel, &once, error);
    if (status == WEFT_OK)
        status = machine_overlap_times(context, &kernel, 1, times, error); /* how long the collective takes */
    size_t calls = (size_t)fmax(1, OVERLAP_SHARE * times[0] / once);
    if (status == WEFT_OK)
        status = machine_overlap_times(context, &kernel, calls, times, error);
    machine_kernel_close(&kernel);
    if (status == WEFT_OK)
        *slowdown = fmax(0, times[2] / times[1] - 1);
    return status;
}

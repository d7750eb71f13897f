/* SPDX-License-Identifier: Apache-2.0 */
/**
 * Reduction kernels: the canonical tree over several sources, stored to several targets, in one pass.
 *
 * ## What is computed
 *
 * T(lo, n) = T(lo, h) op T(lo + h, n - h), h the largest power of two below n; T(lo, 1) = source lo. It is computed for
 * each element separately, so nothing depends on how a buffer is cut. Every instruction set gives the same bits:
 *
 *  - f32, f64: each operation is rounded to nearest even (no fused multiply-add). f16, bf16: each operation is done in
 *    f32 and rounded to nearest even to the type, at every node of the tree.
 *  - Integers wrap modulo 2^bits, signed ones in two's complement.
 *  - min and max of floats: -0 is below +0; if any contribution is a NaN the result is one (IEEE 754-2019 minimum,
 *    maximum). So they do not depend on order.
 *  - A NaN result is always the one positive quiet NaN without payload (0x7fc00000 in f32), whatever the inputs were.
 *  - Logical operations, and all operations on WEFT_BOOL, take anything but 0 as true and give 0 or 1.
 *  - One source is copied as it is, bit by bit, unless a finish follows.
 *
 * The processor's rounding and flush-to-zero modes must be the C standard's defaults; changing them changes the bits.
 *
 * ## Finish
 *
 * A last step, fused into the same pass: division by a whole number (average; integers truncate towards zero), or
 * multiplication by a factor (scaled sum; f64 in f64, the other floats in f32 with the factor rounded to f32). The
 * quotient or product is then rounded to the type. Truth values are finished, too: a single source may hold others than
 * 0 and 1.
 *
 * ## Memory
 *
 * Any alignment is allowed; elements aligned to their size are faster, equal alignment within 64 bytes fastest. A
 * target may be exactly the same buffer as a source (in place), or lie apart from all sources; partial overlap is not
 * allowed. All functions are thread-safe.
 *
 * `streaming` stores past the caches (non-temporal): for results that, with the sources, are larger than the last-level
 * cache. For smaller results it is slower by a large factor. The stores are fenced before return, so a release store
 * publishes them.
 */
#ifndef WEFT_CORE_COLLECTIVE_INTERNAL_REDUCTION_H
#define WEFT_CORE_COLLECTIVE_INTERNAL_REDUCTION_H

#include "weft/weft.h"

#include "core/transport/copy.h"

#include <stdbool.h>
#include <stdint.h>

/** The kernels for one instruction set. */
struct reduction;

/**
 * The best that this machine supports. Call once and keep the result: querying the processor takes some 50 us in a
 * virtual machine.
 */
const struct reduction *reduction_best(void);

/** By name ("portable", "x86-64-v3", "x86-64-v4"); NULL when it is unknown, not built in or not runnable here. */
const struct reduction *reduction_named(const char *name);

enum reduction_finish_kind {
    REDUCTION_FINISH_NONE,
    REDUCTION_FINISH_DIVIDE,
    REDUCTION_FINISH_MULTIPLY, /**< floating-point types only */
    REDUCTION_FINISH_TRUTH,    /**< integers and WEFT_BOOL only */
};

struct reduction_finish {
    enum reduction_finish_kind kind;
    uint64_t divisor; /**< from 1 to 2^31 - 1 */
    double factor;
};

/** The finish that `op` asks for over `ranks` contributions of `type`. */
struct reduction_finish reduction_finish_of(weft_type type, weft_op op, uint32_t ranks);

/**
 * Store T(0, source_count) over `sources`, finished, to each of `target_count` targets: `count` elements of `type`.
 * `kind` is the public op's; WEFT_OP_AVERAGE and WEFT_OP_SCALED_SUM add. `finish` may be NULL. At least one source;
 * zero targets are allowed. The first target is computed and the others are copied from it piece by piece, so it should
 * be the closest one.
 */
void reduction_tree(const struct reduction *reduction, weft_type type, weft_op_kind kind, void *const *targets,
                    uint32_t target_count, const void *const *sources, uint32_t source_count, uint64_t count,
                    const struct reduction_finish *finish, bool streaming);

/** Finish `count` elements in place. */
void reduction_finish(const struct reduction *reduction, weft_type type, void *target, uint64_t count,
                      const struct reduction_finish *finish);

#endif

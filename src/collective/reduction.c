/* SPDX-License-Identifier: Apache-2.0 */
/*
 * From one call to the loops of reduction_kernels.c. Two sources to one or two targets, and three, four or eight to
 * one, are a single loop over everything. The rest goes block by block: a block is computed into a buffer in the
 * first-level cache, or into the first target, finished there, and copied or streamed on.
 */
#include "collective/reduction.h"

#include "collective/reduction_kernels.h"
#include "transport/copy.h"

#include <string.h>

#if defined(__x86_64__)
#include <cpuid.h>
#endif

#define BLOCK_BYTES 4096u
/* When streaming: so small that the processor reads the next block while this one is stored. Measured: 35-38 GB/s,
 * against 10-20 with 4 KiB. */
#define STREAMED_BLOCK_BYTES 256u
#define MOST_DEPTH           20 /* partial results kept at one time: enough for 65,536 sources */

/* ---- choice
 * ------------------------------------------------------------------------------------------------------------- */

#if defined(__x86_64__)
static bool runs_v3(void)
{
    unsigned a, b, c, d;
    bool converts_halves = __get_cpuid(1, &a, &b, &c, &d) && (c & bit_F16C);
    return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && __builtin_cpu_supports("bmi") &&
           __builtin_cpu_supports("bmi2") && converts_halves;
}

static bool runs_v4(void)
{
    return runs_v3() && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
           __builtin_cpu_supports("avx512cd") && __builtin_cpu_supports("avx512dq") &&
           __builtin_cpu_supports("avx512vl");
}
#endif

const struct reduction *reduction_best(void)
{
#if defined(__x86_64__)
    if (runs_v4())
        return &reduction_v4;
    if (runs_v3())
        return &reduction_v3;
#endif
    return &reduction_portable;
}

const struct reduction *reduction_named(const char *name)
{
#if defined(__x86_64__)
    if (strcmp(name, reduction_v4.name) == 0)
        return runs_v4() ? &reduction_v4 : NULL;
    if (strcmp(name, reduction_v3.name) == 0)
        return runs_v3() ? &reduction_v3 : NULL;
#endif
    return strcmp(name, reduction_portable.name) == 0 ? &reduction_portable : NULL;
}

const char *reduction_name(const struct reduction *reduction)
{
    return reduction->name;
}

struct reduction_finish reduction_finish_of(weft_op op, uint32_t ranks)
{
    struct reduction_finish finish = {REDUCTION_FINISH_NONE, 1, 1};
    if (op.kind == WEFT_OP_AVERAGE && ranks > 1) {
        finish.kind = REDUCTION_FINISH_DIVIDE;
        finish.divisor = ranks;
    } else if (op.kind == WEFT_OP_SCALED_SUM && op.factor != 1) {
        finish.kind = REDUCTION_FINISH_MULTIPLY;
        finish.factor = op.factor;
    }
    return finish;
}

static enum reduction_op op_of(weft_op_kind kind)
{
    switch (kind) {
    case WEFT_OP_PRODUCT:
        return REDUCTION_PRODUCT;
    case WEFT_OP_MIN:
        return REDUCTION_MIN;
    case WEFT_OP_MAX:
        return REDUCTION_MAX;
    default:
        return REDUCTION_SUM;
    }
}

/* ---- one block
 * ------------------------------------------------------------------------------------------------------------ */

static void run_loop(const struct reduction_loops *loops, uint32_t source_count, void *target,
                     const void *const *sources, uint64_t offset, uint64_t count)
{
    switch (source_count) {
    case 2:
        loops->two(target, sources, offset, count);
        break;
    case 3:
        loops->three(target, sources, offset, count);
        break;
    case 4:
        loops->four(target, sources, offset, count);
        break;
    default:
        loops->eight(target, sources, offset, count);
    }
}

static bool has_loop(uint32_t source_count)
{
    return (source_count >= 2 && source_count <= 4) || source_count == 8;
}

/*
 * Any number of sources, at most BLOCK_BYTES of each. Leaves of eight (then four, then what is left) are pushed on a
 * stack; two neighbours of equal size are joined before the next is pushed, as in binary counting, and at the end all
 * are joined from the right: which is the left-full tree.
 */
static void __attribute__((noinline))
many_sources(const struct reduction_loops *loops, void *target, const void *const *sources, uint32_t source_count,
             uint64_t offset, uint64_t count)
{
    _Alignas(64) char buffers[MOST_DEPTH][BLOCK_BYTES];
    struct {
        const void *place;
        uint32_t size;
    } stack[MOST_DEPTH];
    uint32_t depth = 0;
    for (uint32_t first = 0; first < source_count; depth++) {
        while (depth >= 2 && stack[depth - 2].size == stack[depth - 1].size) {
            depth--;
            loops->two(buffers[depth - 1], (const void *[]){stack[depth - 1].place, stack[depth].place}, 0, count);
            stack[depth - 1].place = buffers[depth - 1];
            stack[depth - 1].size *= 2;
        }
        uint32_t left = source_count - first, size = left >= 8 ? 8 : left >= 4 ? 4 : left;
        stack[depth].size = size;
        stack[depth].place = buffers[depth];
        if (size == 1)
            stack[depth].place = (const char *)sources[first] + offset;
        else
            run_loop(loops, size, buffers[depth], sources + first, offset, count);
        first += size;
    }
    for (; depth > 1; depth--) {
        void *joined = depth == 2 ? target : buffers[depth - 2];
        loops->two(joined, (const void *[]){stack[depth - 2].place, stack[depth - 1].place}, 0, count);
        stack[depth - 2].place = joined;
    }
}

static void reduce_block(const struct reduction_loops *loops, void *target, const void *const *sources,
                         uint32_t source_count, uint64_t offset, uint64_t count, uint64_t bytes)
{
    if (source_count == 1) {
        const char *source = (const char *)sources[0] + offset;
        if (target != source)
            memcpy(target, source, bytes);
    } else if (has_loop(source_count)) {
        run_loop(loops, source_count, target, sources, offset, count);
    } else {
        many_sources(loops, target, sources, source_count, offset, count);
    }
}

void reduction_finish(const struct reduction *reduction, weft_type type, void *target, uint64_t count,
                      const struct reduction_finish *finish)
{
    if (!finish || finish->kind == REDUCTION_FINISH_NONE)
        return;
    if (finish->kind == REDUCTION_FINISH_DIVIDE)
        reduction->divide[type](target, count, finish->divisor);
    else if (reduction->multiply[type])
        reduction->multiply[type](target, count, finish->factor);
}

/* ---- the whole
 * -------------------------------------------------------------------------------------------------------------- */

/* Bytes of the first block: the following ones begin on a cache line of the first target, if elements allow. */
static uint64_t first_block(const void *target, uint64_t element, uint64_t block)
{
    uint64_t beyond = (uintptr_t)target % 64;
    return beyond % element ? block : block - beyond;
}

void reduction_tree(const struct reduction *reduction, weft_type type, weft_op_kind kind, void *const *targets,
                    uint32_t target_count, const void *const *sources, uint32_t source_count, uint64_t count,
                    const struct reduction_finish *finish, bool streaming, struct copy_crossing *crossing)
{
    const struct reduction_loops *loops = &reduction->loops[type][op_of(kind)];
    bool finishes = finish && finish->kind != REDUCTION_FINISH_NONE;
    if (target_count == 0 || count == 0)
        return;
    if (!finishes && !streaming) {
        if (target_count == 1 && has_loop(source_count)) {
            run_loop(loops, source_count, targets[0], sources, 0, count);
            return;
        }
    }

    _Alignas(64) char buffer[BLOCK_BYTES];
    uint64_t element = weft_type_size(type), bytes = count * element;
    bool copies = source_count == 1 && !finishes;
    uint64_t usual = streaming && !copies ? STREAMED_BLOCK_BYTES : BLOCK_BYTES;
    uint64_t block = first_block(targets[0], element, usual);
    for (uint64_t offset = 0; offset < bytes; offset += block, block = usual) {
        if (block > bytes - offset)
            block = bytes - offset;
        char *result = streaming ? buffer : (char *)targets[0] + offset;
        const char *finished = result;
        if (copies)
            finished = (const char *)sources[0] + offset;
        else
            reduce_block(loops, result, sources, source_count, offset, block / element, block);
        if (finishes)
            reduction_finish(reduction, type, result, block / element, finish);
        for (uint32_t i = 0; i < target_count; i++) {
            char *target = (char *)targets[i] + offset;
            if (target == finished)
                continue;
            if (streaming)
                reduction->stream(target, finished, block);
            else if (i == 0)
                copy_bytes(target, finished, block, false);
            else
                copy_across(crossing, target, finished, block);
        }
    }
    if (streaming || target_count > 1)
        copy_fence();
}

void reduction_pair(const struct reduction *reduction, weft_type type, weft_op_kind kind, void *target,
                    const void *left, const void *right, uint64_t count)
{
    reduction->loops[type][op_of(kind)].two(target, (const void *[]){left, right}, 0, count);
}

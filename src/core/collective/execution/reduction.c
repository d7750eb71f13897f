/* SPDX-License-Identifier: Apache-2.0 */
/*
 * From one call to the loops of reduction_kernels.c. Two, three, four or eight sources are a single loop over all of
 * them; the rest goes block by block, in the first-level cache. The first target is computed, and copied to the others
 * while it is in the second-level cache. Streaming stores take results that were computed in the first-level cache.
 */
#include "core/collective/internal/reduction.h"

#include "core/collective/internal/reduction_kernels.h"
#include "core/transport/copy.h"

#include <string.h>

#if defined(__x86_64__)
#include <cpuid.h>
#endif

#define BLOCK_BYTES 4096u /* stays in the first-level cache, with many sources' partial results */
/*
 * Stays in the second-level cache. Longer copies are faster where another core has the lines: 4 MiB to two ordinary
 * outputs take 345 us in pieces of 4 KiB and 282 us in pieces of 64 KiB.
 */
#define COPIED_BYTES 65536u
/* When streaming: so small that the processor reads the next block while this one is stored. Measured: 35-38 GB/s,
 * against 10-20 with 4 KiB. */
#define STREAMED_BLOCK_BYTES 256u
#define MOST_DEPTH           20 /* partial results kept at one time: enough for 65,536 sources */

/* ---- choice ---- */

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

struct reduction_finish reduction_finish_of(weft_type type, weft_op op, uint32_t ranks)
{
    struct reduction_finish finish = {REDUCTION_FINISH_NONE, 1, 1};
    if (op.kind == WEFT_OP_AVERAGE && ranks > 1) {
        finish.kind = REDUCTION_FINISH_DIVIDE;
        finish.divisor = ranks;
    } else if (op.kind == WEFT_OP_SCALED_SUM && op.factor != 1) {
        finish.kind = REDUCTION_FINISH_MULTIPLY;
        finish.factor = op.factor;
    } else if (op.kind >= WEFT_OP_LOGICAL_AND || type == WEFT_BOOL) {
        finish.kind = REDUCTION_FINISH_TRUTH;
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
    case WEFT_OP_BITWISE_AND:
        return REDUCTION_BITWISE_AND;
    case WEFT_OP_BITWISE_OR:
        return REDUCTION_BITWISE_OR;
    case WEFT_OP_BITWISE_XOR:
        return REDUCTION_BITWISE_XOR;
    case WEFT_OP_LOGICAL_AND:
        return REDUCTION_LOGICAL_AND;
    case WEFT_OP_LOGICAL_OR:
        return REDUCTION_LOGICAL_OR;
    case WEFT_OP_LOGICAL_XOR:
        return REDUCTION_LOGICAL_XOR;
    default:
        return REDUCTION_SUM;
    }
}

/* ---- one block ---- */

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
 * stack; two neighbors of equal size are joined before the next is pushed, as in binary counting, and at the end all
 * are joined from the right. The result is the left-full tree.
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

void reduction_finish(const struct reduction *reduction, weft_type type, void *target, uint64_t count,
                      const struct reduction_finish *finish)
{
    if (!finish || finish->kind == REDUCTION_FINISH_NONE)
        return;
    if (finish->kind == REDUCTION_FINISH_DIVIDE)
        reduction->divide[type](target, count, finish->divisor);
    else if (finish->kind == REDUCTION_FINISH_TRUTH)
        reduction->truth[type](target, count);
    else if (reduction->multiply[type])
        reduction->multiply[type](target, count, finish->factor);
}

/* ---- the whole ---- */

struct reduction_tree {
    const struct reduction *reduction;
    const struct reduction_loops *loops;
    const void *const *sources;
    uint32_t source_count;
    weft_type type;
    uint64_t element; /* bytes */
    const struct reduction_finish *finish;
};

/* At most BLOCK_BYTES, from `offset` of the sources on. */
static void reduce_block(const struct reduction_tree *tree, void *target, uint64_t offset, uint64_t bytes)
{
    const uint64_t count = bytes / tree->element;
    const char *first = (const char *)tree->sources[0] + offset;
    if (tree->source_count == 1 && target != first) /* in place, only the finish is left */
        copy_bytes(target, first, bytes, false);
    else if (has_loop(tree->source_count))
        run_loop(tree->loops, tree->source_count, target, tree->sources, offset, count);
    else if (tree->source_count > 1)
        many_sources(tree->loops, target, tree->sources, tree->source_count, offset, count);
    reduction_finish(tree->reduction, tree->type, target, count, tree->finish);
}

/* Bytes of the first block: the following ones begin on a cache line of the target, if elements allow. */
static uint64_t first_block(const void *target, uint64_t element, uint64_t block)
{
    uint64_t beyond = (uintptr_t)target % 64;
    return beyond % element ? block : block - beyond;
}

/* Any number of bytes into one target: all at once where a single loop can do it. */
static void reduce_to(const struct reduction_tree *tree, char *target, uint64_t offset, uint64_t bytes)
{
    if (!tree->finish && has_loop(tree->source_count)) {
        run_loop(tree->loops, tree->source_count, target, tree->sources, offset, bytes / tree->element);
        return;
    }
    uint64_t block = first_block(target, tree->element, BLOCK_BYTES);
    for (uint64_t done = 0; done < bytes; done += block, block = BLOCK_BYTES) {
        if (block > bytes - done)
            block = bytes - done;
        reduce_block(tree, target + done, offset + done, block);
    }
}

/* Into the first target, and from there, while it is in a cache, to the others. */
static void reduce_and_copy(const struct reduction_tree *tree, void *const *targets, uint32_t target_count,
                            uint64_t bytes)
{
    uint64_t piece = target_count == 1 ? bytes : COPIED_BYTES;
    for (uint64_t offset = 0; offset < bytes; offset += piece) {
        if (piece > bytes - offset)
            piece = bytes - offset;
        reduce_to(tree, (char *)targets[0] + offset, offset, piece);
        for (uint32_t i = 1; i < target_count; i++)
            copy_bytes((char *)targets[i] + offset, (char *)targets[0] + offset, piece, false);
    }
}

static void copy_to_all(const char *source, void *const *targets, uint32_t target_count, uint64_t bytes, bool streaming)
{
    uint64_t piece = COPIED_BYTES;
    for (uint64_t offset = 0; offset < bytes; offset += piece) {
        if (piece > bytes - offset)
            piece = bytes - offset;
        for (uint32_t i = 0; i < target_count; i++)
            if (targets[i] != source)
                copy_bytes((char *)targets[i] + offset, source + offset, piece, streaming);
    }
}

/* Block by block past the caches, into all of them. */
static void reduce_and_stream(const struct reduction_tree *tree, void *const *targets, uint32_t target_count,
                              uint64_t bytes)
{
    _Alignas(64) char buffer[STREAMED_BLOCK_BYTES];
    uint64_t block = first_block(targets[0], tree->element, STREAMED_BLOCK_BYTES);
    for (uint64_t offset = 0; offset < bytes; offset += block, block = STREAMED_BLOCK_BYTES) {
        if (block > bytes - offset)
            block = bytes - offset;
        reduce_block(tree, buffer, offset, block);
        for (uint32_t i = 0; i < target_count; i++)
            tree->reduction->stream((char *)targets[i] + offset, buffer, block);
    }
    copy_fence();
}

void reduction_tree(const struct reduction *reduction, weft_type type, weft_op_kind kind, void *const *targets,
                    uint32_t target_count, const void *const *sources, uint32_t source_count, uint64_t count,
                    const struct reduction_finish *finish, bool streaming)
{
    if (finish && finish->kind == REDUCTION_FINISH_NONE)
        finish = NULL;
    const struct reduction_tree tree = {
        reduction, &reduction->loops[type][op_of(kind)], sources, source_count, type, weft_type_size(type), finish};
    const uint64_t bytes = count * tree.element;
    if (target_count == 0 || count == 0)
        return;
    if (source_count == 1 && !finish) {
        copy_to_all(sources[0], targets, target_count, bytes, streaming);
    } else if (streaming) {
        reduce_and_stream(&tree, targets, target_count, bytes);
    } else {
        reduce_and_copy(&tree, targets, target_count, bytes);
    }
}

/* SPDX-License-Identifier: Apache-2.0 */
/**
 * Symbolic values: the content of a chunk, as an expression. Equal expressions are one symbol (hash-consing), so
 * comparing two values is comparing two numbers.
 *
 * A symbol is a leaf (a chunk of some rank's input), the sum of two symbols (left and right are distinct), or a
 * finished symbol (average or scale applied). Not thread-safe.
 */
#ifndef WEFT_CORE_SCHEDULE_VERIFY_INTERNAL_SYMBOLS_H
#define WEFT_CORE_SCHEDULE_VERIFY_INTERNAL_SYMBOLS_H

#include <stdbool.h>
#include <stdint.h>

/** 0 is no value: never written. */
typedef uint32_t symbol;
#define SYMBOL_NONE 0

struct symbols;

/** Room for leaves 1 .. `leaves`; NULL when memory ran out. */
struct symbols *symbols_open(uint32_t leaves);
void symbols_close(struct symbols *symbols);

/** The sum of two; SYMBOL_NONE when memory ran out. */
symbol symbols_sum(struct symbols *symbols, symbol left, symbol right);

/** Finished. */
symbol symbols_finish(struct symbols *symbols, symbol value);

/** The canonical tree T(0, count) over `operands`. */
symbol symbols_tree(struct symbols *symbols, const symbol *operands, uint32_t count);

/** Whether `value` is a sum of the leaves operands[0..count), each exactly once, in whatever order, finished once at
 * the end if `finished`. */
bool symbols_is_sum_of(struct symbols *symbols, symbol value, const symbol *operands, uint32_t count, bool finished);

/** A hash of the expression itself, the same in any run. */
uint64_t symbols_hash(const struct symbols *symbols, symbol value);

/** Whether memory ran out at any time. */
bool symbols_exhausted(const struct symbols *symbols);

/**
 * Write the expression ("finished((0+1)+2)") into `text`, cut where it does not fit; returns `text`. A leaf is shown as
 * (leaf - 1) modulo `ranks`.
 */
char *symbols_text(const struct symbols *symbols, symbol value, uint32_t ranks, char *text, uint32_t size);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
#include "core/schedule/verify/internal/symbols.h"

#include "core/schedule/generators/stage.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* right SYMBOL_NONE: left, finished */
struct expression {
    symbol left, right;
};

struct symbols {
    uint32_t leaves;
    uint32_t count, capacity; /* expressions; expression i is symbol leaves + 1 + i */
    struct expression *expressions;
    uint32_t *buckets; /* open addressing; symbol or SYMBOL_NONE */
    uint32_t mask;
    uint32_t *struck, round; /* which leaves have been struck off, or not yet, in this round */
    bool exhausted;
};

struct symbols *symbols_open(uint32_t leaves)
{
    struct symbols *symbols = calloc(1, sizeof *symbols);
    if (!symbols)
        return NULL;
    symbols->leaves = leaves;
    symbols->capacity = 256;
    symbols->mask = 1023;
    symbols->expressions = malloc(symbols->capacity * sizeof *symbols->expressions);
    symbols->buckets = calloc(symbols->mask + 1, sizeof *symbols->buckets);
    if (!symbols->expressions || !symbols->buckets) {
        symbols_close(symbols);
        return NULL;
    }
    return symbols;
}

void symbols_close(struct symbols *symbols)
{
    if (!symbols)
        return;
    free(symbols->expressions);
    free(symbols->buckets);
    free(symbols->struck);
    free(symbols);
}

static const struct expression *expression_of(const struct symbols *symbols, symbol value)
{
    return value > symbols->leaves ? &symbols->expressions[value - symbols->leaves - 1] : NULL;
}

static uint64_t symbols_mix(uint64_t a, uint64_t b)
{
    uint64_t z = (a ^ (b + 0x9e3779b97f4a7c15u + (a << 6) + (a >> 2))) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
}

/* Twice the room for expressions and four buckets for each. */
static bool symbols_grow(struct symbols *symbols)
{
    uint32_t capacity = symbols->capacity * 2, mask = capacity * 4 - 1;
    struct expression *expressions = realloc(symbols->expressions, capacity * sizeof *expressions);
    if (expressions)
        symbols->expressions = expressions;
    uint32_t *buckets = calloc((size_t)mask + 1, sizeof *buckets);
    if (!expressions || !buckets) {
        free(buckets);
        symbols->exhausted = true;
        return false;
    }
    for (uint32_t i = 0; i < symbols->count; i++) {
        uint32_t at = (uint32_t)symbols_mix(expressions[i].left, expressions[i].right) & mask;
        while (buckets[at])
            at = (at + 1) & mask;
        buckets[at] = symbols->leaves + 1 + i;
    }
    free(symbols->buckets);
    symbols->buckets = buckets;
    symbols->capacity = capacity;
    symbols->mask = mask;
    return true;
}

static symbol symbols_intern(struct symbols *symbols, symbol left, symbol right)
{
    if (symbols->count == symbols->capacity && !symbols_grow(symbols))
        return SYMBOL_NONE;
    uint32_t at = (uint32_t)symbols_mix(left, right) & symbols->mask;
    for (; symbols->buckets[at]; at = (at + 1) & symbols->mask) {
        const struct expression *found = expression_of(symbols, symbols->buckets[at]);
        if (found->left == left && found->right == right)
            return symbols->buckets[at];
    }
    symbols->expressions[symbols->count] = (struct expression){left, right};
    return symbols->buckets[at] = symbols->leaves + 1 + symbols->count++;
}

symbol symbols_sum(struct symbols *symbols, symbol left, symbol right)
{
    return left && right ? symbols_intern(symbols, left, right) : SYMBOL_NONE;
}

symbol symbols_finish(struct symbols *symbols, symbol value)
{
    return value ? symbols_intern(symbols, value, SYMBOL_NONE) : SYMBOL_NONE;
}

symbol symbols_tree(struct symbols *symbols, const symbol *operands, uint32_t count)
{
    if (count <= 1)
        return count ? operands[0] : SYMBOL_NONE;
    uint32_t half = tree_split(count);
    return symbols_sum(symbols, symbols_tree(symbols, operands, half),
                       symbols_tree(symbols, operands + half, count - half));
}

/* Strike off every leaf of `value`; false when one does not belong (or no longer) or a part of the sum was finished too
 * early.
 */
static bool strike(struct symbols *symbols, symbol value, uint32_t *count)
{
    const struct expression *expression = expression_of(symbols, value);
    if (expression)
        return expression->right && strike(symbols, expression->left, count) &&
               strike(symbols, expression->right, count);
    if (!value || symbols->struck[value] != symbols->round)
        return false;
    symbols->struck[value] = 0;
    --*count;
    return true;
}

bool symbols_is_sum_of(struct symbols *symbols, symbol value, const symbol *operands, uint32_t count, bool finished)
{
    const struct expression *expression = expression_of(symbols, value);
    if (finished && (!expression || expression->right))
        return false;
    if (!symbols->struck && !(symbols->struck = calloc((size_t)symbols->leaves + 1, sizeof *symbols->struck))) {
        symbols->exhausted = true;
        return false;
    }
    symbols->round++;
    for (uint32_t i = 0; i < count; i++)
        symbols->struck[operands[i]] = symbols->round;
    return strike(symbols, finished ? expression->left : value, &count) && count == 0;
}

uint64_t symbols_hash(const struct symbols *symbols, symbol value)
{
    const struct expression *expression = expression_of(symbols, value);
    if (!expression)
        return symbols_mix(value, 1);
    return symbols_mix(symbols_hash(symbols, expression->left),
                       expression->right ? symbols_hash(symbols, expression->right) : 2);
}

bool symbols_exhausted(const struct symbols *symbols)
{
    return symbols->exhausted;
}

char *symbols_text(const struct symbols *symbols, symbol value, uint32_t ranks, char *text, uint32_t size)
{
    const struct expression *expression = expression_of(symbols, value);
    text[0] = '\0';
    if (!value) {
        snprintf(text, size, "nothing");
    } else if (!expression) {
        snprintf(text, size, "%u", (value - 1) % ranks);
    } else {
        snprintf(text, size, expression->right ? "(" : "finished");
        uint32_t used = (uint32_t)strlen(text);
        symbols_text(symbols, expression->left, ranks, text + used, size - used);
        used = (uint32_t)strlen(text);
        if (expression->right && used + 2 < size) {
            text[used++] = '+';
            symbols_text(symbols, expression->right, ranks, text + used, size - used);
            used = (uint32_t)strlen(text);
            snprintf(text + used, size - used, ")");
        }
    }
    return text;
}

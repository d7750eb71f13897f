/* SPDX-License-Identifier: Apache-2.0 */
#include "training/tensor/cpu/matmul_cast.h"

#include "training/tensor/cpu/matmul.h"
#include "training/tensor/devices.h"

#define CAST_EDGE  1024 /* most rows and columns of a block of c */
#define CAST_INNER 2048 /* most columns of a and rows of b in a block */

/* A stored matrix of activations. */
struct cast_matrix {
    const void *elements;
    size_t stride; /* from one row to the next */
};

static struct cast_matrix cast_matrix_of(const void *elements, size_t stride, size_t width)
{
    return (struct cast_matrix){.elements = elements, .stride = stride ? stride : width};
}

/* Part of the rows and columns, between a matrix and rows without gaps. */
struct cast_block {
    size_t row, rows, column, columns;
};

static void cast_read(struct cpu *cpu, const struct cast_matrix *from, const struct cast_block *block, float *to)
{
    struct device *device = &cpu->device;
    FOR_EACH_PART(part, block->rows, 1, device->threads) {
        for (size_t row = part.first; row < part.first + part.count; row++)
            cpu->kernels->from_activations(
                block->columns, activation_at(cpu, from->elements, (block->row + row) * from->stride + block->column),
                to + row * block->columns);
    }
}

static void cast_write(struct cpu *cpu, const struct cast_matrix *to, const struct cast_block *block, const float *from)
{
    struct device *device = &cpu->device;
    FOR_EACH_PART(part, block->rows, 1, device->threads) {
        for (size_t row = part.first; row < part.first + part.count; row++)
            cpu->kernels->to_activations(
                block->columns, from + row * block->columns,
                activation_at(cpu, to->elements, (block->row + row) * to->stride + block->column));
    }
}

static size_t extent_within(size_t a, size_t b)
{
    return a < b ? a : b;
}

/* The block of an operand whose rows, after transposition, are `rows` and whose columns are `columns`. */
static struct cast_block block_of(bool transposed, size_t row, size_t rows, size_t column, size_t columns)
{
    return transposed ? (struct cast_block){column, columns, row, rows}
                      : (struct cast_block){row, rows, column, columns};
}

/* Scratch of a block. */
struct cast_scratch {
    float *a, *b, *c;
};

/* One block of c: its inner sum, block by block. */
static void multiply_block(struct cpu *cpu, const struct matmul *whole, const struct cast_block *block,
                           const struct cast_scratch *scratch)
{
    const struct cast_matrix a = cast_matrix_of(whole->a, whole->stride_a,
                                                whole->transpose_a ? whole->rows : whole->inner),
                             b = cast_matrix_of(whole->b, whole->stride_b,
                                                whole->transpose_b ? whole->inner : whole->columns),
                             c = cast_matrix_of(whole->c, whole->stride_c, whole->columns);
    if (!whole->wide && whole->accumulate)
        cast_read(cpu, &c, block, scratch->c);
    for (size_t first = 0; first < whole->inner && cpu->failure.status == WEFT_OK; first += CAST_INNER) {
        const size_t inner = extent_within(whole->inner - first, CAST_INNER);
        const struct cast_block of_a = block_of(whole->transpose_a, block->row, block->rows, first, inner),
                                of_b = block_of(whole->transpose_b, first, inner, block->column, block->columns);
        cast_read(cpu, &a, &of_a, scratch->a);
        cast_read(cpu, &b, &of_b, scratch->b);
        cpu_matmuls_run(
            cpu->matmuls,
            &(struct matmul){.rows = block->rows,
                             .columns = block->columns,
                             .inner = inner,
                             .transpose_a = whole->transpose_a,
                             .transpose_b = whole->transpose_b,
                             .accumulate = whole->accumulate || first > 0,
                             .wide = true,
                             .a = scratch->a,
                             .b = scratch->b,
                             .bias = whole->bias && !first ? (const float *)whole->bias + block->column : NULL,
                             .c = whole->wide ? (float *)whole->c + block->row * c.stride + block->column : scratch->c,
                             .stride_c = whole->wide ? c.stride : 0},
            &cpu->failure);
    }
    if (!whole->wide)
        cast_write(cpu, &c, block, scratch->c);
}

size_t cpu_cast_bytes(size_t rows, size_t columns, size_t inner)
{
    rows = extent_within(rows, CAST_EDGE);
    columns = extent_within(columns, CAST_EDGE);
    inner = extent_within(inner, CAST_INNER);
    return (rows * inner + inner * columns + rows * columns) * sizeof(float);
}

void cpu_matmul_cast(struct cpu *cpu, const struct matmul *arguments)
{
    const size_t rows = extent_within(arguments->rows, CAST_EDGE),
                 columns = extent_within(arguments->columns, CAST_EDGE),
                 inner = extent_within(arguments->inner, CAST_INNER);
    size_t stride;
    float *memory = scratch_reserve(cpu, 1, rows * inner + inner * columns + rows * columns, &stride);
    if (!memory)
        return;
    const struct cast_scratch scratch = {
        .a = memory, .b = memory + rows * inner, .c = memory + rows * inner + inner * columns};
    for (size_t row = 0; row < arguments->rows; row += CAST_EDGE)
        for (size_t column = 0; column < arguments->columns; column += CAST_EDGE) {
            const struct cast_block block = {.row = row,
                                             .rows = extent_within(arguments->rows - row, CAST_EDGE),
                                             .column = column,
                                             .columns = extent_within(arguments->columns - column, CAST_EDGE)};
            multiply_block(cpu, arguments, &block, &scratch);
        }
}

/* SPDX-License-Identifier: Apache-2.0 */
/* Named operations of every kind give the right results: types, scales, groups, rows that differ between ranks, Adasum. */
#include "negotiation_support.h"

#include <math.h>
#include <stdarg.h>

#include <setjmp.h>

#include <cmocka.h>

/* ---- all-reduces ---- */

static double combined(weft_op_kind op, int ranks, double prescale, double postscale, double base)
{
    double result = base * prescale;
    for (int r = 1; r < ranks; r++) {
        const double value = (base + r) * prescale;
        result = op == WEFT_OP_PRODUCT ? result * value
                 : op == WEFT_OP_MIN   ? fmin(result, value)
                 : op == WEFT_OP_MAX   ? fmax(result, value)
                                       : result + value;
    }
    return (op == WEFT_OP_AVERAGE ? result / ranks : result) * postscale;
}

static int reduce_all(weft_context *context, int rank, void *argument)
{
    weft_negotiator *negotiator;
    const int ranks = weft_comm_size(weft_world(context));
    const weft_op_kind ops[] = {WEFT_OP_SUM, WEFT_OP_AVERAGE, WEFT_OP_PRODUCT, WEFT_OP_MIN, WEFT_OP_MAX};
    CHECK(weft_negotiator_open(weft_world(context), NULL, &negotiator) == WEFT_OK);
    for (int o = 0; o < 5; o++)
        for (int scaled = 0; scaled < 2; scaled++)
            for (int place = 0; place < 2; place++) {
                double inputs[15], output[15];
                int64_t numbers[15];
                const int64_t shape[] = {3, 5}, none[] = {0, 5};
                for (int e = 0; e < 15; e++) {
                    inputs[e] = e + rank;
                    numbers[e] = e + rank;
                }
                const double prescale = scaled ? 2 : 1, postscale = scaled ? 0.5 : 1;
                const weft_tensor tensors[] = {{inputs, place ? inputs : output, WEFT_F64, 2, shape},
                                               {numbers, numbers, WEFT_I64, 2, shape},
                                               {NULL, NULL, WEFT_F64, 2, none}};
                const weft_named_call call = {.kind = WEFT_NAMED_ALLREDUCE,
                                              .name = "group",
                                              .tensors = tensors,
                                              .count = 3,
                                              .op = ops[o],
                                              .prescale = prescale,
                                              .postscale = postscale,
                                              .waits = true};
                weft_operation *operation;
                CHECK(weft_operation_submit(negotiator, &call, &operation) == WEFT_OK);
                CHECK(finish(operation) == WEFT_OK);
                for (int e = 0; e < 15; e++) {
                    const double right = combined(ops[o], ranks, prescale, postscale, e);
                    CHECK(fabs((place ? inputs : output)[e] - right) <= 1e-12 * (1 + fabs(right)));
                    CHECK(scaled || numbers[e] == (int64_t)right);
                }
            }
    CHECK(weft_negotiator_close(negotiator) == WEFT_OK);
    return 0;
}

/* Groups without elements, first of all, when nothing has made room for joined tensors. */
static int reduce_nothing(weft_context *context, int rank, void *argument)
{
    weft_negotiator *negotiator;
    const int64_t none[] = {0, 2};
    const weft_tensor tensors[] = {{NULL, NULL, WEFT_F32, 2, none}, {NULL, NULL, WEFT_F32, 2, none}};
    const weft_named_kind kinds[] = {WEFT_NAMED_ALLREDUCE, WEFT_NAMED_REDUCE_SCATTER};
    CHECK(weft_negotiator_open(weft_world(context), NULL, &negotiator) == WEFT_OK);
    for (int k = 0; k < 2; k++) {
        const weft_named_call call = {
            .kind = kinds[k], .name = "nothing", .tensors = tensors, .count = 2, .prescale = 2, .postscale = 1};
        weft_operation *operation;
        CHECK(weft_operation_submit(negotiator, &call, &operation) == WEFT_OK);
        CHECK(finish(operation) == WEFT_OK);
    }
    CHECK(weft_negotiator_close(negotiator) == WEFT_OK);
    return 0;
}

static void test_nothing(void **state)
{
    assert_int_equal(world_run(&(struct world){.ranks = 3}, reduce_nothing, NULL), 0);
}

/* ---- rows ---- */

static int gather_rows(weft_context *context, int rank, void *argument)
{
    weft_negotiator *negotiator;
    const int ranks = weft_comm_size(weft_world(context));
    CHECK(weft_negotiator_open(weft_world(context), NULL, &negotiator) == WEFT_OK);
    for (int round = 0; round < 4; round++) {
        int32_t first[3 * 8], second[8];
        const int64_t first_shape[] = {(rank + round) % 8, 3}, second_shape[] = {rank == 1 ? 0 : 2};
        for (int e = 0; e < 24; e++)
            first[e] = rank * 100 + e;
        second[0] = second[1] = rank;
        const weft_tensor tensors[] = {{first, NULL, WEFT_I32, 2, first_shape},
                                       {second, NULL, WEFT_I32, 1, second_shape}};
        const weft_named_call call = {.kind = WEFT_NAMED_ALLGATHER,
                                      .name = "rows",
                                      .tensors = tensors,
                                      .count = 2,
                                      .prescale = 1,
                                      .postscale = 1};
        weft_operation *operation;
        const int64_t *rows;
        const void *data;
        CHECK(weft_operation_submit(negotiator, &call, &operation) == WEFT_OK);
        CHECK(weft_operation_wait(operation) == WEFT_OK);
        CHECK(weft_operation_result(operation, 0, &rows, &data) == WEFT_OK);
        const int32_t *values = data;
        for (int r = 0; r < ranks; r++) {
            CHECK(rows[r] == (r + round) % 8);
            for (int64_t e = 0; e < rows[r] * 3; e++)
                CHECK(*values++ == r * 100 + e);
        }
        CHECK(weft_operation_result(operation, 1, &rows, &data) == WEFT_OK);
        values = data;
        for (int r = 0; r < ranks; r++)
            for (int64_t e = 0; e < rows[r]; e++)
                CHECK(*values++ == r);
        CHECK(weft_operation_result(operation, 2, &rows, &data) == WEFT_ERROR_ARGUMENT);
        weft_operation_free(operation);
    }
    CHECK(weft_negotiator_close(negotiator) == WEFT_OK);
    return 0;
}

static int exchange_rows(weft_context *context, int rank, void *argument)
{
    weft_negotiator *negotiator;
    const int ranks = weft_comm_size(weft_world(context));
    CHECK(weft_negotiator_open(weft_world(context), NULL, &negotiator) == WEFT_OK);
    for (int round = 0; round < 3; round++) {
        int64_t splits[8], shape[] = {0, 2};
        float values[200];
        for (int r = 0; r < ranks; r++)
            shape[0] += splits[r] = round == 2 ? 1 : (rank + r + round) % 3;
        int place = 0;
        for (int r = 0; r < ranks; r++)
            for (int64_t e = 0; e < splits[r] * 2; e++)
                values[place++] = (float)(rank * 10 + r);
        const weft_tensor tensor = {values, NULL, WEFT_F32, 2, shape};
        const weft_named_call call = {.kind = WEFT_NAMED_ALLTOALL,
                                      .name = "exchange",
                                      .tensors = &tensor,
                                      .count = 1,
                                      .prescale = 1,
                                      .postscale = 1,
                                      .splits = round == 2 ? NULL : splits};
        weft_operation *operation;
        const int64_t *rows;
        const void *data;
        CHECK(weft_operation_submit(negotiator, &call, &operation) == WEFT_OK);
        CHECK(weft_operation_wait(operation) == WEFT_OK);
        CHECK(weft_operation_result(operation, 0, &rows, &data) == WEFT_OK);
        const float *received = data;
        for (int r = 0; r < ranks; r++) {
            CHECK(rows[r] == (round == 2 ? 1 : (rank + r + round) % 3));
            for (int64_t e = 0; e < rows[r] * 2; e++)
                CHECK(*received++ == (float)(r * 10 + rank));
        }
        weft_operation_free(operation);
    }
    CHECK(weft_negotiator_close(negotiator) == WEFT_OK);
    return 0;
}

static int scatter_rows(weft_context *context, int rank, void *argument)
{
    weft_negotiator *negotiator;
    const int ranks = weft_comm_size(weft_world(context));
    CHECK(weft_negotiator_open(weft_world(context), NULL, &negotiator) == WEFT_OK);
    for (int64_t rows = 0; rows < 12; rows++)
        for (int scaled = 0; scaled < 2; scaled++) {
            float input[24], output[24];
            const int64_t shape[] = {rows, 2};
            for (int e = 0; e < 24; e++)
                input[e] = (float)(e + rank);
            const weft_tensor tensor = {rows ? input : NULL, rows > rank ? output : NULL, WEFT_F32, 2, shape};
            const weft_named_call call = {.kind = WEFT_NAMED_REDUCE_SCATTER,
                                          .name = "scatter",
                                          .tensors = &tensor,
                                          .count = 1,
                                          .op = WEFT_OP_SUM,
                                          .prescale = scaled ? 2 : 1,
                                          .postscale = scaled ? 3 : 1};
            weft_operation *operation;
            CHECK(weft_operation_submit(negotiator, &call, &operation) == WEFT_OK);
            CHECK(finish(operation) == WEFT_OK);
            int64_t first = 0;
            for (int r = 0; r < rank; r++)
                first += rows / ranks + (r < rows % ranks);
            for (int64_t e = 0; e < (rows / ranks + (rank < rows % ranks)) * 2; e++)
                CHECK(output[e] == (float)((first * 2 + e) * ranks + ranks * (ranks - 1) / 2) * (scaled ? 6.0f : 1.0f));
        }
    CHECK(weft_negotiator_close(negotiator) == WEFT_OK);
    return 0;
}

static int broadcast_all(weft_context *context, int rank, void *argument)
{
    weft_negotiator *negotiator;
    const int ranks = weft_comm_size(weft_world(context));
    CHECK(weft_negotiator_open(weft_world(context), NULL, &negotiator) == WEFT_OK);
    for (int root = 0; root < ranks; root++) {
        uint8_t input[5], output[5] = {0};
        const int64_t shape[] = {5};
        memset(input, 10 + rank, sizeof input);
        const weft_tensor tensor = {input, output, WEFT_U8, 1, shape};
        const weft_named_call call = {.kind = WEFT_NAMED_BROADCAST,
                                      .name = "start",
                                      .tensors = &tensor,
                                      .count = 1,
                                      .root = root,
                                      .prescale = 1,
                                      .postscale = 1};
        weft_operation *operation;
        CHECK(weft_operation_submit(negotiator, &call, &operation) == WEFT_OK);
        CHECK(finish(operation) == WEFT_OK);
        CHECK(output[0] == 10 + root && output[4] == 10 + root && input[0] == 10 + rank);
        CHECK(finish(submit_empty(negotiator, WEFT_NAMED_BARRIER, "barrier")) == WEFT_OK);
    }
    CHECK(weft_negotiator_close(negotiator) == WEFT_OK);
    return 0;
}

/* ---- Adasum ---- */

static void pair_combine(double *a, const double *b, int count)
{
    double product = 0, first = 0, second = 0;
    for (int e = 0; e < count; e++) {
        product += a[e] * b[e];
        first += a[e] * a[e];
        second += b[e] * b[e];
    }
    for (int e = 0; e < count; e++)
        a[e] =
            (first > 0 ? 1 - product / (2 * first) : 1) * a[e] + (second > 0 ? 1 - product / (2 * second) : 1) * b[e];
}

static double adasum_value(int rank, int element)
{
    return rank == 2 ? 0 : sin(rank * 31 + element);
}

static int adasum_all(weft_context *context, int rank, void *argument)
{
    weft_negotiator *negotiator;
    const int ranks = weft_comm_size(weft_world(context));
    const int64_t count = 33;
    double vectors[4][33], wide[33];
    float narrow[33];
    CHECK(weft_negotiator_open(weft_world(context), NULL, &negotiator) == WEFT_OK);
    for (int e = 0; e < count; e++) {
        for (int r = 0; r < ranks; r++)
            vectors[r][e] = adasum_value(r, e);
        wide[e] = adasum_value(rank, e);
        narrow[e] = (float)wide[e];
    }
    for (int distance = 1; distance < ranks; distance *= 2)
        for (int r = 0; r + distance < ranks; r += 2 * distance)
            pair_combine(vectors[r], vectors[r + distance], (int)count);
    CHECK(finish(submit_one(negotiator, WEFT_NAMED_ADASUM, "wide", wide, wide, WEFT_F64, 1, &count, WEFT_OP_SUM)) ==
          WEFT_OK);
    CHECK(finish(submit_one(negotiator, WEFT_NAMED_ADASUM, "narrow", narrow, narrow, WEFT_F32, 1, &count,
                            WEFT_OP_SUM)) == WEFT_OK);
    for (int e = 0; e < count; e++)
        CHECK(fabs(wide[e] - vectors[0][e]) < 1e-13 && fabs(narrow[e] - vectors[0][e]) < 1e-5);
    const weft_tensor tensor = {narrow, narrow, WEFT_F32, 1, &count};
    const weft_named_call scaled = {
        .kind = WEFT_NAMED_ADASUM, .name = "scaled", .tensors = &tensor, .count = 1, .prescale = 2, .postscale = 0.5};
    weft_operation *operation;
    CHECK(weft_operation_submit(negotiator, &scaled, &operation) == WEFT_OK && finish(operation) == WEFT_OK);
    for (int e = 0; e < count; e++) /* all ranks have the same vector, whose Adasum it is */
        CHECK(fabs(narrow[e] - vectors[0][e]) < 1e-5);
    CHECK(weft_negotiator_close(negotiator) == WEFT_OK);
    return 0;
}

static void run_with(world_body body, int least, int most)
{
    for (int ranks = least; ranks <= most; ranks++)
        assert_int_equal(world_run(&(struct world){.ranks = ranks}, body, NULL), 0);
}

static void test_reductions(void **state)
{
    run_with(reduce_all, 1, 4);
}

static void test_gathers(void **state)
{
    run_with(gather_rows, 1, 4);
}

static void test_exchanges(void **state)
{
    run_with(exchange_rows, 1, 4);
}

static void test_scatters(void **state)
{
    run_with(scatter_rows, 1, 4);
}

static void test_broadcasts(void **state)
{
    run_with(broadcast_all, 1, 3);
}

static void test_adasum(void **state)
{
    run_with(adasum_all, 1, 2);
    run_with(adasum_all, 4, 4);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_nothing),   cmocka_unit_test(test_reductions), cmocka_unit_test(test_gathers),
        cmocka_unit_test(test_exchanges), cmocka_unit_test(test_scatters),   cmocka_unit_test(test_broadcasts),
        cmocka_unit_test(test_adasum),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

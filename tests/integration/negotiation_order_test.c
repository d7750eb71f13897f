/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Ranks submit named operations in different orders, from several threads, with sizes that change: all of them run, with
 * the right results, whatever ranks remember of earlier rounds.
 */
#include "negotiation_support.h"

#include <stdarg.h>

#include <setjmp.h>

#include <cmocka.h>

#define NAMES  24
#define ROUNDS 12

struct options {
    int cache;
    uint64_t fusion;
};

/* The elements of operation `name` in `round`: most keep their size, some change it. */
static int64_t size_of(int name, int round)
{
    const int64_t sizes[] = {1, 3, 17, 1000, 4096, 20000};
    const int64_t size = sizes[name % 6];
    return name % 5 == 4 ? size + round / 4 : size;
}

static void shuffle(int *order, uint64_t seed)
{
    for (int i = 0; i < NAMES; i++)
        order[i] = i;
    for (int i = NAMES - 1; i > 0; i--) {
        const int other = (int)(next_number(&seed) % (uint32_t)(i + 1)), kept = order[i];
        order[i] = order[other];
        order[other] = kept;
    }
}

static int run_rounds(weft_context *context, int rank, void *argument)
{
    const struct options *options = argument;
    const int ranks = weft_comm_size(weft_world(context));
    weft_negotiator_config config = WEFT_NEGOTIATOR_CONFIG_DEFAULT;
    weft_negotiator *negotiator;
    config.cache_operations = options->cache;
    config.fusion_bytes = options->fusion;
    CHECK(weft_negotiator_open(weft_world(context), &config, &negotiator) == WEFT_OK);
    for (int round = 0; round < ROUNDS; round++) {
        int order[NAMES];
        float *values[NAMES];
        weft_operation *operations[NAMES];
        shuffle(order, (uint64_t)(round * 100 + (round % 3 ? rank : 0) + 1));
        for (int i = 0; i < NAMES; i++) {
            const int name = order[i];
            const int64_t size = size_of(name, round);
            char text[32];
            snprintf(text, sizeof text, "layer%d.weight", name);
            values[name] = malloc((size_t)size * sizeof(float));
            for (int64_t e = 0; e < size; e++)
                values[name][e] = (float)(rank + 1) * (float)(name + e % 7 + round);
            CHECK((operations[name] = submit_sum(negotiator, text, values[name], size)) != NULL);
        }
        for (int i = NAMES - 1; i >= 0; i--) {
            const int name = order[i];
            CHECK(finish(operations[name]) == WEFT_OK);
            for (int64_t e = 0; e < size_of(name, round); e++)
                CHECK(values[name][e] == (float)(ranks * (ranks + 1) / 2) * (float)(name + e % 7 + round));
            free(values[name]);
        }
    }
    CHECK(weft_negotiator_close(negotiator) == WEFT_OK);
    return 0;
}

static void test_orders(void **state)
{
    const struct options options[] = {{0, 0}, {7, 0}, {-1, 0}, {0, 1}, {0, 5000}};
    for (size_t i = 0; i < sizeof options / sizeof *options; i++)
        for (int ranks = 1; ranks <= 5; ranks++) {
            struct options option = options[i];
            assert_int_equal(world_run(&(struct world){.ranks = ranks}, run_rounds, &option), 0);
        }
}

static void test_orders_over_network(void **state)
{
    struct options option = {0};
    assert_int_equal(world_run(&(struct world){.ranks = 4, .ranks_per_node = 2}, run_rounds, &option), 0);
}

/* ---- several threads of a rank ---- */

struct submitter {
    weft_negotiator *negotiator;
    int rank, ranks, number, wrong;
};

static void *submit_all(void *argument)
{
    struct submitter *self = argument;
    for (int round = 0; round < 100; round++) {
        char name[32];
        float value = (float)(self->rank + round);
        snprintf(name, sizeof name, "thread%d.%d", self->number, round % 9);
        weft_operation *operation = submit_sum(self->negotiator, name, &value, 1);
        if (!operation || finish(operation) != WEFT_OK ||
            value != (float)(self->ranks * (self->ranks - 1) / 2 + self->ranks * round))
            self->wrong++;
    }
    return NULL;
}

static int run_threads(weft_context *context, int rank, void *argument)
{
    weft_negotiator *negotiator;
    pthread_t threads[4];
    struct submitter submitters[4];
    CHECK(weft_negotiator_open(weft_world(context), NULL, &negotiator) == WEFT_OK);
    for (int t = 0; t < 4; t++) {
        submitters[t] = (struct submitter){negotiator, rank, weft_comm_size(weft_world(context)), t, 0};
        CHECK(pthread_create(&threads[t], NULL, submit_all, &submitters[t]) == 0);
    }
    for (int t = 0; t < 4; t++) {
        pthread_join(threads[t], NULL);
        CHECK(submitters[t].wrong == 0);
    }
    CHECK(weft_negotiator_close(negotiator) == WEFT_OK);
    return 0;
}

static void test_threads(void **state)
{
    assert_int_equal(world_run(&(struct world){.ranks = 3}, run_threads, NULL), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_orders),
        cmocka_unit_test(test_orders_over_network),
        cmocka_unit_test(test_threads),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

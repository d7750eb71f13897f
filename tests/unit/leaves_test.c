/* SPDX-License-Identifier: Apache-2.0 */
/* Which nodes share a leaf follows from what their pairs measured, and nothing follows from noise. */
#include "base/random.h"
#include "core/topology/leaves.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#define MOST 64

static void everybody_meets_everybody_once(void **state)
{
    for (uint32_t nodes = 2; nodes <= MOST; nodes++) {
        bool met[MOST][MOST] = {{false}};
        for (uint32_t round = 0; round < leaves_rounds(nodes); round++)
            for (uint32_t node = 0; node < nodes; node++) {
                uint32_t partner = leaves_partner(nodes, round, node);
                assert_true(partner < nodes);
                assert_true(leaves_partner(nodes, round, partner) == node);
                assert_false(met[node][partner] && node != partner);
                met[node][partner] = true;
            }
        for (uint32_t a = 0; a < nodes; a++)
            for (uint32_t b = 0; b < nodes; b++)
                assert_true(a == b || met[a][b]);
        assert_true(leaves_rounds(nodes) <= nodes);
    }
}

/* Pairs within a leaf have `rate` and `latency`, others `factor` of it, each with up to `noise` of error. */
static struct leaves_measured measure(uint32_t nodes, const uint32_t *leaf, double rate_factor, double latency_factor,
                                      double noise, uint64_t seed, struct link_cost *costs)
{
    uint64_t index = 0;
    for (uint32_t a = 0; a < nodes; a++)
        for (uint32_t b = a + 1; b < nodes; b++) {
            bool near = leaf[a] == leaf[b];
            double r = 1 - noise * random_uniform(seed, index), l = 1 + noise * random_uniform(seed, index + 1);
            index += 2;
            costs[a * nodes + b] = (struct link_cost){.latency = 5e-6 * l * (near ? 1 : latency_factor),
                                                      .overhead = 1e-6,
                                                      .bytes_per_second = 1e9 * r * (near ? 1 : rate_factor)};
        }
    return (struct leaves_measured){nodes, costs};
}

static void slower_links_tell_leaves_apart(void **state)
{
    static struct link_cost costs[MOST * MOST];
    static const uint32_t pairs[4] = {0, 0, 1, 1}, crossed[6] = {0, 1, 0, 1, 0, 1}, odd[4] = {0, 1, 1, 1},
                          four[8] = {0, 0, 1, 1, 2, 2, 3, 3};
    static const struct {
        const uint32_t *leaf;
        uint32_t nodes, leaves;
    } cases[] = {{pairs, 4, 2}, {crossed, 6, 2}, {odd, 4, 2}, {four, 8, 4}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        for (uint64_t seed = 0; seed < 50; seed++) {
            uint32_t found[8];
            struct leaves_measured measured =
                measure(cases[i].nodes, cases[i].leaf, 0.5, 1, 0.15, seed, costs); /* by bandwidth */
            assert_int_equal(leaves_infer(&measured, found), cases[i].leaves);
            assert_memory_equal(found, cases[i].leaf, cases[i].nodes * sizeof *found);
            measured = measure(cases[i].nodes, cases[i].leaf, 1, 3, 0.15, seed, costs); /* by latency */
            assert_int_equal(leaves_infer(&measured, found), cases[i].leaves);
            assert_memory_equal(found, cases[i].leaf, cases[i].nodes * sizeof *found);
        }
    }
}

/* Load slows some pairs of every pass; once a pair stands still, and the other one has the uplink for itself. */
static void repeated_measurements_are_combined(void **state)
{
    static const uint32_t leaf[4] = {0, 0, 1, 1};
    static struct link_cost quiet[16], costs[16], best[16];
    measure(4, leaf, 0.5, 1, 0, 0, quiet);
    for (uint32_t round = 0; round < leaves_rounds(4); round++) {
        measure(4, leaf, 0.5, 1, 0, 0, costs);
        for (uint32_t node = 0; node < 4; node++)
            for (uint32_t other = 0; other < leaves_rounds(4); other++) {
                uint32_t partner = leaves_partner(4, other, node);
                if (other == round)
                    continue;
                costs[node * 4 + partner].bytes_per_second /= 3;
                costs[node * 4 + partner].latency *= 2;
            }
        leaves_combine(&(struct leaves_measured){4, costs}, best);
    }
    measure(4, leaf, 0.5, 1, 0, 0, costs);
    costs[0 * 4 + 2].bytes_per_second = 1e9;
    costs[1 * 4 + 3].bytes_per_second = 1e6;
    leaves_combine(&(struct leaves_measured){4, costs}, best);
    for (uint32_t a = 0; a < 4; a++)
        for (uint32_t b = a + 1; b < 4; b++) {
            assert_true(best[a * 4 + b].bytes_per_second == quiet[a * 4 + b].bytes_per_second);
            assert_true(best[a * 4 + b].latency == quiet[a * 4 + b].latency);
        }
}

static void noise_makes_no_leaves(void **state)
{
    static struct link_cost costs[MOST * MOST];
    static const uint32_t flat[16] = {0};
    for (uint64_t seed = 0; seed < 500; seed++) {
        uint32_t nodes = 3 + (uint32_t)(seed % 14), found[16];
        struct leaves_measured measured = measure(nodes, flat, 1, 1, 0.25, seed, costs);
        assert_int_equal(leaves_infer(&measured, found), 1);
        for (uint32_t node = 0; node < nodes; node++)
            assert_int_equal(found[node], 0);
    }
    /* One pair that was disturbed, however much, does not either. */
    for (uint32_t nodes = 4; nodes < 16; nodes++) {
        uint32_t found[16];
        struct leaves_measured measured = measure(nodes, flat, 1, 1, 0.1, nodes, costs);
        costs[1 * nodes + 2].bytes_per_second /= 10;
        assert_int_equal(leaves_infer(&measured, found), 1);
        measured = measure(nodes, flat, 1, 1, 0.1, nodes, costs);
        costs[0 * nodes + 1].bytes_per_second *= 10;
        assert_int_equal(leaves_infer(&measured, found), 1);
    }
}

static void an_uplink_is_what_its_nodes_fill_together(void **state)
{
    static struct link_cost costs[MOST * MOST];
    static const uint32_t leaf[8] = {0, 0, 0, 0, 1, 1, 1, 1};
    struct leaves_measured measured = measure(8, leaf, 0.25, 2, 0, 1, costs);
    struct link_cost within = {0}, between = {0};
    leaves_costs(&measured, leaf, 2, &within, &between);
    assert_true(within.bytes_per_second == 1e9 && within.latency == 5e-6);
    assert_true(between.bytes_per_second == 1e9 && between.latency == 1e-5); /* four nodes, a quarter each */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(everybody_meets_everybody_once),
        cmocka_unit_test(slower_links_tell_leaves_apart),
        cmocka_unit_test(repeated_measurements_are_combined),
        cmocka_unit_test(noise_makes_no_leaves),
        cmocka_unit_test(an_uplink_is_what_its_nodes_fill_together),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

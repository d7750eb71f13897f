/* SPDX-License-Identifier: Apache-2.0 */
/* Drawing tokens: the distribution, its filters up to their edges, and logits that are not numbers. */
#include "training/model/sample.h"

#include "tensor_support.h"

#define VOCABULARY 200

static double scratch[2 * VOCABULARY];

static int32_t draw(const double *logits, size_t count, const struct sample_options *options, uint64_t index)
{
    int32_t token = -1;
    struct error error = {0};
    if (sample_draw(logits, count, options, index, scratch, &token, &error) != WEFT_OK)
        fail_msg("%s", error.text);
    assert_true(token >= 0 && (size_t)token < count);
    return token;
}

static void draws_follow_the_distribution(void **state)
{
    static const double logits[] = {0, 1, 2, -INFINITY};
    const double temperatures[] = {0.5, 1, 3};
    for (size_t t = 0; t < 3; t++) {
        const struct sample_options options = {.temperature = temperatures[t], .seed = 3};
        double counts[4] = {0}, total = 0;
        for (uint64_t i = 0; i < 20000; i++)
            counts[draw(logits, 4, &options, i)] += 1.0 / 20000;
        for (size_t i = 0; i < 4; i++)
            total += exp(logits[i] / temperatures[t]);
        for (size_t i = 0; i < 4; i++)
            assert_true(fabs(counts[i] - exp(logits[i] / temperatures[t]) / total) < 0.02);
        assert_true(counts[3] == 0);
    }
}

/* ---- filters, against the definition ---- */

struct ranked {
    double logit;
    int32_t token;
};

static int compare_ranked(const void *a, const void *b)
{
    const struct ranked *x = a, *y = b;
    if (x->logit != y->logit)
        return x->logit < y->logit ? 1 : -1;
    return (x->token > y->token) - (x->token < y->token);
}

/* Which tokens may be drawn, by sorting them all. Returns how many. */
static size_t allow(const double *logits, size_t count, const struct sample_options *options, bool *allowed)
{
    struct ranked ranked[VOCABULARY];
    double total = 0, sum = 0;
    for (size_t i = 0; i < count; i++)
        ranked[i] = (struct ranked){logits[i], (int32_t)i};
    qsort(ranked, count, sizeof *ranked, compare_ranked);
    size_t most = options->top_k && options->top_k < count ? options->top_k : count, kept = 0;
    for (size_t i = 0; i < most; i++)
        total += exp((ranked[i].logit - ranked[0].logit) / options->temperature);
    const double share = options->top_p > 0 && options->top_p < 1 ? options->top_p : 2;
    memset(allowed, 0, count * sizeof *allowed);
    while (kept < most && sum < share * total) {
        sum += exp((ranked[kept].logit - ranked[0].logit) / options->temperature);
        allowed[ranked[kept++].token] = true;
    }
    return kept;
}

/* Whatever the logits, ties among them, and filters: each drawn token is allowed, and each allowed one is drawn. */
static void filters_keep_what_they_are_defined_to_keep(void **state)
{
    size_t all_drawn = 0;
    for (uint64_t round = 0; round < 400; round++) {
        const uint64_t seed = 1000 + round;
        const size_t count = 1 + random_below(seed, 0, VOCABULARY);
        double logits[VOCABULARY];
        bool allowed[VOCABULARY], drawn[VOCABULARY] = {0};
        for (size_t i = 0; i < count; i++) /* quarters, so that many are equal */
            logits[i] = floor(4 * random_normal(seed, 10 + i)) / 4;
        const struct sample_options options = {
            .temperature = 0.25 + 4 * random_uniform(seed, 1),
            .top_k = random_below(seed, 2, 3) ? 1 + random_below(seed, 3, 20) : 0,
            .top_p = random_below(seed, 4, 3) ? random_uniform(seed, 5) + 1e-9 : 0,
            .seed = seed,
        };
        size_t kept = allow(logits, count, &options, allowed), found = 0;
        assert_true(kept >= 1);
        for (uint64_t i = 0; i < 1000; i++) {
            const int32_t token = draw(logits, count, &options, i);
            if (!allowed[token])
                fail_msg("round %d: token %d of %zu, with %zu kept by top_k %zu, top_p %g", (int)round, (int)token,
                         count, kept, options.top_k, options.top_p);
            found += !drawn[token];
            drawn[token] = true;
        }
        all_drawn += found == kept;
    }
    assert_true(all_drawn > 100);
}

static void filters_that_keep_all_change_nothing(void **state)
{
    double logits[VOCABULARY];
    for (size_t i = 0; i < VOCABULARY; i++)
        logits[i] = random_normal(7, i);
    const struct sample_options plain = {.temperature = 1.3, .seed = 9};
    const struct {
        size_t top_k;
        double top_p;
    } filters[] = {{0, 1}, {VOCABULARY, 0}, {VOCABULARY + 1, 1}, {SIZE_MAX, 1}, {0, 1 - 1e-16}};
    for (size_t f = 0; f < sizeof filters / sizeof *filters; f++) {
        struct sample_options options = plain;
        options.top_k = filters[f].top_k;
        options.top_p = filters[f].top_p;
        for (uint64_t i = 0; i < 500; i++)
            assert_int_equal(draw(logits, VOCABULARY, &options, i), draw(logits, VOCABULARY, &plain, i));
    }
}

/* Of equal logits the lower token is the likelier one. */
static void the_narrowest_filters_leave_the_likeliest_token(void **state)
{
    static const double logits[] = {1, 3, 3, 2};
    const struct sample_options narrow[] = {
        {.temperature = 0},
        {.temperature = 1e-300},
        {.temperature = 1, .top_k = 1},
        {.temperature = 100, .top_p = 1e-9},
        {.temperature = 100, .top_p = 5e-324},
        {.temperature = 5, .top_k = 3, .top_p = 0.01},
    };
    for (size_t n = 0; n < sizeof narrow / sizeof *narrow; n++)
        for (uint64_t i = 0; i < 100; i++) {
            const int32_t token = draw(logits, 4, &narrow[n], i);
            assert_true(token == 1 || (n == 1 && token == 2)); /* in the limit both of them are left */
        }
    assert_int_equal(draw(&(double){-1e300}, 1, &(struct sample_options){.temperature = 1}, 0), 0);
    const double far[] = {-1e308, 1e308, 0};
    for (uint64_t i = 0; i < 100; i++)
        assert_int_equal(draw(far, 3, &(struct sample_options){.temperature = 1, .top_p = 0.9}, i), 1);
}

static void a_draw_is_a_function_of_seed_and_number(void **state)
{
    double logits[VOCABULARY] = {0};
    struct sample_options options = {.temperature = 1, .top_p = 0.9, .seed = 5};
    size_t by_number = 0, by_seed = 0;
    for (uint64_t i = 0; i < 100; i++) {
        const int32_t token = draw(logits, VOCABULARY, &options, i);
        assert_int_equal(draw(logits, VOCABULARY, &options, i), token);
        by_number += draw(logits, VOCABULARY, &options, i | (uint64_t)1 << 32) != token;
        options.seed = 6;
        by_seed += draw(logits, VOCABULARY, &options, i) != token;
        options.seed = 5;
    }
    assert_true(by_number > 80 && by_seed > 80);
}

/* ---- logits that are not numbers ---- */

static void logits_that_are_not_numbers_are_told(void **state)
{
    const double kinds[] = {NAN, -NAN, INFINITY};
    const double temperatures[] = {0, 1};
    for (size_t k = 0; k < 3; k++)
        for (size_t t = 0; t < 2; t++)
            for (size_t place = 0; place < 4; place++) {
                double logits[] = {0, 1, -INFINITY, 2};
                struct error error = {0};
                int32_t token = 77;
                logits[place] = kinds[k];
                const struct sample_options options = {.temperature = temperatures[t], .top_k = 2};
                assert_int_equal(sample_draw(logits, 4, &options, 0, scratch, &token, &error), WEFT_ERROR_DATA);
                assert_int_equal(token, 77);
                char wanted[32];
                snprintf(wanted, sizeof wanted, "token %zu a logit of %s", place, k < 2 ? "nan" : "inf");
                assert_non_null(strstr(error.text, wanted));
            }
    const double none[] = {-INFINITY, -INFINITY};
    int32_t token = 77;
    assert_int_equal(sample_draw(none, 2, &(struct sample_options){.temperature = 1}, 0, scratch, &token, NULL),
                     WEFT_ERROR_DATA);
    assert_int_equal(token, 77);
    const double some[] = {-INFINITY, 0, -INFINITY};
    const struct sample_options wide = {.temperature = 100, .top_k = 3, .top_p = 0.999};
    for (uint64_t i = 0; i < 100; i++)
        assert_int_equal(draw(some, 3, &wide, i), 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(draws_follow_the_distribution),
        cmocka_unit_test(filters_keep_what_they_are_defined_to_keep),
        cmocka_unit_test(filters_that_keep_all_change_nothing),
        cmocka_unit_test(the_narrowest_filters_leave_the_likeliest_token),
        cmocka_unit_test(a_draw_is_a_function_of_seed_and_number),
        cmocka_unit_test(logits_that_are_not_numbers_are_told),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

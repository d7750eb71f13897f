/* SPDX-License-Identifier: Apache-2.0 */
/* Runs that do not use what they hold: who is flagged, when, and who must never be. */
#include "observe/telemetry/usage_watch.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "base/random.h"

static struct usage_policy policy;
static struct usage_watch watch;

static int begin(void **state)
{
    policy = usage_policy_default();
    policy.grace_seconds = 0;
    usage_watch_begin(&watch, 0);
    return 0;
}

static enum usage_verdict take(double at, double used)
{
    return usage_watch_take(&watch, &policy, &(struct usage_sample){at, used, used});
}

/* A sample every `step` seconds after `from` up to `to`; the verdict at the end. */
static enum usage_verdict run(double from, double to, double step, double used)
{
    enum usage_verdict verdict = watch.verdict;
    for (double at = from + step; at <= to; at += step)
        verdict = take(at, used);
    return verdict;
}

/* ---- what happens ---- */

static void an_hour_without_use_makes_a_zombie(void **state)
{
    take(0, 0);
    assert_int_equal(run(0, 3595, 5, 0.02), USAGE_FINE);
    assert_int_equal(take(3600, 0.02), USAGE_ZOMBIE);
    assert_int_equal(run(3600, 90000, 5, 0), USAGE_ZOMBIE); /* flagged only */
}

static void a_policy_may_stop_it(void **state)
{
    policy.stops = true;
    policy.stop_seconds = 1800;
    take(0, 0);
    assert_int_equal(run(0, 3600 + 1795, 5, 0), USAGE_ZOMBIE);
    assert_int_equal(take(3600 + 1800, 0), USAGE_STOP);
}

static void who_works_again_is_no_zombie(void **state)
{
    policy.stops = true;
    take(0, 0);
    assert_int_equal(run(0, 7000, 5, 0), USAGE_ZOMBIE);
    assert_int_equal(run(7000, 7320, 5, 0.9), USAGE_FINE);
    assert_int_equal(run(7320, 7320 + 3300, 5, 0), USAGE_FINE); /* an hour of it begins again */
    assert_int_equal(run(7320 + 3300, 7320 + 4500, 5, 0), USAGE_ZOMBIE);
}

static void a_moment_of_use_is_no_work(void **state)
{
    take(0, 0);
    for (double at = 5; at <= 3600; at += 5)
        take(at, fmod(at, 600) == 0 ? 1 : 0); /* a heartbeat every ten minutes */
    assert_int_equal(watch.verdict, USAGE_ZOMBIE);
}

static void moments_of_rest_are_no_idling(void **state)
{
    take(0, 0);
    for (double at = 5; at <= 50000; at += 5)
        assert_int_equal(take(at, fmod(at, 60) < 10 ? 0 : 0.9), USAGE_FINE);
}

static void a_run_that_works_an_hour_and_rests_half_of_one_is_fine(void **state)
{
    take(0, 1);
    for (int turn = 0; turn < 5; turn++) {
        assert_int_equal(run(turn * 5400, turn * 5400 + 3600, 5, 1), USAGE_FINE);
        assert_int_equal(run(turn * 5400 + 3600, turn * 5400 + 5400, 5, 0), USAGE_FINE);
    }
}

static void between_the_limits_nothing_changes(void **state)
{
    take(0, 0.07);
    assert_int_equal(run(0, 20000, 5, 0.07), USAGE_FINE);
    assert_int_equal(run(20000, 30000, 5, 0), USAGE_ZOMBIE);
    assert_int_equal(run(30000, 60000, 5, 0.07), USAGE_ZOMBIE);
    assert_int_equal(run(60000, 61000, 5, 0.11), USAGE_FINE);
    assert_int_equal(run(61000, 90000, 5, 0.07), USAGE_FINE);
}

static void gaps_are_not_idling(void **state)
{
    take(0, 0);
    /* Every second sample is missing where one speaks for 60 s: nothing is seen. */
    assert_int_equal(run(0, 90000, 120, 0), USAGE_FINE);
    /* 30 minutes seen, five of nothing, and so on. */
    double at = 90000;
    for (int turn = 0; turn < 2; turn++, at += 1800 + 300) {
        take(at + 300, 0);
        assert_int_equal(run(at + 300, at + 300 + 1795, 5, 0), USAGE_FINE);
    }
    assert_int_equal(take(at, 0), USAGE_FINE);
    assert_int_equal(take(at + 5, 0), USAGE_ZOMBIE);
    assert_int_equal((int)usage_watch_say(&watch, &policy, "GPU", (char[400]){""}, 400)[0], 'i');
}

static void after_a_long_gap_it_begins_anew(void **state)
{
    take(0, 0);
    run(0, 3500, 5, 0);
    take(3500 + 601, 0);
    assert_int_equal(run(4101, 4101 + 3595, 5, 0), USAGE_FINE);
    assert_int_equal(take(4101 + 3600, 0), USAGE_ZOMBIE);
}

static void what_was_done_before_a_long_gap_is_no_excuse(void **state)
{
    take(0, 0.9);
    run(0, 1000, 5, 0.9);
    take(1700, 0);
    assert_int_equal(run(1700, 1700 + 3595, 5, 0), USAGE_FINE);
    assert_int_equal(take(1700 + 3600, 0), USAGE_ZOMBIE);
}

static void at_the_start_nothing_is_held_against_it(void **state)
{
    policy.grace_seconds = 900;
    usage_watch_begin(&watch, 1000);
    take(1000, 0);
    assert_int_equal(run(1000, 1900 + 3590, 5, 0), USAGE_FINE);
    assert_int_equal(run(1900 + 3590, 1900 + 3600, 5, 0), USAGE_ZOMBIE);
}

static void samples_that_tell_nothing_change_nothing(void **state)
{
    take(0, 0);
    run(0, 3595, 5, 0);
    const struct usage_watch before = watch;
    take(3598, NAN);
    take(3595, 1);
    take(100, 1);
    take(NAN, 1);
    take(INFINITY, 1);
    assert_memory_equal(&watch, &before, sizeof watch);
    assert_int_equal(take(3600, 0), USAGE_ZOMBIE);
}

static void a_message_says_what_was_seen(void **state)
{
    char text[400];
    policy.stops = true;
    usage_watch_take(&watch, &policy, &(struct usage_sample){0, 0.01, 0.04});
    assert_string_equal(usage_watch_say(&watch, &policy, "8 GPUs", text, sizeof text), "");
    for (double at = 5; at <= 3600; at += 5)
        usage_watch_take(&watch, &policy, &(struct usage_sample){at, 0.012, 0.04});
    assert_string_equal(usage_watch_say(&watch, &policy, "8 GPUs", text, sizeof text),
                        "it used 1.2 % of its 8 GPUs on average in the 60 min that was seen last, never more than 4 % "
                        "of one: below 5 % is taken for idle; it is stopped in 60 min unless it works again");
    run(3600, 7300, 5, 0);
    assert_non_null(strstr(usage_watch_say(&watch, &policy, "GPU", text, sizeof text), "the policy is to stop it"));
    policy.stops = false;
    usage_watch_begin(&watch, 0);
    take(0, 0);
    for (double at = 100; at <= 13000; at += 100) { /* 30 s seen, 70 s not */
        take(at, 0);
        take(at + 30, 0);
    }
    assert_non_null(strstr(usage_watch_say(&watch, &policy, "GPU", text, sizeof text), "(within "));
    usage_watch_say(&watch, &policy, "GPU", text, 20);
    assert_true(strlen(text) < 20);
}

/* ---- properties ---- */

/* Seen time: what the last `seconds` of it were used, by adding up all samples again; NaN: not so much was seen. */
static double mean_of_last(const struct usage_sample *samples, size_t count, double seconds)
{
    double left = seconds, sum = 0;
    for (size_t i = count; i-- > 1 && left > 0;) {
        double length = samples[i].at - samples[i - 1].at;
        if (length > policy.forget_seconds)
            break;
        if (length > policy.gap_seconds)
            continue;
        length = fmin(length, left);
        sum += length * samples[i].used;
        left -= length;
    }
    return left > 1e-6 ? NAN : sum / seconds;
}

#define SAMPLES 1500

/* Irregular samples, some gaps, now and then a long one; use from `least` to `most`, in phases. */
static void make_history(uint64_t seed, struct usage_sample *samples, double least, double most)
{
    double at = 0, level = least;
    for (uint64_t i = 0; i < SAMPLES; i++) {
        const uint64_t kind = random_below(seed, 4 * i, 400);
        at += kind == 0 ? 700 : kind < 6 ? 100 : 0.5 + 10 * random_uniform(seed, 4 * i + 1);
        if (i % 200 == 0)
            level = random_uniform(seed, 4 * i + 2);
        const double share = level * (0.5 + 0.5 * random_uniform(seed, 4 * i + 3));
        samples[i] = (struct usage_sample){at, least + (most - least) * share, NAN};
    }
}

/* Below what is work, a verdict is what adding everything up again says, but for a part of the window. */
static void verdicts_are_what_adding_up_again_says(void **state)
{
    static struct usage_sample samples[SAMPLES];
    const double part = 1.0 + 1.0 / WINDOW_PARTS;
    size_t flagged = 0, spared = 0;
    policy.idle_seconds = 900;
    for (uint64_t seed = 0; seed < 60; seed++) {
        make_history(seed, samples, 0, 0.0999);
        usage_watch_begin(&watch, 0);
        for (size_t i = 0; i < SAMPLES; i++) {
            const enum usage_verdict before =
                i && samples[i].at - samples[i - 1].at <= 600 ? watch.verdict : USAGE_FINE;
            const enum usage_verdict verdict = usage_watch_take(&watch, &policy, &samples[i]);
            const double shorter = mean_of_last(samples, i + 1, 900), longer = mean_of_last(samples, i + 1, 900 * part);
            if (before == USAGE_FINE && verdict == USAGE_ZOMBIE) {
                flagged++;
                assert_true(shorter < policy.idle_below * part); /* NaN fails: it was seen for so long */
            }
            if (verdict == USAGE_FINE && !isnan(longer)) {
                spared++;
                assert_true(longer * part >= policy.idle_below * (1 - 1e-9));
            }
        }
    }
    assert_true(flagged > 20 && spared > 1000); /* the test sees something */
}

static void who_works_is_never_flagged(void **state)
{
    static struct usage_sample samples[SAMPLES];
    policy.idle_seconds = 60;
    for (uint64_t seed = 0; seed < 60; seed++) {
        make_history(seed, samples, policy.idle_below, 1);
        usage_watch_begin(&watch, 0);
        for (size_t i = 0; i < SAMPLES; i++)
            assert_int_equal(usage_watch_take(&watch, &policy, &samples[i]), USAGE_FINE);
    }
}

/* Samples that are lost never bring a flag forward: of a run that is always idle, dropping any of them. */
static void lost_samples_never_hasten_a_flag(void **state)
{
    for (uint64_t seed = 0; seed < 200; seed++) {
        const double lost = random_uniform(seed, 1000000);
        double seen = 0, last = 0;
        usage_watch_begin(&watch, 0);
        take(0, 0);
        for (uint64_t i = 1; i < 2000; i++) {
            const double at = 5.0 * (double)i;
            if (random_uniform(seed, i) < lost)
                continue;
            seen = at - last > policy.forget_seconds ? 0 : at - last > policy.gap_seconds ? seen : seen + at - last;
            last = at;
            const enum usage_verdict verdict = take(at, 0);
            assert_int_equal(verdict, seen >= 3600 ? USAGE_ZOMBIE : USAGE_FINE);
            assert_true(verdict == USAGE_FINE || at >= 3600);
        }
    }
}

/* The same history told by another clock, or with samples between that say the same, is judged the same. */
static void only_lengths_of_time_matter(void **state)
{
    static struct usage_sample samples[SAMPLES];
    struct usage_watch later;
    policy.idle_seconds = 900;
    policy.busy_seconds = 0;
    for (uint64_t seed = 0; seed < 20; seed++) {
        make_history(seed, samples, 0, 0.3);
        usage_watch_begin(&watch, 0);
        usage_watch_begin(&later, 4096);
        for (size_t i = 0; i < SAMPLES; i++) {
            struct usage_sample moved = samples[i];
            samples[i].at = floor(samples[i].at * 64) / 64; /* so that sums are exact */
            moved.at = samples[i].at + 4096;
            assert_int_equal(usage_watch_take(&watch, &policy, &samples[i]), usage_watch_take(&later, &policy, &moved));
        }
    }
}

/* ---- samples and policies ---- */

static void shares_of_several_things_make_one(void **state)
{
    struct usage_sample sample = usage_sample_of(5, (const double[]){0.1, NAN, 0.5, 0}, 4);
    assert_true(sample.at == 5 && fabs(sample.used - 0.2) < 1e-12 && sample.busiest == 0.5);
    assert_true(isnan(usage_sample_of(5, (const double[]){0.1, NAN, NAN}, 3).used));
    assert_true(isnan(usage_sample_of(5, NULL, 0).used));
    assert_true(usage_sample_of(5, (const double[]){1, NAN}, 2).used == 1);
}

/* The shortest and the longest figures that a policy may have take no time. */
static void extreme_policies_are_judged_too(void **state)
{
    policy = (struct usage_policy){.idle_below = 0.5,
                                   .busy_above = 0.5,
                                   .idle_seconds = 1,
                                   .busy_seconds = 0,
                                   .gap_seconds = 1e9,
                                   .forget_seconds = 1e9,
                                   .stops = true};
    take(0, 0);
    assert_int_equal(take(9e8, 0.4), USAGE_STOP);
    assert_int_equal(take(9e8 + 1, 0.5), USAGE_FINE);
}

int main(void)
{
#define WATCHED(test) cmocka_unit_test_setup(test, begin)
    const struct CMUnitTest tests[] = {
        WATCHED(an_hour_without_use_makes_a_zombie),
        WATCHED(a_policy_may_stop_it),
        WATCHED(who_works_again_is_no_zombie),
        WATCHED(a_moment_of_use_is_no_work),
        WATCHED(moments_of_rest_are_no_idling),
        WATCHED(a_run_that_works_an_hour_and_rests_half_of_one_is_fine),
        WATCHED(between_the_limits_nothing_changes),
        WATCHED(gaps_are_not_idling),
        WATCHED(after_a_long_gap_it_begins_anew),
        WATCHED(what_was_done_before_a_long_gap_is_no_excuse),
        WATCHED(at_the_start_nothing_is_held_against_it),
        WATCHED(samples_that_tell_nothing_change_nothing),
        WATCHED(a_message_says_what_was_seen),
        WATCHED(verdicts_are_what_adding_up_again_says),
        WATCHED(who_works_is_never_flagged),
        WATCHED(lost_samples_never_hasten_a_flag),
        WATCHED(only_lengths_of_time_matter),
        WATCHED(shares_of_several_things_make_one),
        WATCHED(extreme_policies_are_judged_too),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

/* SPDX-License-Identifier: Apache-2.0 */
#include "observe/telemetry/usage_watch.h"

#include "base/text.h"

#include <math.h>
#include <stdio.h>

struct usage_policy usage_policy_default(void)
{
    return (struct usage_policy){
        .idle_below = 0.05,
        .busy_above = 0.10,
        .idle_seconds = 3600,
        .busy_seconds = 300,
        .gap_seconds = 60,
        .forget_seconds = 600,
        .grace_seconds = 600,
        .stops = false,
        .stop_seconds = 3600,
    };
}

struct usage_sample usage_sample_of(double at, const double *shares, size_t count)
{
    double sum = 0, most = 0;
    size_t known = 0;
    for (size_t i = 0; i < count; i++) {
        if (!isfinite(shares[i]))
            continue;
        known++;
        sum += shares[i];
        most = fmax(most, shares[i]);
    }
    if (known == 0 || 2 * known < count)
        return (struct usage_sample){at, NAN, NAN};
    return (struct usage_sample){at, sum / (double)known, most};
}

/* ---- windows ---- */

static struct usage_part *window_part(const struct usage_window *window, uint32_t number)
{
    return (struct usage_part *)&window->parts[(window->first + number) % (WINDOW_PARTS + 1)];
}

/* Add time seen before `at`, to parts of `width` seconds each; the oldest ones fall out. */
static void window_add(struct usage_window *window, double width, const struct usage_sample *sample, double seconds)
{
    /* More than the window holds pushes itself out. */
    seconds = fmin(seconds, width * (WINDOW_PARTS + 1));
    double from = sample->at - seconds;
    while (seconds > 0) {
        struct usage_part *part = window->count ? window_part(window, window->count - 1) : NULL;
        if (!part || part->seconds >= width) {
            if (window->count == WINDOW_PARTS + 1)
                window->first = (window->first + 1) % (WINDOW_PARTS + 1);
            else
                window->count++;
            part = window_part(window, window->count - 1);
            *part = (struct usage_part){.from = from};
        }
        const double left = width - part->seconds;
        const double taken = seconds < left ? seconds : left;
        /* Full exactly: otherwise rounding might leave a crumb for ever. */
        part->seconds = seconds < left ? part->seconds + taken : width;
        part->sum += taken * sample->used;
        part->most = fmax(part->most, fmax(sample->used, sample->busiest));
        from += taken;
        seconds -= taken;
    }
}

/* All of a window as one part. */
static struct usage_part window_all(const struct usage_window *window)
{
    struct usage_part all = {.from = window->count ? window_part(window, 0)->from : 0};
    for (uint32_t i = 0; i < window->count; i++) {
        const struct usage_part *part = window_part(window, i);
        all.seconds += part->seconds;
        all.sum += part->sum;
        all.most = fmax(all.most, part->most);
    }
    return all;
}

/* ---- judging ---- */

/* Nothing that was seen counts any more, but for how busy it is now. */
static void forget_idling(struct usage_watch *watch)
{
    watch->seen_after = 0;
    watch->for_long.count = 0;
    watch->verdict = USAGE_FINE;
}

static void begin_anew(struct usage_watch *watch)
{
    forget_idling(watch);
    watch->lately.count = 0;
}

void usage_watch_begin(struct usage_watch *watch, double started)
{
    *watch = (struct usage_watch){.started = started};
}

/* Whether a window holds so many seconds, but for rounding. */
static bool is_full(const struct usage_part *all, double seconds)
{
    return all->seconds >= seconds * (1 - 1e-9);
}

static void usage_watch_judge(struct usage_watch *watch, const struct usage_policy *policy)
{
    const struct usage_part lately = window_all(&watch->lately), for_long = window_all(&watch->for_long);
    if (is_full(&lately, policy->busy_seconds) && lately.sum >= policy->busy_above * lately.seconds)
        forget_idling(watch);
    else if (watch->verdict == USAGE_FINE && is_full(&for_long, policy->idle_seconds) &&
             for_long.sum < policy->idle_below * for_long.seconds)
        watch->verdict = USAGE_ZOMBIE;
    if (watch->verdict == USAGE_ZOMBIE && policy->stops && watch->seen_after >= policy->stop_seconds)
        watch->verdict = USAGE_STOP;
}

enum usage_verdict usage_watch_take(struct usage_watch *watch, const struct usage_policy *policy,
                                    const struct usage_sample *sample)
{
    if (!isfinite(sample->used) || !isfinite(sample->at) || (watch->sampled && sample->at <= watch->at))
        return watch->verdict;
    const double seconds = watch->sampled ? sample->at - watch->at : 0;
    watch->at = sample->at;
    watch->sampled = true;
    if (sample->at - watch->started < policy->grace_seconds || seconds > policy->forget_seconds)
        begin_anew(watch);
    else if (seconds > 0 && seconds <= policy->gap_seconds) {
        const double busy = fmax(policy->busy_seconds, 1e-3); /* a part must have a width */
        watch->seen_after += watch->verdict != USAGE_FINE ? seconds : 0;
        window_add(&watch->lately, busy / WINDOW_PARTS, sample, seconds);
        window_add(&watch->for_long, policy->idle_seconds / WINDOW_PARTS, sample, seconds);
        usage_watch_judge(watch, policy);
    }
    return watch->verdict;
}

/* ---- telling ---- */

char *usage_watch_say(const struct usage_watch *watch, const struct usage_policy *policy, const char *held, char *text,
                      size_t size)
{
    char seen[32], all[32], left[32], span[64] = "", rest[96] = "";
    const struct usage_part window = window_all(&watch->for_long);
    *text = '\0';
    if (watch->verdict == USAGE_FINE || !(window.seconds > 0))
        return text;
    if (watch->at - window.from > window.seconds * 1.01)
        snprintf(span, sizeof span, " (within %s)", text_seconds(watch->at - window.from, all, sizeof all));
    if (watch->verdict == USAGE_STOP)
        snprintf(rest, sizeof rest, ", and the policy is to stop it");
    else if (policy->stops)
        snprintf(rest, sizeof rest, "; it is stopped in %s unless it works again",
                 text_seconds(fmax(policy->stop_seconds - watch->seen_after, 0), left, sizeof left));
    snprintf(text, size,
             "it used %.1f %% of its %s on average in the %s that was seen last%s, never more than %.0f %% of one: "
             "below %g %% is taken for idle%s",
             100 * window.sum / window.seconds, held, text_seconds(window.seconds, seen, sizeof seen), span,
             100 * window.most, 100 * policy->idle_below, rest);
    return text;
}

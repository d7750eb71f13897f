/* SPDX-License-Identifier: Apache-2.0 */
#include "platform/scheduler/outlook.h"

#include "base/text.h"
#include "platform/scheduler/internal/state.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

/* Slots that are expected to be free again at some time. */
struct ending {
    double when;
    uint64_t slots;
    uint64_t staying; /* those of them that a run had which cannot give way */
    uint32_t run;     /* whose end it is, if that runs now; or OUTLOOK_NOBODY */
};

/* What is expected: the endings of what runs and of what will, a heap with the first one on top. */
struct outlook_course {
    struct ending *endings;
    double *ready; /* when the hosts reserved for each run can be empty: the latest of them, by run; 0: none are */
    size_t count;
    double now;
    uint64_t free;         /* slots, then */
    uint64_t staying_free; /* those that runs which cannot give way may have */
    uint32_t passed;       /* the run whose end was the last one; or OUTLOOK_NOBODY */
};

static void add_ending(struct outlook_course *course, struct ending ending)
{
    size_t at = course->count++;
    for (; at > 0 && course->endings[(at - 1) / 2].when > ending.when; at = (at - 1) / 2)
        course->endings[at] = course->endings[(at - 1) / 2];
    course->endings[at] = ending;
}

static struct ending take_ending(struct outlook_course *course)
{
    const struct ending first = course->endings[0], last = course->endings[--course->count];
    size_t at = 0;
    for (size_t child; (child = 2 * at + 1) < course->count; at = child) {
        if (child + 1 < course->count && course->endings[child + 1].when < course->endings[child].when)
            child++;
        if (course->endings[child].when >= last.when)
            break;
        course->endings[at] = course->endings[child];
    }
    course->endings[at] = last;
    return first;
}

/* Seconds for which a run goes on, or a queued one will: as it reports, or else as others did, and for no longer than
 * it may. One that has gone on beyond what it reported is like others again. */
static double expected_left(const struct scheduler *scheduler, const struct scheduled_run *run, double now)
{
    const bool reports = run->place == RUN_RUNNING && run->reported_end > now;
    double left = reports ? run->reported_end - now
                          : history_remaining(scheduler->history, run_kind(run), run_attained(run, now));
    if (run->place == RUN_RUNNING)
        left = fmin(left, fmax(run->ends - now, 0));
    if (run->request.limit <= 0)
        return left;
    const double begun = run->place == RUN_RUNNING ? run_age(run, now) : 0;
    return fmin(left, fmax(run->request.limit - begun, 0));
}

/* Those of a run's slots that others can have after it: its hosts may be out of use. */
static uint64_t slots_in_use(const struct scheduler *scheduler, const struct scheduled_run *run)
{
    uint64_t slots = 0;
    for (uint32_t i = 0; i < run_nodes(run); i++)
        slots += scheduler->pool.hosts[run->hosts[i]].open ? run->request.gang.slots : 0;
    return slots;
}

/* The course of things as it stands. */
static void begin_course(const struct scheduler *scheduler, double now, struct outlook_course *course)
{
    const uint64_t others = kept_of(scheduler, scheduler->pool.slots) + scheduler->fixed_taken;
    course->now = now;
    course->passed = OUTLOOK_NOBODY;
    course->free = scheduler->pool.free;
    course->staying_free = others < scheduler->pool.slots ? scheduler->pool.slots - others : 0;
    for (uint32_t i = 0; i < scheduler->run_count; i++) {
        const struct scheduled_run *run = &scheduler->runs[i];
        if (run->place != RUN_RUNNING)
            continue;
        const uint64_t freed = slots_in_use(scheduler, run);
        add_ending(course,
                   (struct ending){now + expected_left(scheduler, run, now), freed, run_stays(run) ? freed : 0, i});
    }
}

/* Go on to the next ending. */
static void pass_ending(struct outlook_course *course)
{
    const struct ending ending = take_ending(course);
    course->now = fmax(course->now, ending.when);
    course->passed = ending.run;
    course->free += ending.slots;
    course->staying_free += ending.staying;
}

/* Go on to where a run finds its slots, by `reserved` at the latest if that is not 0, and let it have them until it
 * ends. Returns when it starts. Runs later in the queue are assumed to start no sooner. */
static double outlook_go_on(const struct scheduler *scheduler, struct outlook_course *course,
                            const struct scheduled_run *run, double reserved, double now)
{
    const uint64_t asked = run_slots(run);
    const bool stays = run_stays(run);
    while ((course->free < asked || (stays && course->staying_free < asked)) && course->count > 0)
        pass_ending(course);
    const double start = reserved > 0 ? fmin(reserved, course->now) : course->now;
    const uint64_t given = asked < course->free ? asked : course->free;
    const uint64_t staying = !stays ? 0 : given < course->staying_free ? given : course->staying_free;
    course->free -= given;
    course->staying_free -= staying;
    add_ending(course, (struct ending){start + expected_left(scheduler, run, now), given, staying, OUTLOOK_NOBODY});
    return start;
}

/* How many hosts fit in the place that has the most of them. */
static uint32_t outlook_hosts_that_fit(const struct pool *pool, struct gang gang)
{
    uint32_t most = 0;
    for (uint32_t p = 0; p < pool_places(pool, gang); p++) {
        struct pool_pod all;
        const struct pool_pod *pod = pool_place_of(pool, p, &all);
        uint32_t fit = 0;
        for (unsigned free = gang.slots; free <= POOL_SLOTS_MOST; free++)
            fit += pod->with_free[free] + pod->reserved_free[free];
        most = fit > most ? fit : most;
    }
    return most;
}

/* How many exclusively reserved hosts fit. */
static uint32_t exclusive_hosts_that_fit(const struct scheduler *scheduler, struct gang gang)
{
    uint32_t fit = 0;
    for (uint32_t i = 0; scheduler->exclusive_run != POOL_NOBODY && i < scheduler->reserved_count; i++) {
        const struct pool_host *host = &scheduler->pool.hosts[scheduler->reserved[i]];
        fit += host->exclusive && host->open && host->free >= gang.slots;
    }
    return fit;
}

/* Whether a run could start if all others had ended: hosts may be out of use. */
static bool could_start(const struct scheduler *scheduler, const struct scheduled_run *run)
{
    const struct pool *pool = &scheduler->pool;
    const struct gang gang = run->request.gang;
    const uint64_t kept = run_stays(run) ? kept_of(scheduler, pool->slots) : 0;
    if (run_slots(run) + kept > pool->slots)
        return false;
    for (uint32_t p = 0; p < pool_places(pool, gang); p++) {
        struct pool_pod all;
        const struct pool_pod *pod = pool_place_of(pool, p, &all);
        uint32_t fit = 0;
        for (uint32_t h = pod->first; h < pod->first + pod->count && fit < gang.nodes; h++)
            fit += pool->hosts[h].open && pool->hosts[h].slots >= gang.slots;
        if (fit == gang.nodes)
            return true;
    }
    return false;
}

static void expect_reserved(const struct scheduler *scheduler, double now, double *ready)
{
    for (uint32_t i = 0; i < scheduler->reserved_count; i++) {
        const struct pool_host *host = &scheduler->pool.hosts[scheduler->reserved[i]];
        if (host->reserved_for == POOL_NOBODY)
            continue;
        double when = host->exclusive ? scheduler->exclusive_ready : now;
        for (uint32_t k = 0; k < host->occupants && !host->exclusive; k++)
            when = fmax(when, scheduler->runs[host->occupant[k]].since + scheduler->policy.least_age);
        ready[host->reserved_for] = fmax(ready[host->reserved_for], when);
    }
}

/* Of hosts that are out of use too. */
static uint64_t all_slots(const struct pool *pool)
{
    uint64_t slots = 0;
    for (uint32_t h = 0; h < pool->host_count; h++)
        slots += pool->hosts[h].slots;
    return slots;
}

static void outlook_look(const struct scheduler *scheduler, double now, struct outlook_course *course,
                         struct outlook *outlooks)
{
    uint64_t before = 0;
    struct gang last = {0};
    uint32_t fit = 0, exclusive_fit = 0;
    const bool all_open = scheduler->pool.slots == all_slots(&scheduler->pool);
    for (uint32_t i = 0; i < scheduler->queued; i++) {
        const struct scheduled_run *run = &scheduler->runs[scheduler->order[i]];
        struct gang gang = run->request.gang;
        uint64_t asked = run_slots(run);
        if (!gang_equal(gang, last)) {
            fit = outlook_hosts_that_fit(&scheduler->pool, gang);
            exclusive_fit = exclusive_hosts_that_fit(scheduler, gang);
        }
        last = gang;
        const bool exclusive = scheduler->order[i] == scheduler->exclusive_run;
        const bool closed = !all_open && !could_start(scheduler, run);
        double reserved = course->ready[scheduler->order[i]];
        struct outlook *outlook = &outlooks[i];
        *outlook = (struct outlook){.run = scheduler->order[i],
                                    .position = i,
                                    .gang = gang,
                                    .free = scheduler->pool.free,
                                    .kept = kept_of(scheduler, scheduler->pool.slots),
                                    .fit = exclusive ? exclusive_fit : fit,
                                    .slots_before = before,
                                    .expected_start =
                                        closed ? INFINITY : outlook_go_on(scheduler, course, run, reserved, now)};
        outlook->awaits = outlook->expected_start == course->now ? course->passed : OUTLOOK_NOBODY;
        outlook->lacking = outlook->fit < gang.nodes ? gang.nodes - outlook->fit : 0;
        if (closed)
            outlook->reason = OUTLOOK_CLOSED;
        else if (scheduler->pool.free < asked)
            outlook->reason = OUTLOOK_TOO_FEW;
        else if (run_is_beyond_share(scheduler, run, 0))
            outlook->reason = OUTLOOK_KEPT;
        else if (outlook->fit >= gang.nodes)
            outlook->reason = OUTLOOK_NEXT_PASS;
        else if (!exclusive && fit + exclusive_fit >= gang.nodes)
            outlook->reason = OUTLOOK_EXCLUSIVE;
        else
            outlook->reason = reserved > 0 ? OUTLOOK_RESERVED : OUTLOOK_SCATTERED;
        before += asked;
    }
}

static void close_course(struct outlook_course *course)
{
    free(course->endings);
    free(course->ready);
}

/* The course of things from now on, with room for the endings of all runs. */
static weft_status open_course(const struct scheduler *scheduler, double now, struct outlook_course *course,
                               struct error *error)
{
    const size_t count = scheduler->run_count + 1;
    *course = (struct outlook_course){.endings = malloc(count * sizeof *course->endings),
                                      .ready = calloc(count, sizeof *course->ready)};
    if (!course->endings || !course->ready) {
        close_course(course);
        return error_memory(error, count * sizeof *course->endings, "the plan of the queue");
    }
    expect_reserved(scheduler, now, course->ready);
    begin_course(scheduler, now, course);
    return WEFT_OK;
}

weft_status outlook_all(const struct scheduler *scheduler, double now, struct outlook *outlooks, struct error *error)
{
    struct outlook_course course;
    weft_status status = open_course(scheduler, now, &course, error);
    if (status != WEFT_OK)
        return status;
    outlook_look(scheduler, now, &course, outlooks);
    close_course(&course);
    return WEFT_OK;
}

weft_status outlook_returns(const struct scheduler *scheduler, double now, struct outlook_return *returns, size_t count,
                            struct error *error)
{
    struct outlook_course course;
    weft_status status = open_course(scheduler, now, &course, error);
    if (status != WEFT_OK)
        return status;
    for (uint32_t i = 0; i < scheduler->queued; i++) {
        const struct scheduled_run *run = &scheduler->runs[scheduler->order[i]];
        if (could_start(scheduler, run))
            outlook_go_on(scheduler, &course, run, course.ready[scheduler->order[i]], now);
    }
    for (size_t i = 0; i < count; i++) {
        const struct scheduled_run *run = &scheduler->runs[returns[i].run];
        while (course.count > 0 && course.endings[0].when <= returns[i].when)
            pass_ending(&course);
        course.now = fmax(course.now, returns[i].when);
        returns[i].expected_start =
            could_start(scheduler, run) ? outlook_go_on(scheduler, &course, run, 0, now) : INFINITY;
    }
    close_course(&course);
    return WEFT_OK;
}

char *outlook_say(const struct outlook *outlook, double now, char *text, size_t size)
{
    const struct gang gang = outlook->gang;
    const char *more = outlook->lacking == 1 ? "host" : "hosts";
    char asks[96], why[192], before[96] = "", start[64], left[48];
    snprintf(left, sizeof left, "%" PRIu64 " slot%s free", outlook->free, outlook->free == 1 ? " is" : "s are");
    if (gang.nodes == 1)
        snprintf(asks, sizeof asks, "%u slot%s on one host", gang.slots, gang.slots == 1 ? "" : "s");
    else
        snprintf(asks, sizeof asks, "%u hosts%s with %u slot%s each", gang.nodes, gang.spans ? "" : " of one Pod",
                 gang.slots, gang.slots == 1 ? "" : "s");
    switch (outlook->reason) {
    case OUTLOOK_NEXT_PASS:
        snprintf(why, sizeof why, "they are free, and the next pass gives them");
        break;
    case OUTLOOK_CLOSED:
        snprintf(why, sizeof why, "hosts that it needs are out of use");
        break;
    case OUTLOOK_TOO_FEW:
        snprintf(why, sizeof why, "%s in all", left);
        break;
    case OUTLOOK_KEPT:
        snprintf(why, sizeof why,
                 "%s, but %" PRIu64 " of all %s kept for small personal runs and those that can give way", left,
                 outlook->kept, outlook->kept == 1 ? "is" : "are");
        break;
    case OUTLOOK_EXCLUSIVE:
        snprintf(why, sizeof why, "%s, on hosts that are kept for a larger run which has waited for long", left);
        break;
    case OUTLOOK_SCATTERED:
        snprintf(why, sizeof why, "%s, but not together: %u more %s%s must empty", left, outlook->lacking, more,
                 gang.spans ? "" : " of a Pod");
        break;
    case OUTLOOK_RESERVED:
        snprintf(why, sizeof why, "%s, but not together: %u more %s being emptied for it", left, outlook->lacking,
                 outlook->lacking == 1 ? "host is" : "hosts are");
        break;
    }
    if (outlook->reason == OUTLOOK_CLOSED)
        snprintf(start, sizeof start, "it can start when they are back");
    else if (outlook->expected_start > now)
        snprintf(start, sizeof start, "expected to start in %s",
                 text_seconds(outlook->expected_start - now, (char[32]){0}, 32));
    else
        snprintf(start, sizeof start, "expected to start soon");
    if (outlook->position > 0)
        snprintf(before, sizeof before, "%u run%s that ask%s for %" PRIu64 " slot%s %s before it; ", outlook->position,
                 outlook->position == 1 ? "" : "s", outlook->position == 1 ? "s" : "", outlook->slots_before,
                 outlook->slots_before == 1 ? "" : "s", outlook->position == 1 ? "is" : "are");
    snprintf(text, size, "waits for %s: %s; %s%s", asks, why, before, start);
    return text;
}

/* SPDX-License-Identifier: Apache-2.0 */
#include "observe/inspect/internal/inspection_judge.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define CLOCK_KNOWN 2e-3 /* seconds */

/* ---- skew ---- */

/* A rank enters a collective. */
struct inspection_judge_entry {
    uint32_t communicator, rank;
    uint64_t sequence;
    int64_t started;
};

static int inspection_judge_compare_entries(const void *left, const void *right)
{
    const struct inspection_judge_entry *a = left, *b = right;
    if (a->communicator != b->communicator)
        return a->communicator < b->communicator ? -1 : 1;
    if (a->sequence != b->sequence)
        return a->sequence < b->sequence ? -1 : 1;
    return a->started < b->started ? -1 : a->started > b->started;
}

/* All ranks' collectives, sorted: by operation, then by time. A rank whose clock is hardly known tells nothing. */
static struct inspection_judge_entry *inspection_judge_collect(const struct inspected_job *job, uint32_t *count)
{
    uint32_t room = 0;
    for (uint32_t r = 0; r < job->rank_count; r++)
        room += job->ranks[r].operation_count;
    struct inspection_judge_entry *entries = malloc((room ? room : 1) * sizeof *entries);
    *count = 0;
    for (uint32_t r = 0; entries && r < job->rank_count; r++)
        for (uint32_t i = 0; i < job->ranks[r].operation_count; i++) {
            const struct inspected_operation *operation = &job->ranks[r].operations[i];
            if (!operation->is_message && job->ranks[r].uncertainty < CLOCK_KNOWN)
                entries[(*count)++] = (struct inspection_judge_entry){operation->communicator, r, operation->sequence,
                                                                      operation->started};
        }
    if (entries)
        qsort(entries, *count, sizeof *entries, inspection_judge_compare_entries);
    return entries;
}

weft_status inspection_judge_skew(struct inspected_job *job, struct error *error)
{
    uint32_t count;
    struct inspection_judge_entry *entries = inspection_judge_collect(job, &count);
    if (!entries)
        return error_memory(error, job->rank_count * sizeof *entries, "the entries of operations");
    for (uint32_t first = 0, end; first < count; first = end) {
        for (end = first + 1; end < count && entries[end].communicator == entries[first].communicator &&
                              entries[end].sequence == entries[first].sequence;)
            end++;
        for (uint32_t i = first; end - first > 1 && i < end; i++) {
            struct inspected_skew *skew = &job->ranks[entries[i].rank].skew;
            double late = (double)(entries[i].started - entries[first].started) * 1e-9;
            skew->operations++;
            skew->last += i + 1 == end;
            skew->mean += (late - skew->mean) / skew->operations;
            skew->most = late > skew->most ? late : skew->most;
        }
    }
    free(entries);
    return WEFT_OK;
}

/* ---- waits ---- */

static uint32_t awaited_by(const struct inspected_job *job, uint32_t rank)
{
    const struct inspected_rank *it = &job->ranks[rank];
    return it->state == INSPECTED_WAITING && it->current->awaited < job->rank_count ? it->current->awaited
                                                                                    : INSPECTION_NOBODY;
}

/* Whom `rank` waits for in the end; *cycle if that is one of a circle. */
static uint32_t inspection_judge_follow(const struct inspected_job *job, uint32_t rank, bool *cycle)
{
    *cycle = false;
    for (uint32_t steps = 0; steps < job->rank_count; steps++) {
        uint32_t next = awaited_by(job, rank);
        if (next == INSPECTION_NOBODY)
            return rank;
        rank = next;
    }
    *cycle = true;
    return rank;
}

/* "rank 3 on host alpha (process 4711)" */
static size_t name_rank(const struct inspected_rank *rank, char *text, size_t size)
{
    return (size_t)snprintf(text, size, "rank %u on host %s (process %d)", rank->rank, rank->host, rank->process);
}

static void write_doing(const struct inspected_rank *rank, const struct inspected_operation *missing, char *text,
                        size_t size)
{
    char late[300] = "";
    if (missing)
        snprintf(late, sizeof late, "it has not come to %s, %s", missing->text, missing->place);
    switch (rank->state) {
    case INSPECTED_STOPPED:
        snprintf(text, size, "its process is stopped; `kill -CONT %d` lets it go on", rank->process);
        break;
    case INSPECTED_GONE:
        snprintf(text, size, "there is no such process any more");
        break;
    case INSPECTED_SILENT:
        snprintf(text, size,
                 "it does not tell what it is doing: it is stopped, or its host or the network to it is down; look "
                 "with `weft inspect` on that host");
        break;
    case INSPECTED_OUTSIDE:
        snprintf(text, size, "%s: it %s%s%s; `gdb -p %d -batch -ex bt` on its host shows where",
                 missing ? late : "it is in no operation",
                 rank->main_thread == 'R'   ? "computes"
                 : rank->main_thread == 'D' ? "waits for a device"
                 : rank->main_thread == 'S' ? "sleeps, outside of Weft"
                                            : "computes, or waits for something else",
                 *rank->where ? ", in the kernel's " : "", rank->where, rank->process);
        break;
    default:
        if (rank->current)
            snprintf(text, size, "it is in %s, %s, and not known to wait: it works, or has just come",
                     rank->current->text, rank->current->place);
        else
            snprintf(text, size, "it moves");
    }
}

/* Two that wait for each other at least: in one operation their data is on its way, in several their calls cross. */
static void judge_cycle(struct inspected_job *job)
{
    char *text = job->verdict;
    size_t used = 0, size = sizeof job->verdict;
    const struct inspected_operation *first = job->ranks[job->straggler].current;
    bool crosses = false;
    uint32_t rank = job->straggler;
    do {
        const struct inspected_operation *own = job->ranks[rank].current;
        crosses |= own->communicator != first->communicator || own->sequence != first->sequence;
        if (used < size)
            used += (size_t)snprintf(text + used, size - used, "%srank %u waits for rank %u in %s, %s",
                                     used ? "; " : "", rank, own->awaited, own->text, own->place);
        rank = own->awaited;
    } while (rank != job->straggler);
    if (used < size)
        snprintf(text + used, size - used, "%s",
                 crosses ? ": the calls cross; make them in one order on all ranks, or start them as requests"
                         : ": what they send each other does not arrive; look at the network between their hosts");
}

static void judge_straggler(struct inspected_job *job)
{
    const struct inspected_rank *rank = &job->ranks[job->straggler];
    const struct inspected_operation *missing = NULL;
    char doing[400], name[160];
    for (uint32_t r = 0; r < job->rank_count; r++) {
        const struct inspected_operation *own = job->ranks[r].current;
        if (awaited_by(job, r) == job->straggler && (!missing || own->since < missing->since))
            missing = own;
    }
    for (uint32_t i = 0; missing && i < rank->operation_count; i++)
        if (missing->is_message || (rank->operations[i].communicator == missing->communicator &&
                                    rank->operations[i].sequence >= missing->sequence)) {
            missing = NULL; /* it has come */
            break;
        }
    write_doing(rank, missing, doing, sizeof doing);
    name_rank(rank, name, sizeof name);
    snprintf(job->verdict, sizeof job->verdict, "%s holds up %u other rank%s, for %.3g s now: %s", name, job->waiting,
             job->waiting == 1 ? "" : "s", job->waited, doing);
}

/* Others that are stopped hold nobody up yet, but will. */
static void add_stopped(struct inspected_job *job)
{
    size_t used = strlen(job->verdict), size = sizeof job->verdict;
    for (uint32_t r = 0; r < job->rank_count && used < size; r++)
        if (r != job->straggler && job->ranks[r].state == INSPECTED_STOPPED)
            used += (size_t)snprintf(job->verdict + used, size - used, "; rank %u (process %d) is stopped, too", r,
                                     job->ranks[r].process);
}

/* Nobody is known to wait, or not yet. */
static void judge_quiet(struct inspected_job *job)
{
    for (uint32_t r = 0; r < job->rank_count; r++) {
        const struct inspected_rank *rank = &job->ranks[r];
        char doing[400];
        if (rank->state != INSPECTED_STOPPED && rank->state != INSPECTED_GONE)
            continue;
        write_doing(rank, NULL, doing, sizeof doing);
        size_t used = name_rank(rank, job->verdict, sizeof job->verdict);
        snprintf(job->verdict + used, sizeof job->verdict - used, ": %s", doing);
        job->straggler = r;
        return;
    }
    snprintf(job->verdict, sizeof job->verdict, "no rank waits for another");
}

weft_status inspection_judge_waits(struct inspected_job *job, struct error *error)
{
    uint32_t *votes = calloc(job->rank_count, sizeof *votes);
    if (!votes)
        return error_memory(error, job->rank_count * sizeof *votes, "the waits of a job");
    job->straggler = INSPECTION_NOBODY;
    for (uint32_t r = 0; r < job->rank_count; r++) {
        bool cycle;
        if (awaited_by(job, r) == INSPECTION_NOBODY)
            continue;
        uint32_t end = inspection_judge_follow(job, r, &cycle);
        double waited = (double)-job->ranks[r].current->since * 1e-9;
        job->waiting++;
        job->waited = waited > job->waited ? waited : job->waited;
        if (++votes[end] > (job->straggler == INSPECTION_NOBODY ? 0 : votes[job->straggler])) {
            job->straggler = end;
            job->cycle = cycle;
        }
    }
    free(votes);
    if (job->straggler == INSPECTION_NOBODY)
        judge_quiet(job);
    else if (job->cycle)
        judge_cycle(job);
    else
        judge_straggler(job);
    if (job->straggler != INSPECTION_NOBODY)
        add_stopped(job);
    return WEFT_OK;
}

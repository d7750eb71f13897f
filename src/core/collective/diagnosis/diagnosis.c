/* SPDX-License-Identifier: Apache-2.0 */
#include "core/collective/internal/diagnosis.h"

#include "base/clock.h"
#include "base/hash.h"
#include "core/collective/call.h"
#include "core/collective/communicator/context.h"
#include "core/collective/internal/execution.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#define STUCK_SECONDS   1.0
#define LOOK_INTERVAL   500000000u  /* ns between looks at a stalled operation */
#define SURVEY_INTERVAL 5000000000u /* ns to the next look after all ranks have been asked */
#define ANSWER_LIMIT    2000000000u /* ns to wait for a log */
#define PATIENCE        3000000000u /* ns to wait for a rank that may give a better message about a mismatch */
#define ASK_AGAIN       20000000u   /* ns between rounds of questions while waiting */

/* ---- describing ---- */

static struct diagnosis_operation operation_of(uint32_t rank, const struct operation_entry *entry)
{
    struct diagnosis_operation operation = {.rank = rank,
                                            .communicator = entry->communicator,
                                            .sequence =
                                                atomic_load_explicit(&entry->sequence, memory_order_relaxed) - 1,
                                            .hash = entry->hash,
                                            .count = entry->count,
                                            .collective = (enum collective)entry->collective,
                                            .type = (weft_type)entry->type,
                                            .awaited = atomic_load_explicit(&entry->awaited, memory_order_relaxed)};
    call_describe(entry, operation.text, sizeof operation.text);
    return operation;
}

static char *place_name(const struct diagnosis_operation *operation, char *text, size_t size)
{
    return operation_place_name(operation->communicator, operation->sequence, text, size);
}

static void end_job(weft_context *context, weft_status status, const char *message)
{
    control_abort(context->control, status, message);
    atomic_store_explicit(&context->diagnosis.kind, DIAGNOSIS_NONE, memory_order_release);
}

static void end_with_mismatch(weft_context *context, const struct diagnosis_operation *mine,
                              const struct diagnosis_operation *theirs)
{
    char message[ERROR_TEXT_BYTES], place[128], name[128], other[128];
    snprintf(
        message, sizeof message,
        "ranks disagree: %s calls %s as %s, %s calls %s; all ranks of a communicator must make the same calls in the "
        "same order",
        context_rank_name(context, mine->rank, name, sizeof name), mine->text, place_name(mine, place, sizeof place),
        context_rank_name(context, theirs->rank, other, sizeof other), theirs->text);
    end_job(context, WEFT_ERROR_MISMATCH, message);
}

/* In operation `mine` a rank sends something other than another expects; both are world ranks. */
static void end_with_counts(weft_context *context, const struct diagnosis_operation *mine, uint32_t giver,
                            uint64_t given, weft_type given_type, uint32_t taker, uint64_t taken, weft_type taken_type)
{
    char message[ERROR_TEXT_BYTES], place[128], name[128], other[128];
    snprintf(message, sizeof message,
             "ranks disagree: in %s (%s) %s gives %" PRIu64 " %s to %s, which expects %" PRIu64
             " %s of it; the counts and types of both must be equal",
             collective_name(mine->collective), place_name(mine, place, sizeof place),
             context_rank_name(context, giver, name, sizeof name), given, weft_type_name(given_type),
             context_rank_name(context, taker, other, sizeof other), taken, weft_type_name(taken_type));
    end_job(context, WEFT_ERROR_MISMATCH, message);
}

/* The rank will never join this operation. */
static void end_with_departure(weft_context *context, const struct diagnosis_operation *waits, uint32_t rank,
                               const struct operation_entry *departure)
{
    const bool finalizes = departure->collective == COLLECTIVES + CALL_FINALIZE;
    char message[ERROR_TEXT_BYTES], place[128], name[128], other[128];
    snprintf(message, sizeof message,
             "%s called %s without its part in an operation: %s waits for it in %s (%s); all ranks of a communicator "
             "must make the same calls in the same order",
             context_rank_name(context, rank, other, sizeof other), finalizes ? "weft_finalize()" : "weft_comm_free()",
             context_rank_name(context, waits->rank, name, sizeof name), waits->text,
             place_name(waits, place, sizeof place));
    end_job(context, WEFT_ERROR_MISMATCH, message);
}

static void end_with_cycle(weft_context *context, uint32_t first)
{
    const struct diagnosis *diagnosis = &context->diagnosis;
    char message[ERROR_TEXT_BYTES];
    size_t used = (size_t)snprintf(message, sizeof message, "blocking calls cross, so that no rank can continue: ");
    for (uint32_t i = first; i < diagnosis->link_count && used < sizeof message; i++) {
        const struct diagnosis_operation *link = &diagnosis->links[i];
        char place[128];
        used += (size_t)snprintf(message + used, sizeof message - used,
                                 "%srank %u is blocked in %s (%s), waiting for rank %u", i > first ? "; " : "",
                                 link->rank, link->text, place_name(link, place, sizeof place), link->awaited - 1);
    }
    if (used < sizeof message)
        snprintf(message + used, sizeof message - used,
                 "; make these calls in one order on all ranks, or start them as requests");
    end_job(context, WEFT_ERROR_MISMATCH, message);
}

/*
 * "rank 3 on host alpha, which ...": the last of the chain of waiting ranks, and its activity according to its log
 * (NULL: it did not answer).
 */
static char *culprit_name(const weft_context *context, const struct operation_log *log, char *text, size_t size)
{
    const struct diagnosis *diagnosis = &context->diagnosis;
    const struct diagnosis_operation *mine = &diagnosis->links[0];
    const struct diagnosis_operation *last = &diagnosis->links[diagnosis->link_count - 1];
    char name[128] = "a rank that is not known", doing[OPERATION_TEXT_BYTES + 64] = "";
    if (last->awaited)
        context_rank_name(context, last->awaited - 1, name, sizeof name);
    const struct operation_entry *same = log ? operation_log_find(log, mine->communicator, mine->sequence) : NULL;
    if (log)
        operation_log_describe(log, doing, sizeof doing);
    snprintf(text, size, "%s%s%s%s%s", name, last->awaited ? ", which " : "",
             !last->awaited                          ? ""
             : !log                                  ? "does not report what it is doing"
             : same && same->phase != OPERATION_DONE ? "is in the same operation"
             : same                                  ? "is done with it"
                                                     : "is alive but has not called it",
             *doing && !same ? ": it is " : "", same ? "" : doing);
    return text;
}

static void end_with_limit(weft_context *context, const struct operation_log *log)
{
    const struct diagnosis *diagnosis = &context->diagnosis;
    const struct diagnosis_operation *mine = &diagnosis->links[0];
    char message[ERROR_TEXT_BYTES], place[128], culprit[512], name[128];
    snprintf(message, sizeof message, "%s: %s (%s) waited %.3g s, its time limit, for %s",
             context_rank_name(context, mine->rank, name, sizeof name), mine->text,
             place_name(mine, place, sizeof place), diagnosis->waited,
             culprit_name(context, log, culprit, sizeof culprit));
    end_job(context, WEFT_ERROR_TIMEOUT, message);
}

/* The library prints nothing else by itself: waiting is not an error, but should be visible. */
static void warn_of_late(weft_context *context, const struct operation_log *log)
{
    struct diagnosis *diagnosis = &context->diagnosis;
    const struct diagnosis_operation *mine = &diagnosis->links[0];
    char place[128], culprit[512], name[128];
    fprintf(stderr, "weft: warning: %s has waited %.3g s in %s (%s) for %s\n",
            context_rank_name(context, mine->rank, name, sizeof name), diagnosis->waited, mine->text,
            place_name(mine, place, sizeof place), culprit_name(context, log, culprit, sizeof culprit));
    atomic_store_explicit(&diagnosis->kind, DIAGNOSIS_NONE, memory_order_release);
}

/* ---- reporting, with the progress lock ---- */

/* Describe the request as the log would, even if it is no longer in it. */
static struct diagnosis_operation operation_of_request(const struct weft_request *request)
{
    const weft_comm *comm = request->comm;
    const struct call *call = request->call;
    bool sends = call->root == comm->rank;
    struct operation_entry entry = {
        .communicator = comm_match_id(comm, call),
        .collective = call_code(call),
        .type = (uint8_t)call->type,
        .op = (uint8_t)(!request->is_message ? call->op.kind
                        : sends              ? MESSAGE_SENT
                                             : MESSAGE_RECEIVED),
        .root = request->is_message && sends ? call->peer : call->root,
        .count = call->vectors || call->subset ? call_given_count(call, comm->rank, comm->size) : call->count,
        .hash = request->tag,
        .awaited = request->awaited,
        .sequence = request->sequence + 1};
    return operation_of(comm->context->rank, &entry);
}

static void diagnosis_report(struct weft_request *request, enum diagnosis_kind kind, uint32_t world_rank)
{
    weft_context *context = request->comm->context;
    struct diagnosis *diagnosis = &context->diagnosis;
    if (atomic_load_explicit(&diagnosis->kind, memory_order_acquire) != DIAGNOSIS_NONE)
        return;
    diagnosis->links[0] = operation_of_request(request);
    diagnosis->links[0].awaited = world_rank + 1;
    diagnosis->links[0].member = request->comm->rank;
    diagnosis->links[0].sends = request->is_message && request->call->root == request->comm->rank;
    diagnosis->link_count = 1;
    diagnosis->all_asked = diagnosis->surveys = false;
    const weft_comm *comm = request->comm;
    diagnosis->member_count = comm->size < DIAGNOSIS_LINKS ? comm->size : DIAGNOSIS_LINKS;
    memcpy(diagnosis->members, comm->world, diagnosis->member_count * sizeof *diagnosis->members);
    diagnosis->patience = clock_now() + PATIENCE;
    diagnosis->ask_after = 0;
    for (uint32_t i = 0; request->call->collective == COLLECTIVE_ALLGATHERV && i < diagnosis->member_count; i++)
        diagnosis->expected[i] = request->call->vectors->output_counts[i];
    atomic_store_explicit(&diagnosis->kind, kind, memory_order_release);
    progress_wake_helper(context);
}

void diagnosis_mismatch(struct weft_request *request, uint32_t comm_rank, const struct transfer *transfer)
{
    struct diagnosis *diagnosis = &request->comm->context->diagnosis;
    request->awaited = request->comm->world[comm_rank] + 1;
    if (atomic_load_explicit(&diagnosis->kind, memory_order_acquire) == DIAGNOSIS_NONE) {
        diagnosis->message.known = transfer != NULL;
        if (transfer) {
            diagnosis->message.sends = transfer->is_send;
            diagnosis->message.bytes = transfer->bytes;
            diagnosis->message.peer_bytes = transfer->peer_bytes;
        }
    }
    diagnosis_report(request, DIAGNOSIS_MISMATCH, request->comm->world[comm_rank]);
}

void diagnosis_watch(struct weft_request *request, double seconds)
{
    const weft_comm *comm = request->comm;
    struct diagnosis *diagnosis = &comm->context->diagnosis;
    double limit = comm->time_limit > 0 ? comm->time_limit : comm->context->time_limit;
    if (isinf(comm->time_limit)) /* its ranks wait for events */
        return;
    if (!request->awaited || atomic_load_explicit(&diagnosis->kind, memory_order_acquire) != DIAGNOSIS_NONE)
        return;
    if (request->call->purpose == CALL_FINALIZE)
        limit = INFINITY; /* the others may compute for as long as they like */
    if (seconds >= limit) {
        diagnosis->waited = limit;
        diagnosis_report(request, DIAGNOSIS_LIMIT, request->awaited - 1);
    } else if (seconds >= comm->context->late_seconds && diagnosis->warned != request->tag) {
        diagnosis->warned = request->tag;
        diagnosis->waited = seconds;
        diagnosis_report(request, DIAGNOSIS_LATE, request->awaited - 1);
    } else if (seconds >= STUCK_SECONDS &&
               clock_now() >= atomic_load_explicit(&diagnosis->next_look, memory_order_relaxed)) {
        diagnosis_report(request, DIAGNOSIS_STUCK, request->awaited - 1);
    }
}

/* ---- looking into it, in the helper thread ---- */

static void give_up_for_now(struct diagnosis *diagnosis)
{
    atomic_store_explicit(&diagnosis->next_look, clock_now() + (diagnosis->surveys ? SURVEY_INTERVAL : LOOK_INTERVAL),
                          memory_order_relaxed);
    atomic_store_explicit(&diagnosis->kind, DIAGNOSIS_NONE, memory_order_release);
}

/* The same operation in a peer's log: for a message, the other end of it. */
static const struct operation_entry *counterpart(const weft_context *context, const struct diagnosis_operation *mine,
                                                 const struct operation_log *log)
{
    if (!(mine->communicator & COMM_MESSAGES))
        return operation_log_find(log, mine->communicator, mine->sequence);
    /* A peer numbers its messages per pair of ranks. Without a match, the newest that is not done fits best. */
    const struct operation_entry *found = NULL;
    for (uint32_t i = 0; i < OPERATION_LOG_ENTRIES; i++) {
        const struct operation_entry *entry = &log->entries[i];
        if (entry->sequence == mine->sequence + 1 && entry->communicator == mine->communicator &&
            (!found || entry->hash == mine->hash))
            found = entry;
    }
    return found;
}

/*
 * The first operation in which this rank and another disagree, in the communicator of the mismatch: it may be earlier
 * than the one that detected it. Both as in their ranks' logs.
 */
static bool first_disagreement(const weft_context *context, uint32_t rank, const struct operation_log *log,
                               struct diagnosis_operation *ours, struct diagnosis_operation *theirs)
{
    const struct diagnosis_operation *mine = &context->diagnosis.links[0];
    uint64_t first = mine->sequence + 1;
    for (uint32_t i = 0; i < OPERATION_LOG_ENTRIES && !(mine->communicator & COMM_MESSAGES); i++) {
        const struct operation_entry *entry = &log->entries[i];
        uint64_t sequence = atomic_load_explicit(&entry->sequence, memory_order_relaxed) - 1;
        if (entry->communicator != mine->communicator || sequence >= first)
            continue;
        const struct operation_entry *own = operation_log_find(context->log, mine->communicator, sequence);
        if (!own || own->hash == entry->hash)
            continue;
        first = sequence;
        *ours = operation_of(context->rank, own);
        *theirs = operation_of(rank, entry);
    }
    return first <= mine->sequence;
}

static bool is_linked(const struct diagnosis *diagnosis, uint32_t rank)
{
    uint32_t i = 0;
    while (i < diagnosis->link_count && diagnosis->links[i].rank != rank)
        i++;
    return i < diagnosis->link_count;
}

/* A member of the communicator that has not been asked, + 1; 0 if there is none. */
static uint32_t unasked(const struct diagnosis *diagnosis)
{
    for (uint32_t i = 0; i < diagnosis->member_count; i++)
        if (!is_linked(diagnosis, diagnosis->members[i]))
            return diagnosis->members[i] + 1;
    return 0;
}

/*
 * In an allgatherv all ranks know all counts, and some differ: each member's log has what it sends. `entry` is rank's
 * (NULL: unknown). A rank that sends something other than this one expects is named; otherwise the next is asked.
 */
static void compare_counts(weft_context *context, uint32_t rank, const struct operation_entry *entry)
{
    struct diagnosis *diagnosis = &context->diagnosis;
    const struct diagnosis_operation *mine = &diagnosis->links[0];
    for (uint32_t i = 0; entry && i < diagnosis->member_count; i++)
        if (diagnosis->members[i] == rank && diagnosis->expected[i] != entry->count) {
            end_with_counts(context, mine, rank, entry->count, (weft_type)entry->type, mine->rank,
                            diagnosis->expected[i], mine->type);
            return;
        }
    uint32_t next = 0;
    if (diagnosis->link_count < DIAGNOSIS_LINKS) {
        struct diagnosis_operation *link = &diagnosis->links[diagnosis->link_count++];
        *link = (struct diagnosis_operation){.rank = rank};
        if (entry)
            *link = operation_of(rank, entry);
        link->awaited = next = unasked(diagnosis);
    }
    if (next)
        return;
    struct diagnosis_operation theirs = diagnosis->links[1];
    if (clock_now() < diagnosis->patience) {
        /* They send what this rank expects: the other rank can say what it expects, and from which rank. */
        diagnosis->link_count = 1;
        diagnosis->ask_after = clock_now() + ASK_AGAIN;
        return;
    }
    size_t used = strlen(theirs.text);
    snprintf(theirs.text + used, sizeof theirs.text - used, " with other counts for other ranks");
    end_with_mismatch(context, mine, &theirs);
}

static bool same_but_for_counts(const struct diagnosis_operation *mine, const struct operation_entry *entry)
{
    return mine->collective == COLLECTIVE_ALLGATHERV && entry->collective == COLLECTIVE_ALLGATHERV &&
           entry->type == mine->type;
}

/*
 * Whether a log shows that its rank has not begun the other end of a message and never will. A log that has lost
 * entries shows it if it still has an earlier one of the same kind.
 */
static bool lacks_message(const struct diagnosis_operation *mine, const struct operation_log *log)
{
    const bool subset = mine->communicator & COMM_SUBSETS;
    bool complete = false;
    for (uint32_t i = 0; i < OPERATION_LOG_ENTRIES; i++) {
        const struct operation_entry *entry = &log->entries[i];
        uint64_t sequence = atomic_load_explicit(&entry->sequence, memory_order_relaxed);
        complete |= !sequence; /* a free entry: none has been overwritten */
        if (!sequence || entry->communicator != mine->communicator || entry->root != mine->member ||
            (entry->op == MESSAGE_SENT) == mine->sends)
            continue;
        if (subset ? entry->hash == mine->hash : sequence > mine->sequence)
            return false;
        complete |= !subset;
    }
    return complete;
}

/* The entry of a rank's departure from the communicator before this operation; or NULL. */
static const struct operation_entry *departure_before(const struct diagnosis *diagnosis,
                                                      const struct diagnosis_operation *waits,
                                                      const struct operation_log *log)
{
    const struct operation_entry *departure = operation_log_departure(log, waits->communicator & COMM_IDS);
    if (!departure)
        return NULL;
    if (waits->communicator & COMM_MESSAGES)
        return waits == &diagnosis->links[0] && lacks_message(waits, log) ? departure : NULL;
    return atomic_load_explicit(&departure->sequence, memory_order_relaxed) - 1 <= waits->sequence ? departure : NULL;
}

/* A rank has left the communicator of `waits`, or made another call there: end the job. False: neither. */
static bool end_with_deviation(weft_context *context, const struct diagnosis_operation *waits, uint32_t rank,
                               const struct operation_log *log)
{
    struct diagnosis *diagnosis = &context->diagnosis;
    const struct operation_entry *departure = departure_before(diagnosis, waits, log);
    const struct operation_entry *same = counterpart(context, waits, log);
    const bool differs = same && same->hash != waits->hash && !(waits->communicator & COMM_MESSAGES);
    if (!departure && !differs)
        return false;
    struct diagnosis_operation ours = *waits, theirs = {.rank = rank};
    if (same)
        theirs = operation_of(rank, same);
    const bool earlier = waits == &diagnosis->links[0] && first_disagreement(context, rank, log, &ours, &theirs) &&
                         ours.sequence < waits->sequence;
    if (departure && !earlier) {
        end_with_departure(context, waits, rank, departure);
    } else if (!earlier && diagnosis->link_count == 1 && same_but_for_counts(waits, same)) {
        atomic_store_explicit(&diagnosis->kind, DIAGNOSIS_MISMATCH, memory_order_release);
        compare_counts(context, rank, same);
    } else {
        end_with_mismatch(context, &ours, &theirs);
    }
    return true;
}

/* Ask the next member that has not been asked, if there is one. */
static void diagnosis_survey(struct diagnosis *diagnosis)
{
    uint32_t next = diagnosis->links[0].communicator & COMM_MESSAGES ? 0 : unasked(diagnosis);
    diagnosis->surveys = true;
    diagnosis->links[diagnosis->link_count - 1].awaited = next;
    if (!next)
        give_up_for_now(diagnosis);
}

/* The log of the rank that the last link waits for has arrived: go one step further along the chain. */
static void diagnosis_follow(weft_context *context, uint32_t rank, const struct operation_log *log)
{
    struct diagnosis *diagnosis = &context->diagnosis;
    const struct diagnosis_operation *last = &diagnosis->links[diagnosis->surveys ? 0 : diagnosis->link_count - 1];
    if (end_with_deviation(context, last, rank, log))
        return;
    const struct operation_entry *same = counterpart(context, last, log);
    const struct operation_entry *next = operation_log_blocking(log);
    if (same && same->hash == last->hash && same->phase == OPERATION_RUNNING)
        next = same;                                         /* it moves by itself, whatever else the rank waits for */
    const bool done = same && same->phase == OPERATION_DONE; /* its messages are on their way */
    if (diagnosis->link_count == DIAGNOSIS_LINKS || (!diagnosis->surveys && (done || !next || !next->awaited))) {
        give_up_for_now(diagnosis); /* it is computing, merely late */
        return;
    }
    struct diagnosis_operation *link = &diagnosis->links[diagnosis->link_count++];
    if (diagnosis->surveys) {
        *link = (struct diagnosis_operation){.rank = rank};
        diagnosis_survey(diagnosis);
        return;
    }
    *link = operation_of(rank, next);
    for (uint32_t i = 0; i + 1 < diagnosis->link_count; i++) {
        if (diagnosis->links[i].rank != link->awaited - 1)
            continue;
        /*
         * A cycle: true if it crosses operations and is the same at the next check. Ranks at different operations of
         * one communicator do not cross, because each takes them in order: the contribution of the rank that is ahead
         * is on its way, or lost.
         */
        bool crosses = false;
        const struct diagnosis_operation *other_list = NULL; /* of ranks that make a subset */
        uint64_t cycle = 0;
        const struct diagnosis_operation *first = &diagnosis->links[i];
        for (const struct diagnosis_operation *a = first; a < diagnosis->links + diagnosis->link_count; a++) {
            bool is_message = a->communicator & COMM_MESSAGES;
            crosses |= a->communicator != first->communicator || (is_message && a->sequence != first->sequence);
            if (a->communicator == first->communicator && a->communicator & COMM_SUBSETS && a->count != first->count)
                other_list = a;
            cycle = hash_number(a->sequence, hash_number((uint64_t)a->communicator << 32 | a->rank, cycle));
        }
        crosses |= other_list != NULL;
        if (crosses && cycle == diagnosis->seen && other_list) {
            struct diagnosis_operation other = *other_list;
            snprintf(other.text, sizeof other.text, "%s() with another list of ranks",
                     call_name(COLLECTIVES + CALL_SUBSET));
            end_with_mismatch(context, first, &other);
        } else if (crosses && cycle == diagnosis->seen)
            end_with_cycle(context, i);
        else if (crosses)
            give_up_for_now(diagnosis);
        else
            diagnosis_survey(diagnosis);
        diagnosis->seen = crosses ? cycle : 0;
        return;
    }
}

/*
 * Whether to ask another rank: the one that this one waits for, in this operation or an earlier one of the same
 * communicator. If two ranks wait for each other in different lanes, or this one is done, a third rank is missing, and
 * the others are asked in turn. If all have joined, the first one's answer is used.
 */
static bool diagnosis_pass_on(weft_context *context, uint32_t rank, const struct operation_log *log)
{
    struct diagnosis *diagnosis = &context->diagnosis;
    const struct diagnosis_operation *mine = &diagnosis->links[0];
    const struct operation_entry *same = log ? operation_log_find(log, mine->communicator, mine->sequence) : NULL;
    if (log && !same) {
        same = operation_log_blocking(log);
        if (same && same->communicator != mine->communicator)
            return false;
    }
    bool done = same && same->phase == OPERATION_DONE;
    if (!same || (!done && !same->awaited) || diagnosis->all_asked || diagnosis->link_count == DIAGNOSIS_LINKS)
        return false;
    struct diagnosis_operation *link = &diagnosis->links[diagnosis->link_count++];
    *link = operation_of(rank, same);
    if (!done && !is_linked(diagnosis, link->awaited - 1))
        return true;
    link->awaited = unasked(diagnosis);
    if (!link->awaited) {
        diagnosis->all_asked = true;
        diagnosis->link_count = 1;
    }
    return true;
}

/* In gatherv, scatterv and alltoallv a message has shown that two ranks disagree on their counts. */
static void end_with_message(weft_context *context, const struct diagnosis_operation *theirs)
{
    const struct diagnosis *diagnosis = &context->diagnosis;
    const struct diagnosis_operation *mine = &diagnosis->links[0];
    uint64_t here = diagnosis->message.bytes / weft_type_size(mine->type);
    uint64_t there = diagnosis->message.peer_bytes / weft_type_size(theirs->type);
    if (diagnosis->message.sends)
        end_with_counts(context, mine, mine->rank, here, mine->type, theirs->rank, there, theirs->type);
    else
        end_with_counts(context, mine, theirs->rank, there, theirs->type, mine->rank, here, mine->type);
}

static void conclude_mismatch(weft_context *context, uint32_t rank, const struct operation_log *log)
{
    const struct diagnosis *diagnosis = &context->diagnosis;
    const struct diagnosis_operation *mine = &diagnosis->links[0];
    const struct operation_entry *same = log ? counterpart(context, mine, log) : NULL;
    struct diagnosis_operation ours = *mine, theirs = {.rank = rank};
    const bool differ = log && first_disagreement(context, rank, log, &ours, &theirs);
    if (diagnosis->link_count > 1 || (same && ours.sequence == mine->sequence && same_but_for_counts(mine, same))) {
        compare_counts(context, rank, same);
        return;
    }
    if (!differ && same)
        theirs = operation_of(rank, same);
    if (!differ && same && diagnosis->message.known && same->hash == mine->hash &&
        collective_hides_sizes(mine->collective)) {
        end_with_message(context, &theirs);
        return;
    }
    if (!differ && !same && diagnosis->message.known)
        snprintf(theirs.text, sizeof theirs.text, "something else (a message of %" PRIu64 " bytes came)",
                 diagnosis->message.peer_bytes);
    else if (!differ && !same)
        snprintf(theirs.text, sizeof theirs.text, "something else, which it does not report");
    end_with_mismatch(context, &ours, &theirs);
}

static void diagnosis_conclude(weft_context *context, uint32_t rank, const struct operation_log *log)
{
    struct diagnosis *diagnosis = &context->diagnosis;
    const enum diagnosis_kind kind = (enum diagnosis_kind)atomic_load_explicit(&diagnosis->kind, memory_order_acquire);
    if (kind == DIAGNOSIS_MISMATCH)
        conclude_mismatch(context, rank, log);
    else if (kind == DIAGNOSIS_STUCK && log)
        diagnosis_follow(context, rank, log);
    else if (kind == DIAGNOSIS_STUCK)
        give_up_for_now(diagnosis);
    else if (kind != DIAGNOSIS_NONE && !diagnosis_pass_on(context, rank, log))
        (kind == DIAGNOSIS_LIMIT ? end_with_limit : warn_of_late)(context, log);
}

static void on_answer(void *argument, uint32_t rank, const struct operation_log *log)
{
    weft_context *context = argument;
    struct diagnosis *diagnosis = &context->diagnosis;
    if (!diagnosis->asking || rank != diagnosis->asked)
        return; /* an answer that came too late */
    diagnosis->asking = false;
    diagnosis_conclude(context, rank, log);
}

int diagnosis_progress(weft_context *context)
{
    struct diagnosis *diagnosis = &context->diagnosis;
    if (atomic_load_explicit(&diagnosis->kind, memory_order_acquire) == DIAGNOSIS_NONE)
        return -1;
    if (control_failed(context->control)) {
        atomic_store_explicit(&diagnosis->kind, DIAGNOSIS_NONE, memory_order_release);
        return -1;
    }
    if (!diagnosis->asking && clock_now() < diagnosis->ask_after)
        return (int)(ASK_AGAIN / 1000000);
    if (!diagnosis->asking) {
        diagnosis->asking = true;
        diagnosis->asked = diagnosis->links[diagnosis->link_count - 1].awaited - 1;
        diagnosis->asked_at = clock_now();
        control_ask_log(context->control, diagnosis->asked, on_answer, context);
    } else if (clock_now() - diagnosis->asked_at > ANSWER_LIMIT) {
        diagnosis->asking = false;
        diagnosis_conclude(context, diagnosis->asked, NULL);
    }
    return 100;
}

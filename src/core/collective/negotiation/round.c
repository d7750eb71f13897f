/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Rounds: ranks find out which operations all of them have submitted.
 *
 * First a bitwise "and" over a word of inverted flags and a bit for each known operation. Where a rank has news, ranks
 * then exchange the descriptions of what they have submitted and not announced before. All of them keep the same table
 * of announcements and draw the same conclusions from it, so that no rank coordinates the others.
 */
#include "core/collective/negotiation/internal/negotiator.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

/* Flags of a rank. Ranks learn whether any rank has them. */
#define HAS_NEWS 1u /* a submission that is not known, or a join */
#define CLOSES   2u
#define STALLS   4u /* announce everything that waits, so that the missing ranks are found */

#define FRUITLESS_MOST 10    /* times the pause of a cycle */
#define QUIET_SECONDS  0.001 /* until another look, while a thread wants no round to begin */

static bool is_known(const weft_operation *operation)
{
    return operation->entry->known && description_equal(operation->entry->known, operation->description);
}

static bool is_news(const weft_operation *operation, bool stalls)
{
    return !operation->announced && (stalls || !is_known(operation));
}

bool round_due(const weft_negotiator *negotiator, uint64_t *time)
{
    const bool waits = negotiator->first || negotiator->join;
    *time = clock_after(IDLE_SECONDS);
    if (negotiator->ended)
        return false;
    if (negotiator->quiet > 0) {
        *time = clock_after(QUIET_SECONDS);
        return false;
    }
    if (negotiator->closing || (waits && negotiator->fresh))
        return true;
    *time = waits ? negotiator->next_time : negotiator->last_round + (uint64_t)(IDLE_SECONDS * 1e9);
    return clock_now() >= *time;
}

/* ---- the end of a negotiator ---- */

static void pending_remove(weft_negotiator *negotiator, weft_operation *operation)
{
    *(operation->previous ? &operation->previous->next : &negotiator->first) = operation->next;
    *(operation->next ? &operation->next->previous : &negotiator->last) = operation->previous;
    operation->previous = operation->next = NULL;
}

/* Take an operation that has not run from the lists; NULL: there is none. Takes the lock. */
static weft_operation *pending_take(weft_negotiator *negotiator)
{
    pthread_mutex_lock(&negotiator->lock);
    weft_operation *operation = negotiator->first ? negotiator->first : negotiator->join;
    if (negotiator->first)
        pending_remove(negotiator, operation);
    else
        negotiator->join = NULL;
    pthread_mutex_unlock(&negotiator->lock);
    return operation;
}

/* Refuse what is submitted from now on, and fail everything that is unfinished. Takes the lock. */
static void negotiator_end(weft_negotiator *negotiator, const struct error *error)
{
    pthread_mutex_lock(&negotiator->lock);
    negotiator->failure = *error;
    negotiator->ended = true;
    pthread_mutex_unlock(&negotiator->lock);
    for (size_t i = 0; i < negotiator->ready_count; i++) {
        weft_operation *operation = negotiator->ready[i].operation;
        description_release(negotiator->ready[i].description);
        if (operation)
            operation_end(operation, error);
    }
    negotiator->ready_count = 0;
    for (weft_operation *operation; (operation = pending_take(negotiator));)
        operation_end(operation, error);
}

/* ---- what is ready ---- */

static weft_status ready_add(weft_negotiator *negotiator, struct description *description, weft_operation *operation,
                             struct error *error)
{
    if (ARRAY_RESERVE(negotiator->ready, negotiator->ready_room, negotiator->ready_count + 1, "operations", error) !=
        WEFT_OK)
        return error->status;
    negotiator->ready[negotiator->ready_count++] =
        (struct ready){description_keep(description), operation, negotiator->joined_count};
    if (operation)
        pending_remove(negotiator, operation);
    return WEFT_OK;
}

/* The known operations that all ranks have submitted, in the order of their numbers. Locked. */
static weft_status collect_known(weft_negotiator *negotiator, int words, struct error *error)
{
    for (int w = 0; w < words; w++)
        for (uint64_t bits = negotiator->bits[w + 1]; bits; bits &= bits - 1) {
            struct named_entry *entry = negotiator->names.known[w * 64 + __builtin_ctzll(bits)];
            weft_operation *operation = entry->operation;
            if (operation && !is_known(operation))
                operation = NULL; /* this rank has joined, and takes part for another reason */
            entry->used = negotiator->rounds;
            if (ready_add(negotiator, entry->known, operation, error) != WEFT_OK)
                return error->status;
        }
    return WEFT_OK;
}

/* ---- the first exchange ---- */

/* This rank's flags and bits; returns the number of words of bits. Locked. */
static int fill_bits(weft_negotiator *negotiator)
{
    const struct names *names = &negotiator->names;
    const int words = (names->known_end + 63) / 64;
    const bool stalls = stall_suspected(negotiator), joined = negotiator->joined[negotiator->rank];
    uint64_t flags = (negotiator->closing ? CLOSES : 0) | (stalls ? STALLS | HAS_NEWS : 0) |
                     (negotiator->join && !negotiator->join_announced ? HAS_NEWS : 0);
    memset(negotiator->bits, 0, (size_t)(words + 1) * sizeof *negotiator->bits);
    for (int i = 0; joined && i < names->known_end; i++)
        if (names->known[i])
            negotiator->bits[1 + i / 64] |= (uint64_t)1 << i % 64;
    for (const weft_operation *operation = negotiator->first; operation; operation = operation->next)
        if (operation->announced)
            continue;
        else if (is_known(operation))
            negotiator->bits[1 + operation->entry->number / 64] |= (uint64_t)1 << operation->entry->number % 64;
        else
            flags |= HAS_NEWS;
    negotiator->bits[0] = ~flags;
    return words;
}

/* ---- the second exchange ---- */

static void put_news_word(struct buffer *buffer, int64_t word)
{
    buffer_put(buffer, &word, sizeof word);
}

/* What this rank announces: whether it joins (then all that waits, known or not, since no round may follow), the number of operations; for each its age in nanoseconds, the sizes of
 * name and description, and both. Locked. */
static void put_news(weft_negotiator *negotiator, bool stalls, struct buffer *buffer)
{
    const bool joins = negotiator->join && !negotiator->join_announced;
    const uint64_t now = clock_now();
    int64_t count = 0;
    for (const weft_operation *operation = negotiator->first; operation; operation = operation->next)
        count += is_news(operation, stalls || joins);
    put_news_word(buffer, joins);
    put_news_word(buffer, count);
    if (joins)
        negotiator->join_announced = true;
    for (weft_operation *operation = negotiator->first; operation; operation = operation->next) {
        if (!is_news(operation, stalls || joins))
            continue;
        const struct description *description = operation->description;
        const size_t length = strlen(operation->entry->name), padding = -length % sizeof(int64_t);
        put_news_word(buffer, (int64_t)(now - operation->submitted));
        put_news_word(buffer, (int64_t)length);
        put_news_word(buffer, (int64_t)description->count);
        buffer_put(buffer, operation->entry->name, length);
        buffer_put(buffer, &(int64_t){0}, padding);
        buffer_put(buffer, description->words, description->count * sizeof *description->words);
        operation->announced = true;
    }
}

/* The news of all ranks, one after the other: rank r's begin at offsets[r], in words. */
struct news {
    int64_t *words;
    size_t *counts, *offsets;
};

static weft_status exchange_news(weft_negotiator *negotiator, struct buffer *own, struct news *news,
                                 struct error *error)
{
    const size_t ranks = (size_t)negotiator->ranks;
    uint64_t size = buffer_size(own) / sizeof(int64_t);
    size_t total = 0;
    news->counts = calloc(ranks, sizeof *news->counts);
    news->offsets = calloc(ranks + 1, sizeof *news->offsets);
    if (own->failed || !news->counts || !news->offsets)
        return error_memory(error, buffer_size(own) + ranks * 16, "descriptions of operations");
    weft_status status = weft_allgather(&size, news->counts, 1, WEFT_U64, negotiator->comm);
    if (status != WEFT_OK)
        return negotiation_error(negotiator, status, error);
    for (size_t r = 0; r < ranks; r++) {
        news->offsets[r] = total;
        total += news->counts[r];
    }
    news->offsets[ranks] = total;
    if (!(news->words = malloc(total * sizeof *news->words)))
        return error_memory(error, total * sizeof *news->words, "descriptions of operations");
    status = weft_allgatherv(buffer_begin(own), news->words, news->counts, NULL, WEFT_I64, negotiator->comm);
    return status == WEFT_OK ? WEFT_OK : negotiation_error(negotiator, status, error);
}

static weft_status read_announcement(weft_negotiator *negotiator, int rank, const int64_t **words, const int64_t *end,
                                     struct error *error)
{
    const int64_t *at = *words;
    if (end - at < 3 || at[0] < 0 || at[1] < 1 || at[2] < 0 || at[1] > (end - at - 3) * 8 ||
        at[2] > end - at - 3 - (at[1] + 7) / 8)
        return error_set(error, WEFT_ERROR_DATA, "rank %d announced an operation that is cut off", rank);
    const uint64_t now = clock_now(), age = (uint64_t)at[0];
    const size_t length = (size_t)at[1], count = (size_t)at[2];
    const char *name = (const char *)(at + 3);
    const int64_t *described = at + 3 + (length + 7) / 8;
    if (!description_is_whole(described, count))
        return error_set(error, WEFT_ERROR_DATA, "rank %d announced an operation that is not described well", rank);
    struct named_entry *entry = names_get(&negotiator->names, name, length, error);
    struct description *description = description_from(described, count);
    if (!entry || !description) {
        description_release(description);
        return error_memory(error, count * sizeof *described, "descriptions of operations");
    }
    names_forget(&negotiator->names, entry);
    *words = described + count;
    return names_announce(&negotiator->names, entry, rank, description, now > age ? now - age : 0, error);
}

/* Ranks that join and what ranks have announced, into the tables. Locked. */
static weft_status read_news(weft_negotiator *negotiator, const struct news *news, struct error *error)
{
    for (int r = 0; r < negotiator->ranks; r++) {
        const int64_t *words = news->words + news->offsets[r], *end = news->words + news->offsets[r + 1];
        if (end - words < 2)
            return error_set(error, WEFT_ERROR_DATA, "rank %d announced nothing readable", r);
        if (words[0] && !negotiator->joined[r]) {
            negotiator->joined[r] = true;
            negotiator->joined_count++;
            negotiator->last_joined = r;
        }
        int64_t count = words[1];
        words += 2;
        while (count-- > 0)
            if (read_announcement(negotiator, r, &words, end, error) != WEFT_OK)
                return error->status;
    }
    return WEFT_OK;
}

/* Whether all ranks that have not joined have announced it; *different: one whose description is not the first's. */
static bool all_announced(const weft_negotiator *negotiator, const struct named_entry *entry, int *first,
                          int *different)
{
    *first = *different = -1;
    for (int r = 0; r < negotiator->ranks; r++) {
        if (!entry->announced[r]) {
            if (!negotiator->joined[r])
                return false;
            continue;
        }
        if (*first < 0)
            *first = r;
        else if (*different < 0 && !description_equal(entry->announced[*first], entry->announced[r]))
            *different = r;
    }
    return true;
}

static void set_mismatch(const struct named_entry *entry, int first, int different, struct error *error)
{
    struct buffer text = {0};
    buffer_print(&text, "ranks disagree about '%s': rank %d calls ", entry->name, first);
    description_print(entry->announced[first], &text);
    buffer_print(&text, ", rank %d calls ", different);
    description_print(entry->announced[different], &text);
    buffer_put_string(&text, "; give different operations different names");
    const char *message = buffer_string(&text);
    error_set(error, WEFT_ERROR_MISMATCH, "%s", message ? message : "ranks disagree about an operation");
    buffer_free(&text);
}

/* The announced operations that are complete, in order. Locked; not while an operation ends. */
static weft_status collect_announced(weft_negotiator *negotiator, struct error *error)
{
    struct names *names = &negotiator->names;
    for (size_t i = 0; i < names->announced_count;) {
        struct named_entry *entry = names->announced[i];
        int first, different;
        if (!all_announced(negotiator, entry, &first, &different)) {
            i++;
            continue;
        }
        /* The operation that this rank announced; one of this name that it submitted later is not known yet. */
        weft_operation *operation = entry->announced[negotiator->rank] ? entry->operation : NULL;
        if (different >= 0) {
            struct error mismatch = {0};
            set_mismatch(entry, first, different, &mismatch);
            if (operation) {
                pending_remove(negotiator, operation);
                names_withdraw(names, i);
                pthread_mutex_unlock(&negotiator->lock);
                operation_end(operation, &mismatch);
                pthread_mutex_lock(&negotiator->lock);
            } else {
                names_withdraw(names, i);
                names_drop_unused(names, entry);
            }
            continue;
        }
        struct description *description = description_keep(entry->announced[first]);
        weft_status status = ready_add(negotiator, description, operation, error);
        names_withdraw(names, i);
        if (status == WEFT_OK)
            names_learn(names, entry, description, negotiator->rounds);
        names_drop_unused(names, entry);
        description_release(description);
        if (status != WEFT_OK)
            return status;
    }
    return WEFT_OK;
}

/* All ranks have joined: the join ends, and everything is as before. Takes the lock. */
static void end_join(weft_negotiator *negotiator)
{
    pthread_mutex_lock(&negotiator->lock);
    weft_operation *join = negotiator->join;
    negotiator->join = NULL;
    negotiator->join_announced = false;
    negotiator->joined_count = 0;
    memset(negotiator->joined, 0, (size_t)negotiator->ranks * sizeof *negotiator->joined);
    pthread_mutex_unlock(&negotiator->lock);
    if (!join)
        return;
    join->last_joined = negotiator->last_joined;
    operation_end(join, NULL);
}

static weft_status learn_news(weft_negotiator *negotiator, bool stalls, struct error *error)
{
    struct buffer own = {0};
    struct news news = {0};
    pthread_mutex_lock(&negotiator->lock);
    put_news(negotiator, stalls, &own);
    pthread_mutex_unlock(&negotiator->lock);
    weft_status status = exchange_news(negotiator, &own, &news, error);
    if (status == WEFT_OK) {
        pthread_mutex_lock(&negotiator->lock);
        status = read_news(negotiator, &news, error);
        if (status == WEFT_OK)
            status = collect_announced(negotiator, error);
        pthread_mutex_unlock(&negotiator->lock);
    }
    buffer_free(&own);
    free(news.words);
    free(news.counts);
    free(news.offsets);
    return status;
}

/* ---- a round ---- */

static weft_status round_take(weft_negotiator *negotiator, int words, struct error *error)
{
    weft_status status = weft_allreduce(negotiator->bits, negotiator->bits, (size_t)words + 1, WEFT_U64,
                                        WEFT_BITWISE_AND, negotiator->comm);
    if (status != WEFT_OK)
        return negotiation_error(negotiator, status, error);
    const uint64_t flags = ~negotiator->bits[0];
    if (flags & CLOSES)
        return negotiator->stalled.status != WEFT_OK
                   ? error_set(error, negotiator->stalled.status, "%s", negotiator->stalled.text)
                   : error_set(
                         error, WEFT_ERROR_STATE,
                         "the negotiator was closed by this rank or another one, or by rank 0 because operations have "
                         "waited for too long, which it then says");
    pthread_mutex_lock(&negotiator->lock);
    status = collect_known(negotiator, words, error);
    pthread_mutex_unlock(&negotiator->lock);
    if (status == WEFT_OK && flags & HAS_NEWS)
        status = learn_news(negotiator, (flags & STALLS) != 0, error);
    if (status == WEFT_OK)
        status = execute_ready(negotiator, error);
    if (status == WEFT_OK && negotiator->joined_count == negotiator->ranks)
        end_join(negotiator);
    return status;
}

void round_run(weft_negotiator *negotiator)
{
    struct error error;
    error_clear(&error);
    negotiator->driving = true;
    negotiator->fresh = false;
    negotiator->rounds++;
    timeline_mark_round(&negotiator->timeline);
    const int words = fill_bits(negotiator);
    pthread_mutex_unlock(&negotiator->lock);
    const weft_status status = round_take(negotiator, words, &error);
    bool fruitful = negotiator->ready_count > 0;
    if (status == WEFT_ERROR_MEMORY || status == WEFT_ERROR_DATA || status == WEFT_ERROR_ARGUMENT)
        weft_abort(negotiator->context, error.text); /* this rank's failure alone: the others would wait for it */
    if (status != WEFT_OK)
        negotiator_end(negotiator, &error);
    negotiator->ready_count = 0;
    pthread_mutex_lock(&negotiator->lock);
    if (status == WEFT_OK && !stall_check(negotiator))
        negotiator->closing = true;
    timeline_complete(&negotiator->timeline);
    negotiator->fruitless = fruitful ? 0 : negotiator->fruitless + 1;
    const uint32_t pauses = negotiator->fruitless < FRUITLESS_MOST ? negotiator->fruitless : FRUITLESS_MOST;
    negotiator->last_round = clock_now();
    negotiator->next_time = negotiator->last_round + (uint64_t)(negotiator->config.cycle_seconds * 1e9 * pauses);
    negotiator->driving = false;
    pthread_cond_broadcast(&negotiator->changed);
}

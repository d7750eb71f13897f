/* SPDX-License-Identifier: Apache-2.0 */
#include "core/collective/diagnosis/operation_log.h"

#include "base/clock.h"
#include "core/collective/call.h"
#include "core/collective/communicator/comm.h"
#include "core/collective/internal/execution.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#define SET(place, value) __atomic_store_n(&(place), (value), __ATOMIC_RELAXED)

struct operation_entry *operation_log_add(struct operation_log *log, const weft_comm *comm, const struct call *call,
                                          uint64_t sequence, uint64_t tag)
{
    uint64_t number = atomic_load_explicit(&log->next, memory_order_relaxed);
    struct operation_entry *entry = &log->entries[number % OPERATION_LOG_ENTRIES];
    bool is_message = call->collective == COLLECTIVE_SENDRECEIVE, sends = call->root == comm->rank;
    atomic_store_explicit(&entry->sequence, 0, memory_order_relaxed);
    atomic_thread_fence(memory_order_release);
    SET(entry->communicator, comm_match_id(comm, call));
    SET(entry->collective, call_code(call));
    SET(entry->type, (uint8_t)call->type);
    SET(entry->op, (uint8_t)(!is_message ? call->op.kind : sends ? MESSAGE_SENT : MESSAGE_RECEIVED));
    SET(entry->phase, (uint8_t)OPERATION_QUEUED);
    SET(entry->root, is_message && sends ? call->peer : call->root);
    SET(entry->count, call->vectors || call->subset ? call_given_count(call, comm->rank, comm->size) : call->count);
    SET(entry->hash, tag);
    atomic_store_explicit(&entry->awaited, 0, memory_order_relaxed);
    SET(entry->started, clock_ticks());
    atomic_store_explicit(&entry->sequence, sequence + 1, memory_order_release);
    atomic_store_explicit(&log->next, number + 1, memory_order_release);
    return entry;
}

void operation_log_progress(struct operation_log *log, const char *doing, int64_t number)
{
    union {
        uint64_t words[OPERATION_DOING_WORDS];
        char text[OPERATION_DOING_WORDS * sizeof(uint64_t)];
    } kept = {0};
    for (size_t i = 0; i + 1 < sizeof kept.text && doing[i]; i++)
        kept.text[i] = doing[i];
    for (int i = 0; i < OPERATION_DOING_WORDS; i++)
        atomic_store_explicit(&log->doing[i], kept.words[i], memory_order_relaxed);
    atomic_store_explicit(&log->doing_number, number, memory_order_relaxed);
    atomic_fetch_add_explicit(&log->progress, 1, memory_order_release);
}

/* The arguments of the last weft_progress(), printable whatever is in the log: "" or ", last in forward of layer 3". */
static char *operation_log_doing(const struct operation_log *log, char *text, size_t size)
{
    union {
        uint64_t words[OPERATION_DOING_WORDS];
        char text[OPERATION_DOING_WORDS * sizeof(uint64_t)];
    } kept;
    const int64_t number = atomic_load_explicit(&log->doing_number, memory_order_relaxed);
    for (int i = 0; i < OPERATION_DOING_WORDS; i++)
        kept.words[i] = atomic_load_explicit(&log->doing[i], memory_order_relaxed);
    kept.text[sizeof kept.text - 1] = '\0';
    for (char *at = kept.text; *at; at++)
        if (*at < ' ' || *at > '~')
            *at = '?';
    snprintf(text, size, "%s%s", *kept.text ? ", last in " : "", kept.text);
    const size_t used = strlen(text);
    if (*kept.text && number >= 0)
        snprintf(text + used, size - used, " %" PRId64, number);
    return text;
}

void operation_log_end(struct operation_entry *entry)
{
    SET(entry->phase, (uint8_t)OPERATION_DONE);
}

void operation_log_clear(struct operation_log *log)
{
    for (uint32_t i = 0; i < OPERATION_LOG_ENTRIES; i++)
        atomic_store_explicit(&log->entries[i].sequence, 0, memory_order_relaxed);
}

static bool is_still(const struct weft_request *request)
{
    const struct operation_entry *entry = request->log;
    return entry && entry->hash == request->tag &&
           atomic_load_explicit(&entry->sequence, memory_order_relaxed) == request->sequence + 1;
}

void operation_log_phase(const struct weft_request *request, enum operation_phase phase)
{
    if (is_still(request))
        SET(request->log->phase, (uint8_t)phase);
}

void operation_log_await(const struct weft_request *request, uint32_t world_rank, uint64_t since)
{
    if (!is_still(request))
        return;
    SET(request->log->since, since);
    atomic_store_explicit(&request->log->awaited, world_rank + 1, memory_order_release);
}

void operation_log_move(const struct weft_request *request)
{
    if (is_still(request))
        atomic_store_explicit(&request->log->awaited, 0, memory_order_relaxed);
}

const struct operation_entry *operation_log_find(const struct operation_log *log, uint32_t id, uint64_t sequence)
{
    const struct operation_entry *found = NULL;
    for (uint32_t i = 0; i < OPERATION_LOG_ENTRIES; i++)
        if (log->entries[i].sequence == sequence + 1 && log->entries[i].communicator == id &&
            (!found || log->entries[i].phase != OPERATION_DONE))
            found = &log->entries[i];
    return found;
}

const struct operation_entry *operation_log_departure(const struct operation_log *log, uint32_t id)
{
    for (uint32_t i = 0; i < OPERATION_LOG_ENTRIES; i++)
        if (log->entries[i].sequence && log->entries[i].communicator == id &&
            call_is_departure(log->entries[i].collective))
            return &log->entries[i];
    return NULL;
}

/* The entries from the newest to the oldest. */
static const struct operation_entry *entry_back(const struct operation_log *log, uint32_t back)
{
    uint64_t next = log->next;
    if (back >= OPERATION_LOG_ENTRIES || back >= next)
        return NULL;
    return &log->entries[(next - 1 - back) % OPERATION_LOG_ENTRIES];
}

const struct operation_entry *operation_log_blocking(const struct operation_log *log)
{
    const struct operation_entry *entry, *oldest = NULL;
    for (uint32_t back = 0; (entry = entry_back(log, back)); back++)
        if (entry->sequence && entry->phase == OPERATION_BLOCKING)
            oldest = entry;
    return oldest;
}

const struct operation_entry *operation_log_current(const struct operation_log *log)
{
    const struct operation_entry *entry, *oldest = NULL;
    for (uint32_t back = 0; (entry = entry_back(log, back)); back++)
        if (entry->sequence && entry->phase != OPERATION_DONE)
            oldest = entry;
    return oldest;
}

char *operation_place_name(uint32_t communicator, uint64_t sequence, char *text, size_t size)
{
    char name[COMM_NAME_BYTES];
    const char *kind = communicator & COMM_SUBSETS ? "subset" : communicator & COMM_MESSAGES ? "message" : "operation";
    snprintf(text, size, "%s %" PRIu64 " of %s", kind, sequence, comm_name(communicator & COMM_IDS, name, sizeof name));
    return text;
}

char *operation_log_describe(const struct operation_log *log, char *text, size_t size)
{
    const struct operation_entry *entry = operation_log_blocking(log);
    const char *verb = "blocked in";
    char call[OPERATION_TEXT_BYTES], place[128], whom[48] = "", doing[128] = "";
    if (!entry)
        operation_log_doing(log, doing, sizeof doing);
    if (!entry) {
        entry = operation_log_current(log);
        verb = "computing, with under way";
    }
    if (!entry) {
        entry = entry_back(log, 0);
        verb = "computing since";
    }
    if (!entry || !entry->sequence) {
        snprintf(text, size, "%s%s", *doing ? "computing" : "", doing);
        return text;
    }
    if (entry->awaited && entry->phase != OPERATION_DONE)
        snprintf(whom, sizeof whom, ", waiting for rank %u", entry->awaited - 1);
    snprintf(text, size, "%s %s (%s)%s%s", verb, call_describe(entry, call, sizeof call),
             operation_place_name(entry->communicator, entry->sequence - 1, place, sizeof place), whom, doing);
    return text;
}

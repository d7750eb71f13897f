/* SPDX-License-Identifier: Apache-2.0 */
#include "core/collective/internal/schedule_cache.h"

#include "base/hash.h"
#include "core/collective/communicator/comm.h"
#include "core/collective/internal/exchange.h"
#include "core/collective/internal/loaded_schedules.h"
#include "core/collective/tuner/tuner.h"

#include <stdlib.h>
#include <string.h>

/* Blocks of this size travel in the lines of flags. */
static uint64_t line_bytes(const weft_comm *comm, enum collective collective)
{
    return SCHEDULE_LINE_BYTES / collective_widest_input(collective, comm->size);
}

static uint8_t schedule_cache_class_of(const weft_comm *comm, enum collective collective, uint64_t bytes)
{
    if (bytes <= line_bytes(comm, collective))
        return 0;
    return bytes <= 8 ? 3 : (uint8_t)(64 - __builtin_clzll(bytes - 1));
}

static uint64_t schedule_class_bytes(const weft_comm *comm, enum collective collective, uint8_t size_class)
{
    if (!size_class)
        return line_bytes(comm, collective);
    return size_class < 63 ? (uint64_t)1 << size_class : INT64_MAX;
}

struct schedule_shape schedule_shape_of(const weft_comm *comm, const struct schedule_key *key)
{
    return (struct schedule_shape){.collective = (enum collective)key->collective,
                                   .ranks = comm->size,
                                   .root = key->root,
                                   .peer = key->peer,
                                   .nodes = comm->node_count > 1 ? comm->nodes : NULL,
                                   .above = {comm->above[0], comm->above[1]},
                                   .reproducible = key->reproducible,
                                   .in_place = key->in_place,
                                   .block_bytes =
                                       schedule_class_bytes(comm, (enum collective)key->collective, key->size_class)};
}

/* ---- one block of memory ---- */

/*
 * Four sums of products side by side over the words of the block, whose number is a multiple of 8: nanoseconds for a
 * tiny schedule. Each word is multiplied by its own odd number, so a change of any one word changes the sum.
 */
static uint64_t checksum_of(const struct schedule_entry *entry)
{
    typedef uint64_t word __attribute__((may_alias));
    const word *words = (const word *)(const void *)entry->schedule;
    uint64_t sums[4] = {1, 2, 3, 4}, factor = 0x9e3779b97f4a7c15u;
    for (uint64_t i = 0; i < entry->bytes / sizeof *words; i += 4, factor += 0x6a09e667f3bcc908u)
        for (uint32_t k = 0; k < 4; k++)
            sums[k] += words[i + k] * (factor + 2 * k);
    return sums[0] ^ sums[1] << 16 ^ sums[1] >> 48 ^ sums[2] << 32 ^ sums[2] >> 32 ^ sums[3] << 48 ^ sums[3] >> 16;
}

/* Copy a generated schedule into a block of its own, so that one checksum covers all of it. */
static weft_status schedule_cache_keep(struct schedule_entry *entry, const struct schedule *schedule,
                                       struct error *error)
{
    uint32_t members = 0;
    for (uint32_t g = 0; g < schedule->group_count; g++)
        if (schedule->groups[g].first + schedule->groups[g].count > members)
            members = schedule->groups[g].first + schedule->groups[g].count;
    uint64_t steps_at = (sizeof *schedule + 31) & ~(uint64_t)31;
    uint64_t groups_at = steps_at + schedule->step_count * sizeof *schedule->steps;
    uint64_t members_at = groups_at + schedule->group_count * sizeof *schedule->groups;
    entry->bytes = (members_at + members * sizeof *schedule->members + 63) & ~(uint64_t)63;
    char *block = aligned_alloc(64, entry->bytes);
    if (!block)
        return error_memory(error, entry->bytes, "a schedule");
    memset(block, 0, entry->bytes);
    struct schedule *kept = (struct schedule *)block;
    *kept = *schedule;
    kept->steps = (struct step *)(block + steps_at);
    kept->groups = (struct schedule_group *)(block + groups_at);
    kept->members = (uint32_t *)(block + members_at);
    if (schedule->step_count)
        memcpy(kept->steps, schedule->steps, schedule->step_count * sizeof *schedule->steps);
    if (schedule->group_count)
        memcpy(kept->groups, schedule->groups, schedule->group_count * sizeof *schedule->groups);
    if (members)
        memcpy(kept->members, schedule->members, members * sizeof *schedule->members);
    entry->schedule = kept;
    entry->checksum = checksum_of(entry);
    return WEFT_OK;
}

/* ---- derived data for the executor ---- */

/* Whether lane 0 signals all ranks without waiting for any first, at least in the first iteration. */
static bool signals_first(const struct schedule *schedule)
{
    for (uint32_t i = 0; i < schedule->lane_first[1]; i++) {
        const struct step *step = &schedule->steps[i];
        if (step->wait_steps && !step->wait_lag)
            return false;
        if (step->kind == STEP_SIGNAL)
            return true;
        if (step->kind != STEP_EXPOSE && (step->kind != STEP_COPY || step->chunks))
            return false;
    }
    return false;
}

static weft_status schedule_cache_survey(struct schedule_entry *entry, struct error *error)
{
    const struct schedule *schedule = entry->schedule;
    entry->signals_first = schedule->lane_count && signals_first(schedule);
    for (uint32_t lane = 0; lane < schedule->lane_count; lane++)
        for (uint32_t i = schedule->lane_first[lane]; i < schedule->lane_first[lane + 1]; i++) {
            const struct step *step = &schedule->steps[i];
            entry->uses_shm |= step->kind >= STEP_EXPOSE;
            entry->exchanges |= step->kind == STEP_EXCHANGE;
            entry->exposes |= step->kind == STEP_EXPOSE;
            if ((step->kind == STEP_SPREAD || step->kind == STEP_REDUCE_SPREAD) &&
                step->target_chunk / schedule->parts >= entry->spread_blocks)
                entry->spread_blocks = step->target_chunk / schedule->parts + 1;
            if (step->kind == STEP_REDUCE && step->operands > schedule->ranks)
                return error_set(
                    error, WEFT_ERROR_SCHEDULE, "step %u of the schedule of %s by %s sums %u chunks, with %u ranks", i,
                    collective_name(schedule->collective), schedule->algorithm, step->operands, schedule->ranks);
            if (step->kind == STEP_RECEIVE_REDUCE && step->chunks > entry->arrival_chunks[lane])
                entry->arrival_chunks[lane] = step->chunks;
        }
    return WEFT_OK;
}

/* The schedule of this rank: by a loaded schedule, the algorithm asked for, or the tuner's choice. */
static weft_status schedule_cache_generate(weft_comm *comm, const struct schedule_key *key, struct schedule **schedule,
                                           bool *shm, struct error *error)
{
    const struct schedule_shape shape = schedule_shape_of(comm, key);
    if (key->algorithm >= SCHEDULE_KEY_LOADED)
        return loaded_schedules_of_rank(&comm->loaded, key->algorithm - SCHEDULE_KEY_LOADED, &shape, comm->rank,
                                        schedule, shm, error);
    size_t count;
    const struct algorithm *algorithms = algorithms_of(shape.collective, &count), *algorithm = NULL;
    weft_status status = comm_check_present(comm, error);
    if (status != WEFT_OK)
        return status;
    if (key->algorithm)
        algorithm = &algorithms[key->algorithm - 1];
    else
        status = tuner_choose(comm, &shape, &algorithm, NULL, error);
    return status == WEFT_OK ? schedule_generate(algorithm, &shape, comm->rank, schedule, error) : status;
}

static weft_status schedule_cache_make(weft_comm *comm, const struct schedule_key *key, struct schedule_entry **result,
                                       struct error *error)
{
    struct schedule *schedule = NULL;
    bool shm = false; /* of any rank: all count the operation among those through shared memory, or none does */
    weft_status status = schedule_cache_generate(comm, key, &schedule, &shm, error);
    if (status != WEFT_OK)
        return status;
    struct schedule_entry *entry = calloc(1, sizeof *entry);
    if (!entry)
        status = error_memory(error, sizeof *entry, "a schedule");
    if (status == WEFT_OK)
        status = schedule_check(schedule, error);
    if (status == WEFT_OK)
        status = schedule_cache_keep(entry, schedule, error);
    if (status == WEFT_OK)
        status = schedule_cache_survey(entry, error);
    if (entry)
        entry->uses_shm |= shm;
    schedule_free(schedule);
    if (status != WEFT_OK) {
        if (entry)
            free(entry->schedule);
        free(entry);
        return status;
    }
    entry->key = *key;
    entry->most_block_bytes = entry->schedule->most_block_bytes;
    *result = entry;
    return WEFT_OK;
}

/* ---- finding ---- */

static inline struct schedule_key_words words_of(struct schedule_key key)
{
    return (struct schedule_key_words){(uint64_t)key.collective | (uint64_t)key.size_class << 8 |
                                           (uint64_t)key.in_place << 16 | (uint64_t)key.reproducible << 24 |
                                           (uint64_t)key.algorithm << 32,
                                       (uint64_t)key.root | (uint64_t)key.peer << 32};
}

static inline bool is_for(const struct schedule_entry *entry, struct schedule_key_words words)
{
    return entry->words.what == words.what && entry->words.who == words.who;
}

static inline struct schedule_key key_of(const weft_comm *comm, const struct call *call, uint64_t block_bytes)
{
    struct schedule_key key = {.collective = (uint8_t)call->collective,
                               .size_class = schedule_cache_class_of(comm, call->collective, block_bytes),
                               .reproducible = comm->reproducible};
    if (call->collective == COLLECTIVE_ALLTOALL)
        key.in_place = call->input == call->output;
    if (collective_is_rooted(call->collective))
        key.root = call->root;
    if (call->collective == COLLECTIVE_SENDRECEIVE) {
        key.root = call->root;
        key.peer = call->peer;
        key.size_class = 0;
    }
    const struct algorithm *wanted = comm->override[call->collective];
    size_t count;
    if (wanted)
        key.algorithm = (uint32_t)(wanted - algorithms_of(call->collective, &count)) + 1;
    const struct loaded_schedule *loaded = comm->loaded.chosen[call->collective];
    if (loaded) { /* one schedule for all sizes */
        key.algorithm = SCHEDULE_KEY_LOADED + loaded->number;
        key.size_class = 0;
    }
    return key;
}

weft_status schedule_cache_find(weft_comm *comm, const struct call *call, uint64_t block_bytes,
                                struct schedule_entry **result, struct error *error)
{
    struct schedule_cache *cache = &comm->schedules;
    const struct schedule_key key = key_of(comm, call, block_bytes);
    const struct schedule_key_words words = words_of(key);
    struct schedule_entry *entry = cache->last;
    if (!entry || !is_for(entry, words)) {
        uint64_t hash = hash_number(words.who, words.what);
        struct schedule_entry **bucket = &cache->buckets[hash % SCHEDULE_CACHE_BUCKETS];
        for (entry = *bucket; entry && !is_for(entry, words); entry = entry->next)
            ;
        if (!entry) {
            weft_status status = schedule_cache_make(comm, &key, &entry, error);
            if (status != WEFT_OK)
                return status;
            entry->words = words;
            entry->next = *bucket;
            *bucket = entry;
        }
        cache->last = entry;
    }
    *result = entry;
    return WEFT_OK;
}

weft_status schedule_entry_verify(const struct schedule_entry *entry, const weft_comm *comm, struct error *error)
{
    if (checksum_of(entry) == entry->checksum)
        return WEFT_OK;
    return error_set(error, WEFT_ERROR_SCHEDULE,
                     "the cached schedule of %s on %s has changed since it was made: memory of this process has been "
                     "overwritten; it was not executed",
                     collective_name((enum collective)entry->key.collective), comm->name);
}

/* ---- the last call ---- */

static inline bool is_as_last(const struct schedule_entry *entry, const struct call *call)
{
    const struct schedule_usage *usage = &entry->usage;
    return usage->known && usage->count == call->count && usage->type == call->type && usage->op == call->op.kind &&
           usage->factor == call->op.factor;
}

/* The schedule of the last call, if this one is the same and its buffers need no closer look; NULL otherwise. */
static struct schedule_entry *repeated(const weft_comm *comm, const struct call *call)
{
    struct schedule_entry *entry = comm->schedules.last;
    if (!entry || entry->key.collective != call->collective || entry->key.root != call->root || call->vectors ||
        call->collective == COLLECTIVE_SENDRECEIVE || !is_as_last(entry, call))
        return NULL;
    const uint64_t input = (uint64_t)(uintptr_t)call->input, output = (uint64_t)(uintptr_t)call->output;
    const uint64_t input_bytes = entry->usage.input_bytes, output_bytes = entry->usage.output_bytes;
    if ((!input && input_bytes) || (!output && output_bytes))
        return NULL;
    if (entry->key.collective == COLLECTIVE_ALLREDUCE && input == output)
        return entry;
    if (entry->key.collective == COLLECTIVE_ALLTOALL && entry->key.in_place)
        return NULL;
    bool apart = input + input_bytes <= output || output + output_bytes <= input;
    return apart || entry->key.collective == COLLECTIVE_BROADCAST ? entry : NULL;
}

/* Note `call` as the last one served, unless it is already. */
static void schedule_entry_use(struct schedule_entry *entry, const struct call *call)
{
    const struct schedule *schedule = entry->schedule;
    struct schedule_usage *usage = &entry->usage;
    if (is_as_last(entry, call))
        return;
    usage->known = !call->vectors;
    usage->count = call->count;
    usage->type = (uint8_t)call->type;
    usage->op = (uint8_t)call->op.kind;
    usage->factor = call->op.factor;
    usage->hash = hash_number(call->count, schedule->hash);
    /* Where only ranks that exchange something must agree on the type, each message carries its own. */
    const uint64_t type = collective_hides_sizes(call->collective) ? 0 : usage->type;
    usage->hash = hash_number(((uint64_t)entry->key.collective << 16) | type << 8 | usage->op, usage->hash);
    usage->hash = hash_bytes(&usage->factor, sizeof usage->factor, usage->hash);
    usage->block_bytes = call->count * weft_type_size(call->type);
    usage->input_bytes = schedule->input_blocks * usage->block_bytes;
    usage->output_bytes = schedule->output_blocks * usage->block_bytes;
    usage->room = exchange_room(schedule, usage->block_bytes);
    usage->finish = reduction_finish_of(call->type, call->op, schedule->ranks);
    usage->finishes = collective_reduces(call->collective) && usage->finish.kind != REDUCTION_FINISH_NONE;
}

weft_status schedule_cache_serve(weft_comm *comm, const struct call *call, struct schedule_entry **entry,
                                 struct error *error)
{
    struct schedule_entry *last = repeated(comm, call);
    if (last) {
        *entry = last;
        return WEFT_OK;
    }
    weft_status status = call_check(call, comm->rank, comm->size, error);
    if (status == WEFT_OK)
        status = schedule_cache_find(comm, call, call_block_bytes(call, comm->size), entry, error);
    if (status == WEFT_OK)
        schedule_entry_use(*entry, call);
    return status;
}

uint64_t schedule_entry_tag(struct schedule_entry *entry, const struct call *call, uint64_t sequence, uint64_t before)
{
    schedule_entry_use(entry, call);
    uint64_t hash = entry->usage.hash;
    if (call->collective == COLLECTIVE_ALLGATHERV)
        hash = hash_bytes(call->vectors->output_counts, entry->schedule->ranks * sizeof *call->vectors->output_counts,
                          hash);
    if (call->purpose)
        hash = hash_number(call->subset ? call->subset->members : 0, hash_number(call->purpose, hash));
    /* One round of multiplication spreads the sequence number over the word. */
    uint64_t mixed = (hash ^ sequence ^ before) * 0x9e3779b97f4a7c15u;
    return mixed ^ mixed >> 32;
}

void schedule_cache_free(struct schedule_cache *cache)
{
    for (uint32_t i = 0; i < SCHEDULE_CACHE_BUCKETS; i++)
        for (struct schedule_entry *entry = cache->buckets[i], *next; entry; entry = next) {
            next = entry->next;
            free(entry->schedule);
            free(entry);
        }
    *cache = (struct schedule_cache){0};
}

/* SPDX-License-Identifier: Apache-2.0 */
#include "core/collective/internal/plan_cache.h"

#include "base/hash.h"
#include "core/collective/communicator/comm.h"
#include "core/collective/internal/exchange.h"
#include "core/collective/internal/schedules.h"
#include "core/collective/tuner/tuner.h"

#include <stdlib.h>
#include <string.h>

/* Blocks of this size travel in the lines of flags. */
static uint64_t line_bytes(const weft_comm *comm, enum collective collective)
{
    return PLAN_LINE_BYTES / collective_widest_input(collective, comm->size);
}

static uint8_t plan_cache_class_of(const weft_comm *comm, enum collective collective, uint64_t bytes)
{
    if (bytes <= line_bytes(comm, collective))
        return 0;
    return bytes <= 8 ? 3 : (uint8_t)(64 - __builtin_clzll(bytes - 1));
}

uint64_t plan_class_bytes(const weft_comm *comm, enum collective collective, uint8_t size_class)
{
    if (!size_class)
        return line_bytes(comm, collective);
    return size_class < 63 ? (uint64_t)1 << size_class : INT64_MAX;
}

struct plan_shape plan_shape_of(const weft_comm *comm, const struct plan_key *key)
{
    return (struct plan_shape){.collective = (enum collective)key->collective,
                               .ranks = comm->size,
                               .root = key->root,
                               .peer = key->peer,
                               .nodes = comm->node_count > 1 ? comm->nodes : NULL,
                               .above = {comm->above[0], comm->above[1]},
                               .reproducible = key->reproducible,
                               .in_place = key->in_place,
                               .block_bytes =
                                   plan_class_bytes(comm, (enum collective)key->collective, key->size_class)};
}

/* ---- one block of memory ---- */

/*
 * Four sums of products side by side over the words of the block, whose number is a multiple of 8: nanoseconds for a
 * tiny plan. Each word is multiplied by an odd number of its own, so any word that changes changes the sum.
 */
static uint64_t checksum_of(const struct plan_entry *entry)
{
    typedef uint64_t word __attribute__((may_alias));
    const word *words = (const word *)(const void *)entry->plan;
    uint64_t sums[4] = {1, 2, 3, 4}, factor = 0x9e3779b97f4a7c15u;
    for (uint64_t i = 0; i < entry->bytes / sizeof *words; i += 4, factor += 0x6a09e667f3bcc908u)
        for (uint32_t k = 0; k < 4; k++)
            sums[k] += words[i + k] * (factor + 2 * k);
    return sums[0] ^ sums[1] << 16 ^ sums[1] >> 48 ^ sums[2] << 32 ^ sums[2] >> 32 ^ sums[3] << 48 ^ sums[3] >> 16;
}

/* Copy a generated plan into a block of its own, so that one checksum covers all of it. */
static weft_status plan_cache_keep(struct plan_entry *entry, const struct plan *plan, struct error *error)
{
    uint32_t members = 0;
    for (uint32_t g = 0; g < plan->group_count; g++)
        if (plan->groups[g].first + plan->groups[g].count > members)
            members = plan->groups[g].first + plan->groups[g].count;
    uint64_t steps_at = (sizeof *plan + 31) & ~(uint64_t)31;
    uint64_t groups_at = steps_at + plan->step_count * sizeof *plan->steps;
    uint64_t members_at = groups_at + plan->group_count * sizeof *plan->groups;
    entry->bytes = (members_at + members * sizeof *plan->members + 63) & ~(uint64_t)63;
    char *block = aligned_alloc(64, entry->bytes);
    if (!block)
        return error_memory(error, entry->bytes, "a plan");
    memset(block, 0, entry->bytes);
    struct plan *kept = (struct plan *)block;
    *kept = *plan;
    kept->steps = (struct step *)(block + steps_at);
    kept->groups = (struct plan_group *)(block + groups_at);
    kept->members = (uint32_t *)(block + members_at);
    if (plan->step_count)
        memcpy(kept->steps, plan->steps, plan->step_count * sizeof *plan->steps);
    if (plan->group_count)
        memcpy(kept->groups, plan->groups, plan->group_count * sizeof *plan->groups);
    if (members)
        memcpy(kept->members, plan->members, members * sizeof *plan->members);
    entry->plan = kept;
    entry->checksum = checksum_of(entry);
    return WEFT_OK;
}

/* ---- what the executor wants to know ---- */

/* Whether lane 0 comes to a signal to everybody without waiting for anybody, at least in the first iteration. */
static bool signals_first(const struct plan *plan)
{
    for (uint32_t i = 0; i < plan->lane_first[1]; i++) {
        const struct step *step = &plan->steps[i];
        if (step->wait_steps && !step->wait_lag)
            return false;
        if (step->kind == STEP_SIGNAL)
            return true;
        if (step->kind != STEP_EXPOSE && (step->kind != STEP_COPY || step->chunks))
            return false;
    }
    return false;
}

static weft_status plan_cache_survey(struct plan_entry *entry, struct error *error)
{
    const struct plan *plan = entry->plan;
    entry->signals_first = plan->lane_count && signals_first(plan);
    for (uint32_t lane = 0; lane < plan->lane_count; lane++)
        for (uint32_t i = plan->lane_first[lane]; i < plan->lane_first[lane + 1]; i++) {
            const struct step *step = &plan->steps[i];
            entry->near |= step->kind >= STEP_EXPOSE;
            entry->exchanges |= step->kind == STEP_EXCHANGE;
            entry->exposes |= step->kind == STEP_EXPOSE;
            if ((step->kind == STEP_SPREAD || step->kind == STEP_REDUCE_SPREAD) &&
                step->target_chunk / plan->parts >= entry->spread_blocks)
                entry->spread_blocks = step->target_chunk / plan->parts + 1;
            if (step->kind == STEP_REDUCE && step->operands > plan->ranks)
                return error_set(error, WEFT_ERROR_PLAN,
                                 "step %u of the plan of %s by %s sums %u chunks, with %u ranks", i,
                                 collective_name(plan->collective), plan->algorithm, step->operands, plan->ranks);
            if (step->kind == STEP_RECEIVE_REDUCE && step->chunks > entry->arrival_chunks[lane])
                entry->arrival_chunks[lane] = step->chunks;
        }
    return WEFT_OK;
}

/* The plan of this rank: by a loaded schedule, the algorithm asked for, or the tuner's choice. */
static weft_status plan_cache_generate(weft_comm *comm, const struct plan_key *key, struct plan **plan, bool *near,
                                       struct error *error)
{
    const struct plan_shape shape = plan_shape_of(comm, key);
    if (key->algorithm >= PLAN_KEY_SCHEDULE)
        return schedules_plan(&comm->schedules, key->algorithm - PLAN_KEY_SCHEDULE, &shape, comm->rank, plan, near,
                              error);
    size_t count;
    const struct algorithm *algorithms = algorithms_of(shape.collective, &count), *algorithm = NULL;
    weft_status status = comm_check_present(comm, error);
    if (status != WEFT_OK)
        return status;
    if (key->algorithm)
        algorithm = &algorithms[key->algorithm - 1];
    else
        status = tuner_choose(comm, &shape, &algorithm, NULL, error);
    return status == WEFT_OK ? plan_generate(algorithm, &shape, comm->rank, plan, error) : status;
}

static weft_status plan_cache_make(weft_comm *comm, const struct plan_key *key, struct plan_entry **result,
                                   struct error *error)
{
    struct plan *plan = NULL;
    bool near = false; /* of other ranks, in a schedule: all count an operation as near, or none */
    weft_status status = plan_cache_generate(comm, key, &plan, &near, error);
    if (status != WEFT_OK)
        return status;
    struct plan_entry *entry = calloc(1, sizeof *entry);
    if (!entry)
        status = error_memory(error, sizeof *entry, "a plan");
    if (status == WEFT_OK)
        status = plan_check(plan, error);
    if (status == WEFT_OK)
        status = plan_cache_keep(entry, plan, error);
    if (status == WEFT_OK)
        status = plan_cache_survey(entry, error);
    if (entry)
        entry->near |= near;
    plan_free(plan);
    if (status != WEFT_OK) {
        if (entry)
            free(entry->plan);
        free(entry);
        return status;
    }
    entry->key = *key;
    entry->most_block_bytes = entry->plan->most_block_bytes;
    *result = entry;
    return WEFT_OK;
}

/* ---- finding ---- */

static inline struct plan_key_words words_of(struct plan_key key)
{
    return (struct plan_key_words){(uint64_t)key.collective | (uint64_t)key.size_class << 8 |
                                       (uint64_t)key.in_place << 16 | (uint64_t)key.reproducible << 24 |
                                       (uint64_t)key.algorithm << 32,
                                   (uint64_t)key.root | (uint64_t)key.peer << 32};
}

static inline bool is_for(const struct plan_entry *entry, struct plan_key_words words)
{
    return entry->words.what == words.what && entry->words.who == words.who;
}

static inline struct plan_key key_of(const weft_comm *comm, const struct call *call, uint64_t block_bytes)
{
    struct plan_key key = {.collective = (uint8_t)call->collective,
                           .size_class = plan_cache_class_of(comm, call->collective, block_bytes),
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
    const struct schedule *schedule = comm->schedules.chosen[call->collective];
    if (schedule) { /* one plan for all sizes */
        key.algorithm = PLAN_KEY_SCHEDULE + schedule->number;
        key.size_class = 0;
    }
    return key;
}

weft_status plan_cache_find(weft_comm *comm, const struct call *call, uint64_t block_bytes, struct plan_entry **result,
                            struct error *error)
{
    struct plan_cache *cache = &comm->plans;
    const struct plan_key key = key_of(comm, call, block_bytes);
    const struct plan_key_words words = words_of(key);
    struct plan_entry *entry = cache->last;
    if (!entry || !is_for(entry, words)) {
        uint64_t hash = hash_number(words.who, words.what);
        struct plan_entry **bucket = &cache->buckets[hash % PLAN_CACHE_BUCKETS];
        for (entry = *bucket; entry && !is_for(entry, words); entry = entry->next)
            ;
        if (!entry) {
            weft_status status = plan_cache_make(comm, &key, &entry, error);
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

weft_status plan_entry_verify(const struct plan_entry *entry, const weft_comm *comm, struct error *error)
{
    if (checksum_of(entry) == entry->checksum)
        return WEFT_OK;
    return error_set(error, WEFT_ERROR_PLAN,
                     "the kept plan of %s on %s is not what it was when it was made: memory of this process has been "
                     "overwritten; it was not executed",
                     collective_name((enum collective)entry->key.collective), comm->name);
}

/* ---- the last call ---- */

static inline bool is_as_last(const struct plan_entry *entry, const struct call *call)
{
    const struct plan_usage *usage = &entry->usage;
    return usage->known && usage->count == call->count && usage->type == call->type && usage->op == call->op.kind &&
           usage->factor == call->op.factor;
}

/* The plan of the last call, if this one is the same and its buffers need no closer look; NULL otherwise. */
static struct plan_entry *repeated(const weft_comm *comm, const struct call *call)
{
    struct plan_entry *entry = comm->plans.last;
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

weft_status plan_cache_serve(weft_comm *comm, const struct call *call, struct plan_entry **entry, struct error *error)
{
    struct plan_entry *last = repeated(comm, call);
    if (last) {
        *entry = last;
        return WEFT_OK;
    }
    weft_status status = call_check(call, comm->rank, comm->size, error);
    if (status == WEFT_OK)
        status = plan_cache_find(comm, call, call_block_bytes(call, comm->size), entry, error);
    if (status == WEFT_OK)
        plan_entry_use(*entry, call);
    return status;
}

void plan_entry_use(struct plan_entry *entry, const struct call *call)
{
    const struct plan *plan = entry->plan;
    struct plan_usage *usage = &entry->usage;
    if (is_as_last(entry, call))
        return;
    usage->known = !call->vectors;
    usage->count = call->count;
    usage->type = (uint8_t)call->type;
    usage->op = (uint8_t)call->op.kind;
    usage->factor = call->op.factor;
    usage->hash = hash_number(call->count, plan->hash);
    /* Where types matter only between ranks that exchange something, each message carries its own. */
    const uint64_t type = collective_hides_sizes(call->collective) ? 0 : usage->type;
    usage->hash = hash_number(((uint64_t)entry->key.collective << 16) | type << 8 | usage->op, usage->hash);
    usage->hash = hash_bytes(&usage->factor, sizeof usage->factor, usage->hash);
    usage->block_bytes = call->count * weft_type_size(call->type);
    usage->input_bytes = plan->input_blocks * usage->block_bytes;
    usage->output_bytes = plan->output_blocks * usage->block_bytes;
    usage->room = exchange_room(plan, usage->block_bytes);
    usage->finishes = collective_reduces(call->collective) &&
                      (call->op.kind == WEFT_OP_AVERAGE || call->op.kind == WEFT_OP_SCALED_SUM);
    if (usage->finishes)
        usage->finish = reduction_finish_of(call->op, plan->ranks);
}

uint64_t plan_entry_tag(struct plan_entry *entry, const struct call *call, uint64_t sequence, uint64_t before)
{
    plan_entry_use(entry, call);
    uint64_t hash = entry->usage.hash;
    if (call->collective == COLLECTIVE_ALLGATHERV)
        hash =
            hash_bytes(call->vectors->output_counts, entry->plan->ranks * sizeof *call->vectors->output_counts, hash);
    if (call->purpose)
        hash = hash_number(call->subset ? call->subset->members : 0, hash_number(call->purpose, hash));
    /* One round of multiplication spreads the sequence number over the word. */
    uint64_t mixed = (hash ^ sequence ^ before) * 0x9e3779b97f4a7c15u;
    return mixed ^ mixed >> 32;
}

void plan_cache_free(struct plan_cache *cache)
{
    for (uint32_t i = 0; i < PLAN_CACHE_BUCKETS; i++)
        for (struct plan_entry *entry = cache->buckets[i], *next; entry; entry = next) {
            next = entry->next;
            free(entry->plan);
            free(entry);
        }
    *cache = (struct plan_cache){0};
}

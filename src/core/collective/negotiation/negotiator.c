/* SPDX-License-Identifier: Apache-2.0 */
/* Negotiators: opened and closed; operations submitted, waited for and freed; the thread that drives. */
#include "core/collective/negotiation/internal/negotiator.h"

#include "base/thread.h"
#include "core/collective/communicator/context.h"
#include "core/collective/internal/startup.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define CACHE_DEFAULT  1024
#define CACHE_MOST     (1 << 20)
#define FUSION_DEFAULT ((uint64_t)128 << 20)
#define SECONDS_MOST   1e9               /* as good as never */
#define TENSOR_MOST    (UINT64_MAX / 16) /* bytes */
/* Tensors up to these sizes gain from being copied together: on one node only the time to begin is saved. */
#define SMALL_LOCAL  ((uint64_t)32 << 10)
#define SMALL_REMOTE ((uint64_t)1 << 20)

/* ---- the thread ---- */

/* Those who wait drive by themselves, which spares a change of threads. */
static void *negotiator_main(void *argument)
{
    weft_negotiator *negotiator = argument;
    pthread_mutex_lock(&negotiator->lock);
    while (!negotiator->ended) {
        uint64_t time;
        if (negotiator->driving || (negotiator->waiters > 0 && !negotiator->closing))
            thread_wait_until(&negotiator->work, &negotiator->lock, clock_after(IDLE_SECONDS));
        else if (round_due(negotiator, &time))
            round_run(negotiator);
        else
            thread_wait_until(&negotiator->work, &negotiator->lock, time);
    }
    pthread_mutex_unlock(&negotiator->lock);
    return NULL;
}

/* ---- opening and closing ---- */

static weft_status complete_config(const weft_negotiator_config *given, weft_negotiator_config *config,
                                   struct error *error)
{
    *config = (weft_negotiator_config)WEFT_NEGOTIATOR_CONFIG_DEFAULT;
    if (given) {
        if (given->size == 0 || given->size > sizeof *config)
            return error_set(error, WEFT_ERROR_ARGUMENT,
                             "weft_negotiator_config has a size of %zu bytes, of this library's %zu: set `size` to its "
                             "sizeof, and use a libweft at least as new as its header",
                             given->size, sizeof *config);
        memcpy(config, given, given->size);
        config->size = sizeof *config;
    }
    if (!(config->cycle_seconds >= 0) || isnan(config->stall_seconds) || !(config->stall_end_seconds >= 0) ||
        config->cache_operations > CACHE_MOST)
        return error_set(error, WEFT_ERROR_ARGUMENT,
                         "weft_negotiator_config: cycle_seconds (%g) and stall_end_seconds (%g) must not be negative, "
                         "and cache_operations (%d) must not exceed %d",
                         config->cycle_seconds, config->stall_end_seconds, config->cache_operations, CACHE_MOST);
    if (config->fusion_bytes == 0)
        config->fusion_bytes = FUSION_DEFAULT;
    if (config->cycle_seconds == 0)
        config->cycle_seconds = 0.001;
    if (config->cache_operations <= 0)
        config->cache_operations = config->cache_operations == 0 ? CACHE_DEFAULT : 0;
    if (config->stall_seconds == 0)
        config->stall_seconds = 60;
    config->cycle_seconds = fmin(config->cycle_seconds, SECONDS_MOST);
    config->stall_seconds = fmin(config->stall_seconds, SECONDS_MOST);
    config->stall_end_seconds = fmin(config->stall_end_seconds, SECONDS_MOST);
    return WEFT_OK;
}

/* A negotiator without a thread. */
static void negotiator_free(weft_negotiator *negotiator)
{
    timeline_close(&negotiator->timeline);
    names_close(&negotiator->names);
    weft_free(negotiator->context, negotiator->fusion);
    weft_comm_free(negotiator->comm);
    free(negotiator->joined);
    free(negotiator->bits);
    free(negotiator->ready);
    free(negotiator->pieces);
    pthread_cond_destroy(&negotiator->work);
    pthread_cond_destroy(&negotiator->changed);
    pthread_mutex_destroy(&negotiator->lock);
    free(negotiator);
}

static weft_status negotiator_prepare(weft_negotiator *negotiator, struct error *error)
{
    weft_status status = weft_broadcast(&negotiator->config, sizeof negotiator->config, WEFT_U8, 0, negotiator->comm);
    if (status != WEFT_OK)
        return negotiation_error(negotiator, status, error);
    const int capacity = negotiator->config.cache_operations;
    negotiator->small_bytes = weft_comm_nodes(negotiator->comm) > 1 ? SMALL_REMOTE : SMALL_LOCAL;
    negotiator->joined = calloc((size_t)negotiator->ranks, sizeof *negotiator->joined);
    negotiator->bits = calloc((size_t)capacity / 64 + 2, sizeof *negotiator->bits);
    if (!negotiator->joined || !negotiator->bits)
        return error_memory(error, (size_t)capacity / 8, "a negotiator");
    return names_open(&negotiator->names, capacity, negotiator->ranks, error);
}

weft_status weft_negotiator_open(weft_comm *comm, const weft_negotiator_config *config, weft_negotiator **opened)
{
    struct error error = {0};
    if (!comm)
        return context_missing("weft_negotiator_open()", "comm");
    if (!opened)
        return context_missing("weft_negotiator_open()", "negotiator");
    weft_negotiator *negotiator = calloc(1, sizeof *negotiator);
    if (!negotiator)
        error_memory(&error, sizeof *negotiator, "a negotiator");
    else if (complete_config(config, &negotiator->config, &error) != WEFT_OK)
        free(negotiator);
    if (error.status != WEFT_OK)
        return context_note_thread(&error);
    pthread_mutex_t unused;
    thread_condition_init(&negotiator->lock, &negotiator->work);
    thread_condition_init(&unused, &negotiator->changed);
    pthread_mutex_destroy(&unused);
    negotiator->context = weft_comm_context(comm);
    negotiator->reduction = negotiator->context->reduction;
    negotiator->rank = weft_comm_rank(comm);
    negotiator->ranks = weft_comm_size(comm);
    negotiator->last_joined = -1;
    const weft_status status = weft_comm_duplicate(comm, &negotiator->comm);
    if (status != WEFT_OK) {
        negotiation_error(negotiator, status, &error);
    } else if (negotiator_prepare(negotiator, &error) == WEFT_OK &&
               thread_start(&negotiator->thread, negotiator_main, negotiator) != 0) {
        error_set(&error, WEFT_ERROR_SYSTEM, "cannot start the negotiator's thread");
    }
    if (error.status != WEFT_OK) {
        negotiator_free(negotiator);
        return context_note_thread(&error);
    }
    *opened = negotiator;
    return WEFT_OK;
}

weft_status weft_negotiator_close(weft_negotiator *negotiator)
{
    if (!negotiator)
        return WEFT_OK;
    pthread_mutex_lock(&negotiator->lock);
    negotiator->closing = true;
    pthread_cond_broadcast(&negotiator->work);
    pthread_mutex_unlock(&negotiator->lock);
    pthread_join(negotiator->thread, NULL);
    pthread_mutex_lock(&negotiator->lock);
    while (negotiator->waiters > 0) /* their operations have ended, and they are about to see it */
        pthread_cond_wait(&negotiator->changed, &negotiator->lock);
    pthread_mutex_unlock(&negotiator->lock);
    struct error error = negotiator->failure;
    negotiator_free(negotiator);
    return error.status == WEFT_ERROR_STATE ? WEFT_OK : context_note_thread(&error);
}

weft_status weft_negotiator_timeline(weft_negotiator *negotiator, const char *path, bool mark_rounds)
{
    struct error error = {0};
    if (!negotiator)
        return context_missing("weft_negotiator_timeline()", "negotiator");
    if (negotiator->rank != 0)
        return WEFT_OK;
    pthread_mutex_lock(&negotiator->lock);
    negotiator->quiet++;
    while (negotiator->driving)
        pthread_cond_wait(&negotiator->changed, &negotiator->lock);
    negotiator->quiet--;
    timeline_close(&negotiator->timeline);
    if (path)
        timeline_open(&negotiator->timeline, path, mark_rounds, &error);
    pthread_mutex_unlock(&negotiator->lock);
    return error.status == WEFT_OK ? WEFT_OK : context_note_thread(&error);
}

/* ---- submitting ---- */

static weft_status check_named_tensor(const weft_negotiator *negotiator, const weft_named_call *call, int index,
                                      struct error *error)
{
    const weft_tensor *tensor = &call->tensors[index];
    const weft_named_kind kind = call->kind;
    const bool gathers = kind == WEFT_NAMED_ALLGATHER || kind == WEFT_NAMED_ALLTOALL,
               reduces = kind <= WEFT_NAMED_ADASUM || kind == WEFT_NAMED_REDUCE_SCATTER;
    const char *problem = NULL;
    uint64_t elements = 1;
    if (weft_type_size(tensor->type) == 0)
        problem = "has no type that libweft knows";
    else if (tensor->dimensions < 0 || (tensor->dimensions > 0 && !tensor->shape))
        problem = "has no shape";
    else if (tensor->dimensions == 0 && (gathers || kind == WEFT_NAMED_REDUCE_SCATTER))
        problem = "has no dimensions, so that it has no rows";
    for (int d = 0; !problem && d < tensor->dimensions; d++)
        if (tensor->shape[d] < 0 || __builtin_mul_overflow(elements, (uint64_t)tensor->shape[d], &elements) ||
            elements > TENSOR_MOST / 8)
            problem = "has an impossible shape";
    if (!problem && elements > 0 && !tensor->input)
        problem = "has no input";
    if (!problem && elements > 0 && !gathers && !tensor->output &&
        (kind != WEFT_NAMED_REDUCE_SCATTER || tensor->shape[0] > negotiator->rank))
        problem = "has no output";
    if (!problem && reduces && kind != WEFT_NAMED_ADASUM && tensor->type == WEFT_BOOL &&
        ((call->op != WEFT_OP_MIN && call->op != WEFT_OP_MAX) || call->prescale != 1 || call->postscale != 1))
        problem = "is of type bool, which can be reduced by min and max only, and not be scaled";
    if (!problem && kind == WEFT_NAMED_ADASUM && tensor->type > WEFT_BF16)
        problem = "is of no floating-point type, which Adasum needs";
    return problem ? error_set(error, WEFT_ERROR_ARGUMENT, "%s '%s': tensor %d %s", weft_named_kind_name(kind),
                               call->name, index, problem)
                   : WEFT_OK;
}

static weft_status check_splits(const weft_negotiator *negotiator, const weft_named_call *call, struct error *error)
{
    const int64_t rows = call->tensors[0].shape[0];
    if (!call->splits)
        return rows % negotiator->ranks == 0
                   ? WEFT_OK
                   : error_set(error, WEFT_ERROR_ARGUMENT,
                               "alltoall '%s': %lld rows cannot be divided evenly among %d ranks: pass splits",
                               call->name, (long long)rows, negotiator->ranks);
    int64_t sum = 0;
    for (int r = 0; r < negotiator->ranks; r++) {
        if (call->splits[r] < 0)
            return error_set(error, WEFT_ERROR_ARGUMENT, "alltoall '%s': the split for rank %d is negative: %lld",
                             call->name, r, (long long)call->splits[r]);
        sum += call->splits[r] <= rows - sum ? call->splits[r]
                                             : rows + 1 - sum; /* no overflow: any sum above `rows` is wrong */
    }
    return sum == rows ? WEFT_OK
                       : error_set(error, WEFT_ERROR_ARGUMENT,
                                   "alltoall '%s': the splits add up to %s than the tensor's %lld rows", call->name,
                                   sum > rows ? "more" : "less", (long long)rows);
}

static weft_status check_call(const weft_negotiator *negotiator, const weft_named_call *call, struct error *error)
{
    if ((unsigned)call->kind >= WEFT_NAMED_KINDS)
        return error_set(error, WEFT_ERROR_ARGUMENT, "%d is no kind of operation", (int)call->kind);
    const char *kind = weft_named_kind_name(call->kind);
    const bool empty = call->kind == WEFT_NAMED_BARRIER || call->kind == WEFT_NAMED_JOIN;
    if (!call->name || !*call->name)
        return error_set(error, WEFT_ERROR_ARGUMENT, "%s: the operation needs a name", kind);
    if (empty ? call->count != 0 : call->count < 1 || !call->tensors)
        return error_set(error, WEFT_ERROR_ARGUMENT, "%s '%s': it was given %d tensors, and needs %s", kind, call->name,
                         call->count, empty ? "none" : "at least one");
    if ((call->kind <= WEFT_NAMED_ADASUM || call->kind == WEFT_NAMED_REDUCE_SCATTER) &&
        ((unsigned)call->op > WEFT_OP_MAX))
        return error_set(error, WEFT_ERROR_ARGUMENT, "%s '%s': the operation must be sum, average, product, min or max",
                         kind, call->name);
    if (call->kind == WEFT_NAMED_BROADCAST && (call->root < 0 || call->root >= negotiator->ranks))
        return error_set(error, WEFT_ERROR_ARGUMENT, "broadcast '%s': there is no root %d among %d ranks", call->name,
                         call->root, negotiator->ranks);
    if (call->kind == WEFT_NAMED_ADASUM && (negotiator->ranks & (negotiator->ranks - 1)) != 0)
        return error_set(error, WEFT_ERROR_ARGUMENT, "adasum '%s': %d ranks are no power of two, which Adasum needs",
                         call->name, negotiator->ranks);
    if (call->kind == WEFT_NAMED_ALLTOALL && call->count != 1)
        return error_set(error, WEFT_ERROR_ARGUMENT, "alltoall '%s': it takes one tensor, not %d", call->name,
                         call->count);
    for (int i = 0; i < call->count; i++)
        if (check_named_tensor(negotiator, call, i, error) != WEFT_OK)
            return error->status;
    return call->kind == WEFT_NAMED_ALLTOALL ? check_splits(negotiator, call, error) : WEFT_OK;
}

/* With copies of everything that the caller may change. */
static weft_operation *operation_new(weft_negotiator *negotiator, const weft_named_call *call, struct error *error)
{
    size_t extents = call->splits ? (size_t)negotiator->ranks : 0;
    for (int i = 0; i < call->count; i++)
        extents += (size_t)call->tensors[i].dimensions;
    const size_t bytes = sizeof(weft_operation) + (size_t)call->count * sizeof(weft_tensor) + extents * sizeof(int64_t);
    weft_operation *operation = malloc(bytes);
    if (!operation) {
        error_memory(error, bytes, "an operation");
        return NULL;
    }
    memset(operation, 0, offsetof(weft_operation, error));
    operation->negotiator = negotiator;
    operation->count = call->count;
    operation->last_joined = -1;
    error_clear(&operation->error);
    operation->results = NULL;
    atomic_init(&operation->ended, false);
    operation->tensors = (weft_tensor *)(operation + 1);
    int64_t *place = (int64_t *)(operation->tensors + call->count);
    for (int i = 0; i < call->count; i++) {
        operation->tensors[i] = call->tensors[i];
        operation->tensors[i].shape = place;
        for (int d = 0; d < call->tensors[i].dimensions; d++)
            *place++ = call->tensors[i].shape[d];
    }
    operation->splits = NULL;
    if (call->splits) {
        operation->splits = place;
        memcpy(place, call->splits, (size_t)negotiator->ranks * sizeof *place);
    }
    if (description_of(call, &operation->description, error) == WEFT_OK)
        return operation;
    free(operation);
    return NULL;
}

/* Add it to the pending ones. The lock is held. */
static weft_status submit_locked(weft_negotiator *negotiator, weft_operation *operation, const weft_named_call *call,
                                 struct error *error)
{
    if (negotiator->ended)
        return error_set(error, negotiator->failure.status, "%s", negotiator->failure.text);
    if (negotiator->join)
        return error_set(error, WEFT_ERROR_STATE,
                         "%s '%s': this rank has joined, and must wait for the end of the join",
                         weft_named_kind_name(call->kind), call->name);
    if (call->kind == WEFT_NAMED_JOIN) {
        negotiator->join = operation;
        negotiator->fresh = true;
        return WEFT_OK;
    }
    struct named_entry *entry = names_get(&negotiator->names, call->name, strlen(call->name), error);
    if (!entry)
        return error->status;
    if (entry->operation)
        return error_set(
            error, WEFT_ERROR_ARGUMENT,
            "%s '%s': an operation of this name is in flight on rank %d: wait for it, or give each its own name",
            weft_named_kind_name(call->kind), call->name, negotiator->rank);
    entry->operation = operation;
    operation->entry = entry;
    operation->previous = negotiator->last;
    if (negotiator->last)
        negotiator->last->next = operation;
    else
        negotiator->first = operation;
    negotiator->last = operation;
    negotiator->fresh = true;
    return WEFT_OK;
}

weft_status weft_operation_submit(weft_negotiator *negotiator, const weft_named_call *call, weft_operation **submitted)
{
    struct error error;
    if (!negotiator)
        return context_missing("weft_operation_submit()", "negotiator");
    if (!call)
        return context_missing("weft_operation_submit()", "call");
    if (!submitted)
        return context_missing("weft_operation_submit()", "operation");
    error_clear(&error);
    if (check_call(negotiator, call, &error) != WEFT_OK)
        return context_note_thread(&error);
    weft_operation *operation = operation_new(negotiator, call, &error);
    if (!operation)
        return context_note_thread(&error);
    operation->submitted = clock_now();
    pthread_mutex_lock(&negotiator->lock);
    const weft_status status = submit_locked(negotiator, operation, call, &error);
    if (status == WEFT_OK) {
        if (negotiator->waiters > 0)
            pthread_cond_broadcast(&negotiator->changed);
        else if (!call->waits && !negotiator->driving)
            pthread_cond_signal(&negotiator->work);
    }
    pthread_mutex_unlock(&negotiator->lock);
    if (status != WEFT_OK) {
        description_release(operation->description);
        free(operation);
        return context_note_thread(&error);
    }
    *submitted = operation;
    return WEFT_OK;
}

/* ---- ends of operations ---- */

void operation_end(weft_operation *operation, const struct error *error)
{
    weft_negotiator *negotiator = operation->negotiator;
    if (error && operation->error.status == WEFT_OK)
        operation->error = *error;
    pthread_mutex_lock(&negotiator->lock);
    if (operation->entry) {
        operation->entry->operation = NULL;
        names_drop_unused(&negotiator->names, operation->entry);
    }
    description_release(operation->description);
    atomic_store_explicit(&operation->ended, true, memory_order_release);
    pthread_cond_broadcast(&negotiator->changed);
    pthread_mutex_unlock(&negotiator->lock);
}

bool weft_operation_done(const weft_operation *operation)
{
    return atomic_load_explicit(&operation->ended, memory_order_acquire);
}

weft_status weft_operation_wait(weft_operation *operation)
{
    if (!operation)
        return context_missing("weft_operation_wait()", "operation");
    weft_negotiator *negotiator = operation->negotiator;
    if (!weft_operation_done(operation)) {
        pthread_mutex_lock(&negotiator->lock);
        negotiator->waiters++;
        while (!weft_operation_done(operation)) {
            uint64_t time;
            if (negotiator->driving)
                pthread_cond_wait(&negotiator->changed, &negotiator->lock);
            else if (round_due(negotiator, &time))
                round_run(negotiator);
            else
                thread_wait_until(&negotiator->changed, &negotiator->lock, time);
        }
        negotiator->waiters--;
        if (negotiator->ended)
            pthread_cond_broadcast(&negotiator->changed);
        if (negotiator->waiters == 0 && (negotiator->first || negotiator->join || negotiator->closing) &&
            !negotiator->driving)
            pthread_cond_signal(&negotiator->work);
        pthread_mutex_unlock(&negotiator->lock);
    }
    return operation->error.status == WEFT_OK ? WEFT_OK : context_note_thread(&operation->error);
}

weft_status weft_operation_result(const weft_operation *operation, int tensor, const int64_t **rows, const void **data)
{
    struct error error = {0};
    if (!operation || !rows || !data)
        return context_missing("weft_operation_result()", !operation ? "operation" : !rows ? "rows" : "data");
    if (!weft_operation_done(operation) || operation->error.status != WEFT_OK || !operation->results)
        error_set(&error, WEFT_ERROR_STATE,
                  "the operation has no result: only all-gathers and all-to-alls that have ended well have one");
    else if (tensor < 0 || tensor >= operation->count)
        error_set(&error, WEFT_ERROR_ARGUMENT, "the operation has %d tensors, and no tensor %d", operation->count,
                  tensor);
    if (error.status != WEFT_OK)
        return context_note_thread(&error);
    *rows = operation->results[tensor].rows;
    *data = operation->results[tensor].data;
    return WEFT_OK;
}

int weft_operation_last_joined(const weft_operation *operation)
{
    return weft_operation_done(operation) ? operation->last_joined : -1;
}

void weft_operation_free(weft_operation *operation)
{
    if (!operation)
        return;
    if (!weft_operation_done(operation))
        weft_operation_wait(operation);
    for (int i = 0; operation->results && i < operation->count; i++) {
        free(operation->results[i].rows);
        free(operation->results[i].data);
    }
    free(operation->results);
    free(operation);
}

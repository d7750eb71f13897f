/* SPDX-License-Identifier: Apache-2.0 */
#include "core/collective/internal/execution.h"

#include "core/collective/communicator/context.h"
#include "core/collective/internal/exchange.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

/* Bytes that one call of execution_advance() moves, about, so that other operations get their turn. */
#define ADVANCE_BYTES (2u << 20)

/* ---- requests ---- */

static struct weft_request *request_take(weft_context *context, struct error *error)
{
    struct weft_request *request = context->idle;
    if (request) {
        context->idle = request->next;
        return request;
    }
    request = aligned_alloc(64, (sizeof *request + 63) & ~(size_t)63);
    if (!request) {
        error_memory(error, sizeof *request, "a request");
        return NULL;
    }
    memset(request, 0, sizeof *request);
    request->next_of_all = context->all;
    context->all = request;
    return request;
}

void execution_release(struct weft_request *request)
{
    weft_context *context = request->comm->context;
    request->state = EXECUTION_FREE;
    free(request->copied);
    request->copied = NULL;
    request->next = context->idle;
    context->idle = request;
}

void execution_free_all(weft_context *context)
{
    for (struct weft_request *request = context->all, *next; request; request = next) {
        next = request->next_of_all;
        heap_free(context->heap, request->scratch);
        free(request->copied);
        free(request);
    }
    context->all = context->idle = NULL;
}

/* ---- binding ---- */

static uint64_t execution_round_up(uint64_t bytes)
{
    return (bytes + 63) & ~(uint64_t)63;
}

struct segment execution_segment(const struct schedule *schedule, uint64_t block_bytes, uint64_t iteration)
{
    struct segment segment = {0, block_bytes, 0};
    if (schedule->segment_bytes) {
        segment.begin = iteration * schedule->segment_bytes;
        if (segment.begin > block_bytes)
            segment.begin = block_bytes;
        segment.length = block_bytes - segment.begin;
        if (segment.length > schedule->segment_bytes)
            segment.length = schedule->segment_bytes;
    }
    segment.width =
        schedule->parts == 1 ? execution_round_up(segment.length) : schedule_width(segment.length, schedule->parts);
    return segment;
}

/* Scratch and room for what arrives, in one piece that the request keeps. */
static weft_status bind_scratch(struct weft_request *request, struct error *error)
{
    const struct schedule *schedule = request->schedule;
    struct binding *binding = &request->binding;
    uint64_t width = execution_segment(schedule, binding->block_bytes, 0).width, bytes;
    binding->scratch_bytes = schedule->scratch_chunks * width;
    bytes = binding->scratch_bytes * schedule->slots;
    for (uint32_t lane = 0; lane < schedule->lane_count; lane++)
        bytes += request->entry->arrival_chunks[lane] * width;
    if (!bytes)
        return WEFT_OK;
    if (bytes > request->scratch_room) {
        struct heap *heap = request->comm->context->heap;
        heap_free(heap, request->scratch);
        request->scratch = NULL;
        request->scratch_room = 0;
        weft_status status = heap_alloc(heap, bytes, &request->scratch, error);
        if (status != WEFT_OK)
            return status;
        request->scratch_room = bytes;
    }
    binding->scratch = request->scratch;
    char *free_place = binding->scratch + binding->scratch_bytes * schedule->slots;
    for (uint32_t lane = 0; lane < schedule->lane_count; lane++) {
        binding->arrivals[lane] = free_place;
        free_place += request->entry->arrival_chunks[lane] * width;
    }
    return WEFT_OK;
}

/* Room for the blocks of an input that is copied when the operation begins, packed. */
static weft_status bind_copy(struct weft_request *request, struct error *error)
{
    const struct call *call = request->call;
    uint64_t bytes = 0;
    if (!call_exchanges_in_place(call))
        return WEFT_OK;
    for (uint32_t i = 0; i < request->schedule->ranks; i++)
        bytes += call->vectors->input_counts[i] * request->binding.element;
    request->copied = malloc(bytes ? bytes : 1);
    return request->copied ? WEFT_OK : error_memory(error, bytes, "the copy of an alltoallv's input");
}

static void copy_input(struct weft_request *request)
{
    const struct call_vectors *vectors = request->call->vectors;
    const uint64_t element = request->binding.element;
    uint64_t packed = 0;
    for (uint32_t i = 0; i < request->schedule->ranks; packed += vectors->input_counts[i++])
        copy_bytes(request->copied + packed * element,
                   request->binding.input +
                       (vectors->input_displacements ? vectors->input_displacements[i] : packed) * element,
                   vectors->input_counts[i] * element, false);
    request->binding.input = request->copied;
}

static weft_status execution_bind(struct weft_request *request, uint64_t block_bytes, struct error *error)
{
    const struct schedule *schedule = request->schedule;
    const struct call *call = request->call;
    struct binding *binding = &request->binding;
    if (schedule->most_block_bytes && block_bytes > schedule->most_block_bytes)
        return error_set(error, WEFT_ERROR_ARGUMENT,
                         "the algorithm %s serves blocks of up to %" PRIu64 " bytes; this %s has %" PRIu64
                         ": choose another with weft_comm_set_algorithm()",
                         schedule->algorithm, schedule->most_block_bytes, collective_name(call->collective),
                         block_bytes);
    binding->input = (char *)(uintptr_t)call->input;
    binding->output = call->output;
    binding->element = weft_type_size(call->type);
    binding->block_bytes = block_bytes;
    binding->iterations = schedule_iterations(schedule, block_bytes);
    binding->stages = true;
    binding->streaming = false;
    if (request->entry->uses_shm)
        binding->room = execution_round_up(binding->iterations > 1 ? schedule->segment_bytes : block_bytes);
    binding->finish = NULL;
    binding->finishing = reduction_finish_of(call->type, call->op, schedule->ranks);
    if (collective_reduces(call->collective) && binding->finishing.kind != REDUCTION_FINISH_NONE)
        binding->finish = &binding->finishing;
    const weft_status status = bind_copy(request, error);
    return status == WEFT_OK ? bind_scratch(request, error) : status;
}

/* ---- where chunks lie ---- */

/* Elements before block `block`, and in it, in the v-forms. */
static void vector_block(const struct weft_request *request, enum schedule_buffer buffer, uint32_t block,
                         uint64_t *first, uint64_t *count)
{
    const struct call *call = request->call;
    const struct call_vectors *vectors = call->vectors;
    const bool is_input = buffer == BUFFER_INPUT && vectors->input_counts;
    const size_t *counts = is_input ? vectors->input_counts : vectors->output_counts;
    const size_t *displacements = is_input ? vectors->input_displacements : vectors->output_displacements;
    if (buffer == BUFFER_INPUT && request->copied)
        displacements = NULL;
    if (buffer == BUFFER_INPUT ? !vectors->input_counts : !vectors->output_counts) { /* the one block of this rank */
        *first = 0;
        *count = (counts ? counts : vectors->input_counts)[request->schedule->rank];
        return;
    }
    *count = counts[block];
    *first = displacements ? displacements[block] : 0;
    for (uint32_t i = 0; !displacements && i < block; i++)
        *first += counts[i];
}

static struct segment vector_segment(const struct weft_request *request, const struct lane *lane,
                                     enum schedule_buffer buffer, uint32_t block, uint64_t *offset)
{
    uint64_t first, count;
    vector_block(request, buffer, block, &first, &count);
    *offset = first * request->binding.element;
    return execution_segment(request->schedule, count * request->binding.element, lane->iteration);
}

uint64_t execution_step_bytes(const struct weft_request *request, const struct lane *lane, const struct step *step)
{
    const struct schedule *schedule = request->schedule;
    if (!step->chunks)
        return 0;
    if (collective_is_vector(schedule->collective)) {
        bool by_target = step->kind == STEP_RECEIVE || step->kind == STEP_READ || step->kind == STEP_DELIVER ||
                         step->kind == STEP_COPY;
        uint64_t offset;
        return vector_segment(request, lane, by_target ? BUFFER_OUTPUT : (enum schedule_buffer)step->source,
                              by_target ? step->target_chunk : step->source_chunk, &offset)
            .length;
    }
    if (schedule->parts == 1)
        return step->chunks * lane->segment.length;
    uint64_t first = step->value * lane->segment.width, last = first + step->chunks * lane->segment.width;
    if (first > lane->segment.length)
        first = lane->segment.length;
    if (last > lane->segment.length)
        last = lane->segment.length;
    return last - first;
}

char *execution_chunk(const struct weft_request *request, const struct lane *lane, enum schedule_buffer buffer,
                      uint32_t chunk)
{
    const struct schedule *schedule = request->schedule;
    const struct binding *binding = &request->binding;
    if (buffer == BUFFER_SCRATCH)
        return binding->scratch + (lane->iteration % schedule->slots) * binding->scratch_bytes +
               chunk * lane->segment.width;
    char *base = buffer == BUFFER_INPUT ? binding->input : binding->output;
    if (!base)
        return NULL; /* a buffer of no bytes */
    if (collective_is_vector(schedule->collective)) {
        uint64_t offset;
        struct segment segment = vector_segment(request, lane, buffer, chunk, &offset);
        return base + offset + segment.begin;
    }
    if (schedule->parts == 1)
        return base + chunk * binding->block_bytes + lane->segment.begin;
    return base + (uint64_t)(chunk / schedule->parts) * binding->block_bytes + lane->segment.begin +
           (chunk % schedule->parts) * lane->segment.width;
}

/* ---- from preparation to the end ---- */

/* A request for this call, bound, in no queue yet. */
static weft_status execution_make(weft_comm *comm, const struct call *call, struct schedule_entry *entry,
                                  uint64_t block_bytes, struct weft_request **result, struct error *error)
{
    struct weft_request *request = request_take(comm->context, error);
    if (!request)
        return WEFT_ERROR_MEMORY;
    request->comm = comm;
    request->call = call;
    request->entry = entry;
    request->schedule = entry->schedule;
    request->state = EXECUTION_GROUPED;
    request->status = WEFT_OK;
    request->in_wait = request->is_blocking = false;
    request->is_message = call->collective == COLLECTIVE_SENDRECEIVE;
    request->log = NULL;
    request->next = NULL;
    request->moved_at = request->moved_ticks = 0;
    request->awaited = 0;
    request->steps_taken = request->steps_seen = 0;
    atomic_store_explicit(&request->done, false, memory_order_relaxed);
    weft_status status = execution_bind(request, block_bytes, error);
    if (status != WEFT_OK) {
        execution_release(request);
        return status;
    }
    *result = request;
    return WEFT_OK;
}

weft_status execution_prepare(weft_comm *comm, const struct call *call, bool keep, struct weft_request **result,
                              struct error *error)
{
    struct schedule_entry *entry = NULL;
    struct weft_request *request = NULL;
    weft_status status = schedule_cache_serve(comm, call, &entry, error);
    if (status == WEFT_OK)
        status = schedule_entry_verify(entry, comm, error);
    if (status == WEFT_OK)
        status = execution_make(comm, call, entry, call_block_bytes(call, comm->size), &request, error);
    if (status != WEFT_OK)
        return status;
    if (keep) {
        request->kept = *call;
        request->call = &request->kept;
        if (call->vectors) {
            request->kept_vectors = *call->vectors;
            request->kept.vectors = &request->kept_vectors;
        }
    }
    *result = request;
    return WEFT_OK;
}

static void execution_begin(struct weft_request *request)
{
    const struct schedule *schedule = request->schedule;
    const struct segment first = execution_segment(schedule, request->binding.block_bytes, 0);
    request->lanes_left = 0;
    for (uint32_t i = 0; i < schedule->lane_count; i++) {
        struct lane *lane = &request->lanes[i];
        bool empty = schedule->lane_first[i] == schedule->lane_first[i + 1];
        lane->step = schedule->lane_first[i];
        lane->done = lane->looked = 0;
        lane->iteration = empty ? request->binding.iterations : 0;
        lane->signals = 0;
        lane->begun = false;
        lane->segment = first;
        lane->transfer.state = TRANSFER_IDLE;
        lane->looked_at = 0;
        request->lanes_left += !empty;
    }
    request->state = EXECUTION_RUNNING;
    if (request->copied)
        copy_input(request);
    operation_log_phase(request, request->in_wait ? OPERATION_BLOCKING : OPERATION_RUNNING);
    if (request->comm->context->trace)
        trace_begin(request);
}

/* At the end of its communicator's queue. */
static void enqueue(struct weft_request *request)
{
    weft_comm *comm = request->comm;
    if (comm->head) {
        comm->tail->next = request;
    } else {
        comm->head = request;
        comm->next_active = comm->context->active;
        comm->context->active = comm;
    }
    comm->tail = request;
}

static void execution_complete(struct weft_request *request, weft_status status)
{
    weft_comm *comm = request->comm;
    weft_context *context = comm->context;
    if (request->is_message) {
        struct weft_request **link = &context->messages;
        while (*link && *link != request)
            link = &(*link)->next;
        if (*link)
            *link = request->next;
    } else {
        struct weft_request **link = &comm->head, *before = NULL;
        while (*link && *link != request) {
            before = *link;
            link = &(*link)->next;
        }
        if (*link) {
            *link = request->next;
            if (comm->tail == request)
                comm->tail = before;
        }
        if (!comm->head) {
            struct weft_comm **active = &context->active;
            while (*active && *active != comm)
                active = &(*active)->next_active;
            if (*active)
                *active = comm->next_active;
        }
    }
    request->next = NULL;
    request->status = status;
    request->state = EXECUTION_DONE;
    operation_log_phase(request, OPERATION_DONE);
    if (context->trace)
        trace_operation(context->trace, request);
    progress_count(&context->progress, -1);
    atomic_store_explicit(&request->done, true, memory_order_release);
}

void execution_enqueue(struct weft_request *request)
{
    weft_comm *comm = request->comm;
    weft_context *context = comm->context;
    const struct call *call = request->call;
    progress_count(&context->progress, +1);
    if (context->trace)
        trace_call(request);
    if (request->is_message) {
        request->sequence = call->subset               ? call->subset->number
                            : call->root == comm->rank ? ++comm->sent[call->peer]
                                                       : ++comm->received[call->root];
        request->tag = schedule_entry_tag(request->entry, call, request->sequence, 0);
        request->log = operation_log_add(context->log, comm, call, request->sequence, request->tag);
        /* Messages match in the order in which they are begun: at the end of the list. */
        struct weft_request **link = &context->messages;
        while (*link)
            link = &(*link)->next;
        *link = request;
        execution_begin(request);
        execution_advance(request);
        return;
    }
    request->sequence = ++comm->sequence;
    request->tag = comm->tag = schedule_entry_tag(request->entry, call, request->sequence, comm->tag);
    request->log = operation_log_add(context->log, comm, call, request->sequence, request->tag);
    request->state = EXECUTION_QUEUED;
    enqueue(request);
}

weft_status execution_adopt(const struct exchange_operation *operation, struct schedule_entry *entry, uint64_t sequence,
                            struct operation_entry *log, struct weft_request **result, struct error *error)
{
    struct weft_request *request = NULL;
    weft_status status =
        execution_make(operation->comm, operation->call, entry, operation->block_bytes, &request, error);
    if (status != WEFT_OK)
        return status;
    request->sequence = sequence;
    request->tag = operation->tag;
    request->shm_number = operation->number;
    request->log = log;
    progress_count(&operation->comm->context->progress, +1);
    enqueue(request);
    execution_begin(request);
    request->lanes[0].begun = true; /* it is published */
    *result = request;
    return WEFT_OK;
}

void execution_cancel(struct weft_request *request, weft_status status)
{
    weft_context *context = request->comm->context;
    for (uint32_t i = 0; request->state == EXECUTION_RUNNING && i < request->schedule->lane_count; i++) {
        struct transfer *transfer = &request->lanes[i].transfer;
        if (transfer->state != TRANSFER_ACTIVE)
            continue;
        uint32_t way = shm_reaches(context->shm, transfer->peer) ? CONTEXT_SHM : CONTEXT_FABRIC;
        context->transports[way]->cancel(context->transports[way], transfer);
        transfer->state = TRANSFER_IDLE;
        context->transfers[way]--;
    }
    execution_complete(request, status);
}

/* ---- advancing ---- */

bool execution_advance(struct weft_request *request)
{
    if (request->state == EXECUTION_QUEUED) {
        struct error error;
        error_clear(&error);
        if (request->entry->uses_shm && !execution_shm_begin(request, &error)) {
            if (error.status != WEFT_OK)
                progress_fail(request->comm->context, &error);
            return false;
        }
        execution_begin(request);
    }
    bool moved = false, again = true;
    uint64_t budget = ADVANCE_BYTES;
    while (again && budget && request->lanes_left) {
        again = false;
        for (uint32_t i = 0; i < request->schedule->lane_count; i++)
            again |= execution_advance_lane(request, i, &budget);
        moved |= again;
        if (request->schedule->lane_count == 1)
            break;
    }
    if (request->comm->context->trace)
        trace_advance(request, moved);
    if (!request->lanes_left) {
        execution_complete(request, WEFT_OK);
        return true;
    }
    return moved;
}

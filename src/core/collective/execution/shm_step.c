/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Steps among ranks that share memory: data that a schedule declares visible is made so here, wherever the buffers lie.
 */
#include "core/collective/internal/execution.h"

#include "core/collective/communicator/context.h"
#include "core/collective/internal/exchange.h"
#include "core/transport/copy.h"

#include <inttypes.h>
#include <string.h>

static struct shared_line *own_line(const struct weft_request *request)
{
    return &request->comm->mine->first[request->shm_number % SHARED_TURNS];
}

static const struct shared_line *line_of(const struct weft_request *request, uint32_t rank)
{
    return &request->comm->blocks[rank]->first[request->shm_number % SHARED_TURNS];
}

static uint64_t counter_of(const struct weft_request *request, uint32_t rank, uint32_t lane)
{
    const struct shared_line *line = lane ? &request->comm->blocks[rank]->lanes[lane - 1] : line_of(request, rank);
    return atomic_load_explicit(&line->counter, memory_order_acquire);
}

/*
 * The line that the next shared-memory operation publishes is in the caches of the ranks that read it two operations
 * ago.
 */
void execution_shm_prefetch(const weft_comm *comm)
{
#if defined(__x86_64__)
    if (comm->local_peer_count)
        __asm__ volatile("prefetchw %0" : : "m"(comm->mine->first[(comm->shm_number + 1) % SHARED_TURNS]));
#endif
}

/* ---- beginning ---- */

/*
 * Whether local ranks, which have begun operation `number`, have made the same calls up to the last one in the history.
 * No rank is far enough ahead to have overwritten it: the history holds 64 operations, and a rank is at most 30 ahead.
 */
static bool have_one_history(weft_comm *comm, uint64_t number)
{
    const uint64_t kept = number / SHARED_HISTORY_STEP * SHARED_HISTORY_STEP;
    if (kept <= comm->shm_agreed)
        return true;
    const uint64_t mine = atomic_load_explicit(shared_history(comm->mine, kept), memory_order_relaxed);
    for (uint32_t i = 0; i < comm->local_peer_count; i++)
        if (atomic_load_explicit(shared_history(comm->blocks[comm->local_peers[i]], kept), memory_order_relaxed) !=
            mine) {
            comm->shm_mismatch = comm->local_peers[i] + 1;
            return false;
        }
    comm->shm_agreed = kept;
    return true;
}

/* Whether all local ranks are seen to have begun operation `number`. */
static bool begun_by_all(weft_comm *comm, uint64_t number, uint32_t *awaited)
{
    for (uint32_t i = 0; i < comm->local_peer_count; i++) {
        const struct shared_line *line = &comm->blocks[comm->local_peers[i]]->first[number % SHARED_TURNS];
        if (atomic_load_explicit(&line->counter, memory_order_acquire) < number << SHARED_SIGNAL_BITS) {
            *awaited = comm->local_peers_world[i] + 1;
            return false;
        }
    }
    if (!have_one_history(comm, number))
        return false;
    comm->shm_credit = number;
    return true;
}

bool execution_shm_granted(weft_comm *comm, uint64_t number, uint32_t ahead, uint32_t *awaited)
{
    if (comm->shm_credit + ahead >= number)
        return true;
    /* The others may be further along than required: then the next grants cost nothing. */
    return (ahead > 1 && begun_by_all(comm, number - ahead / 2, awaited)) ||
           begun_by_all(comm, number - ahead, awaited);
}

/*
 * Staging for this operation: for the data that this rank exposes, if any, and for the data that it spreads, because
 * where this rank's buffers are ordinary the others' are likely to be, too. Every iteration has a slot of its own, up
 * to the memory that other cores' caches keep; the schedule waits as if there were schedule.slots of them.
 */
static weft_status take_staging(struct weft_request *request, bool exposes, struct error *error)
{
    weft_comm *comm = request->comm;
    const struct heap *heap = comm->context->heap;
    const struct schedule *schedule = request->schedule;
    const struct binding *binding = &request->binding;
    struct shared_places *places = &own_line(request)->places;
    const uint64_t exposed = exposes ? schedule->input_blocks * binding->room : 0;
    const uint64_t spread = request->entry->spread_blocks * binding->room;
    char *place;
    places->stride = exposed + spread;
    if (!places->stride)
        return WEFT_OK;
    /* Bytes that pass through another core's caches before a line is reused: of all its local ranks together. */
    const uint64_t kept = comm->context->kept_bytes / comm->local_peer_count;
    places->slots = kept / places->stride;
    if (places->slots < schedule->slots)
        places->slots = schedule->slots;
    if (places->slots > binding->iterations)
        places->slots = binding->iterations;
    const uint64_t bytes = places->slots * places->stride;
    weft_status status = staging_take(&comm->staging, comm->context->heap, kept, bytes, &place, error);
    if (status != WEFT_OK)
        return status;
    if (exposed)
        places->exposed = heap_offset(heap, place, bytes);
    if (spread)
        atomic_store_explicit(&places->spread, heap_offset(heap, place + exposed, 1), memory_order_relaxed);
    return WEFT_OK;
}

/*
 * Whether the memory that this rank and its local ranks touch exceeds the last-level cache. A sum also stores into the
 * others' buffers, whose lines would be fetched first, so non-temporal stores are faster as soon as it fills the cache.
 * Staging takes as much of the cache again: with ordinary buffers of 4 and 8 MiB, such stores take a half to two thirds
 * of the time from half of the cache on (measured).
 */
static bool is_beyond_caches(const struct weft_request *request)
{
    const struct schedule *schedule = request->schedule;
    const struct binding *binding = &request->binding;
    const bool in_place = binding->input >= binding->output &&
                          binding->input < binding->output + schedule->output_blocks * binding->block_bytes;
    const uint64_t blocks = (in_place ? 0 : schedule->input_blocks) + schedule->output_blocks;
    const uint64_t footprint = (request->comm->local_peer_count + 1) * blocks * binding->block_bytes;
    const uint64_t limit = request->comm->context->streaming_bytes;
    if (binding->stages)
        return footprint >= limit / 2;
    return collective_reduces(schedule->collective) ? footprint >= limit : footprint > limit;
}

/* Publish the places of this operation's buffers to local ranks. */
static weft_status shm_step_announce(struct weft_request *request, struct error *error)
{
    weft_comm *comm = request->comm;
    const struct heap *heap = comm->context->heap;
    const struct schedule *schedule = request->schedule;
    struct binding *binding = &request->binding;
    struct shared_places *places = &own_line(request)->places;
    bool vector = collective_is_vector(schedule->collective);
    uint64_t input_bytes = binding->block_bytes * schedule->input_blocks;
    if (vector)
        input_bytes = request->call->vectors->output_counts[schedule->rank] * binding->element;
    places->input = input_bytes ? heap_offset(heap, binding->input, input_bytes) : HEAP_NOWHERE;
    places->output = HEAP_NOWHERE;
    if (!vector && schedule->output_blocks)
        places->output = heap_offset(heap, binding->output, binding->block_bytes * schedule->output_blocks);
    places->exposed = HEAP_NOWHERE;
    atomic_store_explicit(&places->spread, HEAP_NOWHERE, memory_order_relaxed);
    const bool exposes = request->entry->exposes && places->input == HEAP_NOWHERE && input_bytes;
    binding->stages = exposes || (places->output == HEAP_NOWHERE && schedule->output_blocks);
    binding->streaming = is_beyond_caches(request);
    return binding->stages ? take_staging(request, exposes, error) : WEFT_OK;
}

bool execution_shm_begin(struct weft_request *request, struct error *error)
{
    weft_comm *comm = request->comm;
    uint64_t number = comm->shm_number + 1;
    const uint32_t ahead =
        request->entry->exchanges ? exchange_ahead(exchange_room(request->schedule, request->binding.block_bytes)) : 1;
    if (!execution_shm_granted(comm, number, ahead, &request->awaited)) {
        if (comm->shm_mismatch)
            diagnosis_mismatch(request, comm->shm_mismatch - 1, NULL);
        return false;
    }
    request->shm_number = number;
    if (!request->entry->exchanges) {
        if (request->binding.iterations * request->schedule->step_count >> SHARED_SIGNAL_BITS) {
            error_set(error, WEFT_ERROR_SCHEDULE, "%s in segments of %" PRIu64 " bytes would make too many signals",
                      request->schedule->algorithm, request->schedule->segment_bytes);
            return false;
        }
        struct shared_line *line = own_line(request);
        if (shm_step_announce(request, error) != WEFT_OK)
            return false;
        line->tag = request->tag;
        shared_history_note(comm->mine, number, request->tag);
        if (!request->entry->signals_first) { /* else the first signal publishes it */
            atomic_store_explicit(&line->counter, number << SHARED_SIGNAL_BITS, memory_order_release);
            shm_ring_all(comm->context->shm, comm->local_peers_world, comm->local_peer_count);
        }
    }
    comm->shm_number = number;
    return true;
}

/* ---- signals ---- */

static void shm_step_signal(struct weft_request *request, struct lane *lane, const struct schedule_group *group)
{
    weft_comm *comm = request->comm;
    uint32_t number = (uint32_t)(lane - request->lanes);
    struct shared_line *line = number ? &comm->mine->lanes[number - 1] : own_line(request);
    lane->signals++;
    atomic_store_explicit(&line->counter, (request->shm_number << SHARED_SIGNAL_BITS) + lane->signals,
                          memory_order_release);
    if (group->count == comm->local_peer_count + 1) {
        shm_ring_all(comm->context->shm, comm->local_peers_world, comm->local_peer_count);
        return;
    }
    const uint32_t *members = request->schedule->members + group->first;
    for (uint32_t i = 0; i < group->count; i++)
        if (members[i] != comm->rank)
            shm_ring(comm->context->shm, comm->world[members[i]]);
}

/* Whether `rank` has begun this operation as this rank has; a mismatch is reported. */
static bool agrees(struct weft_request *request, uint32_t rank)
{
    const struct shared_line *line = line_of(request, rank);
    uint64_t begun = atomic_load_explicit(&line->counter, memory_order_acquire) >> SHARED_SIGNAL_BITS;
    if (begun == request->shm_number && line->tag != request->tag) {
        diagnosis_mismatch(request, rank, NULL);
        return false;
    }
    return true;
}

static enum step_result await(struct weft_request *request, struct lane *lane, const struct step *step,
                              const struct schedule_group *group)
{
    if (lane->iteration < step->value_lag)
        return STEP_COMPLETE;
    const uint32_t *members = request->schedule->members + group->first;
    uint64_t wanted =
        (request->shm_number << SHARED_SIGNAL_BITS) + step->stride * (lane->iteration - step->value_lag) + step->value;
    for (; lane->looked < group->count; lane->looked++) {
        uint32_t rank = members[lane->looked];
        if (rank == request->comm->rank)
            continue;
        bool reached = counter_of(request, rank, step->operands) >= wanted;
        if (!agrees(request, rank))
            return STEP_FAILED;
        if (!reached) {
            request->awaited = request->comm->world[rank] + 1;
            return STEP_WAITS;
        }
    }
    return STEP_COMPLETE;
}

/* ---- where local ranks' chunks lie ---- */

/* Offset of a chunk in an array of blocks that are `stride` bytes apart; the current segment begins at `begin`. */
static uint64_t chunk_offset(const struct weft_request *request, const struct lane *lane, uint32_t chunk,
                             uint64_t stride, uint64_t begin)
{
    uint32_t parts = request->schedule->parts;
    if (parts == 1)
        return chunk * stride + begin;
    return chunk / parts * stride + begin + chunk % parts * lane->segment.width;
}

/* From the first slot of staging to that of this iteration. */
static uint64_t slot_offset(const struct shared_places *places, const struct lane *lane)
{
    return lane->iteration % places->slots * places->stride;
}

/* A chunk of the INPUT of `rank`, as it has exposed it. */
static const char *exposed_chunk(const struct weft_request *request, const struct lane *lane, uint32_t rank,
                                 uint32_t chunk)
{
    const weft_comm *comm = request->comm;
    if (rank == comm->rank)
        return execution_chunk(request, lane, BUFFER_INPUT, chunk);
    const struct shared_places *places = &line_of(request, rank)->places;
    if (places->input != HEAP_NOWHERE)
        return comm->bases[rank] + places->input +
               chunk_offset(request, lane, chunk, request->binding.block_bytes, lane->segment.begin);
    return comm->bases[rank] + places->exposed + slot_offset(places, lane) +
           chunk_offset(request, lane, chunk, request->binding.room, 0);
}

/* ---- moving data ---- */

static enum step_result shm_step_expose(struct weft_request *request, struct lane *lane, const struct step *step)
{
    const struct shared_places *places = &own_line(request)->places;
    if (places->exposed == HEAP_NOWHERE)
        return STEP_COMPLETE; /* registered, or empty */
    const struct schedule *schedule = request->schedule;
    char *staging = request->comm->context->heap->base + places->exposed + slot_offset(places, lane);
    /* Block by block: of each the parts that the step names. */
    for (uint32_t done = 0; done < step->chunks;) {
        uint32_t chunk = step->source_chunk + done;
        uint32_t parts = schedule->parts - chunk % schedule->parts;
        if (parts > step->chunks - done)
            parts = step->chunks - done;
        struct step piece = *step;
        piece.source_chunk = chunk;
        piece.chunks = (uint16_t)parts;
        piece.value = chunk % schedule->parts;
        uint64_t bytes = execution_step_bytes(request, lane, &piece);
        if (bytes)
            copy_bytes(staging + chunk_offset(request, lane, chunk, request->binding.room, 0),
                       execution_chunk(request, lane, BUFFER_INPUT, chunk), bytes, false);
        done += parts;
    }
    return STEP_COMPLETE;
}

static enum step_result shm_step_read_from(struct weft_request *request, struct lane *lane, const struct step *step)
{
    uint64_t bytes = execution_step_bytes(request, lane, step);
    if (!bytes)
        return STEP_COMPLETE;
    char *target = execution_chunk(request, lane, step->target, step->target_chunk);
    const char *source = exposed_chunk(request, lane, step->peer, step->source_chunk);
    copy_bytes(target, source, bytes, request->binding.streaming);
    return STEP_COMPLETE;
}

/* The exposed chunks of all of a group, in its order. */
static uint32_t shm_step_gather(const struct weft_request *request, const struct lane *lane, const struct step *step)
{
    const struct schedule_group *group = &request->schedule->groups[step->peer];
    for (uint32_t i = 0; i < group->count; i++)
        request->comm->sources[i] =
            exposed_chunk(request, lane, request->schedule->members[group->first + i], step->source_chunk);
    return group->count;
}

/*
 * The places where a chunk of OUTPUT goes for a group: into registered outputs, and once into this rank's staging when
 * any output is ordinary.
 */
static weft_status spread_targets(struct weft_request *request, struct lane *lane, const struct step *step,
                                  const struct schedule_group *group, uint32_t *count, bool *streaming,
                                  struct error *error)
{
    weft_comm *comm = request->comm;
    bool ordinary = false;
    *count = 0;
    *streaming = request->binding.streaming;
    for (uint32_t i = 0; i < group->count; i++) {
        uint32_t rank = request->schedule->members[group->first + i];
        uint64_t output = rank == comm->rank ? HEAP_NOWHERE : line_of(request, rank)->places.output;
        if (rank == comm->rank) {
            /* This target is the first, from which the others are copied, because it is in no other core's cache. */
            if (*count)
                comm->targets[*count] = comm->targets[0];
            comm->targets[0] = execution_chunk(request, lane, BUFFER_OUTPUT, step->target_chunk);
            ++*count;
        } else if (output == HEAP_NOWHERE) {
            ordinary = true;
        } else {
            comm->targets[(*count)++] =
                comm->bases[rank] + output +
                chunk_offset(request, lane, step->target_chunk, request->binding.block_bytes, lane->segment.begin);
        }
    }
    if (!ordinary)
        return WEFT_OK;
    struct shared_places *places = &own_line(request)->places;
    if (atomic_load_explicit(&places->spread, memory_order_relaxed) == HEAP_NOWHERE) {
        weft_status status = take_staging(request, false, error);
        if (status != WEFT_OK)
            return status;
    }
    *streaming = false; /* staging is read soon, from the cache */
    comm->targets[(*count)++] =
        comm->context->heap->base + atomic_load_explicit(&places->spread, memory_order_relaxed) +
        slot_offset(places, lane) + chunk_offset(request, lane, step->target_chunk, request->binding.room, 0);
    return WEFT_OK;
}

static enum step_result reduce_or_spread(struct weft_request *request, struct lane *lane, const struct step *step)
{
    weft_comm *comm = request->comm;
    const struct schedule *schedule = request->schedule;
    uint64_t bytes = execution_step_bytes(request, lane, step);
    if (!bytes)
        return STEP_COMPLETE;
    uint32_t sources = 1, targets = 1;
    bool streaming = request->binding.streaming;
    comm->targets[0] = execution_chunk(request, lane, step->target, step->target_chunk);
    if (step->kind == STEP_SPREAD)
        comm->sources[0] = execution_chunk(request, lane, step->source, step->source_chunk);
    else
        sources = shm_step_gather(request, lane, step);
    if (step->kind != STEP_GATHER_REDUCE) {
        const struct schedule_group *group = &schedule->groups[step->kind == STEP_SPREAD ? step->peer : step->operands];
        struct error error;
        error_clear(&error);
        if (spread_targets(request, lane, step, group, &targets, &streaming, &error) != WEFT_OK) {
            progress_fail(comm->context, &error);
            return STEP_FAILED;
        }
    }
    reduction_tree(comm->context->reduction, request->call->type, request->call->op.kind, comm->targets, targets,
                   comm->sources, sources, bytes / request->binding.element,
                   step->flags & STEP_FINISHES ? request->binding.finish : NULL, streaming);
    return STEP_COMPLETE;
}

static void shm_step_deliver(struct weft_request *request, struct lane *lane, const struct step *step)
{
    uint64_t bytes = execution_step_bytes(request, lane, step);
    if (own_line(request)->places.output != HEAP_NOWHERE || !bytes)
        return; /* already stored by the rank that spread it */
    const struct shared_places *places = &line_of(request, step->peer)->places;
    copy_bytes(execution_chunk(request, lane, BUFFER_OUTPUT, step->target_chunk),
               request->comm->bases[step->peer] + atomic_load_explicit(&places->spread, memory_order_relaxed) +
                   slot_offset(places, lane) +
                   chunk_offset(request, lane, step->target_chunk, request->binding.room, 0),
               bytes, request->binding.streaming);
}

/* ---- tiny messages ---- */

static enum step_result shm_step_exchange(struct weft_request *request, struct lane *lane, const struct step *step)
{
    weft_comm *comm = request->comm;
    const struct schedule *schedule = request->schedule;
    const struct exchange_operation operation = {.comm = comm,
                                                 .call = request->call,
                                                 .schedule = schedule,
                                                 .number = request->shm_number,
                                                 .tag = request->tag,
                                                 .block_bytes = request->binding.block_bytes,
                                                 .room = exchange_room(schedule, request->binding.block_bytes),
                                                 .finish = request->binding.finish};
    if (!lane->begun) {
        exchange_publish(&operation,
                         collective_is_vector(schedule->collective)
                             ? request->call->vectors->output_counts[schedule->rank] * request->binding.element
                             : schedule->input_blocks * request->binding.block_bytes);
        shm_ring_all(comm->context->shm, comm->local_peers_world, comm->local_peer_count);
        lane->begun = true;
    }
    const enum exchange_sight sight = exchange_look(&operation, &lane->looked);
    if (sight == EXCHANGE_COMPLETE) {
        exchange_take(&operation);
        return STEP_COMPLETE;
    }
    const uint32_t awaited = schedule->members[schedule->groups[step->peer].first + lane->looked];
    if (sight == EXCHANGE_MISMATCH) {
        diagnosis_mismatch(request, awaited, NULL);
        return STEP_FAILED;
    }
    request->awaited = comm->world[awaited] + 1;
    return STEP_WAITS;
}

enum step_result execution_step_shm(struct weft_request *request, struct lane *lane, const struct step *step)
{
    switch ((enum step_kind)step->kind) {
    case STEP_EXPOSE:
        return shm_step_expose(request, lane, step);
    case STEP_SIGNAL:
        shm_step_signal(request, lane, &request->schedule->groups[step->peer]);
        return STEP_COMPLETE;
    case STEP_AWAIT:
        return await(request, lane, step, &request->schedule->groups[step->peer]);
    case STEP_READ:
        return shm_step_read_from(request, lane, step);
    case STEP_GATHER_REDUCE:
    case STEP_SPREAD:
    case STEP_REDUCE_SPREAD:
        return reduce_or_spread(request, lane, step);
    case STEP_DELIVER:
        shm_step_deliver(request, lane, step);
        return STEP_COMPLETE;
    default:
        return shm_step_exchange(request, lane, step);
    }
}

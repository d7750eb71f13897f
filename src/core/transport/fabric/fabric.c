/* SPDX-License-Identifier: Apache-2.0 */
/* Opening and closing, the completion queue, and the struct transport. */
#include "core/transport/fabric/internal/state.h"

#include "base/clock.h"
#include "core/control/wire/endpoint_info.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <unistd.h>

#define RECEIVE_MEMORY ((uint64_t)64 << 20) /**< for all receive buffers together; it bounds the credits of a peer */
#define LEAST_CREDITS  4
#define MOST_CREDITS   32
#define SPARE_RECEIVES 4          /**< messages of a peer that cost no credit and may be in flight at once */
#define CLOSE_LIMIT    300000000u /**< nanoseconds to wait for sent messages to leave */

/* ---- errors ---- */

/* WEFT_ERROR_NETWORK: only the control plane decides whether a rank has died. */
void fabric_fail(struct fabric *fabric, const struct rail *rail, uint32_t peer, const char *doing, int number,
                 const char *detail)
{
    char whom[32] = "";
    if (peer != UINT32_MAX)
        snprintf(whom, sizeof whom, " to rank %u", peer);
    error_set(&fabric->failure, WEFT_ERROR_NETWORK, "%s: rank %u failed at %s%s on interface %s: %s%s%s", fabric->name,
              fabric->rank, doing, whom, rail->interface, fabric->library.strerror(number),
              detail && *detail ? ", " : "", detail && *detail ? detail : "");
}

static const char *host_of(const struct fabric *fabric, uint32_t rank)
{
    return fabric->endpoints && rank < fabric->ranks ? fabric->endpoints[rank].host : "unknown";
}

/* Not WEFT_ERROR_NETWORK, which waits for a better reason: this is the reason. */
void fabric_fail_damaged(struct fabric *fabric, uint32_t peer, const char *what, uint64_t bytes, uint32_t expected,
                         uint32_t found)
{
    error_set(&fabric->failure, WEFT_ERROR_PEER,
              "%s: rank %u on host %s received damaged data from rank %u on host %s: %s of %" PRIu64
              " bytes was sent with the CRC-32C %08x, and has %08x; examine the network and the memory of both hosts",
              fabric->name, fabric->rank, host_of(fabric, fabric->rank), peer, host_of(fabric, peer), what, bytes,
              expected, found);
}

static weft_status failure_of(const struct fabric *fabric, struct error *error)
{
    if (fabric->failure.status == WEFT_OK)
        return WEFT_OK;
    return error_set(error, fabric->failure.status, "%s", fabric->failure.text);
}

/* ---- completions ---- */

static void complete(struct fabric *fabric, const struct completion *completion)
{
    const struct fi_cq_data_entry *entry = &completion->entry;
    if (entry->flags & FI_REMOTE_CQ_DATA) {
        bulk_take_chunk(fabric, completion->rail, (uint32_t)entry->data);
        return;
    }
    struct operation *operation = entry->op_context;
    if (!operation)
        return;
    struct slot *slot = (struct slot *)(void *)operation; /* unless it is a write */
    switch (operation->kind) {
    case OPERATION_SEND:
        message_sent(fabric, slot);
        break;
    case OPERATION_RECEIVE:
        fabric->rails[completion->rail].receive_have--;
        slot->bytes = (uint32_t)entry->len;
        if (!channel_take_message(fabric, slot))
            slot_give(fabric, slot);
        break;
    case OPERATION_WRITE:
        bulk_chunk_written(fabric, operation);
        break;
    }
}

static void complete_with_error(struct fabric *fabric, struct rail *rail)
{
    struct fi_cq_err_entry entry = {0};
    if (fi_cq_readerr(rail->queue, &entry, 0) != 1)
        return;
    struct operation *operation = entry.op_context;
    if (!operation) {
        fabric_fail(fabric, rail, UINT32_MAX, "a remote operation", entry.err, NULL);
        return;
    }
    char text[128] = "";
    const char *detail = fi_cq_strerror(rail->queue, entry.prov_errno, entry.err_data, text, sizeof text);
    switch (operation->kind) {
    case OPERATION_SEND:
        fabric->sends--;
        if (operation->is_probe)
            path_refuse_probe(&fabric->peers[operation->peer], operation->rail);
        else
            fabric_fail(fabric, rail, operation->peer, "sending a message", entry.err, detail);
        if (operation->transfer)
            operation->transfer->state = TRANSFER_FAILED;
        slot_give(fabric, (struct slot *)(void *)operation);
        break;
    case OPERATION_RECEIVE:
        rail->receive_have--;
        slot_give(fabric, (struct slot *)(void *)operation);
        if (entry.err != FI_ETRUNC && entry.err != FI_EMSGSIZE) /* longer than any rank sends: from another program */
            fabric_fail(fabric, rail, UINT32_MAX, "receiving a message", entry.err, detail);
        break;
    case OPERATION_WRITE:
        fabric_fail(fabric, rail, operation->peer, "writing a message", entry.err, detail);
        operation->transfer->state = TRANSFER_FAILED;
        write_give(fabric, operation);
        break;
    }
}

static void flush_busy_peers(struct fabric *fabric)
{
    struct peer *peer = fabric->busy_peers;
    fabric->busy_peers = NULL;
    while (peer) {
        struct peer *next = peer->next_busy;
        peer->busy = false;
        bool probes = paths_flush(fabric, peer);
        bool messages = message_flush(fabric, peer);
        bool chunks = bulk_flush(fabric, peer);
        if (!probes || !messages || !chunks)
            peer_is_busy(fabric, peer);
        peer = next;
    }
}

/** Read what has completed on `rail` into `entries`; returns how many. */
static size_t read_queue(struct fabric *fabric, struct rail *rail, struct completion *completions)
{
    struct fi_cq_data_entry entries[FABRIC_BATCH];
    ssize_t count = fi_cq_read(rail->queue, entries, FABRIC_BATCH);
    if (count == -FI_EAVAIL)
        complete_with_error(fabric, rail);
    else if (count < 0 && count != -FI_EAGAIN)
        fabric_fail(fabric, rail, UINT32_MAX, "reading its completion queue", (int)-count, NULL);
    for (ssize_t i = 0; i < count; i++)
        completions[i] = (struct completion){entries[i], (uint32_t)(rail - fabric->rails)};
    return count > 0 ? (size_t)count : 0;
}

static weft_status fabric_progress(struct transport *transport, struct error *error)
{
    struct fabric *fabric = (struct fabric *)(void *)transport;
    if (fabric->failure.status != WEFT_OK)
        return failure_of(fabric, error);
    if (!fabric->open)
        return WEFT_OK;

    for (struct rail *rail = fabric->rails; rail < fabric->rails + fabric->rail_count; rail++) {
        struct completion completions[FABRIC_BATCH];
        size_t count = read_queue(fabric, rail, completions);
        for (size_t i = 0; i < count; i++)
            complete(fabric, &completions[i]);
        /* If messages were received, handle them before posting more buffers, while there are enough. */
        uint32_t wanted = count ? rail->receive_want : rail->receive_most;
        if (rail->receive_have < wanted)
            message_post_receives(fabric, rail, wanted, &fabric->failure);
    }
    if (fabric->unrequested && !--fabric->patience)
        channel_request(fabric);
    if (fabric->busy_peers)
        flush_busy_peers(fabric);
    return failure_of(fabric, error);
}

/* ---- transfers ---- */

static weft_status fabric_begin(struct transport *transport, struct transfer *transfer, struct error *error)
{
    struct fabric *fabric = (struct fabric *)(void *)transport;
    if (fabric->failure.status != WEFT_OK)
        return failure_of(fabric, error);
    if (transfer->peer >= fabric->ranks || !fabric->peers[transfer->peer].connected)
        return error_set(error, WEFT_ERROR_STATE, "%s: rank %u cannot reach rank %u: they have not been connected",
                         fabric->name, fabric->rank, transfer->peer);
    if (!fabric->open)
        return error_set(error, WEFT_ERROR_STATE,
                         "%s: the endpoint of rank %u was closed when a transfer was cancelled", fabric->name,
                         fabric->rank);
    if (transfer->bytes > (uint64_t)FABRIC_CHUNK_BYTES << FABRIC_LANE_SHIFT)
        return error_set(error, WEFT_ERROR_ARGUMENT, "%s: a message of %llu bytes is too large", fabric->name,
                         (unsigned long long)transfer->bytes);
    struct peer *peer = &fabric->peers[transfer->peer];
    if (!peer->contacted)
        paths_probe(fabric, peer);
    peer->active++;
    weft_status status = transfer->is_send ? channel_begin_send(fabric, transfer, error)
                                           : channel_begin_receive(fabric, transfer, error);
    if (status != WEFT_OK) {
        peer->active--;
        return status;
    }
    return failure_of(fabric, error);
}

void transfer_end(struct fabric *fabric, struct transfer *transfer, enum transfer_state state)
{
    struct transport_counters *counters = &fabric->counters;
    flight_of(transfer)->phase = FLIGHT_NOTHING;
    fabric->peers[transfer->peer].active--;
    transfer->state = state;
    if (state != TRANSFER_COMPLETE)
        return;
    *(transfer->is_send ? &counters->messages_sent : &counters->messages_received) += 1;
    *(transfer->is_send ? &counters->bytes_sent : &counters->bytes_received) += transfer->bytes;
}

static void endpoints_close(struct fabric *fabric)
{
    for (uint32_t i = 0; i < fabric->rail_count; i++)
        rail_close_endpoints(&fabric->rails[i]);
    fabric->open = false;
}

static void fabric_cancel(struct transport *transport, struct transfer *transfer)
{
    struct fabric *fabric = (struct fabric *)(void *)transport;
    struct flight *flight = flight_of(transfer);
    struct peer *peer = &fabric->peers[transfer->peer];
    fabric->cancelled = true;
    switch (flight->phase) {
    case FLIGHT_RECEIVE:
        transfer_list_remove(&flight->channel->receives, transfer);
        if (flight->lane != FABRIC_NO_LANE)
            endpoints_close(fabric);
        bulk_retire(fabric, transfer);
        break;
    case FLIGHT_SEND:
        transfer_list_remove(&flight->channel->sends, transfer);
        waiting_remove(&fabric->unrequested, transfer);
        break;
    case FLIGHT_HELD:
        transfer_list_remove(&flight->channel->held, transfer);
        break;
    case FLIGHT_WAITING:
        transfer_list_remove(&peer->waiting, transfer);
        break;
    case FLIGHT_LEAVING:
        flight->slot->operation.transfer = NULL;
        break;
    case FLIGHT_WRITING:
    case FLIGHT_COMPLETING:
        transfer_list_remove(&peer->writing, transfer);
        if (flight->done < flight->posted)
            endpoints_close(fabric);
        bulk_forget(fabric, transfer);
        break;
    default:
        transfer->state = TRANSFER_IDLE;
        return;
    }
    transfer_end(fabric, transfer, TRANSFER_IDLE);
}

static void fabric_counters(const struct transport *transport, struct transport_counters *counters)
{
    *counters = ((const struct fabric *)(const void *)transport)->counters;
}

static void fabric_forget(struct transport *transport, uint32_t communicator)
{
    channels_forget((struct fabric *)(void *)transport, communicator);
}

/* ---- sleeping ---- */

static int fabric_wait_descriptor(const struct transport *transport)
{
    return ((const struct fabric *)(const void *)transport)->descriptor;
}

static bool fabric_may_sleep(struct transport *transport)
{
    struct fabric *fabric = (struct fabric *)(void *)transport;
    if (!fabric->open || fabric->failure.status != WEFT_OK)
        return true;
    channel_request(fabric);
    paths_watch(fabric);
    if (fabric->descriptor < 0)
        return true;
    for (uint32_t i = 0; i < fabric->rail_count; i++)
        if (!rail_may_sleep(&fabric->rails[i]))
            return false;
    /*
     * The look at the queues drives the provider. It may have finished a connection, which completes nothing and wakes
     * nobody, but the messages that were refused until now can leave. Both ranks would sleep forever.
     */
    uint64_t posts = fabric->posts;
    flush_busy_peers(fabric);
    return fabric->posts == posts && fabric->failure.status == WEFT_OK;
}

/* ---- opening and closing ---- */

static void fabric_transport_close(struct transport *transport)
{
    fabric_close((struct fabric *)(void *)transport);
}

/** How many receive buffers a peer has here: the same on all ranks, as it follows from their number alone. */
static uint32_t credits_for(uint32_t ranks)
{
    uint64_t credits = RECEIVE_MEMORY / sizeof(struct slot) / (ranks ? ranks : 1);
    if (credits < LEAST_CREDITS)
        return LEAST_CREDITS;
    return credits > MOST_CREDITS ? MOST_CREDITS : (uint32_t)credits;
}

/** One descriptor for a sleeper: that of the only rail, or an epoll over those of all. */
static weft_status open_descriptor(struct fabric *fabric, struct error *error)
{
    fabric->descriptor = fabric->rails[0].descriptor;
    if (fabric->rail_count == 1)
        return WEFT_OK;
    fabric->sleepers = epoll_create1(EPOLL_CLOEXEC);
    if (fabric->sleepers < 0)
        return error_system(error, "cannot open the descriptor that wakes a thread waiting for the network");
    fabric->descriptor = fabric->sleepers;
    for (uint32_t i = 0; i < fabric->rail_count; i++) {
        struct epoll_event event = {.events = EPOLLIN};
        if (fabric->rails[i].descriptor < 0)
            fabric->descriptor = -1;
        else if (epoll_ctl(fabric->sleepers, EPOLL_CTL_ADD, fabric->rails[i].descriptor, &event) != 0)
            return error_system(error, "cannot listen to interface %s (epoll)", fabric->rails[i].interface);
    }
    return WEFT_OK;
}

static void fabric_describe(struct fabric *fabric, const char *reason)
{
    size_t used = (size_t)snprintf(fabric->description, sizeof fabric->description, "%s: ", reason);
    for (uint32_t i = 0; i < fabric->rail_count && used < sizeof fabric->description; i++) {
        char address[128] = "?";
        size_t bytes = sizeof address;
        fi_av_straddr(fabric->rails[i].addresses, fabric->endpoint.rail[i].address, address, &bytes);
        used += (size_t)snprintf(fabric->description + used, sizeof fabric->description - used, "%s%s at %s",
                                 i ? ", " : "", fabric->rails[i].interface, address);
    }
    if (fabric->descriptor < 0 && used < sizeof fabric->description)
        snprintf(fabric->description + used, sizeof fabric->description - used,
                 "; it cannot wake a sleeping thread, so idle ranks poll periodically");
}

/** Open the chosen interfaces. The first must open; others that do not are left out. */
static weft_status open_rails(struct fabric *fabric, struct rail_choice *choices, uint32_t count, struct error *error)
{
    uint32_t wanted = (fabric->ranks > 1 ? fabric->ranks - 1 : 1) * (fabric->credits + SPARE_RECEIVES);
    weft_status status = WEFT_OK;
    snprintf(fabric->endpoint.provider, sizeof fabric->endpoint.provider, "%s",
             choices[0].info->fabric_attr->prov_name);
    snprintf(fabric->name, sizeof fabric->name, "fabric/%s", fabric->endpoint.provider);
    fabric->mr_mode = (uint64_t)choices[0].info->domain_attr->mr_mode;
    for (uint32_t i = 0; i < count; i++) {
        struct rail *rail = &fabric->rails[fabric->rail_count];
        struct fabric_rail_endpoint *endpoint = &fabric->endpoint.rail[fabric->rail_count];
        struct error refused = {0};
        *rail = (struct rail){.info = choices[i].info, .descriptor = -1};
        choices[i].info = NULL;
        snprintf(rail->interface, sizeof rail->interface, "%s", choices[i].interface);
        uint32_t room = (uint32_t)rail->info->rx_attr->size;
        rail->receive_want = wanted < room ? wanted : room;
        rail->receive_most = wanted + FABRIC_BATCH < room ? wanted + FABRIC_BATCH : room;
        memcpy(endpoint->network, choices[i].network, sizeof endpoint->network);
        memcpy(endpoint->interface, rail->interface, sizeof endpoint->interface);
        endpoint->bytes_per_second = choices[i].bytes_per_second;
        bool same = (uint64_t)rail->info->domain_attr->mr_mode == fabric->mr_mode;
        if (same && (status = rail_open(fabric, rail, endpoint, &refused)) == WEFT_OK) {
            fabric->rail_count++;
            continue;
        }
        rail_close(fabric, rail);
        if (i == 0)
            return error_set(error, status, "%s", refused.text);
    }
    fabric->endpoint.rails = fabric->rail_count;
    fabric->open = true;
    return WEFT_OK;
}

/** Open what all rails share: memory, receive buffers, the descriptor of sleepers. */
static weft_status open_buffers(struct fabric *fabric, struct error *error)
{
    weft_status status = fabric_memory_open(fabric, error);
    for (uint32_t i = 0; status == WEFT_OK && i < fabric->rail_count; i++)
        status = message_post_receives(fabric, &fabric->rails[i], fabric->rails[i].receive_most, error);
    return status == WEFT_OK ? open_descriptor(fabric, error) : status;
}

/* Provider and interfaces: fi_getinfo() takes up to half a second, so after a failure the former choice holds. */
static weft_status choose(const struct libfabric *library, const struct fabric_config *config, uint64_t receives,
                          struct rail_choice *choices, uint32_t *count, char *reason, size_t size, struct error *error)
{
    const struct fabric *former = config->former;
    if (!former)
        return fabric_choose(library, config, receives, choices, count, reason, size, error);
    snprintf(reason, size, "%s, as before the failure", former->endpoint.provider);
    for (uint32_t i = 0; i < former->rail_count; i++) {
        struct rail_choice *choice = &choices[i];
        choice->info = library->dupinfo(former->rails[i].info);
        if (!choice->info)
            return error_memory(error, sizeof *choice->info, "the network's description");
        memcpy(choice->network, former->endpoint.rail[i].network, sizeof choice->network);
        memcpy(choice->interface, former->rails[i].interface, sizeof choice->interface);
        choice->bytes_per_second = former->endpoint.rail[i].bytes_per_second;
        *count = i + 1;
    }
    return WEFT_OK;
}

weft_status fabric_open(const struct fabric_config *config, struct fabric **result, struct error *error)
{
    char reason[256];
    struct rail_choice choices[FABRIC_RAILS] = {0};
    uint32_t count = 0;
    struct fabric *fabric = calloc(1, sizeof *fabric);
    if (!fabric)
        return error_memory(error, sizeof *fabric, "the network transport");
    fabric->descriptor = fabric->sleepers = -1;
    fabric->rank = config->rank;
    fabric->ranks = config->ranks;
    fabric->heap = config->heap;
    fabric->checks = config->checks;
    fabric->endpoints = config->endpoints;
    fabric->credits = credits_for(config->ranks);
    for (uint32_t lane = 0; lane < FABRIC_LANES; lane++)
        fabric->free_lanes[fabric->free_lane_count++] = FABRIC_LANES - 1 - lane;
    snprintf(fabric->name, sizeof fabric->name, "fabric");

    weft_status status = libfabric_load(&fabric->library, error);
    if (status != WEFT_OK)
        goto fail;
    status = WEFT_ERROR_MEMORY;
    fabric->peers = calloc(config->ranks ? config->ranks : 1, sizeof *fabric->peers);
    if (!fabric->peers) {
        error_memory(error, config->ranks * sizeof *fabric->peers, "the network's peers");
        goto fail;
    }
    for (uint32_t i = 0; i < config->ranks; i++)
        fabric->peers[i].credits = fabric->credits;
    uint64_t receives =
        (uint64_t)(config->ranks > 1 ? config->ranks - 1 : 1) * (fabric->credits + SPARE_RECEIVES) + FABRIC_BATCH;
    status = choose(&fabric->library, config, receives, choices, &count, reason, sizeof reason, error);
    if (status == WEFT_OK)
        status = open_rails(fabric, choices, count, error);
    for (uint32_t i = 0; i < count; i++)
        if (choices[i].info)
            fabric->library.freeinfo(choices[i].info);
    if (status == WEFT_OK)
        status = open_buffers(fabric, error);
    if (status != WEFT_OK)
        goto fail;
    fabric_describe(fabric, reason);
    fabric->transport = (struct transport){
        .name = fabric->name,
        .begin = fabric_begin,
        .progress = fabric_progress,
        .cancel = fabric_cancel,
        .counters = fabric_counters,
        .forget = fabric_forget,
        .wait_descriptor = fabric_wait_descriptor,
        .may_sleep = fabric_may_sleep,
        .close = fabric_transport_close,
    };
    *result = fabric;
    return WEFT_OK;

fail:
    fabric_close(fabric);
    return status;
}

void fabric_abandon(struct fabric *fabric)
{
    if (!fabric)
        return;
    fabric->cancelled = true;
    endpoints_close(fabric);
}

void fabric_close(struct fabric *fabric)
{
    if (!fabric)
        return;
    uint64_t limit = clock_now() + CLOSE_LIMIT; /* after a failure no caller is left to take it */
    fabric->closing = true;
    while (fabric->open && !fabric->cancelled && (fabric->sends || fabric->busy_peers) && clock_now() < limit)
        if (fabric_progress(&fabric->transport, NULL) != WEFT_OK)
            break;
    endpoints_close(fabric);
    fabric_memory_close(fabric);
    fabric_slabs_close(fabric);
    fabric_channels_close(fabric);
    for (uint32_t i = 0; i < fabric->rail_count; i++)
        rail_close(fabric, &fabric->rails[i]);
    if (fabric->sleepers >= 0)
        close(fabric->sleepers);
    if (fabric->peers)
        for (uint32_t i = 0; i < fabric->ranks; i++)
            free(fabric->peers[i].paths);
    free(fabric->peers);
    free(fabric);
}

/* ---- the rest ---- */

void fabric_endpoint_info(const struct fabric *fabric, struct fabric_endpoint *endpoint)
{
    *endpoint = fabric->endpoint;
}

weft_status fabric_connect(struct fabric *fabric, uint32_t rank, const struct fabric_endpoint *endpoint,
                           struct error *error)
{
    if (rank >= fabric->ranks)
        return error_set(error, WEFT_ERROR_ARGUMENT, "%s: there is no rank %u among %u", fabric->name, rank,
                         fabric->ranks);
    if (strncmp(endpoint->provider, fabric->endpoint.provider, sizeof endpoint->provider) != 0)
        return error_set(error, WEFT_ERROR_NETWORK,
                         "rank %u opened the network provider '%.*s' but rank %u '%s'; name one that all hosts have",
                         rank, (int)sizeof endpoint->provider, endpoint->provider, fabric->rank,
                         fabric->endpoint.provider);
    weft_status status = paths_open(fabric, rank, endpoint, error);
    if (status != WEFT_OK)
        return status;
    fabric->peers[rank].connected = true;
    peer_is_busy(fabric, &fabric->peers[rank]);
    return WEFT_OK;
}

const char *fabric_description(const struct fabric *fabric)
{
    return fabric->description;
}

struct transport *fabric_transport(struct fabric *fabric)
{
    return &fabric->transport;
}

/* SPDX-License-Identifier: Apache-2.0 */
/* Opening and closing, the completion queue, and the struct transport. */
#include "transport/fabric_internal.h"

#include "base/clock.h"

#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#define RECEIVE_MEMORY ((uint64_t)64 << 20) /**< for all receive buffers together; it bounds the credits of a peer */
#define LEAST_CREDITS  4
#define MOST_CREDITS   32
#define SPARE_RECEIVES 2          /**< CREDIT messages of a peer that may be under way at once */
#define CLOSE_LIMIT    300000000u /**< nanoseconds to wait for what was sent to leave */

/* ---- errors ----------------------------------------------------------------------------------------------------- */

/* Always WEFT_ERROR_NETWORK: whether a rank has died is for the control plane to say. */
void fabric_fail(struct fabric *fabric, uint32_t peer, const char *doing, int number, const char *detail)
{
    char whom[32] = "";
    if (peer != UINT32_MAX)
        snprintf(whom, sizeof whom, " to rank %u", peer);
    error_set(&fabric->failure, WEFT_ERROR_NETWORK, "%s: rank %u failed at %s%s: %s%s%s", fabric->name, fabric->rank,
              doing, whom, fi_strerror(number), detail && *detail ? ", " : "", detail && *detail ? detail : "");
}

static weft_status failure_of(const struct fabric *fabric, struct error *error)
{
    if (fabric->failure.status == WEFT_OK)
        return WEFT_OK;
    return error_set(error, fabric->failure.status, "%s", fabric->failure.text);
}

/* ---- completions ------------------------------------------------------------------------------------------------ */

static void complete(struct fabric *fabric, const struct fi_cq_data_entry *entry)
{
    if (entry->flags & FI_REMOTE_CQ_DATA) {
        bulk_take_chunk(fabric, (uint32_t)entry->data);
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
        fabric->receive_have--;
        slot->bytes = (uint32_t)entry->len;
        if (!channel_take_message(fabric, slot))
            slot_give(fabric, slot);
        break;
    case OPERATION_WRITE:
        bulk_chunk_written(fabric, operation);
        break;
    }
}

static void complete_with_error(struct fabric *fabric)
{
    struct fi_cq_err_entry entry = {0};
    if (fi_cq_readerr(fabric->queue, &entry, 0) != 1)
        return;
    struct operation *operation = entry.op_context;
    if (!operation) {
        fabric_fail(fabric, UINT32_MAX, "a remote operation", entry.err, NULL);
        return;
    }
    char text[128] = "";
    const char *detail = fi_cq_strerror(fabric->queue, entry.prov_errno, entry.err_data, text, sizeof text);
    switch (operation->kind) {
    case OPERATION_SEND:
        fabric->sends--;
        fabric_fail(fabric, operation->peer, "sending a message", entry.err, detail);
        if (operation->transfer)
            operation->transfer->state = TRANSFER_FAILED;
        slot_give(fabric, (struct slot *)(void *)operation);
        break;
    case OPERATION_RECEIVE:
        fabric->receive_have--;
        slot_give(fabric, (struct slot *)(void *)operation);
        if (entry.err != FI_ETRUNC && entry.err != FI_EMSGSIZE) /* longer than any rank sends: of a stranger */
            fabric_fail(fabric, UINT32_MAX, "receiving a message", entry.err, detail);
        break;
    case OPERATION_WRITE:
        fabric_fail(fabric, operation->peer, "writing a message", entry.err, detail);
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
        bool messages = message_flush(fabric, peer);
        bool chunks = bulk_flush(fabric, peer);
        if (!messages || !chunks)
            peer_is_busy(fabric, peer);
        peer = next;
    }
}

static weft_status fabric_progress(struct transport *transport, struct error *error)
{
    struct fabric *fabric = (struct fabric *)(void *)transport;
    if (fabric->failure.status != WEFT_OK)
        return failure_of(fabric, error);
    if (!fabric->endpoint)
        return WEFT_OK;

    struct fi_cq_data_entry entries[FABRIC_BATCH];
    ssize_t count = fi_cq_read(fabric->queue, entries, FABRIC_BATCH);
    if (count == -FI_EAVAIL) {
        complete_with_error(fabric);
        count = 0;
    } else if (count < 0) {
        if (count != -FI_EAGAIN)
            fabric_fail(fabric, UINT32_MAX, "reading its completion queue", (int)-count, NULL);
        count = 0;
    }
    if (fabric->shuffle) {
        if (shuffle_put(fabric->shuffle, entries, (size_t)count, &fabric->failure) != WEFT_OK)
            return failure_of(fabric, error);
        count = (ssize_t)shuffle_get(fabric->shuffle, entries, FABRIC_BATCH);
    }
    for (ssize_t i = 0; i < count; i++)
        complete(fabric, &entries[i]);
    if (fabric->receive_have < fabric->receive_want)
        message_post_receives(fabric, &fabric->failure);
    if (fabric->unrequested && !--fabric->patience)
        channel_request(fabric);
    if (fabric->busy_peers)
        flush_busy_peers(fabric);
    return failure_of(fabric, error);
}

/* ---- transfers -------------------------------------------------------------------------------------------------- */

static weft_status fabric_begin(struct transport *transport, struct transfer *transfer, struct error *error)
{
    struct fabric *fabric = (struct fabric *)(void *)transport;
    if (fabric->failure.status != WEFT_OK)
        return failure_of(fabric, error);
    if (transfer->peer >= fabric->ranks || !fabric->peers[transfer->peer].connected)
        return error_set(error, WEFT_ERROR_STATE, "%s: rank %u cannot reach rank %u: they have not been connected",
                         fabric->name, fabric->rank, transfer->peer);
    if (!fabric->endpoint)
        return error_set(error, WEFT_ERROR_STATE,
                         "%s: the endpoint of rank %u was closed when a transfer was cancelled", fabric->name,
                         fabric->rank);
    if (transfer->bytes > (uint64_t)FABRIC_CHUNK_BYTES << FABRIC_LANE_SHIFT)
        return error_set(error, WEFT_ERROR_ARGUMENT, "%s: a message of %llu bytes is too large", fabric->name,
                         (unsigned long long)transfer->bytes);
    weft_status status = transfer->is_send ? channel_begin_send(fabric, transfer, error)
                                           : channel_begin_receive(fabric, transfer, error);
    return status != WEFT_OK ? status : failure_of(fabric, error);
}

static void endpoints_close(struct fabric *fabric)
{
    if (fabric->bulk && fabric->bulk != fabric->endpoint)
        fi_close(&fabric->bulk->fid);
    if (fabric->endpoint)
        fi_close(&fabric->endpoint->fid);
    fabric->bulk = fabric->endpoint = NULL;
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
        region_release(fabric, flight->region);
        break;
    default:
        break;
    }
    flight->phase = FLIGHT_NOTHING;
    transfer->state = TRANSFER_IDLE;
}

static void fabric_counters(const struct transport *transport, struct transport_counters *counters)
{
    *counters = ((const struct fabric *)(const void *)transport)->counters;
}

static void fabric_forget(struct transport *transport, uint32_t communicator)
{
    channels_forget((struct fabric *)(void *)transport, communicator);
}

/* ---- sleeping --------------------------------------------------------------------------------------------------- */

static int fabric_wait_descriptor(const struct transport *transport)
{
    return ((const struct fabric *)(const void *)transport)->descriptor;
}

static bool fabric_may_sleep(struct transport *transport)
{
    struct fabric *fabric = (struct fabric *)(void *)transport;
    if (!fabric->endpoint || fabric->failure.status != WEFT_OK)
        return true;
    if (fabric->shuffle && !shuffle_is_empty(fabric->shuffle))
        return false;
    channel_request(fabric);
    if (fabric->descriptor < 0)
        return true;
    struct fid *fids[] = {&fabric->queue->fid};
    return fi_cq_read(fabric->queue, NULL, 0) == -FI_EAGAIN && fi_trywait(fabric->fabric, fids, 1) == FI_SUCCESS;
}

/* ---- opening and closing ---------------------------------------------------------------------------------------- */

static void fabric_transport_close(struct transport *transport)
{
    fabric_close((struct fabric *)(void *)transport);
}

static weft_status refused(struct fabric *fabric, const char *what, int status, struct error *error)
{
    return error_set(error, WEFT_ERROR_NETWORK, "%s: cannot open %s: %s", fabric->name, what, fi_strerror(-status));
}

/** Whether a connection of this provider is one stream of bytes, and cheap. */
static bool is_stream(const struct fabric *fabric)
{
    const char *provider = fabric->info->fabric_attr->prov_name;
    return strcmp(provider, "net") == 0 || strcmp(provider, "tcp") == 0;
}

/**
 * The net provider (tcp before 1.20) signals its queue's own descriptor at the first completion and never takes the
 * signal back, so that a sleeper would be woken for ever. But nothing completes there but by our own progress, which
 * the sleeper has just seen to be idle: it is enough to wait for the epoll descriptor of its sockets, which is one of
 * those that it names.
 */
static int sockets_descriptor(struct fid_cq *queue)
{
    struct pollfd descriptors[8];
    struct fi_wait_pollfd answer = {.nfds = sizeof descriptors / sizeof *descriptors, .fd = descriptors};
    struct fi_cq_data_entry none;
    (void)fi_cq_sread(queue, &none, 1, NULL, 1); /* it learns of its sockets when it first waits */
    if (fi_control(&queue->fid, FI_GETWAIT, &answer) != 0)
        return -1;
    for (uint64_t i = 0; i < answer.nfds; i++) {
        char path[64], target[64];
        snprintf(path, sizeof path, "/proc/self/fd/%d", descriptors[i].fd);
        ssize_t bytes = readlink(path, target, sizeof target - 1);
        target[bytes > 0 ? bytes : 0] = '\0';
        if (strstr(target, "[eventpoll]"))
            return descriptors[i].fd;
    }
    return -1;
}

static weft_status open_queue(struct fabric *fabric, struct error *error)
{
    bool keeps_signal = is_stream(fabric) && fi_version() < FI_VERSION(1, 20);
    struct fi_cq_attr attributes = {
        .size = fabric->receive_want + fabric->info->tx_attr->size + FABRIC_LANES,
        .format = FI_CQ_FORMAT_DATA,
        .wait_obj = keeps_signal ? FI_WAIT_POLLFD : FI_WAIT_FD,
    };
    fabric->descriptor = -1;
    int status = fi_cq_open(fabric->domain, &attributes, &fabric->queue, NULL);
    if (status == 0 && keeps_signal) {
        fabric->descriptor = sockets_descriptor(fabric->queue);
    } else if (status == 0) {
        if (fi_control(&fabric->queue->fid, FI_GETWAIT, &fabric->descriptor) != 0)
            fabric->descriptor = -1;
    } else {
        attributes.wait_obj = FI_WAIT_NONE; /* efa: it cannot block */
        status = fi_cq_open(fabric->domain, &attributes, &fabric->queue, NULL);
    }
    return status == 0 ? WEFT_OK : refused(fabric, "a completion queue", status, error);
}

static weft_status open_one(struct fabric *fabric, struct fid_ep **endpoint, uint8_t *address, size_t *bytes,
                            struct error *error)
{
    int status = fi_endpoint(fabric->domain, fabric->info, endpoint, NULL);
    if (status != 0)
        return refused(fabric, "an endpoint", status, error);
    status = fi_ep_bind(*endpoint, &fabric->addresses->fid, 0);
    if (status == 0)
        status = fi_ep_bind(*endpoint, &fabric->queue->fid, FI_TRANSMIT | FI_RECV);
    if (status == 0)
        status = fi_enable(*endpoint);
    if (status != 0)
        return refused(fabric, "the endpoint", status, error);
    *bytes = FABRIC_ADDRESS_BYTES;
    status = fi_getname(&(*endpoint)->fid, address, bytes);
    return status == 0 ? WEFT_OK : refused(fabric, "the endpoint's address", status, error);
}

static weft_status open_endpoints(struct fabric *fabric, struct error *error)
{
    struct fi_av_attr attributes = {.type = FI_AV_TABLE, .count = 2 * (size_t)fabric->ranks};
    int status = fi_fabric(fabric->info->fabric_attr, &fabric->fabric, NULL);
    if (status != 0)
        return refused(fabric, "the network", status, error);
    status = fi_domain(fabric->fabric, fabric->info, &fabric->domain, NULL);
    if (status != 0)
        return refused(fabric, "the interface", status, error);
    status = fi_av_open(fabric->domain, &attributes, &fabric->addresses, NULL);
    if (status != 0)
        return refused(fabric, "an address table", status, error);
    weft_status opened = open_queue(fabric, error);
    if (opened != WEFT_OK)
        return opened;
    size_t bytes;
    opened = open_one(fabric, &fabric->endpoint, fabric->card.address, &bytes, error);
    if (opened != WEFT_OK)
        return opened;
    fabric->bulk = fabric->endpoint;
    memcpy(fabric->card.bulk_address, fabric->card.address, sizeof fabric->card.address);
    if (is_stream(fabric) && !(fabric->mr_mode & FI_MR_ENDPOINT)) {
        fabric->bulk = NULL;
        opened = open_one(fabric, &fabric->bulk, fabric->card.bulk_address, &bytes, error);
        if (opened != WEFT_OK)
            return opened;
    }
    fabric->card.address_bytes = (uint32_t)bytes;
    snprintf(fabric->card.provider, sizeof fabric->card.provider, "%s", fabric->info->fabric_attr->prov_name);
    return WEFT_OK;
}

/** How many receive buffers a peer has here: the same on all ranks, as it follows from their number alone. */
static uint32_t credits_for(uint32_t ranks)
{
    uint64_t credits = RECEIVE_MEMORY / sizeof(struct slot) / (ranks ? ranks : 1);
    if (credits < LEAST_CREDITS)
        return LEAST_CREDITS;
    return credits > MOST_CREDITS ? MOST_CREDITS : (uint32_t)credits;
}

static void describe(struct fabric *fabric, const char *reason)
{
    char address[128] = "?";
    size_t bytes = sizeof address;
    fi_av_straddr(fabric->addresses, fabric->card.address, address, &bytes);
    snprintf(fabric->description, sizeof fabric->description, "%s at %s%s", reason, address,
             fabric->descriptor < 0 ? "; it cannot wake a sleeper, so idle ranks nap" : "");
}

weft_status fabric_open(const struct fabric_config *config, struct fabric **result, struct error *error)
{
    char reason[256];
    struct fabric *fabric = calloc(1, sizeof *fabric);
    if (!fabric)
        return error_memory(error, sizeof *fabric, "the network transport");
    fabric->descriptor = -1;
    fabric->rank = config->rank;
    fabric->ranks = config->ranks;
    fabric->heap = config->heap;
    fabric->credits = credits_for(config->ranks);
    fabric->receive_want = (config->ranks > 1 ? config->ranks - 1 : 1) * (fabric->credits + SPARE_RECEIVES);
    for (uint32_t lane = 0; lane < FABRIC_LANES; lane++)
        fabric->free_lanes[fabric->free_lane_count++] = FABRIC_LANES - 1 - lane;
    snprintf(fabric->name, sizeof fabric->name, "fabric");

    weft_status status = WEFT_ERROR_MEMORY;
    fabric->peers = calloc(config->ranks ? config->ranks : 1, sizeof *fabric->peers);
    if (!fabric->peers) {
        error_memory(error, config->ranks * sizeof *fabric->peers, "the network's peers");
        goto fail;
    }
    for (uint32_t i = 0; i < config->ranks; i++)
        fabric->peers[i].credits = fabric->credits;
    if (config->shuffle_seed && (status = shuffle_open(config->shuffle_seed, &fabric->shuffle, error)) != WEFT_OK)
        goto fail;
    status = fabric_choose(config, fabric->receive_want, &fabric->info, reason, sizeof reason, error);
    if (status != WEFT_OK)
        goto fail;
    snprintf(fabric->name, sizeof fabric->name, "fabric/%s", fabric->info->fabric_attr->prov_name);
    if (fabric->receive_want > fabric->info->rx_attr->size)
        fabric->receive_want = (uint32_t)fabric->info->rx_attr->size;
    fabric->mr_mode = (uint64_t)fabric->info->domain_attr->mr_mode;

    status = open_endpoints(fabric, error);
    if (status == WEFT_OK)
        status = fabric_memory_open(fabric, error);
    if (status == WEFT_OK)
        status = message_post_receives(fabric, error);
    if (status != WEFT_OK)
        goto fail;
    describe(fabric, reason);
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

void fabric_close(struct fabric *fabric)
{
    if (!fabric)
        return;
    uint64_t limit = clock_now() + CLOSE_LIMIT; /* after a failure nobody is left to take it */
    while (fabric->endpoint && !fabric->cancelled && (fabric->sends || fabric->busy_peers) && clock_now() < limit)
        if (fabric_progress(&fabric->transport, NULL) != WEFT_OK)
            break;
    endpoints_close(fabric);
    fabric_memory_close(fabric);
    fabric_slabs_close(fabric);
    fabric_channels_close(fabric);
    if (fabric->queue)
        fi_close(&fabric->queue->fid);
    if (fabric->addresses)
        fi_close(&fabric->addresses->fid);
    if (fabric->domain)
        fi_close(&fabric->domain->fid);
    if (fabric->fabric)
        fi_close(&fabric->fabric->fid);
    if (fabric->info)
        fi_freeinfo(fabric->info);
    shuffle_close(fabric->shuffle);
    free(fabric->peers);
    free(fabric);
}

/* ---- the rest --------------------------------------------------------------------------------------------------- */

void fabric_card(const struct fabric *fabric, struct fabric_card *card)
{
    *card = fabric->card;
}

weft_status fabric_connect(struct fabric *fabric, uint32_t rank, const struct fabric_card *card, struct error *error)
{
    if (rank >= fabric->ranks)
        return error_set(error, WEFT_ERROR_ARGUMENT, "%s: there is no rank %u among %u", fabric->name, rank,
                         fabric->ranks);
    if (strncmp(card->provider, fabric->card.provider, sizeof card->provider) != 0)
        return error_set(error, WEFT_ERROR_NETWORK,
                         "rank %u opened the network provider '%.*s' but rank %u '%s'; name one that all hosts have",
                         rank, (int)sizeof card->provider, card->provider, fabric->rank, fabric->card.provider);
    if (card->address_bytes != fabric->card.address_bytes)
        return error_set(
            error, WEFT_ERROR_NETWORK,
            "%s: the addresses of rank %u and rank %u are of different kinds (IPv4 and IPv6?); name an interface",
            fabric->name, rank, fabric->rank);
    struct peer *peer = &fabric->peers[rank];
    if (fi_av_insert(fabric->addresses, card->address, 1, &peer->address, 0, NULL) != 1 ||
        fi_av_insert(fabric->addresses, card->bulk_address, 1, &peer->bulk_address, 0, NULL) != 1)
        return error_set(error, WEFT_ERROR_NETWORK, "%s: rank %u's address is refused", fabric->name, rank);
    peer->connected = true;
    peer_is_busy(fabric, peer);
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

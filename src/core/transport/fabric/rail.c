/* SPDX-License-Identifier: Apache-2.0 */
/* One interface: its domain, completion queue and endpoints. */
#include "core/transport/fabric/internal/state.h"

#include <poll.h>
#include <stdio.h>
#include <unistd.h>

static weft_status refused(const struct fabric *fabric, const struct rail *rail, const char *what, int status,
                           struct error *error)
{
    return error_set(error, WEFT_ERROR_NETWORK, "%s: cannot open %s on %s: %s", fabric->name, what, rail->interface,
                     fabric->library.strerror(-status));
}

/** Whether a connection of this provider is one stream of bytes, and cheap. */
static bool is_stream(const struct rail *rail)
{
    const char *provider = rail->info->fabric_attr->prov_name;
    return strcmp(provider, "net") == 0 || strcmp(provider, "tcp") == 0;
}

/**
 * The net provider (tcp before 1.20) signals its queue's own descriptor at the first completion and never clears it, so
 * a sleeper would wake at once forever. But completions there arise only from this rank's own progress, which the
 * sleeper has just seen to be idle. So it is enough to wait for the epoll descriptor of its sockets, which is among
 * those that the provider names.
 */
static int sockets_descriptor_named(struct fid_cq *queue)
{
    struct pollfd descriptors[8];
    struct fi_wait_pollfd answer = {.nfds = ARRAY_SIZE(descriptors), .fd = descriptors};
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

/*
 * The queue adds its sockets when it first waits, but not if its time limit passes before: a process that loses its
 * core for a millisecond tries again with a longer limit.
 */
static int sockets_descriptor(struct fid_cq *queue)
{
    int descriptor = -1;
    for (int milliseconds = 1; descriptor < 0 && milliseconds <= 256; milliseconds *= 4) {
        struct fi_cq_data_entry none;
        (void)fi_cq_sread(queue, &none, 1, NULL, milliseconds);
        descriptor = sockets_descriptor_named(queue);
    }
    return descriptor;
}

static weft_status open_queue(struct fabric *fabric, struct rail *rail, struct error *error)
{
    bool keeps_signal = is_stream(rail) && fabric->library.version() < FI_VERSION(1, 20);
    struct fi_cq_attr attributes = {
        .size = rail->receive_most + rail->info->tx_attr->size + FABRIC_LANES,
        .format = FI_CQ_FORMAT_DATA,
        .wait_obj = keeps_signal ? FI_WAIT_POLLFD : FI_WAIT_FD,
    };
    int status = fi_cq_open(rail->domain, &attributes, &rail->queue, NULL);
    if (status == 0 && keeps_signal) {
        rail->descriptor = sockets_descriptor(rail->queue);
    } else if (status == 0) {
        if (fi_control(&rail->queue->fid, FI_GETWAIT, &rail->descriptor) != 0)
            rail->descriptor = -1;
    } else {
        attributes.wait_obj = FI_WAIT_NONE; /* efa: it cannot block */
        status = fi_cq_open(rail->domain, &attributes, &rail->queue, NULL);
    }
    return status == 0 ? WEFT_OK : refused(fabric, rail, "a completion queue", status, error);
}

static weft_status open_one(struct fabric *fabric, struct rail *rail, struct fid_ep **endpoint, uint8_t *address,
                            size_t *bytes, struct error *error)
{
    int status = fi_endpoint(rail->domain, rail->info, endpoint, NULL);
    if (status != 0)
        return refused(fabric, rail, "an endpoint", status, error);
    status = fi_ep_bind(*endpoint, &rail->addresses->fid, 0);
    if (status == 0)
        status = fi_ep_bind(*endpoint, &rail->queue->fid, FI_TRANSMIT | FI_RECV);
    if (status == 0)
        status = fi_enable(*endpoint);
    if (status != 0)
        return refused(fabric, rail, "the endpoint", status, error);
    *bytes = FABRIC_ADDRESS_BYTES;
    status = fi_getname(&(*endpoint)->fid, address, bytes);
    return status == 0 ? WEFT_OK : refused(fabric, rail, "the endpoint's address", status, error);
}

weft_status rail_open(struct fabric *fabric, struct rail *rail, struct fabric_rail_endpoint *own, struct error *error)
{
    struct fi_av_attr attributes = {.type = FI_AV_TABLE, .count = 2 * (size_t)fabric->ranks};
    int status = fabric->library.fabric(rail->info->fabric_attr, &rail->fabric, NULL);
    if (status != 0)
        return refused(fabric, rail, "the network", status, error);
    status = fi_domain(rail->fabric, rail->info, &rail->domain, NULL);
    if (status != 0)
        return refused(fabric, rail, "the interface", status, error);
    status = fi_av_open(rail->domain, &attributes, &rail->addresses, NULL);
    if (status != 0)
        return refused(fabric, rail, "an address table", status, error);
    weft_status opened = open_queue(fabric, rail, error);
    if (opened != WEFT_OK)
        return opened;
    size_t bytes;
    opened = open_one(fabric, rail, &rail->endpoint, own->address, &bytes, error);
    if (opened != WEFT_OK)
        return opened;
    if (is_stream(rail) && !(fabric->mr_mode & FI_MR_ENDPOINT)) {
        opened = open_one(fabric, rail, &rail->bulk, own->bulk_address, &bytes, error);
        if (opened != WEFT_OK)
            return opened;
    } else {
        rail->bulk = rail->endpoint;
        memcpy(own->bulk_address, own->address, sizeof own->address);
    }
    own->address_bytes = (uint32_t)bytes;
    return WEFT_OK;
}

void rail_close_endpoints(struct rail *rail)
{
    if (rail->bulk && rail->bulk != rail->endpoint)
        fi_close(&rail->bulk->fid);
    if (rail->endpoint)
        fi_close(&rail->endpoint->fid);
    rail->bulk = rail->endpoint = NULL;
}

void rail_close(const struct fabric *fabric, struct rail *rail)
{
    rail_close_endpoints(rail);
    if (rail->queue)
        fi_close(&rail->queue->fid);
    if (rail->addresses)
        fi_close(&rail->addresses->fid);
    if (rail->domain)
        fi_close(&rail->domain->fid);
    if (rail->fabric)
        fi_close(&rail->fabric->fid);
    if (rail->info)
        fabric->library.freeinfo(rail->info);
}

bool rail_may_sleep(struct rail *rail)
{
    struct fid *fids[] = {&rail->queue->fid};
    return fi_cq_read(rail->queue, NULL, 0) == -FI_EAGAIN && fi_trywait(rail->fabric, fids, 1) == FI_SUCCESS;
}

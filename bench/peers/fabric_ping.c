/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The floor under Weft's messages: a message of a few bytes there and back over the bare libfabric provider that Weft
 * would take for TCP, both ends polling, nothing between the program and the provider.
 *
 *     fabric_ping serve ADDRESS PORT              answer until the other end says that it is through
 *     fabric_ping ping OWN_ADDRESS ADDRESS PORT   print half a round trip in microseconds, the median of batches
 */
#include "base/clock.h"

#include <rdma/fabric.h>
#include <rdma/fi_cm.h>
#include <rdma/fi_domain.h>
#include <rdma/fi_endpoint.h>
#include <rdma/fi_errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MESSAGE_BYTES 8
#define BATCHES       21
#define ROUNDS        2000
#define LIMIT         ((uint64_t)20000000000u) /**< nanoseconds without an answer: the other end is gone */
#define NAME_BYTES    64                       /**< of an address, told in the first message */

static struct fid_ep *endpoint;
static struct fid_cq *queue;
static struct fid_av *addresses;
static struct fi_context2 contexts[2];
static char inbox[2][NAME_BYTES + sizeof(uint64_t)];

static void must(int status, const char *what)
{
    if (status >= 0)
        return;
    fprintf(stderr, "fabric_ping: %s: %s\n", what, fi_strerror(-status));
    exit(1);
}

static void post(int buffer)
{
    ssize_t status;
    do
        status = fi_recv(endpoint, inbox[buffer], sizeof inbox[buffer], NULL, FI_ADDR_UNSPEC, &contexts[buffer]);
    while (status == -FI_EAGAIN);
    must((int)status, "fi_recv");
}

/* Poll until a message has come; which buffer it is in. */
static int receive(size_t *bytes)
{
    struct fi_cq_msg_entry entry;
    ssize_t count = 0;
    uint64_t limit = 0;
    for (unsigned polls = 1; (count = fi_cq_read(queue, &entry, 1)) == -FI_EAGAIN; polls++) {
        if (polls % 65536)
            continue;
        limit = limit ? limit : clock_now() + LIMIT;
        if (clock_now() > limit)
            must(-FI_ETIMEDOUT, "waiting for the other end");
    }
    must((int)count, "fi_cq_read");
    *bytes = entry.len;
    return entry.op_context == &contexts[1];
}

static void tell(fi_addr_t whom, const void *data, size_t bytes)
{
    struct fi_cq_msg_entry entry;
    ssize_t status;
    while ((status = fi_inject(endpoint, data, bytes, whom)) == -FI_EAGAIN)
        must(fi_cq_read(queue, &entry, 0) == -FI_EAGAIN ? 0 : -FI_EIO, "connecting");
    must((int)status, "fi_inject");
}

/* An endpoint at `address`; `port` NULL: any. */
static void open_endpoint(const char *address, const char *port)
{
    struct fi_info *hints = fi_allocinfo(), *info = NULL;
    struct fid_fabric *fabric;
    struct fid_domain *domain;
    struct fi_av_attr av = {.type = FI_AV_TABLE};
    struct fi_cq_attr cq = {.format = FI_CQ_FORMAT_MSG, .wait_obj = FI_WAIT_NONE};
    hints->caps = FI_MSG;
    hints->mode = FI_CONTEXT | FI_CONTEXT2;
    hints->ep_attr->type = FI_EP_RDM;
    hints->domain_attr->threading = FI_THREAD_DOMAIN;
    hints->fabric_attr->prov_name = strdup(fi_version() >= FI_VERSION(1, 18) ? "tcp" : "net");
    must(fi_getinfo(FI_VERSION(1, 17), address, port, FI_SOURCE, hints, &info), "fi_getinfo");
    must(fi_fabric(info->fabric_attr, &fabric, NULL), "fi_fabric");
    must(fi_domain(fabric, info, &domain, NULL), "fi_domain");
    must(fi_av_open(domain, &av, &addresses, NULL), "fi_av_open");
    must(fi_cq_open(domain, &cq, &queue, NULL), "fi_cq_open");
    must(fi_endpoint(domain, info, &endpoint, NULL), "fi_endpoint");
    must(fi_ep_bind(endpoint, &addresses->fid, 0), "fi_ep_bind");
    must(fi_ep_bind(endpoint, &queue->fid, FI_TRANSMIT | FI_SELECTIVE_COMPLETION), "fi_ep_bind");
    must(fi_ep_bind(endpoint, &queue->fid, FI_RECV), "fi_ep_bind");
    must(fi_enable(endpoint), "fi_enable");
    post(0);
    post(1);
}

/* The first message is the other end's address; one of a single byte is the last. */
static void serve(void)
{
    size_t bytes;
    int buffer = receive(&bytes);
    fi_addr_t whom;
    must(fi_av_insert(addresses, inbox[buffer], 1, &whom, 0, NULL) == 1 ? 0 : -FI_EADDRNOTAVAIL, "fi_av_insert");
    do {
        post(buffer);
        tell(whom, "answer.", MESSAGE_BYTES);
        buffer = receive(&bytes);
    } while (bytes > 1);
}

static int by_value(const void *first, const void *second)
{
    double a = *(const double *)first, b = *(const double *)second;
    return (a > b) - (a < b);
}

static void ping(const char *address, const char *port)
{
    char name[NAME_BYTES] = "";
    size_t bytes = sizeof name;
    fi_addr_t whom;
    double times[BATCHES];
    must(fi_getname(&endpoint->fid, name, &bytes), "fi_getname");
    must(fi_av_insertsvc(addresses, address, port, &whom, 0, NULL) == 1 ? 0 : -FI_EADDRNOTAVAIL, "fi_av_insertsvc");
    tell(whom, name, sizeof name);
    post(receive(&bytes));
    for (int batch = 0; batch < BATCHES; batch++) {
        uint64_t begin = clock_now();
        for (int i = 0; i < ROUNDS; i++) {
            tell(whom, "request", MESSAGE_BYTES);
            post(receive(&bytes));
        }
        times[batch] = (double)(clock_now() - begin) * 1e-3 / ROUNDS / 2;
    }
    tell(whom, ".", 1);
    qsort(times, BATCHES, sizeof *times, by_value);
    printf("%.3f\n", times[BATCHES / 2]);
}

int main(int argc, char **argv)
{
    bool serving = argc == 4 && strcmp(argv[1], "serve") == 0;
    if (!serving && (argc != 5 || strcmp(argv[1], "ping") != 0)) {
        fprintf(stderr, "usage: fabric_ping serve ADDRESS PORT | ping OWN_ADDRESS ADDRESS PORT\n");
        return 2;
    }
    open_endpoint(argv[2], serving ? argv[3] : NULL);
    if (serving)
        serve();
    else
        ping(argv[3], argv[4]);
    return 0;
}

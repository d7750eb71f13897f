/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The key-value stores of PMI, over the descriptor in PMI_FD.
 *
 * PMI-1 is the wire protocol of MPICH's process managers (P. Balaji et al., "PMI: A Scalable Parallel
 * Process-Management Interface for Extreme-Scale Systems", EuroMPI 2010): lines of "cmd=name field=value ...".
 * PMI-2 is that of srun --mpi=pmi2: after a PMI-1 line that asks for version 2, messages of a length (6 characters) and
 * "cmd=name;field=value;...".
 */
#include "base/clock.h"
#include "base/text.h"
#include "core/control/rendezvous/internal/kvs.h"
#include "core/control/wire/environment.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define ANSWER_SECONDS 30.0
#define MESSAGE_BYTES  4096
#define LENGTH_BYTES   6

struct pmi {
    struct kvs kvs;
    int descriptor;
    bool second;     /* PMI-2 was agreed on */
    char space[300]; /* PMI-1: the name of the job's key-value space */
};

static weft_status pmi_variable_read(const char *name, int64_t least, int64_t *number, struct error *error)
{
    const char *text = getenv(name);
    struct error reason = {0};
    if (text && text_parse_integer(text, name, least, INT32_MAX, number, &reason) == WEFT_OK)
        return WEFT_OK;
    return error_set(error, WEFT_ERROR_RENDEZVOUS, "the launcher speaks PMI, but its variable is wrong: %s is %s", name,
                     text ? text : "not set");
}

static weft_status pmi_environment_read(struct pmi *pmi, struct error *error)
{
    int64_t descriptor = 0, rank = 0, ranks = 0;
    weft_status status = pmi_variable_read("PMI_FD", 0, &descriptor, error);
    if (status == WEFT_OK)
        status = pmi_variable_read("PMI_SIZE", 1, &ranks, error);
    if (status == WEFT_OK)
        status = pmi_variable_read("PMI_RANK", 0, &rank, error);
    if (status != WEFT_OK)
        return status;
    if (rank >= ranks)
        return error_set(error, WEFT_ERROR_RENDEZVOUS, "PMI_RANK is %d, but PMI_SIZE is %d", (int)rank, (int)ranks);
    pmi->descriptor = (int)descriptor;
    pmi->kvs.rank = (uint32_t)rank;
    pmi->kvs.ranks = (uint32_t)ranks;
    return WEFT_OK;
}

static weft_status pmi_write(const struct pmi *pmi, const char *bytes, size_t size, struct error *error)
{
    while (size > 0) {
        ssize_t n = send(pmi->descriptor, bytes, size, MSG_NOSIGNAL);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0 && errno == EAGAIN) {
            struct pollfd wait = {pmi->descriptor, POLLOUT, 0};
            poll(&wait, 1, 1000);
            continue;
        }
        if (n < 0)
            return error_set(error, WEFT_ERROR_RENDEZVOUS,
                             "the launcher does not read from PMI_FD: %s (PMI can be used once in a process)",
                             strerror(errno));
        bytes += n;
        size -= (size_t)n;
    }
    return WEFT_OK;
}

/* Read exactly `size` bytes, at most `limit_seconds` after the call. */
static weft_status pmi_read(const struct pmi *pmi, char *bytes, size_t size, double limit_seconds, struct error *error)
{
    uint64_t end = clock_after(limit_seconds);
    while (size > 0) {
        uint64_t now = clock_now();
        struct pollfd wait = {pmi->descriptor, POLLIN, 0};
        int ready = now < end ? poll(&wait, 1, (int)((end - now) / 1000000) + 1) : 0;
        if (ready < 0 && errno == EINTR)
            continue;
        if (ready == 0)
            return error_set(
                error, WEFT_ERROR_TIMEOUT,
                "not all ranks have come to the rendezvous within %g s (the launcher's PMI does not name the missing)",
                limit_seconds);
        ssize_t n = read(pmi->descriptor, bytes, size);
        if (n < 0 && (errno == EINTR || errno == EAGAIN))
            continue;
        if (n <= 0)
            return error_set(error, WEFT_ERROR_RENDEZVOUS, "the launcher closed its PMI connection: %s",
                             n == 0 ? "another rank has failed, or the launcher ended" : strerror(errno));
        bytes += n;
        size -= (size_t)n;
    }
    return WEFT_OK;
}

/* The value of field `name` in "name=value name=value", fields ended by `separator` or the text's end. False: absent or
 * too long; `value` is then unchanged. */
static bool pmi_field(const char *message, const char *name, char separator, char *value, size_t room)
{
    size_t length = strlen(name);
    for (const char *at = message; at; at = strchr(at, separator), at = at ? at + 1 : NULL) {
        if (strncmp(at, name, length) != 0 || at[length] != '=')
            continue;
        const char *begin = at + length + 1, *end = strchr(begin, separator);
        size_t size = end ? (size_t)(end - begin) : strlen(begin);
        if (size >= room)
            return false;
        memcpy(value, begin, size);
        value[size] = '\0';
        return true;
    }
    return false;
}

/* Send a line and read the answer, a character at a time: the launcher sends one answer to each request, so nothing is
 * read ahead. */
static weft_status pmi_line_exchange(const struct pmi *pmi, const char *request, char *answer, double limit_seconds,
                                     struct error *error)
{
    weft_status status = pmi_write(pmi, request, strlen(request), error);
    for (size_t length = 0; status == WEFT_OK && length < MESSAGE_BYTES - 1; length++) {
        status = pmi_read(pmi, answer + length, 1, limit_seconds, error);
        if (status == WEFT_OK && answer[length] == '\n') {
            answer[length] = '\0';
            return WEFT_OK;
        }
    }
    return status != WEFT_OK ? status
                             : error_set(error, WEFT_ERROR_RENDEZVOUS,
                                         "the launcher sent a PMI line longer than %d bytes", MESSAGE_BYTES);
}

/* The same with messages of PMI-2. */
static weft_status pmi_message_exchange(const struct pmi *pmi, const char *request, char *answer, double limit_seconds,
                                        struct error *error)
{
    char head[LENGTH_BYTES + 1], *end = NULL;
    snprintf(head, sizeof head, "%6u", (unsigned)strlen(request) % 1000000);
    weft_status status = pmi_write(pmi, head, LENGTH_BYTES, error);
    if (status == WEFT_OK)
        status = pmi_write(pmi, request, strlen(request), error);
    if (status == WEFT_OK)
        status = pmi_read(pmi, head, LENGTH_BYTES, limit_seconds, error);
    if (status != WEFT_OK)
        return status;
    const unsigned long length = strtoul(head, &end, 10);
    if (end == head || length >= MESSAGE_BYTES)
        return error_set(error, WEFT_ERROR_RENDEZVOUS, "the launcher sent a PMI-2 message of a wrong length, '%s'",
                         head);
    answer[length] = '\0';
    return pmi_read(pmi, answer, length, ANSWER_SECONDS, error);
}

/* A request, and its answer, which must be command `expected` with rc=0. */
static weft_status pmi_ask(const struct pmi *pmi, const char *request, const char *expected, char *answer,
                           double limit_seconds, struct error *error)
{
    const char separator = pmi->second ? ';' : ' ';
    char command[64] = "", code[16] = {pmi->second ? '\0' : '0'}; /* some answers of PMI-1 have no rc */
    weft_status status = pmi->second ? pmi_message_exchange(pmi, request, answer, limit_seconds, error)
                                     : pmi_line_exchange(pmi, request, answer, limit_seconds, error);
    if (status != WEFT_OK)
        return status;
    pmi_field(answer, "cmd", separator, command, sizeof command);
    pmi_field(answer, "rc", separator, code, sizeof code);
    if (strcmp(command, expected) == 0 && strcmp(code, "0") == 0)
        return WEFT_OK;
    /* Only the request's command, because the value put may be the job's secret. */
    return error_set(error, WEFT_ERROR_RENDEZVOUS, "the launcher answered '%.200s' to the %s request '%.*s'", answer,
                     pmi->kvs.name, (int)strcspn(request, " ;\n"), request);
}

static weft_status pmi_put(struct kvs *kvs, const char *key, const char *value, struct error *error)
{
    const struct pmi *pmi = (const struct pmi *)kvs;
    char request[MESSAGE_BYTES], answer[MESSAGE_BYTES];
    if (pmi->second)
        snprintf(request, sizeof request, "cmd=kvs-put;key=%s;value=%s;", key, value);
    else
        snprintf(request, sizeof request, "cmd=put kvsname=%s key=%s value=%s\n", pmi->space, key, value);
    return pmi_ask(pmi, request, pmi->second ? "kvs-put-response" : "put_result", answer, ANSWER_SECONDS, error);
}

static weft_status pmi_fence(struct kvs *kvs, double limit_seconds, struct error *error)
{
    const struct pmi *pmi = (const struct pmi *)kvs;
    char answer[MESSAGE_BYTES];
    return pmi->second ? pmi_ask(pmi, "cmd=kvs-fence;", "kvs-fence-response", answer, limit_seconds, error)
                       : pmi_ask(pmi, "cmd=barrier_in\n", "barrier_out", answer, limit_seconds, error);
}

static weft_status pmi_get(struct kvs *kvs, uint32_t rank, const char *key, char *value, size_t room,
                           struct error *error)
{
    const struct pmi *pmi = (const struct pmi *)kvs;
    char request[MESSAGE_BYTES], answer[MESSAGE_BYTES], found[16] = "";
    if (pmi->second)
        snprintf(request, sizeof request, "cmd=kvs-get;jobid=%s;srcid=-1;key=%s;", getenv("PMI_JOBID"), key);
    else
        snprintf(request, sizeof request, "cmd=get kvsname=%s key=%s\n", pmi->space, key);
    weft_status status =
        pmi_ask(pmi, request, pmi->second ? "kvs-get-response" : "get_result", answer, ANSWER_SECONDS, error);
    if (status != WEFT_OK)
        return status;
    pmi_field(answer, "found", ';', found, sizeof found);
    if ((pmi->second && strcasecmp(found, "true") != 0) ||
        !pmi_field(answer, "value", pmi->second ? ';' : ' ', value, room))
        return error_set(error, WEFT_ERROR_RENDEZVOUS, "the launcher's %s has no good value of '%s' of rank %u",
                         kvs->name, key, rank);
    return WEFT_OK;
}

static void pmi_close(struct kvs *kvs, bool notify)
{
    const struct pmi *pmi = (const struct pmi *)kvs;
    char answer[MESSAGE_BYTES];
    if (notify && pmi->second)
        (void)pmi_ask(pmi, "cmd=finalize;", "finalize-response", answer, ANSWER_SECONDS, NULL);
    else if (notify)
        (void)pmi_ask(pmi, "cmd=finalize\n", "finalize_ack", answer, ANSWER_SECONDS, NULL);
    free(kvs);
}

static weft_status pmi1_begin(struct pmi *pmi, struct error *error)
{
    char answer[MESSAGE_BYTES], number[16] = "";
    weft_status status =
        pmi_ask(pmi, "cmd=init pmi_version=1 pmi_subversion=1\n", "response_to_init", answer, ANSWER_SECONDS, error);
    if (status == WEFT_OK)
        status = pmi_ask(pmi, "cmd=get_maxes\n", "maxes", answer, ANSWER_SECONDS, error);
    if (status == WEFT_OK && pmi_field(answer, "vallen_max", ' ', number, sizeof number))
        pmi->kvs.value_most = strtoul(number, NULL, 10);
    if (status == WEFT_OK)
        status = pmi_ask(pmi, "cmd=get_my_kvsname\n", "my_kvsname", answer, ANSWER_SECONDS, error);
    if (status == WEFT_OK && !pmi_field(answer, "kvsname", ' ', pmi->space, sizeof pmi->space))
        status = error_set(error, WEFT_ERROR_RENDEZVOUS,
                           "the launcher's PMI did not name its key-value space: '%.200s'", answer);
    return status;
}

static weft_status pmi2_begin(struct pmi *pmi, struct error *error)
{
    char request[256], answer[MESSAGE_BYTES], version[16] = "", code[16] = "";
    weft_status status =
        pmi_line_exchange(pmi, "cmd=init pmi_version=2 pmi_subversion=0\n", answer, ANSWER_SECONDS, error);
    if (status != WEFT_OK)
        return status;
    pmi_field(answer, "pmi_version", ' ', version, sizeof version);
    pmi_field(answer, "rc", ' ', code, sizeof code);
    if (strcmp(version, "2") != 0 || strcmp(code, "0") != 0)
        return error_set(error, WEFT_ERROR_RENDEZVOUS, "the launcher does not speak PMI-2 but '%.200s'", answer);
    pmi->second = true;
    pmi->kvs.value_most = 1024;
    snprintf(request, sizeof request, "cmd=fullinit;pmijobid=%.100s;pmirank=%u;threaded=FALSE;", getenv("PMI_JOBID"),
             pmi->kvs.rank);
    return pmi_ask(pmi, request, "fullinit-response", answer, ANSWER_SECONDS, error);
}

static weft_status pmi_open(enum launcher launcher, weft_status (*begin)(struct pmi *pmi, struct error *error),
                            struct kvs **kvs, struct error *error)
{
    struct pmi *pmi = calloc(1, sizeof *pmi);
    if (!pmi)
        return error_memory(error, sizeof *pmi, "the launcher's PMI");
    pmi->kvs = (struct kvs){
        .name = launcher_name(launcher), .put = pmi_put, .fence = pmi_fence, .get = pmi_get, .close = pmi_close};
    weft_status status = pmi_environment_read(pmi, error);
    if (status == WEFT_OK)
        status = begin(pmi, error);
    if (status == WEFT_OK)
        *kvs = &pmi->kvs;
    else
        free(pmi);
    return status;
}

weft_status kvs_open_pmi1(struct kvs **kvs, struct error *error)
{
    return pmi_open(LAUNCHER_PMI1, pmi1_begin, kvs, error);
}

weft_status kvs_open_pmi2(struct kvs **kvs, struct error *error)
{
    return pmi_open(LAUNCHER_PMI2, pmi2_begin, kvs, error);
}

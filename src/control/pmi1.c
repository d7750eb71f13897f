/* SPDX-License-Identifier: Apache-2.0 */
/*
 * PMI-1, the wire protocol of MPICH's process managers (P. Balaji et al., "PMI: A Scalable Parallel Process-Management
 * Interface for Extreme-Scale Systems", EuroMPI 2010): lines of "cmd=name field=value ..." over the descriptor in
 * PMI_FD.
 */
#include "control/kvs.h"
#include "control/pmi_wire.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define ANSWER_SECONDS 30.0

struct pmi1 {
    struct kvs kvs;
    int descriptor;
    char store[300]; /* the name of the job's key-value space */
};

bool kvs_pmi1_offered(void)
{
    return getenv("PMI_FD") && !kvs_pmi2_offered();
}

/* Read a line, a character at a time: the launcher sends one answer to each request, so nothing is read ahead. */
static weft_status read_line(const struct pmi1 *pmi, char *line, double limit_seconds, struct error *error)
{
    for (size_t length = 0; length < PMI_MESSAGE_BYTES - 1; length++) {
        weft_status status = pmi_read(pmi->descriptor, line + length, 1, limit_seconds, error);
        if (status != WEFT_OK)
            return status;
        if (line[length] == '\n') {
            line[length] = '\0';
            return WEFT_OK;
        }
    }
    return error_set(error, WEFT_ERROR_RENDEZVOUS, "the launcher sent a PMI line longer than %d bytes",
                     PMI_MESSAGE_BYTES);
}

/* A request, and its answer, which must be command `expected` with rc=0 (or without rc). */
static weft_status ask(const struct pmi1 *pmi, const char *request, const char *expected, char *answer,
                       double limit_seconds, struct error *error)
{
    weft_status status = pmi_write(pmi->descriptor, request, strlen(request), error);
    if (status == WEFT_OK)
        status = read_line(pmi, answer, limit_seconds, error);
    if (status != WEFT_OK)
        return status;
    char command[64] = "", code[16] = "0";
    pmi_field(answer, "cmd", ' ', command, sizeof command);
    pmi_field(answer, "rc", ' ', code, sizeof code);
    if (strcmp(command, expected) == 0 && strcmp(code, "0") == 0)
        return WEFT_OK;
    return error_set(error, WEFT_ERROR_RENDEZVOUS, "the launcher answered '%.200s' to the PMI request '%.*s'", answer,
                     (int)strcspn(request, "\n"), request);
}

static weft_status put(struct kvs *kvs, const char *key, const char *value, struct error *error)
{
    struct pmi1 *pmi = (struct pmi1 *)kvs;
    char request[PMI_MESSAGE_BYTES], answer[PMI_MESSAGE_BYTES];
    snprintf(request, sizeof request, "cmd=put kvsname=%s key=%s value=%s\n", pmi->store, key, value);
    return ask(pmi, request, "put_result", answer, ANSWER_SECONDS, error);
}

static weft_status fence(struct kvs *kvs, double limit_seconds, struct error *error)
{
    char answer[PMI_MESSAGE_BYTES];
    return ask((struct pmi1 *)kvs, "cmd=barrier_in\n", "barrier_out", answer, limit_seconds, error);
}

static weft_status get(struct kvs *kvs, uint32_t rank, const char *key, char *value, size_t room, struct error *error)
{
    struct pmi1 *pmi = (struct pmi1 *)kvs;
    char request[PMI_MESSAGE_BYTES], answer[PMI_MESSAGE_BYTES];
    snprintf(request, sizeof request, "cmd=get kvsname=%s key=%s\n", pmi->store, key);
    weft_status status = ask(pmi, request, "get_result", answer, ANSWER_SECONDS, error);
    if (status == WEFT_OK && !pmi_field(answer, "value", ' ', value, room))
        return error_set(error, WEFT_ERROR_RENDEZVOUS, "the launcher's PMI has no good value of '%s' of rank %u", key,
                         rank);
    return status;
}

static void finish(struct kvs *kvs, bool farewell)
{
    char answer[PMI_MESSAGE_BYTES];
    if (farewell)
        (void)ask((struct pmi1 *)kvs, "cmd=finalize\n", "finalize_ack", answer, ANSWER_SECONDS, NULL);
    free(kvs);
}

weft_status kvs_open_pmi1(struct kvs **kvs, struct error *error)
{
    struct pmi1 *pmi = calloc(1, sizeof *pmi);
    if (!pmi)
        return error_memory(error, sizeof *pmi, "the launcher's PMI");
    pmi->kvs = (struct kvs){.name = "PMI-1", .put = put, .fence = fence, .get = get, .close = finish};
    char answer[PMI_MESSAGE_BYTES], number[16] = "";
    weft_status status = pmi_environment(&pmi->descriptor, &pmi->kvs.rank, &pmi->kvs.ranks, error);
    if (status == WEFT_OK)
        status =
            ask(pmi, "cmd=init pmi_version=1 pmi_subversion=1\n", "response_to_init", answer, ANSWER_SECONDS, error);
    if (status == WEFT_OK)
        status = ask(pmi, "cmd=get_maxes\n", "maxes", answer, ANSWER_SECONDS, error);
    if (status == WEFT_OK && pmi_field(answer, "vallen_max", ' ', number, sizeof number))
        pmi->kvs.value_most = strtoul(number, NULL, 10);
    if (status == WEFT_OK)
        status = ask(pmi, "cmd=get_my_kvsname\n", "my_kvsname", answer, ANSWER_SECONDS, error);
    if (status == WEFT_OK && !pmi_field(answer, "kvsname", ' ', pmi->store, sizeof pmi->store))
        status = error_set(error, WEFT_ERROR_RENDEZVOUS,
                           "the launcher's PMI did not name its key-value space: '%.200s'", answer);
    if (status != WEFT_OK) {
        free(pmi);
        return status;
    }
    *kvs = &pmi->kvs;
    return WEFT_OK;
}

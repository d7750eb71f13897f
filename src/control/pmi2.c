/* SPDX-License-Identifier: Apache-2.0 */
/*
 * PMI-2, the wire protocol of srun --mpi=pmi2: after a PMI-1 line that asks for version 2, messages of a length (6
 * characters) and "cmd=name;field=value;..." over the descriptor in PMI_FD.
 */
#include "control/kvs.h"
#include "control/pmi_wire.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define ANSWER_SECONDS 30.0
#define LENGTH_BYTES   6

struct pmi2 {
    struct kvs kvs;
    int descriptor;
};

bool kvs_pmi2_offered(void)
{
    return getenv("PMI_FD") && getenv("PMI_JOBID");
}

/* A request, and its answer, which must be command `expected` with rc=0. */
static weft_status ask(const struct pmi2 *pmi, const char *request, const char *expected, char *answer,
                       double limit_seconds, struct error *error)
{
    char head[LENGTH_BYTES + 1], command[64] = "", code[16] = "";
    snprintf(head, sizeof head, "%6u", (unsigned)strlen(request) % 1000000);
    weft_status status = pmi_write(pmi->descriptor, head, LENGTH_BYTES, error);
    if (status == WEFT_OK)
        status = pmi_write(pmi->descriptor, request, strlen(request), error);
    if (status == WEFT_OK)
        status = pmi_read(pmi->descriptor, head, LENGTH_BYTES, limit_seconds, error);
    if (status != WEFT_OK)
        return status;
    head[LENGTH_BYTES] = '\0';
    char *end = NULL;
    unsigned long length = strtoul(head, &end, 10);
    if (end == head || length >= PMI_MESSAGE_BYTES)
        return error_set(error, WEFT_ERROR_RENDEZVOUS, "the launcher sent a PMI-2 message of a wrong length, '%s'",
                         head);
    status = pmi_read(pmi->descriptor, answer, length, ANSWER_SECONDS, error);
    if (status != WEFT_OK)
        return status;
    answer[length] = '\0';
    pmi_field(answer, "cmd", ';', command, sizeof command);
    pmi_field(answer, "rc", ';', code, sizeof code);
    if (strcmp(command, expected) == 0 && strcmp(code, "0") == 0)
        return WEFT_OK;
    return error_set(error, WEFT_ERROR_RENDEZVOUS, "the launcher answered '%.200s' to the PMI-2 request '%.200s'",
                     answer, request);
}

static weft_status put(struct kvs *kvs, const char *key, const char *value, struct error *error)
{
    char request[PMI_MESSAGE_BYTES], answer[PMI_MESSAGE_BYTES];
    snprintf(request, sizeof request, "cmd=kvs-put;key=%s;value=%s;", key, value);
    return ask((struct pmi2 *)kvs, request, "kvs-put-response", answer, ANSWER_SECONDS, error);
}

static weft_status fence(struct kvs *kvs, double limit_seconds, struct error *error)
{
    char answer[PMI_MESSAGE_BYTES];
    return ask((struct pmi2 *)kvs, "cmd=kvs-fence;", "kvs-fence-response", answer, limit_seconds, error);
}

static weft_status get(struct kvs *kvs, uint32_t rank, const char *key, char *value, size_t room, struct error *error)
{
    char request[PMI_MESSAGE_BYTES], answer[PMI_MESSAGE_BYTES], found[16] = "";
    snprintf(request, sizeof request, "cmd=kvs-get;jobid=%s;srcid=-1;key=%s;", getenv("PMI_JOBID"), key);
    weft_status status = ask((struct pmi2 *)kvs, request, "kvs-get-response", answer, ANSWER_SECONDS, error);
    if (status != WEFT_OK)
        return status;
    pmi_field(answer, "found", ';', found, sizeof found);
    if (strcasecmp(found, "true") != 0 || !pmi_field(answer, "value", ';', value, room))
        return error_set(error, WEFT_ERROR_RENDEZVOUS, "the launcher's PMI-2 has no good value of '%s' of rank %u", key,
                         rank);
    return WEFT_OK;
}

static void finish(struct kvs *kvs, bool farewell)
{
    char answer[PMI_MESSAGE_BYTES];
    if (farewell)
        (void)ask((struct pmi2 *)kvs, "cmd=finalize;", "finalize-response", answer, ANSWER_SECONDS, NULL);
    free(kvs);
}

/* The first exchange is a line of PMI-1. */
static weft_status choose_version(const struct pmi2 *pmi, struct error *error)
{
    static const char request[] = "cmd=init pmi_version=2 pmi_subversion=0\n";
    char line[256] = "", version[16] = "", code[16] = "";
    weft_status status = pmi_write(pmi->descriptor, request, strlen(request), error);
    for (size_t length = 0; status == WEFT_OK && length < sizeof line - 1; length++) {
        status = pmi_read(pmi->descriptor, line + length, 1, ANSWER_SECONDS, error);
        if (status == WEFT_OK && line[length] == '\n') {
            line[length] = '\0';
            break;
        }
    }
    if (status != WEFT_OK)
        return status;
    if (pmi_field(line, "pmi_version", ' ', version, sizeof version) && strcmp(version, "2") == 0 &&
        pmi_field(line, "rc", ' ', code, sizeof code) && strcmp(code, "0") == 0)
        return WEFT_OK;
    return error_set(error, WEFT_ERROR_RENDEZVOUS, "the launcher does not speak PMI-2 but '%.200s'", line);
}

weft_status kvs_open_pmi2(struct kvs **kvs, struct error *error)
{
    struct pmi2 *pmi = calloc(1, sizeof *pmi);
    if (!pmi)
        return error_memory(error, sizeof *pmi, "the launcher's PMI");
    pmi->kvs =
        (struct kvs){.name = "PMI-2", .value_most = 1024, .put = put, .fence = fence, .get = get, .close = finish};
    char request[256], answer[PMI_MESSAGE_BYTES];
    weft_status status = pmi_environment(&pmi->descriptor, &pmi->kvs.rank, &pmi->kvs.ranks, error);
    if (status == WEFT_OK)
        status = choose_version(pmi, error);
    if (status == WEFT_OK) {
        snprintf(request, sizeof request, "cmd=fullinit;pmijobid=%.100s;pmirank=%u;threaded=FALSE;",
                 getenv("PMI_JOBID"), pmi->kvs.rank);
        status = ask(pmi, request, "fullinit-response", answer, ANSWER_SECONDS, error);
    }
    if (status != WEFT_OK) {
        free(pmi);
        return status;
    }
    *kvs = &pmi->kvs;
    return WEFT_OK;
}

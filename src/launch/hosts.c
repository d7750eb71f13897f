/* SPDX-License-Identifier: Apache-2.0 */
#include "launch/hosts.h"

#include "base/file/file.h"
#include "base/text.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define HOSTS_FILE_MOST (16u << 20)
#define RANKS_MOST      (1u << 20)

void hosts_free(struct host_list *hosts)
{
    free(hosts->hosts);
    *hosts = (struct host_list){0};
}

/* Add one host; `number` is the text of its number of ranks, or NULL. */
static weft_status launch_hosts_add(struct host_list *hosts, const char *name, size_t length, const char *number,
                                    const char *where, struct error *error)
{
    int64_t ranks = 0;
    char text[96];
    if (length == 0 || length >= HOST_NAME_BYTES)
        return error_set(error, WEFT_ERROR_ARGUMENT, "%s: a host name of %zu characters; write name:ranks,name:ranks",
                         where, length);
    if (name[0] == '-')
        return error_set(error, WEFT_ERROR_ARGUMENT, "%s: '%.*s' is not a host name", where, (int)length, name);
    snprintf(text, sizeof text, "the number of ranks of host %.*s", length < 40 ? (int)length : 40, name);
    if (number) {
        weft_status status = text_parse_integer(number, text, 1, RANKS_MOST, &ranks, error);
        if (status != WEFT_OK)
            return status;
    }
    struct host *grown = realloc(hosts->hosts, (hosts->count + 1) * sizeof *grown);
    if (!grown)
        return error_memory(error, (hosts->count + 1) * sizeof *grown, "the list of hosts");
    hosts->hosts = grown;
    struct host *host = &grown[hosts->count++];
    *host = (struct host){.ranks = (uint32_t)ranks};
    memcpy(host->name, name, length);
    return WEFT_OK;
}

static weft_status launch_hosts_read_list(const char *list, struct host_list *hosts, struct error *error)
{
    char *copy = strdup(list), *rest = NULL;
    weft_status status = copy ? WEFT_OK : error_memory(error, strlen(list), "the list of hosts");
    for (char *entry = strtok_r(copy, ",", &rest); entry && status == WEFT_OK; entry = strtok_r(NULL, ",", &rest)) {
        char *colon = strrchr(entry, ':');
        status = launch_hosts_add(hosts, entry, colon ? (size_t)(colon - entry) : strlen(entry),
                                  colon ? colon + 1 : NULL, "--hosts", error);
    }
    free(copy);
    return status;
}

/* A host a line; `content` is changed. */
static weft_status launch_hosts_read_lines(char *content, const char *where, struct host_list *hosts,
                                           struct error *error)
{
    char *rest = NULL;
    weft_status status = WEFT_OK;
    for (char *line = strtok_r(content, "\n", &rest); line && status == WEFT_OK; line = strtok_r(NULL, "\n", &rest)) {
        line[strcspn(line, "#\r")] = '\0';
        char *words = NULL, *name = strtok_r(line, " \t", &words),
             *number = name ? strtok_r(NULL, " \t", &words) : NULL;
        if (!name)
            continue;
        char *colon = strrchr(name, ':');
        size_t length = colon ? (size_t)(colon - name) : strlen(name);
        if (number && strncmp(number, "slots=", 6) == 0)
            number += 6;
        status = launch_hosts_add(hosts, name, length, colon ? colon + 1 : number, where, error);
    }
    return status;
}

static weft_status launch_hosts_read_file(const char *path, struct host_list *hosts, struct error *error)
{
    char *content = NULL;
    size_t size = 0;
    weft_status status = file_read(path, HOSTS_FILE_MOST, &content, &size, error);
    if (status == WEFT_OK)
        status = launch_hosts_read_lines(content, path, hosts, error);
    free(content);
    return status;
}

/* Hosts left without ranks are not part of the job, unless their slots are kept as spares. */
static void launch_hosts_drop_idle(struct host_list *hosts, enum host_spares spares)
{
    uint32_t kept = 0;
    for (uint32_t i = 0; i < hosts->count; i++)
        if (hosts->hosts[i].ranks > 0 || (spares && hosts->hosts[i].slots > 0))
            hosts->hosts[kept++] = hosts->hosts[i];
    hosts->count = kept;
}

/* Determine the number of ranks of each host. */
static weft_status hosts_ranks_distribute(struct host_list *hosts, uint32_t ranks, enum host_spares spares,
                                          struct error *error)
{
    uint32_t given = 0, open = 0;
    for (uint32_t i = 0; i < hosts->count; i++) {
        given += hosts->hosts[i].ranks;
        open += hosts->hosts[i].ranks == 0;
    }
    if (ranks == 0)
        ranks = given + open;
    if (ranks > given && open == 0)
        return error_set(error, WEFT_ERROR_ARGUMENT, "the job has %u ranks but its hosts run %u; raise a host's number",
                         ranks, given);
    uint32_t left = ranks > given ? ranks - given : 0, first = 0;
    for (uint32_t i = 0; i < hosts->count; i++) {
        struct host *host = &hosts->hosts[i];
        if (host->ranks == 0) {
            host->ranks = (left + open - 1) / open;
            left -= host->ranks;
            open--;
        }
        host->slots = host->ranks < ranks || spares == HOSTS_FOR_GROWTH ? host->ranks : ranks;
        if (host->ranks > ranks - first)
            host->ranks = ranks - first;
        host->first = first;
        first += host->ranks;
    }
    hosts->ranks = ranks;
    launch_hosts_drop_idle(hosts, spares);
    return WEFT_OK;
}

weft_status hosts_read(const char *list, const char *path, uint32_t ranks, enum host_spares spares,
                       struct host_list *hosts, struct error *error)
{
    struct host_list result = {0};
    weft_status status;
    if (list && path)
        return error_set(error, WEFT_ERROR_ARGUMENT, "--hosts and --hostfile exclude each other; give one of them");
    if (list)
        status = launch_hosts_read_list(list, &result, error);
    else if (path)
        status = launch_hosts_read_file(path, &result, error);
    else
        status = launch_hosts_add(&result, "localhost", strlen("localhost"), NULL, "localhost", error);
    if (status == WEFT_OK && result.count == 0)
        status = error_set(error, WEFT_ERROR_ARGUMENT, "%s names no host", path ? path : "--hosts");
    if (status == WEFT_OK)
        status = hosts_ranks_distribute(&result, ranks, spares, error);
    if (status != WEFT_OK) {
        hosts_free(&result);
        return status;
    }
    *hosts = result;
    return WEFT_OK;
}

weft_status hosts_read_text(const char *text, const char *where, uint32_t ranks, enum host_spares spares,
                            struct host_list *hosts, struct error *error)
{
    struct host_list result = {0};
    char *content = strdup(text);
    weft_status status = content ? launch_hosts_read_lines(content, where, &result, error)
                                 : error_memory(error, strlen(text), "the list of hosts");
    for (uint32_t i = 0; i < result.count; i++) /* a host without a number has one slot */
        result.hosts[i].ranks += result.hosts[i].ranks == 0;
    if (status == WEFT_OK && result.count == 0)
        status = error_set(error, WEFT_ERROR_ARGUMENT, "%s names no host", where);
    if (status == WEFT_OK)
        status = hosts_ranks_distribute(&result, ranks, spares, error);
    free(content);
    if (status != WEFT_OK) {
        hosts_free(&result);
        return status;
    }
    *hosts = result;
    return WEFT_OK;
}

const struct host *hosts_of_rank(const struct host_list *hosts, uint32_t rank)
{
    const struct host *host = hosts->hosts;
    while (rank >= host->first + host->ranks)
        host++;
    return host;
}

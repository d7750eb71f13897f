/* SPDX-License-Identifier: Apache-2.0 */
/* Any bytes as a list of hosts and as a file of them: refused with a message, or ranks are dealt out without gap. */
#include "fuzz_file.h"

#include "launch/hosts.h"

#include <string.h>

static void check(weft_status status, const struct error *error, struct host_list *hosts, uint32_t ranks)
{
    if (status != WEFT_OK) {
        if (!*error->text)
            abort();
        return;
    }
    uint32_t next = 0;
    for (uint32_t i = 0; i < hosts->count; i++) {
        if (hosts->hosts[i].first != next || !*hosts->hosts[i].name)
            abort();
        next += hosts->hosts[i].ranks;
    }
    if (next != hosts->ranks || (ranks && hosts->ranks != ranks))
        abort();
    hosts_free(hosts);
}

/* The first byte is the number of ranks asked for. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size < 1)
        return 0;
    char path[FUZZ_PATH_BYTES], *list = strndup((const char *)data + 1, size - 1);
    struct host_list hosts = {0};
    struct error error = {0};
    check(hosts_read(list, NULL, data[0], HOSTS_WITHOUT_SPARES, &hosts, &error), &error, &hosts, data[0]);
    free(list);
    int descriptor = fuzz_file(data + 1, size - 1, path);
    hosts = (struct host_list){0};
    error_clear(&error);
    check(hosts_read(NULL, path, data[0], HOSTS_FOR_REPLACEMENTS, &hosts, &error), &error, &hosts, data[0]);
    close(descriptor);
    return 0;
}

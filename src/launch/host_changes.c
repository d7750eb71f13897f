/* SPDX-License-Identifier: Apache-2.0 */
/* Hosts that come and go while a job runs. */
#include "launch/internal/host_helpers.h"

#include <stdio.h>
#include <string.h>

static const struct host *host_helpers_listed(const struct host_list *hosts, const char *name)
{
    for (uint32_t i = 0; i < hosts->count; i++)
        if (strcmp(hosts->hosts[i].name, name) == 0)
            return &hosts->hosts[i];
    return NULL;
}

/* A new host, or one that was lost and has come back. */
static void host_helpers_add(struct host_helpers *helpers, const struct host *listed)
{
    struct error error = {0};
    char line[ERROR_TEXT_BYTES + HOST_NAME_BYTES + 64];
    if (host_helpers_append_late(helpers, listed, &error) != WEFT_OK)
        return;
    struct host_helper *helper = &helpers->all[helpers->count - 1];
    const struct host *host = helper->host;
    if (host_helper_start(helpers, helper, &error) == WEFT_OK) {
        snprintf(line, sizeof line, "weft run: host %s has come, with %u slot%s", host->name, host->slots,
                 host->slots == 1 ? "" : "s");
        JOB_DIRECTORY_EVENT(helpers->config->job_directory, "host_added", "host", host->name, "slots", host->slots);
    } else {
        helper->done = true;
        snprintf(line, sizeof line, "weft run: %s; the job goes on without host %s", error.text, host->name);
    }
    output_say(helpers->output, line);
}

void host_helpers_update(struct host_helpers *helpers, const struct host_list *hosts)
{
    char line[HOST_NAME_BYTES + 64];
    for (uint32_t i = 0; i < hosts->count; i++) {
        bool known = false;
        for (uint32_t j = 0; j < helpers->count; j++) /* one that is lost counts until it has vanished from the list */
            known |= strcmp(helpers->all[j].host->name, hosts->hosts[i].name) == 0 &&
                     (!helpers->all[j].done || helpers->all[j].slots > 0);
        if (!known)
            host_helpers_add(helpers, &hosts->hosts[i]);
    }
    for (uint32_t j = 0; j < helpers->count; j++) {
        struct host_helper *helper = &helpers->all[j];
        const struct host *listed = host_helpers_listed(hosts, helper->host->name);
        const uint32_t most = helper->host->slots, slots = listed && listed->slots < most ? listed->slots : most;
        const bool goes = !listed && helper->slots > 0, comes = listed && helper->slots == 0;
        if (!helper->done && (goes || comes)) {
            snprintf(line, sizeof line, "weft run: host %s is %s", helper->host->name,
                     comes ? "listed again" : "no longer listed: no more ranks start there");
            output_say(helpers->output, line);
            JOB_DIRECTORY_EVENT(helpers->config->job_directory, comes ? "host_added" : "host_removed", "host",
                                helper->host->name);
        }
        if (!helper->done || !listed)
            helper->slots = listed ? slots : 0;
    }
}

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * GPUs that are ill. The agent of a node examines those of its slots, and reports each at most once. Its host as a whole
 * is cordoned then: slots are not closed one by one, as a host with a bad GPU has to be looked after, and possibly
 * restarted, anyway. A host that a person resumes although it is ill stays in use until another attempt there finds it.
 */
#include "platform/controller/internal/state.h"

#include <stdio.h>

#define REASON_BYTES (REGISTRY_DETAIL_BYTES - PLATFORM_NAME_BYTES - 48) /* leaves room for the event's own words */

weft_status unfit_hear(struct controller *controller, const struct controlled_run *run, uint32_t node,
                       const struct journal_record *record, int64_t now, struct error *error)
{
    struct database *registry = controller->config.registry;
    const char *host = controller->hosts[run->node[node].host].name;
    char reason[REASON_BYTES] = "a GPU is ill", message[REGISTRY_DETAIL_BYTES];
    bool cordoned = false;
    if (record->size)
        snprintf(reason, sizeof reason, "%.*s", (int)record->size, record->text);
    weft_status status = registry_host_cordon(registry, host, reason, now, &cordoned, error);
    if (status == WEFT_OK && cordoned)
        status = controller_hosts_changed(controller, error);
    if (status != WEFT_OK)
        return status;
    snprintf(message, sizeof message, "host %s %s: %s", host,
             cordoned ? "is cordoned, nothing new starts there" : "takes nothing new already", reason);
    return registry_run_note(registry, run->run, "", message, now, error);
}

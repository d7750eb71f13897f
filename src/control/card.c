/* SPDX-License-Identifier: Apache-2.0 */
#include "control/card.h"

#include "control/address.h"

#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

void card_begin(struct card *card, uint32_t rank, const char *node)
{
    *card = (struct card){.rank = rank, .process = (int32_t)getpid()};
    address_host_name(card->host, sizeof card->host);
    /* The kernel's boot and the network namespace: test clusters of namespaces on one machine count as machines apart.
     */
    char boot[40] = "unknown";
    FILE *file = fopen("/proc/sys/kernel/random/boot_id", "re");
    if (file) {
        if (!fgets(boot, sizeof boot, file))
            snprintf(boot, sizeof boot, "unknown");
        boot[strcspn(boot, "\n")] = '\0';
        fclose(file);
    }
    struct stat space = {0};
    (void)stat("/proc/self/ns/net", &space);
    snprintf(card->machine, sizeof card->machine, "%s/%llx/%.30s", boot, (unsigned long long)space.st_ino,
             node ? node : "");
}

/* SPDX-License-Identifier: Apache-2.0 */
#include "core/topology/identity.h"

#include "base/file/file.h"
#include "base/hash.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

weft_status identity_read(const char *added, char identity[IDENTITY_BYTES], struct error *error)
{
    char *boot = NULL;
    size_t size = 0;
    struct stat network = {0};
    weft_status status = file_read("/proc/sys/kernel/random/boot_id", 256, &boot, &size, error);
    if (status != WEFT_OK)
        return status;
    boot[strcspn(boot, "\n")] = '\0';
    if (!boot[0] || strlen(boot) > 40)
        status = error_set(error, WEFT_ERROR_SYSTEM,
                           "/proc/sys/kernel/random/boot_id holds '%.64s', which is not a boot id", boot);
    else if (stat("/proc/self/ns/net", &network) != 0)
        status = error_system(error, "cannot read /proc/self/ns/net, which identifies this machine's network");
    if (status == WEFT_OK) {
        int length = snprintf(identity, IDENTITY_BYTES, "%s/net:%" PRIu64, boot, (uint64_t)network.st_ino);
        if (added && added[0])
            snprintf(identity + length, IDENTITY_BYTES - (size_t)length, "/%016" PRIx64, hash_text(added, 0));
    }
    free(boot);
    return status;
}

/* SPDX-License-Identifier: Apache-2.0 */
/* Any bytes as a table of the machine's processes: what is taken for one is rising, and lies inside of the bytes. */
#include "fuzz_file.h"

#include "observe/proc/internal/process_table.h"

#include <string.h>

#define MACHINE 7

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const struct process_table_head *head;
    const struct kernel_process *processes;
    uint64_t *bytes = malloc(size + sizeof *bytes); /* aligned */
    if (!bytes)
        return 0;
    memcpy(bytes, data, size);
    /* A checksum is seldom guessed: try with the one that is right, too. */
    for (int turn = 0; turn < 2; turn++) {
        struct process_table_head *made = (struct process_table_head *)bytes;
        const struct kernel_process *list = (const struct kernel_process *)(made + 1);
        if (turn == 1 && size >= sizeof *made && made->count <= (size - sizeof *made) / sizeof *list)
            made->checksum = process_table_checksum(made, list);
        if (!process_table_parse(bytes, size, MACHINE, &head, &processes))
            continue;
        if ((const uint8_t *)(processes + head->count) != (const uint8_t *)bytes + size)
            abort();
        for (uint64_t i = 0; i < head->count; i++)
            if (processes[i].process <= (i ? processes[i - 1].process : 0))
                abort();
    }
    free(bytes);
    return 0;
}

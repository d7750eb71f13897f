/* SPDX-License-Identifier: Apache-2.0 */
/*
 * With tests/unit/nvml_stand_in.c a stand-in for NVIDIA's library that processes find by themselves, under its name in a
 * directory of LD_LIBRARY_PATH. A file "gpus" beside it has a number for each GPU: its uncorrectable memory errors, as of
 * when a process loads the library.
 */
#include "../unit/nvml_stand_in.h"

#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

extern struct nvml_script nvml_script;

__attribute__((constructor)) static void read_list(void)
{
    Dl_info own;
    char path[4096];
    if (!dladdr(&nvml_script, &own) || snprintf(path, sizeof path, "%s", own.dli_fname) >= (int)sizeof path)
        return;
    char *name = strrchr(path, '/');
    if (!name || name + sizeof "/gpus" > path + sizeof path)
        return;
    memcpy(name, "/gpus", sizeof "/gpus");
    FILE *list = fopen(path, "r");
    while (list && nvml_script.count < STAND_IN_GPUS &&
           fscanf(list, "%llu", &nvml_script.gpus[nvml_script.count].uncorrected) == 1) {
        struct nvml_scripted_gpu *gpu = &nvml_script.gpus[nvml_script.count];
        snprintf(gpu->name_text, sizeof gpu->name_text, "Stand-in");
        snprintf(gpu->uuid_text, sizeof gpu->uuid_text, "GPU-%u", nvml_script.count++);
    }
    if (list)
        fclose(list);
}

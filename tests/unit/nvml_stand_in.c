/* SPDX-License-Identifier: Apache-2.0 */
#include "nvml_stand_in.h"

#include <string.h>

#define PUBLIC __attribute__((visibility("default")))

PUBLIC struct nvml_script nvml_script;

PUBLIC nvml_init nvmlInit_v2;
PUBLIC nvml_shutdown nvmlShutdown;
PUBLIC nvml_error_string nvmlErrorString;
PUBLIC nvml_get_count nvmlDeviceGetCount_v2;
PUBLIC nvml_get_handle nvmlDeviceGetHandleByIndex_v2;
PUBLIC nvml_get_text nvmlDeviceGetName, nvmlDeviceGetUUID;
PUBLIC nvml_get_utilization nvmlDeviceGetUtilizationRates;
PUBLIC nvml_get_memory nvmlDeviceGetMemoryInfo;
PUBLIC nvml_get_power nvmlDeviceGetPowerUsage;
PUBLIC nvml_get_temperature nvmlDeviceGetTemperature;
PUBLIC nvml_get_energy nvmlDeviceGetTotalEnergyConsumption;

int nvmlInit_v2(void)
{
    nvml_script.users += nvml_script.init == NVML_SUCCESS;
    return nvml_script.init;
}

int nvmlShutdown(void)
{
    nvml_script.users--;
    return NVML_SUCCESS;
}

const char *nvmlErrorString(int result)
{
    return result == NVML_ERROR_GPU_IS_LOST ? "GPU is lost" : result == 18 ? "Driver/library version mismatch" : NULL;
}

int nvmlDeviceGetCount_v2(unsigned *count)
{
    *count = nvml_script.count;
    return nvml_script.count_result;
}

int nvmlDeviceGetHandleByIndex_v2(unsigned index, struct nvml_device **device)
{
    struct nvml_scripted_gpu *gpu = &nvml_script.gpus[index];
    if (gpu->handle == NVML_SUCCESS)
        *device = (struct nvml_device *)gpu;
    return gpu->handle;
}

static struct nvml_scripted_gpu *asked(struct nvml_device *device)
{
    struct nvml_scripted_gpu *gpu = (struct nvml_scripted_gpu *)device;
    gpu->questions++;
    return gpu;
}

/* As the library does: not ended by NUL where it does not fit. */
static int give_text(int result, const char *from, char *text, unsigned bytes)
{
    if (result == NVML_SUCCESS)
        memcpy(text, from, bytes);
    return result;
}

int nvmlDeviceGetName(struct nvml_device *device, char *text, unsigned bytes)
{
    const struct nvml_scripted_gpu *gpu = asked(device);
    return give_text(gpu->name, gpu->name_text, text, bytes);
}

int nvmlDeviceGetUUID(struct nvml_device *device, char *text, unsigned bytes)
{
    const struct nvml_scripted_gpu *gpu = asked(device);
    return give_text(gpu->uuid, gpu->uuid_text, text, bytes);
}

int nvmlDeviceGetUtilizationRates(struct nvml_device *device, struct nvml_utilization *utilization)
{
    const struct nvml_scripted_gpu *gpu = asked(device);
    *utilization = gpu->shares;
    return gpu->utilization;
}

int nvmlDeviceGetMemoryInfo(struct nvml_device *device, struct nvml_memory *memory)
{
    const struct nvml_scripted_gpu *gpu = asked(device);
    *memory = gpu->bytes;
    return gpu->memory;
}

int nvmlDeviceGetPowerUsage(struct nvml_device *device, unsigned *milliwatts)
{
    const struct nvml_scripted_gpu *gpu = asked(device);
    *milliwatts = gpu->milliwatts;
    return gpu->power;
}

int nvmlDeviceGetTemperature(struct nvml_device *device, int sensor, unsigned *celsius)
{
    const struct nvml_scripted_gpu *gpu = asked(device);
    *celsius = gpu->celsius;
    return sensor == NVML_TEMPERATURE_GPU ? gpu->temperature : NVML_ERROR_NOT_SUPPORTED;
}

int nvmlDeviceGetTotalEnergyConsumption(struct nvml_device *device, unsigned long long *millijoules)
{
    struct nvml_scripted_gpu *gpu = asked(device);
    *millijoules = gpu->millijoules;
    gpu->millijoules += gpu->growth;
    return gpu->energy;
}

#ifndef OLD_LIBRARY /* what older libraries lack */

PUBLIC nvml_get_errors nvmlDeviceGetTotalEccErrors;
PUBLIC nvml_get_rows nvmlDeviceGetRemappedRows;
PUBLIC nvml_get_slowed nvmlDeviceGetCurrentClocksThrottleReasons;
PUBLIC nvml_make_events nvmlEventSetCreate;
PUBLIC nvml_register_events nvmlDeviceRegisterEvents;
PUBLIC nvml_wait_event nvmlEventSetWait_v2;
PUBLIC nvml_free_events nvmlEventSetFree;

int nvmlDeviceGetTotalEccErrors(struct nvml_device *device, int error, int counter, unsigned long long *count)
{
    const struct nvml_scripted_gpu *gpu = asked(device);
    *count = error == NVML_ERRORS_UNCORRECTED && counter == NVML_ERRORS_SINCE_DRIVER ? gpu->uncorrected : 1000;
    return gpu->ecc;
}

int nvmlDeviceGetRemappedRows(struct nvml_device *device, unsigned *corrected, unsigned *uncorrected, unsigned *pending,
                              unsigned *failed)
{
    const struct nvml_scripted_gpu *gpu = asked(device);
    *corrected = *uncorrected = *pending = 1; /* a row was remapped, which is no illness */
    *failed = gpu->rows_failed;
    return gpu->remapping;
}

int nvmlDeviceGetCurrentClocksThrottleReasons(struct nvml_device *device, unsigned long long *reasons)
{
    const struct nvml_scripted_gpu *gpu = asked(device);
    *reasons = gpu->reasons;
    return gpu->clocks;
}

int nvmlEventSetCreate(struct nvml_event_set **set)
{
    nvml_script.sets++;
    *set = (struct nvml_event_set *)&nvml_script;
    return NVML_SUCCESS;
}

int nvmlDeviceRegisterEvents(struct nvml_device *device, unsigned long long types, struct nvml_event_set *set)
{
    struct nvml_scripted_gpu *gpu = asked(device);
    gpu->registered = types == NVML_EVENT_CRITICAL_XID && set == (struct nvml_event_set *)&nvml_script;
    return gpu->events;
}

int nvmlEventSetWait_v2(struct nvml_event_set *set, struct nvml_event *event, unsigned milliseconds)
{
    (void)milliseconds;
    if (set != (struct nvml_event_set *)&nvml_script || nvml_script.queued == 0)
        return NVML_ERROR_TIMEOUT;
    const struct nvml_scripted_event next = nvml_script.queue[0];
    struct nvml_scripted_gpu *gpu = &nvml_script.gpus[next.gpu];
    memmove(&nvml_script.queue[0], &nvml_script.queue[1], --nvml_script.queued * sizeof next);
    if (next.other_handle) {
        nvml_script.copies[next.gpu] = *gpu;
        gpu = &nvml_script.copies[next.gpu];
    }
    *event = (struct nvml_event){.device = (struct nvml_device *)gpu, .type = next.type, .data = next.xid};
    return NVML_SUCCESS;
}

int nvmlEventSetFree(struct nvml_event_set *set)
{
    nvml_script.sets -= set == (struct nvml_event_set *)&nvml_script;
    return NVML_SUCCESS;
}

#endif

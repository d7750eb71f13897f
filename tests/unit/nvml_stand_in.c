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

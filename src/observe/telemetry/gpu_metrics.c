/* SPDX-License-Identifier: Apache-2.0 */
#include "observe/telemetry/gpu_metrics.h"

#include "base/file/file.h"
#include "base/text.h"
#include "observe/telemetry/internal/gpu_library.h"

#include <dlfcn.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define GPUS_MOST        1024 /* more than a machine has */
#define POWER_MOST       1e5  /* watts, and degrees, beyond which a reading is invalid */
#define TEMPERATURE_MOST 1e3

/* The library's functions; those after `handle` may be missing in old ones. */
struct library {
    nvml_init *init;
    nvml_shutdown *shutdown;
    nvml_get_count *count;
    nvml_get_handle *handle;
    nvml_error_string *error_string;
    nvml_get_text *name, *uuid;
    nvml_get_utilization *utilization;
    nvml_get_memory *memory;
    nvml_get_power *power;
    nvml_get_temperature *temperature;
    nvml_get_energy *energy;
};

struct gpu_metrics {
    void *loaded;
    bool started;
    char path[FILE_PATH_BYTES]; /* of the library, for messages */
    struct library library;
    uint32_t count;
    struct nvml_device **devices; /* NULL where it was not to be had */
    struct gpu_reading *readings;
    char library_trouble[GPU_TROUBLE_BYTES], gpu_trouble[GPU_TROUBLE_BYTES];
};

/* ---- the library ---- */

const char *gpu_metrics_reason(const struct gpu_metrics *metrics, int result)
{
    const char *text = metrics->library.error_string ? metrics->library.error_string(result) : NULL;
    return text ? text : "no reason told";
}

void *gpu_metrics_function(const struct gpu_metrics *metrics, const char *name)
{
    return metrics->started ? dlsym(metrics->loaded, name) : NULL;
}

struct nvml_device *gpu_metrics_device(const struct gpu_metrics *metrics, uint32_t index)
{
    return metrics->devices[index];
}

static bool find_functions(struct gpu_metrics *metrics)
{
    struct library *library = &metrics->library;
    const struct {
        const char *name;
        void **place;
        bool needed;
    } functions[] = {
        {"nvmlInit_v2", (void **)&library->init, true},
        {"nvmlShutdown", (void **)&library->shutdown, true},
        {"nvmlDeviceGetCount_v2", (void **)&library->count, true},
        {"nvmlDeviceGetHandleByIndex_v2", (void **)&library->handle, true},
        {"nvmlErrorString", (void **)&library->error_string, false},
        {"nvmlDeviceGetName", (void **)&library->name, false},
        {"nvmlDeviceGetUUID", (void **)&library->uuid, false},
        {"nvmlDeviceGetUtilizationRates", (void **)&library->utilization, false},
        {"nvmlDeviceGetMemoryInfo", (void **)&library->memory, false},
        {"nvmlDeviceGetPowerUsage", (void **)&library->power, false},
        {"nvmlDeviceGetTemperature", (void **)&library->temperature, false},
        {"nvmlDeviceGetTotalEnergyConsumption", (void **)&library->energy, false},
    };
    for (size_t i = 0; i < sizeof functions / sizeof *functions; i++) {
        *functions[i].place = dlsym(metrics->loaded, functions[i].name);
        if (!*functions[i].place && functions[i].needed) {
            snprintf(metrics->library_trouble, sizeof metrics->library_trouble,
                     "GPUs are not looked at: '%.200s' has no function %s: is it NVIDIA's management library?",
                     metrics->path, functions[i].name);
            return false;
        }
    }
    return true;
}

/* Load and start the library; false: there are no GPUs to look at. */
static bool start_library(struct gpu_metrics *metrics)
{
    metrics->loaded = dlopen(metrics->path, RTLD_NOW | RTLD_LOCAL);
    if (!metrics->loaded) {
        const char *reason = dlerror();
        if (strchr(metrics->path, '/') && file_exists(metrics->path))
            snprintf(metrics->library_trouble, sizeof metrics->library_trouble,
                     "GPUs are not looked at: the library cannot be loaded: %s", reason ? reason : "no reason told");
        return false;
    }
    if (!find_functions(metrics))
        return false;
    const int result = metrics->library.init();
    metrics->started = result == NVML_SUCCESS;
    if (!metrics->started && result != NVML_ERROR_DRIVER_NOT_LOADED)
        snprintf(metrics->library_trouble, sizeof metrics->library_trouble,
                 "GPUs are not looked at: NVML cannot be started: %.200s (%d); nvidia-smi may tell more, and a driver "
                 "that was replaced wants a restart",
                 gpu_metrics_reason(metrics, result), result);
    return metrics->started;
}

/* ---- GPUs ---- */

static void gpu_metrics_take_text(nvml_get_text *get, struct nvml_device *device, char *text, unsigned bytes)
{
    if (!get || *text)
        return;
    if (get(device, text, bytes) != NVML_SUCCESS)
        *text = '\0';
    text[bytes - 1] = '\0';
    text_printable(text);
}

static void forget_reading(struct gpu_reading *reading)
{
    reading->used = reading->memory_used = reading->memory_total = NAN;
    reading->power = reading->temperature = reading->energy = NAN;
}

/* The GPU's handle and its names, where they are not known yet. */
static int find_gpu(struct gpu_metrics *metrics, uint32_t index)
{
    struct gpu_reading *reading = &metrics->readings[index];
    if (!metrics->devices[index]) {
        const int result = metrics->library.handle(index, &metrics->devices[index]);
        if (result != NVML_SUCCESS) {
            metrics->devices[index] = NULL;
            return result;
        }
    }
    gpu_metrics_take_text(metrics->library.name, metrics->devices[index], reading->name, sizeof reading->name);
    gpu_metrics_take_text(metrics->library.uuid, metrics->devices[index], reading->uuid, sizeof reading->uuid);
    return metrics->devices[index] ? NVML_SUCCESS : NVML_ERROR_UNKNOWN;
}

weft_status gpu_metrics_open(const char *library, struct gpu_metrics **metrics, struct error *error)
{
    struct gpu_metrics *made = calloc(1, sizeof *made);
    unsigned count = 0;
    if (!made)
        return error_memory(error, sizeof *made, "the GPUs' metrics");
    snprintf(made->path, sizeof made->path, "%s", library ? library : NVML_LIBRARY);
    if (start_library(made) && made->library.count(&count) == NVML_SUCCESS)
        made->count = count < GPUS_MOST ? count : GPUS_MOST;
    if (made->count) {
        made->devices = calloc(made->count, sizeof *made->devices);
        made->readings = calloc(made->count, sizeof *made->readings);
        if (!made->devices || !made->readings) {
            gpu_metrics_close(made);
            return error_memory(error, count * (sizeof *made->devices + sizeof *made->readings), "the GPUs' metrics");
        }
    }
    for (uint32_t i = 0; i < made->count; i++) {
        forget_reading(&made->readings[i]);
        find_gpu(made, i);
    }
    *metrics = made;
    return WEFT_OK;
}

void gpu_metrics_close(struct gpu_metrics *metrics)
{
    if (!metrics)
        return;
    if (metrics->started)
        metrics->library.shutdown();
    if (metrics->loaded)
        dlclose(metrics->loaded);
    free(metrics->devices);
    free(metrics->readings);
    free(metrics);
}

/* ---- sampling ---- */

/* The first error that means that the GPU is lost, or NVML_SUCCESS. */
static int read_gpu(const struct library *library, struct nvml_device *device, struct gpu_reading *reading)
{
    struct nvml_utilization utilization = {0};
    struct nvml_memory memory = {0};
    unsigned milliwatts = 0, celsius = 0;
    unsigned long long millijoules = 0;
    int result = library->utilization ? library->utilization(device, &utilization) : NVML_ERROR_NOT_SUPPORTED;
    if (result == NVML_SUCCESS && utilization.gpu <= 100)
        reading->used = utilization.gpu / 100.0;
    if (!nvml_is_loss(result))
        result = library->memory ? library->memory(device, &memory) : NVML_ERROR_NOT_SUPPORTED;
    if (result == NVML_SUCCESS && memory.used <= memory.total) {
        reading->memory_used = (double)memory.used;
        reading->memory_total = (double)memory.total;
    }
    if (!nvml_is_loss(result))
        result = library->power ? library->power(device, &milliwatts) : NVML_ERROR_NOT_SUPPORTED;
    if (result == NVML_SUCCESS && milliwatts <= POWER_MOST * 1e3)
        reading->power = milliwatts * 1e-3;
    if (!nvml_is_loss(result))
        result = library->temperature ? library->temperature(device, NVML_TEMPERATURE_GPU, &celsius)
                                      : NVML_ERROR_NOT_SUPPORTED;
    if (result == NVML_SUCCESS && celsius <= TEMPERATURE_MOST)
        reading->temperature = celsius;
    if (!nvml_is_loss(result))
        result = library->energy ? library->energy(device, &millijoules) : NVML_ERROR_NOT_SUPPORTED;
    if (result == NVML_SUCCESS)
        reading->energy = (double)millijoules * 1e-3;
    return nvml_is_loss(result) ? result : NVML_SUCCESS;
}

static void tell_loss(struct gpu_metrics *metrics, uint32_t index, int result)
{
    const struct gpu_reading *reading = &metrics->readings[index];
    if (*metrics->gpu_trouble)
        return;
    snprintf(metrics->gpu_trouble, sizeof metrics->gpu_trouble, "GPU %u (%s%s%s) cannot be reached: %.100s (%d)%s",
             index, *reading->name ? reading->name : "not known", *reading->uuid ? ", " : "", reading->uuid,
             gpu_metrics_reason(metrics, result), result,
             nvml_is_loss(result) ? "; drain this host, and reset the GPU or restart the host" : "");
}

void gpu_metrics_sample(struct gpu_metrics *metrics)
{
    *metrics->gpu_trouble = '\0';
    for (uint32_t i = 0; i < metrics->count; i++) {
        struct gpu_reading *reading = &metrics->readings[i];
        forget_reading(reading);
        int result = find_gpu(metrics, i);
        if (result == NVML_SUCCESS)
            result = read_gpu(&metrics->library, metrics->devices[i], reading);
        reading->lost = result != NVML_SUCCESS;
        reading->result = result;
        if (reading->lost) {
            forget_reading(reading);
            tell_loss(metrics, i, result);
        }
    }
}

const struct gpu_reading *gpu_metrics_gpus(const struct gpu_metrics *metrics, uint32_t *count)
{
    *count = metrics->count;
    return metrics->readings;
}

weft_status gpu_metrics_tell(const struct gpu_metrics *metrics, struct measured_values *values, struct error *error)
{
    weft_status status = WEFT_OK;
    for (uint32_t i = 0; i < metrics->count; i++) {
        const struct gpu_reading *reading = &metrics->readings[i];
        const struct {
            const char *name;
            double value;
        } figures[] = {{"used", reading->used},
                       {"memory/used", reading->memory_used},
                       {"memory/total", reading->memory_total},
                       {"power", reading->power},
                       {"temperature", reading->temperature}};
        for (size_t f = 0; status == WEFT_OK && f < sizeof figures / sizeof *figures; f++)
            status = measured_values_add(values, figures[f].value, error, "machine/gpu/%u/%s", i, figures[f].name);
    }
    return status;
}

const char *gpu_metrics_trouble(const struct gpu_metrics *metrics)
{
    return *metrics->library_trouble ? metrics->library_trouble : metrics->gpu_trouble;
}

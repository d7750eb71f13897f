/* SPDX-License-Identifier: Apache-2.0 */
/**
 * The part of NVIDIA's management library that is used, declared here: its header is not in Debian's main archive, and
 * the library is looked for at run time. Names, values and layouts are those of the public "NVML API Reference Guide"
 * (docs.nvidia.com/deploy/nvml-api), which keeps them: functions that change get a new suffix (_v2).
 */
#ifndef WEFT_OBSERVE_TELEMETRY_INTERNAL_NVML_H
#define WEFT_OBSERVE_TELEMETRY_INTERNAL_NVML_H

#include <stdbool.h>

#define NVML_LIBRARY "libnvidia-ml.so.1"

/** nvmlReturn_t. */
enum {
    NVML_SUCCESS = 0,
    NVML_ERROR_NOT_SUPPORTED = 3,     /* this GPU does not tell */
    NVML_ERROR_DRIVER_NOT_LOADED = 9, /* a machine without GPUs, mostly */
    NVML_ERROR_TIMEOUT = 10,          /* no event has come */
    NVML_ERROR_GPU_IS_LOST = 15,      /* fell off the bus, or cannot be reached otherwise */
    NVML_ERROR_RESET_REQUIRED = 16,   /* cannot be used before it is reset */
    NVML_ERROR_UNKNOWN = 999,
};

/** Whether a result means that the GPU is lost until it is reset. */
static inline bool nvml_is_loss(int result)
{
    return result == NVML_ERROR_GPU_IS_LOST || result == NVML_ERROR_RESET_REQUIRED;
}

enum { NVML_TEMPERATURE_GPU = 0 };    /* nvmlTemperatureSensors_t */
enum { NVML_ERRORS_UNCORRECTED = 1 }; /* nvmlMemoryErrorType_t */
enum {
    NVML_ERRORS_SINCE_DRIVER = 0
}; /* nvmlEccCounterType_t: NVML_VOLATILE_ECC, since the driver's start or a reset */

/** nvmlClocksEventReasons (nvmlClocksThrottleReasons before): why clocks are lower, by the hardware. */
#define NVML_SLOWED_BY_HARDWARE 0x08ull /* by half or more: heat, power, or a fast trigger */
#define NVML_SLOWED_BY_HEAT     0x40ull
#define NVML_SLOWED_BY_BRAKE    0x80ull /* the power supply asked for it */

#define NVML_EVENT_CRITICAL_XID 0x08ull /* nvmlEventTypeXidCriticalError */

#define NVML_NAME_BYTES 96 /* NVML_DEVICE_NAME_V2_BUFFER_SIZE */
#define NVML_UUID_BYTES 96 /* NVML_DEVICE_UUID_V2_BUFFER_SIZE */

struct nvml_device; /* nvmlDevice_t is a pointer to one */

/** nvmlUtilization_t: per cent of the last sixth of a second to a second. */
struct nvml_utilization {
    unsigned gpu;    /* a kernel ran */
    unsigned memory; /* memory was read or written */
};

/** nvmlMemory_t: bytes. */
struct nvml_memory {
    unsigned long long total, free, used;
};

struct nvml_event_set; /* nvmlEventSet_t is a pointer to one */

/** nvmlEventData_t. */
struct nvml_event {
    struct nvml_device *device;
    unsigned long long type, data;           /* data: the number of the XID */
    unsigned gpu_instance, compute_instance; /* of one divided by MIG */
};

typedef int nvml_init(void);
typedef int nvml_shutdown(void);
typedef const char *nvml_error_string(int result);
typedef int nvml_get_count(unsigned *count);
typedef int nvml_get_handle(unsigned index, struct nvml_device **device);
typedef int nvml_get_text(struct nvml_device *device, char *text, unsigned bytes); /* name, UUID */
typedef int nvml_get_utilization(struct nvml_device *device, struct nvml_utilization *utilization);
typedef int nvml_get_memory(struct nvml_device *device, struct nvml_memory *memory);
typedef int nvml_get_power(struct nvml_device *device, unsigned *milliwatts);
typedef int nvml_get_temperature(struct nvml_device *device, int sensor, unsigned *celsius);
typedef int nvml_get_energy(struct nvml_device *device, unsigned long long *millijoules); /* since the driver's start */
typedef int nvml_get_errors(struct nvml_device *device, int error, int counter, unsigned long long *count);
typedef int nvml_get_rows(struct nvml_device *device, unsigned *corrected, unsigned *uncorrected, unsigned *pending,
                          unsigned *failed); /* remapped rows of its memory; the last two: 0 or 1 */
typedef int nvml_get_slowed(struct nvml_device *device, unsigned long long *reasons);
typedef int nvml_make_events(struct nvml_event_set **set);
typedef int nvml_register_events(struct nvml_device *device, unsigned long long types, struct nvml_event_set *set);
typedef int nvml_wait_event(struct nvml_event_set *set, struct nvml_event *event, unsigned milliseconds);
typedef int nvml_free_events(struct nvml_event_set *set);

#endif

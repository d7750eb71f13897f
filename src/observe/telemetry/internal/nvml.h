/* SPDX-License-Identifier: Apache-2.0 */
/**
 * The part of NVIDIA's management library that is used, declared here: its header is not in Debian's main archive, and
 * the library is looked for at run time. Names, values and layouts are those of the public "NVML API Reference Guide"
 * (docs.nvidia.com/deploy/nvml-api), which keeps them: functions that change get a new suffix (_v2).
 */
#ifndef WEFT_OBSERVE_TELEMETRY_INTERNAL_NVML_H
#define WEFT_OBSERVE_TELEMETRY_INTERNAL_NVML_H

#define NVML_LIBRARY "libnvidia-ml.so.1"

/** nvmlReturn_t. */
enum {
    NVML_SUCCESS = 0,
    NVML_ERROR_NOT_SUPPORTED = 3,     /* this GPU does not tell */
    NVML_ERROR_DRIVER_NOT_LOADED = 9, /* a machine without GPUs, mostly */
    NVML_ERROR_GPU_IS_LOST = 15,      /* fell off the bus, or cannot be reached otherwise */
    NVML_ERROR_RESET_REQUIRED = 16,   /* cannot be used before it is reset */
    NVML_ERROR_UNKNOWN = 999,
};

enum { NVML_TEMPERATURE_GPU = 0 }; /* nvmlTemperatureSensors_t */

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

#endif

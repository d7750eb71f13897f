/* SPDX-License-Identifier: Apache-2.0 */
#include "observe/telemetry/gpu_health.h"

#include "observe/telemetry/internal/gpu_library.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SLOW_TIME    60000000000u /* nanoseconds for which a GPU may be slow */
#define SLOW_SAMPLES 3            /* and samples: two that are a minute apart say nothing about the time between */
#define EVENTS_MOST  64           /* taken in a sample */
#define SLOWED       (NVML_SLOWED_BY_HARDWARE | NVML_SLOWED_BY_HEAT | NVML_SLOWED_BY_BRAKE)

/* What is known of a GPU. */
struct gpu_signs {
    uint32_t index;
    bool registered;        /* for events, or it does not support them */
    unsigned long long xid; /* the first critical one; 0: none */
    uint64_t slow_since;    /* the first of the last samples, all of which found it slow; */
    unsigned slow_samples;  /* how many those are */
    char illness[GPU_ILLNESS_BYTES];
};

struct gpu_health {
    const struct gpu_metrics *metrics;
    nvml_get_errors *errors; /* those that the library lacks are NULL */
    nvml_get_rows *rows;
    nvml_get_slowed *slowed;
    nvml_get_text *uuid;
    nvml_make_events *make_events;
    nvml_register_events *register_events;
    nvml_wait_event *wait_event;
    nvml_free_events *free_events;
    struct nvml_event_set *events; /* NULL: no events */
    uint32_t count;
    struct gpu_signs gpus[];
};

/* ---- critical errors ---- */

/* By NVIDIA's "XID Errors", and the list of NVIDIA's Kubernetes device plugin (github.com/NVIDIA/k8s-device-plugin), whose
 * comment is "application errors: the GPU should still be healthy". */
static bool xid_is_of_program(unsigned long long xid)
{
    static const unsigned long long of_programs[] = {
        13,  /* graphics engine exception: an illegal instruction, an access out of bounds */
        31,  /* memory page fault: an illegal address */
        43,  /* stopped processing: a program's fault has ended its work */
        45,  /* cleanup after previous errors, or after a program was killed */
        68,  /* video processor exception */
        109, /* a context switch has taken too long */
    };
    for (size_t i = 0; i < sizeof of_programs / sizeof *of_programs; i++)
        if (of_programs[i] == xid)
            return true;
    return false;
}

/* Only what happens after this is reported. */
static void gpu_health_register(struct gpu_health *health, struct gpu_signs *gpu)
{
    uint32_t count;
    gpu_metrics_gpus(health->metrics, &count);
    struct nvml_device *device = gpu->index < count ? gpu_metrics_device(health->metrics, gpu->index) : NULL;
    if (!device || gpu->registered || !health->events)
        return;
    gpu->registered = !nvml_is_loss(health->register_events(device, NVML_EVENT_CRITICAL_XID, health->events));
}

/* By its handle; should an event have another one, by its UUID. NULL: a GPU that is not watched. */
static struct gpu_signs *gpu_health_of_event(struct gpu_health *health, const struct nvml_event *event)
{
    char uuid[NVML_UUID_BYTES] = "";
    uint32_t count;
    const struct gpu_reading *readings = gpu_metrics_gpus(health->metrics, &count);
    for (uint32_t i = 0; i < health->count; i++)
        if (health->gpus[i].index < count &&
            gpu_metrics_device(health->metrics, health->gpus[i].index) == event->device)
            return &health->gpus[i];
    if (!health->uuid || health->uuid(event->device, uuid, sizeof uuid) != NVML_SUCCESS)
        return NULL;
    uuid[sizeof uuid - 1] = '\0';
    for (uint32_t i = 0; i < health->count && *uuid; i++)
        if (health->gpus[i].index < count && strcmp(readings[health->gpus[i].index].uuid, uuid) == 0)
            return &health->gpus[i];
    return NULL;
}

static void gpu_health_take_events(struct gpu_health *health)
{
    for (unsigned taken = 0; health->events && taken < EVENTS_MOST; taken++) {
        struct nvml_event event = {0};
        if (health->wait_event(health->events, &event, 0) != NVML_SUCCESS)
            return; /* none is left, or a GPU is lost, which its readings show */
        if (!(event.type & NVML_EVENT_CRITICAL_XID) || !event.device || xid_is_of_program(event.data))
            continue;
        struct gpu_signs *gpu = gpu_health_of_event(health, &event);
        if (gpu && !gpu->xid)
            gpu->xid = event.data;
    }
}

static void gpu_health_open_events(struct gpu_health *health)
{
    if (!health->make_events || !health->register_events || !health->wait_event || !health->free_events ||
        health->make_events(&health->events) != NVML_SUCCESS)
        health->events = NULL;
    for (uint32_t i = 0; i < health->count; i++)
        gpu_health_register(health, &health->gpus[i]);
}

/* ---- opening ---- */

static void gpu_health_find_functions(struct gpu_health *health)
{
    const struct {
        const char *name;
        void **place;
    } functions[] = {
        {"nvmlDeviceGetTotalEccErrors", (void **)&health->errors},
        {"nvmlDeviceGetRemappedRows", (void **)&health->rows},
        {"nvmlDeviceGetCurrentClocksEventReasons", (void **)&health->slowed},
        {"nvmlDeviceGetCurrentClocksThrottleReasons", (void **)&health->slowed}, /* its name in older libraries */
        {"nvmlDeviceGetUUID", (void **)&health->uuid},
        {"nvmlEventSetCreate", (void **)&health->make_events},
        {"nvmlDeviceRegisterEvents", (void **)&health->register_events},
        {"nvmlEventSetWait_v2", (void **)&health->wait_event},
        {"nvmlEventSetFree", (void **)&health->free_events},
    };
    for (size_t i = 0; i < sizeof functions / sizeof *functions; i++)
        if (!*functions[i].place)
            *functions[i].place = gpu_metrics_function(health->metrics, functions[i].name);
}

weft_status gpu_health_open(const struct gpu_metrics *metrics, const uint32_t *gpus, uint32_t count,
                            struct gpu_health **health, struct error *error)
{
    const size_t bytes = sizeof **health + count * sizeof(struct gpu_signs);
    struct gpu_health *made = calloc(1, bytes);
    if (!made)
        return error_memory(error, bytes, "the health of GPUs");
    made->metrics = metrics;
    made->count = count;
    for (uint32_t i = 0; i < count; i++)
        made->gpus[i].index = gpus[i];
    gpu_health_find_functions(made);
    gpu_health_open_events(made);
    *health = made;
    return WEFT_OK;
}

void gpu_health_close(struct gpu_health *health)
{
    if (health && health->events)
        health->free_events(health->events);
    free(health);
}

/* ---- examining ---- */

/* Why it is slow, after a minute of that; 0: it is not. */
static unsigned long long gpu_health_slowness(const struct gpu_health *health, struct gpu_signs *gpu,
                                              struct nvml_device *device, uint64_t now)
{
    unsigned long long reasons = 0;
    if (!health->slowed || health->slowed(device, &reasons) != NVML_SUCCESS || !(reasons & SLOWED)) {
        gpu->slow_samples = 0;
        return 0;
    }
    if (gpu->slow_samples++ == 0)
        gpu->slow_since = now;
    return gpu->slow_samples >= SLOW_SAMPLES && now - gpu->slow_since >= SLOW_TIME ? reasons & SLOWED : 0;
}

/* What is wrong with it, into `what`. */
static void gpu_health_examine(const struct gpu_health *health, struct gpu_signs *gpu,
                               const struct gpu_reading *reading, uint64_t now, char *what, size_t size)
{
    struct nvml_device *device = gpu_metrics_device(health->metrics, gpu->index);
    unsigned long long errors = 0;
    unsigned rows[4] = {0};
    if (nvml_is_loss(reading->result)) {
        snprintf(what, size, "it cannot be reached: %.100s (%d); reset it or restart its host",
                 gpu_metrics_reason(health->metrics, reading->result), reading->result);
        return;
    }
    if (reading->lost || !device)
        return;
    const unsigned long long slowed = gpu_health_slowness(health, gpu, device, now);
    if (health->rows && health->rows(device, &rows[0], &rows[1], &rows[2], &rows[3]) == NVML_SUCCESS && rows[3])
        snprintf(what, size, "a bad row of its memory could not be replaced by a spare one; replace the GPU");
    else if (health->errors &&
             health->errors(device, NVML_ERRORS_UNCORRECTED, NVML_ERRORS_SINCE_DRIVER, &errors) == NVML_SUCCESS &&
             errors)
        snprintf(what, size, "%llu uncorrectable memory error%s since its driver was started; reset it or replace it",
                 errors, errors == 1 ? "" : "s");
    else if (gpu->xid)
        snprintf(what, size,
                 "its driver reported the critical error XID %llu; NVIDIA's \"XID Errors\" says what that means; reset "
                 "the GPU",
                 gpu->xid);
    else if (slowed)
        snprintf(what, size, "its hardware has slowed it down for a minute, %s",
                 slowed & NVML_SLOWED_BY_BRAKE  ? "as its power supply asks for it; look at the host's power supply"
                 : slowed & NVML_SLOWED_BY_HEAT ? "as it is too hot; look at its cooling"
                                                : "by half or more; look at its cooling and power supply");
}

void gpu_health_sample(struct gpu_health *health, uint64_t now)
{
    uint32_t count;
    const struct gpu_reading *readings = gpu_metrics_gpus(health->metrics, &count);
    gpu_health_take_events(health);
    for (uint32_t i = 0; i < health->count; i++) {
        struct gpu_signs *gpu = &health->gpus[i];
        char what[190] = "";
        *gpu->illness = '\0';
        if (gpu->index >= count)
            continue;
        const struct gpu_reading *reading = &readings[gpu->index];
        if (!reading->lost)
            gpu_health_register(health, gpu); /* it may have been lost before */
        gpu_health_examine(health, gpu, reading, now, what, sizeof what);
        if (*what)
            snprintf(gpu->illness, sizeof gpu->illness, "GPU %u (%.90s%s%.90s): %s", gpu->index,
                     *reading->name ? reading->name : "not known", *reading->uuid ? ", " : "", reading->uuid, what);
    }
}

const char *gpu_health_illness(const struct gpu_health *health, uint32_t place)
{
    return health->gpus[place].illness;
}

/* SPDX-License-Identifier: Apache-2.0 */
#include "observe/telemetry/machine_watch.h"

#include "base/thread.h"
#include "observe/telemetry/cpu_power.h"
#include "observe/telemetry/gpu_metrics.h"
#include "observe/telemetry/machine_metrics.h"

#include <errno.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#define STOP_SECONDS 1.0 /* for the thread to end */
#define STACK_BYTES  ((size_t)1 << 20)

struct machine_watch {
    double seconds;
    pthread_t thread;
    /* Shared, by `mutex`: */
    pthread_mutex_t mutex;
    pthread_cond_t changed;
    struct measured_values newest;
    uint64_t number;
    bool stopping, abandoned, ended;
    /* The thread's own: */
    struct machine_metrics *machine;
    struct gpu_metrics *gpus;
    struct cpu_power *power;
    struct measured_values values;
};

static void machine_watch_release(struct machine_watch *watch)
{
    machine_metrics_close(watch->machine);
    gpu_metrics_close(watch->gpus);
    cpu_power_close(watch->power);
    measured_values_free(&watch->values);
    measured_values_free(&watch->newest);
    pthread_cond_destroy(&watch->changed);
    pthread_mutex_destroy(&watch->mutex);
    free(watch);
}

/* What memory does not suffice for is left out. */
static void machine_watch_sample(struct machine_watch *watch)
{
    const uint64_t now = clock_now();
    struct cpu_energy energy;
    measured_values_clear(&watch->values);
    machine_metrics_sample(watch->machine, now, false, NULL);
    const struct measured_values *machine = &machine_metrics_machine(watch->machine)->values;
    for (uint32_t i = 0; i < machine->count; i++)
        measured_values_add(&watch->values, machine->values[i].value, NULL, "%s", machine->values[i].name);
    if (watch->gpus) {
        gpu_metrics_sample(watch->gpus);
        gpu_metrics_tell(watch->gpus, &watch->values, NULL);
    }
    cpu_power_sample(watch->power, now, &watch->values, &energy, NULL);
    pthread_mutex_lock(&watch->mutex);
    const struct measured_values before = watch->newest;
    watch->newest = watch->values;
    watch->values = before;
    watch->number++;
    pthread_mutex_unlock(&watch->mutex);
}

/* False: it is to end. */
static bool machine_watch_pause_thread(struct machine_watch *watch)
{
    const uint64_t until = clock_after(watch->seconds);
    pthread_mutex_lock(&watch->mutex);
    while (!watch->stopping && clock_now() < until)
        thread_wait_until(&watch->changed, &watch->mutex, until);
    const bool go_on = !watch->stopping;
    pthread_mutex_unlock(&watch->mutex);
    return go_on;
}

static void *machine_watch_run(void *context)
{
    struct machine_watch *watch = context;
    gpu_metrics_open(NULL, &watch->gpus, NULL); /* which takes its time to load */
    do
        machine_watch_sample(watch);
    while (machine_watch_pause_thread(watch));
    pthread_mutex_lock(&watch->mutex);
    const bool abandoned = watch->abandoned;
    watch->ended = true;
    pthread_cond_broadcast(&watch->changed);
    pthread_mutex_unlock(&watch->mutex);
    if (abandoned)
        machine_watch_release(watch);
    return NULL;
}

weft_status machine_watch_start(double seconds, struct machine_watch **watch, struct error *error)
{
    struct machine_watch *made = calloc(1, sizeof *made);
    pthread_attr_t attributes;
    if (!made)
        return error_memory(error, sizeof *made, "the watch of this machine");
    made->seconds = seconds;
    thread_condition_init(&made->mutex, &made->changed);
    weft_status status = machine_metrics_open("/", &made->machine, error);
    if (status == WEFT_OK)
        status = cpu_power_open("/", &made->power, error);
    if (status == WEFT_OK) {
        pthread_attr_init(&attributes);
        pthread_attr_setstacksize(&attributes, STACK_BYTES);
        errno = pthread_create(&made->thread, &attributes, machine_watch_run, made);
        status = errno ? error_system(error, "cannot start the thread that watches this machine") : WEFT_OK;
        pthread_attr_destroy(&attributes);
    }
    if (status != WEFT_OK) {
        machine_watch_release(made);
        return status;
    }
    *watch = made;
    return WEFT_OK;
}

void machine_watch_stop(struct machine_watch *watch)
{
    if (!watch)
        return;
    const uint64_t until = clock_after(STOP_SECONDS);
    pthread_mutex_lock(&watch->mutex);
    watch->stopping = true;
    pthread_cond_broadcast(&watch->changed);
    while (!watch->ended && clock_now() < until)
        thread_wait_until(&watch->changed, &watch->mutex, until);
    const bool ended = watch->ended;
    watch->abandoned = !ended;
    pthread_mutex_unlock(&watch->mutex);
    if (ended) {
        pthread_join(watch->thread, NULL);
        machine_watch_release(watch);
    } else {
        pthread_detach(watch->thread);
    }
}

weft_status machine_watch_read(struct machine_watch *watch, struct measured_values *values, uint64_t *number,
                               struct error *error)
{
    weft_status status = WEFT_OK;
    measured_values_clear(values);
    pthread_mutex_lock(&watch->mutex);
    for (uint32_t i = 0; i < watch->newest.count && status == WEFT_OK; i++)
        status = measured_values_add(values, watch->newest.values[i].value, error, "%s", watch->newest.values[i].name);
    *number = watch->number;
    pthread_mutex_unlock(&watch->mutex);
    return status;
}

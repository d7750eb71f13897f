/* SPDX-License-Identifier: Apache-2.0 */
#include "platform/agent/internal/sampler.h"

#include "base/thread.h"
#include "observe/telemetry/cpu_power.h"
#include "observe/telemetry/energy.h"
#include "observe/telemetry/gpu_health.h"
#include "observe/telemetry/gpu_metrics.h"
#include "observe/telemetry/machine_metrics.h"
#include "platform/metrics/read/events_directory.h"
#include "platform/metrics/read/text.h"
#include "platform/registry/owner.h"

#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#define QUEUED_MOST  ((size_t)4 << 20) /* bytes of records; then the thread waits for the agent */
#define NODE         1                 /* its number for machine_metrics.h */
#define GPUS_MOST    64                /* slots of a node */
#define ENERGY_GAP   60.0              /* seconds between two readings of power whose mean counts */
#define WAIT_SECONDS 0.05
#define SAME_MOMENT  1000000 /* microseconds: scalars of one step within it share a line */
#define STACK_BYTES  ((size_t)1 << 20)

struct gpu_meter {
    uint32_t slot;
    struct energy energy;
    double counted; /* last reading of its counter in joules; NaN: none */
    uint64_t at;
    bool reported; /* as ill */
};

struct node_sampler {
    struct node_sampler_config config;
    pthread_t thread;
    int bell;

    /* Shared, by `mutex`: */
    pthread_mutex_t mutex;
    pthread_cond_t changed;
    struct buffer queue; /* records, as journal_put() writes them */
    bool stopping, abandoned, ended;

    /* Used by the thread alone: */
    struct machine_metrics *machine;
    struct gpu_metrics *gpus;  /* NULL: the slots are not GPUs */
    struct gpu_health *health; /* of the meters' GPUs, in their order; NULL: not known */
    struct cpu_power *power;
    struct events_directory *events; /* NULL: another node reads them */
    struct measured_values power_values;
    struct gpu_meter meters[GPUS_MOST];
    uint32_t meter_count;
    struct energy processors;
    double machine_seconds, node_seconds; /* when they were read last */
    struct metric_text line, scalars;
    int64_t scalar_step, scalar_time;
    char noted[2][256]; /* last notes about GPUs and event files */
    bool has_gpus;
    bool has_owner; /* event files belong to another user: */
    struct run_owner owner;
};

/* ---- records ---- */

static void sampler_ring(const struct node_sampler *sampler)
{
    const uint64_t one = 1;
    (void)!write(sampler->bell, &one, sizeof one); /* on failure it is readable already */
}

/* Queue a record; blocks while the queue is full. False: the agent has abandoned the thread. */
static bool queue(struct node_sampler *sampler, struct journal_record *record)
{
    record->sequence = 1; /* replaced by the journal */
    pthread_mutex_lock(&sampler->mutex);
    while (buffer_size(&sampler->queue) > QUEUED_MOST && !sampler->abandoned)
        pthread_cond_wait(&sampler->changed, &sampler->mutex);
    const bool wanted = !sampler->abandoned;
    const bool first = buffer_size(&sampler->queue) == 0;
    if (wanted)
        journal_put(&sampler->queue, record);
    if (wanted && first)
        pthread_cond_broadcast(&sampler->changed); /* for node_sampler_stop() */
    pthread_mutex_unlock(&sampler->mutex);
    if (wanted && first)
        sampler_ring(sampler);
    return wanted;
}

static bool queue_line(struct node_sampler *sampler, struct metric_text *text, uint32_t stream)
{
    if (text->count == 0)
        return true;
    metric_text_end(text);
    text->count = 0;
    if (!json_text(&text->line))
        return true;
    return queue(sampler, &(struct journal_record){.kind = JOURNAL_METRICS,
                                                   .output = {stream, JOURNAL_NO_RANK},
                                                   .text = json_text(&text->line),
                                                   .size = (uint32_t)json_size(&text->line)});
}

static void queue_message(struct node_sampler *sampler, uint32_t kind, const char *message)
{
    queue(sampler, &(struct journal_record){.kind = kind, .text = message, .size = (uint32_t)strlen(message)});
}

static void sampler_note(struct node_sampler *sampler, char noted[256], const char *message)
{
    if (!*message || strcmp(noted, message) == 0)
        return;
    snprintf(noted, 256, "%s", message);
    queue_message(sampler, JOURNAL_NOTE, message);
}

static void put_exactly(struct node_sampler *sampler, const char *name, double value)
{
    char whole[MEASURED_NAME_BYTES + 16];
    snprintf(whole, sizeof whole, "system/%s", name);
    if (isfinite(value))
        metric_text_put(&sampler->line, whole, value);
}

/* Six digits: the journal keeps these values for as long as the run. */
static void sampler_put(struct node_sampler *sampler, const char *name, double value)
{
    char digits[32];
    snprintf(digits, sizeof digits, "%.6g", value);
    put_exactly(sampler, name, strtod(digits, NULL));
}

/* ---- energy ---- */

/* Energy by its counter if it has one, otherwise by its power. */
static void meter_gpu(struct gpu_meter *meter, const struct gpu_reading *reading, uint64_t now)
{
    const double since = (double)(now - meter->at) * 1e-9;
    if (isfinite(reading->energy)) {
        if (isfinite(meter->counted))
            energy_add(&meter->energy, reading->energy >= meter->counted ? reading->energy - meter->counted : NAN,
                       since);
    } else {
        energy_add_power(&meter->energy, reading->power, now, ENERGY_GAP);
    }
    meter->counted = reading->energy;
    meter->at = now;
}

/* The node's share of the processors' energy since the last sample. */
static void meter_processors(struct node_sampler *sampler, const struct cpu_energy *energy, double machine, double node)
{
    const double all = machine - sampler->machine_seconds, used = node - sampler->node_seconds;
    double part;
    sampler->machine_seconds = machine;
    sampler->node_seconds = node;
    if (energy->seconds <= 0)
        return;
    energy_divide(energy->joules, all, &used, &part, 1);
    energy_add(&sampler->processors, all > 0 || used > 0 ? part : 0, energy->seconds);
}

/* NaN: not known. */
static double energy_of(const struct node_sampler *sampler)
{
    double joules = sampler->processors.joules, seconds = sampler->processors.seconds;
    for (uint32_t i = 0; i < sampler->meter_count; i++) {
        joules += sampler->meters[i].energy.joules;
        seconds += sampler->meters[i].energy.seconds;
    }
    return seconds > 0 ? joules : NAN;
}

/* ---- a sample ---- */

static void open_gpus(struct node_sampler *sampler)
{
    uint32_t gpus[GPUS_MOST];
    if (!sampler->has_gpus || gpu_metrics_open(sampler->config.nvml, &sampler->gpus, NULL) != WEFT_OK)
        return;
    for (uint32_t i = 0; i < sampler->meter_count; i++)
        gpus[i] = sampler->meters[i].slot;
    gpu_health_open(sampler->gpus, gpus, sampler->meter_count, &sampler->health, NULL);
}

/* Once for each GPU: a host that a person resumes although it is ill stays in use until the node ends. */
static void report_illness(struct node_sampler *sampler, uint64_t now)
{
    if (!sampler->health)
        return;
    gpu_health_sample(sampler->health, now);
    for (uint32_t i = 0; i < sampler->meter_count; i++) {
        struct gpu_meter *meter = &sampler->meters[i];
        const char *illness = gpu_health_illness(sampler->health, i);
        if (!*illness || meter->reported)
            continue;
        meter->reported = true;
        queue_message(sampler, JOURNAL_UNFIT, illness);
    }
}

static void sample_gpus(struct node_sampler *sampler, uint64_t now)
{
    uint32_t count = 0;
    bool reported = false;
    if (!sampler->gpus)
        return;
    gpu_metrics_sample(sampler->gpus);
    report_illness(sampler, now);
    const struct gpu_reading *readings = gpu_metrics_gpus(sampler->gpus, &count);
    for (uint32_t i = 0; i < sampler->meter_count; i++) {
        struct gpu_meter *meter = &sampler->meters[i];
        char name[64];
        if (meter->slot >= count)
            continue;
        const struct gpu_reading *reading = &readings[meter->slot];
        const struct {
            const char *name;
            double value;
        } values[] = {{"used", reading->used},
                      {"memory/used", reading->memory_used},
                      {"memory/total", reading->memory_total},
                      {"power", reading->power},
                      {"temperature", reading->temperature}};
        meter_gpu(meter, reading, now);
        reported = reported || (reading->lost && sampler->health && *gpu_health_illness(sampler->health, i));
        for (size_t j = 0; j < ARRAY_SIZE(values) && !reading->lost; j++) {
            snprintf(name, sizeof name, "gpu/%u/%s", meter->slot, values[j].name);
            sampler_put(sampler, name, values[j].value);
        }
    }
    if (!reported)
        sampler_note(sampler, sampler->noted[0], gpu_metrics_trouble(sampler->gpus));
}

static void put_values(struct node_sampler *sampler, const struct measured_values *values)
{
    for (uint32_t i = 0; i < values->count; i++)
        sampler_put(sampler, values->values[i].name, values->values[i].value);
}

/* Skip values that JOURNAL_USAGE reports. */
static void sampler_put_node(struct node_sampler *sampler, const struct machine_use *use)
{
    for (uint32_t i = 0; i < use->values.count; i++) {
        const struct measured_value *value = &use->values.values[i];
        if (strcmp(value->name, "node/memory/resident") != 0 && strcmp(value->name, "node/processes") != 0)
            sampler_put(sampler, value->name, value->value);
    }
}

/* Bytes of memory of this process. */
static double own_memory(void)
{
    char text[128];
    unsigned long all, resident = 0;
    if (file_read_small(AT_FDCWD, "/proc/self/statm", text, sizeof text) > 0 &&
        sscanf(text, "%lu %lu", &all, &resident) != 2)
        resident = 0;
    return (double)resident * (double)sysconf(_SC_PAGESIZE);
}

static void tell_usage(struct node_sampler *sampler, const struct machine_use *use)
{
    const bool own = sampler->config.ancestor == getpid();
    const double resident = measured_values_find(&use->values, "node/memory/resident") - (own ? own_memory() : 0);
    const double processes = measured_values_find(&use->values, "node/processes") - own;
    struct journal_record record = {.kind = JOURNAL_USAGE};
    record.usage.processor_time = (uint64_t)(use->seconds * 1e6);
    record.usage.memory = resident > 0 ? (uint64_t)resident : 0;
    record.usage.processes = processes > 0 ? (uint32_t)processes : 0;
    queue(sampler, &record);
}

/* The first sample is not `reported`: it is the baseline of later ones. */
static void sampler_sample(struct node_sampler *sampler, bool reported)
{
    const uint64_t now = clock_now();
    struct cpu_energy energy = {0};
    metric_text_begin(&sampler->line, (int64_t)time(NULL), -1);
    machine_metrics_sample(sampler->machine, now, false, NULL);
    measured_values_clear(&sampler->power_values);
    cpu_power_sample(sampler->power, now, &sampler->power_values, &energy, NULL);
    const struct machine_use *machine = machine_metrics_machine(sampler->machine);
    const struct machine_use *node = machine_metrics_node(sampler->machine, NODE);
    meter_processors(sampler, &energy, machine->seconds, node->seconds);
    sampler_put_node(sampler, node);
    sample_gpus(sampler, now);
    put_exactly(sampler, "node/energy", energy_of(sampler));
    put_values(sampler, &machine->values);
    put_values(sampler, &sampler->power_values);
    if (!reported)
        return;
    tell_usage(sampler, node);
    queue_line(sampler, &sampler->line, JOURNAL_MEASURED);
}

/* ---- event files ---- */

static weft_status sampler_take_scalar(void *state, const struct events_scalar *scalar, struct error *error)
{
    struct node_sampler *sampler = state;
    struct metric_text *text = &sampler->scalars;
    const bool same = text->count > 0 && scalar->step == sampler->scalar_step &&
                      llabs(scalar->time - sampler->scalar_time) < SAME_MOMENT;
    if (same && metric_text_put(text, scalar->name, scalar->value))
        return WEFT_OK;
    if (!queue_line(sampler, text, JOURNAL_EVENTS))
        return error_set(error, WEFT_ERROR_STATE, "nobody reads event files any more");
    sampler->scalar_step = scalar->step;
    sampler->scalar_time = scalar->time;
    metric_text_begin(text, scalar->step, scalar->time > 0 ? scalar->time : -1);
    metric_text_put(text, scalar->name, scalar->value);
    return WEFT_OK;
}

/*
 * If this process is root, read event files as the run's user, because links and the directory that the run names may
 * lead anywhere. False, with one note: not possible.
 */
static bool become_reader(struct node_sampler *sampler, struct run_owner_before *before)
{
    if (!sampler->has_owner || run_owner_enter(&sampler->owner, before, NULL) == WEFT_OK)
        return true;
    sampler_note(sampler, sampler->noted[1],
                 "its event files are not read, as the agent cannot act as the run's account");
    return false;
}

static void sampler_become_agent(struct node_sampler *sampler, const struct run_owner_before *before)
{
    if (sampler->has_owner)
        run_owner_leave(before);
}

static void sampler_look(struct node_sampler *sampler)
{
    struct run_owner_before before;
    if (!sampler->events || !become_reader(sampler, &before))
        return;
    events_directory_look(sampler->events, sampler_take_scalar, sampler, NULL);
    sampler_become_agent(sampler, &before);
    queue_line(sampler, &sampler->scalars, JOURNAL_EVENTS);
    sampler_note(sampler, sampler->noted[1], events_directory_trouble(sampler->events));
}

/* ---- the thread ---- */

/* Set one of the flags that `changed` reports. */
static void sampler_set(struct node_sampler *sampler, bool *flag)
{
    pthread_mutex_lock(&sampler->mutex);
    *flag = true;
    pthread_cond_broadcast(&sampler->changed);
    pthread_mutex_unlock(&sampler->mutex);
}

static void sampler_release(struct node_sampler *sampler)
{
    machine_metrics_close(sampler->machine);
    gpu_health_close(sampler->health);
    gpu_metrics_close(sampler->gpus);
    cpu_power_close(sampler->power);
    events_directory_close(sampler->events);
    measured_values_free(&sampler->power_values);
    metric_text_free(&sampler->line);
    metric_text_free(&sampler->scalars);
    buffer_free(&sampler->queue);
    file_close(sampler->bell);
    pthread_cond_destroy(&sampler->changed);
    pthread_mutex_destroy(&sampler->mutex);
    free(sampler);
}

/* False: the thread must end. */
static bool sampler_pause_thread(struct node_sampler *sampler, uint64_t until)
{
    pthread_mutex_lock(&sampler->mutex);
    while (!sampler->stopping && clock_now() < until)
        thread_wait_until(&sampler->changed, &sampler->mutex, until);
    const bool go_on = !sampler->stopping;
    pthread_mutex_unlock(&sampler->mutex);
    return go_on;
}

/* From 0 to 1. Multiples of the golden ratio keep neighboring process ids far apart. */
static double phase(void)
{
    return fmod((double)getpid() * 0.6180339887498949, 1.0);
}

static void *sampler_run(void *context)
{
    struct node_sampler *sampler = context;
    /* These are slow, and must not delay the start of a run. */
    sampler_sample(sampler, false);
    open_gpus(sampler);
    bool go_on = true;
    const double first = sampler->config.seconds * (0.5 + 0.5 * phase());
    for (uint64_t next = clock_after(first); go_on;) {
        go_on = sampler_pause_thread(sampler, next);
        next = clock_after(sampler->config.seconds);
        sampler_sample(sampler, true);
        sampler_look(sampler);
    }
    sampler_set(sampler, &sampler->ended);
    return NULL;
}

/* The numbers in "0,2,3" are GPUs. */
static void read_slots(struct node_sampler *sampler)
{
    const struct node_order *order = sampler->config.order;
    const char *at = order->gpus && order->slots ? order->slots : "";
    while (*at && sampler->meter_count < GPUS_MOST) {
        char *end;
        const unsigned long slot = strtoul(at, &end, 10);
        if (end == at)
            break;
        sampler->meters[sampler->meter_count++] = (struct gpu_meter){.slot = (uint32_t)slot, .counted = NAN};
        at = *end == ',' ? end + 1 : end;
    }
}

static weft_status open_events(struct node_sampler *sampler, struct error *error)
{
    static const char variable[] = "WEFT_TENSORBOARD_DIR=";
    const struct node_order *order = sampler->config.order;
    const char *chosen = NULL;
    if (order->node != 0 || !order->directory)
        return WEFT_OK;
    for (uint32_t i = 0; i < order->environment.count; i++)
        if (strncmp(order->environment.items[i], variable, sizeof variable - 1) == 0 &&
            order->environment.items[i][sizeof variable - 1])
            chosen = order->environment.items[i] + sizeof variable - 1;
    sampler->has_owner = order->user && *order->user && geteuid() == 0;
    struct run_owner_before before;
    weft_status status = sampler->has_owner ? run_owner_find(order->user, &sampler->owner, error) : WEFT_OK;
    if (status == WEFT_OK && sampler->has_owner)
        status = run_owner_enter(&sampler->owner, &before, error);
    if (status != WEFT_OK)
        return status;
    status = events_directory_open(order->directory, chosen, &sampler->events, error);
    sampler_become_agent(sampler, &before);
    return status;
}

static weft_status sampler_watch(struct node_sampler *sampler, struct error *error)
{
    const struct machine_node node = {NODE, sampler->config.ancestor, sampler->config.cgroup};
    return machine_metrics_watch(sampler->machine, &node, error);
}

static weft_status sampler_start_thread(struct node_sampler *sampler, struct error *error)
{
    pthread_attr_t attributes;
    pthread_attr_init(&attributes);
    pthread_attr_setstacksize(&attributes, STACK_BYTES);
    const int failure = pthread_create(&sampler->thread, &attributes, sampler_run, sampler);
    pthread_attr_destroy(&attributes);
    errno = failure;
    return failure ? error_system(error, "cannot start the thread that measures a node") : WEFT_OK;
}

weft_status node_sampler_start(const struct node_sampler_config *config, struct node_sampler **sampler,
                               struct error *error)
{
    struct node_sampler *made = calloc(1, sizeof *made);
    if (!made)
        return error_memory(error, sizeof *made, "the sampler of a node");
    made->config = *config;
    thread_condition_init(&made->mutex, &made->changed);
    made->has_gpus = config->order->gpus;
    read_slots(made);
    const char *root = config->root ? config->root : "/";
    made->bell = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    weft_status status = made->bell < 0 ? error_system(error, "cannot make an event descriptor") : WEFT_OK;
    if (status == WEFT_OK)
        status = machine_metrics_open(root, &made->machine, error);
    if (status == WEFT_OK)
        status = sampler_watch(made, error);
    if (status == WEFT_OK)
        status = cpu_power_open(root, &made->power, error);
    if (status == WEFT_OK)
        status = open_events(made, error);
    if (status == WEFT_OK)
        status = sampler_start_thread(made, error);
    if (status != WEFT_OK) {
        sampler_release(made);
        return status;
    }
    *sampler = made;
    return WEFT_OK;
}

/* ---- the agent's side ---- */

int node_sampler_descriptor(const struct node_sampler *sampler)
{
    return sampler->bell;
}

void node_sampler_take(struct node_sampler *sampler, node_sampler_record *take, void *context)
{
    uint64_t rung;
    struct journal_record record;
    size_t used;
    (void)!read(sampler->bell, &rung, sizeof rung);
    pthread_mutex_lock(&sampler->mutex);
    struct buffer taken = sampler->queue;
    sampler->queue = (struct buffer){0};
    pthread_cond_broadcast(&sampler->changed);
    pthread_mutex_unlock(&sampler->mutex);
    while (journal_get(buffer_begin(&taken), buffer_size(&taken), &record, &used) == JOURNAL_FOUND) {
        take(context, &record);
        buffer_consume(&taken, used);
    }
    buffer_free(&taken);
}

void node_sampler_stop(struct node_sampler *sampler, double seconds, node_sampler_record *take, void *context)
{
    bool ended = false;
    if (!sampler)
        return;
    sampler_set(sampler, &sampler->stopping);
    for (const uint64_t until = clock_after(seconds); !ended && clock_now() < until;) {
        pthread_mutex_lock(&sampler->mutex);
        if (!sampler->ended && buffer_size(&sampler->queue) == 0)
            thread_wait_until(&sampler->changed, &sampler->mutex, clock_after(WAIT_SECONDS));
        ended = sampler->ended;
        pthread_mutex_unlock(&sampler->mutex);
        node_sampler_take(sampler, take, context);
    }
    if (ended) {
        pthread_join(sampler->thread, NULL);
        sampler_release(sampler);
        return;
    }
    sampler_set(sampler, &sampler->abandoned); /* the thread frees its memory */
    pthread_detach(sampler->thread);
}

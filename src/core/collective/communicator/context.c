/* SPDX-License-Identifier: Apache-2.0 */
#include "core/collective/communicator/context.h"

#include "base/hash.h"
#include "core/collective/communicator/configuration.h"
#include "core/collective/internal/execution.h"
#include "core/control/rendezvous/bootstrap.h"
#include "core/topology/limits.h"
#include "core/transport/copy.h"

#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>

char *context_rank_name(const weft_context *context, uint32_t world_rank, char *text, size_t size)
{
    if (world_rank < context->ranks)
        snprintf(text, size, "rank %u on host %s", world_rank, context->endpoints[world_rank].host);
    else
        snprintf(text, size, "rank %u", world_rank);
    return text;
}

void context_counters(weft_context *context, struct transport_counters counters[CONTEXT_TRANSPORTS])
{
    progress_enter(context);
    for (uint32_t i = 0; i < CONTEXT_TRANSPORTS; i++) {
        counters[i] = (struct transport_counters){0};
        if (context->transports[i])
            context->transports[i]->counters(context->transports[i], &counters[i]);
    }
    progress_leave(context);
}

/* ---- processes ---- */

weft_status weft_process_open(uint64_t heap_bytes, weft_process **result)
{
    struct error error;
    error_clear(&error);
    if (!result)
        return context_missing("weft_process_open()", "place for the process");
    weft_process *process = calloc(1, sizeof *process);
    weft_status status =
        process ? heap_open(heap_bytes, &process->heap, &error) : error_memory(&error, sizeof *process, "a process");
    if (status != WEFT_OK) {
        free(process);
        context_note_thread(&error);
        return status;
    }
    *result = process;
    return WEFT_OK;
}

void weft_process_close(weft_process *process)
{
    if (!process)
        return;
    heap_close(process->heap);
    free(process);
}

/* ---- opening ---- */

/* The collectives' part of a rank's endpoint info. */
struct extra {
    uint8_t fabric; /* it asked for a provider by name */
    uint8_t traces;
    uint8_t checks;         /* it asked for checksums */
    uint32_t processors;    /* how many it may keep busy ... */
    uint64_t processor_set; /* ... and which: see struct limits */
};

static struct extra extra_of(const struct endpoint_info *endpoint)
{
    struct extra extra;
    memcpy(&extra, endpoint->extra, sizeof extra);
    return extra;
}

bool context_rank_traces(const weft_context *context, uint32_t world_rank)
{
    return extra_of(&context->endpoints[world_rank]).traces;
}

/* The length of the first `fields` fields of an identity (core/topology/identity.h). */
static size_t fields_length(const char *machine, int fields)
{
    size_t length = 0;
    for (; machine[length]; length++)
        if (machine[length] == '/' && --fields == 0)
            break;
    return length;
}

static bool same_fields(const struct endpoint_info *a, const struct endpoint_info *b, int fields)
{
    size_t length = fields_length(a->machine, fields);
    return length == fields_length(b->machine, fields) && strncmp(a->machine, b->machine, length) == 0;
}

bool context_same_kernel(const struct endpoint_info *a, const struct endpoint_info *b)
{
    return same_fields(a, b, 1);
}

weft_status context_make_endpoint(weft_context *context, struct control **control, struct endpoint_info *endpoint,
                                  struct error *error)
{
    const weft_config *config = &context->config;
    weft_status status = endpoint_info_begin(endpoint, context->rank, config->node, error);
    if (status != WEFT_OK)
        return status;
    struct limits limits;
    status = limits_read(&limits, error);
    if (status != WEFT_OK)
        return status;
    const char *trace;
    uint64_t events;
    status = configuration_trace(&trace, &events, error);
    if (status != WEFT_OK)
        return status;
    const struct extra extra = {.traces = trace != NULL,
                                .checks = configuration_checks_messages(),
                                .fabric = config->fabric && strcmp(config->fabric, "none") != 0,
                                .processors = limits_processors(&limits),
                                .processor_set = limits.processor_set};
    memcpy(endpoint->extra, &extra, sizeof extra);
    const struct control_config settings = {
        .rank = context->rank,
        .ranks = context->ranks == 1 && (context->regroup || bootstrap_grows(context->bootstrap))
                     ? 2 /* it listens: others may join */
                     : context->ranks,
        .connect_limit = context->rendezvous_limit,
        .liveness_limit = config->liveness_limit,
    };
    /* Of several interfaces, the control plane takes the first. */
    char first[ENDPOINT_HOST_BYTES] = "";
    if (config->interface)
        snprintf(first, sizeof first, "%.*s", (int)strcspn(config->interface, ","), config->interface);
    const char *interface = *first ? first : bootstrap_interface_hint(context->bootstrap);
    return control_open(&settings, interface, control, endpoint, error);
}

/* The listener of the control plane stays open: after a failure the survivors regroup there. */
static weft_status prepare_regrouping(weft_context *context, struct error *error)
{
    context->first = malloc(context->ranks * sizeof *context->first);
    if (!context->first)
        return error_memory(error, context->ranks * sizeof *context->first, "the numbers of the ranks");
    for (uint32_t r = 0; r < context->ranks; r++)
        context->first[r] = r;
    int listener = control_take_listener(context->control);
    if (listener < 0)
        return WEFT_OK;
    return regroup_open(context->rank, context->ranks, context->endpoints, context->secret, listener, &context->regroup,
                        error);
}

/* However the rank was launched: its number, and that of all. */
static weft_status find_launcher(weft_context *context, struct error *error)
{
    const weft_config *config = &context->config;
    const struct bootstrap_config wanted = {.rank = config->rank,
                                            .ranks = config->ranks,
                                            .address = config->rendezvous,
                                            .secret = config->secret,
                                            .limit_seconds = config->rendezvous_limit};
    weft_status status = bootstrap_open(&wanted, &context->bootstrap, error);
    if (status != WEFT_OK)
        return status;
    context->rank = bootstrap_rank(context->bootstrap);
    context->ranks = bootstrap_ranks(context->bootstrap);
    return WEFT_OK;
}

static weft_status context_meet(weft_context *context, struct error *error)
{
    struct endpoint_info endpoint = {0};
    weft_status status = context_make_endpoint(context, &context->control, &endpoint, error);
    if (status == WEFT_OK)
        status = bootstrap_exchange(context->bootstrap, &endpoint, &context->endpoints, error);
    startup_end(&context->startup, STARTUP_RENDEZVOUS);
    if (status != WEFT_OK)
        return status;
    memcpy(context->secret, bootstrap_secret(context->bootstrap), sizeof context->secret);
    control_renumber(context->control, context->rank, context->ranks, context->rendezvous_limit);
    status = control_connect(context->control, context->endpoints, context->secret, error);
    return status == WEFT_OK ? prepare_regrouping(context, error) : status;
}

weft_status context_allgather(weft_context *context, const char *what, const void *mine, uint32_t bytes, void **result,
                              struct error *error)
{
    uint32_t *members = malloc(context->ranks * sizeof *members);
    void *all = malloc((size_t)context->ranks * bytes);
    weft_status status = WEFT_OK;
    if (!members || !all)
        status = error_memory(error, context->ranks * (bytes + sizeof *members), what);
    for (uint32_t r = 0; status == WEFT_OK && r < context->ranks; r++)
        members[r] = r;
    if (status == WEFT_OK)
        status = control_exchange(context->control, hash_text(what, 0), members, context->ranks, mine, bytes, all,
                                  context->rendezvous_limit, error);
    free(members);
    if (status != WEFT_OK) {
        free(all);
        return status;
    }
    *result = all;
    return WEFT_OK;
}

static weft_status context_open_shm(weft_context *context, struct error *error)
{
    struct shm_endpoint mine, *all = NULL;
    uint64_t secret = hash_bytes(context->secret, sizeof context->secret, 0);
    weft_status status = shm_create(context->heap, context->rank, context->ranks, secret, &context->shm, error);
    if (status != WEFT_OK)
        return status;
    shm_set_control(context->shm, context->control);
    shm_endpoint_info(context->shm, &mine);
    status = context_allgather(context, "shared-memory endpoints", &mine, sizeof mine, (void **)&all, error);
    uint32_t *ranks = malloc(context->ranks * sizeof *ranks), count = 0;
    if (status == WEFT_OK && !ranks)
        status = error_memory(error, context->ranks * sizeof *ranks, "the local ranks");
    for (uint32_t r = 0; status == WEFT_OK && r < context->ranks; r++)
        if (strcmp(context->endpoints[r].machine, context->endpoints[context->rank].machine) == 0) {
            all[count] = all[r];
            ranks[count++] = r;
        }
    if (status == WEFT_OK)
        status = shm_connect(context->shm, ranks, all, count, context->rendezvous_limit, error);
    free(ranks);
    free(all);
    if (status == WEFT_OK)
        context->transports[CONTEXT_SHM] = shm_transport(context->shm);
    return status;
}

static weft_status open_fabric(weft_context *context, const struct fabric *former, struct error *error)
{
    const weft_config *config = &context->config;
    const struct endpoint_info *endpoints = context->endpoints;
    bool far = false, asked = false, checks = false, loopback = true;
    for (uint32_t r = 0; r < context->ranks; r++) {
        asked |= extra_of(&endpoints[r]).fabric;
        checks |= extra_of(&endpoints[r]).checks;
        far |= strcmp(endpoints[r].machine, endpoints[0].machine) != 0;
        loopback &= same_fields(&endpoints[r], &endpoints[0], 2); /* one kernel and one network of its own */
    }
    if (!far && (!asked || context->ranks == 1))
        return WEFT_OK;
    if (config->fabric && strcmp(config->fabric, "none") == 0)
        return error_set(
            error, WEFT_ERROR_NETWORK,
            "the configuration says fabric \"none\", but the ranks do not all share one machine: rank %u is on "
            "host %s",
            context->rank, endpoints[context->rank].host);
    const struct fabric_config wanted = {.provider = config->fabric,
                                         .interface = config->interface,
                                         .reachable = bootstrap_interface_hint(context->bootstrap),
                                         .loopback_only = loopback,
                                         .rank = context->rank,
                                         .ranks = context->ranks,
                                         .checks = checks,
                                         .endpoints = endpoints,
                                         .heap = context->heap,
                                         .former = former};
    struct fabric_endpoint mine = {0}, *all = NULL;
    weft_status status = fabric_open(&wanted, &context->fabric, error);
    if (status != WEFT_OK)
        return status;
    fabric_endpoint_info(context->fabric, &mine);
    status = context_allgather(context, "fabric endpoint info", &mine, sizeof mine, (void **)&all, error);
    for (uint32_t r = 0; status == WEFT_OK && r < context->ranks; r++)
        if (!shm_reaches(context->shm, r))
            status = fabric_connect(context->fabric, r, &all[r], error);
    free(all);
    if (status == WEFT_OK)
        context->transports[CONTEXT_FABRIC] = fabric_transport(context->fabric);
    return status;
}

/*
 * Count the ranks on this machine, across containers and namespaces, and the cores that they have together: ranks bound
 * to disjoint sets each add their own, and ranks with the same set of processors share it.
 */
static void count_cores(weft_context *context)
{
    const struct endpoint_info *endpoints = context->endpoints, *own = &endpoints[context->rank];
    uint32_t here = 0;
    context->cores = 0;
    for (uint32_t r = 0; r < context->ranks; r++) {
        if (!context_same_kernel(&endpoints[r], own))
            continue;
        bool counted = false;
        for (uint32_t q = 0; q < r && !counted; q++)
            counted = context_same_kernel(&endpoints[q], own) &&
                      extra_of(&endpoints[q]).processor_set == extra_of(&endpoints[r]).processor_set;
        context->cores += counted ? 0 : extra_of(&endpoints[r]).processors;
        here++;
    }
    context->progress.crowded = here > context->cores;
}

weft_status context_open_memory(weft_context *context, struct error *error)
{
    const weft_config *config = &context->config;
    if (config->process) {
        context->heap = config->process->heap;
        return WEFT_OK;
    }
    uint32_t here = 0; /* ranks that will map it */
    for (uint32_t r = 0; r < context->ranks; r++)
        here += strcmp(context->endpoints[r].machine, context->endpoints[context->rank].machine) == 0;
    context->heap_is_own = true;
    return heap_open(config->heap_bytes ? config->heap_bytes : heap_default_bytes(here), &context->heap, error);
}

/* Only now, because the work of opening the context must not count as the user's. */
static weft_status open_trace(weft_context *context, struct error *error)
{
    const char *path;
    uint64_t events;
    weft_status status = configuration_trace(&path, &events, error);
    return status == WEFT_OK && path ? trace_open(context, path, events, error) : status;
}

weft_status context_open_epoch(weft_context *context, const struct fabric *former, struct error *error)
{
    count_cores(context);
    weft_status status = status_page_open(&context->status_page, context->rank, context->ranks, context->endpoints,
                                          context->bootstrap, configuration_run(), context->control, error);
    if (status != WEFT_OK)
        return status;
    context->log = &context->status_page.status_page->log;
    control_publish_log(context->control, context->log, operation_log_describe);
    status = progress_open(context, error);
    if (status == WEFT_OK)
        status = context_open_shm(context, error);
    startup_end(&context->startup, STARTUP_SHM);
    if (status == WEFT_OK)
        status = open_fabric(context, former, error);
    startup_end(&context->startup, STARTUP_NETWORK);
    if (status == WEFT_OK)
        status = progress_attach(context, error);
    if (status == WEFT_OK)
        status = comm_open_world(context, error);
    startup_end(&context->startup, STARTUP_COMMUNICATOR);
    return status;
}

void context_close_tuner(weft_context *context)
{
    tuner_close(&context->tuner);
    context->is_tuned = false;
}

weft_status context_open_tuner(weft_context *context, struct error *error)
{
    context_close_tuner(context);
    const weft_status status = tuner_open(&context->tuner, context, context->config.topology, error);
    context->is_tuned = status == WEFT_OK;
    return status;
}

/* A job of which all ranks begin together. */
static weft_status begin_job(weft_context *context, struct error *error)
{
    weft_status status = context_meet(context, error);
    if (status != WEFT_OK)
        return status;
    startup_end(&context->startup, STARTUP_CONTROL);
    status = context_open_memory(context, error);
    if (status == WEFT_OK)
        status = context_open_epoch(context, NULL, error);
    if (status == WEFT_OK)
        status = context_open_tuner(context, error);
    if (status == WEFT_OK)
        context_leave_members(context);
    else /* so that the others do not wait for this rank */
        control_abort(context->control, status, error->text);
    return status;
}

static weft_status context_open_all(weft_context *context, struct error *error)
{
    startup_begin(&context->startup);
    weft_status status = find_launcher(context, error);
    if (status != WEFT_OK)
        return status;
    status = bootstrap_joins(context->bootstrap) ? context_join(context, error) : begin_job(context, error);
    startup_end(&context->startup, STARTUP_TUNER);
    if (status != WEFT_OK)
        return status;
    if ((status = open_trace(context, error)) != WEFT_OK)
        control_abort(context->control, status, error->text);
    return status;
}

static void close_all(weft_context *context)
{
    while (context->comms)
        comm_discard(context->comms);
    context_close_tuner(context);
    progress_close(context);
    comm_discard_released(context);
    regroup_close(context->regroup);
    if (context->heap)
        execution_free_all(context);
    if (context->fabric)
        fabric_close(context->fabric);
    shm_destroy(context->shm);
    if (context->has_left || context->epoch > 0 || (context->control && control_failed(context->control)))
        bootstrap_abandon(context->bootstrap);
    if (context->control)
        control_close(context->control);
    status_page_close(&context->status_page);
    trace_close(context->trace);
    if (context->heap_is_own)
        heap_close(context->heap);
    else if (context->heap && context_status(context) == WEFT_OK)
        heap_free_assigned(context->heap, context); /* after a failure others may still look at it */
    bootstrap_close(context->bootstrap);
    free(context->endpoints);
    free(context->first);
    for (int i = 0; i < 3; i++)
        free(context->config_texts[i]);
    pthread_mutex_destroy(&context->message_lock);
    free(context);
}

/* Copy the configuration: after a failure it is needed again, and the caller's strings may be gone by then. */
static weft_status keep_config(weft_context *context, const weft_config *wanted, struct error *error)
{
    const char **texts[] = {&context->config.node, &context->config.fabric, &context->config.interface};
    context->config = *wanted;
    for (int i = 0; i < 3; i++) {
        if (!*texts[i])
            continue;
        context->config_texts[i] = strdup(*texts[i]);
        if (!context->config_texts[i])
            return error_memory(error, strlen(*texts[i]), "the configuration");
        *texts[i] = context->config_texts[i];
    }
    return WEFT_OK;
}

weft_status weft_init(const weft_config *config, weft_context **result)
{
    weft_config wanted;
    struct error error;
    error_clear(&error);
    context_note_thread(&error);
    weft_status complete =
        result ? configuration_complete(config, &wanted, &error)
               : error_set(&error, WEFT_ERROR_ARGUMENT, "weft_init() was given no place for the context");
    if (complete != WEFT_OK) {
        context_note_thread(&error);
        return complete;
    }
    weft_context *context = aligned_alloc(64, (sizeof *context + 63) & ~(size_t)63);
    if (!context) {
        error_memory(&error, sizeof *context, "a context");
        context_note_thread(&error);
        return WEFT_ERROR_MEMORY;
    }
    memset(context, 0, sizeof *context);
    pthread_mutex_init(&context->message_lock, NULL);
    context->progress.caller_wake = context->progress.helper_wake = context->progress.epoll = -1;
    context->group_end = &context->group;
    context->rendezvous_limit = wanted.rendezvous_limit;
    context->time_limit = wanted.time_limit;
    context->late_seconds = wanted.late_seconds;
    context->hang_watch.limit = wanted.hang_limit;
    context->reduction = reduction_best();
    context->streaming_bytes = copy_streaming_threshold();
    context->kept_bytes = copy_forgotten_after();
    weft_status status = keep_config(context, &wanted, &error);
    if (status == WEFT_OK)
        status = context_open_all(context, &error);
    if (status != WEFT_OK) {
        context_note_thread(&error);
        close_all(context);
        return status;
    }
    if (context->rank == 0 && configuration_verbose())
        startup_print(context);
    *result = context;
    return WEFT_OK;
}

/* ---- leaving ---- */

/*
 * Nothing may be in flight at the end. Otherwise the job ends here: this rank's part in those operations will never be
 * done, and others may wait for it.
 */
static weft_status end_operations(weft_context *context, struct error *error)
{
    weft_status status = WEFT_OK;
    progress_enter(context);
    progress_round(
        context); /* operations that have failed, or only need to be noticed as complete, are not in flight */
    bool busy = atomic_load_explicit(&context->progress.operations, memory_order_relaxed) != 0;
    if (context_status(context) == WEFT_OK && (busy || context->grouping)) {
        const struct operation_entry *entry = operation_log_current(context->log);
        char name[128], call[OPERATION_TEXT_BYTES] = "operations";
        if (entry)
            call_describe(entry, call, sizeof call);
        status = error_set(error, WEFT_ERROR_STATE, "%s called weft_finalize() with %s%s before weft_finalize()",
                           context_rank_name(context, context->rank, name, sizeof name),
                           context->grouping ? "a group of calls open" : call,
                           context->grouping ? "; call weft_group_end()" : " in flight; wait for every request");
        control_abort(context->control, status, error->text);
        progress_round(context);
    }
    progress_leave(context);
    return status;
}

/* A failure that no call has returned, as where the others failed after this rank's last operation. */
static weft_status find_unreported(weft_context *context, struct error *error)
{
    if (atomic_load_explicit(&context->reported, memory_order_relaxed))
        return WEFT_OK;
    const weft_status status = context_status(context);
    return status == WEFT_OK ? control_failure(context->control, error)
                             : error_set(error, status, "%s", weft_message(context));
}

weft_status weft_finalize(weft_context *context)
{
    struct error error;
    error_clear(&error);
    if (!context)
        return WEFT_OK;
    if (context->has_left) {
        close_all(context);
        return WEFT_OK;
    }
    hang_watch_pause(&context->hang_watch, true); /* a trace may take long to write */
    weft_status status = end_operations(context, &error);
    if (status == WEFT_OK && context_status(context) == WEFT_OK) {
        status = comm_leave_world(context);
        if (status != WEFT_OK)
            error_set(&error, status, "%s", weft_message(context));
    }
    if (context->trace) {
        weft_status written = trace_write(context, &error);
        status = status == WEFT_OK ? written : status;
    }
    if (context_status(context) == WEFT_OK && !control_failed(context->control)) {
        /* No memory is freed before all ranks are done with it. */
        uint8_t nothing = 0;
        void *all = NULL;
        weft_status told = context_allgather(context, "finalize", &nothing, 1, &all, &error);
        status = status == WEFT_OK ? told : status;
        free(all);
    } else if (status == WEFT_OK) {
        status = find_unreported(context, &error);
    }
    context_note_thread(&error);
    close_all(context);
    return status;
}

void weft_abort(weft_context *context, const char *reason)
{
    char message[ERROR_TEXT_BYTES], name[128];
    if (context->has_left) /* the others do not hear it */
        return;
    snprintf(message, sizeof message, "%s called weft_abort(): %s",
             context_rank_name(context, context->rank, name, sizeof name), reason ? reason : "no reason given");
    control_abort(context->control, WEFT_ERROR_ABORTED, message);
    atomic_store_explicit(&context->reported, true, memory_order_relaxed); /* its caller knows */
    eventfd_write(context->progress.caller_wake, 1);
    progress_wake_helper(context);
}

weft_comm *weft_world(weft_context *context)
{
    if (!context) {
        context_missing("weft_world()", "context");
        return NULL;
    }
    return context->world;
}

/* ---- memory ---- */

void *weft_alloc(weft_context *context, size_t bytes)
{
    struct error error;
    void *pointer = NULL;
    error_clear(&error);
    if (!context) {
        context_missing("weft_alloc()", "context");
        return NULL;
    }
    if (heap_alloc(context->heap, bytes, &pointer, &error) != WEFT_OK) {
        context_note(context, &error);
        return NULL;
    }
    heap_assign(context->heap, pointer, context);
    return pointer;
}

void weft_free(weft_context *context, void *pointer)
{
    heap_free(context->heap, pointer);
}

weft_status weft_register(weft_context *context, void *pointer, size_t bytes)
{
    struct error error;
    error_clear(&error);
    if (!context)
        return context_missing("weft_register()", "context");
    if (!context->fabric)
        return WEFT_OK; /* local ranks copy it anyhow */
    progress_enter(context);
    weft_status status = fabric_register(context->fabric, pointer, bytes, &error);
    progress_leave(context);
    return status == WEFT_OK ? WEFT_OK : context_note(context, &error);
}

weft_status weft_deregister(weft_context *context, void *pointer)
{
    struct error error;
    error_clear(&error);
    if (!context)
        return context_missing("weft_deregister()", "context");
    if (!context->fabric)
        return WEFT_OK;
    progress_enter(context);
    weft_status status = fabric_deregister(context->fabric, pointer, &error);
    progress_leave(context);
    return status == WEFT_OK ? WEFT_OK : context_note(context, &error);
}

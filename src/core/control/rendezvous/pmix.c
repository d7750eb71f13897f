/* SPDX-License-Identifier: Apache-2.0 */
/*
 * PMIx (the PMIx Standard, version 4), offered by Open MPI's mpirun and srun --mpi=pmix. Its library is loaded when it
 * is needed, so that Weft runs without it; the build needs only its header.
 */
#include "base/thread.h"
#include "core/control/rendezvous/internal/kvs.h"
#include "core/control/wire/environment.h"

#include <dlfcn.h>
#include <errno.h>
#include <pmix.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

struct pmix {
    struct kvs kvs;
    void *library;
    pmix_proc_t self;
    pthread_mutex_t lock;
    pthread_cond_t changed;
    bool fenced; /* no fence is under way */
    pmix_status_t fence_status;
    __typeof__(PMIx_Init) *init;
    __typeof__(PMIx_Finalize) *finalize;
    __typeof__(PMIx_Put) *put;
    __typeof__(PMIx_Commit) *commit;
    __typeof__(PMIx_Fence_nb) *fence;
    __typeof__(PMIx_Get) *get;
    __typeof__(PMIx_Error_string) *error_string;
};

static weft_status pmix_failed(const struct pmix *pmix, const char *what, pmix_status_t status, struct error *error)
{
    return error_set(error, WEFT_ERROR_RENDEZVOUS, "the launcher's PMIx failed to %s: %s", what,
                     pmix->error_string(status));
}

static weft_status pmix_put(struct kvs *kvs, const char *key, const char *value, struct error *error)
{
    struct pmix *pmix = (struct pmix *)kvs;
    pmix_value_t entry = {.type = PMIX_STRING};
    entry.data.string = (char *)value;
    pmix_status_t status = pmix->put(PMIX_GLOBAL, key, &entry);
    return status == PMIX_SUCCESS ? WEFT_OK : pmix_failed(pmix, "put a value", status, error);
}

static void fence_done(pmix_status_t status, void *context)
{
    struct pmix *pmix = context;
    pthread_mutex_lock(&pmix->lock);
    pmix->fenced = true;
    pmix->fence_status = status;
    pthread_cond_signal(&pmix->changed);
    pthread_mutex_unlock(&pmix->lock);
}

static weft_status pmix_fence(struct kvs *kvs, double limit_seconds, struct error *error)
{
    struct pmix *pmix = (struct pmix *)kvs;
    pmix_proc_t everybody = pmix->self;
    everybody.rank = PMIX_RANK_WILDCARD;
    pmix_info_t collect = {.value.type = PMIX_BOOL, .value.data.flag = true};
    strcpy(collect.key, PMIX_COLLECT_DATA);
    pmix_status_t status = pmix->commit();
    pmix->fenced = false;
    if (status == PMIX_SUCCESS)
        status = pmix->fence(&everybody, 1, &collect, 1, fence_done, pmix);
    if (status != PMIX_SUCCESS) {
        pmix->fenced = true;
        return status == PMIX_OPERATION_SUCCEEDED ? WEFT_OK : pmix_failed(pmix, "begin a fence", status, error);
    }
    const uint64_t end = clock_after(limit_seconds + 1);
    pthread_mutex_lock(&pmix->lock);
    while (!pmix->fenced && thread_wait_until(&pmix->changed, &pmix->lock, end))
        continue;
    bool fenced = pmix->fenced;
    status = pmix->fence_status;
    pthread_mutex_unlock(&pmix->lock);
    if (!fenced)
        return error_set(
            error, WEFT_ERROR_TIMEOUT,
            "not all %u ranks have come to the rendezvous within %g s (the launcher's PMIx does not name the missing)",
            kvs->ranks, limit_seconds);
    return status == PMIX_SUCCESS ? WEFT_OK : pmix_failed(pmix, "bring all ranks together", status, error);
}

static weft_status pmix_get(struct kvs *kvs, uint32_t rank, const char *key, char *value, size_t room,
                            struct error *error)
{
    struct pmix *pmix = (struct pmix *)kvs;
    pmix_proc_t owner = pmix->self;
    owner.rank = rank;
    pmix_value_t *entry = NULL;
    pmix_status_t status = pmix->get(&owner, key, NULL, 0, &entry);
    if (status != PMIX_SUCCESS || !entry)
        return pmix_failed(pmix, "get a rank's endpoint info", status, error);
    bool good = entry->type == PMIX_STRING && strlen(entry->data.string) < room;
    if (good)
        strcpy(value, entry->data.string);
    if (entry->type == PMIX_STRING)
        free(entry->data.string);
    free(entry);
    return good ? WEFT_OK
                : error_set(error, WEFT_ERROR_RENDEZVOUS, "the launcher's PMIx has no good value of '%s' of rank %u",
                            key, rank);
}

static void pmix_release(struct pmix *pmix)
{
    pthread_cond_destroy(&pmix->changed);
    pthread_mutex_destroy(&pmix->lock);
    free(pmix); /* the library stays loaded: it has threads of its own */
}

static void pmix_finish(struct kvs *kvs, bool notify)
{
    struct pmix *pmix = (struct pmix *)kvs;
    if (notify)
        pmix->finalize(NULL, 0); /* waits for the launcher */
    pthread_mutex_lock(&pmix->lock);
    bool fenced = pmix->fenced;
    pthread_mutex_unlock(&pmix->lock);
    if (notify || fenced)
        pmix_release(pmix); /* else the library's thread may still call fence_done() */
}

static weft_status pmix_load(struct pmix *pmix, struct error *error)
{
    pmix->library = dlopen("libpmix.so.2", RTLD_NOW | RTLD_LOCAL);
    if (!pmix->library)
        return error_set(error, WEFT_ERROR_RENDEZVOUS,
                         "the launcher offers PMIx, but its library cannot be loaded: %s; install libpmix2", dlerror());
    const struct {
        const char *name;
        void **place;
    } functions[] = {
        {"PMIx_Init", (void **)&pmix->init},
        {"PMIx_Finalize", (void **)&pmix->finalize},
        {"PMIx_Put", (void **)&pmix->put},
        {"PMIx_Commit", (void **)&pmix->commit},
        {"PMIx_Fence_nb", (void **)&pmix->fence},
        {"PMIx_Get", (void **)&pmix->get},
        {"PMIx_Error_string", (void **)&pmix->error_string},
    };
    for (size_t i = 0; i < ARRAY_SIZE(functions); i++) {
        *functions[i].place = dlsym(pmix->library, functions[i].name);
        if (!*functions[i].place)
            return error_set(error, WEFT_ERROR_RENDEZVOUS, "libpmix.so.2 has no function %s; it is too old",
                             functions[i].name);
    }
    return WEFT_OK;
}

static weft_status job_size(struct pmix *pmix, struct error *error)
{
    pmix_proc_t job = pmix->self;
    job.rank = PMIX_RANK_WILDCARD;
    pmix_value_t *entry = NULL;
    pmix_status_t status = pmix->get(&job, PMIX_JOB_SIZE, NULL, 0, &entry);
    if (status != PMIX_SUCCESS || !entry)
        return pmix_failed(pmix, "tell the number of ranks", status, error);
    pmix->kvs.ranks = entry->data.uint32;
    free(entry);
    return WEFT_OK;
}

weft_status kvs_open_pmix(struct kvs **kvs, struct error *error)
{
    struct pmix *pmix = calloc(1, sizeof *pmix);
    if (!pmix)
        return error_memory(error, sizeof *pmix, "the launcher's PMIx");
    pmix->kvs = (struct kvs){.name = launcher_name(LAUNCHER_PMIX),
                             .value_most = 4096,
                             .put = pmix_put,
                             .fence = pmix_fence,
                             .get = pmix_get,
                             .close = pmix_finish};
    pmix->fenced = true;
    thread_condition_init(&pmix->lock, &pmix->changed);
    weft_status status = pmix_load(pmix, error);
    if (status == WEFT_OK) {
        pmix_status_t code = pmix->init(&pmix->self, NULL, 0);
        if (code != PMIX_SUCCESS)
            status = pmix_failed(pmix, "connect", code, error);
    }
    if (status != WEFT_OK) {
        pmix_release(pmix);
        return status;
    }
    status = job_size(pmix, error);
    pmix->kvs.rank = pmix->self.rank;
    if (status != WEFT_OK) {
        pmix_finish(&pmix->kvs, true);
        return status;
    }
    *kvs = &pmix->kvs;
    return WEFT_OK;
}

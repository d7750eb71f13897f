/* SPDX-License-Identifier: Apache-2.0 */
/* The rank's side of its status page. */
#include "core/control/status/status_page.h"

#include "base/hash.h"
#include "core/control/wire/secret.h"

#include <fcntl.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define LOOK_AGAIN 20 /* ms, while answers are awaited */

_Static_assert(offsetof(struct status_page, log) % 64 == 0 && offsetof(struct operation_log, entries) % 64 == 0,
               "entries of the log are cache lines");

static uint64_t status_page_answers_offset(uint32_t ranks)
{
    return (sizeof(struct status_page) + ranks * sizeof(struct status_page_rank) + 63) & ~UINT64_C(63);
}

uint64_t status_page_bytes(uint32_t ranks)
{
    return status_page_answers_offset(ranks) + ranks * sizeof(struct status_page_answer);
}

struct status_page_answer *status_page_answers(const struct status_page *status_page, uint32_t ranks)
{
    return (struct status_page_answer *)((uintptr_t)status_page + status_page_answers_offset(ranks));
}

/* Derived from the secret without revealing it: the same for all ranks of a job. A rank that is alone has no secret. */
static uint64_t status_page_job_number(const struct bootstrap *bootstrap, uint32_t ranks)
{
    static const char label[] = "the number of a job";
    uint8_t proof[SECRET_BYTES];
    uint64_t job;
    secret_sign(bootstrap_secret(bootstrap), label, sizeof label, proof);
    memcpy(&job, proof, sizeof job);
    return ranks > 1 ? job : hash_number((uint64_t)getpid(), hash_number(clock_now(), job));
}

static weft_status status_page_map(struct status_page_writer *writer, uint64_t bytes, struct error *error)
{
    writer->descriptor = memfd_create(STATUS_PAGE_FILE, MFD_CLOEXEC | MFD_ALLOW_SEALING);
    if (writer->descriptor < 0 || ftruncate(writer->descriptor, (off_t)bytes) != 0 ||
        fchmod(writer->descriptor, S_IRUSR | S_IWUSR) != 0 ||
        fcntl(writer->descriptor, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) != 0)
        return error_system(error, "cannot make the rank's status page (%s, %lu bytes)", STATUS_PAGE_FILE,
                            (unsigned long)bytes);
    void *memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, writer->descriptor, 0);
    if (memory == MAP_FAILED)
        return error_system(error, "cannot map the rank's status page (%lu bytes)", (unsigned long)bytes);
    writer->status_page = memory;
    return WEFT_OK;
}

weft_status status_page_open(struct status_page_writer *writer, uint32_t rank, uint32_t ranks,
                             const struct endpoint_info *endpoints, const struct bootstrap *bootstrap, const char *run,
                             struct control *control, struct error *error)
{
    *writer = (struct status_page_writer){.control = control, .descriptor = -1};
    weft_status status = status_page_map(writer, status_page_bytes(ranks), error);
    if (status != WEFT_OK) {
        status_page_close(writer);
        return status;
    }
    struct status_page *status_page = writer->status_page;
    status_page->bytes = status_page_bytes(ranks);
    status_page->rank = rank;
    status_page->ranks = ranks;
    status_page->process = (int32_t)getpid();
    status_page->job = status_page_job_number(bootstrap, ranks);
    status_page->started = (int64_t)time(NULL);
    snprintf(status_page->launcher, sizeof status_page->launcher, "%s", bootstrap_launcher(bootstrap));
    snprintf(status_page->run, sizeof status_page->run, "%s", run ? run : "");
    for (uint32_t r = 0; r < ranks; r++) {
        status_page->who[r].process = endpoints[r].process;
        memcpy(status_page->who[r].host, endpoints[r].host, sizeof status_page->who[r].host);
        memcpy(status_page->who[r].machine, endpoints[r].machine, sizeof status_page->who[r].machine);
    }
    status_page->log.opened = status_page->log.beat = clock_timestamp();
    __atomic_store_n(&status_page->magic, STATUS_PAGE_MAGIC, __ATOMIC_RELEASE);
    return WEFT_OK;
}

void status_page_close(struct status_page_writer *writer)
{
    if (writer->status_page)
        munmap(writer->status_page, writer->status_page->bytes);
    if (writer->descriptor > 0)
        close(writer->descriptor);
    *writer = (struct status_page_writer){.descriptor = -1};
}

/* ---- queries ---- */

static void status_page_answer_take(void *context, uint32_t rank, const struct operation_log *log)
{
    struct status_page_writer *writer = context;
    struct status_page_answer *answer = &status_page_answers(writer->status_page, writer->status_page->ranks)[rank];
    uint64_t now = clock_now();
    atomic_store_explicit(&answer->number, 0, memory_order_relaxed);
    atomic_thread_fence(memory_order_release);
    answer->round_trip = now - writer->asked_at;
    answer->offset = (int64_t)(log->beat.now - (writer->asked_at + answer->round_trip / 2));
    answer->log = *log;
    atomic_store_explicit(&answer->number, writer->asking, memory_order_release);
    if (writer->missing)
        writer->missing--;
}

static void status_page_ask(struct status_page_writer *writer, uint64_t number)
{
    const struct status_page *status_page = writer->status_page;
    writer->asking = number;
    writer->asked_at = clock_now();
    writer->missing = 0;
    for (uint32_t r = 0; r < status_page->ranks; r++)
        writer->missing += strcmp(status_page->who[r].machine, status_page->who[status_page->rank].machine) != 0;
    for (uint32_t r = 0; r < status_page->ranks; r++)
        if (strcmp(status_page->who[r].machine, status_page->who[status_page->rank].machine) != 0)
            control_ask_log(writer->control, r, status_page_answer_take, writer);
}

int status_page_progress(struct status_page_writer *writer)
{
    struct status_page *status_page = writer->status_page;
    if (!status_page)
        return -1;
    struct clock_timestamp moment = clock_timestamp();
    __atomic_store_n(&status_page->log.beat.ticks, moment.ticks, __ATOMIC_RELAXED);
    __atomic_store_n(&status_page->log.beat.now, moment.now, __ATOMIC_RELAXED);
    uint64_t asked = atomic_load_explicit(&status_page->asked, memory_order_acquire);
    if (!writer->asking && asked != atomic_load_explicit(&status_page->answered, memory_order_relaxed))
        status_page_ask(writer, asked);
    if (!writer->asking)
        return -1;
    if (writer->missing && moment.now < writer->asked_at + (uint64_t)(STATUS_PAGE_WAIT * 1e9))
        return LOOK_AGAIN;
    atomic_store_explicit(&status_page->answered, writer->asking, memory_order_release);
    writer->asking = 0;
    return -1;
}

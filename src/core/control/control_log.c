/* SPDX-License-Identifier: Apache-2.0 */
/* Operation logs: queries and answers over the tree. */
#include "base/clock.h"
#include "core/control/internal/plane.h"

#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>

/* A query in flight, until it is answered or given up. */
struct question {
    struct question *next;
    uint64_t number;
    uint32_t rank;
    bool answered;
    struct operation_log log;
    void (*callback)(void *context, uint32_t rank, const struct operation_log *log); /* NULL: a caller waits */
    void *context;
};

void operation_log_copy(const struct operation_log *from, struct operation_log *to)
{
    memset(to, 0, sizeof *to);
    to->opened = from->opened;
    to->beat.ticks = __atomic_load_n(&from->beat.ticks, __ATOMIC_RELAXED);
    to->beat.now = __atomic_load_n(&from->beat.now, __ATOMIC_RELAXED);
    atomic_store_explicit(&to->progress, atomic_load_explicit(&from->progress, memory_order_acquire),
                          memory_order_relaxed);
    atomic_store_explicit(&to->doing_number, atomic_load_explicit(&from->doing_number, memory_order_relaxed),
                          memory_order_relaxed);
    for (int i = 0; i < OPERATION_DOING_WORDS; i++)
        atomic_store_explicit(&to->doing[i], atomic_load_explicit(&from->doing[i], memory_order_relaxed),
                              memory_order_relaxed);
    atomic_store_explicit(&to->next, atomic_load_explicit(&from->next, memory_order_acquire), memory_order_relaxed);
    for (uint32_t i = 0; i < OPERATION_LOG_ENTRIES; i++) {
        const struct operation_entry *entry = &from->entries[i];
        struct operation_entry *copy = &to->entries[i];
        uint64_t sequence = atomic_load_explicit(&entry->sequence, memory_order_acquire);
        copy->communicator = __atomic_load_n(&entry->communicator, __ATOMIC_RELAXED);
        copy->collective = __atomic_load_n(&entry->collective, __ATOMIC_RELAXED);
        copy->type = __atomic_load_n(&entry->type, __ATOMIC_RELAXED);
        copy->op = __atomic_load_n(&entry->op, __ATOMIC_RELAXED);
        copy->phase = __atomic_load_n(&entry->phase, __ATOMIC_RELAXED);
        copy->root = __atomic_load_n(&entry->root, __ATOMIC_RELAXED);
        copy->count = __atomic_load_n(&entry->count, __ATOMIC_RELAXED);
        copy->hash = __atomic_load_n(&entry->hash, __ATOMIC_RELAXED);
        copy->started = __atomic_load_n(&entry->started, __ATOMIC_RELAXED);
        copy->since = __atomic_load_n(&entry->since, __ATOMIC_RELAXED);
        uint32_t awaited = atomic_load_explicit(&entry->awaited, memory_order_acquire);
        atomic_store_explicit(&copy->awaited, awaited, memory_order_relaxed);
        bool steady = atomic_load_explicit(&entry->sequence, memory_order_relaxed) == sequence;
        atomic_store_explicit(&copy->sequence, steady ? sequence : 0, memory_order_relaxed);
    }
}

/* A copy of this rank's own log. */
static void control_log_copy_own(const struct control *control, struct operation_log *to)
{
    if (!control->log)
        return;
    operation_log_copy(control->log, to);
    to->beat = clock_timestamp();
}

static void control_log_question_remove(struct control *control, struct question *question)
{
    struct question **place = &control->questions;
    while (*place && *place != question)
        place = &(*place)->next;
    if (*place)
        *place = question->next;
}

void log_free_all(struct control *control)
{
    while (control->questions) {
        struct question *question = control->questions;
        control->questions = question->next;
        free(question);
    }
}

void control_publish_log(struct control *control, const struct operation_log *log,
                         char *(*describe)(const struct operation_log *log, char *text, size_t size))
{
    pthread_mutex_lock(&control->lock);
    control->log = log;
    control->describe = describe;
    pthread_mutex_unlock(&control->lock);
}

char *log_describe(const struct control *control, char *text, size_t size)
{
    struct operation_log copy;
    *text = '\0';
    if (!control->log || !control->describe)
        return text;
    operation_log_copy(control->log, &copy);
    return control->describe(&copy, text, size);
}

/* Send a query; with the lock held. A query for this rank's own log is answered at once. */
static struct question *control_log_ask(struct control *control, uint32_t rank)
{
    struct question *question = calloc(1, sizeof *question);
    if (!question)
        return NULL;
    question->rank = rank;
    question->number = ++control->next_question;
    question->next = control->questions;
    control->questions = question;
    if (rank == control->config.rank) {
        control_log_copy_own(control, &question->log);
        question->answered = true;
        eventfd_write(control->wake, 1);
        return question;
    }
    struct buffer payload = {0};
    buffer_put_u32(&payload, rank);
    buffer_put_u32(&payload, control->config.rank);
    buffer_put_u64(&payload, question->number);
    plane_route(control, CONTROL_ASK, buffer_begin(&payload), buffer_size(&payload));
    buffer_free(&payload);
    return question;
}

bool log_receive_ask(struct control *control, uint32_t source, struct reader reader)
{
    uint64_t number = reader_u64(&reader);
    struct operation_log log = {0};
    if (reader.bad)
        return false;
    control_log_copy_own(control, &log);
    struct buffer payload = {0};
    buffer_put_u32(&payload, source);
    buffer_put_u32(&payload, control->config.rank);
    buffer_put_u64(&payload, number);
    buffer_put(&payload, &log, sizeof log);
    plane_route(control, CONTROL_ANSWER, buffer_begin(&payload), buffer_size(&payload));
    buffer_free(&payload);
    return true;
}

bool log_receive_answer(struct control *control, uint32_t source, struct reader reader)
{
    uint64_t number = reader_u64(&reader);
    const uint8_t *bytes = reader_bytes(&reader, sizeof(struct operation_log));
    if (!bytes)
        return false;
    for (struct question *question = control->questions; question; question = question->next) {
        if (question->number != number || question->rank != source)
            continue;
        memcpy(&question->log, bytes, sizeof question->log);
        question->answered = true;
        pthread_cond_broadcast(&control->changed);
    }
    return true;
}

void log_deliver(struct control *control)
{
    for (;;) {
        pthread_mutex_lock(&control->lock);
        struct question *question = control->questions;
        while (question && !(question->answered && question->callback))
            question = question->next;
        if (question)
            control_log_question_remove(control, question);
        pthread_mutex_unlock(&control->lock);
        if (!question)
            return;
        question->callback(question->context, question->rank, &question->log);
        free(question);
    }
}

weft_status control_fetch_log(struct control *control, uint32_t rank, struct operation_log *log, double limit_seconds,
                              struct error *error)
{
    if (rank >= control->config.ranks)
        return error_set(error, WEFT_ERROR_ARGUMENT, "there is no rank %u among %u", rank, control->config.ranks);
    uint64_t deadline = clock_after(limit_seconds);
    weft_status status = WEFT_OK;
    pthread_mutex_lock(&control->lock);
    struct question *question = control_log_ask(control, rank);
    while (question && !question->answered && status == WEFT_OK)
        if (!plane_wait(control, deadline) && !question->answered)
            status =
                error_set(error, WEFT_ERROR_TIMEOUT, "rank %u on host %s did not report within %g s what it is doing",
                          rank, control->endpoints[rank].host, limit_seconds);
    if (question && status == WEFT_OK)
        memcpy(log, &question->log, sizeof *log);
    if (question)
        control_log_question_remove(control, question);
    pthread_mutex_unlock(&control->lock);
    if (!question)
        status = error_memory(error, sizeof *question, "a query to another rank");
    free(question);
    return status;
}

void control_ask_log(struct control *control, uint32_t rank,
                     void (*answer)(void *context, uint32_t rank, const struct operation_log *log), void *context)
{
    if (rank >= control->config.ranks)
        return;
    pthread_mutex_lock(&control->lock);
    struct question *question = control_log_ask(control, rank);
    if (question) {
        question->callback = answer;
        question->context = context;
    }
    pthread_mutex_unlock(&control->lock);
}

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Messages for the user: weft_message(), of contexts and of calls without one, and the report of a start
 * (WEFT_VERBOSE).
 */
#include "core/collective/communicator/context.h"

#include "base/clock.h"
#include "core/collective/internal/startup.h"
#include "core/control/rendezvous/bootstrap.h"

#include <stdio.h>
#include <string.h>

/* The one thread-local of the library: no other thread can change what a caller reads. */
static _Thread_local struct {
    char own[ERROR_TEXT_BYTES];  /* of the last call without a context */
    char copy[ERROR_TEXT_BYTES]; /* of a context's message */
    bool was_given_null;         /* the last call that failed had no context because it was given NULL */
} thread;

static void keep_message(weft_context *context, const char *text)
{
    pthread_mutex_lock(&context->message_lock);
    snprintf(context->message, sizeof context->message, "%s", text);
    pthread_mutex_unlock(&context->message_lock);
}

weft_status context_note(weft_context *context, const struct error *error)
{
    thread.was_given_null = false;
    if (context_status(context) == WEFT_OK)
        keep_message(context, error->text);
    return context_report(context, error->status);
}

weft_status context_note_thread(const struct error *error)
{
    thread.was_given_null = false;
    snprintf(thread.own, sizeof thread.own, "%s", error->text);
    return error->status;
}

weft_status context_missing(const char *function, const char *what)
{
    snprintf(thread.own, sizeof thread.own, "%s was given NULL as its %s", function, what);
    thread.was_given_null = true;
    return WEFT_ERROR_ARGUMENT;
}

void context_break(weft_context *context, const struct error *error)
{
    if (context_status(context) == WEFT_OK)
        context_break_replace(context, error);
}

void context_break_replace(weft_context *context, const struct error *error)
{
    keep_message(context, error->text);
    atomic_store_explicit(&context->broken, (int)error->status, memory_order_release);
}

void context_repair(weft_context *context)
{
    keep_message(context, "");
    atomic_store_explicit(&context->reported, false, memory_order_relaxed);
    atomic_store_explicit(&context->broken, WEFT_OK, memory_order_release);
}

weft_status weft_note_error(weft_context *context, weft_status status, const char *message)
{
    if (status == WEFT_OK)
        return WEFT_OK;
    thread.was_given_null = false;
    if (context_status(context) == WEFT_OK)
        keep_message(context, message);
    return status;
}

const char *weft_message(const weft_context *context)
{
    if (!context || (thread.was_given_null && context_status(context) == WEFT_OK))
        return thread.own;
    weft_context *locked = (weft_context *)(uintptr_t)context;
    pthread_mutex_lock(&locked->message_lock);
    memcpy(thread.copy, context->message, sizeof thread.copy);
    pthread_mutex_unlock(&locked->message_lock);
    return thread.copy;
}

void startup_begin(struct startup *startup)
{
    *startup = (struct startup){.last = clock_now()};
}

void startup_end(struct startup *startup, enum startup_phase phase)
{
    uint64_t now = clock_now();
    startup->took[phase] += now - startup->last;
    startup->last = now;
}

void startup_print(weft_context *context)
{
    static const char *const names[] = {"rendezvous", "control plane", "local ranks",
                                        "network",    "communicator",  "tuner"};
    const struct startup *startup = &context->startup;
    uint64_t all = 0;
    char text[512];
    size_t used = 0;
    for (int i = 0; i < STARTUP_PHASES; i++) {
        all += startup->took[i];
        used += (size_t)snprintf(text + used, sizeof text - used, "%s%s %.1f", i ? ", " : "", names[i],
                                 (double)startup->took[i] * 1e-6);
    }
    const struct bootstrap_cost bootstrap = bootstrap_cost(context->bootstrap);
    char met[128] = "";
    if (bootstrap.messages)
        snprintf(met, sizeof met, "; rendezvous: %u messages here, longest chain %u", bootstrap.messages,
                 bootstrap.chain);
    /* One write: lines of their own. */
    fprintf(stderr,
            "weft: rank %u of %u started in %.1f ms (%s)%s; %llu frames of set-up passed through it\n"
            "weft: network: %s\n",
            context->rank, context->ranks, (double)all * 1e-6, text, met,
            (unsigned long long)control_exchange_frames(context->control),
            context->fabric ? fabric_description(context->fabric) : "none, all ranks share memory");
}

/* SPDX-License-Identifier: Apache-2.0 */
/* What weft_message() returns: messages of contexts, and of calls that have none. */
#include "core/collective/communicator/context.h"

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
    return error->status;
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

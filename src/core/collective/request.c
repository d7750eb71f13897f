/* SPDX-License-Identifier: Apache-2.0 */
#include "core/collective/internal/request.h"

#include "core/collective/communicator/context.h"
#include "core/collective/internal/exchange.h"
#include "core/collective/internal/execution.h"

/* An error of one call. It fails the job if other ranks would otherwise wait for this one forever. */
static weft_status request_refuse(weft_context *context, const struct error *error)
{
    if (error->status != WEFT_ERROR_ARGUMENT && error->status != WEFT_ERROR_STATE) {
        progress_fail(context, error);
        progress_round(context);
    }
    return context_note(context, error);
}

/* With the progress lock: check, prepare, and queue unless a group is open. */
static weft_status request_begin(weft_comm *comm, const struct call *call, bool keep, struct weft_request **request)
{
    weft_context *context = comm->context;
    struct error error;
    error_clear(&error);
    weft_status status = context_status(context);
    if (status != WEFT_OK)
        return status;
    if (execution_prepare(comm, call, keep, request, &error) != WEFT_OK)
        return request_refuse(context, &error);
    if (!context->grouping) {
        execution_enqueue(*request);
        return WEFT_OK;
    }
    *context->group_end = *request;
    context->group_end = &(*request)->next;
    return WEFT_OK;
}

/* With the progress lock: drive everything until this is done; then release the request. */
static weft_status request_finish(struct weft_request *request)
{
    struct progress_idle idle = {0};
    request->in_wait = true;
    while (request->state != EXECUTION_DONE)
        progress_turn(request->comm->context, &idle, request);
    weft_status status = request->status;
    execution_release(request);
    return status;
}

/* With the progress lock: a blocking call. */
static weft_status collective_request_run(weft_comm *comm, const struct call *call)
{
    weft_context *context = comm->context;
    struct weft_request *request = NULL;
    struct error error;
    error_clear(&error);
    weft_status status = context_status(context);
    if (status != WEFT_OK)
        return status;
    switch (exchange_run(comm, call, &request, &error)) {
    case EXCHANGE_RAN:
        return WEFT_OK;
    case EXCHANGE_FAILED:
        return request_refuse(context, &error);
    case EXCHANGE_LATE:
        return request_finish(request);
    case EXCHANGE_NOT:
        break;
    }
    status = request_begin(comm, call, context->grouping, &request);
    if (status != WEFT_OK)
        return status;
    if (!context->grouping)
        return request_finish(request);
    request->is_blocking = true;
    return WEFT_OK;
}

static weft_status missing_communicator(const struct call *call)
{
    return context_missing(call->collective == COLLECTIVE_SENDRECEIVE ? "send or receive"
                                                                      : collective_name(call->collective),
                           "communicator");
}

weft_status request_run(weft_comm *comm, const struct call *call)
{
    if (!comm)
        return missing_communicator(call);
    execution_shm_prefetch(comm);
    progress_enter(comm->context);
    weft_status status = collective_request_run(comm, call);
    progress_leave(comm->context);
    return context_report(comm->context, status);
}

weft_status request_start(weft_comm *comm, const struct call *call, weft_request **result)
{
    struct weft_request *request = NULL;
    if (!comm)
        return missing_communicator(call);
    struct error error;
    error_clear(&error);
    if (!result) {
        error_set(&error, WEFT_ERROR_ARGUMENT, "%s was started without a pointer for its request",
                  collective_name(call->collective));
        return context_note(comm->context, &error);
    }
    progress_enter(comm->context);
    weft_status status = request_begin(comm, call, true, &request);
    progress_leave(comm->context);
    if (status == WEFT_OK)
        *result = request;
    return context_report(comm->context, status);
}

/* ---- waiting ---- */

/* A request of a group that is still open cannot end. */
static weft_status check_begun(const struct weft_request *request)
{
    weft_context *context = request->comm->context;
    struct error error;
    error_clear(&error);
    if (!context->grouping)
        return WEFT_OK;
    error_set(&error, WEFT_ERROR_STATE, "a request cannot be waited for or tested before weft_group_end()");
    return context_note(context, &error);
}

weft_status weft_wait(weft_request **request)
{
    if (!request || !*request)
        return WEFT_OK;
    weft_context *context = (*request)->comm->context;
    weft_status status = check_begun(*request);
    if (status != WEFT_OK)
        return status;
    progress_enter(context);
    status = request_finish(*request);
    progress_leave(context);
    *request = NULL;
    return context_report(context, status);
}

weft_status weft_request_done(weft_request *request, bool *done)
{
    if (!done)
        return context_missing("weft_request_done()", "place for the answer");
    *done = !request;
    if (!request)
        return WEFT_OK;
    weft_context *context = request->comm->context;
    weft_status status = check_begun(request);
    if (status != WEFT_OK)
        return status;
    progress_enter(context);
    if (request->state != EXECUTION_DONE)
        progress_round(context);
    *done = request->state == EXECUTION_DONE;
    if (*done)
        status = request->status;
    progress_leave(context);
    return context_report(context, status);
}

weft_status weft_test(weft_request **request, bool *done)
{
    if (!done)
        return context_missing("weft_test()", "place for the answer");
    weft_status status = weft_request_done(request ? *request : NULL, done);
    return *done ? weft_wait(request) : status;
}

/* The first of requests[first..count) that has ended, or `count`. With the progress lock. */
static int next_done(weft_request *const *requests, int first, int count)
{
    while (first < count && !(requests[first] && requests[first]->state == EXECUTION_DONE))
        first++;
    return first;
}

/* Free those that have ended, up to `most` of them; if `waits`, wait for one first. */
static weft_status take_done(weft_request **requests, int count, bool waits, int most, int *indices, int *ended)
{
    int first = 0;
    while (first < count && !requests[first])
        first++;
    *ended = 0;
    if (first >= count)
        return WEFT_OK;
    weft_context *context = requests[first]->comm->context;
    weft_status status = check_begun(requests[first]);
    if (status != WEFT_OK)
        return status;
    struct progress_idle idle = {0};
    progress_enter(context);
    int i = next_done(requests, first, count);
    if (!waits && i >= count) {
        progress_round(context);
        i = next_done(requests, first, count);
    }
    for (; waits && i >= count; i = next_done(requests, first, count))
        progress_turn(context, &idle, NULL);
    for (; i < count && *ended < most; i = next_done(requests, i + 1, count)) {
        weft_status own = request_finish(requests[i]);
        requests[i] = NULL;
        indices[(*ended)++] = i;
        if (status == WEFT_OK)
            status = own;
    }
    progress_leave(context);
    return context_report(context, status);
}

weft_status weft_wait_any(weft_request **requests, int count, int *index)
{
    int ended = 0;
    if (!index)
        return context_missing("weft_wait_any()", "place for the index");
    *index = -1;
    return take_done(requests, count, true, 1, index, &ended);
}

weft_status weft_wait_some(weft_request **requests, int count, int *indices, int *ended)
{
    if (!indices || !ended)
        return context_missing("weft_wait_some()", indices ? "place for their number" : "room for the indices");
    return take_done(requests, count, true, count, indices, ended);
}

weft_status weft_test_some(weft_request **requests, int count, int *indices, int *ended)
{
    if (!indices || !ended)
        return context_missing("weft_test_some()", indices ? "place for their number" : "room for the indices");
    return take_done(requests, count, false, count, indices, ended);
}

weft_status weft_wait_all(weft_request **requests, int count)
{
    weft_status first = WEFT_OK;
    for (int i = 0; i < count; i++) {
        weft_status status = weft_wait(&requests[i]);
        if (first == WEFT_OK)
            first = status;
    }
    return first;
}

/* ---- groups ---- */

weft_status weft_group_start(weft_context *context)
{
    struct error error;
    error_clear(&error);
    if (!context)
        return context_missing("weft_group_start()", "context");
    if (context->grouping) {
        error_set(&error, WEFT_ERROR_STATE, "weft_group_start() was called within a group; groups do not nest");
        return context_note(context, &error);
    }
    context->grouping = true;
    return context_report(context, context_status(context));
}

weft_status weft_group_end(weft_context *context)
{
    struct error error;
    error_clear(&error);
    if (!context)
        return context_missing("weft_group_end()", "context");
    if (!context->grouping) {
        error_set(&error, WEFT_ERROR_STATE, "weft_group_end() was called without weft_group_start()");
        return context_note(context, &error);
    }
    context->grouping = false;
    progress_enter(context);
    struct weft_request *blocking = NULL, **end = &blocking;
    for (struct weft_request *request = context->group, *next; request; request = next) {
        next = request->next;
        request->next = NULL;
        if (request->is_blocking) {
            *end = request;
            end = &request->next_of_group;
            request->next_of_group = NULL;
        }
        execution_enqueue(request);
    }
    context->group = NULL;
    context->group_end = &context->group;
    weft_status first = context_status(context);
    for (struct weft_request *next; blocking; blocking = next) {
        next = blocking->next_of_group;
        weft_status status = request_finish(blocking);
        if (first == WEFT_OK)
            first = status;
    }
    progress_leave(context);
    return context_report(context, first);
}

/* SPDX-License-Identifier: Apache-2.0 */
#include "base/error.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>

static const char *const status_names[] = {
    [WEFT_OK] = "ok",
    [WEFT_ERROR_ARGUMENT] = "argument",
    [WEFT_ERROR_MISMATCH] = "mismatch",
    [WEFT_ERROR_PEER] = "peer",
    [WEFT_ERROR_TIMEOUT] = "timeout",
    [WEFT_ERROR_ABORTED] = "aborted",
    [WEFT_ERROR_MEMORY] = "memory",
    [WEFT_ERROR_SYSTEM] = "system",
    [WEFT_ERROR_NETWORK] = "network",
    [WEFT_ERROR_RENDEZVOUS] = "rendezvous",
    [WEFT_ERROR_DATA] = "data",
    [WEFT_ERROR_SCHEDULE] = "schedule",
    [WEFT_ERROR_STATE] = "state",
};

const char *weft_status_name(weft_status status)
{
    if ((unsigned)status >= ARRAY_SIZE(status_names))
        return "unknown";
    return status_names[status];
}

void error_clear(struct error *error)
{
    if (!error)
        return;
    error->status = WEFT_OK;
    error->text[0] = '\0';
}

static weft_status error_set_list(struct error *error, weft_status status, const char *format, va_list arguments)
{
    if (!error || error->status != WEFT_OK)
        return status;
    error->status = status;
    vsnprintf(error->text, sizeof error->text, format, arguments);
    return status;
}

weft_status error_set(struct error *error, weft_status status, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    error_set_list(error, status, format, arguments);
    va_end(arguments);
    return status;
}

weft_status error_system(struct error *error, const char *format, ...)
{
    int number = errno;
    char text[ERROR_TEXT_BYTES / 2];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    return error_set(error, WEFT_ERROR_SYSTEM, "%s: %s", text, strerror(number));
}

weft_status error_memory(struct error *error, size_t bytes, const char *what)
{
    struct rlimit space;
    if (getrlimit(RLIMIT_AS, &space) == 0 && space.rlim_cur != RLIM_INFINITY)
        return error_set(error, WEFT_ERROR_MEMORY,
                         "no memory for %s: %zu bytes were refused, where the address space is limited to %llu MiB; "
                         "raise that (ulimit -v unlimited), free memory or use less",
                         what, bytes, (unsigned long long)(space.rlim_cur >> 20));
    return error_set(error, WEFT_ERROR_MEMORY, "no memory for %s: %zu bytes were refused; free memory or use less",
                     what, bytes);
}

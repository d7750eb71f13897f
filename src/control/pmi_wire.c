/* SPDX-License-Identifier: Apache-2.0 */
#include "control/pmi_wire.h"

#include "base/clock.h"
#include "base/text.h"

#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

static weft_status number_of(const char *name, int64_t least, int64_t *number, struct error *error)
{
    const char *text = getenv(name);
    struct error reason = {0};
    if (text && text_parse_integer(text, name, least, INT32_MAX, number, &reason) == WEFT_OK)
        return WEFT_OK;
    return error_set(error, WEFT_ERROR_RENDEZVOUS, "the launcher speaks PMI, but its variable is wrong: %s is %s", name,
                     text ? text : "not set");
}

weft_status pmi_environment(int *descriptor, uint32_t *rank, uint32_t *ranks, struct error *error)
{
    int64_t fd = 0, number = 0, count = 0;
    weft_status status = number_of("PMI_FD", 0, &fd, error);
    if (status == WEFT_OK)
        status = number_of("PMI_SIZE", 1, &count, error);
    if (status == WEFT_OK)
        status = number_of("PMI_RANK", 0, &number, error);
    if (status != WEFT_OK)
        return status;
    if (number >= count)
        return error_set(error, WEFT_ERROR_RENDEZVOUS, "PMI_RANK is %d, but PMI_SIZE is %d", (int)number, (int)count);
    *descriptor = (int)fd;
    *rank = (uint32_t)number;
    *ranks = (uint32_t)count;
    return WEFT_OK;
}

weft_status pmi_write(int descriptor, const char *bytes, size_t size, struct error *error)
{
    while (size > 0) {
        ssize_t n = send(descriptor, bytes, size, MSG_NOSIGNAL);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0 && errno == EAGAIN) {
            struct pollfd wait = {descriptor, POLLOUT, 0};
            poll(&wait, 1, 1000);
            continue;
        }
        if (n < 0)
            return error_set(
                error, WEFT_ERROR_RENDEZVOUS,
                "the launcher does not take what is written to PMI_FD: %s (PMI can be used once in a process)",
                strerror(errno));
        bytes += n;
        size -= (size_t)n;
    }
    return WEFT_OK;
}

weft_status pmi_read(int descriptor, char *bytes, size_t size, double limit_seconds, struct error *error)
{
    uint64_t end = clock_after(limit_seconds);
    while (size > 0) {
        uint64_t now = clock_now();
        struct pollfd wait = {descriptor, POLLIN, 0};
        int ready = now < end ? poll(&wait, 1, (int)((end - now) / 1000000) + 1) : 0;
        if (ready < 0 && errno == EINTR)
            continue;
        if (ready == 0)
            return error_set(
                error, WEFT_ERROR_TIMEOUT,
                "not all ranks have come to the meeting within %g s (the launcher's PMI does not tell which)",
                limit_seconds);
        ssize_t n = read(descriptor, bytes, size);
        if (n < 0 && (errno == EINTR || errno == EAGAIN))
            continue;
        if (n <= 0)
            return error_set(error, WEFT_ERROR_RENDEZVOUS, "the launcher closed its PMI connection: %s",
                             n == 0 ? "another rank has failed, or the launcher ended" : strerror(errno));
        bytes += n;
        size -= (size_t)n;
    }
    return WEFT_OK;
}

bool pmi_field(const char *message, const char *name, char separator, char *value, size_t room)
{
    size_t length = strlen(name);
    for (const char *at = message; at; at = strchr(at, separator), at = at ? at + 1 : NULL) {
        if (strncmp(at, name, length) != 0 || at[length] != '=')
            continue;
        const char *begin = at + length + 1, *end = strchr(begin, separator);
        size_t size = end ? (size_t)(end - begin) : strlen(begin);
        if (size >= room)
            return false;
        memcpy(value, begin, size);
        value[size] = '\0';
        return true;
    }
    return false;
}

/* SPDX-License-Identifier: Apache-2.0 */
/* Whatever a launcher answers through PMI-1 and PMI-2: where the rank above is and a secret, or a message. */
#include "core/control/rendezvous/internal/kvs.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define RANKS 2

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void speak(weft_status (*open_store)(struct kvs **kvs, struct error *error), const char *rank,
                  const uint8_t *data, size_t size)
{
    char number[16], secret[2 * SECRET_TEXT_BYTES] = "drawn";
    char place[KVS_PLACE_BYTES];
    struct kvs *kvs = NULL;
    struct error error = {0};
    int pair[2];
    if (socketpair(AF_UNIX, SOCK_STREAM, 0, pair) != 0 ||
        (size && send(pair[1], data, size, MSG_NOSIGNAL) != (ssize_t)size) || shutdown(pair[1], SHUT_WR) != 0)
        abort();
    snprintf(number, sizeof number, "%d", pair[0]);
    setenv("PMI_FD", number, 1);
    setenv("PMI_RANK", rank, 1);
    setenv("PMI_SIZE", "2", 1);
    setenv("PMI_JOBID", "17", 1);
    weft_status status = open_store(&kvs, &error);
    if (status == WEFT_OK && (kvs->ranks != RANKS || kvs->rank != (uint32_t)atoi(rank)))
        abort();
    bool open = status == WEFT_OK;
    if (open)
        status = kvs_exchange(kvs, "127.0.0.1:4711", 0, place, secret, 1, &error);
    if (status != WEFT_OK ? !*error.text : !*secret || !memchr(secret, 0, sizeof secret))
        abort();
    if (open)
        kvs->close(kvs, true);
    close(pair[0]);
    close(pair[1]);
}

/* The first byte: which protocol, and which rank this is. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size < 1)
        return 0;
    speak(data[0] & 1 ? kvs_open_pmi2 : kvs_open_pmi1, data[0] & 2 ? "1" : "0", data + 1, size - 1);
    return 0;
}

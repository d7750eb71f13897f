/* SPDX-License-Identifier: Apache-2.0 */
#include "platform/agent/journal/attempt.h"

#include "base/text.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#define PREFIX "weft:"

bool attempt_is_valid(const struct attempt *attempt)
{
    const char *run = attempt->run, *end = memchr(run, 0, sizeof attempt->run);
    static const char letters[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_.";
    return end && end > run && strspn(run, letters) == (size_t)(end - run) && run[0] != '.' && run[0] != '-' &&
           attempt->epoch > 0 && attempt->epoch <= INT64_MAX;
}

bool attempt_same(const struct attempt *left, const struct attempt *right)
{
    return left->epoch == right->epoch && strcmp(left->run, right->run) == 0;
}

char *attempt_token(const struct attempt *attempt, char token[ATTEMPT_TOKEN_BYTES])
{
    snprintf(token, ATTEMPT_TOKEN_BYTES, PREFIX "%s:%" PRIu64, attempt->run, attempt->epoch);
    return token;
}

bool attempt_read_token(const char *token, struct attempt *attempt)
{
    struct attempt read = {0};
    const char *colon = strrchr(token, ':'), *run = token + sizeof PREFIX - 1;
    int64_t epoch;
    if (strncmp(token, PREFIX, sizeof PREFIX - 1) != 0 || colon < run || colon - run >= ATTEMPT_RUN_BYTES ||
        text_parse_integer(colon + 1, "epoch", 1, INT64_MAX, &epoch, NULL) != WEFT_OK)
        return false;
    memcpy(read.run, run, (size_t)(colon - run));
    read.epoch = (uint64_t)epoch;
    if (!attempt_is_valid(&read))
        return false;
    *attempt = read;
    return true;
}

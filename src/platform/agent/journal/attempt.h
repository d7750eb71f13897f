/* SPDX-License-Identifier: Apache-2.0 */
/**
 * Which attempt of which run. The epoch grows with every attempt of a run; only the newest may do anything, and what is
 * left of older ones is ended wherever it is met (it is fenced). Thread-safe.
 */
#ifndef WEFT_PLATFORM_AGENT_JOURNAL_ATTEMPT_H
#define WEFT_PLATFORM_AGENT_JOURNAL_ATTEMPT_H

#include "base/error.h"

#include <stdbool.h>
#include <stdint.h>

#define ATTEMPT_RUN_BYTES   64
#define ATTEMPT_TOKEN_BYTES (ATTEMPT_RUN_BYTES + 32)
#define ATTEMPT_NODES_MOST  4096

struct attempt {
    char run[ATTEMPT_RUN_BYTES]; /**< letters, digits, - and _, and within it dots; no two runs ever share one */
    uint64_t epoch;              /**< from 1 on */
};

bool attempt_is_valid(const struct attempt *attempt);
bool attempt_same(const struct attempt *left, const struct attempt *right);

/**
 * Write "weft:RUN:EPOCH" and read it again: what an attempt is known by where numbers are given out twice, as a batch
 * system's are (its job's name or comment). The reader says false for anything else.
 */
char *attempt_token(const struct attempt *attempt, char token[ATTEMPT_TOKEN_BYTES]);
bool attempt_read_token(const char *token, struct attempt *attempt);

#endif

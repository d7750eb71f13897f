/* SPDX-License-Identifier: Apache-2.0 */
/** Runs as the interface shows them. Thread-safe. */
#ifndef WEFT_PLATFORM_SERVICE_RUNS_RUN_JSON_H
#define WEFT_PLATFORM_SERVICE_RUNS_RUN_JSON_H

#include "base/format/json.h"
#include "platform/registry/run/runs.h"
#include "platform/service/internal/answer.h"

/** Why a run is in its state, for people. */
const char *run_json_reason(const struct registry_run *run);

/** What a run has reported of its progress; null: nothing. */
void run_json_put_progress(struct json_writer *writer, const char *key, const struct run_progress *progress);

/** The members of a Run: an object is open. */
void run_json_put(struct json_writer *writer, const struct registry_run *run);

/** Its keys, for tables; NULL ends them. */
extern const char *const run_json_columns[];

/** All attempts of a run with their nodes, as the array `key`. */
weft_status run_json_put_attempts(struct json_writer *writer, const char *key, struct database *registry, int64_t run,
                                  struct error *error);

/** The members of an event: an object is open. */
void run_json_put_event(struct json_writer *writer, const struct registry_event *event);

/** The schemas of these, for the table that serves them. */
/* clang-format off */
#define RUN_JSON_RUN SCHEMA({"type": "object", "required": ["run", "project", "owner", "state", "reason"], "properties": { \
    "run": {"type": "integer", "description": "Its number, never used again."},                                       \
    "project": {"type": "string"}, "owner": {"type": "string"},                                                       \
    "name": {"type": "string"}, "class": {"type": "string"},                                                          \
    "state": {"type": "string", "enum": [) RUN_STATE_NAMES_JSON SCHEMA(]},                                            \
    "cause": {"type": "string", "description": "Of the last change, for programs."},                                  \
    "reason": {"type": "string", "description": "The same for people."},                                              \
    "nodes": {"type": "integer"}, "slots": {"type": "integer", "description": "On each node."},                       \
    "slot_kind": {"type": "string", "enum": ["gpu", "cpu"]},                                                          \
    "size": {"type": "integer", "description": "Slots on all nodes."},                                                \
    "priority": {"type": "integer"}, "preemptible": {"type": "boolean"}, "interactive": {"type": "boolean"},          \
    "may_span_pods": {"type": "boolean"},                                                                             \
    "time_limit": {"type": "integer", "description": "Seconds."},                                                     \
    "time_slice": {"type": "integer", "description": "Seconds; 0: none."}, "retries": {"type": "integer"},            \
    "epoch": {"type": "integer", "description": "The number of its last attempt; 0: none yet."},                      \
    "submitted": {"type": "integer", "description": "Milliseconds since 1970, as all times."},                        \
    "waiting_since": {"type": "integer", "nullable": true},                                                           \
    "first_started": {"type": "integer", "nullable": true}, "started": {"type": "integer", "nullable": true},         \
    "ended": {"type": "integer", "nullable": true}, "changed": {"type": "integer", "nullable": true},                 \
    "served_ms": {"type": "integer", "description": "Milliseconds that its ended attempts have run."},                \
    "idle_since": {"type": "integer", "nullable": true,                                                               \
                   "description": "When it was seen to use next to nothing of what it holds; null: it uses it."},     \
    "progress": {"type": "object", "nullable": true,                                                                  \
                 "description": "What its last attempt has reported last of its progress; null: nothing.",            \
                 "properties": {                                                                                      \
        "done": {"type": "number", "description": "In units of the program: steps, bytes, epochs."},                  \
        "total": {"type": "number"},                                                                                  \
        "seconds_left": {"type": "number", "nullable": true,                                                          \
                         "description": "At reported_at, as reported or by the rate of reports; null: not known."},   \
        "reported_at": {"type": "integer"}}},                                                                         \
    "discarded": {"type": "integer", "nullable": true,                                                                \
                  "description": "When its directory, checkpoints and output were thrown away."},                        \
    "disk_bytes": {"type": "integer", "nullable": true,                                                               \
                   "description": "What its directories and journals take on disk; null: not measured yet."},         \
    "disk_quota": {"type": "integer", "nullable": true, "description": "What they may take."},                        \
    "program_failures": {"type": "integer"}, "platform_failures": {"type": "integer"},                                \
    "specification": {"type": "object", "description": "All that was asked for; of a single run."},                   \
    "attempts": {"type": "array", "items": {"$ref": "#/components/schemas/Attempt"}}}})
#define RUN_JSON_ATTEMPT SCHEMA({"type": "object", "properties": {                                                    \
    "epoch": {"type": "integer"}, "pod": {"type": "string"},                                                          \
    "placed": {"type": "integer", "nullable": true}, "started": {"type": "integer", "nullable": true},                \
    "ended": {"type": "integer", "nullable": true},                                                                   \
    "cause": {"type": "string", "nullable": true, "description": "Of its end."}, "detail": {"type": "string"},        \
    "nodes": {"type": "array", "items": {"$ref": "#/components/schemas/Node"}}}})
#define RUN_JSON_NODE SCHEMA({"type": "object", "properties": {                                                       \
    "node": {"type": "integer"}, "host": {"type": "string"},                                                          \
    "slots": {"type": "string", "description": "Their numbers on the host: 0-3,6"},                                   \
    "started": {"type": "integer", "nullable": true}, "ended": {"type": "integer", "nullable": true},                 \
    "exit": {"type": "string", "nullable": true,                                                                      \
             "enum": ["completed", "again", "failed", "lost", "not started"]},                                        \
    "code": {"type": "integer"}, "signal": {"type": "integer"}, "detail": {"type": "string"},                         \
    "dropped": {"type": "boolean", "description": "It ended before its attempt, which went on without it."}}})
#define RUN_JSON_EVENT SCHEMA({"type": "object", "properties": {                                                      \
    "event": {"type": "integer"}, "epoch": {"type": "integer"}, "time": {"type": "integer"},                          \
    "cause": {"type": "string"}, "from": {"type": "string", "nullable": true}, "to": {"type": "string"},              \
    "actor": {"type": "string", "description": "A user; empty: the platform."}, "detail": {"type": "string"},         \
    "verdict": {"type": "string", "enum": ["done", "stale", "refused"]}}})
/* clang-format on */

#endif

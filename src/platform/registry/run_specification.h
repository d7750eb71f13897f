/* SPDX-License-Identifier: Apache-2.0 */
/**
 * What a run is: all that was asked for when it was submitted. It never changes afterwards.
 *
 * As JSON, an object; what is left out has the value after the bar:
 *
 *     project       text   | required: a name
 *     command       texts  | required: the program and its arguments
 *     owner         text   | "": a name; the server puts in who is asking
 *     name          text   | "": for people; one line
 *     environment   object | {}: names and texts, added to what the engine sets
 *     secrets       texts  | []: names of secrets of the owner or the project, each the name of the variable that its
 *                            value becomes, or "NAME=VARIABLE"; values are nowhere in here
 *     nodes         number | 1: hosts that it runs on at once
 *     min_nodes     number | 0: so many of them suffice: the attempt goes on when others are lost, as long as the first
 *                            one is left (with launch "nodes": any); 0: all are needed
 *     slots         number | 1: GPUs (or CPU slots) on each of them
 *     slot_kind     text   | "gpu": or "cpu"
 *     launch        text   | "ranks": the command is started as a rank on every slot of all nodes (by weft run, where
 *                            that is more than one); "nodes": once on each node; "first": once on the first, which
 *                            starts what it likes on the others, by `weft run --hosts "$WEFT_NODE_HOSTS"` say
 *     processors    number | 0: needed on each node; 0 is as many as come with its slots, in proportion
 *     memory        number | 0: bytes needed on each node; 0 likewise. No node uses more
 *     processes     number | 0: that each node may have, threads included; 0 is 1,024 for each slot
 *     disk          number | 0: bytes that its directories may take on disk; 0 is the default of the server
 *     time_limit    text   | "1d": a duration such as "6h", or a number of seconds; each attempt is ended after it
 *     time_slice    text   | 0: so long it may run at a time before others have their turn; 0: no such limit
 *     preemptible   bool   | false: may be stopped at a checkpoint and run again later
 *     may_span_pods bool   | false
 *     interactive   bool   | false: somebody waits for it
 *     priority      number | 0: from -100 to 100, larger goes first, within its project
 *     retries       number | 0: so often it is run again when its own program fails
 *     class         text   | "batch": a name; limits are set by class of run
 *     snapshot      text   | "": the code, 64 hexadecimal digits
 *     parent        number | 0: the run that this one was forked from
 *     checkpoint    text   | "": what it begins from; one line
 *     commit        text   | "": the git commit of it, 40 or 64 hexadecimal digits
 *     commit_changed bool  | false: the code differs from that commit
 *
 * It is untrusted input: unknown or duplicate keys, values of another type or out of bounds, and strings that are not
 * printable UTF-8 (lines and tabs are allowed in arguments and values of environment variables) are refused with a
 * message.
 *
 * Thread-safe; a struct belongs to one thread at a time.
 */
#ifndef WEFT_PLATFORM_REGISTRY_RUN_SPECIFICATION_H
#define WEFT_PLATFORM_REGISTRY_RUN_SPECIFICATION_H

#include "base/format/json.h"
#include "platform/registry/name.h"

#include <stdbool.h>
#include <stdint.h>

#define RUN_NAME_BYTES         128 /**< what people call a run */
#define RUN_CHECKPOINT_BYTES   1024
#define RUN_SNAPSHOT_BYTES     65
#define RUN_NODES_MOST         65536
#define RUN_SLOTS_MOST         1024    /**< of a node */
#define RUN_PROCESSES_MOST     4194304 /**< of a node: what Linux can number */
#define RUN_WORDS_MOST         4096    /**< arguments; environment variables */
#define RUN_SECRETS_MOST       32
#define RUN_SPECIFICATION_MOST ((size_t)1 << 20) /**< bytes of arguments and environment together */
#define RUN_TIME_LIMIT_DEFAULT 86400
#define RUN_TIME_MOST          ((int64_t)366 * 86400)

enum slot_kind {
    SLOT_GPU,
    SLOT_CPU,
};

/** What the command is started as. */
enum run_launch {
    RUN_LAUNCH_RANKS,
    RUN_LAUNCH_NODES,
    RUN_LAUNCH_FIRST,
};

struct run_specification {
    char project[PLATFORM_NAME_BYTES], owner[PLATFORM_NAME_BYTES], class_name[PLATFORM_NAME_BYTES];
    char name[RUN_NAME_BYTES];
    char snapshot[RUN_SNAPSHOT_BYTES], commit[RUN_SNAPSHOT_BYTES];
    char checkpoint[RUN_CHECKPOINT_BYTES];
    char **arguments;                /**< the program first; ends with NULL. Owned, as is the next */
    char **environment;              /**< "NAME=VALUE"; ends with NULL */
    char **secrets;                  /**< "NAME" or "NAME=VARIABLE"; ends with NULL */
    int64_t nodes, min_nodes, slots; /**< min_nodes 0: all */
    int64_t processors, memory;      /**< of each node; 0: in proportion */
    int64_t processes;               /**< of each node, threads included; 0: by its slots */
    int64_t disk;                    /**< bytes that its directories may take, of all nodes; 0: the default */
    int64_t time_limit, time_slice;  /**< seconds; slice 0: no slices */
    int64_t priority, retries, parent;
    enum slot_kind slot_kind;
    enum run_launch launch;
    bool preemptible, may_span_pods, interactive, commit_changed;
};

/** The name of a secret of a specification, into `name` (SECRET_NAME_BYTES); returns its variable. */
const char *run_secret_variable(const char *entry, char *name);

/** Slots on all nodes together. */
static inline int64_t run_specification_size(const struct run_specification *specification)
{
    return specification->nodes * specification->slots;
}

/** Read `object`, called `where` in messages, into `*specification`, to be freed. Errors: DATA, MEMORY. */
weft_status run_specification_read(const cJSON *object, const char *where, struct run_specification *specification,
                                   struct error *error);

/** The same of `size` bytes of text. */
weft_status run_specification_parse(const char *text, size_t size, const char *where,
                                    struct run_specification *specification, struct error *error);

/** Write it as one value under `key` (NULL: none), complete, so that reading it gives the same again. */
void run_specification_write(struct json_writer *writer, const char *key,
                             const struct run_specification *specification);

/** Free what it owns; harmless on a zeroed struct. */
void run_specification_free(struct run_specification *specification);

/** "gpu" or "cpu": a static string. */
const char *slot_kind_name(enum slot_kind kind);

#endif

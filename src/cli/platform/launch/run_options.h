/* SPDX-License-Identifier: Apache-2.0 */
/**
 * The options that describe a run, for the commands that make one: submit, fork, resume, promote. Options that are not
 * given are left to the server: its defaults for a new run, the parent's values for a fork.
 *
 *     static struct run_options chosen;
 *     static const struct cli_option options[] = {CLI_GROUP("Run"), CLI_FLAG(...),
 *                                                RUN_OPTIONS(chosen, RUN_DEFAULT_NEW)};
 *     ...
 *     status = run_options_check(call->name, &chosen, error); // exit code 2 if it fails
 *     json_open_object(&body, NULL);
 *     run_options_write(&chosen, &body);
 */
#ifndef WEFT_CLI_PLATFORM_LAUNCH_RUN_OPTIONS_H
#define WEFT_CLI_PLATFORM_LAUNCH_RUN_OPTIONS_H

#include "base/format/json.h"
#include "cli/frame/command.h"
#include "platform/registry/run_specification.h"

struct run_options {
    const char *name, *class_name, *launch, *time, *slice, *priority, *retries;
    int64_t nodes, min_nodes, gpus, slots, processors;
    uint64_t memory, disk;
    int64_t processes;
    bool preemptible, span_pods, interactive;
    bool no_preemptible, no_span_pods; /**< RUN_CHILD_OPTIONS: take back what the parent has */
    struct cli_list environment, secrets;
};

/** The choices of --launch (run_specification.h). */
extern const char *const run_option_launches[];

#define RUN_PREEMPTIBLE_OPTION(chosen)                                                                                 \
    CLI_FLAG("preemptible", 0, &(chosen).preemptible, "may be stopped at a checkpoint and run again later")
#define RUN_SPAN_PODS_OPTION(chosen)                                                                                   \
    CLI_FLAG("span-pods", 0, &(chosen).span_pods, "may run on hosts of several Pods at once", .advanced = true)

/** Options that take back settings of the run that the new one is made from. */
#define RUN_CHILD_OPTIONS(chosen)                                                                                      \
    CLI_FLAG("no-preemptible", 0, &(chosen).no_preemptible, "not preemptible, even if RUN is", .advanced = true),      \
        CLI_FLAG("no-span-pods", 0, &(chosen).no_span_pods, "on hosts of one Pod, even if RUN may be on several",      \
                 .advanced = true)

/** A default in the help: its value for a new run; "as RUN" for a run that is made from RUN. */
#define RUN_DEFAULT_NEW(text)    text
#define RUN_DEFAULT_PARENT(text) "as RUN"

/** `of` is one of the two macros above. The first options belong to a group that the command has begun. */
#define RUN_OPTIONS(chosen, of)                                                                                        \
    CLI_TEXT("name", 0, "TEXT", &(chosen).name, NULL,                                                                  \
             "name of the run, for use as RUN in other commands; not a number"),                                       \
        CLI_LIST("env", 'e', "NAME=VALUE", &(chosen).environment,                                                      \
                 "set an environment variable; NAME alone copies its value from here; may be repeated"),               \
        CLI_LIST("secret", 0, "NAME[=VAR]", &(chosen).secrets,                                                         \
                 "set the variable NAME, or VAR, to a secret of yours or of the project ('weft secret'); may be "      \
                 "repeated"),                                                                                          \
        CLI_CHOICE("launch", 0, "HOW", &(chosen).launch, NULL, run_option_launches,                                    \
                   "ranks: start the program on every slot of all nodes, as ranks of one job; nodes: once per node; "  \
                   "first: only on the first node",                                                                    \
                   .default_text = of("ranks"), .advanced = true),                                                     \
        CLI_GROUP("Resources"),                                                                                        \
        CLI_INTEGER("nodes", 'N', "N", &(chosen).nodes, NULL, 1, 65536, "number of hosts", .default_text = of("1")),   \
        CLI_INTEGER("min-nodes", 0, "N", &(chosen).min_nodes, "-1", -1, 65536,                                          \
                    "nodes that suffice: the run goes on when others are lost; 0: all are needed",                     \
                    .default_text = of("all")),                                                                        \
        CLI_INTEGER("gpus", 'g', "N", &(chosen).gpus, NULL, 1, 1024, "GPUs on each node", .default_text = of("none")), \
        CLI_INTEGER("slots", 's', "N", &(chosen).slots, NULL, 1, 1024,                                                 \
                    "slots on each node, of the machines' kind: GPUs or CPU slots", .default_text = of("1")),          \
        CLI_BYTES("memory", 0, "SIZE", &(chosen).memory, NULL, "memory that each node may use",                        \
                  .default_text = of("the slots' share")),                                                             \
        CLI_INTEGER("processors", 0, "N", &(chosen).processors, NULL, 1, 65536, "processors that each node may use",   \
                    .default_text = of("the slots' share"), .advanced = true),                                         \
        CLI_BYTES("disk", 0, "SIZE", &(chosen).disk, NULL, "disk space that the run's directories may take",           \
                  .default_text = of("half of what is free")),                                                         \
        CLI_INTEGER("processes", 0, "N", &(chosen).processes, NULL, 1, RUN_PROCESSES_MOST,                             \
                    "processes and threads that each node may have", .default_text = of("1024 for each slot"),         \
                    .advanced = true),                                                                                 \
        RUN_SPAN_PODS_OPTION(chosen), CLI_GROUP("Scheduling"),                                                         \
        CLI_TEXT("time", 't', "TIME", &(chosen).time, NULL, "time limit of each attempt: 90s, 30m, 6h, 2d",            \
                 .default_text = of("1d")),                                                                            \
        RUN_PREEMPTIBLE_OPTION(chosen),                                                                                \
        CLI_TEXT("retries", 0, "N", &(chosen).retries, NULL,                                                           \
                 "run again up to N times if the program fails, each time after a longer pause",                       \
                 .default_text = of("none")),                                                                          \
        CLI_TEXT("slice", 0, "TIME", &(chosen).slice, NULL,                                                            \
                 "run this long at a time, stop at a checkpoint, and continue after others had their turn",            \
                 .advanced = true),                                                                                    \
        CLI_TEXT("class", 0, "NAME", &(chosen).class_name, NULL, "class of the run, which sets its limits",            \
                 .default_text = of("batch"), .advanced = true),                                                       \
        CLI_TEXT("priority", 0, "N", &(chosen).priority, NULL, "-100 to 100; within a project, larger goes first",     \
                 .default_text = of("0"), .advanced = true)

/** Check what the options parser cannot: durations, whole numbers, names of variables. Messages begin with `command`.
 * Errors: ARGUMENT. */
weft_status run_options_check(const char *command, const struct run_options *chosen, struct error *error);

/** Write the given options as keys of the specification (run_specification.h) into the open object. The "environment" of
 * `parent` (may be NULL) is kept; given variables replace its own. */
void run_options_write(const struct run_options *chosen, const cJSON *parent, struct json_writer *body);

#endif

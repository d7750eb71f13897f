/* SPDX-License-Identifier: Apache-2.0 */
/**
 * The options that say what a run is, for the commands that make one: submit, fork, resume, promote. What was not given
 * is left to the server: its defaults for a new run, the parent's values for a fork.
 *
 *     static struct run_options chosen;
 *     static const struct cli_option options[] = {RUN_OPTIONS(chosen), CLI_FLAG(...)};
 *     ...
 *     status = run_options_check(call->name, &chosen, error); // sets exit code 2 where it fails
 *     json_open_object(&body, NULL);
 *     run_options_write(&chosen, &body);
 */
#ifndef WEFT_CLI_RUN_OPTIONS_H
#define WEFT_CLI_RUN_OPTIONS_H

#include "base/json.h"
#include "cli/command.h"

struct run_options {
    const char *name, *class_name, *launch, *time, *slice, *priority, *retries;
    int64_t nodes, gpus, slots, processors;
    uint64_t memory;
    bool preemptible, span_pods, interactive;
    bool no_preemptible, no_span_pods; /**< of those made from another run, which has it: RUN_CHILD_OPTIONS */
    struct cli_list environment;
};

/** How the command is started, as --launch names it (run_specification.h). */
extern const char *const run_option_launches[];

#define RUN_PREEMPTIBLE_OPTION(chosen)                                                                                 \
    CLI_FLAG("preemptible", 0, &(chosen).preemptible, "may be stopped at a checkpoint and run again later")
#define RUN_SPAN_PODS_OPTION(chosen)                                                                                   \
    CLI_FLAG("span-pods", 0, &(chosen).span_pods, "it may run on hosts of several Pods at once")

/** What takes back what the run has that the new one is made from. */
#define RUN_CHILD_OPTIONS(chosen)                                                                                      \
    CLI_FLAG("no-preemptible", 0, &(chosen).no_preemptible, "not to be stopped for others, even if RUN may be"),       \
        CLI_FLAG("no-span-pods", 0, &(chosen).no_span_pods, "on hosts of one Pod, even if RUN may be on several")

#define RUN_OPTIONS(chosen)                                                                                            \
    CLI_TEXT("name", 0, "TEXT", &(chosen).name, NULL,                                                                  \
             "what people call the run; RUN in other commands may be it, so it is no number"),                         \
        CLI_INTEGER("nodes", 'N', "N", &(chosen).nodes, NULL, 1, 65536, "hosts that it runs on at once; usually 1"),   \
        CLI_INTEGER("gpus", 'g', "N", &(chosen).gpus, NULL, 1, 1024, "GPUs on each node"),                             \
        CLI_INTEGER("slots", 's', "N", &(chosen).slots, NULL, 1, 1024,                                                 \
                    "slots on each node, of the kind that the machines have (GPUs, or CPU slots); usually 1"),         \
        CLI_CHOICE("launch", 0, "HOW", &(chosen).launch, NULL, run_option_launches,                                    \
                   "ranks: the program is started once on every slot of all nodes, as ranks of one job, usually; "     \
                   "nodes: once on each node; first: once on the first node, which starts what it likes"),             \
        CLI_INTEGER("processors", 0, "N", &(chosen).processors, NULL, 1, 65536,                                        \
                    "processors that each node needs; they go with the slots"),                                        \
        CLI_BYTES("memory", 0, "SIZE", &(chosen).memory, NULL, "memory that each node needs; it goes with the slots"), \
        CLI_TEXT("time", 't', "TIME", &(chosen).time, NULL,                                                            \
                 "each attempt is ended after so long: 90s, 30m, 6h, 2d ...; usually 1d"),                             \
        CLI_TEXT("slice", 0, "TIME", &(chosen).slice, NULL,                                                            \
                 "run so long at a time, stop at a checkpoint, and go on when others have had their turn"),            \
        CLI_TEXT("class", 0, "NAME", &(chosen).class_name, NULL,                                                       \
                 "the class of run, by which limits are set; usually batch"),                                          \
        RUN_PREEMPTIBLE_OPTION(chosen),                                                                                \
        CLI_TEXT("retries", 0, "N", &(chosen).retries, NULL,                                                           \
                 "run it again so often when its own program fails, each time after a longer pause; usually 0"),       \
        CLI_TEXT("priority", 0, "N", &(chosen).priority, NULL,                                                         \
                 "from -100 to 100; larger goes first within its project; usually 0"),                                 \
        RUN_SPAN_PODS_OPTION(chosen),                                                                                  \
        CLI_LIST("env", 'e', "NAME=VALUE", &(chosen).environment,                                                      \
                 "an environment variable for it; NAME alone: with the value that it has here")

/** Look at what the parser of options cannot: durations, whole numbers, names of variables. `command` is named in
 * sentences. Errors: ARGUMENT. */
weft_status run_options_check(const char *command, const struct run_options *chosen, struct error *error);

/** Write what was given as keys of the specification (run_specification.h) into the open object; an "environment" of
 * `parent` (NULL: none) is kept, with what was given on top. */
void run_options_write(const struct run_options *chosen, const cJSON *parent, struct json_writer *body);

#endif

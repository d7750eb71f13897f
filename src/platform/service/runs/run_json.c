/* SPDX-License-Identifier: Apache-2.0 */
#include "platform/service/runs/run_json.h"

#include <stdlib.h>

const char *run_json_reason(const struct registry_run *run)
{
    if (run->state == RUN_RUNNING && run->idle_since)
        return "runs idle: it uses next to nothing of what it holds";
    return *run->detail ? run->detail : run_cause_text(run->cause);
}

void run_json_put_progress(struct json_writer *writer, const char *key, const struct run_progress *progress)
{
    if (!progress->reported) {
        json_put_tree(writer, key, NULL);
        return;
    }
    json_open_object(writer, key);
    json_put_number(writer, "done", progress->done);
    json_put_number(writer, "total", progress->total);
    if (progress->left >= 0)
        json_put_number(writer, "seconds_left", progress->left);
    else
        json_put_tree(writer, "seconds_left", NULL);
    json_put_time(writer, "reported_at", progress->reported);
    json_close(writer);
}

void run_json_put(struct json_writer *writer, const struct registry_run *run)
{
    json_put_integer(writer, "run", run->run);
    json_put_text(writer, "project", run->project);
    json_put_text(writer, "owner", run->owner);
    json_put_text(writer, "name", run->name);
    json_put_text(writer, "class", run->class_name);
    json_put_text(writer, "state", run_state_name(run->state));
    json_put_text(writer, "cause", run_cause_name(run->cause));
    json_put_text(writer, "reason", run_json_reason(run));
    json_put_integer(writer, "nodes", run->nodes);
    json_put_integer(writer, "slots", run->slots);
    json_put_text(writer, "slot_kind", slot_kind_name(run->slot_kind));
    json_put_integer(writer, "size", run->nodes * run->slots);
    json_put_integer(writer, "priority", run->priority);
    json_put_bool(writer, "preemptible", run->preemptible);
    json_put_bool(writer, "interactive", run->interactive);
    json_put_bool(writer, "may_span_pods", run->may_span_pods);
    json_put_integer(writer, "time_limit", run->time_limit);
    json_put_integer(writer, "time_slice", run->time_slice);
    json_put_integer(writer, "retries", run->retries);
    json_put_integer(writer, "epoch", run->epoch);
    json_put_time(writer, "submitted", run->submitted);
    json_put_time(writer, "waiting_since", run->waiting_since);
    json_put_time(writer, "first_started", run->first_started);
    json_put_time(writer, "started", run->started);
    json_put_time(writer, "ended", run->ended);
    json_put_time(writer, "changed", run->changed);
    json_put_integer(writer, "served_ms", run->served);
    json_put_time(writer, "idle_since", run->idle_since);
    run_json_put_progress(writer, "progress", &run->progress);
    json_put_time(writer, "discarded", run->discarded);
    json_put_integer(writer, "program_failures", run->program_failures);
    json_put_integer(writer, "platform_failures", run->platform_failures);
}

const char *const run_json_columns[] = {"run",
                                        "project",
                                        "owner",
                                        "name",
                                        "class",
                                        "state",
                                        "cause",
                                        "reason",
                                        "nodes",
                                        "slots",
                                        "slot_kind",
                                        "size",
                                        "priority",
                                        "preemptible",
                                        "interactive",
                                        "may_span_pods",
                                        "time_limit",
                                        "time_slice",
                                        "retries",
                                        "epoch",
                                        "submitted",
                                        "waiting_since",
                                        "first_started",
                                        "started",
                                        "ended",
                                        "changed",
                                        "served_ms",
                                        "idle_since",
                                        "progress/done",
                                        "progress/total",
                                        "progress/seconds_left",
                                        "progress/reported_at",
                                        "discarded",
                                        "program_failures",
                                        "platform_failures",
                                        "disk_bytes",
                                        "disk_quota",
                                        NULL};

static const char *exit_name(enum run_exit how)
{
    static const char *const names[RUN_EXITS] = {[RUN_EXIT_COMPLETED] = "completed",
                                                 [RUN_EXIT_AGAIN] = "again",
                                                 [RUN_EXIT_FAILED] = "failed",
                                                 [RUN_EXIT_LOST] = "lost",
                                                 [RUN_EXIT_NOT_STARTED] = "not started"};
    return how < RUN_EXITS ? names[how] : NULL;
}

static weft_status put_nodes(struct json_writer *writer, struct database *registry, int64_t run, int64_t epoch,
                             struct error *error)
{
    struct registry_node *nodes;
    size_t count;
    weft_status status = registry_nodes(registry, run, epoch, &nodes, &count, error);
    if (status != WEFT_OK)
        return status;
    json_open_array(writer, "nodes");
    for (size_t i = 0; i < count; i++) {
        const struct registry_node *node = &nodes[i];
        json_open_object(writer, NULL);
        json_put_integer(writer, "node", node->node);
        json_put_text(writer, "host", node->host);
        json_put_text(writer, "slots", node->slots);
        json_put_time(writer, "started", node->started);
        json_put_time(writer, "ended", node->ended);
        json_put_text(writer, "exit", node->ended ? exit_name(node->how) : NULL);
        json_put_integer(writer, "code", node->code);
        json_put_integer(writer, "signal", node->signal);
        json_put_text(writer, "detail", node->detail);
        json_close(writer);
    }
    json_close(writer);
    free(nodes);
    return WEFT_OK;
}

weft_status run_json_put_attempts(struct json_writer *writer, const char *key, struct database *registry, int64_t run,
                                  struct error *error)
{
    struct registry_attempt *attempts;
    size_t count;
    weft_status status = registry_attempts(registry, run, &attempts, &count, error);
    if (status != WEFT_OK)
        return status;
    json_open_array(writer, key);
    for (size_t i = 0; i < count && status == WEFT_OK; i++) {
        const struct registry_attempt *attempt = &attempts[i];
        json_open_object(writer, NULL);
        json_put_integer(writer, "epoch", attempt->epoch);
        json_put_text(writer, "pod", attempt->pod);
        json_put_time(writer, "placed", attempt->placed);
        json_put_time(writer, "started", attempt->started);
        json_put_time(writer, "ended", attempt->ended);
        json_put_text(writer, "cause", attempt->over ? run_cause_name(attempt->cause) : NULL);
        json_put_text(writer, "detail",
                      *attempt->detail || !attempt->over ? attempt->detail : run_cause_text(attempt->cause));
        status = put_nodes(writer, registry, run, attempt->epoch, error);
        json_close(writer);
    }
    json_close(writer);
    free(attempts);
    return status;
}

void run_json_put_event(struct json_writer *writer, const struct registry_event *event)
{
    json_put_integer(writer, "event", event->event);
    json_put_integer(writer, "epoch", event->epoch);
    json_put_time(writer, "time", event->time);
    json_put_text(writer, "cause", run_cause_name(event->cause));
    json_put_text(writer, "from", event->first ? NULL : run_state_name(event->from));
    json_put_text(writer, "to", run_state_name(event->to));
    json_put_text(writer, "actor", event->actor);
    json_put_text(writer, "detail", *event->detail ? event->detail : run_cause_text(event->cause));
    json_put_text(writer, "verdict", registry_verdict_name(event->verdict));
}

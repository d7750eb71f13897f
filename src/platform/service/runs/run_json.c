/* SPDX-License-Identifier: Apache-2.0 */
#include "platform/service/runs/run_json.h"

#include "base/format/json_put.h"

#include <math.h>
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
    JSON_PUT_OBJECT(writer, key, "done", progress->done, "total", progress->total, "seconds_left",
                    progress->left >= 0 ? progress->left : NAN, "reported_at", json_time(progress->reported));
}

void run_json_put(struct json_writer *writer, const struct registry_run *run)
{
    JSON_PUT(writer, "run", run->run, "project", run->project, "owner", run->owner, "name", run->name, "class",
             run->class_name, "state", run_state_name(run->state), "cause", run_cause_name(run->cause), "reason",
             run_json_reason(run), "nodes", run->nodes, "slots", run->slots, "slot_kind",
             slot_kind_name(run->slot_kind), "size", run->nodes * run->slots, "priority", run->priority, "preemptible",
             run->preemptible, "interactive", run->interactive, "may_span_pods", run->may_span_pods, "time_limit",
             run->time_limit, "time_slice", run->time_slice, "retries", run->retries, "epoch", run->epoch, "submitted",
             json_time(run->submitted), "waiting_since", json_time(run->waiting_since), "first_started",
             json_time(run->first_started), "started", json_time(run->started), "ended", json_time(run->ended),
             "changed", json_time(run->changed), "served_ms", run->served, "idle_since", json_time(run->idle_since));
    run_json_put_progress(writer, "progress", &run->progress);
    JSON_PUT(writer, "discarded", json_time(run->discarded), "program_failures", run->program_failures,
             "platform_failures", run->platform_failures);
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
        JSON_PUT_OBJECT(writer, NULL, "node", node->node, "host", node->host, "slots", node->slots, "started",
                        json_time(node->started), "ended", json_time(node->ended), "exit",
                        node->ended ? exit_name(node->how) : NULL, "code", node->code, "signal", node->signal, "detail",
                        node->detail, "dropped", node->dropped);
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
        JSON_PUT(writer, "epoch", attempt->epoch, "pod", attempt->pod, "placed", json_time(attempt->placed), "started",
                 json_time(attempt->started), "ended", json_time(attempt->ended), "cause",
                 attempt->over ? run_cause_name(attempt->cause) : NULL, "detail",
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
    JSON_PUT(writer, "event", event->event, "epoch", event->epoch, "time", json_time(event->time), "cause",
             run_cause_name(event->cause), "from", event->first ? NULL : run_state_name(event->from), "to",
             run_state_name(event->to), "actor", event->actor, "detail",
             *event->detail ? event->detail : run_cause_text(event->cause), "verdict",
             registry_verdict_name(event->verdict));
}

/* SPDX-License-Identifier: Apache-2.0 */
#include "platform/service/internal/announcements.h"

#include "base/format/json_put.h"
#include "platform/registry/hosts.h"
#include "platform/registry/run/runs.h"
#include "platform/service/runs/run_json.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define AT_ONCE 1000 /* events that are read at a time */
#define PERIOD  1000 /* milliseconds between two announcements of queue and cluster */

weft_status announcements_begin(struct announcements *announcements, struct database *registry,
                                struct events_stream *events, struct error *error)
{
    *announcements = (struct announcements){.registry = registry, .events = events};
    weft_status status = registry_last_event(registry, &announcements->run_event, error);
    return status == WEFT_OK ? registry_last_host_event(registry, &announcements->host_event, error) : status;
}

static void announce_run(struct announcements *announcements, int64_t number)
{
    struct registry_run run;
    struct json_writer line;
    if (registry_run_get(announcements->registry, number, &run, NULL) != WEFT_OK)
        return;
    json_begin_line(&line);
    run_json_put(&line, &run);
    json_close(&line);
    if (json_text(&line))
        events_publish(announcements->events, run.project, "run", json_text(&line), NULL);
    json_end(&line);
}

void announcements_project(struct announcements *announcements, const char *project)
{
    for (size_t i = 0; i < announcements->project_count; i++)
        if (strcmp(announcements->projects[i], project) == 0)
            return;
    if (announcements->project_count < ANNOUNCEMENTS_PROJECTS)
        snprintf(announcements->projects[announcements->project_count++], PLATFORM_NAME_BYTES, "%s", project);
}

void announcements_queue(struct announcements *announcements)
{
    announcements->due = true;
}

static void announce_projects(struct announcements *announcements)
{
    for (size_t i = 0; i < announcements->project_count; i++) {
        struct json_writer line;
        json_begin(&line, JSON_LINE);
        JSON_PUT_OBJECT(&line, NULL, "project", announcements->projects[i]);
        if (json_text(&line))
            events_publish(announcements->events, announcements->projects[i], "project", json_text(&line), NULL);
        json_end(&line);
    }
    announcements->project_count = 0;
}

int64_t announcements_make(struct announcements *announcements, int64_t now)
{
    int64_t *runs, last;
    size_t count = 0;
    announce_projects(announcements);
    do { /* what cannot be read now is announced with the next change */
        if (registry_runs_changed(announcements->registry, announcements->run_event, AT_ONCE, &runs, &count, &last,
                                  NULL) != WEFT_OK)
            break;
        for (size_t i = 0; i < count; i++)
            announce_run(announcements, runs[i]);
        free(runs);
        announcements->due = announcements->due || count;
        announcements->run_event = last;
    } while (count);
    if (registry_last_host_event(announcements->registry, &last, NULL) == WEFT_OK &&
        last != announcements->host_event) {
        announcements->host_event = last;
        announcements->due = true;
    }
    if (!announcements->due)
        return INT64_MAX;
    if (now - announcements->summed_up < PERIOD && now >= announcements->summed_up)
        return announcements->summed_up + PERIOD - now;
    events_publish(announcements->events, "", "queue", "{}", NULL);
    events_publish(announcements->events, "", "cluster", "{}", NULL);
    announcements->summed_up = now;
    announcements->due = false;
    return INT64_MAX;
}

/* SPDX-License-Identifier: Apache-2.0 */
/* Projects and their members. */
#include "base/format/json_put.h"
#include "platform/registry/ledger/ledger.h"
#include "platform/registry/projects.h"
#include "platform/registry/run/list.h"
#include "platform/service/internal/service_state.h"
#include "platform/service/routes/budget_json.h"
#include "platform/service/runs/run_json.h"

#include <stdlib.h>
#include <string.h>

static void routes_project_put_project(struct json_writer *writer, const struct registry_project *project,
                                       enum role role)
{
    JSON_PUT(writer, "project", project->project, "title", project->title, "personal", project->personal, "created",
             json_time(project->created), "closed", json_time(project->closed), "role", role_name(role));
}

/* The disk use of its runs, and their common quota. */
static void routes_project_put_disk(struct json_writer *writer, const struct service *service, const char *project)
{
    const struct disk_watch *disk = writer_disk(service->writer);
    const uint64_t quota = disk_use_project_quota(disk->use);
    JSON_PUT(writer, "disk_bytes", disk_use_project(disk->use, project), "disk_quota",
             json_known(quota != 0, (int64_t)quota));
}

/* How many runs it has, how many of them have not ended, and its budget. */
static weft_status put_use(struct json_writer *writer, struct database *reader, const char *project,
                           struct error *error)
{
    int64_t counts[RUN_STATES] = {0}, live = 0, all = 0;
    struct ledger_budget budget;
    weft_status status = registry_run_counts(reader, &(struct registry_filter){.project = project}, counts, error);
    if (status == WEFT_OK)
        status = ledger_budget_get(reader, project, writer_now(), &budget, error);
    if (status != WEFT_OK)
        return status;
    for (int state = 0; state < RUN_STATES; state++) {
        all += counts[state];
        live += REGISTRY_STATE(state) & REGISTRY_LIVE ? counts[state] : 0;
    }
    JSON_PUT(writer, "runs", all, "live", live);
    budget_json_put(writer, "budget", &budget);
    return WEFT_OK;
}

static weft_status list_projects(struct route_call *call, struct json_writer *answer, struct error *error)
{
    struct registry_project *projects = NULL;
    size_t count = 0;
    weft_status status = registry_projects(service_of(call)->reader, service_viewer(call), &projects, &count, error);
    json_open_list(answer, "projects");
    for (size_t i = 0; status == WEFT_OK && i < count; i++) {
        enum role role = route_role(call, projects[i].project);
        if (role == ROLE_NONE)
            continue; /* the token is limited to another one */
        json_open_object(answer, NULL);
        routes_project_put_project(answer, &projects[i], role);
        routes_project_put_disk(answer, service_of(call), projects[i].project);
        status = put_use(answer, service_of(call)->reader, projects[i].project, error);
        json_close(answer);
    }
    json_close_list(answer);
    free(projects);
    return status;
}

/* ---- one ---- */

static int64_t routes_project_balance_of(const struct ledger_balance *balances, size_t count, const char *user)
{
    for (size_t i = 0; i < count; i++)
        if (strcmp(balances[i].user, user) == 0)
            return balances[i].balance;
    return 0;
}

static weft_status put_members(struct json_writer *writer, struct database *reader, const char *project,
                               struct error *error)
{
    struct registry_member *members = NULL;
    struct ledger_balance *balances = NULL;
    size_t count = 0, balance_count = 0;
    weft_status status = registry_members(reader, project, &members, &count, error);
    if (status == WEFT_OK)
        status = ledger_balances(reader, project, &balances, &balance_count, error);
    json_open_array(writer, "members");
    for (size_t i = 0; status == WEFT_OK && i < count; i++)
        JSON_PUT_OBJECT(writer, NULL, "user", members[i].user, "role", role_name(members[i].role), "since",
                        json_time(members[i].since), "balance",
                        budget_json_amount(routes_project_balance_of(balances, balance_count, members[i].user)));
    json_close(writer);
    free(members);
    free(balances);
    return status;
}

static weft_status show_project(struct route_call *call, struct json_writer *answer, struct error *error)
{
    struct database *reader = service_of(call)->reader;
    struct registry_project project;
    struct ledger_budget budget;
    weft_status status = registry_project_get(reader, call->project, &project, error);
    if (status != WEFT_OK)
        return status;
    json_open_object(answer, NULL);
    routes_project_put_project(answer, &project, route_role(call, call->project));
    routes_project_put_disk(answer, service_of(call), call->project);
    status = put_members(answer, reader, call->project, error);
    if (status == WEFT_OK)
        status = ledger_budget_get(reader, call->project, writer_now(), &budget, error);
    if (status == WEFT_OK)
        budget_json_put(answer, "budget", &budget);
    json_close(answer);
    return status;
}

/* ---- changes ---- */

static weft_status answer_project(struct route_call *call, const char *name, enum role role, struct json_writer *answer,
                                  struct error *error)
{
    struct registry_project project;
    weft_status status = registry_project_get(service_registry(call), name, &project, error);
    if (status != WEFT_OK)
        return status;
    writer_project_changed(service_of(call)->writer, name);
    json_open_object(answer, NULL);
    routes_project_put_project(answer, &project, role);
    json_close(answer);
    return WEFT_OK;
}

static weft_status make_project(struct route_call *call, struct json_writer *answer, struct error *error)
{
    const char *name = "", *title = "";
    weft_status status = json_get_text(call->body, "project", "the body", &name, error);
    json_get_text(call->body, "title", "the body", &title, NULL);
    if (status == WEFT_OK)
        status = registry_project_make(service_registry(call), name, title, call->who.user, writer_now(), error);
    /* The user who makes it is its first manager. */
    return status == WEFT_OK ? answer_project(call, name, ROLE_MANAGER, answer, error) : status;
}

static weft_status close_or_reopen(struct route_call *call, bool close, struct json_writer *answer, struct error *error)
{
    struct database *registry = service_registry(call);
    struct registry_project project;
    weft_status status = registry_project_get(registry, call->project, &project, error);
    if (status == WEFT_OK && (project.closed != 0) == close)
        status = error_set(error, WEFT_ERROR_STATE, "project '%s' is %s", project.project,
                           close ? "closed already" : "not closed");
    if (status == WEFT_OK)
        status = registry_project_close(registry, call->project, close ? writer_now() : 0, error);
    return status == WEFT_OK ? answer_project(call, call->project, route_role(call, call->project), answer, error)
                             : status;
}

static weft_status close_project(struct route_call *call, struct json_writer *answer, struct error *error)
{
    return close_or_reopen(call, true, answer, error);
}

static weft_status reopen_project(struct route_call *call, struct json_writer *answer, struct error *error)
{
    return close_or_reopen(call, false, answer, error);
}

static weft_status put_member(struct route_call *call, enum role role, struct error *error)
{
    struct database *registry = service_registry(call);
    struct writer *writer = service_of(call)->writer;
    const char *user = route_value(call, "user")->text;
    weft_status status = registry_member_put(registry, call->project, user, role, writer_now(), error);
    if (status == WEFT_OK && role == ROLE_NONE)
        status = ledger_leave(registry, call->project, user, call->who.user, writer_now(), error);
    if (status == WEFT_OK) {
        controller_budgets_changed(writer_controller(writer)); /* members can pay for runs */
        writer_project_changed(writer, call->project);
    }
    return status;
}

static weft_status change_member(struct route_call *call, struct json_writer *answer, struct error *error)
{
    const char *name;
    enum role role = ROLE_NONE;
    weft_status status = json_get_text(call->body, "role", "the body", &name, error);
    if (status != WEFT_OK || !role_find(name, &role)) /* the schema has checked it */
        return status;
    return put_member(call, role, error);
}

static weft_status remove_member(struct route_call *call, struct json_writer *answer, struct error *error)
{
    return put_member(call, ROLE_NONE, error);
}

/* ---- tables ---- */

#define PROJECT ROUTE_NAMED("project", "The name of the project.")
static const struct route_parameter project_parameters[] = {PROJECT, {0}};
static const struct route_parameter member_parameters[] = {PROJECT, ROUTE_NAMED("user", "The name of the user."), {0}};

static const struct route routes[] = {
    {.method = "GET",
     .path = "/api/v1/projects",
     .operation = "listProjects",
     .summary = "The projects that you may see, by name.",
     .permission = ROUTE_USER,
     .response = "Projects",
     .handler = service_read,
     .work = list_projects},
    {.method = "POST",
     .path = "/api/v1/projects",
     .operation = "makeProject",
     .summary = "Create a project, with you as its first manager.",
     .permission = ROUTE_ADMINISTRATOR,
     .request = "ProjectRequest",
     .response = "Project",
     .status = 201,
     .handler = service_change,
     .work = make_project},
    {.method = "GET",
     .path = "/api/v1/projects/{project}",
     .operation = "showProject",
     .summary = "A project: its members and its budget.",
     .permission = ROUTE_VIEWER,
     .parameters = project_parameters,
     .response = "Project",
     .handler = service_read,
     .work = show_project},
    {.method = "POST",
     .path = "/api/v1/projects/{project}/close",
     .operation = "closeProject",
     .summary = "Close a project: it accepts no more runs. Its running runs continue, and its data is kept.",
     .permission = ROUTE_ADMINISTRATOR,
     .parameters = project_parameters,
     .response = "Project",
     .handler = service_change,
     .work = close_project},
    {.method = "POST",
     .path = "/api/v1/projects/{project}/reopen",
     .operation = "reopenProject",
     .summary = "Reopen a closed project.",
     .permission = ROUTE_ADMINISTRATOR,
     .parameters = project_parameters,
     .response = "Project",
     .handler = service_change,
     .work = reopen_project},
    {.method = "PUT",
     .path = "/api/v1/projects/{project}/members/{user}",
     .operation = "changeMember",
     .summary = "Give a user a role in the project.",
     .permission = ROUTE_MANAGER,
     .parameters = member_parameters,
     .request = "Role",
     .handler = service_change,
     .work = change_member},
    {.method = "DELETE",
     .path = "/api/v1/projects/{project}/members/{user}",
     .operation = "removeMember",
     .summary = "Remove a user's role in the project.",
     .permission = ROUTE_MANAGER,
     .parameters = member_parameters,
     .handler = service_change,
     .work = remove_member},
};

/* clang-format off */
static const struct schema schemas[] = {
    {"Projects", SCHEMA({"type": "object", "required": ["projects"], "properties": {
        "projects": {"type": "array", "items": {"$ref": "#/components/schemas/Project"}}}})},
    {"Project", SCHEMA({"type": "object", "required": ["project", "role"], "properties": {
        "project": {"type": "string"}, "title": {"type": "string"},
        "personal": {"type": "boolean", "description": "It belongs to the user of the same name, for small runs without a budget."},
        "created": {"type": "integer", "nullable": true},
        "disk_bytes": {"type": "integer", "description": "The disk space of its runs, including ended ones that are not discarded."},
        "disk_quota": {"type": "integer", "nullable": true, "description": "The disk space that its runs may use together; null: no limit."},
        "closed": {"type": "integer", "nullable": true, "description": "The time since which no run may be submitted."},
        "role": {"type": "string", "description": "Your role."},
        "runs": {"type": "integer", "description": "In the list of projects: the number of its runs."},
        "live": {"type": "integer", "description": "In the list of projects: the number of its runs that have not ended."},
        "members": {"type": "array", "items": {"type": "object", "properties": {
            "user": {"type": "string"}, "role": {"type": "string"}, "since": {"type": "integer"},
            "balance": {"type": "number", "description": "The balance of the member's own account, in slot-minutes."}}}},
        "budget": {"$ref": "#/components/schemas/Budget"}}})},
    {"ProjectRequest", SCHEMA({"type": "object", "required": ["project"], "additionalProperties": false,
        "properties": {"project": {"type": "string", "minLength": 1, "maxLength": 63},
                       "title": {"type": "string", "maxLength": 200}}})},
    {"Role", SCHEMA({"type": "object", "required": ["role"], "additionalProperties": false, "properties": {
        "role": {"type": "string", "enum": ["viewer", "member", "manager"]}}})},
};
/* clang-format on */

const struct route_table project_routes = ROUTE_TABLE("projects");

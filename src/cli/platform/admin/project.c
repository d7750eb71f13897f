/* SPDX-License-Identifier: Apache-2.0 */
/* `weft project`: projects and their members. */
#include "cli/platform/admin/request.h"

static struct {
    bool json;
    const char *title, *role;
} chosen;

/* ---- list ---- */

static const struct table_column project_columns[] = {
    {.title = "project", .least = 8, .cell = "{project}"},
    {.title = "your role", .cell = "{role}"},
    {.title = "made", .cell = "{created:ago}"},
    {.title = "disk", .cell = "{disk_bytes:bytes}"},
    {.title = "title", .least = 10, .cell = "[{closed?}(closed) {title}|{closed?}(closed)|{title}]"}};

static const struct table_column member_columns[] = {{.title = "member", .least = 8, .cell = "{user}"},
                                                     {.title = "role", .cell = "{role}"},
                                                     {.title = "since", .cell = "{since:ago}"}};

static weft_status project_show_run(struct command_call *call, struct error *error)
{
    static const struct admin_request projects = {
        .path = "projects", .items = "projects", ADMIN_COLUMNS(project_columns), .empty = "you are in no project yet"};
    static const struct admin_request members = {
        .path = "projects/{0}", .items = "members", ADMIN_COLUMNS(member_columns), .unknown = platform_project_unknown};
    return admin_request_do(call, call->word_count > 0 ? &members : &projects, error);
}

/* ---- change ---- */

static const char *const roles[] = {"viewer", "member", "manager", NULL};

static const struct cli_option make_options[] = {
    CLI_TEXT("title", 0, "TEXT", &chosen.title, NULL, "what it is about, for people"),
    CLI_FLAG("json", 0, &chosen.json, "the project as a line of JSON"),
};

static const struct command make = {
    .name = "make",
    .summary = "make a project and become its first manager",
    .description = "A name has 1 to 63 lower-case letters, digits, '-', '_' and '.'. For administrators.",
    .examples = "weft project make vision --title 'Segmentation of street scenes'\n",
    .words = "PROJECT",
    COMMAND_OPTIONS(make_options),
    ADMIN_REQUEST(.method = "POST", .path = "projects", .names = {"the project"},
                  ADMIN_FIELDS({"project", "0", ADMIN_TEXT}, {"title", "--title", ADMIN_TEXT}),
                  .done = "project {0} is made, and you are its manager"),
};

static const struct cli_option close_options[] = {
    CLI_FLAG("json", 0, &chosen.json, "the project as a line of JSON"),
};

static const struct command close_project = {
    .name = "close",
    .summary = "accept no more runs in a project",
    .description = "Runs that exist continue, including those that wait, and all records stay. 'weft project reopen' "
                   "undoes it. For administrators.",
    .words = "PROJECT",
    COMMAND_OPTIONS(close_options),
    ADMIN_REQUEST(.method = "POST", .path = "projects/{0}/close", .names = {"the project"},
                  .unknown = platform_project_unknown,
                  .done = "project {0} takes no more runs; those that it has go on"),
};

static const struct command reopen = {
    .name = "reopen",
    .summary = "accept runs in a closed project again",
    .description = "For administrators.",
    .words = "PROJECT",
    COMMAND_OPTIONS(close_options),
    ADMIN_REQUEST(.method = "POST", .path = "projects/{0}/reopen", .names = {"the project"},
                  .unknown = platform_project_unknown, .done = "project {0} takes runs again"),
};

static const struct cli_option add_options[] = {
    CLI_CHOICE("role", 'r', "ROLE", &chosen.role, "member", roles,
               "viewers look; members submit runs; managers stop any run and manage members and budget"),
};

static const struct command add = {
    .name = "add",
    .summary = "add a user to a project, or change their role in it",
    .description = "For managers of the project.",
    .examples = "weft project add vision anna --role manager\n",
    .words = "PROJECT USER",
    COMMAND_OPTIONS(add_options),
    ADMIN_REQUEST(.method = "PUT", .path = "projects/{0}/members/{1}", .names = {"the project", "the user"},
                  .unknown = platform_project_unknown, ADMIN_FIELDS({"role", "--role", ADMIN_TEXT}),
                  .done = "{1} is a {--role} of project {0}"),
};

static const struct command remove_member = {
    .name = "remove",
    .summary = "remove a user from a project",
    .description = "Their runs stay. For managers of the project.",
    .words = "PROJECT USER",
    ADMIN_REQUEST(.method = "DELETE", .path = "projects/{0}/members/{1}", .names = {"the project", "the user"},
                  .unknown = platform_project_unknown, .done = "{1} is in project {0} no more"),
};

static const struct cli_option options[] = {
    CLI_FLAG("json", 0, &chosen.json, "a line of JSON for each"),
};

const struct command command_project = {
    .name = "project",
    .group = COMMAND_PLATFORM,
    .summary = "list projects or a project's members; make and close projects, add members",
    .examples = "weft project\nweft project vision\nweft project make vision\nweft project add vision anna\n",
    .words = "[PROJECT]",
    COMMAND_OPTIONS(options),
    COMMAND_SUBCOMMANDS(&add, &close_project, &make, &remove_member, &reopen),
    .run = project_show_run,
};

/* SPDX-License-Identifier: Apache-2.0 */
#include "platform/service/internal/service_state.h"

#include "base/file/file.h"
#include "platform/access/sessions.h"
#include "platform/http/pages.h"
#include "platform/registry/projects.h"
#include "platform/registry/registry.h"
#include "platform/service/internal/accounts.h"

#include <inttypes.h>
#include <pwd.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

static const struct route_table *const resources[] = {
    &server_routes, &run_routes,     &run_order_routes, &queue_routes,      &cluster_routes,  &project_routes,
    &budget_routes, &session_routes, &user_routes,      &snapshot_routes,   &run_file_routes, &log_routes,
    &exec_routes,   &metric_routes,  &history_routes,   &prometheus_routes, &secret_routes,   &port_routes};

/* ---- for resources ---- */

const struct route_parameter service_run_parameters[] = {SERVICE_RUN_PARAMETER, {0}};

bool service_project_of_run(const struct route_call *call, char project[PLATFORM_NAME_BYTES])
{
    struct registry_run run;
    if (registry_run_get(service_of(call)->reader, route_value(call, "run")->integer, &run, NULL) != WEFT_OK)
        return false;
    snprintf(project, PLATFORM_NAME_BYTES, "%s", run.project);
    return true;
}

bool service_run(struct route_call *call, struct registry_run *run)
{
    struct error error = {0};
    if (registry_run_get(service_of(call)->reader, route_value(call, "run")->integer, run, &error) == WEFT_OK)
        return true;
    http_fail_error(call->request, &error);
    return false;
}

bool service_is_changer(const struct route_call *call, const struct registry_run *run)
{
    return strcmp(run->owner, call->who.user) == 0 || route_role(call, run->project) >= ROLE_MANAGER;
}

bool service_may_change(struct route_call *call, const struct registry_run *run)
{
    if (service_is_changer(call, run))
        return true;
    http_fail(call->request, 403, "run %" PRId64 " is '%s's: only they, and managers of project '%s', may change it",
              run->run, run->owner, run->project);
    return false;
}

bool service_has_files(struct route_call *call, const struct registry_run *run)
{
    char day[32];
    const time_t when = (time_t)(run->discarded / 1000);
    struct tm local;
    if (!run->discarded)
        return true;
    strftime(day, sizeof day, "%Y-%m-%d", localtime_r(&when, &local));
    http_fail(call->request, 410,
              "what run %" PRId64 " has left was thrown away on %s: its directory, checkpoints and output", run->run,
              day);
    return false;
}

const char *service_viewer(const struct route_call *call)
{
    return call->who.administrator ? NULL : call->who.user;
}

bool service_may_see(struct database *registry, const struct identity *who, const char *project)
{
    enum role membership = ROLE_NONE;
    if (!who->administrator && registry_membership_get(registry, project, who->user, &membership, NULL) != WEFT_OK)
        return false;
    return identity_role(who, project, membership) != ROLE_NONE;
}

bool service_may_enter(struct database *registry, const struct identity *who, const struct registry_run *run)
{
    enum role membership = ROLE_NONE;
    if (!who->administrator && registry_membership_get(registry, run->project, who->user, &membership, NULL) != WEFT_OK)
        return false;
    const enum role role = identity_role(who, run->project, membership);
    return role >= ROLE_MANAGER || (role >= ROLE_MEMBER && strcmp(run->owner, who->user) == 0);
}

void service_put_trouble(struct json_writer *writer, const struct service *service)
{
    struct disk_space_state disk;
    disk_space_state(service->space, &disk);
    json_put_text(writer, "trouble", disk.full ? disk.trouble : NULL);
}

void service_read(struct route_call *call)
{
    struct json_writer answer;
    struct error error = {0};
    json_begin(&answer, JSON_LINE);
    weft_status status = call->route->work(call, &answer, &error);
    route_answer(call, status, &answer, &error);
}

void service_write(struct route_call *call)
{
    writer_do(service_of(call)->writer, call, call->route->work, NULL);
}

static weft_status service_work_in_transaction(struct route_call *call, struct json_writer *answer, struct error *error)
{
    struct database *registry = service_registry(call);
    weft_status status = database_begin(registry, DATABASE_DURABLE, error);
    return status == WEFT_OK ? database_end(registry, call->route->work(call, answer, error), error) : status;
}

void service_change(struct route_call *call)
{
    writer_do(service_of(call)->writer, call, service_work_in_transaction, NULL);
}

void service_answer_done(struct route_call *call, weft_status status, const struct error *error)
{
    if (status == WEFT_OK)
        http_reply(call->request, 204, NULL, NULL, 0);
    else
        http_fail_error(call->request, error);
}

/* ---- who is who ---- */

/* What the registry says of who has a token. */
static bool is_user(struct service *service, struct identity *who)
{
    struct registry_user user;
    if (registry_user_get(service->reader, who->user, &user, NULL) != WEFT_OK || user.disabled)
        return false;
    who->administrator = who->administrator && user.admin;
    return true;
}

static bool service_identify(void *context, const char *token, struct identity *who)
{
    struct service *service = context;
    struct token_store store = access_tokens(service->access);
    return tokens_identify(&store, token, time(NULL), who) && is_user(service, who);
}

static bool still(void *context, struct identity *who)
{
    struct service *service = context;
    struct token_store store = access_tokens(service->access);
    const time_t now = time(NULL);
    return (*who->session ? sessions_still(service->access, now, who) : tokens_still(&store, now, who)) &&
           is_user(service, who);
}

bool service_still(struct service *service, struct identity *who)
{
    return !service->tokens || still(service, who);
}

static bool identify_session(void *context, const struct http_request *request, struct identity *who)
{
    return service_identify_session(context, request, who) && is_user(context, who);
}

static enum role role_of(void *context, const struct identity *who, const char *project)
{
    struct service *service = context;
    enum role role;
    return registry_membership_get(service->reader, project, who->user, &role, NULL) == WEFT_OK ? role : ROLE_NONE;
}

static bool project_is_there(void *context, const char *project)
{
    struct service *service = context;
    struct registry_project found;
    return registry_project_get(service->reader, project, &found, NULL) == WEFT_OK;
}

void service_audit(struct service *service, struct audit_entry *entry)
{
    struct error error = {0};
    entry->time_ms = writer_now();
    if (audit_add(service->access, entry, &error) != WEFT_OK)
        complain(&service->audit_trouble, "the audit log cannot be kept at the moment", &error);
    else
        complain_no_more(&service->audit_trouble, "the audit log is kept again");
}

/* Record a call that was answered with `status` in the audit log. */
static void answered(void *context, const struct route_call *call, unsigned status)
{
    struct service *service = context;
    struct audit_entry entry = {.status = status};
    snprintf(entry.user, sizeof entry.user, "%s", call->who.user);
    snprintf(entry.token, sizeof entry.token, "%s", call->who.token);
    snprintf(entry.address, sizeof entry.address, "%s", http_request_peer(call->request));
    snprintf(entry.project, sizeof entry.project, "%s", call->project);
    snprintf(entry.what, sizeof entry.what, "%s", call->route->operation);
    snprintf(entry.target, sizeof entry.target, "%s%s%s", http_request_path(call->request), call->detail ? " " : "",
             call->detail ? call->detail : "");
    service_audit(service, &entry);
}

/* The user of this process, as a name of the platform. */
static void name_user(char name[PLATFORM_NAME_BYTES])
{
    const struct passwd *user = getpwuid(geteuid());
    size_t length = 0;
    for (const char *c = user ? user->pw_name : ""; *c && length + 1 < PLATFORM_NAME_BYTES; c++) {
        char letter = *c >= 'A' && *c <= 'Z' ? (char)(*c - 'A' + 'a') : *c;
        name[length] = letter;
        name[length + 1] = '\0';
        length += platform_name_is_valid(name);
    }
    name[length] = '\0';
    if (!length)
        snprintf(name, PLATFORM_NAME_BYTES, "user-%u", (unsigned)geteuid());
}

/* ---- opening ---- */

/* The administrator. Projects are made when somebody has use for them. */
static weft_status furnish(struct service *service, struct error *error)
{
    struct database *registry = writer_registry(service->writer);
    weft_status status = database_begin(registry, DATABASE_DURABLE, error);
    if (status != WEFT_OK)
        return status;
    /* Where there are tokens, some of this user's may be no administrator's, for whom only what is there is there. */
    status = service->tokens ? service_make_user(registry, service->user, true, error)
                             : registry_user_put(registry, service->user, true, service->started, error);
    return database_end(registry, status, error);
}

static bool note_token(void *context, const struct token_record *record)
{
    *(bool *)context = true;
    return false;
}

static weft_status open_access(struct service *service, struct error *error)
{
    char path[FILE_PATH_BYTES];
    weft_status status = file_join(path, service->directory, "access.db", error);
    if (status != WEFT_OK)
        return status;
    do
        status = access_open(path, &service->access, error);
    while (disk_space_try_again(service->space, status, error));
    return status == WEFT_OK ? database_checkpoint_apart(service->access, error) : status;
}

/* The first administrator's token. After all that may fail, for it is shown but once. */
static weft_status make_first_token(struct service *service, struct error *error)
{
    bool any = false;
    if (!service->tokens)
        return WEFT_OK;
    weft_status status = access_list_tokens(service->access, NULL, note_token, &any, error);
    if (status != WEFT_OK || any)
        return status;
    struct token_store store = access_tokens(service->access);
    struct token_record wanted = {.most = ROLE_MANAGER, .administrator = true, .note = "the first administrator"};
    snprintf(wanted.user, sizeof wanted.user, "%s", service->user);
    return tokens_make(&store, &wanted, time(NULL), service->first_token, error);
}

static weft_status name_cookie(struct service *service, struct error *error)
{
    struct registry_platform platform;
    weft_status status = registry_platform_get(service->reader, &platform, error);
    if (status == WEFT_OK)
        service_name_cookie(service, platform.identity);
    return status;
}

/* The engine of the platform that the registry is of. */
static weft_status open_engine(const struct service *service, const struct service_config *config,
                               struct database *registry, struct engine **engine, struct error *error)
{
    char directory[FILE_PATH_BYTES];
    struct registry_platform platform;
    weft_status status = registry_platform_get(registry, &platform, error);
    if (status == WEFT_OK)
        status = file_join(directory, service->directory, "engine", error);
    return status == WEFT_OK
               ? config->open_engine(config->context, directory, platform.identity, platform.adopts, engine, error)
               : status;
}

static weft_status service_open_writer(struct service *service, const struct service_config *config,
                                       struct error *error)
{
    struct database *registry = NULL;
    struct engine *engine;
    weft_status status;
    do
        status = registry_open(service->directory, DATABASE_WRITER, &registry, error);
    while (disk_space_try_again(service->space, status, error));
    if (status == WEFT_OK)
        status = exits_begin(&service->exits, service->directory, config->unclean_exits, service->started, error);
    if (status == WEFT_OK)
        status = open_engine(service, config, registry, &engine, error);
    if (status != WEFT_OK) {
        exits_end(&service->exits);
        database_close(registry);
        return status;
    }
    struct writer_config writer = {.directory = service->directory,
                                   .shared = service->shared,
                                   .registry = registry,
                                   .engine = engine,
                                   .pod = config->pod,
                                   .pretended = config->pretended,
                                   .own_user = accounts_own_user(service),
                                   .events = service->events,
                                   .exits = &service->exits,
                                   .policy = config->policy,
                                   .space = service->space};
    return writer_open(&writer, &service->writer, error);
}

static weft_status open_pages(struct service *service, struct error *error)
{
    weft_status status = static_files_new(&service->pages, error);
    for (size_t i = 0; i < pages_table_count && status == WEFT_OK; i++)
        status = static_files_add(service->pages,
                                  &(struct static_file){pages_table[i].path, pages_table[i].bytes, pages_table[i].size},
                                  error);
    return status;
}

static weft_status open_router(struct service *service, struct error *error)
{
    struct router_config config = {.access = {.tokens = service->tokens,
                                              .local = {.most = ROLE_MANAGER, .administrator = true},
                                              .identify = service_identify,
                                              .identify_session = identify_session,
                                              .still = still,
                                              .role_of = role_of,
                                              .project_is_there = project_is_there,
                                              .answered = answered,
                                              .context = service},
                                   .title = "Weft",
                                   .version = "1",
                                   .pages = service->pages};
    snprintf(config.access.local.user, sizeof config.access.local.user, "%s", service->user);
    weft_status status = router_new(&config, &service->router, error);
    for (size_t i = 0; i < ARRAY_SIZE(resources) && status == WEFT_OK; i++) {
        struct route_table table = *resources[i];
        table.context = service;
        status = router_add(service->router, &table, error);
    }
    return status == WEFT_OK ? router_finish(service->router, error) : status;
}

/* A directory of the server's, the state's or the one with its runs. Only this user may write to it, because anybody who can write to it could start programs as this
 * user. A new one is closed to all others, whatever the umask; accounts that runs belong to get search permission
 * later. */
static weft_status service_open_directory(const struct service *service, const char *directory, const char *option,
                                          char path[FILE_PATH_BYTES], struct error *error)
{
    struct stat found;
    const bool is_new = stat(directory, &found) != 0;
    weft_status status = file_make_directory(directory, error);
    if (status != WEFT_OK)
        return status;
    if (!realpath(directory, path) || stat(path, &found) != 0)
        return error_system(error, "cannot find the directory '%s'", directory);
    const mode_t others = found.st_mode & (S_IWGRP | S_IWOTH);
    if (is_new && chmod(path, 0700) != 0)
        return error_system(error, "cannot keep others out of the directory '%s'", path);
    if (found.st_uid == geteuid() && (!others || is_new))
        return WEFT_OK;
    if (found.st_uid == geteuid())
        return error_set(error, WEFT_ERROR_ARGUMENT,
                         "others can write to the directory '%s' (mode %04o), and could have programs started as user "
                         "'%s': take that from them by 'chmod go-w %s', or choose another directory by %s",
                         path, (unsigned)(found.st_mode & 07777), service->user, path, option);
    const struct passwd *owner = getpwuid(found.st_uid);
    return error_set(
        error, WEFT_ERROR_ARGUMENT,
        "the directory '%s' belongs to user %s%.63s%s (%u), and this is user '%s' (%u): serve as its owner, "
        "or choose another directory by %s",
        path, owner ? "'" : "", owner ? owner->pw_name : "of no name", owner ? "'" : "", (unsigned)found.st_uid,
        service->user, (unsigned)geteuid(), option);
}

static weft_status open_server(struct service *service, const struct service_config *config, struct error *error)
{
    struct http_config http = {.host = config->host,
                               .limits = {.files_kept = HTTP_FILES_KEPT + config->engine_files},
                               .port = config->port,
                               .certificate = config->certificate,
                               .key = config->key,
                               .tokens = config->tokens,
                               .application = router_application(service->router)};
    weft_status status = http_open(&http, &service->server, error);
    if (status == WEFT_OK && config->web_port_count > 0)
        status = web_ports_open(service, config->web_port, config->web_port_count, &service->web_ports, error);
    return status;
}

/* What cannot be served, or read, is refused before anything is changed. */
weft_status service_open(const struct service_config *config, struct service **service, struct error *error)
{
    struct service *made = calloc(1, sizeof *made);
    if (!made)
        return error_memory(error, sizeof *made, "the control plane");
    made->tokens = config->tokens;
    made->keep = config->policy->keep;
    made->started = writer_now();
    name_user(made->user);
    weft_status status = events_new(&(struct events_config){0}, &made->events, error);
    if (status == WEFT_OK)
        status = open_pages(made, error);
    if (status == WEFT_OK)
        status = open_router(made, error);
    if (status == WEFT_OK)
        status = open_server(made, config, error);
    if (status == WEFT_OK)
        status = service_open_directory(made, config->directory, "--state", made->directory, error);
    if (status == WEFT_OK && config->shared)
        status = service_open_directory(made, config->shared, "--shared", made->shared, error);
    else if (status == WEFT_OK)
        memcpy(made->shared, made->directory, sizeof made->shared);
    if (status == WEFT_OK)
        status = disk_space_open(made->directory, config->policy->disk_reserve, &made->space, error);
    if (status == WEFT_OK)
        status = open_access(made, error);
    if (status == WEFT_OK)
        status = service_open_writer(made, config, error);
    if (status == WEFT_OK)
        status = accounts_close_directory(made, error);
    if (status == WEFT_OK)
        status = furnish(made, error);
    if (status == WEFT_OK)
        status = registry_open(made->directory, DATABASE_READER, &made->reader, error);
    if (status == WEFT_OK)
        status = name_cookie(made, error);
    if (status == WEFT_OK)
        status = make_first_token(made, error);
    if (status != WEFT_OK) {
        service_close(made);
        return status;
    }
    *service = made;
    return WEFT_OK;
}

weft_status service_start(struct service *service, struct error *error)
{
    events_attach(service->events, service->server);
    weft_status status = background_open(service->server, 2, 256, &service->reading, error);
    if (status == WEFT_OK)
        status = background_open(service->server, 1, 64, &service->storing, error);
    if (status == WEFT_OK)
        status = writer_start(service->writer, service->server, error);
    if (status == WEFT_OK)
        status = retention_start(service->writer, service->directory, service->keep, &service->retention, error);
    return status == WEFT_OK ? http_start(service->server, error) : status;
}

char *service_address(const struct service *service, char *text, size_t room)
{
    return http_address(service->server, text, room);
}

const char *service_paused(const struct service *service)
{
    return exits_why(&service->exits);
}

const char *service_first_token(const struct service *service)
{
    return service->first_token;
}

void service_close(struct service *service)
{
    if (!service)
        return;
    if (service->writer)
        writer_stop(service->writer);
    retention_stop(service->retention);
    background_stop(service->reading);
    background_stop(service->storing);
    if (service->server) {
        events_attach(service->events, NULL);
        http_stop(service->server);
    }
    web_ports_close(service->web_ports);
    /* Requests could arrive until here; these refuse late ones. */
    retention_close(service->retention);
    background_close(service->reading);
    background_close(service->storing);
    router_free(service->router);
    static_files_free(service->pages);
    if (service->access)
        disk_space_keep_log(service->space, service->access);
    database_close(service->access);
    database_close(service->reader);
    exits_end(&service->exits); /* while the registry keeps other servers out */
    writer_close(service->writer);
    disk_space_close(service->space);
    if (service->events)
        events_free(service->events);
    free(service);
}

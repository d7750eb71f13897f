/* SPDX-License-Identifier: Apache-2.0 */
/** What the resources of the control plane share. For the files of this module alone; all on the HTTP server's thread.
 */
#ifndef WEFT_PLATFORM_SERVICE_INTERNAL_SERVICE_STATE_H
#define WEFT_PLATFORM_SERVICE_INTERNAL_SERVICE_STATE_H

#include "platform/access/access.h"
#include "platform/http/events_stream.h"
#include "platform/http/static_files.h"
#include "platform/registry/run/runs.h"
#include "platform/service/internal/answer.h"
#include "platform/service/internal/background.h"
#include "platform/service/internal/complaint.h"
#include "platform/service/internal/exits.h"
#include "platform/service/internal/retention.h"
#include "platform/service/internal/web_ports.h"
#include "platform/service/internal/writer.h"
#include "platform/service/service.h"

struct service {
    char directory[FILE_PATH_BYTES];
    char shared[FILE_PATH_BYTES]; /* runs/ in it has the directories of runs */
    struct writer *writer;
    struct disk_space *space; /* of the disk of the state */
    struct database *reader;  /* the registry, as it has been committed */
    struct database *access;  /* tokens and the audit log */
    struct events_stream *events;
    struct static_files *pages;
    struct router *router;
    struct http_server *server;
    struct background *reading;    /* threads that read what runs have written */
    struct background *storing;    /* the one that writes to stores of snapshots, and cleans them up */
    int64_t collected;             /* when that was begun last */
    struct retention *retention;   /* what ended runs have left is thrown away */
    struct exec_session *sessions; /* commands that run in nodes for somebody: a list */
    unsigned session_count;
    struct web_ports *web_ports;              /* NULL: none */
    struct port_connection *port_connections; /* at web ports, that are passed on to nodes: a list */
    struct log_reading *watching;             /* who watches what runs print: a list */
    char user[PLATFORM_NAME_BYTES];           /* whose processes the server and its runs are */
    char first_token[TOKEN_TEXT_BYTES];
    char cookie[40]; /* the name of the one that a browser's session is in */
    struct complaint audit_trouble;
    struct exits exits; /* whether scheduling is paused after unclean ones */
    bool tokens;
    int64_t keep;    /* seconds; of the policy */
    int64_t started; /* milliseconds since 1970 */
};

/** The service that a call is made to. */
static inline struct service *service_of(const struct route_call *call)
{
    return call->context;
}

/** The registry, for works on the writer's thread. */
static inline struct database *service_registry(const struct route_call *call)
{
    return writer_registry(service_of(call)->writer);
}

/** For routes with a {run}: its project; false if there is no such run. */
bool service_project_of_run(const struct route_call *call, char project[PLATFORM_NAME_BYTES]);

/** The run that {run} names. False: answered. */
bool service_run(struct route_call *call, struct registry_run *run);

/** Whether the caller may change this run: its owner, or a manager of its project. */
bool service_is_changer(const struct route_call *call, const struct registry_run *run);

/** The same. False: answered. */
bool service_may_change(struct route_call *call, const struct registry_run *run);

/** For routes with a {run} and a {node}: whether the caller may run something in that node, and the run runs. False:
 * answered. */
bool service_may_enter_node(struct route_call *call, struct registry_run *run);

/** The same right, outside of a call: in the run's project a member who is its owner, or a manager. */
bool service_may_enter(struct database *registry, const struct identity *who, const struct registry_run *run);

/** Whether what the run has left on disk is there to be read. False: it was discarded, and the call is answered. */
bool service_has_files(struct route_call *call, const struct registry_run *run);

/** The declaration of {run} for tables of parameters. */
#define SERVICE_RUN_PARAMETER ROUTE_NUMBERED("run", 1, 1e15, NULL, "The number of the run.")

/** The fields of a route whose only parameter is a run. */
#define SERVICE_OF_RUN .parameters = service_run_parameters, .project_of = service_project_of_run
extern const struct route_parameter service_run_parameters[];
extern const struct route_parameter service_node_parameters[]; /* {run} and {node} */

/** The text of a parameter; NULL where it is not given. */
static inline const char *service_text_given(const struct route_call *call, const char *name)
{
    const struct route_value *value = route_value(call, name);
    return value->given ? value->text : NULL;
}

/** `viewer` for lists: whose projects are shown; NULL: all (an administrator asks). */
const char *service_viewer(const struct route_call *call);

/** Whether somebody may see a project, by what `registry` says: for other threads than the HTTP server's, and for
 * subscribers, who have no call at work (else route_role()). */
bool service_may_see(struct database *registry, const struct identity *who, const char *project);

/** Name the cookie of sessions for the platform of this identity. */
void service_name_cookie(struct service *service, const char *platform);

/** For router_access. */
bool service_identify_session(struct service *service, const struct http_request *request, struct identity *who);

/** Whether somebody who was let in would be again: brings `who` up to date, or says false. */
bool service_still(struct service *service, struct identity *who);

/** The user of the process at the other end, or SESSION_ANYWHERE (platform/access/sessions.h). */
int64_t service_peer(const struct http_request *request);

/** Write `entry` to the audit log; its time is filled in. If that fails, the server's log has it. */
void service_audit(struct service *service, struct audit_entry *entry);

/** Make a user, or change one, with the personal project (where no other one has its name). In a transaction. */
weft_status service_make_user(struct database *registry, const char *user, bool administrator, struct error *error);

/** Why nothing is started at the moment, as "trouble"; null: there is no such trouble. */
void service_put_trouble(struct json_writer *writer, const struct service *service);

/** Handlers that do their route's work and answer with what it writes: on this thread, reading from `reader`; on the
 * writer's thread; and there within a durable transaction. */
void service_read(struct route_call *call);
void service_write(struct route_call *call);
void service_change(struct route_call *call);

/** Answer 204, or with the error. */
void service_answer_done(struct route_call *call, weft_status status, const struct error *error);

/** The handler that streams every point of a metric (metric_export.c), for a call with the parameters run, name, rank,
 * attempt and format: the writer writes a piece, the client reads it, and so on. */
void metric_export(struct route_call *call);

/* The resources, each in its file of the same name. Their context is filled in by service.c. */
extern const struct route_table server_routes, run_routes, run_order_routes, queue_routes, cluster_routes,
    project_routes, budget_routes, session_routes, user_routes, snapshot_routes, run_file_routes, log_routes,
    exec_routes, metric_routes, history_routes, prometheus_routes, secret_routes, port_routes;

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/**
 * Routes as data, and the router that serves them. A resource is a table of routes and schemas beside its handlers;
 * from the tables come the answers (404, 405 with Allow, 400 for a parameter that is not as declared, 401, 403, 415,
 * 429), the check of bodies, and the OpenAPI document at /api/v1/openapi.json. A test holds the document against the
 * server.
 *
 *     static const struct route_parameter run_parameters[] = {
 *         {.name = "run", .type = ROUTE_NAME, .meaning = "The run's name."},
 *         {.name = "lines", .type = ROUTE_INTEGER, .least = 1, .most = 10000, .fallback = "100", .meaning = "..."},
 *         {0}};
 *     static const struct route routes[] = {
 *         {.method = "GET", .path = "/api/v1/runs/{run}/log", .operation = "readLog",
 *          .permission = ROUTE_VIEWER, .parameters = run_parameters, .summary = "The last lines of a run's log.",
 *          .response = "Log", .project_of = project_of_run, .handler = read_log},
 *     };
 *
 * Projects are kept apart by the table: a route that needs a role has the project in its path as {project}, or names it
 * by `project_of`, which is asked before the body has come; a table that does neither is refused. A user without a role
 * in the project gets the same answer as for a project that does not exist (404). A long-lived answer ends within
 * seconds after a token, a user or a role has ended (router_access.still).
 *
 * Everything runs on the server's thread (http.h). A handler answers at once, or keeps the call, which lives until the
 * answer is sent, and answers later.
 */
#ifndef WEFT_PLATFORM_HTTP_ROUTE_ROUTE_H
#define WEFT_PLATFORM_HTTP_ROUTE_ROUTE_H

#include "platform/access/identity.h"
#include "platform/http/http.h"
#include "platform/http/route/internal/schema.h"
#include "platform/http/static_files.h"

#define ROUTE_PARAMETERS_MOST 16
#define ROUTE_DOCUMENT        "/api/v1/openapi.json"

/** Who may call a route. */
enum route_permission {
    ROUTE_OPEN,   /**< nothing */
    ROUTE_USER,   /**< any user; the handler shows what that user may see */
    ROUTE_VIEWER, /**< this role in the project, or a higher one */
    ROUTE_MEMBER,
    ROUTE_MANAGER,
    ROUTE_ADMINISTRATOR,
};

enum route_type {
    ROUTE_TEXT, /**< `least` to `most` bytes of UTF-8 [1 to 1024] without control characters */
    ROUTE_NAME, /**< platform_name_is_valid(): small letters, digits, '-', '_' and '.', the first a letter or a digit;
                   at most 63 */
    ROUTE_INTEGER, /**< `least` to `most` */
    ROUTE_NUMBER,  /**< the same */
    ROUTE_BOOL,    /**< true or false */
    ROUTE_CHOICE,  /**< one of `choices` */
};

/** A parameter: in the path if that has {name}, otherwise in the query. */
struct route_parameter {
    const char *name;
    enum route_type type;
    double least, most;
    const char *const *choices; /**< ends with NULL */
    const char *fallback;       /**< what it is where it is not given; NULL: nothing */
    bool required;              /**< it has to be given; of a path it always is */
    const char *meaning;        /**< a message */
};

/* clang-format off */
/** Common parameters: a name; an integer with its bounds and what it is where it is not given (NULL: nothing); a page of
 * a list, which is `before` or `after` a number. */
#define ROUTE_NAMED(parameter, what) {.name = parameter, .type = ROUTE_NAME, .meaning = what}
#define ROUTE_NUMBERED(parameter, low, high, otherwise, what) \
    {.name = parameter, .type = ROUTE_INTEGER, .least = low, .most = high, .fallback = otherwise, .meaning = what}
#define ROUTE_BEFORE(what) ROUTE_NUMBERED("before", 0, 1e15, "0", what)
#define ROUTE_AFTER(what)  ROUTE_NUMBERED("after", 0, 1e15, "0", what)
#define ROUTE_FLAG(parameter, what) {.name = parameter, .type = ROUTE_BOOL, .fallback = "false", .meaning = what}
/* clang-format on */

struct route_value {
    bool given; /**< given, or it has a fallback */
    const char *text;
    int64_t integer;
    double number;
    bool truth;
};

/** A request that a route was found for. */
struct route_call {
    struct http_request *request;
    const struct route *route;
    void *context; /**< of the resource */
    struct identity who;
    char project[PLATFORM_NAME_BYTES];                /**< that it concerns; "" where the route names none */
    struct route_value values[ROUTE_PARAMETERS_MOST]; /**< in the order of the route's parameters */
    const char *idempotency_key; /**< the header Idempotency-Key: 1 to 128 printable characters; or NULL */
    cJSON *body;                 /**< as the schema says; NULL where the route takes none */
    const char *detail;          /**< more on what is done, for router_access.answered; NULL: the path says it */
    bool noted;                  /**< router_access.answered was called */
    void *kept;                  /**< the handler's own, freed by `release` with the call */
    void (*release)(void *kept);
    struct router *router;
    char *path_text, *texts; /**< what `values` point to */
};

/** What a route does, apart from who waits for it: writes the answer, one JSON value, or nothing where it has none. */
typedef weft_status route_work(struct route_call *call, struct json_writer *answer, struct error *error);

/** Answers a call whose work has ended with `status`, on the server's thread. */
typedef void route_done(struct route_call *call, weft_status status, const struct error *error);

struct route {
    const char *method;    /**< "GET" (which serves HEAD too), "POST", "PUT", "PATCH", "DELETE" */
    const char *path;      /**< "/api/v1/runs/{run}/stop" */
    const char *operation; /**< its name in clients that are made from the document: "stopRun" */
    const char *summary;   /**< a message */
    enum route_permission permission;
    const struct route_parameter *parameters; /**< ends with a name of NULL; NULL: none */
    const char *request;                      /**< the schema of the body, which is JSON; NULL: no JSON (but {}) */
    const char *consumes;      /**< another type of body ("application/octet-stream"), given as it comes */
    const char *response;      /**< the schema of the answer; NULL: none */
    const char *produces;      /**< [application/json] */
    const char *produces_also; /**< another type of the same answer, where a parameter asks for it; NULL: none */
    unsigned status;           /**< of success [200; 204 for a route without `response` and `produces`] */
    size_t body_most;          /**< [that of http_limits] */
    bool idempotent_key;       /**< takes an Idempotency-Key */
    bool unnoted; /**< router_access.answered is not called: it was for the surrounding session (a key that is typed) */
    bool project_may_be_new; /**< the {project} of its path need not be there: it is made for who may */
    /** Write the project that the call concerns; false: what it is about is not there. */
    bool (*project_of)(const struct route_call *call, char project[PLATFORM_NAME_BYTES]);
    /** Of an answer that goes on for long: whether the handler would begin it again, for what the table does not say.
     * NULL: it would. */
    bool (*still)(const struct route_call *call);
    void (*handler)(struct route_call *call);
    route_work *work; /**< for handlers that run what their route names, on a thread of their choice */
};

/** What a resource brings. Everything it points to outlives the router. */
struct route_table {
    const struct route *routes;
    size_t route_count;
    const struct schema *schemas;
    size_t schema_count;
    const char *tag; /**< the resource, for the document */
    void *context;   /**< given to its handlers */
};

/** The table of a file that calls its arrays `routes` and `schemas`. */
#define ROUTE_TABLE(resource)                                                                                          \
    {                                                                                                                  \
        .routes = routes, .route_count = ARRAY_SIZE(routes), .schemas = schemas, .schema_count = ARRAY_SIZE(schemas),  \
        .tag = resource                                                                                                \
    }

/** How callers are identified. */
struct router_access {
    /** Everybody needs a token; otherwise the processes of this one's user, and root's, are `local`, and nobody else
     * gets in. */
    bool tokens;
    struct identity local;
    /** Whose token is this? False: nobody's, or it has ended. */
    bool (*identify)(void *context, const char *token, struct identity *who);
    /** Whose session a browser has, where a request shows no token. False: nobody's. NULL: there are none. */
    bool (*identify_session)(void *context, const struct http_request *request, struct identity *who);
    /** Whether somebody who was let in would be again: brings `who` up to date, or says false. NULL: always. */
    bool (*still)(void *context, struct identity *who);
    /** The role of a user in a project as a member, whatever the token, and whether an administrator or not
     * (identity_role() sees to these); NULL: who is somebody is a manager everywhere. */
    enum role (*role_of)(void *context, const struct identity *who, const char *project);
    /** Whether there is such a project; asked for those in paths. NULL: there are all. */
    bool (*project_is_there)(void *context, const char *project);
    /** A call that may have changed something has been answered with `status`. NULL: nobody keeps account. */
    void (*answered)(void *context, const struct route_call *call, unsigned status);
    void *context;
};

struct router_config {
    struct router_access access;
    double rate, burst; /**< requests a second of one user, or address without a token [500, 1000]; rate < 0: any */
    const char *title, *version;      /**< of the document */
    const struct static_files *pages; /**< served where no route is; NULL: none */
};

struct router;

weft_status router_new(const struct router_config *config, struct router **router, struct error *error);
void router_free(struct router *router);

/** Add a resource. Errors: DATA: a table that contradicts itself or what is there. Not once the server runs. */
weft_status router_add(struct router *router, const struct route_table *table, struct error *error);

/** All are added: check what refers to what and make the document. */
weft_status router_finish(struct router *router, struct error *error);

/** For http_config; the router outlives the server. */
struct http_application router_application(struct router *router);

/**
 * Take a request out of a bucket of `name`, a user's (`by_user`) or an address's, for an application beside the router:
 * of the same rate and size, but another one, so that what uses it up leaves the router usable. 0, or the seconds after
 * which there will be one.
 */
double router_rate_apart(struct router *router, const char *name, bool by_user);

/* ---- for handlers ---- */

/** The value of a parameter of the route, by its name; never NULL (see `given`). */
const struct route_value *route_value(const struct route_call *call, const char *name);

/** The role of who calls in `project`: by membership and token. */
enum role route_role(const struct route_call *call, const char *project);

/** Call router_access.answered for the call now, with the status that its answer begins with, so that a long-lived
 * answer is not reported only at its end. It is called once. */
void route_note(struct route_call *call, unsigned status);

/** The status of success. */
unsigned route_status(const struct route *route);

/** Answer with what a work has written, or with its error; with the status alone if it has written nothing. Ends
 * `answer`. */
void route_answer(struct route_call *call, weft_status status, struct json_writer *answer, const struct error *error);

/** Answer with the route's status and a JSON text, which is freed. */
void route_reply(struct route_call *call, struct json_writer *writer);

#endif

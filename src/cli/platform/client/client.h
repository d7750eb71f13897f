/* SPDX-License-Identifier: Apache-2.0 */
/**
 * Shared by the commands of the platform: they ask a Weft server (platform/client/client.h) for JSON and print it.
 *
 *     struct platform platform;
 *     cJSON *runs;
 *     status = platform_open(PLATFORM_PATIENCE, &platform, error);
 *     if (status == WEFT_OK) {
 *         struct platform_path path;
 *         platform_path_begin(&path, "runs");
 *         platform_path_query(&path, "owner", "anna");
 *         status = platform_get(&platform, &path, &runs, error);
 *     }
 *     ... cJSON_Delete(runs) ...
 *     platform_close(&platform);
 *
 * Commands rely on no field of a reply: one that is missing or of another type reads as "", 0 or false, so that command
 * and server may be of different versions.
 */
#ifndef WEFT_CLI_PLATFORM_CLIENT_CLIENT_H
#define WEFT_CLI_PLATFORM_CLIENT_CLIENT_H

#include "base/format/json.h"
#include "platform/client/client.h"

#include <stdbool.h>
#include <stdio.h>

#define PLATFORM_PATIENCE 1.0 /**< seconds for a server that is just starting */

struct platform {
    struct client *client;
    cJSON *server;    /**< the reply of GET /server */
    const char *user; /**< the caller's name on the server */
    unsigned status;  /**< HTTP's, of the last reply; 0: there was none */
};

/** Open the client and get the server's description, trying again for `patience` seconds while none answers. Errors: as
 * in platform/client/client.h; RENDEZVOUS if no server answers. */
weft_status platform_open(double patience, struct platform *platform, struct error *error);
void platform_close(struct platform *platform);

/** A path below /api/v1, built from parts that may hold any characters. */
struct platform_path {
    char text[4096];
    bool query; /**< a '?' was written */
    bool full;  /**< it did not fit; a request with it fails */
};

/** Begin with "/api/v1/" and `first`, which is not escaped ("runs", "projects"). */
void platform_path_begin(struct platform_path *path, const char *first);
void platform_path_part(struct platform_path *path, const char *part);
void platform_path_number(struct platform_path *path, int64_t number);

/** Begin the path of a run, or of what it has: "runs/12/logs". `part` may be NULL. */
void platform_path_run(struct platform_path *path, int64_t run, const char *part);

/** Add a parameter; a NULL `value` adds nothing. */
void platform_path_query(struct platform_path *path, const char *name, const char *value);
void platform_path_query_number(struct platform_path *path, const char *name, int64_t value);

weft_status platform_get(struct platform *platform, const struct platform_path *path, cJSON **json,
                         struct error *error);

/**
 * Send a request that changes something. `body` may be NULL; `key` is the request's Idempotency-Key, or NULL. With a key,
 * a request whose reply was lost is repeated for up to PLATFORM_LOST_SECONDS; the server does it once. *json is NULL if
 * the reply has no body; `json` may be NULL.
 */
#define PLATFORM_LOST_SECONDS 15.0
weft_status platform_send(struct platform *platform, const char *method, const struct platform_path *path,
                          const struct json_writer *body, const char *key, cJSON **json, struct error *error);

/** Errors: ARGUMENT if the user can see no such project; the message names the nearest one. */
weft_status platform_project_check(struct platform *platform, const char *project, struct error *error);

/** After a refusal (4xx): if the user can see no such project, replace the server's message by one with the nearest
 * name. Returns the status in `error`. */
weft_status platform_project_unknown(struct platform *platform, const char *project, struct error *error);

/** The same for a run that does not exist or that the user cannot see. */
weft_status platform_run_unknown(struct platform *platform, int64_t run, struct error *error);

/** Replace the message in `error`: there is no `what` called `name`; did you mean the nearest of the names that the
 * objects of `list` have under `key`? Returns ARGUMENT. */
weft_status platform_unknown(const char *what, const char *name, const cJSON *list, const char *key,
                             struct error *error);

/** Print an object as a line of JSON. */
void platform_print_json(const cJSON *object, FILE *output);

/** Print to standard error why the server has paused scheduling: the field "paused" of `reply`, if present. */
void platform_print_paused(const cJSON *reply);

/* ---- fields of a reply ---- */

const cJSON *field(const cJSON *object, const char *key);     /**< NULL if it is missing */
const char *field_text(const cJSON *object, const char *key); /**< "" if missing or not a string */
double field_number(const cJSON *object, const char *key);    /**< 0 likewise */
int64_t field_integer(const cJSON *object, const char *key);
bool field_true(const cJSON *object, const char *key);

/** Whether the field is present and not null. */
bool field_present(const cJSON *object, const char *key);

#endif

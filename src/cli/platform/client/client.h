/* SPDX-License-Identifier: Apache-2.0 */
/**
 * What the commands of the platform have in common: they ask a Weft server (platform/client/client.h) for JSON and print it.
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
 * Of a reply no field is relied on: one that is missing or of another kind reads as "", 0 or false, so that a command
 * and a server of different age can speak with each other.
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
    const char *user; /**< who is asking, as the server sees it */
    unsigned status;  /**< HTTP's, of the last reply; 0: there was none */
};

/** Open the client and ask the server about itself; one that does not answer is asked again for `patience` seconds.
 * Errors: as client.h has them; RENDEZVOUS if no server answers. */
weft_status platform_open(double patience, struct platform *platform, struct error *error);
void platform_close(struct platform *platform);

/** A path below /api/v1, built from parts that may hold anything. */
struct platform_path {
    char text[4096];
    bool query; /**< a '?' was written */
    bool full;  /**< there was no room; asking then says so */
};

/** `path` begins with "/api/v1/" and `first`, which is taken as it is ("runs", "projects"). */
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
 * Ask for a change. `body` may be NULL; `key` is the request's Idempotency-Key, or NULL. With a key, a request whose
 * answer was lost is sent again until a server answers, for PLATFORM_LOST_SECONDS: it is done once. *json is NULL where
 * there is no reply; `json` may be NULL.
 */
#define PLATFORM_LOST_SECONDS 15.0
weft_status platform_send(struct platform *platform, const char *method, const struct platform_path *path,
                          const struct json_writer *body, const char *key, cJSON **json, struct error *error);

/** Errors: ARGUMENT if the user may see no such project, with the nearest that they may. */
weft_status platform_project_check(struct platform *platform, const char *project, struct error *error);

/** After a refusal (4xx): where `project` is none that the user may see, put a message with the nearest
 * name in place of the server's. Returns the status that is in `error`. */
weft_status platform_project_unknown(struct platform *platform, const char *project, struct error *error);

/** The same for a run that there is not, or that the user may not see. */
weft_status platform_run_unknown(struct platform *platform, int64_t run, struct error *error);

/** Put into `error`, in place of what is there, that there is no `what` called `name`, with the nearest of the texts
 * that the objects of `list` have under `key`. Returns ARGUMENT. */
weft_status platform_unknown(const char *what, const char *name, const cJSON *list, const char *key,
                             struct error *error);

/** Print an object as a line of JSON. */
void platform_print_json(const cJSON *object, FILE *output);

/** Print to standard error why the server has paused scheduling, if it has; `reply` has it as "paused". */
void platform_print_paused(const cJSON *reply);

/* ---- fields of a reply ---- */

const cJSON *field(const cJSON *object, const char *key);     /**< NULL if it is missing */
const char *field_text(const cJSON *object, const char *key); /**< "" if it is missing or no text */
double field_number(const cJSON *object, const char *key);    /**< 0 likewise */
int64_t field_integer(const cJSON *object, const char *key);
bool field_true(const cJSON *object, const char *key);

/** Whether it is there and not null. */
bool field_present(const cJSON *object, const char *key);

#endif

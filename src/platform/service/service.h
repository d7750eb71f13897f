/* SPDX-License-Identifier: Apache-2.0 */
/**
 * The control plane: what `weft serve` is. One directory holds all of its state:
 *
 *     platform.db, metrics.db    registry and metrics (the writer's)
 *     access.db                  tokens and the audit log
 *     exits                      how the server ended the last few times (exits.h)
 *     engine/                    orders and journals of attempts
 *     runs/RUN/                  work/ (where a run's command runs), checkpoints/; or in `shared`
 *     snapshots/                 the code of runs
 *
 * Two threads: the HTTP server's, which reads, and the writer's, which changes. Runs do not need either: they go on
 * when the control plane ends, however it ends, and the next one on the same directory finds them again.
 */
#ifndef WEFT_PLATFORM_SERVICE_SERVICE_H
#define WEFT_PLATFORM_SERVICE_SERVICE_H

#include "platform/engine/engine.h"
#include "platform/http/http.h"
#include "platform/service/internal/policy.h"

#define WEB_PORTS_MOST 64

struct service;

struct service_config {
    const char *directory;               /**< of the state; made if it is missing */
    const char *shared;                  /**< directories of runs are in runs/ of this one; NULL: of the state */
    const char *host;                    /**< NULL: loopback */
    uint16_t port;                       /**< 0: any free one */
    const char *certificate, *key;       /**< NULL: no TLS */
    uint16_t web_port;                   /**< the first of the ports for web servers in runs (web_ports.h) */
    unsigned web_port_count;             /**< in a row, at most WEB_PORTS_MOST; 0: none */
    bool tokens;                         /**< everybody needs one; otherwise everybody is the local administrator */
    const struct service_policy *policy; /**< the policy; outlives the service */
    const char *pod;                     /**< the name of the Pod that the hosts are in */
    bool pretended;                      /**< its hosts are this machine's pretence; see writer.h */
    int64_t unclean_exits;               /**< number within a minute that pauses scheduling (exits.h); 0: never */
    /** Opens the engine, on `directory` and for the platform of this name; orders without a name are its own if it `adopts`
     * them. engine->close() frees it. */
    weft_status (*open_engine)(void *context, const char *directory, const char *platform, bool adopts,
                               struct engine **engine, struct error *error);
    void *context;
    uint32_t engine_files; /**< descriptors that the engine may come to need */
};

/**
 * Open the state, take up what runs, and listen. Errors: those of all parts: STATE where another server has the state
 * open; DATA where it is damaged or of a newer version; ARGUMENT for what may not be listened to.
 */
weft_status service_open(const struct service_config *config, struct service **service, struct error *error);

/** Begin to serve. */
weft_status service_start(struct service *service, struct error *error);

/** Why scheduling is paused, as a message; NULL: it is not. */
const char *service_paused(const struct service *service);

/** "http://127.0.0.1:8400"; `text` has room for 320 bytes. Returns `text`. */
char *service_address(const struct service *service, char *text, size_t room);

/** The first administrator's token where tokens are needed and none was ever made, else "": to be shown once. */
const char *service_first_token(const struct service *service);

/** NULL is allowed. What runs goes on. */
void service_close(struct service *service);

#endif

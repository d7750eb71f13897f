/* SPDX-License-Identifier: Apache-2.0 */
/**
 * A command that runs in a node for somebody who watches it over HTTP. Its output is a stream of lines of JSON, the
 * answer to the call that began it:
 *
 *     {"session":"NAME"}                  first: what the other calls name it by
 *     {"stream":1,"data":"BASE64"}        output; of a terminal all is stream 1
 *     {"exit":0,"signal":0}               last: how it ended; or
 *     {"error":"a message"}              last: why it could not be run, or was lost; with "exit":127 where it is the
 *                                         command that cannot be run
 *
 * and empty lines while nothing comes. What is written to it is taken as fast as it reads. When the client goes, the
 * command gets SIGHUP, and SIGKILL two seconds later.
 *
 * Its ends of pipes, or of a terminal, are watched on the HTTP server's thread, where everything here runs.
 */
#ifndef WEFT_PLATFORM_SERVICE_INTERNAL_EXEC_SESSION_H
#define WEFT_PLATFORM_SERVICE_INTERNAL_EXEC_SESSION_H

#include "platform/agent/link.h"
#include "platform/http/route/route.h"

#define EXEC_SESSION_BYTES 33 /**< of its name */

struct exec_session {
    struct exec_session *next; /* of all */
    struct route_call *call;   /* that began it */
    char name[EXEC_SESSION_BYTES];
    char user[PLATFORM_NAME_BYTES], token[PLATFORM_NAME_BYTES]; /* of who began it */
    /* What is to be run; for the thread that asks for it. */
    struct node_exec_order order;
    int given[3]; /* the command's descriptors; -1: closed. Of a terminal all are given[0] */
    struct node_exec exec;
    /* Our ends. */
    int input, outputs[2]; /* -1: closed. Of a terminal input and outputs[0] are one */
    struct http_watch *input_watch, *output_watches[2], *exec_watch;
    struct route_call *writing; /* a call whose bytes are on their way to the command */
    size_t written;             /* of them */
    bool begun, ended, stopped;
    weft_status status; /* of the end */
    struct error error;
    unsigned quiet, ended_ticks;
};

/**
 * Open pipes to a command: its standard input, output and error are `given`, our ends are `own`, which do not block. On an
 * error, the descriptors that were opened are set, too; the caller has set all to -1. Errors: SYSTEM.
 */
weft_status exec_pipes_open(int given[3], int own[3], struct error *error);

/** Make one for a call: pipes, or a terminal of this size. `order` has the command and environment, which outlive the
 * session. Errors: SYSTEM, MEMORY. */
weft_status exec_session_new(struct route_call *call, const struct node_exec_order *order, unsigned rows,
                             unsigned columns, struct exec_session **session, struct error *error);

/** The command has been asked for: answer the call with the stream. */
void exec_session_begin(struct exec_session *session);

/** Write a call's body to the command, with `end` the end of its input; answers the call, 204 when all is written. */
void exec_session_write(struct exec_session *session, struct route_call *call, bool end);

/** Errors: STATE if it is no terminal. */
weft_status exec_session_resize(struct exec_session *session, unsigned rows, unsigned columns, struct error *error);
weft_status exec_session_signal(struct exec_session *session, int number, struct error *error);

/** End it and free it; NULL is allowed. */
void exec_session_free(struct exec_session *session);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/platform/client/run_lines.h"

#include "base/clock.h"
#include "platform/registry/run/state.h"

#include <inttypes.h>
#include <string.h>
#include <time.h>

#define LOOK_AGAIN_SECONDS 0.3
#define BEAT_SECONDS       15.0 /* between the empty lines of a quiet run */
#define QUIET_SECONDS      60.0
#define CURSOR_BYTES       160

struct watch {
    struct platform *platform;
    const struct run_lines *lines;
    char cursor[CURSOR_BYTES]; /* of the last line; "": none has come, and the beginning is not known yet */
    bool several;              /* nodes */
    bool heard;                /* a line came on this connection */
    bool begun;                /* the lines that were there already have come */
    uint64_t deadline;         /* when to give up on a server that has gone; 0: it is there */
};

static void run_lines_rest(void)
{
    nanosleep(&(struct timespec){.tv_nsec = (long)(LOOK_AGAIN_SECONDS * 1e9)}, NULL);
}

/* ---- lines ---- */

void run_lines_print_origin(const cJSON *line, bool several, FILE *output)
{
    if (several)
        fprintf(output, "[node %" PRId64 "] ", field_integer(line, "node"));
    if (field_present(line, "rank"))
        fprintf(output, "[rank %" PRId64 "] ", field_integer(line, "rank"));
}

static bool run_lines_take_line(void *context, const char *text, size_t size)
{
    struct watch *watch = context;
    watch->begun = true;
    cJSON *line = size > 0 ? cJSON_ParseWithLength(text, size) : NULL;
    if (cJSON_IsObject(line) && cJSON_IsString(field(line, "text"))) {
        watch->lines->take(watch->lines->context, line, watch->several);
        fflush(watch->lines->output);
        watch->heard = true;
        snprintf(watch->cursor, sizeof watch->cursor, "%s", field_text(line, "cursor"));
    }
    cJSON_Delete(line);
    return !ferror(watch->lines->output);
}

/* One connection, for as long as it lasts. */
static weft_status follow_once(struct watch *watch, struct error *error)
{
    const struct run_lines *lines = watch->lines;
    struct platform_path path = *lines->path;
    platform_path_query(&path, "follow", "true");
    if (lines->attempt)
        platform_path_query_number(&path, "attempt", lines->attempt);
    if (*watch->cursor)
        platform_path_query(&path, "after", watch->cursor);
    else
        platform_path_query_number(&path, "most", lines->last);
    if (path.full)
        return error_set(error, WEFT_ERROR_ARGUMENT, "the search text is too long for a request");
    return client_lines(watch->platform->client, &(struct client_request){.method = "GET", .path = path.text},
                        QUIET_SECONDS, run_lines_take_line, watch, error);
}

/* Where to continue if no line came: after the last one that is there now. */
static weft_status run_lines_find_end(struct watch *watch, struct error *error)
{
    struct platform_path path = *watch->lines->path;
    cJSON *page = NULL;
    if (watch->lines->attempt)
        platform_path_query_number(&path, "attempt", watch->lines->attempt);
    platform_path_query_number(&path, "most", 1);
    weft_status status = platform_get(watch->platform, &path, &page, error);
    if (status == WEFT_OK)
        snprintf(watch->cursor, sizeof watch->cursor, "%s", field_text(page, "after"));
    cJSON_Delete(page);
    return status;
}

/* If there was no line before, continue with the first one. `epoch` is the attempt before; 0: none. */
static void begin_at_first(struct watch *watch, const cJSON *run, int64_t epoch)
{
    if (!*watch->cursor && field_integer(run, "epoch") > 0 && (epoch == 0 || watch->begun))
        snprintf(watch->cursor, sizeof watch->cursor, "%" PRId64 ".0.0.0.0", epoch > 0 ? epoch : 1);
}

/* ---- a server that goes away ---- */

/* Whether a failure means that the server has gone and may be back soon, rather than that it refused. */
static bool is_away(weft_status status)
{
    return status == WEFT_ERROR_RENDEZVOUS || status == WEFT_ERROR_NETWORK || status == WEFT_ERROR_TIMEOUT ||
           status == WEFT_ERROR_SYSTEM;
}

static weft_status run_lines_give_up(const struct watch *watch, weft_status status, const struct error *why,
                                     struct error *error)
{
    return error_set(error, status,
                     "%s. The state of run %" PRId64 " is unknown: when the server is back, 'weft logs -f %" PRId64
                     "' follows it, and 'weft ps %" PRId64 "' shows how it ended",
                     why->text, watch->lines->run, watch->lines->run, watch->lines->run);
}

/* Get the run's description, waiting for the server if need be. `cause` is the error that ended the last connection. */
static weft_status ask_for_run(struct watch *watch, const struct error *cause, cJSON **run, struct error *error)
{
    struct platform_path path;
    bool told = false;
    platform_path_run(&path, watch->lines->run, NULL);
    if (cause->status != WEFT_OK && !watch->deadline)
        watch->deadline = clock_after(RUN_LINES_AWAY_SECONDS);
    for (;;) {
        struct error why = {0};
        weft_status status = platform_get(watch->platform, &path, run, &why);
        if (status == WEFT_OK && told) {
            fprintf(stderr, "weft: the Weft server at %s is back\n", client_server(watch->platform->client));
            watch->deadline = 0;
            return WEFT_OK;
        }
        if (status == WEFT_OK && (cause->status == WEFT_OK || clock_now() < watch->deadline))
            return WEFT_OK;
        if (status == WEFT_OK) { /* it answers, but cuts every connection that follows the lines */
            cJSON_Delete(*run);
            *run = NULL;
            return run_lines_give_up(watch, cause->status, cause, error);
        }
        if (!is_away(status))
            return error_set(error, status, "%s", why.text);
        if (!watch->deadline)
            watch->deadline = clock_after(RUN_LINES_AWAY_SECONDS);
        if (clock_now() >= watch->deadline)
            return run_lines_give_up(watch, status, &why, error);
        if (!told)
            fprintf(stderr, "weft: %s. Run %" PRId64 " continues without the server; waiting for the server for %g s\n",
                    why.text, watch->lines->run, RUN_LINES_AWAY_SECONDS);
        told = true;
        run_lines_rest();
    }
}

/* ---- the whole ---- */

static bool run_lines_is_over(const struct run_lines *lines, const cJSON *run)
{
    enum run_state state;
    return !run_state_find(field_text(run, "state"), &state) || run_state_is_final(state) ||
           (lines->attempt && field_integer(run, "epoch") > lines->attempt);
}

/* Follow over one connection. *run is set once the run is over and all of its lines have come. */
static weft_status run_lines_follow_on(struct watch *watch, int64_t epoch, cJSON **run, struct error *error)
{
    struct error cut = {0};
    uint64_t beat = clock_after(BEAT_SECONDS);
    watch->heard = false;
    weft_status status = follow_once(watch, &cut);
    if (ferror(watch->lines->output))
        return error_system(error, "cannot print the lines of run %" PRId64, watch->lines->run);
    if (watch->heard || clock_now() >= beat)
        watch->deadline = 0; /* the server was there until now */
    if (status != WEFT_OK && !is_away(status))
        return error_set(error, status, "%s", cut.text);
    status = ask_for_run(watch, &cut, run, error);
    if (status != WEFT_OK)
        return status;
    begin_at_first(watch, *run, epoch);
    if (cut.status == WEFT_OK && run_lines_is_over(watch->lines, *run))
        return WEFT_OK;
    cJSON_Delete(*run);
    *run = NULL;
    run_lines_rest();
    return WEFT_OK;
}

weft_status run_lines_follow(struct platform *platform, const struct run_lines *lines, cJSON **ended,
                             struct error *error)
{
    struct watch watch = {.platform = platform, .lines = lines};
    static const struct error none = {0};
    cJSON *run = NULL;
    weft_status status = ask_for_run(&watch, &none, &run, error);
    const int64_t epoch = lines->attempt ? lines->attempt : field_integer(run, "epoch");
    watch.several = field_integer(run, "nodes") > 1;
    cJSON_Delete(run);
    run = NULL;
    if (status == WEFT_OK && lines->last == 0 && epoch > 0)
        status = run_lines_find_end(&watch, error);
    while (status == WEFT_OK && !run)
        status = run_lines_follow_on(&watch, epoch, &run, error);
    if (status == WEFT_OK)
        *ended = run;
    return status;
}

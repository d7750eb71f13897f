/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/run_follow.h"

#include "base/clock.h"
#include "base/text.h"
#include "platform/run_state.h"

#include <inttypes.h>
#include <string.h>
#include <time.h>

#define LOOK_AGAIN_SECONDS 0.3
#define BEAT_SECONDS       15.0 /* an empty line comes so often where nothing else does */
#define QUIET_SECONDS      60.0
#define AWAY_SECONDS       30.0    /* so long a server that is being started anew is waited for */
#define LINES_BEFORE       "10000" /* of what was printed already */
#define STANDARD_OUTPUT    1       /* the stream of a line */

struct following {
    FILE *output;
    bool several;     /* nodes */
    bool heard;       /* a line came on this connection */
    char cursor[160]; /* of the last line; "" before one came */
};

static bool print_line(void *context, const char *text, size_t size)
{
    struct following *following = context;
    cJSON *line = size > 0 ? cJSON_ParseWithLength(text, size) : NULL;
    if (cJSON_IsObject(line) && cJSON_IsString(field(line, "text"))) {
        FILE *output = field_integer(line, "stream") == STANDARD_OUTPUT ? following->output : stderr;
        if (following->several)
            fprintf(output, "[node %" PRId64 "] ", field_integer(line, "node"));
        if (field_present(line, "rank"))
            fprintf(output, "[rank %" PRId64 "] ", field_integer(line, "rank"));
        /* As the program wrote it: colours and bars of progress are its own. */
        fprintf(output, "%s\n", field_text(line, "text"));
        fflush(output);
        following->heard = true;
        snprintf(following->cursor, sizeof following->cursor, "%s", field_text(line, "cursor"));
    }
    cJSON_Delete(line);
    return !ferror(following->output);
}

static weft_status follow_once(struct platform *platform, int64_t run, struct following *following, struct error *error)
{
    struct platform_path path;
    platform_path_begin(&path, "runs");
    platform_path_number(&path, run);
    platform_path_part(&path, "logs");
    platform_path_query(&path, "follow", "true");
    if (*following->cursor)
        platform_path_query(&path, "after", following->cursor);
    else
        platform_path_query(&path, "most", LINES_BEFORE);
    return client_lines(platform->client, &(struct client_request){.method = "GET", .path = path.text}, QUIET_SECONDS,
                        print_line, following, error);
}

/* The run goes on while the server is away: follow it behind the last line when the server is back. */
static weft_status follow(struct platform *platform, int64_t run, struct following *following, struct error *error)
{
    uint64_t deadline = clock_after(AWAY_SECONDS);
    for (;;) {
        struct error why = {0};
        uint64_t beat = clock_after(BEAT_SECONDS);
        following->heard = false;
        weft_status status = follow_once(platform, run, following, &why);
        bool cut = status == WEFT_ERROR_NETWORK || status == WEFT_ERROR_TIMEOUT;
        if (status == WEFT_OK)
            return WEFT_OK;
        if (cut && (following->heard || clock_now() >= beat))
            deadline = clock_after(AWAY_SECONDS); /* it was there until now */
        if (!(cut || status == WEFT_ERROR_RENDEZVOUS) || clock_now() >= deadline)
            return error_set(error, status, "%s", why.text);
        nanosleep(&(struct timespec){.tv_nsec = (long)(LOOK_AGAIN_SECONDS * 1e9)}, NULL);
    }
}

/* Ask until the run is in a final state: the last lines may come a moment before. */
static weft_status wait_for_end(struct platform *platform, int64_t run, cJSON **object, struct error *error)
{
    struct platform_path path;
    platform_path_begin(&path, "runs");
    platform_path_number(&path, run);
    for (;;) {
        enum run_state state;
        weft_status status = platform_get(platform, &path, object, error);
        if (status != WEFT_OK)
            return status;
        if (!run_state_find(field_text(*object, "state"), &state) || run_state_is_final(state))
            return WEFT_OK;
        cJSON_Delete(*object);
        *object = NULL;
        nanosleep(&(struct timespec){.tv_nsec = (long)(LOOK_AGAIN_SECONDS * 1e9)}, NULL);
    }
}

weft_status run_follow(struct platform *platform, int64_t run, FILE *output, int *exit_code, struct error *error)
{
    struct platform_path path;
    struct following following = {.output = output};
    cJSON *object = NULL;
    platform_path_begin(&path, "runs");
    platform_path_number(&path, run);
    weft_status status = platform_get(platform, &path, &object, error);
    if (status != WEFT_OK)
        return status;
    following.several = field_integer(object, "nodes") > 1;
    cJSON_Delete(object);
    object = NULL;
    status = follow(platform, run, &following, error);
    if (status == WEFT_OK)
        status = wait_for_end(platform, run, &object, error);
    if (status != WEFT_OK)
        return status;
    char reason[512];
    const char *state = field_text(object, "state");
    snprintf(reason, sizeof reason, "%s", field_text(object, "reason"));
    bool well = strcmp(state, "succeeded") == 0;
    fprintf(stderr, "run %" PRId64 " has %s%s%s\n", run, strcmp(state, "cancelled") == 0 ? "been cancelled" : state,
            *reason ? ": " : "", text_printable(reason));
    *exit_code = well ? 0 : 1;
    cJSON_Delete(object);
    return WEFT_OK;
}

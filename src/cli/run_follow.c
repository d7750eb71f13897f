/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/run_follow.h"

#include "base/text.h"
#include "cli/run_lines.h"

#include <inttypes.h>
#include <string.h>

#define LINES_BEFORE    10000 /* of what was printed already */
#define STANDARD_OUTPUT 1     /* the stream of a line */

static void print_line(void *context, const cJSON *line, bool several)
{
    FILE *output = field_integer(line, "stream") == STANDARD_OUTPUT ? context : stderr;
    if (several)
        fprintf(output, "[node %" PRId64 "] ", field_integer(line, "node"));
    if (field_present(line, "rank"))
        fprintf(output, "[rank %" PRId64 "] ", field_integer(line, "rank"));
    /* As the program wrote it: colours and bars of progress are its own. */
    fprintf(output, "%s\n", field_text(line, "text"));
}

weft_status run_follow(struct platform *platform, int64_t run, FILE *output, int *exit_code, struct error *error)
{
    struct platform_path path;
    cJSON *object = NULL;
    platform_path_begin(&path, "runs");
    platform_path_number(&path, run);
    platform_path_part(&path, "logs");
    const struct run_lines lines = {
        .run = run, .last = LINES_BEFORE, .path = &path, .output = output, .take = print_line, .context = output};
    weft_status status = run_lines_follow(platform, &lines, &object, error);
    if (status != WEFT_OK) {
        *exit_code = RUN_LINES_LOST;
        return status;
    }
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

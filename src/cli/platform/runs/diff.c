/* SPDX-License-Identifier: Apache-2.0 */
/* `weft diff`: what differs between two runs. */
#include "base/format/json_put.h"
#include "base/text.h"
#include "cli/frame/command.h"
#include "cli/platform/client/list.h"
#include "cli/platform/client/run_reference.h"
#include "cli/platform/runs/difference.h"

#include <inttypes.h>
#include <string.h>

static struct {
    bool json;
} chosen;

static const struct cli_option options[] = {
    CLI_FLAG("json", 0, &chosen.json, "a line of JSON for each difference"),
};

/* One of the two runs, with the replies that `compared` points into. */
struct side {
    int64_t run;
    cJSON *object, *snapshot;
    struct platform_listed metrics; /* names in order */
    struct run_compared compared;
};

static weft_status read_side(struct platform *platform, const char *word, struct side *side, struct error *error)
{
    struct platform_path path;
    weft_status status = run_reference_get(platform, word, &side->run, &side->object, error);
    if (status != WEFT_OK)
        return status;
    const char *snapshot = field_text(field(side->object, "specification"), "snapshot");
    if (*snapshot) {
        platform_path_begin(&path, "projects");
        platform_path_part(&path, field_text(side->object, "project"));
        platform_path_part(&path, "snapshots");
        platform_path_part(&path, snapshot);
        (void)platform_get(platform, &path, &side->snapshot, NULL); /* not every run or server has it */
    }
    platform_path_run(&path, side->run, "metrics");
    platform_list_get(platform, &path, &platform_list_metrics, 0, &side->metrics, NULL);
    side->compared = (struct run_compared){
        .run = side->object, .entries = field(side->snapshot, "entries"), .metrics = side->metrics.items};
    return WEFT_OK;
}

static void free_side(struct side *side)
{
    cJSON_Delete(side->object);
    cJSON_Delete(side->snapshot);
    platform_listed_free(&side->metrics);
}

static void print_title(FILE *output, const char *sign, const struct side *side)
{
    char name[256];
    snprintf(name, sizeof name, "%s", field_text(side->object, "name"));
    fprintf(output, "%s run %" PRId64 "%s%s\n", sign, side->run, *name ? "  " : "", text_printable(name));
}

static weft_status diff_compare(const struct side *left, const struct side *right, FILE *output, struct error *error)
{
    struct run_differences differences;
    weft_status status = run_differences_find(&left->compared, &right->compared, &differences, error);
    if (status != WEFT_OK)
        return status;
    for (size_t i = 0; chosen.json && i < differences.count; i++) {
        const struct run_difference *difference = &differences.list[i];
        JSON_PRINT(output, NULL, "section", difference->section, "what", difference->what, "left", difference->left,
                   "right", difference->right);
    }
    if (!chosen.json && differences.count == 0)
        fprintf(output, "runs %" PRId64 " and %" PRId64 " do not differ\n", left->run, right->run);
    if (!chosen.json && differences.count > 0) {
        print_title(output, "---", left);
        print_title(output, "+++", right);
        run_differences_print(&differences, output);
    }
    run_differences_free(&differences);
    return WEFT_OK;
}

static weft_status diff_run(struct command_call *call, struct error *error)
{
    struct platform platform;
    struct side left = {0}, right = {0};
    weft_status status = platform_open(PLATFORM_PATIENCE, &platform, error);
    if (status != WEFT_OK)
        return status;
    status = read_side(&platform, call->words[0], &left, error);
    if (status == WEFT_OK)
        status = read_side(&platform, call->words[1], &right, error);
    if (status == WEFT_OK)
        status = diff_compare(&left, &right, call->output, error);
    free_side(&left);
    free_side(&right);
    platform_close(&platform);
    return status;
}

const struct command command_diff = {
    .name = "diff",
    .group = COMMAND_PLATFORM,
    .summary = "show what differs between two runs",
    .description =
        "Compares settings (resources, limits, class ...), arguments option by option, environment, code (git "
        "commit, and each file of the snapshot) and results (state, times, the last value of each metric). Lines "
        "with - are of the first run, lines with + of the second.",
    .examples = "weft diff 12 13\nweft diff baseline 13 --json\n",
    .words = "RUN RUN",
    COMMAND_OPTIONS(options),
    .run = diff_run,
};

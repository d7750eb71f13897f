/* SPDX-License-Identifier: Apache-2.0 */
/* `weft plot`: the curves of training runs, as a picture. */
#include "base/file/file.h"
#include "base/file/named_output.h"
#include "base/text.h"
#include "cli/frame/command.h"
#include "platform/metrics/chart/run_chart.h"
#include "training/train/report/names.h"

#include <stdlib.h>
#include <string.h>

static struct {
    const char *output, *title;
    double smooth;
    bool log;
} chosen;

static const struct cli_option options[] = {
    CLI_TEXT("output", 'o', "FILE", &chosen.output, "plot.svg", "write the picture to FILE; -: standard output"),
    CLI_FLAG("log", 'l', &chosen.log, "show the loss on a logarithmic axis"),
    CLI_NUMBER("smooth", 0, "SHARE", &chosen.smooth, "0.02", 0, 0.5,
               "average the loss over this share of the run; 0: no average"),
    CLI_TEXT("title", 0, "TEXT", &chosen.title, NULL, "title of the picture", .default_text = "the run's name"),
};

struct runs {
    struct metrics metrics[RUN_CHART_MOST];
    char names[RUN_CHART_MOST][256];
    const char *texts[RUN_CHART_MOST]; /* the same */
    size_t count;
};

/* "runs/first/", "runs/first/metrics.jsonl": first; "other.jsonl": other. */
static void plot_name_of(const char *word, char *name, size_t size)
{
    char path[FILE_PATH_BYTES];
    snprintf(path, sizeof path, "%s", word);
    const size_t length = strlen(path), tail = strlen("/" REPORT_METRICS_NAME);
    if (length > tail && strcmp(path + length - tail, "/" REPORT_METRICS_NAME) == 0)
        path[length - tail] = 0;
    for (size_t end = strlen(path); end > 1 && path[end - 1] == '/'; end--)
        path[end - 1] = 0;
    snprintf(name, size, "%s", *file_name(path) ? file_name(path) : path);
    char *dot = strrchr(name, '.');
    if (dot && dot > name && strcmp(dot, ".jsonl") == 0)
        *dot = 0;
    text_printable(name);
}

static weft_status read_runs(struct command_call *call, struct runs *runs, struct error *error)
{
    char path[FILE_PATH_BYTES];
    for (size_t i = 0; i < call->word_count; i++) {
        weft_status status = report_find_metrics(call->words[i], path, error);
        if (status == WEFT_OK)
            status = metrics_read(path, &runs->metrics[i], error);
        if (status != WEFT_OK)
            return status;
        runs->count = i + 1;
        plot_name_of(call->words[i], runs->names[i], sizeof runs->names[i]);
        runs->texts[i] = runs->names[i];
    }
    return WEFT_OK;
}

static weft_status plot_run(struct command_call *call, struct error *error)
{
    struct runs *runs = calloc(1, sizeof *runs);
    char *svg = NULL;
    size_t size = 0;
    if (!runs)
        return error_memory(error, sizeof *runs, "a list of runs");
    weft_status status = read_runs(call, runs, error);
    if (status == WEFT_OK)
        status = run_chart_draw(&(struct run_chart){.runs = runs->metrics,
                                                    .names = runs->texts,
                                                    .count = runs->count,
                                                    .title = chosen.title,
                                                    .log = chosen.log,
                                                    .smooth = chosen.smooth},
                                &svg, &size, error);
    if (status == WEFT_OK)
        status = named_output_write(chosen.output, svg, size, error);
    if (status == WEFT_OK && !named_output_is_standard(chosen.output))
        fprintf(call->output, "%s\n", chosen.output);
    for (size_t i = 0; i < runs->count; i++)
        metrics_free(&runs->metrics[i]);
    free(runs);
    free(svg);
    return status;
}

const struct command command_plot = {
    .name = "plot",
    .group = COMMAND_UNDERSTAND,
    .summary = "draw the curves of training runs",
    .description =
        "Draws an SVG of the metrics written by weft train --metrics: loss of each step and its average, held-out "
        "loss, learning rate, tokens/s. Several runs share one picture. RUN is a metrics file, or a directory with "
        "a metrics.jsonl; the run may still be in progress.",
    .examples = "weft train --data data/bible.txt --checkpoint-dir runs/first --metrics runs/first/metrics.jsonl\n"
                "weft plot runs/first --output first.svg\n"
                "weft plot runs/first runs/second --log\n",
    .words = "RUN...",
    .most_words = RUN_CHART_MOST,
    COMMAND_OPTIONS(options),
    .run = plot_run,
};

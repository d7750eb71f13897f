/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Lines for users: permanent ones at intervals and, if the stream is a terminal with cursor control or reaches one
 * through weft run, a live line in between that is overwritten.
 *
 * The live line is never wider than the terminal, uses no color, and is erased before anything else is printed:
 * the remaining text on the screen and in its scrollback equals the output to a file.
 */
#include "training/train/report/internal/sink.h"

#include "base/clock.h"
#include "base/terminal.h"
#include "base/text.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define LIVE_NANOSECONDS 250000000u /* between two of the live line */
#define LIVE_BYTES       256
#define BAR_CELLS        20

struct report_line {
    FILE *out;
    uint64_t every;
    bool live;         /* there is such a terminal */
    bool shown;        /* a live line stands there now */
    uint64_t redrawn;  /* clock_now() of the last one */
    uint64_t gathered; /* steps since the last line that stays */
    double seconds, wait_seconds;
};

/* Columns of the terminal that the stream is, or on which the launcher shows it; 0: no live line is possible. */
static size_t live_columns(FILE *out)
{
    const char *of_launcher = getenv("WEFT_COLUMNS");
    const int descriptor = fileno(out);
    const uint32_t columns = terminal_columns(descriptor);
    return !columns && descriptor == STDOUT_FILENO && of_launcher ? strtoul(of_launcher, NULL, 10) : columns;
}

static weft_status line_open(const struct report_options *options, void **state, struct error *error)
{
    if (!options->out)
        return WEFT_OK;
    struct report_line *line = calloc(1, sizeof *line);
    if (!line)
        return error_memory(error, sizeof *line, "the progress line");
    *line = (struct report_line){
        .out = options->out, .every = options->every, .live = options->every && live_columns(options->out)};
    *state = line;
    return WEFT_OK;
}

void report_line_clear(void *state)
{
    struct report_line *line = state;
    if (line->shown)
        fputs("\r\033[K", line->out);
    line->shown = false;
}

static const char *line_unit(const struct report_run *run)
{
    return run->unit ? run->unit : "tokens";
}

/* ---- the line that stays ---- */

static void line_print(struct report_line *line, const struct report_figures *figures)
{
    const struct report_run *run = figures->run;
    const struct report_step *step = &figures->step;
    const double each = line->seconds / (double)line->gathered;
    char left[32], share[32] = "", skipped[64] = "";
    text_time_left(each * (double)(run->steps - step->step), left, sizeof left);
    if (run->peak > 0)
        snprintf(share, sizeof share, "  %4.1f%% of peak", 100 * run->flops / each / run->peak);
    if (step->skipped)
        snprintf(skipped, sizeof skipped, "  skipped: overflow at loss scale %g", step->loss_scale);
    report_line_clear(line);
    fprintf(line->out,
            "step %*" PRIu64 "/%" PRIu64
            "  loss %.4f  rate %.2e  norm %.2f  %8.0f %s/s  %5.1f GFLOP/s%s  waiting %4.1f%%  %s left%s\n",
            snprintf(NULL, 0, "%" PRIu64, run->steps), step->step, run->steps, step->loss, step->rate,
            step->gradient_norm, run->tokens / each, line_unit(run), run->flops / each * 1e-9, share,
            100.0 * line->wait_seconds / line->seconds, left, skipped);
    fflush(line->out);
    line->gathered = 0;
    line->seconds = line->wait_seconds = 0;
}

/* ---- the live line ---- */

/* The fields of the live line in order; those with the highest number are dropped first if there is no room. */
enum live_field {
    LIVE_STEP,
    LIVE_BAR,
    LIVE_LOSS,
    LIVE_TOKENS,
    LIVE_SHARE,
    LIVE_WAIT,
    LIVE_LEFT,
    LIVE_FIELDS,
};
static const int importance[LIVE_FIELDS] = {
    [LIVE_STEP] = 0, [LIVE_LOSS] = 1,  [LIVE_LEFT] = 2, [LIVE_TOKENS] = 3,
    [LIVE_WAIT] = 4, [LIVE_SHARE] = 5, [LIVE_BAR] = 6,
};

static void fill_fields(const struct report_figures *figures, char fields[LIVE_FIELDS][64])
{
    const struct report_run *run = figures->run;
    const struct report_speed *recent = &figures->recent;
    const double done = run->steps ? (double)figures->step.step / (double)run->steps : 1;
    char left[32], bar[BAR_CELLS + 1];
    memset(fields, 0, LIVE_FIELDS * sizeof *fields);
    text_time_left(figures->left, left, sizeof left);
    for (int i = 0; i < BAR_CELLS; i++)
        bar[i] = i < (int)(done * BAR_CELLS) ? '#' : '-';
    bar[BAR_CELLS] = 0;
    snprintf(fields[LIVE_STEP], sizeof *fields, "step %" PRIu64 "/%" PRIu64, figures->step.step, run->steps);
    snprintf(fields[LIVE_BAR], sizeof *fields, "[%s] %.0f%%", bar, 100 * done);
    snprintf(fields[LIVE_LOSS], sizeof *fields, "loss %.4f", figures->step.loss);
    snprintf(fields[LIVE_TOKENS], sizeof *fields, "%.0f %s/s", recent->tokens, line_unit(figures->run));
    if (isfinite(recent->share))
        snprintf(fields[LIVE_SHARE], sizeof *fields, "%.1f%% of peak", 100 * recent->share);
    snprintf(fields[LIVE_WAIT], sizeof *fields, "waiting %.1f%%", 100 * recent->wait);
    snprintf(fields[LIVE_LEFT], sizeof *fields, "%s left", left);
}

/* The most important fields that fit into `width` columns. */
static void compose(char fields[LIVE_FIELDS][64], size_t width, char text[LIVE_BYTES])
{
    int most = LIVE_FIELDS;
    size_t length;
    do { /* leave out the least important one */
        most--;
        length = 0;
        for (int i = 0; i < LIVE_FIELDS; i++)
            if (importance[i] <= most && *fields[i])
                length += strlen(fields[i]) + (length ? 2 : 0);
    } while (most > 0 && length > width);
    length = 0;
    text[0] = 0;
    for (int i = 0; i < LIVE_FIELDS; i++)
        if (importance[i] <= most && *fields[i])
            length += (size_t)snprintf(text + length, LIVE_BYTES - length, "%s%s", length ? "  " : "", fields[i]);
    if (length > width)
        text[width] = 0;
}

/* The last column stays empty: some terminals go on to the next line when it is written. */
static void line_draw_live(struct report_line *line, const struct report_figures *figures)
{
    const uint64_t now = clock_now();
    if (now - line->redrawn < LIVE_NANOSECONDS)
        return;
    char fields[LIVE_FIELDS][64], text[LIVE_BYTES];
    fill_fields(figures, fields);
    compose(fields, live_columns(line->out) - 1, text);
    fprintf(line->out, "\r%s\033[K", text);
    fflush(line->out);
    line->shown = true;
    line->redrawn = now;
}

static weft_status line_step(void *state, const struct report_figures *figures, struct error *error)
{
    struct report_line *line = state;
    const uint64_t step = figures->step.step;
    line->gathered++;
    line->seconds += figures->step.seconds;
    line->wait_seconds += figures->step.wait_seconds;
    if (line->every && (step % line->every == 0 || step == 1 || step == figures->run->steps || figures->step.skipped))
        line_print(line, figures);
    else if (line->live)
        line_draw_live(line, figures);
    return WEFT_OK;
}

/* ---- the rest ---- */

static weft_status line_evaluation(void *state, const struct report_held_out *held_out, struct error *error)
{
    struct report_line *line = state;
    report_line_clear(line);
    if (isnan(held_out->accuracy))
        fprintf(line->out, "held-out text after step %" PRIu64 ": loss %.4f, perplexity %.2f", held_out->step,
                held_out->loss, exp(held_out->loss));
    else
        fprintf(line->out, "held-out data after step %" PRIu64 ": loss %.4f, accuracy %.4f", held_out->step,
                held_out->loss, held_out->accuracy);
    if (held_out->run->bytes_per_token > 0)
        fprintf(line->out, ", %.3f bit/byte", held_out->bits_per_byte);
    fputc('\n', line->out);
    fflush(line->out);
    return WEFT_OK;
}

static weft_status line_end(void *state, const struct report_last *last, struct error *error)
{
    report_line_clear(state);
    fflush(((struct report_line *)state)->out);
    return WEFT_OK;
}

static void line_close(void *state)
{
    report_line_clear(state);
    free(state);
}

const struct report_sink report_sink_line = {
    .name = "the progress line",
    .open = line_open,
    .step = line_step,
    .evaluation = line_evaluation,
    .end = line_end,
    .close = line_close,
};

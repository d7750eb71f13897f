/* SPDX-License-Identifier: Apache-2.0 */
#include "train/report.h"

#include "base/json.h"
#include "base/text.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

weft_status report_open(struct report *report, FILE *out, const char *metrics, struct error *error)
{
    report->out = out;
    report->metrics = NULL;
    report->gathered = 0;
    report->seconds = report->wait_seconds = 0;
    if (metrics && !(report->metrics = fopen(metrics, "a")))
        return error_system(error, "cannot write metrics to '%s'", metrics);
    return WEFT_OK;
}

weft_status report_close(struct report *report, struct error *error)
{
    FILE *metrics = report->metrics;
    report->metrics = NULL;
    if (metrics && (ferror(metrics) | fclose(metrics)))
        return error_system(error, "the metrics file could not be written whole");
    return WEFT_OK;
}

static void time_left(double seconds, char *text, size_t size)
{
    unsigned long whole = (unsigned long)llround(seconds);
    if (whole >= 3600)
        snprintf(text, size, "%luh%02lum", whole / 3600, whole / 60 % 60);
    else if (whole >= 60)
        snprintf(text, size, "%lum%02lus", whole / 60, whole % 60);
    else
        snprintf(text, size, "%lus", whole);
}

void report_step(struct report *report, const struct report_step *step)
{
    report->gathered++;
    report->seconds += step->seconds;
    report->wait_seconds += step->wait_seconds;
    if (report->metrics) {
        fprintf(report->metrics,
                "{\"event\":\"step\",\"step\":%" PRIu64
                ",\"loss\":%.9g,\"rate\":%.9g,\"gradient_norm\":%.9g,\"seconds\":%.6f,"
                "\"wait_seconds\":%.6f,\"data_seconds\":%.6f,\"tokens_per_second\":%.1f}\n",
                step->step, step->loss, step->rate, step->gradient_norm, step->seconds, step->wait_seconds,
                step->data_seconds, report->tokens / step->seconds);
        fflush(report->metrics);
    }
    bool due = report->every && (step->step % report->every == 0 || step->step == 1 || step->step == report->steps);
    if (!due || !report->out)
        return;
    char left[32];
    double each = report->seconds / (double)report->gathered;
    time_left(each * (double)(report->steps - step->step), left, sizeof left);
    fprintf(report->out,
            "step %*" PRIu64 "/%" PRIu64
            "  loss %.4f  rate %.2e  norm %.2f  %8.0f tokens/s  %5.1f GFLOP/s  waiting %4.1f%%  %s left\n",
            snprintf(NULL, 0, "%" PRIu64, report->steps), step->step, report->steps, step->loss, step->rate,
            step->gradient_norm, report->tokens / each, report->flops / each * 1e-9,
            100.0 * report->wait_seconds / report->seconds, left);
    fflush(report->out);
    report->gathered = 0;
    report->seconds = report->wait_seconds = 0;
}

void report_evaluation(struct report *report, uint64_t step, double loss, double bytes_per_token)
{
    double bits = bytes_per_token > 0 ? loss / log(2.0) / bytes_per_token : 0;
    if (report->metrics) {
        fprintf(report->metrics, "{\"event\":\"evaluation\",\"step\":%" PRIu64 ",\"loss\":%.9g", step, loss);
        if (bytes_per_token > 0)
            fprintf(report->metrics, ",\"bits_per_byte\":%.9g", bits);
        fputs("}\n", report->metrics);
        fflush(report->metrics);
    }
    if (!report->out)
        return;
    fprintf(report->out, "held-out text after step %" PRIu64 ": loss %.4f, perplexity %.2f", step, loss, exp(loss));
    if (bytes_per_token > 0)
        fprintf(report->out, ", %.3f bit/byte", bits);
    fputc('\n', report->out);
    fflush(report->out);
}

/* The same as a JSON line. */
static void put_checkpoint(FILE *metrics, const struct report_checkpoint *checkpoint)
{
    struct json_writer line;
    json_begin(&line, JSON_LINE);
    json_open_object(&line, NULL);
    json_put_text(&line, "event", "checkpoint");
    json_put_unsigned(&line, "step", checkpoint->step);
    json_put_text(&line, "path", checkpoint->path);
    json_put_unsigned(&line, "bytes", checkpoint->bytes);
    json_put_number(&line, "seconds", checkpoint->seconds);
    json_put_number(&line, "pause_seconds", checkpoint->pause_seconds);
    if (checkpoint->problem)
        json_put_text(&line, "problem", checkpoint->problem);
    json_close(&line);
    json_print(&line, metrics, NULL);
    json_end(&line);
    fflush(metrics);
}

void report_checkpoint(struct report *report, const struct report_checkpoint *checkpoint)
{
    if (report->metrics)
        put_checkpoint(report->metrics, checkpoint);
    if (!report->out)
        return;
    char bytes[32];
    if (checkpoint->problem)
        fprintf(report->out, "no checkpoint of step %" PRIu64 ", training goes on: %s\n", checkpoint->step,
                checkpoint->problem);
    else
        fprintf(report->out, "checkpoint %s  %s in %u file%s, whole after %.2f s; training paused for %.2f s\n",
                checkpoint->path, text_bytes(checkpoint->bytes, bytes, sizeof bytes), checkpoint->files,
                checkpoint->files == 1 ? "" : "s", checkpoint->seconds, checkpoint->pause_seconds);
    fflush(report->out);
}

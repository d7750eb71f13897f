/* SPDX-License-Identifier: Apache-2.0 */
#include "train/progress.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

weft_status progress_open(struct progress *progress, FILE *out, const char *metrics, struct error *error)
{
    progress->out = out;
    progress->metrics = NULL;
    progress->gathered = 0;
    progress->seconds = progress->wait_seconds = 0;
    if (metrics && !(progress->metrics = fopen(metrics, "a")))
        return error_system(error, "cannot write metrics to '%s'", metrics);
    return WEFT_OK;
}

weft_status progress_close(struct progress *progress, struct error *error)
{
    FILE *metrics = progress->metrics;
    progress->metrics = NULL;
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

void progress_step(struct progress *progress, const struct progress_step *step)
{
    progress->gathered++;
    progress->seconds += step->seconds;
    progress->wait_seconds += step->wait_seconds;
    if (progress->metrics) {
        fprintf(progress->metrics,
                "{\"event\":\"step\",\"step\":%" PRIu64
                ",\"loss\":%.9g,\"rate\":%.9g,\"gradient_norm\":%.9g,\"seconds\":%.6f,"
                "\"wait_seconds\":%.6f,\"tokens_per_second\":%.1f}\n",
                step->step, step->loss, step->rate, step->gradient_norm, step->seconds, step->wait_seconds,
                progress->tokens / step->seconds);
        fflush(progress->metrics);
    }
    bool due =
        progress->every && (step->step % progress->every == 0 || step->step == 1 || step->step == progress->steps);
    if (!due || !progress->out)
        return;
    char left[32];
    double each = progress->seconds / (double)progress->gathered;
    time_left(each * (double)(progress->steps - step->step), left, sizeof left);
    fprintf(progress->out,
            "step %*" PRIu64 "/%" PRIu64
            "  loss %.4f  rate %.2e  norm %.2f  %8.0f tokens/s  %5.1f GFLOP/s  waiting %4.1f%%  %s left\n",
            snprintf(NULL, 0, "%" PRIu64, progress->steps), step->step, progress->steps, step->loss, step->rate,
            step->gradient_norm, progress->tokens / each, progress->flops / each * 1e-9,
            100.0 * progress->wait_seconds / progress->seconds, left);
    fflush(progress->out);
    progress->gathered = 0;
    progress->seconds = progress->wait_seconds = 0;
}

void progress_evaluation(struct progress *progress, uint64_t step, double loss, bool bytes)
{
    if (progress->metrics) {
        fprintf(progress->metrics, "{\"event\":\"evaluation\",\"step\":%" PRIu64 ",\"loss\":%.9g}\n", step, loss);
        fflush(progress->metrics);
    }
    if (!progress->out)
        return;
    fprintf(progress->out, "held-out text after step %" PRIu64 ": loss %.4f, perplexity %.2f", step, loss, exp(loss));
    if (bytes)
        fprintf(progress->out, ", %.3f bit/byte", loss / log(2.0));
    fputc('\n', progress->out);
    fflush(progress->out);
}

/* SPDX-License-Identifier: Apache-2.0 */
/* Reports metrics and progress of a run that learns nothing: docs/tutorials/report-metrics.md walks through it. */
#include <weft/report.h>

#include <stdio.h>

int main(void)
{
    weft_reporter *reporter;
    if (weft_reporter_open(NULL, &reporter) != WEFT_OK)
        return fprintf(stderr, "%s\n", weft_message(NULL)), 1;
    for (int64_t step = 1; step <= 1000; step++) {
        weft_report(reporter, "train/loss", step, 10.0 / (double)(step + 4));
        if (step % 100 == 0)
            weft_report(reporter, "held-out/loss", step, 11.0 / (double)(step + 4));
        weft_report_progress(reporter, (double)step, 1000, -1);
    }
    if (weft_reporter_close(reporter) != WEFT_OK)
        return fprintf(stderr, "%s\n", weft_message(NULL)), 1;
    return 0;
}

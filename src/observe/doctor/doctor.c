/* SPDX-License-Identifier: Apache-2.0 */
/* Reports. */
#include "observe/doctor/doctor.h"

#include "core/control/wire/address.h"

#include <stdio.h>
#include <stdlib.h>

const char *doctor_level_name(enum doctor_level level)
{
    static const char *const names[] = {"ok", "warning", "problem"};
    return names[level];
}

void doctor_begin(struct doctor_report *report)
{
    *report = (struct doctor_report){0};
    address_host_name(report->host, sizeof report->host);
}

void doctor_free(struct doctor_report *report)
{
    free(report->findings);
    *report = (struct doctor_report){0};
}

void doctor_find(struct doctor_report *report, enum doctor_level level, const char *check, const char *format, ...)
{
    if (report->count == report->room) {
        uint32_t room = report->room ? 2 * report->room : 32;
        struct doctor_finding *grown = realloc(report->findings, room * sizeof *grown);
        report->exhausted = report->exhausted || !grown;
        if (!grown)
            return;
        report->findings = grown;
        report->room = room;
    }
    struct doctor_finding *finding = &report->findings[report->count++];
    va_list arguments;
    finding->level = level;
    snprintf(finding->host, sizeof finding->host, "%s", report->host);
    snprintf(finding->check, sizeof finding->check, "%s", check);
    va_start(arguments, format);
    vsnprintf(finding->text, sizeof finding->text, format, arguments);
    va_end(arguments);
    report->levels[level]++;
}

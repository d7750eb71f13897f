/* SPDX-License-Identifier: Apache-2.0 */
/* `weft doctor`: check for anything that would keep a job from running well. */
#include "observe/doctor/doctor.h"
#include "base/format/json_put.h"
#include "cli/frame/command.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static struct {
    int64_t ranks;
    const char *hosts, *hostfile, *agent, *executable;
    double limit;
    bool json, quiet, node;
} chosen;

static const struct cli_option options[] = {
    CLI_INTEGER("ranks", 'n', "N", &chosen.ranks, "0", 0, 1 << 20, "ranks to run on each host",
                .default_text = "one per core"),
    CLI_TEXT("hosts", 0, "LIST", &chosen.hosts, NULL, "check these hosts and the network between them: name,name..."),
    CLI_TEXT("hostfile", 0, "FILE", &chosen.hostfile, NULL, "read the hosts from FILE, in the format of weft run"),
    CLI_TEXT("agent", 0, "PROGRAM", &chosen.agent, NULL, "remote shell that reaches the hosts, called like ssh",
             .default_text = "$WEFT_AGENT, or ssh"),
    CLI_TEXT("remote-weft", 0, "PATH", &chosen.executable, NULL, "path of weft on the other hosts",
             .default_text = "its path here"),
    CLI_NUMBER("start-timeout", 0, "SECONDS", &chosen.limit, "30", 0.1, 86400, "time for a host to answer"),
    CLI_FLAG("quiet", 'q', &chosen.quiet, "print problems only"),
    CLI_FLAG("json", 0, &chosen.json, "a line of JSON for each check"),
    CLI_FLAG("node", 0, &chosen.node, "internal: the part that runs on every host", .advanced = true),
};

static void doctor_print(const struct doctor_report *report, FILE *out)
{
    int host_width = 4;
    for (uint32_t i = 0; i < report->count; i++)
        if ((int)strlen(report->findings[i].host) > host_width)
            host_width = (int)strlen(report->findings[i].host);
    for (uint32_t i = 0; i < report->count; i++) {
        const struct doctor_finding *finding = &report->findings[i];
        if (chosen.quiet && finding->level == DOCTOR_OK)
            continue;
        if (chosen.json)
            JSON_PRINT(out, NULL, "host", finding->host, "check", finding->check, "level",
                       doctor_level_name(finding->level), "text", finding->text);
        else
            fprintf(out, "%-8s %-*s  %-16s %s\n", doctor_level_name(finding->level), host_width, finding->host,
                    finding->check, finding->text);
    }
    if (!chosen.json)
        fprintf(out, "\n%u problem%s, %u warning%s, %u ok\n", report->levels[DOCTOR_PROBLEM],
                report->levels[DOCTOR_PROBLEM] == 1 ? "" : "s", report->levels[DOCTOR_WARNING],
                report->levels[DOCTOR_WARNING] == 1 ? "" : "s", report->levels[DOCTOR_OK]);
}

static weft_status check_hosts(struct doctor_report *report, struct error *error)
{
    struct host_list hosts;
    const char *agent = getenv("WEFT_AGENT");
    weft_status status = hosts_read(chosen.hosts, chosen.hostfile, 0, HOSTS_WITHOUT_SPARES, &hosts, error);
    if (status != WEFT_OK)
        return status;
    const struct doctor_hosts config = {.hosts = &hosts,
                                        .agent = chosen.agent      ? chosen.agent
                                                 : agent && *agent ? agent
                                                                   : NULL,
                                        .executable = chosen.executable,
                                        .ranks = (uint32_t)chosen.ranks,
                                        .limit = chosen.limit};
    doctor_check_hosts(report, &config);
    hosts_free(&hosts);
    return WEFT_OK;
}

static weft_status doctor_run(struct command_call *call, struct error *error)
{
    struct doctor_report report;
    weft_status status = WEFT_OK;
    if (chosen.node) {
        call->exit_code = doctor_node(STDIN_FILENO, STDOUT_FILENO);
        return WEFT_OK;
    }
    doctor_begin(&report);
    if (chosen.hosts || chosen.hostfile)
        status = check_hosts(&report, error);
    else
        doctor_check_machine(&report, (uint32_t)chosen.ranks);
    if (status == WEFT_OK && report.exhausted)
        status = error_memory(error, sizeof *report.findings, "the findings");
    if (status == WEFT_OK)
        doctor_print(&report, call->output);
    if (report.levels[DOCTOR_PROBLEM])
        call->exit_code = 1;
    doctor_free(&report);
    return status;
}

const struct command command_doctor = {
    .name = "doctor",
    .group = COMMAND_MEASURE,
    .summary = "check for anything that would keep a job from running well, and suggest fixes",
    .description =
        "Prints one line per check: ok, warning (a job runs, but slower or less reliably than it could) or problem "
        "(it fails or cannot start), with a message. The exit code is 1 if there is a problem.\n\n"
        "On this machine: free memory, control-group limits, address space, locked memory, /dev/shm, huge pages, "
        "cores against ranks, processor quota, open files, whether ranks may read each other's memory, the clock, "
        "the WEFT_ variables, network interfaces, libfabric's providers. Across hosts (--hosts): whether the "
        "remote shell works and weft is installed, versions, clocks, and whether each host can connect to each "
        "other host, at which addresses. A firewall shows as a host that cannot be connected to.",
    .examples = "weft doctor\nweft doctor -n 8 --quiet\nweft doctor --hosts hosta,hostb\n",
    COMMAND_OPTIONS(options),
    .run = doctor_run,
};

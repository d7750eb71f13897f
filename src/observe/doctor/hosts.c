/* SPDX-License-Identifier: Apache-2.0 */
/* The checks across hosts: a far end on each (observe/doctor/node.c), asked by lines. */
#include "observe/doctor/doctor.h"

#include "base/clock.h"
#include "base/format/json.h"
#include "launch/agent.h"
#include "observe/doctor/internal/node.h"

#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define CLOCK_TRIES     3
#define CLOCK_APART     1.0 /* seconds between the hosts' clocks, beyond which it is reported */
#define ADDRESSES_BYTES 2048
#define TEXT_BYTES      65536

/* A host, and what it has said. */
struct doctor_hosts_helper {
    const struct host *host;
    struct agent_process agent;
    bool started, tells;
    char name[64]; /* as it calls itself */
    char version[32], libfabric[32], addresses[ADDRESSES_BYTES];
    char text[TEXT_BYTES]; /* read and not handled yet */
    size_t used;
};

static weft_status doctor_hosts_start(struct doctor_hosts_helper *helper, const struct doctor_hosts *config,
                                      struct error *error)
{
    char own[PATH_MAX] = "";
    bool local = agent_is_local(helper->host->name, config->agent != NULL);
    const char *agent = config->agent ? config->agent : AGENT_DEFAULT;
    if (readlink("/proc/self/exe", own, sizeof own - 1) < 0)
        return error_system(error, "cannot tell where weft is");
    weft_status status =
        agent_start(local ? NULL : agent, helper->host->name, local || !config->executable ? own : config->executable,
                    "doctor", true, NULL, &helper->agent, error);
    if (status == WEFT_OK) {
        helper->started = true;
        fcntl(helper->agent.input, F_SETFL, 0);
    }
    return status;
}

static bool doctor_hosts_say(const struct doctor_hosts_helper *helper, const char *line)
{
    return write(helper->agent.input, line, strlen(line)) == (ssize_t)strlen(line);
}

/* What the remote shell itself has complained of. */
static void read_complaint(const struct doctor_hosts_helper *helper, char *text, size_t size)
{
    struct pollfd wait = {helper->agent.errors, POLLIN, 0};
    ssize_t got = helper->agent.errors >= 0 && poll(&wait, 1, 200) > 0 ? read(helper->agent.errors, text, size - 1) : 0;
    text[got > 0 ? got : 0] = '\0';
    text[strcspn(text, "\n")] = '\0';
}

/* The next line, without its end, in `line`; false when the host says no more or `deadline` has come. */
static bool doctor_hosts_next_line(struct doctor_hosts_helper *helper, uint64_t deadline, char *line, size_t size)
{
    for (;;) {
        char *end = memchr(helper->text, '\n', helper->used);
        if (end) {
            size_t length = (size_t)(end - helper->text);
            snprintf(line, size, "%.*s", (int)length, helper->text);
            helper->used -= length + 1;
            memmove(helper->text, end + 1, helper->used);
            return true;
        }
        uint64_t now = clock_now();
        struct pollfd wait = {helper->agent.output, POLLIN, 0};
        if (now >= deadline || helper->used == sizeof helper->text ||
            poll(&wait, 1, (int)((deadline - now) / 1000000) + 1) <= 0)
            return false;
        ssize_t got = read(helper->agent.output, helper->text + helper->used, sizeof helper->text - helper->used);
        if (got <= 0)
            return false;
        helper->used += (size_t)got;
    }
}

/* The next line as JSON; NULL if there is none. */
static cJSON *next_answer(struct doctor_hosts_helper *helper, double seconds)
{
    char *line = malloc(TEXT_BYTES);
    cJSON *answer =
        line && doctor_hosts_next_line(helper, clock_after(seconds), line, TEXT_BYTES) ? cJSON_Parse(line) : NULL;
    free(line);
    return answer;
}

static const char *doctor_hosts_text_of(const cJSON *object, const char *key)
{
    const cJSON *value = cJSON_GetObjectItemCaseSensitive(object, key);
    return cJSON_IsString(value) ? value->valuestring : "";
}

static void import_findings(struct doctor_report *report, const cJSON *findings)
{
    const cJSON *finding;
    cJSON_ArrayForEach(finding, findings) {
        const cJSON *level = cJSON_GetObjectItemCaseSensitive(finding, "level");
        int number = cJSON_IsNumber(level) ? level->valueint : DOCTOR_PROBLEM;
        doctor_find(report,
                    number >= DOCTOR_OK && number <= DOCTOR_PROBLEM ? (enum doctor_level)number : DOCTOR_PROBLEM,
                    doctor_hosts_text_of(finding, "check"), "%s", doctor_hosts_text_of(finding, "text"));
    }
}

/* Wait for a host's greeting and its own findings. */
static void doctor_hosts_hear(struct doctor_report *report, struct doctor_hosts_helper *helper, double limit)
{
    char line[DOCTOR_LINE_BYTES], complaint[256];
    uint64_t deadline = clock_after(limit);
    bool greeted = false;
    snprintf(report->host, sizeof report->host, "%.63s", helper->host->name);
    while (helper->started && !greeted && doctor_hosts_next_line(helper, deadline, line, sizeof line))
        greeted = strncmp(line, DOCTOR_GREETING, strlen(DOCTOR_GREETING)) == 0;
    cJSON *answer = greeted ? next_answer(helper, limit) : NULL;
    if (!answer) {
        read_complaint(helper, complaint, sizeof complaint);
        if (helper->started)
            doctor_find(report, DOCTOR_PROBLEM, "host",
                        "weft does not answer there%s%s: the remote shell must log in without a question, and weft be "
                        "at the same path (--remote-weft)",
                        *complaint ? ": " : "", complaint);
        return;
    }
    helper->tells = true;
    snprintf(helper->name, sizeof helper->name, "%.63s", doctor_hosts_text_of(answer, "host"));
    snprintf(helper->version, sizeof helper->version, "%.31s", doctor_hosts_text_of(answer, "version"));
    snprintf(helper->libfabric, sizeof helper->libfabric, "%.31s", doctor_hosts_text_of(answer, "libfabric"));
    snprintf(helper->addresses, sizeof helper->addresses, "%s", doctor_hosts_text_of(answer, "addresses"));
    import_findings(report, cJSON_GetObjectItemCaseSensitive(answer, "findings"));
    cJSON_Delete(answer);
}

static void check_versions(struct doctor_report *report, const struct doctor_hosts_helper *helper,
                           const struct doctor_hosts_helper *first)
{
    if (strcmp(helper->version, weft_version()) != 0)
        doctor_find(report, DOCTOR_PROBLEM, "version", "it has Weft %s, this host %s: install the same on all hosts",
                    helper->version, weft_version());
    else if (strcmp(helper->libfabric, first->libfabric) != 0)
        doctor_find(report, DOCTOR_WARNING, "version",
                    "it has libfabric %s, %s has %s: providers may differ; install the same on all hosts",
                    helper->libfabric, first->host->name, first->libfabric);
    else
        doctor_find(report, DOCTOR_OK, "version", "Weft %s, libfabric %s", helper->version, helper->libfabric);
}

/* How far its clock is from this host's: of several answers, the quickest. */
static void doctor_hosts_check_clock(struct doctor_report *report, struct doctor_hosts_helper *helper, double limit)
{
    double best = 1e9, offset = 0;
    for (int i = 0; i < CLOCK_TRIES && doctor_hosts_say(helper, "clock\n"); i++) {
        struct timespec before, end;
        clock_gettime(CLOCK_REALTIME, &before);
        cJSON *answer = next_answer(helper, limit);
        clock_gettime(CLOCK_REALTIME, &end);
        const cJSON *now = cJSON_GetObjectItemCaseSensitive(answer, "now");
        double asked = (double)before.tv_sec + (double)before.tv_nsec * 1e-9;
        double took = (double)end.tv_sec + (double)end.tv_nsec * 1e-9 - asked;
        if (cJSON_IsNumber(now) && took < best) {
            best = took;
            offset = now->valuedouble - asked - took / 2;
        }
        cJSON_Delete(answer);
    }
    if (best == 1e9)
        doctor_find(report, DOCTOR_WARNING, "clocks", "it does not tell its time");
    else if (offset > CLOCK_APART || offset < -CLOCK_APART)
        doctor_find(report, DOCTOR_WARNING, "clocks",
                    "its clock is %.3g s %s this host's; logs and checkpoints will confuse: let chrony or ntpd set all",
                    offset > 0 ? offset : -offset, offset > 0 ? "ahead of" : "behind");
    else
        doctor_find(report, DOCTOR_OK, "clocks", "its clock agrees with this host's to %.0f ms",
                    ((offset > 0 ? offset : -offset) + best / 2) * 1e3);
}

/* One host connects to all addresses of another. */
static void check_reach(struct doctor_report *report, struct doctor_hosts_helper *from,
                        const struct doctor_hosts_helper *to)
{
    char addresses[ADDRESSES_BYTES], line[DOCTOR_LINE_BYTES], reached[400] = "", why[300] = "", *rest = NULL;
    snprintf(addresses, sizeof addresses, "%s", to->addresses);
    for (char *address = strtok_r(addresses, ",", &rest); address; address = strtok_r(NULL, ",", &rest)) {
        snprintf(line, sizeof line, "reach %s %s\n", to->name, address);
        cJSON *answer = doctor_hosts_say(from, line) ? next_answer(from, 3 * DOCTOR_REACH_WAIT) : NULL;
        size_t used = strlen(reached);
        if (cJSON_IsTrue(cJSON_GetObjectItemCaseSensitive(answer, "reached"))) {
            char *port = strrchr(address, ':');
            if (port)
                *port = '\0';
            snprintf(reached + used, sizeof reached - used, "%s%s", used ? ", " : "", address);
        } else if (!*why) {
            snprintf(why, sizeof why, "%s", answer ? doctor_hosts_text_of(answer, "why") : "it does not say why");
        }
        cJSON_Delete(answer);
    }
    if (*reached)
        doctor_find(report, DOCTOR_OK, "reachability", "it reaches %s at %s", to->host->name, reached);
    else
        doctor_find(report, DOCTOR_PROBLEM, "reachability",
                    "it cannot connect to %s%s%s: look at the link between them, routes and firewalls (Weft uses any "
                    "TCP port from the kernel's range, see net.ipv4.ip_local_port_range)",
                    to->host->name, *why ? ": " : ", which has no address", why);
}

static void end_station(struct doctor_hosts_helper *helper)
{
    if (!helper->started)
        return;
    close(helper->agent.input);
    for (int i = 0; i < 50 && waitpid(helper->agent.process, NULL, WNOHANG) == 0; i++) {
        if (i == 20)
            kill(helper->agent.process, SIGTERM);
        if (i == 40)
            kill(helper->agent.process, SIGKILL);
        nanosleep(&(struct timespec){.tv_nsec = 10000000}, NULL);
    }
    close(helper->agent.output);
    if (helper->agent.errors >= 0)
        close(helper->agent.errors);
}

void doctor_check_hosts(struct doctor_report *report, const struct doctor_hosts *config)
{
    uint32_t count = config->hosts->count;
    struct doctor_hosts_helper *helpers = calloc(count, sizeof *helpers), *first = NULL;
    if (!helpers) {
        report->exhausted = true;
        return;
    }
    signal(SIGPIPE, SIG_IGN);
    for (uint32_t i = 0; i < count; i++) {
        struct error error;
        error_clear(&error);
        helpers[i].host = &config->hosts->hosts[i];
        snprintf(report->host, sizeof report->host, "%.63s", helpers[i].host->name);
        uint32_t listed = helpers[i].host->ranks > 1 ? helpers[i].host->ranks : 0;
        char line[32];
        snprintf(line, sizeof line, "check %u\n", config->ranks ? config->ranks : listed);
        if (doctor_hosts_start(&helpers[i], config, &error) != WEFT_OK)
            doctor_find(report, DOCTOR_PROBLEM, "host", "%s", error.text);
        else
            doctor_hosts_say(&helpers[i], line);
    }
    for (uint32_t i = 0; i < count; i++)
        doctor_hosts_hear(report, &helpers[i], config->limit);
    for (uint32_t i = 0; i < count; i++) {
        struct doctor_hosts_helper *helper = &helpers[i];
        if (!helper->tells)
            continue;
        first = first ? first : helper;
        snprintf(report->host, sizeof report->host, "%.63s", helper->host->name);
        check_versions(report, helper, first);
        doctor_hosts_check_clock(report, helper, config->limit);
        for (uint32_t j = 0; j < count; j++)
            if (j != i && helpers[j].tells)
                check_reach(report, helper, &helpers[j]);
    }
    for (uint32_t i = 0; i < count; i++)
        end_station(&helpers[i]);
    free(helpers);
}

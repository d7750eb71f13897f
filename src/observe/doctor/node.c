/* SPDX-License-Identifier: Apache-2.0 */
/* The doctor's far end on a host. */
#include "observe/doctor/internal/node.h"

#include "base/format/json_put.h"
#include "core/control/wire/address.h"
#include "core/transport/fabric/providers.h"
#include "observe/doctor/doctor.h"

#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

/* A line of JSON to the doctor. */
static void doctor_node_tell(FILE *output, struct json_writer *line)
{
    json_complete(line, output, NULL);
    fflush(output);
}

static void tell_findings(FILE *output, const struct doctor_report *report, uint16_t port)
{
    struct json_writer line;
    char version[16], addresses[2048];
    json_begin_line(&line);
    JSON_PUT(&line, "host", report->host, "version", weft_version(), "libfabric",
             providers_version(version, sizeof version), "addresses", address_list(port, addresses, sizeof addresses));
    json_open_array(&line, "findings");
    for (uint32_t i = 0; i < report->count; i++)
        JSON_PUT_OBJECT(&line, NULL, "level", report->findings[i].level, "check", report->findings[i].check, "text",
                        report->findings[i].text);
    json_close(&line);
    doctor_node_tell(output, &line);
}

/* Tell everybody who comes who this is; ends with the process. */
static void *answer_all(void *argument)
{
    int listener = *(int *)argument;
    char name[64], text[128];
    address_host_name(name, sizeof name);
    int length = snprintf(text, sizeof text, DOCTOR_ANSWER "%s\n", name);
    for (;;) {
        struct pollfd wait = {listener, POLLIN, 0};
        poll(&wait, 1, -1);
        int descriptor = accept(listener, NULL, NULL);
        if (descriptor < 0)
            continue;
        ssize_t ignored = write(descriptor, text, (size_t)length);
        (void)ignored;
        shutdown(descriptor, SHUT_WR);
        close(descriptor);
    }
    return NULL;
}

/* Connect, and read who is there; why not, in `error`. */
static weft_status reach(const char *host, const char *where, struct error *error)
{
    char digits[ADDRESS_TEXT_BYTES], text[128] = "", expected[128];
    uint16_t port;
    int descriptor = -1, reason;
    weft_status status = address_parse(where, digits, &port, error);
    if (status == WEFT_OK)
        status = address_connect(digits, port, DOCTOR_REACH_WAIT, &descriptor, &reason, error);
    if (status != WEFT_OK)
        return status;
    size_t used = 0;
    struct pollfd wait = {descriptor, POLLIN, 0};
    while (used < sizeof text - 1 && !strchr(text, '\n') && poll(&wait, 1, (int)(DOCTOR_REACH_WAIT * 1000)) > 0) {
        ssize_t got = read(descriptor, text + used, sizeof text - 1 - used);
        if (got <= 0)
            break;
        used += (size_t)got;
    }
    close(descriptor);
    snprintf(expected, sizeof expected, DOCTOR_ANSWER "%s\n", host);
    return strcmp(text, expected) == 0
               ? WEFT_OK
               : error_set(error, WEFT_ERROR_NETWORK,
                           "%s is answered by somebody else than host %s: a firewall or proxy", where, host);
}

static void do_line(FILE *output, char *text)
{
    struct json_writer line;
    struct error error;
    char *rest = NULL, *word = strtok_r(text, " \n", &rest);
    char *host = strtok_r(NULL, " \n", &rest), *where = strtok_r(NULL, " \n", &rest);
    error_clear(&error);
    json_begin_line(&line);
    if (word && strcmp(word, "reach") == 0 && where) {
        JSON_PUT(&line, "reached", (bool)(reach(host, where, &error) == WEFT_OK), "why", error.text);
    } else {
        struct timespec now;
        clock_gettime(CLOCK_REALTIME, &now);
        json_put_number(&line, "now", (double)now.tv_sec + (double)now.tv_nsec * 1e-9);
    }
    doctor_node_tell(output, &line);
}

int doctor_node(int input, int output)
{
    struct doctor_report report;
    int listener = -1;
    uint16_t port = 0;
    pthread_t thread;
    char line[DOCTOR_LINE_BYTES];
    FILE *in = fdopen(input, "r"), *out = fdopen(output, "w");
    unsigned ranks = 0;
    if (!in || !out || !fgets(line, sizeof line, in) || sscanf(line, "check %u", &ranks) != 1)
        return 1;
    doctor_begin(&report);
    doctor_check_machine(&report, ranks);
    struct error error;
    error_clear(&error);
    if (address_listen(NULL, 0, &listener, &port, &error) != WEFT_OK ||
        pthread_create(&thread, NULL, answer_all, &listener) != 0)
        doctor_find(&report, DOCTOR_PROBLEM, "reachability", "nobody can connect to this host: %s", error.text);
    fputs(DOCTOR_GREETING "\n", out);
    tell_findings(out, &report, port);
    while (fgets(line, sizeof line, in))
        do_line(out, line);
    doctor_free(&report);
    return 0;
}

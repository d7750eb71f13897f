/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A client of a free port on loopback that is given the same port for its own end is connected to itself: TCP's
 * simultaneous open. That counts as refused. In a network namespace whose only port for clients is the one that is
 * called, it happens every time.
 */
#include "core/control/wire/address.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <net/if.h>
#include <netinet/in.h>
#include <poll.h>
#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#define PORT 40001

enum outcome { GOOD, WRONG, NO_NAMESPACE = 77 };

/* A network namespace in which clients have one port, or which is not to be had here. */
static bool enter_namespace(void)
{
    static const char range[] = "40001 40001\n";
    struct ifreq loopback = {.ifr_name = "lo", .ifr_flags = IFF_UP | IFF_RUNNING};
    if (unshare(CLONE_NEWNET) != 0)
        return false;
    int control = socket(AF_INET, SOCK_DGRAM, 0);
    int ports = open("/proc/sys/net/ipv4/ip_local_port_range", O_WRONLY);
    bool made = control >= 0 && ports >= 0 && ioctl(control, SIOCSIFFLAGS, &loopback) == 0 &&
                write(ports, range, sizeof range - 1) == sizeof range - 1;
    close(control);
    close(ports);
    return made;
}

/* Whether a plain client meets itself here: otherwise the rest would prove nothing. */
static bool meets_itself(void)
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons(PORT)}, peer = {0};
    socklen_t size = sizeof peer;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    int client = socket(AF_INET, SOCK_STREAM, 0);
    struct linger at_once = {.l_onoff = 1};
    setsockopt(client, SOL_SOCKET, SO_LINGER, &at_once, sizeof at_once); /* the port is free again after close() */
    bool met = connect(client, (struct sockaddr *)&address, sizeof address) == 0 &&
               getsockname(client, (struct sockaddr *)&peer, &size) == 0 && peer.sin_port == htons(PORT);
    close(client);
    return met;
}

static enum outcome connect_and_wait(const char *host)
{
    int descriptor = -1, reason = 0;
    struct error error = {0};
    weft_status status = address_connect(host, PORT, 5, &descriptor, &reason, &error);
    return status == WEFT_ERROR_RENDEZVOUS && reason == ECONNREFUSED ? GOOD : WRONG;
}

static enum outcome call_and_ask(const char *host)
{
    int descriptor = -1, reason = 0, answer = 0;
    if (address_connect_begin(host, PORT, &descriptor) != 0)
        return errno == ECONNREFUSED ? GOOD : WRONG;
    for (int i = 0; i < 500 && answer == 0; i++) {
        struct pollfd wait = {descriptor, POLLOUT, 0};
        poll(&wait, 1, 10);
        answer = address_connect_result(descriptor, &reason);
    }
    close(descriptor);
    return answer == -1 && reason == ECONNREFUSED ? GOOD : WRONG;
}

static void check(enum outcome (*try)(const char *host), const char *host)
{
    int status;
    pid_t child = fork();
    if (child == 0) {
        if (!enter_namespace())
            _exit(NO_NAMESPACE);
        _exit(meets_itself() ? (int)try(host) : WRONG);
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status));
    if (WEXITSTATUS(status) == NO_NAMESPACE)
        skip(); /* only root may make one */
    assert_int_equal(WEXITSTATUS(status), GOOD);
}

static void who_waits_for_a_connection_to_itself_is_refused(void **state)
{
    check(connect_and_wait, "127.0.0.1");
}

static void over_ipv6_too(void **state)
{
    check(connect_and_wait, "::1");
}

static void who_calls_without_waiting_is_refused(void **state)
{
    check(call_and_ask, "127.0.0.1");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(who_waits_for_a_connection_to_itself_is_refused),
        cmocka_unit_test(over_ipv6_too),
        cmocka_unit_test(who_calls_without_waiting_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

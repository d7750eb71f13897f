/* SPDX-License-Identifier: Apache-2.0 */
/* Whose connection it is: this user's, another's, over IPv4 and IPv6; nobody's once it is closed, which clients tell
 * from a server that is not trusted. */
#include "platform/access/peer_user.h"
#include "platform/access/trust.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

/* A listening socket on loopback; `listened` may be of IPv6 and take IPv4 too. */
static int listen_here(sa_family_t family, struct sockaddr_storage *address, socklen_t *size)
{
    memset(address, 0, sizeof *address);
    address->ss_family = family;
    *size = family == AF_INET ? sizeof(struct sockaddr_in) : sizeof(struct sockaddr_in6);
    if (family == AF_INET)
        ((struct sockaddr_in *)address)->sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    int listening = socket(family, SOCK_STREAM, 0), both = 0;
    if (listening < 0)
        return -1;
    if (family == AF_INET6)
        setsockopt(listening, IPPROTO_IPV6, IPV6_V6ONLY, &both, sizeof both);
    if (bind(listening, (struct sockaddr *)address, *size) != 0 || listen(listening, 4) != 0 ||
        getsockname(listening, (struct sockaddr *)address, size) != 0) {
        close(listening);
        return -1;
    }
    return listening;
}

/* Connect as `user` from a child that stays until it may end; what peer_user() says of the connection. */
static bool ask(int listening, const struct sockaddr_storage *address, socklen_t size, uid_t user, uid_t *found)
{
    int stay[2];
    char byte;
    assert_int_equal(pipe(stay), 0);
    pid_t child = fork();
    if (child == 0) {
        close(stay[1]);
        bool good = user == getuid() || setuid(user) == 0;
        int connection = socket(address->ss_family, SOCK_STREAM, 0);
        good = good && connect(connection, (const struct sockaddr *)address, size) == 0;
        (void)!read(stay[0], &byte, 1);
        _exit(!good);
    }
    close(stay[0]);
    int accepted = accept(listening, NULL, NULL), ended;
    assert_true(accepted >= 0);
    bool known = peer_user(accepted, found);
    close(stay[1]);
    assert_int_equal(waitpid(child, &ended, 0), child);
    assert_int_equal(ended, 0);
    uid_t nobody;
    assert_int_equal(recv(accepted, &byte, 1, 0), 0);
    assert_false(peer_user(accepted, &nobody));
    close(accepted);
    return known;
}

static void check_family(sa_family_t family)
{
    struct sockaddr_storage address;
    socklen_t size;
    uid_t found = 4711;
    int listening = listen_here(family, &address, &size);
    if (listening < 0)
        skip(); /* a machine without IPv6 */
    assert_true(ask(listening, &address, size, getuid(), &found));
    assert_int_equal(found, getuid());
    if (getuid() == 0) {
        assert_true(ask(listening, &address, size, 65534, &found));
        assert_int_equal(found, 65534);
    }
    close(listening);
}

static void who_connects_is_known(void **state)
{
    check_family(AF_INET);
}

static void who_connects_is_known_over_ipv6(void **state)
{
    struct sockaddr_in6 *in;
    struct sockaddr_storage address;
    socklen_t size;
    int listening = listen_here(AF_INET6, &address, &size);
    uid_t found = 4711;
    if (listening < 0)
        skip();
    in = (struct sockaddr_in6 *)&address;
    in->sin6_addr = in6addr_loopback;
    assert_true(ask(listening, &address, size, getuid(), &found));
    assert_int_equal(found, getuid());
    close(listening);
}

static void an_ipv4_client_of_an_ipv6_listener_is_known(void **state)
{
    struct sockaddr_storage address;
    struct sockaddr_in four = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t size;
    int listening = listen_here(AF_INET6, &address, &size);
    uid_t found = 4711;
    if (listening < 0)
        skip();
    four.sin_port = ((struct sockaddr_in6 *)&address)->sin6_port;
    memcpy(&address, &four, sizeof four);
    assert_true(ask(listening, &address, sizeof four, getuid(), &found));
    assert_int_equal(found, getuid());
    close(listening);
}

static void a_server_that_hangs_up_is_not_called_untrusted(void **state)
{
    struct sockaddr_storage address;
    socklen_t size;
    struct error error = {0};
    (void)state;
    int listening = listen_here(AF_INET, &address, &size), client = socket(AF_INET, SOCK_STREAM, 0);
    assert_true(listening >= 0);
    assert_int_equal(connect(client, (const struct sockaddr *)&address, size), 0);
    assert_int_equal(trust_server(client, &error), WEFT_OK);
    int accepted = accept(listening, NULL, NULL);
    assert_true(accepted >= 0);
    assert_int_equal(trust_server(client, &error), WEFT_OK);
    close(accepted);
    assert_int_equal(trust_server(client, &error), WEFT_ERROR_NETWORK);
    assert_non_null(strstr(error.text, "ended the connection"));
    close(client);
    close(listening);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(who_connects_is_known),
        cmocka_unit_test(who_connects_is_known_over_ipv6),
        cmocka_unit_test(an_ipv4_client_of_an_ipv6_listener_is_known),
        cmocka_unit_test(a_server_that_hangs_up_is_not_called_untrusted),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

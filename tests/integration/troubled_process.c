/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Preloaded into ranks of a training, it gives them trouble that has nothing to do with Weft.
 *
 * SIGUSR2: the next product of matrices never ends; with TROUBLE_SLEEPS in the environment it sleeps for ever instead.
 * TROUBLE_FLIPS: SIGUSR2 flips a bit in the next piece of so many bytes or more that is sent through a socket, instead.
 * TROUBLE_SLOW_WRITES: microseconds that each large write() takes longer.
 */
#include <dlfcn.h>
#include <signal.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define SLOW_BYTES 100000

static volatile sig_atomic_t hangs;
static useconds_t slow_writes;
static size_t flips; /* 0: none */
static ssize_t (*send_on)(int, const struct msghdr *, int);
static int (*execute)(const void *, void *, int, const void *);
static ssize_t (*write_on)(int, const void *, size_t);

static void begin_to_hang(int number)
{
    hangs = 1;
}

static void hang_for_ever(void)
{
    if (getenv("TROUBLE_SLEEPS"))
        sleep(1000000);
    while (hangs)
        ;
}

__attribute__((constructor)) static void trouble_begin(void)
{
    const char *text = getenv("TROUBLE_SLOW_WRITES");
    slow_writes = text ? (useconds_t)atoi(text) : 0;
    text = getenv("TROUBLE_FLIPS");
    flips = text ? (size_t)atoi(text) : 0;
    signal(SIGUSR2, begin_to_hang);
}

__attribute__((visibility("default"))) int dnnl_primitive_execute(const void *primitive, void *stream, int count,
                                                                  const void *arguments);
int dnnl_primitive_execute(const void *primitive, void *stream, int count, const void *arguments)
{
    if (hangs && !flips)
        hang_for_ever();
    if (!execute)
        *(void **)&execute = dlsym(RTLD_NEXT, "dnnl_primitive_execute");
    return execute(primitive, stream, count, arguments);
}

__attribute__((visibility("default"))) ssize_t write(int descriptor, const void *bytes, size_t size)
{
    if (!write_on)
        *(void **)&write_on = dlsym(RTLD_NEXT, "write");
    if (slow_writes && size >= SLOW_BYTES)
        usleep(slow_writes);
    return write_on(descriptor, bytes, size);
}

/* The sender keeps its data as it is. */
__attribute__((visibility("default"))) ssize_t sendmsg(int socket, const struct msghdr *message, int flags)
{
    struct msghdr other = *message;
    struct iovec pieces[16];
    char *copy = NULL;
    if (!send_on)
        *(void **)&send_on = dlsym(RTLD_NEXT, "sendmsg");
    size_t before = 0; /* bytes, up to the one that is damaged */
    for (size_t i = 0; flips && hangs && !copy && i < message->msg_iovlen && message->msg_iovlen <= 16; i++) {
        if (message->msg_iov[i].iov_len < flips) {
            before += message->msg_iov[i].iov_len;
            continue;
        }
        memcpy(pieces, message->msg_iov, message->msg_iovlen * sizeof *pieces);
        copy = malloc(pieces[i].iov_len);
        memcpy(copy, pieces[i].iov_base, pieces[i].iov_len);
        copy[pieces[i].iov_len / 2] ^= 4;
        pieces[i].iov_base = copy;
        other.msg_iov = pieces;
        before += pieces[i].iov_len / 2;
    }
    const ssize_t sent = send_on(socket, &other, flags);
    if (copy && sent > (ssize_t)before) /* otherwise it is sent again, undamaged */
        hangs = 0;
    free(copy);
    return sent;
}

__attribute__((visibility("default"))) ssize_t sendto(int socket, const void *bytes, size_t size, int flags,
                                                      const struct sockaddr *address, socklen_t address_size)
{
    struct iovec piece = {(void *)(uintptr_t)bytes, size};
    const struct msghdr message = {
        .msg_name = (void *)(uintptr_t)address, .msg_namelen = address_size, .msg_iov = &piece, .msg_iovlen = 1};
    return sendmsg(socket, &message, flags);
}

__attribute__((visibility("default"))) ssize_t send(int socket, const void *bytes, size_t size, int flags)
{
    return sendto(socket, bytes, size, flags, NULL, 0);
}

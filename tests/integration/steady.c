/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A job to be looked at: all-reduces of 1024 floats, one after the other, some microseconds apart.
 *
 *     steady SECONDS|FILE [RANK OPERATIONS]
 *
 * goes on for SECONDS after its beginning, when all have met, or for as long as somebody holds a lock (flock) on FILE.
 * With RANK, that rank comes to no operation after the first OPERATIONS until then, as if it had forgotten the others.
 * Then every rank goes on to the end, so that nothing is left behind.
 */
#include <weft/weft.h>

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/file.h>
#include <time.h>
#include <unistd.h>

static double seconds(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
}

int main(int argc, char **argv)
{
    double length = argc > 1 ? atof(argv[1]) : 1;
    int file = argc > 1 ? open(argv[1], O_RDONLY | O_CLOEXEC) : -1;
    int late = argc > 3 ? atoi(argv[2]) : -1, calls = argc > 3 ? atoi(argv[3]) : 0;
    weft_context *context = NULL;
    weft_config config = WEFT_CONFIG_DEFAULT;
    if (weft_init(&config, &context) != WEFT_OK)
        return fprintf(stderr, "steady: %s\n", weft_message(NULL)), 1;
    weft_comm *world = weft_world(context);
    double begin = seconds();
    static float input[1024], output[1024];
    for (int i = 0;; i++) {
        float goes_on = file >= 0 ? flock(file, LOCK_SH | LOCK_NB) != 0 : seconds() - begin < length;
        if (weft_comm_rank(world) == late && i == calls && goes_on) {
            if (file >= 0)
                flock(file, LOCK_SH);
            else
                usleep((useconds_t)((length - (seconds() - begin)) * 1e6));
        }
        input[0] = goes_on;
        weft_status status = weft_allreduce(input, output, 1024, WEFT_F32, WEFT_SUM, world);
        if (status != WEFT_OK) {
            fprintf(stderr, "steady: rank %d: %s\n", weft_comm_rank(world), weft_message(context));
            weft_finalize(context);
            return 1;
        }
        if (output[0] < (float)weft_comm_size(world))
            break;
        usleep(500);
    }
    return weft_finalize(context) == WEFT_OK ? 0 : 1;
}

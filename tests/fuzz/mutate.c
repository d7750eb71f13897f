/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A fuzzer without libFuzzer, for every build and compiler: runs each file of a directory, then changed ones for some
 * seconds, always the same in the same order. It finds again what was found once (a failing input becomes a seed), and
 * the shallow; `make fuzz` looks deeper.
 *
 *     NAME_seeds DIRECTORY SECONDS
 */
#include "base/clock.h"
#include "base/random.h"

#include <dirent.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define BYTES_MOST 65536
#define SEEDS_MOST 1024

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

struct seed {
    char name[256];
    uint8_t *bytes;
    size_t size;
};

static int by_name(const void *left, const void *right)
{
    return strcmp(((const struct seed *)left)->name, ((const struct seed *)right)->name);
}

static size_t read_seeds(const char *directory, struct seed *seeds)
{
    size_t count = 0;
    DIR *listing = opendir(directory);
    for (struct dirent *entry; listing && count < SEEDS_MOST && (entry = readdir(listing));) {
        char path[4096];
        struct seed *seed = &seeds[count];
        if (entry->d_name[0] == '.')
            continue;
        snprintf(path, sizeof path, "%s/%s", directory, entry->d_name);
        FILE *file = fopen(path, "rb");
        if (!file)
            continue;
        snprintf(seed->name, sizeof seed->name, "%s", entry->d_name);
        seed->bytes = malloc(BYTES_MOST);
        seed->size = fread(seed->bytes, 1, BYTES_MOST, file);
        fclose(file);
        count++;
    }
    if (listing)
        closedir(listing);
    qsort(seeds, count, sizeof *seeds, by_name);
    return count;
}

/* In a block of exactly its size, so that a sanitizer sees a byte too far. */
static void run(const uint8_t *bytes, size_t size)
{
    uint8_t *exact = malloc(size + !size);
    memcpy(exact, bytes, size);
    LLVMFuzzerTestOneInput(exact, size);
    free(exact);
}

/* Some changes to `bytes`: other values, pieces cut out, pieces repeated. */
static size_t change(uint8_t *bytes, size_t size, uint64_t number)
{
    static const uint64_t numbers[] = {0, 1, UINT64_MAX, INT64_MAX, UINT32_MAX, INT32_MAX, 0x10000, 0xff, 0x80};
    for (uint64_t changes = 1 + random_below(1, number, 4); changes-- > 0 && size > 0;) {
        uint64_t draw = random_bits(number, changes);
        size_t at = draw % size, length = 1 + (draw >> 32) % 8;
        length = length < size - at ? length : size - at;
        switch (draw >> 56 & 3) {
        case 0:
            bytes[at] = (uint8_t)(draw >> 40);
            break;
        case 1:
            memcpy(bytes + at, &numbers[(draw >> 40) % (sizeof numbers / sizeof *numbers)], length);
            break;
        case 2:
            memmove(bytes + at, bytes + at + length, size - at - length);
            size -= length;
            break;
        default:
            if (size + length > BYTES_MOST)
                break;
            memmove(bytes + at + length, bytes + at, size - at);
            size += length;
        }
    }
    return size;
}

int main(int argc, char **argv)
{
    static struct seed seeds[SEEDS_MOST];
    static uint8_t bytes[BYTES_MOST];
    size_t count = argc == 3 ? read_seeds(argv[1], seeds) : 0;
    if (count == 0) {
        fprintf(stderr, "usage: %s DIRECTORY SECONDS; there are no seeds\n", argv[0]);
        return 1;
    }
    uint64_t end = clock_now() + (uint64_t)(atof(argv[2]) * 1e9), number = 0;
    for (size_t i = 0; i < count; i++)
        run(seeds[i].bytes, seeds[i].size);
    for (; clock_now() < end; number++) {
        const struct seed *seed = &seeds[number % count];
        memcpy(bytes, seed->bytes, seed->size);
        run(bytes, change(bytes, seed->size, number));
    }
    printf("%zu seeds, %llu changed ones\n", count, (unsigned long long)number);
    for (size_t i = 0; i < count; i++)
        free(seeds[i].bytes);
    return 0;
}

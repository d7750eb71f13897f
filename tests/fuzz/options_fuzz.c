/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Any words as a command line, with options of every kind: values are within their ranges, or there is a message. And
 * any text where people and launchers write numbers, sizes, addresses and lists of nodes.
 */
#include "base/text.h"
#include "cli/frame/options.h"
#include "core/control/wire/address.h"
#include "core/control/wire/environment.h"

#include <stdlib.h>
#include <string.h>

#define WORDS_MOST 64

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static struct {
    int64_t ranks;
    double seconds;
    uint64_t bytes;
    bool quiet;
    const char *file, *how;
    struct cli_list list;
} chosen;

static const char *const ways[] = {"none", "cores", NULL};

static const struct cli_option options[] = {
    CLI_INTEGER("ranks", 'n', "N", &chosen.ranks, "2", 1, 64, "how many"),
    CLI_NUMBER("seconds", 's', "S", &chosen.seconds, "1.5", 0, 100, "how long"),
    CLI_BYTES("size", 0, "BYTES", &chosen.bytes, "4K", "how much"),
    CLI_FLAG("quiet", 'q', &chosen.quiet, "say nothing"),
    CLI_TEXT("file", 'f', "FILE", &chosen.file, NULL, "from where"),
    CLI_CHOICE("how", 0, "HOW", &chosen.how, "none", ways, "in which way"),
    CLI_LIST("env", 'e', "NAME=VALUE", &chosen.list, "with what"),
};

static void parse_command_line(char *text, size_t size, bool takes_program)
{
    char *words[WORDS_MOST + 1];
    int count = 0;
    for (char *word = text; word < text + size && count < WORDS_MOST; word += strlen(word) + 1)
        words[count++] = word;
    words[count] = NULL;
    struct cli_rest rest;
    struct error error = {0};
    if (cli_options_parse("weft fuzz", options, sizeof options / sizeof *options, takes_program, count, words, &rest,
                          &error) != WEFT_OK) {
        if (!*error.text)
            abort();
        return;
    }
    if (chosen.ranks < 1 || chosen.ranks > 64 || !(chosen.seconds >= 0 && chosen.seconds <= 100) ||
        (chosen.how != ways[0] && chosen.how != ways[1]) || rest.word_count > (size_t)count ||
        rest.program_count > (size_t)count || chosen.list.count > (size_t)count)
        abort();
    cli_rest_free(&rest);
}

static void parse_value(const char *text)
{
    char host[ADDRESS_TEXT_BYTES], name[64];
    uint16_t port;
    uint64_t bytes;
    int64_t integer = 0;
    double number = 0;
    struct error error = {0};
    if (address_parse(text, host, &port, &error) == WEFT_OK ? !*host || strlen(host) >= sizeof host : !*error.text)
        abort();
    error_clear(&error);
    if (text_parse_bytes(text, "a size", &bytes, &error) != WEFT_OK && !*error.text)
        abort();
    error_clear(&error);
    if (text_parse_integer(text, "a number", -5, 70, &integer, &error) == WEFT_OK ? integer < -5 || integer > 70
                                                                                  : !*error.text)
        abort();
    error_clear(&error);
    if (text_parse_number(text, "a number", 0.5, 1e6, &number, &error) == WEFT_OK ? !(number >= 0.5 && number <= 1e6)
                                                                                  : !*error.text)
        abort();
    if (environment_first_host(text, name, sizeof name) && (!*name || strlen(name) >= sizeof name))
        abort();
}

/* Words end with zeros; the first byte says whether the command takes a program. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size < 1)
        return 0;
    char *text = malloc(size);
    memcpy(text, data + 1, size - 1);
    text[size - 1] = '\0';
    parse_value(text);
    parse_command_line(text, size, data[0] & 1);
    free(text);
    return 0;
}

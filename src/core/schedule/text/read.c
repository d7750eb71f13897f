/* SPDX-License-Identifier: Apache-2.0 */
/* The header and the sections of a written schedule; where loops and conditions end. */
#include "core/schedule/text/read.h"

#include "base/file/file.h"
#include "base/hash.h"
#include "base/text.h"
#include "core/schedule/text/internal/reader.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

/* Loops and conditions within one another. */
#define NESTING_MOST 12

/* ---- lines ---- */

/* Split the text into lines without comments and surrounding whitespace; empty ones are dropped. */
static weft_status cut_lines(struct schedule_text *written, size_t bytes, struct error *error)
{
    uint32_t most = 2, number = 1;
    for (size_t i = 0; i < bytes; i++)
        most += written->text[i] == '\n';
    written->lines = calloc(most, sizeof *written->lines);
    if (!written->lines)
        return error_memory(error, most * sizeof *written->lines, "the lines of a schedule");
    for (char *at = written->text, *next; at; at = next, number++) {
        next = strchr(at, '\n');
        if (next)
            *next++ = '\0';
        at[strcspn(at, "#")] = '\0';
        while (*at == ' ' || *at == '\t')
            at++;
        size_t length = strlen(at);
        while (length && isspace((unsigned char)at[length - 1]))
            at[--length] = '\0';
        if (*at)
            written->lines[written->line_count++] = (struct line){.text = at, .number = number};
    }
    return WEFT_OK;
}

static struct scanner scanner_at(const struct schedule_text *written, const struct line *line, struct error *error)
{
    return (struct scanner){.at = line->text, .file = written->name, .line = line->number, .error = error};
}

/* The kind of a section's line; its text continues after the word that determines it. */
static bool classify(struct line *line, struct scanner *scanner)
{
    static const struct {
        const char *word;
        enum line_kind kind;
    } words[] = {{"rank", LINE_SECTION}, {"lane", LINE_LANE}, {"scratch", LINE_SCRATCH},
                 {"for", LINE_FOR},      {"if", LINE_IF},     {"end", LINE_END}};
    line->kind = LINE_STEP;
    for (size_t i = 0; i < ARRAY_SIZE(words); i++) {
        if (scanner_takes(scanner, words[i].word)) {
            line->kind = words[i].kind;
            line->text = scanner->at;
            break;
        }
    }
    return line->kind != LINE_END || scanner_ends(scanner) ||
           scanner_complain(scanner, "'%.24s' follows 'end'", scanner->at);
}

/* Classify lines, and match loops and conditions with their ends. */
static weft_status find_sections(struct schedule_text *written, struct error *error)
{
    uint32_t open[NESTING_MOST], depth = 0, section = 0;
    for (uint32_t i = written->first_section; i < written->line_count; i++) {
        struct line *line = &written->lines[i];
        struct scanner scanner = scanner_at(written, line, error);
        classify(line, &scanner);
        if (line->kind == LINE_SECTION && depth)
            scanner_complain(&scanner, "a loop or condition of line %u has not ended here",
                             written->lines[open[depth - 1]].number);
        if (line->kind == LINE_SECTION) {
            if (i > written->first_section)
                written->lines[section].match = i;
            section = i;
        } else if (line->kind == LINE_FOR || line->kind == LINE_IF) {
            if (depth == NESTING_MOST)
                scanner_complain(&scanner, "loops and conditions are nested more than %u deep", NESTING_MOST);
            else
                open[depth++] = i;
        } else if (line->kind == LINE_END) {
            if (!depth)
                scanner_complain(&scanner, "'end' without a loop or condition");
            else
                written->lines[open[--depth]].match = i;
        }
        if (scanner.status != WEFT_OK)
            return scanner.status;
    }
    if (depth)
        return error_set(error, WEFT_ERROR_DATA, "%s, line %u: this loop or condition has no 'end'", written->name,
                         written->lines[open[depth - 1]].number);
    written->lines[section].match = written->line_count;
    return WEFT_OK;
}

/* ---- header ---- */

static bool take_fixed(struct scanner *scanner, const char *what, int64_t least, int64_t most, struct fixed *fixed)
{
    int64_t number;
    if (scanner_takes(scanner, "any"))
        return true;
    if (!scanner_number(scanner, what, least, most, &number))
        return false;
    *fixed = (struct fixed){true, (uint32_t)number};
    return true;
}

/* "256K", up to a blank */
static bool text_take_bytes(struct scanner *scanner, const char *what, uint64_t least, uint64_t *bytes)
{
    char text[32];
    struct error error = {0};
    scanner_ends(scanner); /* skips whitespace */
    size_t length = strcspn(scanner->at, " \t");
    if (length >= sizeof text)
        return scanner_complain(scanner, "'%.24s' is not a number of bytes", scanner->at);
    memcpy(text, scanner->at, length);
    text[length] = '\0';
    scanner->at += length;
    if (text_parse_bytes(text, what, bytes, &error) != WEFT_OK)
        return scanner_complain(scanner, "%s", error.text);
    if (*bytes < least || *bytes > (uint64_t)1 << 40)
        return scanner_complain(scanner, "%s is out of range; the minimum is %u bytes", what, (unsigned)least);
    return true;
}

static bool take_algorithm(struct schedule_text *written, struct scanner *scanner)
{
    scanner_ends(scanner);
    size_t length = strspn(scanner->at, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_+/.");
    if (!length || length >= WRITTEN_ALGORITHM_BYTES)
        return scanner_complain(scanner, "an algorithm has a name of 1 to %u letters, digits and -_+/.",
                                WRITTEN_ALGORITHM_BYTES - 1);
    memcpy(written->algorithm, scanner->at, length);
    scanner->at += length;
    return true;
}

static bool take_collective(struct schedule_text *written, struct scanner *scanner)
{
    struct error error = {0};
    char word[SCANNER_NAME];
    if (!scanner_word(scanner, word, sizeof word))
        return scanner_complain(scanner, "the name of a collective is missing here");
    if (collective_parse(word, &written->collective, &error) != WEFT_OK)
        return scanner_complain(scanner, "%s", error.text);
    return true;
}

static bool take_segment(struct schedule_text *written, struct scanner *scanner)
{
    int64_t slots = 1;
    if (!text_take_bytes(scanner, "a segment", 4096, &written->segment_bytes))
        return false;
    if (written->segment_bytes % 4096)
        return scanner_complain(scanner, "a segment is a multiple of 4096 bytes");
    if (scanner_takes(scanner, "in") && (!scanner_number(scanner, "the number of slots", 1, SCHEDULE_SLOTS, &slots) ||
                                         !(scanner_takes(scanner, "slots") || scanner_expects(scanner, "slot"))))
        return false;
    written->slots = (uint32_t)slots;
    return true;
}

static const char *const keys[] = {"collective", "algorithm", "ranks", "root",      "peer",
                                   "parts",      "segment",   "most",  "canonical", "in-place"};
enum key { COLLECTIVE, ALGORITHM, RANKS, ROOT, PEER, PARTS, SEGMENT, MOST, CANONICAL, IN_PLACE, KEYS };

static bool text_take_key(struct schedule_text *written, enum key key, struct scanner *scanner, const struct line *line)
{
    switch (key) {
    case COLLECTIVE:
        return take_collective(written, scanner);
    case ALGORITHM:
        return take_algorithm(written, scanner);
    case RANKS:
        return take_fixed(scanner, "the number of ranks", 1, WRITTEN_RANKS_MOST, &written->ranks);
    case ROOT:
        return take_fixed(scanner, "the root", 0, WRITTEN_RANKS_MOST - 1, &written->root);
    case PEER:
        return take_fixed(scanner, "the peer", 0, WRITTEN_RANKS_MOST - 1, &written->peer);
    case PARTS: /* it may refer to `ranks`: evaluated later */
        written->parts = line;
        scanner->at += strlen(scanner->at);
        return true;
    case SEGMENT:
        return take_segment(written, scanner);
    case MOST:
        return text_take_bytes(scanner, "the limit of bytes per block", 1, &written->most_block_bytes);
    case CANONICAL:
        return written->canonical = true;
    default:
        return written->in_place = true;
    }
}

static bool read_header_line(struct schedule_text *written, struct line *line, bool *seen, struct scanner *scanner)
{
    for (unsigned key = 0; key < KEYS; key++) {
        if (!scanner_takes(scanner, keys[key]))
            continue;
        if (seen[key])
            return scanner_complain(scanner, "'%s' is given twice", keys[key]);
        seen[key] = true;
        line->text = scanner->at;
        return text_take_key(written, (enum key)key, scanner, line) &&
               (scanner_ends(scanner) || scanner_complain(scanner, "'%.24s' follows '%s'", scanner->at, keys[key]));
    }
    return scanner_complain(
        scanner,
        "'%.24s' is not a keyword of the header; keywords are collective, algorithm, ranks, root, peer, parts, "
        "segment, most, canonical, in-place; then sections begin with 'rank'",
        scanner->at);
}

static weft_status text_read_header(struct schedule_text *written, struct error *error)
{
    bool seen[KEYS] = {false};
    int64_t version;
    if (!written->line_count)
        return error_set(error, WEFT_ERROR_DATA, "%s is empty; a schedule begins with 'weft schedule 1'",
                         written->name);
    struct scanner scanner = scanner_at(written, &written->lines[0], error);
    if (!scanner_takes(&scanner, "weft") || !scanner_takes(&scanner, "schedule"))
        scanner_complain(&scanner, "a schedule begins with 'weft schedule 1'");
    else if (scanner_number(&scanner, "the version of the form", 1, 1, &version) && !scanner_ends(&scanner))
        scanner_complain(&scanner, "'%.24s' follows the version", scanner.at);
    written->first_section = written->line_count;
    for (uint32_t i = 1; i < written->line_count && scanner.status == WEFT_OK; i++) {
        scanner = scanner_at(written, &written->lines[i], error);
        if (scanner_takes(&scanner, "rank")) {
            written->first_section = i;
            break;
        }
        read_header_line(written, &written->lines[i], seen, &scanner);
    }
    if (scanner.status != WEFT_OK)
        return scanner.status;
    for (unsigned key = COLLECTIVE; key <= RANKS; key++)
        if (!seen[key])
            return error_set(error, WEFT_ERROR_DATA, "%s: its header lacks '%s'", written->name, keys[key]);
    if (written->first_section == written->line_count)
        return error_set(error, WEFT_ERROR_DATA, "%s: it has no section with steps; a section begins with 'rank'",
                         written->name);
    return WEFT_OK;
}

weft_status schedule_text_parse(const char *text, size_t bytes, const char *name, struct schedule_text **result,
                                struct error *error)
{
    if (bytes > WRITTEN_BYTES_MOST)
        return error_set(error, WEFT_ERROR_DATA, "%s has %zu bytes; a schedule has at most %zu", name, bytes,
                         WRITTEN_BYTES_MOST);
    if (memchr(text, '\0', bytes))
        return error_set(error, WEFT_ERROR_DATA, "%s is not a text file: it has a NUL byte", name);
    struct schedule_text *written = calloc(1, sizeof *written);
    if (!written)
        return error_memory(error, sizeof *written, "a schedule");
    *written = (struct schedule_text){
        .text = malloc(bytes + 1), .name = strdup(name), .slots = 1, .hash = hash_bytes(text, bytes, 1)};
    weft_status status = written->text && written->name ? WEFT_OK : error_memory(error, bytes, "a schedule");
    if (status == WEFT_OK) {
        memcpy(written->text, text, bytes);
        written->text[bytes] = '\0';
        status = cut_lines(written, bytes, error);
    }
    if (status == WEFT_OK)
        status = text_read_header(written, error);
    if (status == WEFT_OK)
        status = find_sections(written, error);
    if (status != WEFT_OK)
        schedule_text_free(written);
    else
        *result = written;
    return status;
}

weft_status schedule_text_read(const char *path, struct schedule_text **written, struct error *error)
{
    char *text;
    size_t bytes;
    weft_status status = file_read(path, WRITTEN_BYTES_MOST, &text, &bytes, error);
    if (status != WEFT_OK)
        return status;
    status = schedule_text_parse(text, bytes, path, written, error);
    free(text);
    return status;
}

void schedule_text_free(struct schedule_text *written)
{
    if (!written)
        return;
    free(written->text);
    free(written->name);
    free(written->lines);
    free(written);
}

enum collective schedule_text_collective(const struct schedule_text *written)
{
    return written->collective;
}

const char *schedule_text_algorithm(const struct schedule_text *written)
{
    return written->algorithm;
}

uint32_t schedule_text_ranks(const struct schedule_text *written)
{
    return written->ranks.number;
}

uint64_t schedule_text_hash(const struct schedule_text *written)
{
    return written->hash;
}

bool schedule_text_in_place(const struct schedule_text *written)
{
    return written->in_place;
}

uint32_t schedule_text_root(const struct schedule_text *written, uint32_t otherwise)
{
    return written->root.given ? written->root.number : otherwise;
}

uint32_t schedule_text_peer(const struct schedule_text *written, uint32_t otherwise)
{
    return written->peer.given ? written->peer.number : otherwise;
}

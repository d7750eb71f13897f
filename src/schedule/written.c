/* SPDX-License-Identifier: Apache-2.0 */
/* The header and the sections of a written schedule; loops and conditions; from there to plans. */
#include "schedule/written.h"

#include "base/file.h"
#include "base/hash.h"
#include "base/text.h"
#include "schedule/sweep.h"
#include "schedule/verify.h"
#include "schedule/written_steps.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

/* A plan that takes more lines than these to write down is a mistake; so are more ranks. */
#define BUDGET     200000u
#define RANKS_MOST 4096

/* Loops and conditions within one another. */
#define NESTING_MOST 12

#define ALGORITHM_BYTES 48

enum line_kind { LINE_HEADER, LINE_SECTION, LINE_LANE, LINE_SCRATCH, LINE_FOR, LINE_IF, LINE_END, LINE_STEP };

struct line {
    const char *text; /* after the word that tells its kind; of a step, all of it */
    uint32_t number;  /* in the file */
    enum line_kind kind;
    uint32_t match; /* of a section: the next one; of a loop or condition: its end */
};

/* A number that all calls must have, or any. */
struct fixed {
    bool given;
    uint32_t number;
};

struct written {
    char *text, *name;
    struct line *lines;
    uint32_t line_count, first_section;
    uint64_t hash;
    enum collective collective;
    char algorithm[ALGORITHM_BYTES];
    struct fixed ranks, root, peer;
    const struct line *parts; /* NULL: 1 */
    uint64_t segment_bytes, most_block_bytes;
    uint32_t slots;
    bool canonical, in_place;
};

/* ---- lines ------------------------------------------------------------------------------------------------------- */

/* Cut the text into lines without comments and blanks around them; empty ones are left out. */
static weft_status cut_lines(struct written *written, size_t bytes, struct error *error)
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

static struct scanner scanner_at(const struct written *written, const struct line *line, struct error *error)
{
    return (struct scanner){.at = line->text, .file = written->name, .line = line->number, .error = error};
}

/* What kind a line of a section is; its text goes on after the word that tells. */
static bool classify(struct line *line, struct scanner *scanner)
{
    static const struct {
        const char *word;
        enum line_kind kind;
    } words[] = {{"rank", LINE_SECTION}, {"lane", LINE_LANE}, {"scratch", LINE_SCRATCH},
                 {"for", LINE_FOR},      {"if", LINE_IF},     {"end", LINE_END}};
    line->kind = LINE_STEP;
    for (size_t i = 0; i < sizeof words / sizeof *words; i++) {
        if (scanner_takes(scanner, words[i].word)) {
            line->kind = words[i].kind;
            line->text = scanner->at;
            break;
        }
    }
    return line->kind != LINE_END || scanner_ends(scanner) ||
           scanner_complain(scanner, "'%.24s' follows 'end'", scanner->at);
}

/* Find out what lines are, and which belong together. */
static weft_status find_sections(struct written *written, struct error *error)
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
                scanner_complain(&scanner, "nothing ends here");
            else
                written->lines[open[--depth]].match = i;
        }
        if (scanner.status != WEFT_OK)
            return scanner.status;
    }
    if (depth)
        return error_set(error, WEFT_ERROR_DATA, "%s, line %u: it never ends; an 'end' is missing", written->name,
                         written->lines[open[depth - 1]].number);
    written->lines[section].match = written->line_count;
    return WEFT_OK;
}

/* ---- header ------------------------------------------------------------------------------------------------------ */

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
static bool take_bytes(struct scanner *scanner, const char *what, uint64_t least, uint64_t *bytes)
{
    char text[32];
    struct error error = {0};
    scanner_ends(scanner); /* skips blanks */
    size_t length = strcspn(scanner->at, " \t");
    if (length >= sizeof text)
        return scanner_complain(scanner, "'%.24s' is no number of bytes", scanner->at);
    memcpy(text, scanner->at, length);
    text[length] = '\0';
    scanner->at += length;
    if (text_parse_bytes(text, what, bytes, &error) != WEFT_OK)
        return scanner_complain(scanner, "%s", error.text);
    if (*bytes < least || *bytes > (uint64_t)1 << 40)
        return scanner_complain(scanner, "%s is out of range; the least is %u bytes", what, (unsigned)least);
    return true;
}

static bool take_algorithm(struct written *written, struct scanner *scanner)
{
    scanner_ends(scanner);
    size_t length = strspn(scanner->at, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_+/.");
    if (!length || length >= ALGORITHM_BYTES)
        return scanner_complain(scanner, "an algorithm has a name of 1 to %u letters, digits and -_+/.",
                                ALGORITHM_BYTES - 1);
    memcpy(written->algorithm, scanner->at, length);
    scanner->at += length;
    return true;
}

static bool take_collective(struct written *written, struct scanner *scanner)
{
    struct error error = {0};
    char word[SCANNER_NAME];
    if (!scanner_word(scanner, word, sizeof word))
        return scanner_complain(scanner, "a collective should be named here");
    if (collective_parse(word, &written->collective, &error) != WEFT_OK)
        return scanner_complain(scanner, "%s", error.text);
    return true;
}

static bool take_segment(struct written *written, struct scanner *scanner)
{
    int64_t slots = 1;
    if (!take_bytes(scanner, "a segment", 4096, &written->segment_bytes))
        return false;
    if (written->segment_bytes % 4096)
        return scanner_complain(scanner, "a segment is a multiple of 4096 bytes");
    if (scanner_takes(scanner, "in") && (!scanner_number(scanner, "the number of slots", 1, PLAN_SLOTS, &slots) ||
                                         !(scanner_takes(scanner, "slots") || scanner_expects(scanner, "slot"))))
        return false;
    written->slots = (uint32_t)slots;
    return true;
}

static const char *const keys[] = {"collective", "algorithm", "ranks", "root",      "peer",
                                   "parts",      "segment",   "most",  "canonical", "in-place"};
enum key { COLLECTIVE, ALGORITHM, RANKS, ROOT, PEER, PARTS, SEGMENT, MOST, CANONICAL, IN_PLACE, KEYS };

static bool take_key(struct written *written, enum key key, struct scanner *scanner, const struct line *line)
{
    switch (key) {
    case COLLECTIVE:
        return take_collective(written, scanner);
    case ALGORITHM:
        return take_algorithm(written, scanner);
    case RANKS:
        return take_fixed(scanner, "the number of ranks", 1, RANKS_MOST, &written->ranks);
    case ROOT:
        return take_fixed(scanner, "the root", 0, RANKS_MOST - 1, &written->root);
    case PEER:
        return take_fixed(scanner, "the peer", 0, RANKS_MOST - 1, &written->peer);
    case PARTS: /* it may speak of ranks: worked out later */
        written->parts = line;
        scanner->at += strlen(scanner->at);
        return true;
    case SEGMENT:
        return take_segment(written, scanner);
    case MOST:
        return take_bytes(scanner, "the most bytes of a block", 1, &written->most_block_bytes);
    case CANONICAL:
        return written->canonical = true;
    default:
        return written->in_place = true;
    }
}

static bool read_header_line(struct written *written, struct line *line, bool *seen, struct scanner *scanner)
{
    for (unsigned key = 0; key < KEYS; key++) {
        if (!scanner_takes(scanner, keys[key]))
            continue;
        if (seen[key])
            return scanner_complain(scanner, "'%s' is said twice", keys[key]);
        seen[key] = true;
        line->text = scanner->at;
        return take_key(written, (enum key)key, scanner, line) &&
               (scanner_ends(scanner) || scanner_complain(scanner, "'%.24s' follows '%s'", scanner->at, keys[key]));
    }
    return scanner_complain(scanner,
                            "'%.24s' is no word of a header; they are collective, algorithm, ranks, root, peer, parts, "
                            "segment, most, canonical, in-place; then sections begin with 'rank'",
                            scanner->at);
}

static weft_status read_header(struct written *written, struct error *error)
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
            return error_set(error, WEFT_ERROR_DATA, "%s: its header says no '%s'", written->name, keys[key]);
    if (written->first_section == written->line_count)
        return error_set(error, WEFT_ERROR_DATA, "%s: no section says what ranks do; one begins with 'rank'",
                         written->name);
    return WEFT_OK;
}

weft_status written_parse(const char *text, size_t bytes, const char *name, struct written **result,
                          struct error *error)
{
    if (bytes > WRITTEN_BYTES_MOST)
        return error_set(error, WEFT_ERROR_DATA, "%s has %zu bytes; a schedule has at most %zu", name, bytes,
                         WRITTEN_BYTES_MOST);
    if (memchr(text, '\0', bytes))
        return error_set(error, WEFT_ERROR_DATA, "%s is no text: it has a byte 0", name);
    struct written *written = calloc(1, sizeof *written);
    if (!written)
        return error_memory(error, sizeof *written, "a schedule");
    *written = (struct written){
        .text = malloc(bytes + 1), .name = strdup(name), .slots = 1, .hash = hash_bytes(text, bytes, 1)};
    weft_status status = written->text && written->name ? WEFT_OK : error_memory(error, bytes, "a schedule");
    if (status == WEFT_OK) {
        memcpy(written->text, text, bytes);
        written->text[bytes] = '\0';
        status = cut_lines(written, bytes, error);
    }
    if (status == WEFT_OK)
        status = read_header(written, error);
    if (status == WEFT_OK)
        status = find_sections(written, error);
    if (status != WEFT_OK)
        written_free(written);
    else
        *result = written;
    return status;
}

weft_status written_read(const char *path, struct written **written, struct error *error)
{
    char *text;
    size_t bytes;
    weft_status status = file_read(path, WRITTEN_BYTES_MOST, &text, &bytes, error);
    if (status != WEFT_OK)
        return status;
    status = written_parse(text, bytes, path, written, error);
    free(text);
    return status;
}

void written_free(struct written *written)
{
    if (!written)
        return;
    free(written->text);
    free(written->name);
    free(written->lines);
    free(written);
}

enum collective written_collective(const struct written *written)
{
    return written->collective;
}

const char *written_algorithm(const struct written *written)
{
    return written->algorithm;
}

uint32_t written_ranks(const struct written *written)
{
    return written->ranks.number;
}

uint64_t written_hash(const struct written *written)
{
    return written->hash;
}

bool written_in_place(const struct written *written)
{
    return written->in_place;
}

uint32_t written_root(const struct written *written, uint32_t otherwise)
{
    return written->root.given ? written->root.number : otherwise;
}

uint32_t written_peer(const struct written *written, uint32_t otherwise)
{
    return written->peer.given ? written->peer.number : otherwise;
}

/* ---- plans ------------------------------------------------------------------------------------------------------- */

struct writing {
    const struct written *written;
    struct builder *builder;
    struct scanner scanner; /* its variables are those in force */
    uint32_t lane;          /* PLAN_LANES: none yet in this section */
    uint32_t budget;        /* lines left */
    bool told;              /* a section is this rank's */
};

static struct scanner *scan(struct writing *writing, const struct line *line)
{
    writing->scanner.at = line->text;
    writing->scanner.line = line->number;
    return &writing->scanner;
}

static bool ends(struct scanner *scanner)
{
    return scanner_ends(scanner) || scanner_complain(scanner, "'%.24s' is one word too many", scanner->at);
}

static bool spend(struct writing *writing)
{
    if (writing->budget--)
        return true;
    writing->budget = 0;
    return scanner_complain(&writing->scanner, "the plan of rank %u takes more than %u lines to write down",
                            writing->builder->plan->rank, BUDGET);
}

static bool write_lines(struct writing *writing, uint32_t from, uint32_t to);

/* "for k in 0..ranks-2" */
static bool write_loop(struct writing *writing, uint32_t at)
{
    const struct line *line = &writing->written->lines[at];
    struct scanner *scanner = scan(writing, line);
    char name[SCANNER_NAME + 1];
    int64_t first, last;
    if (!scanner_word(scanner, name, sizeof name))
        return scanner_complain(scanner, "a loop has a name: 'for k in 0..ranks-2'");
    if (!scanner_expects(scanner, "in") || !scanner_number(scanner, "the beginning", INT32_MIN, INT32_MAX, &first) ||
        !scanner_expects(scanner, "..") || !scanner_number(scanner, "the end", INT32_MIN, INT32_MAX, &last) ||
        !ends(scanner) || !scanner_define(scanner, name, first))
        return false;
    struct scanner_variable *variable = &scanner->variables[scanner->count - 1];
    bool right = true;
    for (; right && variable->value <= last; variable->value++) /* a round counts as a line, or empty loops were free */
        right = spend(writing) && write_lines(writing, at + 1, line->match);
    scanner_forget(scanner);
    return right;
}

/* "lane 0" */
static bool write_lane(struct writing *writing, struct scanner *scanner)
{
    int64_t lane;
    if (!scanner_number(scanner, "a lane", 0, PLAN_LANES - 1, &lane) || !ends(scanner))
        return false;
    writing->lane = (uint32_t)lane;
    return true;
}

static bool write_scratch(struct writing *writing, struct scanner *scanner)
{
    int64_t chunks;
    if (!scanner_number(scanner, "the chunks of scratch", 0, 1 << 24, &chunks) || !ends(scanner))
        return false;
    builder_scratch(writing->builder, (uint32_t)chunks);
    return true;
}

/* A step, which may have its number before it. */
static bool write_step(struct writing *writing, struct scanner *scanner)
{
    int64_t number;
    if (writing->lane == PLAN_LANES)
        return scanner_complain(scanner, "steps belong to a lane: 'lane 0' comes first");
    if (isdigit((unsigned char)*scanner->at)) {
        if (!scanner_number(scanner, "a step's number", 0, INT32_MAX, &number))
            return false;
        if (number != builder_now(writing->builder, writing->lane).steps)
            return scanner_complain(scanner, "this is step %u of lane %u, not %lld",
                                    builder_now(writing->builder, writing->lane).steps, writing->lane,
                                    (long long)number);
    }
    return written_step(scanner, writing->builder, writing->lane);
}

static bool write_lines(struct writing *writing, uint32_t from, uint32_t to)
{
    for (uint32_t i = from; i < to; i++) {
        const struct line *line = &writing->written->lines[i];
        struct scanner *scanner = scan(writing, line);
        int64_t condition = 1;
        bool right = true;
        if (!spend(writing))
            return false;
        switch (line->kind) {
        case LINE_LANE:
            right = write_lane(writing, scanner);
            break;
        case LINE_SCRATCH:
            right = write_scratch(writing, scanner);
            break;
        case LINE_FOR:
            right = write_loop(writing, i);
            i = line->match;
            break;
        case LINE_IF:
            right = scanner_number(scanner, "a condition", INT64_MIN / 4, INT64_MAX / 4, &condition) && ends(scanner);
            i = right && !condition ? line->match : i;
            break;
        case LINE_STEP:
            right = write_step(writing, scanner);
            break;
        default: /* the end of a condition that held */
            break;
        }
        if (!right)
            return false;
    }
    return true;
}

/* Whether a section is this rank's: "rank 3", "rank 0..3", "rank *". */
static bool is_mine(struct writing *writing, const struct line *line, bool *mine)
{
    struct scanner *scanner = scan(writing, line);
    int64_t first, last, rank = writing->builder->plan->rank;
    *mine = true;
    if (scanner_takes(scanner, "*"))
        return ends(scanner);
    if (!scanner_number(scanner, "a rank", INT32_MIN, INT32_MAX, &first))
        return false;
    last = first;
    if (scanner_takes(scanner, "..") && !scanner_number(scanner, "the last rank", INT32_MIN, INT32_MAX, &last))
        return false;
    *mine = rank >= first && rank <= last;
    if (first < 0 || last >= (int64_t)writing->builder->plan->ranks)
        return scanner_complain(scanner, "a section is for ranks %lld to %lld; there are %u", (long long)first,
                                (long long)last, writing->builder->plan->ranks);
    return ends(scanner);
}

static bool write_frame(struct writing *writing)
{
    const struct written *written = writing->written;
    struct plan *plan = writing->builder->plan;
    int64_t parts = 1;
    if (written->parts) {
        struct scanner *scanner = scan(writing, written->parts);
        if (!scanner_number(scanner, "the number of parts", 1, 65536, &parts) || !ends(scanner))
            return false;
    }
    plan->parts = (uint32_t)parts;
    plan->segment_bytes = written->segment_bytes;
    plan->slots = written->slots;
    plan->most_block_bytes = written->most_block_bytes;
    plan->canonical = written->canonical || !collective_reduces(written->collective);
    writing->builder->text_hash = written->hash;
    return scanner_define(&writing->scanner, "parts", parts);
}

static bool write_plan(struct writing *writing)
{
    const struct written *written = writing->written;
    if (!write_frame(writing))
        return false;
    for (uint32_t i = written->first_section; i < written->line_count; i = written->lines[i].match) {
        bool mine;
        if (!is_mine(writing, &written->lines[i], &mine))
            return false;
        if (!mine)
            continue;
        writing->told = true;
        writing->lane = PLAN_LANES;
        if (!write_lines(writing, i + 1, written->lines[i].match))
            return false;
    }
    return true;
}

/* Why the text is for other shapes, or WEFT_OK. */
static weft_status check_shape(const struct written *written, const struct plan_shape *shape, struct error *error)
{
    const char *reason = NULL;
    if (shape->collective != written->collective)
        reason = "it is for another collective";
    else if (shape->ranks > RANKS_MOST || (written->ranks.given && shape->ranks != written->ranks.number))
        reason = "it is for another number of ranks";
    else if (written->root.given && shape->root != written->root.number)
        reason = "it is for another root";
    else if (written->peer.given && shape->peer != written->peer.number)
        reason = "it is for another receiver";
    else if (shape->root >= shape->ranks || shape->peer >= shape->ranks ||
             (shape->collective == COLLECTIVE_SENDRECEIVE && shape->root == shape->peer))
        reason = "its root or peer is no rank, or a message has the same rank at both ends";
    else if (shape->collective == COLLECTIVE_ALLTOALL && shape->in_place != written->in_place)
        reason = shape->in_place ? "it is not for an all-to-all in place" : "it is for an all-to-all in place only";
    else if (shape->reproducible && collective_reduces(shape->collective) && !written->canonical)
        reason = "the communicator is marked reproducible, and it does not keep the canonical order of sums";
    if (!reason)
        return WEFT_OK;
    return error_set(error, WEFT_ERROR_ARGUMENT, "the schedule %s of %s (%s) cannot do this %s over %u ranks: %s",
                     written->algorithm, collective_name(written->collective), written->name,
                     collective_name(shape->collective), shape->ranks, reason);
}

weft_status written_plan(const struct written *written, const struct plan_shape *shape, uint32_t rank,
                         struct plan **plan, struct error *error)
{
    struct error own = {0};
    weft_status status = check_shape(written, shape, error);
    struct builder builder;
    if (status == WEFT_OK)
        status = builder_open(&builder, shape, rank, written->algorithm, error);
    if (status != WEFT_OK)
        return status;
    struct writing writing = {
        .written = written,
        .builder = &builder,
        .scanner = {.file = written->name, .error = error ? error : &own},
        .budget = BUDGET,
    };
    const struct scanner_variable known[] = {
        {"rank", rank}, {"ranks", shape->ranks}, {"root", shape->root}, {"peer", shape->peer}};
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        scanner_define(&writing.scanner, known[i].name, known[i].value);
    write_plan(&writing);
    if (writing.scanner.status == WEFT_OK && !writing.told)
        writing.scanner.status = error_set(writing.scanner.error, WEFT_ERROR_DATA, "%s says nothing of rank %u of %u",
                                           written->name, rank, shape->ranks);
    if (writing.scanner.status != WEFT_OK) {
        builder_discard(&builder);
        return writing.scanner.status;
    }
    return builder_close(&builder, plan, error);
}

weft_status written_prove(const struct written *written, const struct plan_shape *shape, struct plan ***plans,
                          struct error *error)
{
    weft_status status = check_shape(written, shape, error);
    if (status != WEFT_OK)
        return status;
    struct plan **all = calloc(shape->ranks, sizeof *all);
    if (!all)
        return error_memory(error, shape->ranks * sizeof *all, "the plans of all ranks");
    for (uint32_t rank = 0; rank < shape->ranks && status == WEFT_OK; rank++)
        status = written_plan(written, shape, rank, &all[rank], error);
    if (status == WEFT_OK)
        status = plan_verify(all, shape->ranks, shape, error);
    if (status == WEFT_OK)
        *plans = all;
    else
        sweep_free(all, shape->ranks);
    return status;
}

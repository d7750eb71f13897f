/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/measure/bench_print.h"

#include "base/format/json_put.h"
#include "core/collective/communicator/context.h"

static const char *buffers_name(const struct bench_case *what)
{
    return what->registered ? "registered" : "ordinary";
}

void bench_print_head(FILE *output, const struct bench_case *what)
{
    static const char *const places[] = {"out of place", "in place"};
    int ranks = weft_comm_size(what->comm), nodes = weft_comm_nodes(what->comm);
    fprintf(output, "# weft %s, %s: %d rank%s on %d node%s, %s buffers; cpu: processor time of a rank and call\n",
            weft_version(), what->collective->name, ranks, ranks == 1 ? "" : "s", nodes, nodes == 1 ? "" : "s",
            buffers_name(what));
    if (what->context->fabric)
        fprintf(output, "# network: %s\n", fabric_description(what->context->fabric));
    fprintf(output, "#%10s %10s %5s %10s %5s", "size", "count", "type", "redop", "root");
    for (int place = 0; place < 2; place++)
        fprintf(output, " | %-46s", places[place]);
    fprintf(output, " | algorithm\n#%10s %10s %5s %10s %5s", "B", "elements", "", "", "");
    for (int place = 0; place < 2; place++)
        fprintf(output, " | %10s %8s %8s %10s %6s", "time us", "alg GB/s", "bus GB/s", "cpu us", "#wrong");
    fprintf(output, " |\n");
}

void bench_print_row(FILE *output, const struct bench_case *what, const struct bench_row *row)
{
    const struct bench_result *any = &row->results[!row->measured[0]];
    fprintf(output, " %10zu %10zu %5s %10s %5d", any->bytes, any->count, row->type, row->op,
            what->collective->has_root ? what->root : -1);
    for (int place = 0; place < 2; place++) {
        const struct bench_result *result = &row->results[place];
        if (row->measured[place])
            fprintf(output, " | %10.2f %8.2f %8.2f %10.2f %6zu", result->seconds * 1e6,
                    result->algorithm_bandwidth * 1e-9, result->bus_bandwidth * 1e-9, result->cpu_seconds * 1e6,
                    result->errors);
        else
            fprintf(output, " | %10s %8s %8s %10s %6s", "-", "-", "-", "-", "-");
    }
    fprintf(output, " | %s\n", row->algorithm);
    fflush(output);
}

static weft_status print_json_line(FILE *output, const struct bench_case *what, const struct bench_row *row,
                                   bool in_place, struct error *error)
{
    const struct bench_result *result = &row->results[in_place];
    struct json_writer writer;
    json_begin_line(&writer);
    JSON_PUT(&writer, "collective", what->collective->name, "ranks", weft_comm_size(what->comm), "nodes",
             weft_comm_nodes(what->comm), "buffers", buffers_name(what), "in_place", in_place, "bytes", result->bytes,
             "count", result->count, "type", row->type, "op", row->op, "algorithm", row->algorithm, "time_us",
             result->seconds * 1e6, "algbw_gbps", result->algorithm_bandwidth * 1e-9, "busbw_gbps",
             result->bus_bandwidth * 1e-9, "cpu_us", result->cpu_seconds * 1e6);
    if (weft_comm_nodes(what->comm) > 1) {
        JSON_PUT(&writer, "network_bytes", result->network.payload_most, "network_bytes_least",
                 result->network.payload_least, "wire_bytes", result->network.wire_most, "wire_bytes_least",
                 result->network.wire_least);
    }
    JSON_PUT(&writer, "calls", result->calls, "errors", result->errors);
    weft_status status = json_complete(&writer, output, error);
    fflush(output);
    return status;
}

weft_status bench_print_json(FILE *output, const struct bench_case *what, const struct bench_row *row,
                             struct error *error)
{
    weft_status status = WEFT_OK;
    for (int place = 0; place < 2 && status == WEFT_OK; place++)
        if (row->measured[place])
            status = print_json_line(output, what, row, place, error);
    return status;
}

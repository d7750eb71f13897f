/* SPDX-License-Identifier: Apache-2.0 */
/*
 * replay GOAL LEAF BANDWIDTH UPLINK LATENCY ACROSS: run a collective in GOAL (weft sim collective --goal) in SimGrid and
 * print its seconds. Rank r is a host of its own under leaf r / LEAF; BANDWIDTH is that of a host's interface, UPLINK
 * that of a leaf's, each way, in bytes/s; LATENCY is between hosts of a leaf, ACROSS between leaves, in seconds.
 */
#include <simgrid/s4u.hpp>

#include <algorithm>
#include <cstdio>
#include <deque>
#include <fstream>
#include <map>
#include <sstream>
#include <string>
#include <vector>

namespace sg4 = simgrid::s4u;

/* Headers of a message, all layers together: SIMULATED_HEADER_BYTES. */
static const double header_bytes = 128;

struct operation {
    enum { SEND, RECEIVE, CALCULATE } kind = CALCULATE;
    double amount = 0; /* bytes, or nanoseconds */
    int peer = 0, tag = 0;
    int waits = 0; /* for so many operations */
    std::vector<int> next;
};

using operations = std::vector<operation>;

/* What lies between hosts. */
struct tree {
    size_t leaf;
    double latency, across;
    double between(int a, int b) const
    {
        return static_cast<size_t>(a) / leaf == static_cast<size_t>(b) / leaf ? latency : across;
    }
};

static double last_end; /* all actors run in one thread */

static sg4::Mailbox *mailbox_of(int from, int to, int tag)
{
    return sg4::Mailbox::by_name(std::to_string(from) + ">" + std::to_string(to) + "#" + std::to_string(tag));
}

/*
 * The operations of a rank, each as soon as those that it requires are complete. A send is complete when its last byte
 * has left, a receive a latency later: links have none, and each receive waits for it beside its host.
 */
static void run_rank(int rank, operations code, tree between, sg4::Host *waiting)
{
    static std::deque<double> departures; /* of all messages: when the last byte left; negative: not yet */
    std::vector<sg4::ActivityPtr> active;
    std::vector<int> numbers; /* of the active operations */
    std::deque<int> ready;
    std::vector<double *> departed(code.size());
    for (size_t i = 0; i < code.size(); i++) {
        if (!code[i].waits)
            ready.push_back(static_cast<int>(i));
        if (code[i].kind == operation::RECEIVE) /* messages leave when they are sent, not when they are asked for */
            mailbox_of(code[i].peer, rank, code[i].tag)->set_receiver(sg4::Actor::self());
    }
    while (!ready.empty() || !active.empty()) {
        for (; !ready.empty(); ready.pop_front()) {
            int number = ready.front();
            const operation &each = code[number];
            numbers.push_back(number);
            if (each.kind == operation::SEND) {
                departures.push_back(-1);
                departed[static_cast<size_t>(number)] = &departures.back();
                active.push_back(
                    mailbox_of(rank, each.peer, each.tag)
                        ->put_async(&departures.back(), static_cast<uint64_t>(each.amount + header_bytes)));
            }
            if (each.kind == operation::RECEIVE)
                active.push_back(
                    mailbox_of(each.peer, rank, each.tag)->get_async<double>(&departed[static_cast<size_t>(number)]));
            if (each.kind == operation::CALCULATE)
                active.push_back(sg4::this_actor::exec_async(each.amount));
        }
        ssize_t done = sg4::Activity::wait_any(active);
        int number = numbers[static_cast<size_t>(done)];
        operation &completed = code[static_cast<size_t>(number)];
        double now = sg4::Engine::get_clock();
        if (completed.kind == operation::SEND)
            *departed[static_cast<size_t>(number)] = now;
        if (completed.kind == operation::RECEIVE) {
            double left = *departed[static_cast<size_t>(number)];
            double rest = (left < 0 ? now : left) + between.between(completed.peer, rank) - now;
            completed.kind = operation::CALCULATE; /* the rest of it */
            active[static_cast<size_t>(done)] =
                sg4::Exec::init()->set_flops_amount(std::max(rest, 0.0) * 1e9)->set_host(waiting)->start();
            continue;
        }
        active.erase(active.begin() + done);
        numbers.erase(numbers.begin() + done);
        for (int next : completed.next)
            if (!--code[static_cast<size_t>(next)].waits)
                ready.push_back(next);
    }
    last_end = std::max(last_end, sg4::Engine::get_clock());
}

static std::vector<operations> read_goal(const char *path)
{
    std::ifstream file(path);
    std::vector<operations> ranks;
    std::map<std::string, int> numbers;
    std::string line, first, second, word, tag;
    operations *code = nullptr;
    while (std::getline(file, line)) {
        std::istringstream words(line);
        if (!(words >> first >> second))
            continue;
        if (first == "num_ranks") {
            ranks.resize(std::stoul(second));
        } else if (first == "rank") {
            code = &ranks.at(std::stoul(second));
            numbers.clear();
        } else if (second == "requires") {
            words >> word;
            code->at(static_cast<size_t>(numbers.at(first))).waits++;
            code->at(static_cast<size_t>(numbers.at(word))).next.push_back(numbers.at(first));
        } else {
            operation each;
            words >> word;
            each.amount = std::stod(word); /* "4096b" */
            each.kind = second == "send"   ? operation::SEND
                        : second == "recv" ? operation::RECEIVE
                                           : operation::CALCULATE;
            if (each.kind != operation::CALCULATE)
                words >> word >> each.peer >> tag >> each.tag;
            numbers[first.substr(0, first.size() - 1)] = static_cast<int>(code->size());
            code->push_back(each);
        }
    }
    return ranks;
}

/* Stars of hosts, joined in a star: every link carries each direction by itself. */
static std::vector<sg4::Host *> build_tree(size_t ranks, size_t leaf, double bandwidth, double uplink)
{
    std::vector<sg4::Host *> hosts;
    sg4::NetZone *root = sg4::create_star_zone("root");
    for (size_t first = 0; first < ranks; first += leaf) {
        std::string name = "leaf" + std::to_string(first / leaf);
        sg4::NetZone *zone = sg4::create_star_zone(name);
        zone->set_parent(root);
        simgrid::kernel::routing::NetPoint *router = zone->create_router(name + "-router");
        for (size_t rank = first; rank < std::min(first + leaf, ranks); rank++) {
            std::string host = "host" + std::to_string(rank);
            hosts.push_back(zone->create_host(host, 1e9)->seal()); /* one operation per nanosecond */
            const sg4::Link *link = zone->create_split_duplex_link(host + "-link", bandwidth)->seal();
            zone->add_route(hosts.back()->get_netpoint(), nullptr, nullptr, nullptr,
                            {{link, sg4::LinkInRoute::Direction::UP}}, true);
        }
        zone->seal();
        const sg4::Link *up = root->create_split_duplex_link(name + "-up", uplink)->seal();
        root->add_route(zone->get_netpoint(), nullptr, router, nullptr, {{up, sg4::LinkInRoute::Direction::UP}}, true);
    }
    /* Where latencies pass: as many as there are receives, at once. */
    hosts.push_back(root->create_host("latencies", 1e9)->set_core_count(1 << 20)->seal());
    root->seal();
    return hosts;
}

int main(int argc, char **argv)
{
    sg4::Engine engine(&argc, argv);
    if (argc != 7) {
        std::fprintf(stderr, "usage: replay GOAL LEAF BANDWIDTH UPLINK LATENCY ACROSS\n");
        return 2;
    }
    /* Links are ideal: all of their bandwidth, shared fairly, whatever the latency. */
    sg4::Engine::set_config("network/model:CM02");
    sg4::Engine::set_config("network/TCP-gamma:0");
    sg4::Engine::set_config("network/crosstraffic:0");
    std::vector<operations> ranks = read_goal(argv[1]);
    const tree between = {std::stoul(argv[2]), std::stod(argv[5]), std::stod(argv[6])};
    std::vector<sg4::Host *> hosts = build_tree(ranks.size(), between.leaf, std::stod(argv[3]), std::stod(argv[4]));
    for (size_t rank = 0; rank < ranks.size(); rank++)
        sg4::Actor::create("rank" + std::to_string(rank), hosts[rank], run_rank, static_cast<int>(rank), ranks[rank],
                           between, hosts.back());
    engine.run();
    std::printf("%.9g\n", last_end);
    return 0;
}

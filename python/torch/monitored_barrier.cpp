/* SPDX-License-Identifier: Apache-2.0 */
/* The barrier that names the ranks that are missing: over the group's store, so that the group stays whole. */
#include "process_group.h"

#include <sstream>
#include <stdexcept>
#include <thread>

namespace weft_torch
{

static constexpr std::chrono::milliseconds POLL_TIME(2);
/* Rank 0 reports who is missing at the end of the time; the others wait this much longer for its report. */
static constexpr std::chrono::milliseconds REPORT_TIME(5000);

/* Wait until the store has the key. Returns false at the end of the time. */
static bool wait_for_key(c10d::Store &store, const std::string &key, std::chrono::steady_clock::time_point end)
{
    while (!store.check({key})) {
        if (std::chrono::steady_clock::now() >= end)
            return false;
        std::this_thread::sleep_for(POLL_TIME);
    }
    return true;
}

/* Wait until the number at the key is `count`, or the end of the time. */
static void wait_for_count(c10d::Store &store, const std::string &key, int64_t count,
                           std::chrono::steady_clock::time_point end)
{
    while (store.add(key, 0) < count && std::chrono::steady_clock::now() < end)
        std::this_thread::sleep_for(POLL_TIME);
}

/* "" if all ranks come in time, otherwise which do not. */
static std::string find_missing(c10d::Store &store, const std::string &prefix, const weft_comm *comm,
                                std::chrono::steady_clock::time_point end)
{
    std::string missing;
    for (int rank = 1; rank < weft_comm_size(comm); rank++) {
        const std::string key = prefix + std::to_string(rank);
        if (wait_for_key(store, key, end)) {
            store.deleteKey(key);
            continue;
        }
        const char *host = weft_comm_host(comm, rank);
        missing += (missing.empty() ? "rank " : ", rank ") + std::to_string(rank) +
                   (host ? std::string(" on host ") + host : "");
    }
    return missing;
}

void WeftProcessGroup::monitoredBarrier(const c10d::BarrierOptions &options, bool)
{
    const auto limit = options.timeout == c10d::kUnsetTimeout ? kProcessGroupDefaultTimeout : options.timeout;
    const auto end = std::chrono::steady_clock::now() + limit;
    const std::string prefix = "monitored_barrier/" + std::to_string(++barriers_) + "/", result = prefix + "result",
                      seen = prefix + "seen";
    std::string missing = "rank 0, which reports the others,";
    if (rank_ == 0) {
        missing = find_missing(*store_, prefix, channel_->comm(), end);
        store_->set(result, std::vector<uint8_t>(missing.begin(), missing.end()));
        if (missing.empty()) /* the store may be this process's, and may go with it */
            wait_for_count(*store_, seen, size_ - 1, std::chrono::steady_clock::now() + REPORT_TIME);
    } else {
        store_->set(prefix + std::to_string(rank_), std::vector<uint8_t>(1, 1));
        if (wait_for_key(*store_, result, end + REPORT_TIME)) {
            const auto bytes = store_->get(result);
            missing.assign(bytes.begin(), bytes.end());
            store_->add(seen, 1);
        }
    }
    if (missing.empty())
        return;
    std::ostringstream text;
    text << "monitored_barrier: " << missing << " did not reach barrier " << barriers_ << " of the group within "
         << (double)limit.count() / 1000 << " s";
    throw std::runtime_error(text.str());
}

} // namespace weft_torch

/* SPDX-License-Identifier: Apache-2.0 */
#include "buckets.h"

#include "channel.h"

#include <c10/core/CPUAllocator.h>

#include <cstring>
#include <list>
#include <memory>
#include <mutex>

namespace weft_torch
{

/* Below it a copy costs less than the exchange is worth. */
static constexpr size_t LEAST_BYTES = 256 << 10;

/* Memory of weft_alloc() under a tensor. */
struct BucketMemory {
    weft_context *context;
    void *pointer;
    size_t bytes;
    c10::weak_intrusive_ptr<c10::StorageImpl> storage;
    std::list<std::unique_ptr<BucketMemory>>::iterator place;
};

static std::mutex buckets_mutex;
static std::list<std::unique_ptr<BucketMemory>> buckets;

/* Called by the storage, or by buckets_give_back(), when the memory is not used any more. */
static void release(void *argument)
{
    auto *memory = static_cast<BucketMemory *>(argument);
    if (is_forked())
        return;
    std::lock_guard<std::mutex> guard(buckets_mutex);
    weft_free(memory->context, memory->pointer);
    buckets.erase(memory->place);
}

static bool may_be_taken(const at::Tensor &tensor)
{
    if (!tensor.has_storage() || tensor.nbytes() < LEAST_BYTES || tensor.storage_offset() != 0 ||
        !tensor.is_contiguous() || tensor.storage().nbytes() != tensor.nbytes())
        return false;
    const auto ordinary = c10::GetCPUAllocator()->raw_deleter();
    return ordinary && tensor.storage().data_ptr().get_deleter() == ordinary;
}

void buckets_take_seen(weft_context *context, const at::Tensor &tensor)
{
    if (!may_be_taken(tensor))
        return;
    const size_t bytes = tensor.nbytes();
    void *pointer = weft_alloc(context, bytes);
    if (!pointer)
        return; /* the heap is full: ordinary memory works, too */
    std::memcpy(pointer, tensor.data_ptr(), bytes);
    c10::StorageImpl *storage = tensor.storage().unsafeGetStorageImpl();
    BucketMemory *memory;
    {
        std::lock_guard<std::mutex> guard(buckets_mutex);
        buckets.emplace_back(
            new BucketMemory{context,
                             pointer,
                             bytes,
                             c10::weak_intrusive_ptr<c10::StorageImpl>(
                                 c10::intrusive_ptr<c10::StorageImpl>::unsafe_reclaim_from_nonowning(storage)),
                             {}});
        buckets.back()->place = std::prev(buckets.end());
        memory = buckets.back().get();
    }
    storage->set_data_ptr_noswap(at::DataPtr(pointer, memory, release, at::Device(at::kCPU)));
}

void buckets_take(weft_context *context, const at::Tensor &tensor)
{
    if (!tensor.unsafeGetTensorImpl()->_unchecked_untagged_pyobj())
        buckets_take_seen(context, tensor);
}

void buckets_give_back()
{
    std::list<c10::intrusive_ptr<c10::StorageImpl>> storages;
    {
        std::lock_guard<std::mutex> guard(buckets_mutex);
        for (const auto &memory : buckets)
            if (auto storage = memory->storage.lock())
                storages.push_back(std::move(storage));
    }
    for (const auto &storage : storages) {
        at::DataPtr ordinary = c10::GetCPUAllocator()->allocate(storage->nbytes());
        std::memcpy(ordinary.get(), storage->data(), storage->nbytes());
        storage->set_data_ptr_noswap(std::move(ordinary));
    }
}

size_t buckets_bytes()
{
    size_t bytes = 0;
    std::lock_guard<std::mutex> guard(buckets_mutex);
    for (const auto &memory : buckets)
        bytes += memory->bytes;
    return bytes;
}

} // namespace weft_torch

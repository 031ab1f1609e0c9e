// See pool.h.
#include "torch/program/pool.h"

#include <c10/core/CPUAllocator.h>

#include <cstring>
#include <mutex>
#include <new>
#include <vector>

#include "jit/run/arena.h"
#include "support/fork.h"

namespace escapement {
namespace {

constexpr uint64_t kPatience = 256;  // allocations that a block may stay idle

struct Block {
  void* data = nullptr;
  size_t bytes = 0;
  uint64_t freed_at = 0;
};

class Pool final : public c10::Allocator {
 public:
  c10::DataPtr allocate(size_t bytes) override {
    Block* block = find(bytes);
    if (block == nullptr) block = fresh(bytes);
    return {block->data, block, &Pool::release, c10::Device(c10::DeviceType::CPU)};
  }

  void copy_data(void* destination, const void* source, std::size_t count) const override {
    std::memcpy(destination, source, count);
  }

  size_t idle_bytes() {
    const std::lock_guard lock(mutex_);
    return idle_bytes_;
  }

  void trim() {
    std::vector<Block*> dead;
    {
      const std::lock_guard lock(mutex_);
      dead.swap(idle_);
      idle_bytes_ = 0;
    }
    for (Block* block : dead) destroy(block);
  }

  static bool made(const c10::DataPtr& memory) { return memory.get_deleter() == &Pool::release; }

  static Pool& instance() {
    static Pool* pool = new Pool;  // never destroyed: tensors may outlive static objects
    return *pool;
  }

 private:
  static void release(void* context) { instance().keep(static_cast<Block*>(context)); }

  static void destroy(Block* block) {
    free_pages(block->data);
    delete block;
  }

  // Sizes are rounded so that slowly varying ones share blocks; at most an eighth is lost.
  static size_t rounded(size_t bytes) {
    size_t step = kPooledBytes / 4;
    while (step * 8 < bytes) step *= 2;
    return round_up(bytes, step);
  }

  static Block* fresh(size_t bytes) {
    const size_t size = rounded(bytes);
    try {
      return new Block{allocate_pages(size), size, 0};
    } catch (const std::bad_alloc&) {
      instance().trim();  // what we hold idle may be what is missing
      return new Block{allocate_pages(size), size, 0};
    }
  }

  // The smallest idle block that fits and wastes little.
  Block* find(size_t bytes) {
    const std::lock_guard lock(mutex_);
    ++clock_;
    size_t best = idle_.size();
    for (size_t i = 0; i < idle_.size(); ++i) {
      const bool fits = idle_[i]->bytes >= bytes && idle_[i]->bytes <= rounded(bytes) + rounded(bytes) / 2;
      if (fits && (best == idle_.size() || idle_[i]->bytes < idle_[best]->bytes)) best = i;
    }
    if (best == idle_.size()) return nullptr;
    Block* block = idle_[best];
    idle_[best] = idle_.back();
    idle_.pop_back();
    idle_bytes_ -= block->bytes;
    return block;
  }

  void keep(Block* block) {
    std::vector<Block*> dead;
    {
      const std::lock_guard lock(mutex_);
      block->freed_at = clock_;
      idle_.push_back(block);
      idle_bytes_ += block->bytes;
      while (!idle_.empty() && (idle_bytes_ > kPoolLimit || clock_ - oldest()->freed_at > kPatience)) dead.push_back(drop_oldest());
    }
    for (Block* old : dead) destroy(old);
  }

  size_t oldest_position() const {
    size_t position = 0;
    for (size_t i = 1; i < idle_.size(); ++i) {
      if (idle_[i]->freed_at < idle_[position]->freed_at) position = i;
    }
    return position;
  }
  Block* oldest() const { return idle_[oldest_position()]; }

  Block* drop_oldest() {
    const size_t position = oldest_position();
    Block* block = idle_[position];
    idle_[position] = idle_.back();
    idle_.pop_back();
    idle_bytes_ -= block->bytes;
    return block;
  }

  ForkMutex mutex_;
  std::vector<Block*> idle_;
  size_t idle_bytes_ = 0;
  uint64_t clock_ = 0;
};

}  // namespace

c10::Allocator* output_allocator(size_t bytes) {
  if (bytes >= kPooledBytes) return output_pool();
  return bytes == 0 || bytes > kSmallBytes ? c10::GetDefaultCPUAllocator() : small_pool();
}

c10::Allocator* output_pool() { return &Pool::instance(); }

bool is_allocated_memory(const c10::DataPtr& memory) {
  const c10::DeleterFnPtr torchs = c10::GetCPUAllocator()->raw_deleter();
  return Pool::made(memory) || is_small_memory(memory) || (torchs != nullptr && memory.get_deleter() == torchs);
}

size_t pooled_idle_bytes() { return Pool::instance().idle_bytes(); }
void trim_output_pool() { Pool::instance().trim(); }

}  // namespace escapement

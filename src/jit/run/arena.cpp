// See arena.h.
#include "jit/run/arena.h"

#include <sys/mman.h>

#include <cstdlib>
#include <new>

namespace escapement {
namespace {

constexpr size_t kHugePage = size_t{2} << 20;

}  // namespace

void* allocate_pages(size_t bytes) {
  const bool large = bytes >= kHugePage;
  const size_t alignment = large ? kHugePage : Arena::kAlignment;
  void* memory = std::aligned_alloc(alignment, round_up(bytes == 0 ? 1 : bytes, alignment));
  if (memory == nullptr) throw std::bad_alloc();
#ifdef MADV_HUGEPAGE
  if (large) madvise(memory, round_up(bytes, alignment), MADV_HUGEPAGE);  // advice: a refusal costs speed only
#endif
  return memory;
}

void free_pages(void* memory) noexcept { std::free(memory); }

Arena::~Arena() { free_pages(data_); }

void Arena::replace(size_t bytes) {
  free_pages(data_);
  data_ = nullptr;
  capacity_ = 0;
  oversized_calls_ = 0;
  bytes += bytes / 8;  // a slowly growing size does not replace the block at every call
  const size_t capacity = round_up(bytes, bytes >= kHugePage ? kHugePage : kAlignment);
  data_ = static_cast<std::byte*>(allocate_pages(capacity));
  capacity_ = capacity;
}

std::byte* Arena::reserve(size_t bytes) {
  if (should_shrink(bytes) || bytes > capacity_) replace(bytes);
  return data_;
}

}  // namespace escapement

// See guarded_memory.h.
#include "fuzz/ir/guarded_memory.h"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <map>
#include <new>
#include <vector>

namespace escapement::fuzz {
namespace {

constexpr unsigned char kSlack = 0xa5;

size_t page() {
  static const auto size = static_cast<size_t>(sysconf(_SC_PAGESIZE));
  return size;
}

// Per number of bytes inside: mappings with a closed page on either side.
std::map<size_t, std::vector<char*>>& kept() {
  static auto* const mappings = new std::map<size_t, std::vector<char*>>;
  return *mappings;
}

char* take(size_t inside) {
  std::vector<char*>& free = kept()[inside];
  if (!free.empty()) {
    char* mapping = free.back();
    free.pop_back();
    return mapping;
  }
  void* mapping = mmap(nullptr, inside + 2 * page(), PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (mapping == MAP_FAILED) throw std::bad_alloc();
  if (mprotect(static_cast<char*>(mapping) + page(), inside, PROT_READ | PROT_WRITE) != 0) throw std::bad_alloc();
  return static_cast<char*>(mapping);
}

}  // namespace

GuardedMemory::GuardedMemory(size_t bytes, Side side) : bytes_(bytes) {
  inside_ = std::max<size_t>((bytes + page() - 1) / page(), 1) * page();
  mapping_ = take(inside_);
  data_ = mapping_ + page() + (side == Side::before ? 0 : inside_ - bytes);
  if (bytes < kFar) std::memset(mapping_ + page(), kSlack, inside_);
}

GuardedMemory::~GuardedMemory() {
  if (mapping_ == nullptr) return;
  if (bytes_ >= kFar) munmap(mapping_, inside_ + 2 * page());
  else kept()[inside_].push_back(mapping_);
}

bool GuardedMemory::intact() const {
  if (bytes_ >= kFar) return true;
  const char *begin = mapping_ + page(), *end = begin + inside_;
  const auto same = [](char c) { return static_cast<unsigned char>(c) == kSlack; };
  return std::all_of(begin, static_cast<const char*>(data_), same) && std::all_of(static_cast<const char*>(data_) + bytes_, end, same);
}

}  // namespace escapement::fuzz

// See listing.h.
#include "torch/api/listing.h"

#include <fcntl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstring>

namespace escapement {

namespace {

// Reads memory that may be nobody's: the kernel looks first.
class AnyMemory {
 public:
  AnyMemory() {
    if (::pipe2(ends_.data(), O_CLOEXEC | O_NONBLOCK) != 0) ends_ = {-1, -1};
  }
  AnyMemory(const AnyMemory&) = delete;
  AnyMemory& operator=(const AnyMemory&) = delete;
  ~AnyMemory() {
    for (const int end : ends_)
      if (end >= 0) ::close(end);
  }

  template <class T>
  bool read(uintptr_t address, T& into) const {
    constexpr long kAll = sizeof into;
    return ends_[0] >= 0 && ::syscall(SYS_write, ends_[1], address, kAll) == kAll && ::read(ends_[0], &into, kAll) == kAll;
  }

 private:
  std::array<int, 2> ends_{};
};

struct Head {
  uintptr_t table;    // of virtual functions
  uint64_t counts;    // of references, the strong ones in the lower half
};

uintptr_t table_of_tensors() {
  static const at::Tensor plain =
      at::detail::make_tensor<c10::TensorImpl>(c10::DispatchKeySet(c10::DispatchKey::CPU), caffe2::TypeMeta::Make<float>(), c10::Device(c10::kCPU));
  uintptr_t table = 0;
  std::memcpy(&table, plain.unsafeGetTensorImpl(), sizeof table);
  return table;
}

// A word that is the address of a tensor that somebody holds.
bool is_tensor(uintptr_t word, const AnyMemory& memory) {
  static_assert(sizeof(c10::intrusive_ptr_target) == sizeof(Head));
  constexpr uintptr_t kFirst = 1 << 16, kEnd = uintptr_t{1} << 56;
  Head head{};
  const bool may_be = word >= kFirst && word < kEnd && word % sizeof head == 0;   // as memory is allotted: it lies in one page
  if (!may_be || !memory.read(word, head)) return false;
  return head.table == table_of_tensors() && static_cast<uint32_t>(head.counts) != 0;
}

}  // namespace

void Listing::module(const std::shared_ptr<const void>& module) {
  number(reinterpret_cast<uintptr_t>(module.get()));
  if (keeping_) modules_.push_back(module);
}

void Listing::text(std::string_view text) {
  number(text.size());
  for (size_t at = 0; at < text.size(); at += sizeof(uint64_t)) {
    uint64_t word = 0;
    std::memcpy(&word, text.data() + at, std::min(sizeof word, text.size() - at));
    number(word);
  }
}

void Listing::never_equal() {
  static std::atomic<uint64_t> count{0};
  number(++count);
}

void Listing::keep_members(std::span<const std::byte> object) {
  if (!keeping_) return;
  using Held = c10::intrusive_ptr<c10::TensorImpl, c10::UndefinedTensorImpl>;
  const AnyMemory memory;
  for (size_t at = 0; at + sizeof(uintptr_t) <= object.size(); at += alignof(void*)) {
    uintptr_t word = 0;
    std::memcpy(&word, object.data() + at, sizeof word);
    if (is_tensor(word, memory)) kept_.emplace_back(at::Tensor(Held::reclaim_copy(reinterpret_cast<c10::TensorImpl*>(word))));
  }
}

bool Listing::names(const void* address) const { return std::ranges::find(words_, reinterpret_cast<uintptr_t>(address)) != words_.end(); }

}  // namespace escapement

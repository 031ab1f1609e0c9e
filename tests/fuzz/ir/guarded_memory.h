// Memory that ends, or begins, at a page that may not be touched. Mappings are kept and used again: making one costs microseconds. From
// kFar on only those pages exist that are touched, there are no patterns, and the mapping goes with its owner.
#pragma once

#include <cstddef>
#include <utility>

namespace escapement::fuzz {

class GuardedMemory {
 public:
  enum class Side { before, after };
  static constexpr size_t kFar = size_t{1} << 28;
  GuardedMemory() = default;
  GuardedMemory(size_t bytes, Side side);
  ~GuardedMemory();
  GuardedMemory(GuardedMemory&& other) noexcept { swap(other); }
  GuardedMemory& operator=(GuardedMemory&& other) noexcept {
    swap(other);
    return *this;
  }

  char* data() const { return data_; }
  size_t size() const { return bytes_; }
  bool intact() const;  // nothing was written between the other page and the data

 private:
  void swap(GuardedMemory& other) {
    std::swap(mapping_, other.mapping_), std::swap(inside_, other.inside_), std::swap(data_, other.data_), std::swap(bytes_, other.bytes_);
  }

  char *mapping_ = nullptr, *data_ = nullptr;
  size_t inside_ = 0, bytes_ = 0;  // inside: between the two pages
};

}  // namespace escapement::fuzz

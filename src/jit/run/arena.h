// Arena: the temporaries of one call, at offsets that the plan's slots give. One block, 64-byte aligned, kept between calls.
//
// It grows at once and shrinks late: only after kPatience calls in a row that needed less than a quarter of it, so that one
// long request does not cost memory for ever, and alternating sizes cost no page faults.
#pragma once

#include <cstddef>
#include <cstdint>

namespace escapement {

class Arena {
 public:
  static constexpr size_t kAlignment = 64;
  static constexpr size_t kKeepAlways = size_t{1} << 20;  // below this, shrinking is not worth a call to the allocator
  static constexpr uint32_t kPatience = 64;

  Arena() = default;
  ~Arena();
  Arena(const Arena&) = delete;
  Arena& operator=(const Arena&) = delete;

  // A block of at least `bytes`; its contents are undefined afterwards. Throws std::bad_alloc.
  std::byte* reserve(size_t bytes);
  // To be asked once per call that reserves nothing new: whether it is time to `reserve` again, to give memory back.
  bool should_shrink(size_t bytes) {
    if (capacity_ <= kKeepAlways || bytes >= capacity_ / 4) return oversized_calls_ = 0, false;
    return ++oversized_calls_ > kPatience;
  }
  std::byte* data() const { return data_; }
  size_t capacity() const { return capacity_; }

 private:
  void replace(size_t bytes);

  std::byte* data_ = nullptr;
  size_t capacity_ = 0;
  uint32_t oversized_calls_ = 0;
};

// Aligned memory; from 2 MiB on huge pages are advised, since page faults would cost more than the kernels.
void* allocate_pages(size_t bytes);
void free_pages(void* memory) noexcept;

inline size_t round_up(size_t bytes, size_t to) { return (bytes + to - 1) / to * to; }

}  // namespace escapement

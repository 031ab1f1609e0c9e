// Memory of small outputs (see pool.h). An aligned block from the C library costs more than a small kernel: it splits a larger block,
// and gives the rest back. Each thread keeps the blocks that it freed last, a list for each power of two.
#include <algorithm>
#include <array>
#include <bit>
#include <cstdlib>
#include <cstring>
#include <new>
#include <utility>

#include "torch/program/pool.h"

namespace escapement {
namespace {

constexpr size_t kSmallest = 64;    // bytes, and the alignment of all
constexpr size_t kClasses = std::bit_width(kSmallBytes / kSmallest);
constexpr uint32_t kKept = 32;      // blocks of a class that a thread keeps

struct Block {
  Block* next;
};

struct List {
  Block* first = nullptr;
  uint32_t count = 0;
};

thread_local bool ended = false;    // tensors may be freed while a thread's own objects go away

struct Lists {
  std::array<List, kClasses> of_class;

  ~Lists() {
    ended = true;
    for (List& list : of_class) {
      while (list.first != nullptr) std::free(std::exchange(list.first, list.first->next));
    }
  }
};

Lists& lists() {
  thread_local Lists mine;
  return mine;
}

template <size_t kClass>
void release(void* memory) {
  List* const list = ended ? nullptr : &lists().of_class[kClass];
  if (list == nullptr || list->count == kKept) return std::free(memory);
  list->first = new (memory) Block{list->first};
  ++list->count;
}

template <size_t... kClass>
constexpr std::array<c10::DeleterFnPtr, kClasses> releases(std::index_sequence<kClass...>) {
  return {release<kClass>...};
}

constexpr auto kReleases = releases(std::make_index_sequence<kClasses>());

size_t class_of(size_t bytes) { return std::bit_width((std::max<size_t>(bytes, 1) - 1) / kSmallest); }

void* take(size_t number) {
  List* const list = ended ? nullptr : &lists().of_class[number];
  if (list != nullptr && list->first != nullptr) {
    --list->count;
    return std::exchange(list->first, list->first->next);
  }
  void* memory = std::aligned_alloc(kSmallest, kSmallest << number);
  if (memory == nullptr) throw std::bad_alloc();
  return memory;
}

class SmallPool final : public c10::Allocator {
 public:
  c10::DataPtr allocate(size_t bytes) override {
    if (bytes > kSmallBytes) return output_allocator(bytes)->allocate(bytes);  // a storage that grew
    const size_t number = class_of(bytes);
    void* const memory = take(number);
    return {memory, memory, kReleases[number], c10::Device(c10::DeviceType::CPU)};
  }

  void copy_data(void* destination, const void* source, std::size_t count) const override { std::memcpy(destination, source, count); }
};

}  // namespace

c10::Allocator* small_pool() {
  static SmallPool* const pool = new SmallPool;  // never destroyed: tensors may outlive static objects
  return pool;
}

}  // namespace escapement

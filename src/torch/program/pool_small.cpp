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

// One thread's lists. Without a destructor, and in one place: what has one, or lies in several, is looked up several times at each call.
struct Lists {
  enum class State : uint8_t { unused, kept, ended };   // ended: tensors may be freed while a thread's own objects go away
  std::array<List, kClasses> of_class;
  State state = State::unused;
};
thread_local constinit Lists mine{};

struct ThreadEnd {
  ~ThreadEnd() {
    mine.state = Lists::State::ended;
    for (List& list : mine.of_class) {
      while (list.first != nullptr) std::free(std::exchange(list.first, list.first->next));
    }
  }
};

[[gnu::noinline, gnu::cold]] Lists* begin_thread() {
  if (mine.state == Lists::State::ended) return nullptr;
  static thread_local const ThreadEnd end;
  mine.state = Lists::State::kept;
  return &mine;
}

Lists* lists() {
  Lists* const here = &mine;
  return here->state == Lists::State::kept ? here : begin_thread();
}

template <size_t kClass>
void release(void* memory) {
  Lists* const here = lists();
  if (here == nullptr || here->of_class[kClass].count == kKept) return std::free(memory);
  List& list = here->of_class[kClass];
  list.first = new (memory) Block{list.first};
  ++list.count;
}

template <size_t... kClass>
constexpr std::array<c10::DeleterFnPtr, kClasses> releases(std::index_sequence<kClass...>) {
  return {release<kClass>...};
}

constexpr auto kReleases = releases(std::make_index_sequence<kClasses>());

size_t class_of(size_t bytes) { return std::bit_width((std::max<size_t>(bytes, 1) - 1) / kSmallest); }

void* take(size_t number) {
  if (Lists* const here = lists(); here != nullptr && here->of_class[number].first != nullptr) {
    List& list = here->of_class[number];
    --list.count;
    return std::exchange(list.first, list.first->next);
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

bool is_small_memory(const c10::DataPtr& memory) { return std::ranges::find(kReleases, memory.get_deleter()) != kReleases.end(); }

c10::Allocator* small_pool() {
  static SmallPool* const pool = new SmallPool;  // never destroyed: tensors may outlive static objects
  return pool;
}

}  // namespace escapement

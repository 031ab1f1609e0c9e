// Preloaded, an operator new that fails once: at the n-th allocation that the arming thread makes. test_failing_memory.py asks that whatever
// was being recorded or compiled then ends, and that the next call works.
#include <pthread.h>

#include <algorithm>
#include <cstddef>
#include <cstdlib>
#include <new>

namespace {

pthread_t armed_thread;
long left = -1;  // allocations of that thread until one fails; negative: not armed
long seen = 0;

bool fails() {
  if (left < 0 || !pthread_equal(armed_thread, pthread_self())) return false;
  ++seen;
  return left-- == 0;
}

void* allocate(size_t bytes, size_t alignment) {
  void* memory = nullptr;
  if (fails() || posix_memalign(&memory, alignment, bytes != 0 ? bytes : 1) != 0) return nullptr;
  return memory;
}

void* allocate_or_throw(size_t bytes, size_t alignment) {
  void* const memory = allocate(bytes, alignment);
  if (memory == nullptr) throw std::bad_alloc();
  return memory;
}

constexpr size_t kAlignment = alignof(std::max_align_t);
size_t number(std::align_val_t alignment) { return std::max(kAlignment, static_cast<size_t>(alignment)); }

}  // namespace

extern "C" void arm_failing_new(long allocations) {
  armed_thread = pthread_self();
  seen = 0;
  left = allocations;
}

extern "C" long disarm_failing_new() {
  left = -1;
  return seen;
}

void* operator new(size_t bytes) { return allocate_or_throw(bytes, kAlignment); }
void* operator new[](size_t bytes) { return allocate_or_throw(bytes, kAlignment); }
void* operator new(size_t bytes, std::align_val_t alignment) { return allocate_or_throw(bytes, number(alignment)); }
void* operator new[](size_t bytes, std::align_val_t alignment) { return allocate_or_throw(bytes, number(alignment)); }
void* operator new(size_t bytes, const std::nothrow_t&) noexcept { return allocate(bytes, kAlignment); }
void* operator new[](size_t bytes, const std::nothrow_t&) noexcept { return allocate(bytes, kAlignment); }
void operator delete(void* memory) noexcept { std::free(memory); }
void operator delete[](void* memory) noexcept { std::free(memory); }
void operator delete(void* memory, size_t) noexcept { std::free(memory); }
void operator delete[](void* memory, size_t) noexcept { std::free(memory); }
void operator delete(void* memory, std::align_val_t) noexcept { std::free(memory); }
void operator delete[](void* memory, std::align_val_t) noexcept { std::free(memory); }
void operator delete(void* memory, size_t, std::align_val_t) noexcept { std::free(memory); }
void operator delete[](void* memory, size_t, std::align_val_t) noexcept { std::free(memory); }
void operator delete(void* memory, const std::nothrow_t&) noexcept { std::free(memory); }
void operator delete[](void* memory, const std::nothrow_t&) noexcept { std::free(memory); }

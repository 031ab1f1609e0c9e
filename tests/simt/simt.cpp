// See simt.h.
#include "simt/simt.h"

#include <ucontext.h>

#include <algorithm>
#include <sstream>
#include <utility>

namespace escapement::testing {

namespace {

constexpr size_t kStack = 64 << 10;
constexpr uint32_t kWarp = 32;
enum Kind : int { kRuns, kEnded, kAtBarrier, kAtWarpBarrier, kAtShuffleDown, kAtShuffleFrom };
const char* const kKindNames[] = {"runs", "has ended", "waits at a barrier", "waits at a warp barrier", "waits at a shuffle down", "waits at a shuffle"};

thread_local SimtMachine* current = nullptr;

}  // namespace

struct SimtMachine::Fiber {
  ucontext_t beginning;
  jmp_buf place_in_code;
  bool begun = false;                      // its stack is in use: it waits inside of a kernel, or for the next one
  std::unique_ptr<char[]> stack{new char[kStack]};
  int kind = kEnded;
  const void* place = nullptr;             // where it waits
  uint32_t value = 0, source = 0, result = 0;   // of a shuffle
};

// The table that kernels call through.
struct Machine {
  static uint32_t thread() { return current->thread_; }
  static uint32_t threads() { return current->grid_.threads; }
  static uint32_t block() { return current->block_; }
  static uint32_t blocks() { return current->grid_.blocks; }
  static void barrier() { current->wait_for_block(__builtin_return_address(0)); }
  static void warp_barrier() { current->wait_for_warp(kAtWarpBarrier, 0, 0, __builtin_return_address(0)); }
  static uint32_t shuffle_down(uint32_t value, uint32_t distance) {
    const uint32_t lane = current->thread_ % kWarp;
    return current->wait_for_warp(kAtShuffleDown, value, lane + distance < kWarp ? lane + distance : lane, __builtin_return_address(0));
  }
  static uint32_t shuffle_from(uint32_t value, uint32_t lane) {
    return current->wait_for_warp(kAtShuffleFrom, value, lane % kWarp, __builtin_return_address(0));
  }
  static void* shared() { return current->shared_.data(); }
  static void access(const void* address, uint64_t bytes, uint32_t is_write) { current->touch(address, bytes, is_write != 0); }

  static constexpr DeviceMachine kTable{
#define DEVICE_INTRINSIC(name, result, parameters, what) &Machine::name,
#include "jit/llvm/device/intrinsics.def"
#undef DEVICE_INTRINSIC
      &Machine::access};
};

// Stacks that nobody's kernel stands on: the next machine of this thread has them.
std::vector<std::unique_ptr<SimtMachine::Fiber>>& SimtMachine::spare_fibers() {
  thread_local std::vector<std::unique_ptr<Fiber>> spare;
  return spare;
}

SimtMachine::SimtMachine(uint64_t seed) : random_(seed), fibers_(std::exchange(spare_fibers(), {})), order_(static_cast<int>(seed % 4)) {}
SimtMachine::~SimtMachine() {
  if (spare_fibers().size() < fibers_.size()) spare_fibers().swap(fibers_);
}

void SimtMachine::allow(const void* begin, size_t bytes, size_t element, bool unordered) {
  if (bytes == 0) return;
  memories_.push_back({static_cast<const char*>(begin), bytes, element, unordered, false, std::vector<Cell>(bytes / element)});
}

// --- the grid

std::string SimtMachine::run(DeviceThread kernel, unsigned shared_bytes, Grid grid, const uint64_t* words) {
  if (grid.threads == 0 || grid.threads % kWarp != 0 || grid.threads > 1024) return "a block has no " + std::to_string(grid.threads) + " threads";
  if (grid.blocks == 0 || grid.blocks > 0x7fffffffu) return "a grid has no " + std::to_string(grid.blocks) + " blocks";
  if (shared_bytes > 48 << 10) return "a block has no " + std::to_string(shared_bytes) + " bytes of memory";
  kernel_ = kernel;
  words_ = words;
  grid_ = grid;
  fault_.clear();
  shared_.assign((shared_bytes + 7) / 8, 0);
  while (fibers_.size() < grid.threads) fibers_.push_back(std::make_unique<Fiber>());
  for (Memory& memory : memories_) std::fill(memory.cells.begin(), memory.cells.end(), Cell{});
  std::vector<uint32_t> blocks(grid.blocks);
  for (uint32_t i = 0; i < grid.blocks; ++i) blocks[i] = i;
  std::shuffle(blocks.begin(), blocks.end(), random_);
  SimtMachine* const before = std::exchange(current, this);
  if (shared_bytes > 0) memories_.push_back({reinterpret_cast<const char*>(shared_.data()), shared_bytes, 8, false, true, {}});
  for (const uint32_t block : blocks)
    if (fault_.empty()) run_block(block);
  if (shared_bytes > 0) memories_.pop_back();
  current = before;
  return fault_;
}

void SimtMachine::run_block(uint32_t number) {
  block_ = number;
  at_barrier_ = 0;
  ++block_epoch_;
  at_warp_.assign(grid_.threads / kWarp, 0);
  warp_epoch_.clear();
  for (uint32_t w = 0; w < grid_.threads / kWarp; ++w) warp_epoch_.push_back(++next_warp_epoch_);
  if (!memories_.empty() && memories_.back().own) memories_.back().cells.assign(memories_.back().bytes / 8, Cell{});
  ready_.clear();
  for (uint32_t t = 0; t < grid_.threads; ++t) start(t);
  while (!ready_.empty() && fault_.empty()) resume(choose());
  if (fault_.empty()) explain_deadlock();
}

void SimtMachine::start(uint32_t thread) {
  Fiber& fiber = *fibers_[thread];
  const bool waits_for_work = fiber.begun && fiber.kind == kEnded;
  if (!waits_for_work) {   // a new one, or one that a fault left inside of a kernel
    getcontext(&fiber.beginning);
    fiber.beginning.uc_stack.ss_sp = fiber.stack.get();
    fiber.beginning.uc_stack.ss_size = kStack;
    fiber.beginning.uc_link = nullptr;
    makecontext(&fiber.beginning, &SimtMachine::body, 0);
    fiber.begun = false;
  }
  fiber.kind = kRuns;
  ready_.push_back(thread);
}

// Kernel after kernel, of whichever machine runs: a system call each for the beginning of a fiber is more than what most kernels take.
void SimtMachine::body() {
  while (true) {
    current->kernel_(&Machine::kTable, current->words_);
    current->fibers_[current->thread_]->kind = kEnded;
    current->leave();
  }
}

uint32_t SimtMachine::choose() {
  const size_t place = order_ == 1   ? static_cast<size_t>(std::min_element(ready_.begin(), ready_.end()) - ready_.begin())
                       : order_ == 2 ? static_cast<size_t>(std::max_element(ready_.begin(), ready_.end()) - ready_.begin())
                                     : random_() % ready_.size();
  std::swap(ready_[place], ready_.back());
  const uint32_t thread = ready_.back();
  ready_.pop_back();
  return thread;
}

void SimtMachine::resume(uint32_t thread) {
  thread_ = thread;
  Fiber& fiber = *fibers_[thread];
  if (std::exchange(fiber.begun, true)) return change(scheduler_, fiber.place_in_code);
  if (_setjmp(scheduler_) == 0) setcontext(&fiber.beginning);
}

void SimtMachine::leave() { change(fibers_[thread_]->place_in_code, scheduler_); }

// Without the system calls of swapcontext, which are most of its time.
void SimtMachine::change(jmp_buf from, jmp_buf to) {
  if (_setjmp(from) == 0) _longjmp(to, 1);
}

void SimtMachine::fail(std::string text) {
  fault_ = "block " + std::to_string(block_) + ", thread " + std::to_string(thread_) + ": " + std::move(text);
  leave();
}

// --- waiting

void SimtMachine::wait_for_block(const void* place) {
  Fiber& fiber = *fibers_[thread_];
  fiber.kind = kAtBarrier;
  fiber.place = place;
  if (++at_barrier_ == grid_.threads) release_barrier();
  leave();
}

void SimtMachine::release_barrier() {
  at_barrier_ = 0;
  ++block_epoch_;
  for (uint32_t& epoch : warp_epoch_) epoch = ++next_warp_epoch_;
  for (uint32_t t = 0; t < grid_.threads; ++t) {
    if (fibers_[t]->place != fibers_[0]->place) return fail("threads wait at different barriers");
    fibers_[t]->kind = kRuns;
    ready_.push_back(t);
  }
}

uint32_t SimtMachine::wait_for_warp(int kind, uint32_t value, uint32_t source, const void* place) {
  Fiber& fiber = *fibers_[thread_];
  fiber.kind = kind;
  fiber.place = place;
  fiber.value = value;
  fiber.source = source;
  if (++at_warp_[thread_ / kWarp] == kWarp) release_warp(thread_ / kWarp);
  leave();
  return fiber.result;
}

void SimtMachine::release_warp(uint32_t warp) {
  at_warp_[warp] = 0;
  const uint32_t first = warp * kWarp;
  if (fibers_[first]->kind == kAtWarpBarrier) warp_epoch_[warp] = ++next_warp_epoch_;
  for (uint32_t t = first; t < first + kWarp; ++t) {
    if (fibers_[t]->place != fibers_[first]->place) return fail("threads of a warp wait at different places");
    fibers_[t]->result = fibers_[first + fibers_[t]->source]->value;
  }
  for (uint32_t t = first; t < first + kWarp; ++t) {
    fibers_[t]->kind = kRuns;
    ready_.push_back(t);
  }
}

std::string SimtMachine::waiting(uint32_t thread) const {
  return "thread " + std::to_string(thread) + " " + kKindNames[fibers_[thread]->kind];
}

// Nobody can go on. All have ended, or some wait for others that will not come.
void SimtMachine::explain_deadlock() {
  for (uint32_t t = 0; t < grid_.threads; ++t) {
    if (fibers_[t]->kind == kEnded) continue;
    uint32_t other = 0;
    while (other + 1 < grid_.threads && fibers_[other]->kind == fibers_[t]->kind) ++other;
    fault_ = "block " + std::to_string(block_) + ": " + waiting(t) + ", and " + waiting(other);
    return;
  }
}

// --- memory

bool SimtMachine::ordered(const Access& before) const {
  const uint32_t me = block_ * grid_.threads + thread_ + 1;
  if (before.thread == 0 || before.thread == me) return true;
  const uint32_t thread = before.thread - 1;
  if (thread / grid_.threads != block_) return false;
  if (before.block_epoch != block_epoch_) return true;
  const uint32_t warp = thread_ / kWarp;
  return thread % grid_.threads / kWarp == warp && before.warp_epoch != warp_epoch_[warp];
}

void SimtMachine::touch(Memory& memory, size_t number, bool is_write) {
  Cell& cell = memory.cells[number];
  const auto conflict = [&](const Access& before, const char* what) {
    if (ordered(before)) return false;
    std::ostringstream text;
    text << (is_write ? "writes" : "reads") << " element " << number << (memory.own ? " of the block's memory" : " of an array") << " (" << static_cast<const void*>(memory.begin + number * memory.element)
         << ") that block " << (before.thread - 1) / grid_.threads << ", thread " << (before.thread - 1) % grid_.threads << " " << what << ", with no barrier between them";
    fail(text.str());
    return true;
  };
  if (memory.own && !is_write && cell.writer.thread == 0) return fail("reads word " + std::to_string(number) + " of the block's memory, which nobody wrote");
  if (conflict(cell.writer, "wrote")) return;
  const Access now{block_ * grid_.threads + thread_ + 1, block_epoch_, warp_epoch_[thread_ / kWarp]};
  if (is_write) {
    for (const Access& reader : cell.readers)
      if (conflict(reader, "read")) return;
    cell = Cell{now, {}};
  } else if (ordered(cell.readers[0])) {
    cell.readers[0] = now;
  } else {
    cell.readers[1] = now;
  }
}

void SimtMachine::touch(const void* address, uint64_t bytes, bool is_write) {
  const auto* at = static_cast<const char*>(address);
  for (Memory& memory : memories_) {
    if (at < memory.begin || at + bytes > memory.begin + memory.bytes) continue;
    const auto offset = static_cast<size_t>(at - memory.begin);
    if (reinterpret_cast<uintptr_t>(at) % bytes != 0) return fail("touches " + std::to_string(bytes) + " bytes that are not aligned");
    for (size_t cell = offset / memory.element; cell * memory.element < offset + bytes && !memory.unordered && fault_.empty(); ++cell)
      touch(memory, cell, is_write);
    return;
  }
  std::ostringstream text;
  text << (is_write ? "writes " : "reads ") << bytes << " bytes at " << address << ", outside of all memory";
  fail(text.str());
}

}  // namespace escapement::testing

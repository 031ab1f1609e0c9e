// The SIMT twin finds what a GPU would not forgive, in small kernels written by hand: else its silence about generated ones would mean nothing.
#include <gtest/gtest.h>

#include "simt/simt.h"

namespace escapement::testing {
namespace {

constexpr uint32_t kThreads = 64;

template <class T>
void write(const DeviceMachine* m, T* place, T value) {
  m->access(place, sizeof(T), 1);
  *place = value;
}

template <class T>
T read(const DeviceMachine* m, const T* place) {
  m->access(place, sizeof(T), 0);
  return *place;
}

std::string run(DeviceThread kernel, std::vector<uint64_t>& memory, uint64_t seed, Grid grid = {2, kThreads}) {
  SimtMachine machine(seed);
  machine.allow(memory.data(), memory.size() * 8, 8);
  const uint64_t words[] = {reinterpret_cast<uint64_t>(memory.data())};
  return machine.run(kernel, 1024, grid, words);
}

// In some order of threads at least; the first few seeds are ascending, descending and random ones.
void expect_found(DeviceThread kernel, const std::string& what) {
  std::string all;
  for (uint64_t seed = 0; seed < 8; ++seed) {
    std::vector<uint64_t> memory(256);
    all += run(kernel, memory, seed) + "\n";
  }
  EXPECT_NE(all.find(what), std::string::npos) << all;
}

uint64_t* array(const uint64_t* words) { return reinterpret_cast<uint64_t*>(words[0]); }
uint64_t* shared(const DeviceMachine* m) { return static_cast<uint64_t*>(m->shared()); }

// Each block turns its 64 elements around through its memory.
template <bool kBarrier>
void reverse(const DeviceMachine* m, const uint64_t* words) {
  const uint32_t t = m->thread(), first = m->block() * kThreads;
  write(m, shared(m) + t, read(m, array(words) + first + t));
  if (kBarrier) m->barrier();
  write(m, array(words) + first + t, read(m, shared(m) + kThreads - 1 - t));
}

TEST(SimtTwin, RunsWhatIsRight) {
  for (uint64_t seed = 0; seed < 8; ++seed) {
    std::vector<uint64_t> memory(128);
    for (size_t i = 0; i < memory.size(); ++i) memory[i] = i;
    ASSERT_EQ(run(reverse<true>, memory, seed), "");
    for (size_t i = 0; i < memory.size(); ++i) EXPECT_EQ(memory[i], i / 64 * 64 + 63 - i % 64);
  }
}

// Each thread doubles its neighbour's element.
TEST(SimtTwin, FindsALostBarrier) {
  expect_found([](const DeviceMachine* m, const uint64_t* words) {
    uint64_t* mine = array(words) + m->block() * kThreads + m->thread();
    write(m, mine, uint64_t{m->thread()});
    uint64_t* next = array(words) + m->block() * kThreads + (m->thread() + 1) % kThreads;
    write(m, next, 2 * read(m, next));
  }, "with no barrier between them");
}

TEST(SimtTwin, FindsMemoryThatNobodyWrote) { expect_found(reverse<false>, "which nobody wrote"); }

TEST(SimtTwin, ShufflesAsAGpuDoes) {
  for (uint64_t seed = 0; seed < 8; ++seed) {
    std::vector<uint64_t> memory(128);
    const DeviceThread kernel = [](const DeviceMachine* m, const uint64_t* words) {
      const uint32_t t = m->thread(), down = m->shuffle_down(t, 3), from = m->shuffle_from(t, 5);
      write(m, array(words) + m->block() * kThreads + t, uint64_t{down} << 32 | from);
    };
    ASSERT_EQ(run(kernel, memory, seed), "");
    for (size_t i = 0; i < memory.size(); ++i) {
      const uint64_t t = i % 64, lane = t % 32;
      EXPECT_EQ(memory[i], (lane + 3 < 32 ? t + 3 : t) << 32 | (t / 32 * 32 + 5));
    }
  }
}

TEST(SimtTwin, FindsAShuffleOfHalfAWarp) {
  expect_found([](const DeviceMachine* m, const uint64_t*) { if (m->thread() % 32 < 16) m->shuffle_down(1, 8); }, "waits at a shuffle down, and thread 16 has ended");
}

TEST(SimtTwin, FindsABarrierThatNotAllReach) {
  expect_found([](const DeviceMachine* m, const uint64_t*) { if (m->thread() != 7) m->barrier(); }, "waits at a barrier, and thread 7 has ended");
}

TEST(SimtTwin, FindsDifferentBarriers) {
  expect_found([](const DeviceMachine* m, const uint64_t* words) {
    if (m->thread() < 32) m->barrier();
    else m->barrier(), write(m, array(words) + m->block() * kThreads + m->thread(), uint64_t{1});
  }, "threads wait at different barriers");
}

TEST(SimtTwin, AShuffleOrdersNoMemory) {
  expect_found([](const DeviceMachine* m, const uint64_t*) {
    write(m, shared(m) + m->thread(), uint64_t{1});
    m->shuffle_from(0, 0);
    read(m, shared(m) + (m->thread() ^ 1));
  }, "with no barrier between them");
}

TEST(SimtTwin, AWarpBarrierOrdersAWarpOnly) {
  const auto kernel = [](uint32_t distance) -> DeviceThread {
    if (distance == 1) return [](const DeviceMachine* m, const uint64_t*) {
      write(m, shared(m) + m->thread(), uint64_t{1});
      m->warp_barrier();
      read(m, shared(m) + (m->thread() ^ 1));
    };
    return [](const DeviceMachine* m, const uint64_t*) {
      write(m, shared(m) + m->thread(), uint64_t{1});
      m->warp_barrier();
      read(m, shared(m) + (m->thread() ^ 32));
    };
  };
  std::vector<uint64_t> memory(1);
  for (uint64_t seed = 0; seed < 8; ++seed) EXPECT_EQ(run(kernel(1), memory, seed), "");
  expect_found(kernel(32), "with no barrier between them");
}

TEST(SimtTwin, FindsBlocksThatMeet) {
  expect_found([](const DeviceMachine* m, const uint64_t* words) {
    m->barrier();
    if (m->thread() == 0) write(m, array(words), uint64_t{1});
  }, "with no barrier between them");
}

TEST(SimtTwin, FindsATailThatIsOneTooLong) {
  expect_found([](const DeviceMachine* m, const uint64_t* words) { write(m, array(words) + 193 + m->thread(), uint64_t{1}); }, "outside of all memory");
}

TEST(SimtTwin, FindsAnAccessThatIsNotAligned) {
  expect_found([](const DeviceMachine* m, const uint64_t* words) { m->access(array(words) + 1, 16, 0); }, "that are not aligned");
}

TEST(SimtTwin, RefusesGridsThatNoGpuHas) {
  std::vector<uint64_t> memory(1);
  for (const Grid grid : {Grid{1, 33}, Grid{1, 2048}, Grid{0, 32}, Grid{1, 0}}) EXPECT_NE(run(reverse<true>, memory, 0, grid), "");
}

}  // namespace
}  // namespace escapement::testing

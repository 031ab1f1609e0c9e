// Locks in forked children: free there, and what they protect whole, whatever other threads did at the fork.
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <mutex>
#include <thread>
#include <vector>

#include "support/fork.h"

namespace escapement {
namespace {

// Whether `action` is true in a forked child, which is ended if it waits for what never comes.
template <class Action>
bool in_child(const Action& action) {
  const pid_t child = ::fork();
  if (child == 0) {
    ::alarm(60);
    ::_exit(action() ? 0 : 1);
  }
  int status = 1;
  ::waitpid(child, &status, 0);
  return WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

TEST(Fork, IsCounted) {
  const int before = forks();
  EXPECT_TRUE(in_child([&] { return forks() == before + 1; }));
  EXPECT_EQ(forks(), before);
}

TEST(Fork, FindsALockOfALibraryFree) {
  std::mutex of_a_library;
  const HeldOverForks held(of_a_library);
  std::atomic<bool> done{false};
  std::thread thread([&] {
    while (!done) {
      const std::lock_guard lock(of_a_library);
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
  });
  for (int time = 0; time < 10; ++time) {
    EXPECT_TRUE(in_child([&] {
      const std::lock_guard lock(of_a_library);
      return true;
    }));
  }
  done = true;
  thread.join();
}

TEST(Fork, FindsWhatALockProtectsWhole) {
  ForkMutex mutex;
  int64_t left = 0, right = 0;   // equal, but while one is in the middle
  std::atomic<bool> done{false};
  const auto work = [&] {
    const std::lock_guard lock(mutex);
    ++left;
    for (int i = 0; i < 100; ++i) std::atomic_signal_fence(std::memory_order_seq_cst);
    ++right;
  };
  std::vector<std::thread> threads;
  for (int t = 0; t < 3; ++t) {
    threads.emplace_back([&] {
      while (!done) work();
    });
  }
  for (int time = 0; time < 25; ++time) {
    EXPECT_TRUE(in_child([&] {
      work();
      return left == right;
    }));
  }
  done = true;
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(left, right);
}

TEST(Fork, LocksMayComeAndGo) {
  std::atomic<bool> done{false};
  std::thread thread([&] {
    while (!done) {
      ForkMutex one, two;
      const std::lock_guard lock(two);
    }
  });
  ForkMutex mutex;
  for (int time = 0; time < 50; ++time) {
    EXPECT_TRUE(in_child([&] {
      const ForkMutex another;
      return mutex.try_lock();
    }));
  }
  done = true;
  thread.join();
}

TEST(Fork, ATurnOfTheParentsIsOver) {
  ForkTurn turn;
  std::atomic<bool> taken{false}, done{false};
  std::thread holder([&] {
    const std::lock_guard mine(turn);
    taken = true;
    while (!done) std::this_thread::yield();
  });
  while (!taken) std::this_thread::yield();
  std::thread waiting([&] { const std::lock_guard mine(turn); });
  EXPECT_TRUE(in_child([&] {
    for (int time = 0; time < 2; ++time) const std::lock_guard mine(turn);
    return true;
  }));
  done = true;
  holder.join();
  waiting.join();
  const std::lock_guard mine(turn);
  EXPECT_TRUE(in_child([&] {
    turn.unlock();   // by the thread that had it in the parent
    const std::lock_guard again(turn);
    return true;
  }));
}

}  // namespace
}  // namespace escapement

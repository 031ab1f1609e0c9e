// What a check of the serving interface expects: said with its line, and counted, where it is not so.
#pragma once

#include <escapement/error.h>

#include <atomic>
#include <cstdio>
#include <string>

inline std::atomic<int> g_failures = 0;

inline void expect(bool truth, const char* text, int line) {
  if (truth) return;
  ++g_failures;
  std::printf("line %d: not so: %s\n", line, text);
}
#define EXPECT(...) expect((__VA_ARGS__), #__VA_ARGS__, __LINE__)

template <class Action>
void expect_error(escapement::ErrorCode code, const char* part, Action action, int line) {
  try {
    action();
    ++g_failures;
    std::printf("line %d: no error, expected %s\n", line, to_string(code));
  } catch (const escapement::ServingError& error) {
    const bool right = error.code() == code && std::string(error.what()).find(part) != std::string::npos;
    if (!right) std::printf("line %d: %s: %s\n", line, to_string(error.code()), error.what());
    g_failures += right ? 0 : 1;
  }
}
#define EXPECT_ERROR(code, part, ...) expect_error(escapement::ErrorCode::code, part, [&] { __VA_ARGS__; }, __LINE__)

// How this thread's floating-point unit rounds, and what it makes of denormals (torch.set_flush_denormal): a control register of the
// processor's, one a thread. It may change between two operators, and deferred ones run as it was when they were called.
#pragma once

#include <cstdint>

#if defined(__x86_64__)
#include <xmmintrin.h>
#endif

namespace escapement {

using FloatMode = uint32_t;
// As in a fresh process: to the nearest, and denormals are numbers. In which constants are made, whoever asks for the code.
#if defined(__x86_64__)
inline constexpr FloatMode kPlainFloatMode = 0x1f80;
#else
inline constexpr FloatMode kPlainFloatMode = 0;
#endif

inline FloatMode float_mode() {
#if defined(__x86_64__)
  return _mm_getcsr() & ~static_cast<uint32_t>(_MM_EXCEPT_MASK);  // without the marks that operations leave
#elif defined(__aarch64__)
  uint64_t control;
  __asm__ volatile("mrs %0, fpcr" : "=r"(control));
  return static_cast<FloatMode>(control);
#else
  return 0;
#endif
}

inline void set_float_mode(FloatMode mode) {
#if defined(__x86_64__)
  _mm_setcsr(mode);
#elif defined(__aarch64__)
  __asm__ volatile("msr fpcr, %0" : : "r"(static_cast<uint64_t>(mode)));
#else
  static_cast<void>(mode);
#endif
}

// This mode for a while.
class FloatModeGuard {
 public:
  explicit FloatModeGuard(FloatMode mode) : before_(float_mode()), changed_(before_ != mode) {
    if (changed_) set_float_mode(mode);
  }
  ~FloatModeGuard() {
    if (changed_) set_float_mode(before_);
  }
  FloatModeGuard(const FloatModeGuard&) = delete;
  FloatModeGuard& operator=(const FloatModeGuard&) = delete;

 private:
  const FloatMode before_;
  const bool changed_;
};

}  // namespace escapement

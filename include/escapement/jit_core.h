// What stands behind jit.h, once for all signatures: a call as a flat list of leaves, and the versions that serve it.
#pragma once

#include <ATen/core/Tensor.h>
#include <ATen/core/ivalue.h>
#include <c10/core/SymFloat.h>
#include <c10/core/SymInt.h>
#include <c10/util/SmallVector.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <forward_list>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <typeinfo>
#include <vector>

#include "escapement/argument.h"
#include "escapement/escape.h"
#include "escapement/escapement.h"
#include "escapement/export.h"
#include "escapement/metrics.h"
#include "escapement/options.h"
#include "escapement/version.h"

namespace torch::nn {
class Module;
}

namespace escapement::inline ESCAPEMENT_ABI::detail {

// Eight characters of a text as a number.
inline uint64_t word_of_text(std::string_view text, size_t at) {
  uint64_t word = 0;
  __builtin_memcpy(&word, text.data() + at, std::min<size_t>(8, text.size() - at));
  return word;
}
template <class NextWord>
std::string text_of_words(size_t size, const NextWord& next) {
  std::string text(size, '\0');
  for (size_t at = 0; at < size; at += 8) {
    const uint64_t word = next();
    __builtin_memcpy(text.data() + at, &word, std::min<size_t>(8, size - at));
  }
  return text;
}

// The arguments of one call, taken apart: what may differ between calls of one version, and as bits everything else
// (which tensors and optionals are there, lengths, truth values). Borrows the tensors.
class Leaves {
 public:
  void bits(uint64_t value, int count) {
    if (used_ + count > 64) flush();
    word_ |= value << used_;
    used_ += count;
  }
  void tensor(const at::Tensor& tensor) {
    bits(tensor.defined(), 1);
    if (tensor.defined()) arguments_.push_back({&tensor, 0, false, Argument::Kind::plain});
  }
  void integer(int64_t value) { arguments_.push_back({nullptr, value, false, Argument::Kind::plain}); }
  void real(double value) {
    arguments_.push_back({nullptr, 0, true, Argument::Kind::real});
    __builtin_memcpy(&arguments_.back().integer, &value, sizeof value);
  }
  void text(std::string_view text) {
    bits(text.size(), 32);
    for (size_t at = 0; at < text.size(); at += 8) bits(word_of_text(text, at), 64);
  }
  // A number that stays a run-time value: a tensor without axes that holds it.
  ESCAPEMENT_API void run_time_real(double value);
  void seal() { flush(); }                  // once all are in

  std::span<const Argument> arguments() const { return {arguments_.data(), arguments_.size()}; }
  std::span<const uint64_t> shape() const { return {shape_.data(), shape_.size()}; }

 private:
  void flush() {
    shape_.push_back(word_);
    word_ = 0;
    used_ = 0;
  }
  c10::SmallVector<Argument, 8> arguments_;
  c10::SmallVector<uint64_t, 2> shape_;
  uint64_t word_ = 0;
  int used_ = 0;
  std::forward_list<at::Tensor> owned_;
};

using Values = std::vector<c10::IValue>;

// The other way: hands out what Leaves took, in the same order. The values may be symbols while the function is recorded.
class LeafReader {
 public:
  LeafReader(std::span<const uint64_t> shape, const Values& values) : shape_(shape), next_(values.begin()) {}
  uint64_t bits(int count) {
    if (used_ + count > 64) {
      ++word_;
      used_ = 0;
    }
    const uint64_t value = shape_[word_] >> used_ & (count == 64 ? ~uint64_t{0} : (uint64_t{1} << count) - 1);
    used_ += count;
    return value;
  }
  std::string text() {
    const size_t size = bits(32);
    return text_of_words(size, [&] { return bits(64); });
  }
  const c10::IValue& value() { return *next_++; }

 private:
  std::span<const uint64_t> shape_;
  size_t word_ = 0;
  int used_ = 0;
  Values::const_iterator next_;
};

// Whether this thread records a function: what it calls is a part of that, and its symbols must not be looked at.
ESCAPEMENT_API bool recording_here();

// Stands in the frame that calls the user's function: what it calls is the program. Whether that has handlers of exceptions, the recorder asks.
class ESCAPEMENT_API ProgramFrames {
 public:
  ProgramFrames();
  ~ProgramFrames();
  ProgramFrames(const ProgramFrames&) = delete;
  ProgramFrames& operator=(const ProgramFrames&) = delete;

  const ProgramFrames* around() const;   // of the same recording; null: none
  bool has_called(uintptr_t stack) const { return stack < begin_; }   // the frame with this stack pointer
  bool is_called_by(uintptr_t stack) const { return stack > reinterpret_cast<uintptr_t>(this); }

 private:
  const ProgramFrames* around_;
  const void* recording_;
  uintptr_t begin_;
};

// The number itself: of a symbol, that pins it, and the report names the remedy.
ESCAPEMENT_API int64_t pinned_integer(const c10::IValue& value);
ESCAPEMENT_API c10::SymFloat read_real(const c10::IValue& value);

// A number as two integers, which compiled code hands out as constants.
inline void give_real(Values& results, double value) {
  uint64_t bits = 0;
  __builtin_memcpy(&bits, &value, sizeof bits);
  results.emplace_back(static_cast<int64_t>(bits >> 32));
  results.emplace_back(static_cast<int64_t>(bits & 0xffffffffu));
}
inline double joined_real(const c10::IValue& high, const c10::IValue& low) {
  const uint64_t bits = static_cast<uint64_t>(high.toInt()) << 32 | static_cast<uint64_t>(low.toInt());
  double value = 0;
  __builtin_memcpy(&value, &bits, sizeof value);
  return value;
}

// Whether one of these values has become another than it was; nothing is asked of symbols.
ESCAPEMENT_API bool bound_anew(const Values& before, std::span<const c10::IValue> after);

// The results of one call as values, from one thread's store: a call that is served allocates nothing for them.
class ESCAPEMENT_API Results {
 public:
  Results();
  ~Results();
  Results(const Results&) = delete;
  Results& operator=(const Results&) = delete;
  Values values;

 private:
  Values& store_;
};

// What is compared before each call with what it was when the function was recorded: the objects of a module, or null, and the bytes of
// a callable that may change itself.
struct Watched {
  std::shared_ptr<torch::nn::Module> module;
  std::span<const std::byte> callable;
};

struct JitSettings {
  OptionList options;
  std::string name;
  Log log;
};
ESCAPEMENT_API JitSettings settings_of(JitOptions options, const char* usual_name);

class ESCAPEMENT_API JitCore {
 public:
  // Runs the function on values that have the shape said, and appends its results. True: a variable of its caller has been bound anew.
  using Forward = std::function<bool(LeafReader& arguments, Values& results)>;

  JitCore(Forward forward, Watched watched, JitSettings settings);
  ~JitCore();

  // A call whose references are not independent runs plainly.
  void note_eager_for_aliases();
  // No: this thread is recording another function, of which this call is a part; run it plainly.
  bool call(const Leaves& leaves, Values& results);

  std::string explain() const;
  std::vector<Escape> escapes() const;
  Metrics metrics() const;
  void set_log(Log log);

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

ESCAPEMENT_API void watch_module(const std::type_info& type, size_t size);

}  // namespace escapement::detail

// Program: a compiled trace bound to LibTorch: entry checks, memory from torch's allocator, prepared ATen calls, packed weights.
// Immutable from outside; any number of threads may run it at once (each call takes a context from a pool).
#pragma once

#include <ATen/core/Tensor.h>
#include <ATen/core/ivalue.h>

#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "escapement/argument.h"
#include "escapement/export.h"
#include "jit/pipeline.h"
#include "torch/record/recorder.h"

namespace escapement {

// Why a call does not fit a program: for explain, and empty if it fits.
struct Miss {
  std::string source, expected, seen;
  explicit operator bool() const { return !source.empty(); }
};

class ESCAPEMENT_API Program {
 public:
  Program(std::shared_ptr<const Compiled> compiled, Recording&& recording);  // the process's default options
  Program(std::shared_ptr<const Compiled> compiled, Recording&& recording, const Options& options);
  ~Program();
  Program(Program&&) noexcept;
  Program& operator=(Program&&) noexcept;

  // Entry checks: kind, dtype, rank, device, layout class of each input, constant sizes, entry guards, no forbidden aliasing.
  bool fits(std::span<const Argument> arguments) const;
  // Machine code for the relations between sizes, which costs milliseconds: for programs that have been called often.
  void compile_guards() const;
  Miss explain_miss(std::span<const Argument> arguments) const;

  enum class Outcome : uint8_t {
    done,
    check_failed_clean,   // a check inside failed; nothing outside had been changed: the caller may record again
    check_failed_dirty,   // ... after an effect
    refused_clean,        // an operator refused what it was given; nothing outside had been changed: the program itself says what is wrong
    device_failed,        // the device's driver refused; nothing outside had been changed
  };
  // Appends the program's outputs (tensors, ints, bools, None). Throws eager's exception class for user errors after an effect.
  // `offers`: memory for outputs, by position; undefined where there is none. One that has an output's dtype, sizes and strides becomes
  // that output where the plan allocates it. It must not overlap anything that the call reads; after an error its contents are undefined.
  // `acted`: the call has begun before, in another program, and cannot be made again: what refuses throws.
  Outcome run(std::span<const Argument> arguments, std::vector<c10::IValue>& outputs, std::span<const at::Tensor> offers = {}, bool acted = false) const;
  // What a call that fits would allocate. Reads sizes and no data.
  struct Memory {
    int64_t output_bytes = 0, temporary_bytes = 0;
    bool complete = true;              // false: more is allocated whose size appears at run time
  };
  Memory measure(std::span<const Argument> arguments) const;

  const std::shared_ptr<const Compiled>& compiled() const;
  std::span<const at::Tensor> captured() const;      // tensors of the program that are no arguments
  const std::vector<c10::IValue>& host_objects() const;
  c10::Device device() const;              // where all its tensors lie
  std::optional<bool> inference() const;   // the mode that it runs in, if not its caller's
  std::vector<std::string> relations() const;  // what the entry checks ask, one line each, in order
  std::string describe_calls() const;   // one line per library call: prepared form, out= or not, packed or not

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace escapement

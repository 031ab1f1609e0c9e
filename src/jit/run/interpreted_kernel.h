// A KernelCode without code: the loop interpreter behind the interface of compiled kernels.
#pragma once

#include <utility>

#include "jit/run/kernel_code.h"
#include "kernels/loop_interpreter.h"

namespace escapement {

class InterpretedKernel : public KernelCode {
 public:
  explicit InterpretedKernel(LoopNest nest) : nest_(std::move(nest)) {}
  const LoopNest& nest() const override { return nest_; }
  bool has(Variant variant) const override { return part_of(variant) == NestPart::whole || has_parts(nest_); }
  KernelFunction function(Variant) override { return nullptr; }
  void run(Variant variant, const KernelArgs& args, int64_t outer_begin, int64_t outer_end, int64_t inner_begin,
           int64_t inner_end) override {
    interpret(nest_, part_of(variant), args, outer_begin, outer_end, inner_begin, inner_end);
  }

 private:
  static NestPart part_of(Variant variant) {
    if (variant == Variant::partial) return NestPart::partial;
    return variant == Variant::finish ? NestPart::finish : NestPart::whole;
  }
  LoopNest nest_;
};

}  // namespace escapement

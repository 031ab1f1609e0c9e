// What the library calls of random traces compute: the same function answers the reference evaluator and the executor's host.
//   test::scaled(x)      half of each element, in f32
//   test::pair(x)        a copy, and how many elements are positive
//   test::increase_(x)   adds 1 to each element, in place
//   test::same(x)        x's own memory, as a value of its own (as a view in another dtype is)
//   test::draw(x)        as many numbers as x has, the next of a sequence: an effect
//   test::total(x)       a small whole number
//   test::some(x)        a tensor whose length depends on the elements
// The same by names of ATen's, `aten::scaled(x)`: what those are given lies in the arena, since they do not keep it.
#pragma once

#include <span>
#include <vector>

#include "trace/evaluator.h"

namespace escapement::fuzz {

class Library {
 public:
  std::vector<HostTensor> call(const Trace& trace, const Instr& instr, std::span<const HostTensor> operands);

 private:
  HostTensor draw(const HostTensor& like);

  uint64_t drawn_ = 0;
};

}  // namespace escapement::fuzz

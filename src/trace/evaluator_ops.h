// One instruction of the reference evaluator on host tensors; for evaluator.cpp.
#pragma once

#include "trace/evaluator.h"

namespace escapement::reference {

using Tensors = std::span<const HostTensor>;

// What an instruction needs besides its operands: the result to fill (allocated), and the values of its symbolic sizes.
struct Job {
  const Instr& instr;
  std::span<const TensorType* const> types;  // the operands'
  Tensors operands;
  const HostTensor& result;
  std::function<int64_t(Dim)> dim;
};

void pointwise(const Job& job);
void reduce(const Job& job);
void create(const Job& job);
void index(const Job& job);
void combine(const Job& job);
void contract(const Job& job);                                      // mm, bmm, addmm, baddbmm, matmul, linear
bool can_contract(Op op);
void write(const HostTensor& destination, const HostTensor& source);  // converts and broadcasts

uint64_t convert(uint64_t bits, DType from, DType to);              // register forms; rounds to half types

}  // namespace escapement::reference

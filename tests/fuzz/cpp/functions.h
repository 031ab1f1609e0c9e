// Random functions over LibTorch, for comparing the ways to run them. A program is a list of steps over a table of operators
// (functions_table.cpp); it is run by an interpreter, so that eager, call mode and replay mode run one and the same C++ code.
//
// Numbers are small whole ones, so that most operators are exact whatever the order of a sum; what is not (softmax, division) makes its
// result *inexact*, which is compared with a tolerance and never decides anything (no comparison, rounding or index is taken from it).
#pragma once

#include <ATen/ATen.h>

#include <array>
#include <cstdint>
#include <functional>
#include <random>
#include <span>
#include <string>
#include <vector>

namespace functions {

using at::Tensor;
using Random = std::mt19937_64;

struct Step {
  size_t op = 0;                        // of the table
  std::vector<size_t> inputs;           // values: the arguments, then the results of steps
  std::array<int64_t, 2> numbers{};     // small ones; what they mean is the operator's
};

inline constexpr size_t kArguments = 3;  // at::Tensor, const at::Tensor&, at::Tensor&
struct Program {
  std::vector<Step> steps;
  std::vector<size_t> results;
};

// What a step may use: the variables, the last argument among them, which may be bound anew.
struct Frame {
  std::vector<Tensor> values;
  Tensor* in_out = nullptr;
  c10::SymInt number = 0;
  Tensor& value(size_t i) { return i == 2 ? *in_out : values[i]; }
};

enum class Kind : uint8_t {
  exact,        // exact results from exact arguments
  inexact,
  decides,      // takes exact arguments only: what it does changes at once where they change a little
};

struct OpRow {
  const char* name;
  const char* text;                     // as C++; $0, $1 are the arguments, #0, #1 the numbers
  size_t arity;
  Kind kind;
  Tensor (*run)(Frame& frame, const Step& step);
};
std::span<const OpRow> table();

std::vector<Tensor> run(const Program& program, Frame& frame);
std::string text(const Program& program);

// --- arguments of one call
struct Call {
  int64_t rows = 2, columns = 3;
  uint64_t seed = 0;
  int layout = 0;                       // of the arguments; also which of them are one tensor
};
std::array<Tensor, kArguments> arguments(const Call& call);
std::string text(const Call& call);

// --- programs that are worth running: grown step by step, with eager as the judge of what is possible
bool decides_exactly(const Program& program);   // no step that decides has an argument that may be off by a rounding
Program generate(Random& random);
void leave_out(const std::string& names);   // operators by name, separated by commas: in no program from now on
std::vector<Call> calls(Random& random);

// --- comparing: empty, or the first difference
std::string difference(const Program& program, const std::vector<Call>& calls, const std::string& mode);

}  // namespace functions

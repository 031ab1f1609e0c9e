// One program, called as C++ and through escapement::jit, side by side: results and arguments afterwards (values, dtypes, sizes, strides,
// which of them are one tensor or share memory), the kind of exception, the state of the random generator.
#include <ATen/CPUGeneratorImpl.h>
#include <ATen/core/grad_mode.h>
#include <escapement/jit.h>

#include <cstring>

#include "functions.h"

namespace functions {
namespace {

using Function = std::function<std::vector<Tensor>(Tensor, const Tensor&, Tensor&, c10::SymInt)>;

struct Outcome {
  std::vector<Tensor> tensors;   // the arguments, the variable that may be bound anew, the results
  std::string error;
  Tensor generator;
};

Outcome outcome(const Function& function, const Call& call) {
  Outcome found;
  auto [a, b, c] = arguments(call);
  found.tensors = {a, b, c};
  Tensor in_out = c;
  std::vector<Tensor> results;
  at::manual_seed(call.seed);
  try {
    results = function(a, b, in_out, call.rows);
  } catch (const c10::Error&) {
    found.error = "c10::Error";
  } catch (const std::exception& error) {
    found.error = error.what();
  }
  found.tensors.push_back(in_out);
  found.tensors.insert(found.tensors.end(), results.begin(), results.end());
  found.generator = at::detail::getDefaultCPUGenerator().get_state();
  return found;
}

std::string sizes_of(const Tensor& t) {
  std::string text = c10::toString(t.scalar_type());
  for (const int64_t size : t.sizes()) text += " " + std::to_string(size);
  return text;
}

bool same_strides(const Tensor& a, const Tensor& b) {
  if (a.numel() == 0) return true;
  for (int64_t axis = 0; axis < a.dim(); ++axis) {
    if (a.size(axis) > 1 && a.stride(axis) != b.stride(axis)) return false;
  }
  return true;
}

bool same_values(const Tensor& found, const Tensor& wanted, bool exact) {
  if (found.numel() == 0) return true;
  const Tensor f = found.to(at::kDouble), w = wanted.to(at::kDouble);
  if (exact) return at::allclose(f, w, 0, 0, /*equal_nan=*/true);
  const double tolerance = wanted.scalar_type() == at::kBFloat16 ? 0.06 : 2e-3;
  return at::allclose(f, w, tolerance, tolerance, /*equal_nan=*/true);
}

std::string difference(const Tensor& found, const Tensor& wanted, bool exact) {
  if (found.defined() != wanted.defined()) return "is it there";
  if (!wanted.defined()) return "";
  if (sizes_of(found) != sizes_of(wanted)) return "sizes or dtype: " + sizes_of(found) + ", not " + sizes_of(wanted);
  if (!same_strides(found, wanted)) return "strides of " + sizes_of(wanted);
  return same_values(found, wanted, exact) ? "" : "values of " + sizes_of(wanted);
}

bool share(const Tensor& a, const Tensor& b) { return a.defined() && b.defined() && a.numel() > 0 && b.numel() > 0 && a.is_alias_of(b); }

std::string difference(const Outcome& found, const Outcome& wanted, bool exact) {
  if (found.error != wanted.error) return "raises '" + found.error + "', not '" + wanted.error + "'";
  for (size_t i = 0; i < wanted.tensors.size(); ++i) {
    const std::string what = i < kArguments ? "argument " + std::to_string(i) : i == kArguments ? "in_out" : "result " + std::to_string(i - kArguments - 1);
    if (const std::string text = difference(found.tensors[i], wanted.tensors[i], exact); !text.empty()) return what + ": " + text;
    for (size_t j = 0; j < i; ++j) {
      if (found.tensors[i].is_same(found.tensors[j]) != wanted.tensors[i].is_same(wanted.tensors[j])) return what + ": is it the same tensor as " + std::to_string(j);
      if (share(found.tensors[i], found.tensors[j]) != share(wanted.tensors[i], wanted.tensors[j])) return what + ": does it share memory with " + std::to_string(j);
    }
  }
  return at::equal(found.generator, wanted.generator) ? "" : "the random generator's state";
}

bool is_exact(const Program& program) {
  for (const Step& step : program.steps) {
    if (table()[step.op].kind == Kind::inexact) return false;
  }
  return true;
}

}  // namespace

std::string difference(const Program& program, const std::vector<Call>& calls, const std::string& mode) {
  const at::NoGradGuard no_grad;
  const auto plain = [&program](Tensor a, const Tensor& b, Tensor& c, c10::SymInt number) {
    Frame frame;
    frame.values = {a, b, Tensor()};
    frame.in_out = &c;
    frame.number = std::move(number);
    return run(program, frame);
  };
  const auto compiled = escapement::jit(plain, {{"mode", mode}});
  const Function ours = [&](Tensor a, const Tensor& b, Tensor& c, c10::SymInt number) { return compiled(a, b, c, number); };
  const bool exact = is_exact(program);
  for (size_t i = 0; i < calls.size(); ++i) {
    const Outcome wanted = outcome(plain, calls[i]), found = outcome(ours, calls[i]);
    const std::string text = difference(found, wanted, exact);
    if (!text.empty()) return "call " + std::to_string(i) + " (" + functions::text(calls[i]) + "), " + text;
  }
  return "";
}

}  // namespace functions

// Programs over LibTorch, each run eagerly and compiled over many shapes (test_programs.cpp). A row says how the program
// is called, how often it may be recorded, and by MARK which of its lines must be reported as escapes.
#pragma once

#include <ATen/ATen.h>
#include <escapement/jit.h>

#include <functional>
#include <set>
#include <string>
#include <vector>

namespace programs {

using Flat = std::vector<at::Tensor>;

struct Shape {
  int64_t rows, columns;
};

// A result of any type as tensors, for comparing.
template <class T>
void flatten(Flat& flat, const T& value) {
  namespace detail = escapement::detail;
  if constexpr (std::is_same_v<T, at::Tensor>) flat.push_back(value);
  else if constexpr (std::is_same_v<T, c10::SymInt>) flat.push_back(at::scalar_tensor(value.guard_int(__FILE__, __LINE__), at::kLong));
  else if constexpr (std::is_arithmetic_v<T>) flat.push_back(at::scalar_tensor(static_cast<double>(value), at::kDouble));
  else if constexpr (detail::is_a<std::optional, T>) {
    flat.push_back(at::scalar_tensor(value.has_value(), at::kBool));
    if (value) flatten(flat, *value);
  } else if constexpr (detail::is_a<std::vector, T>) {
    for (const auto& each : value) flatten(flat, each);
  } else {
    std::apply([&](const auto&... each) { (flatten(flat, each), ...); }, value);
  }
}

template <class T>
Flat flat(const T& value) {
  Flat result;
  flatten(result, value);
  return result;
}

struct Compiled {
  std::function<Flat(const Flat&)> call;
  std::function<std::string()> explain;
  std::function<std::vector<escapement::Escape>()> escapes;
};

struct Program {
  std::string name;
  int recordings = 1;                         // in call mode, over all shapes
  std::function<Flat(Shape)> inputs;
  std::function<Flat(const Flat&)> eager;
  std::function<Compiled(const escapement::OptionList&)> compile;
  const char* file = "";
  double tolerance = 1e-5;
};

std::vector<Program>& table();

inline Flat matrix(Shape s) { return {at::randn({s.rows, s.columns})}; }
inline Flat two_matrices(Shape s) { return {at::randn({s.rows, s.columns}), at::randn({s.rows, s.columns})}; }

// The lines that a program's recordings must report.
std::set<int>& marked_lines();
template <class T>
T marked(int line, T value) {
  marked_lines().insert(line);
  return value;
}
#define MARK(expression) ::programs::marked(__LINE__, expression)

// `call(f, inputs)` calls f, which is the function itself or its compiled form, and gives any result.
template <class F, class Call>
int add(const char* file, std::string name, int recordings, std::function<Flat(Shape)> inputs, F fn, Call call) {
  Program program;
  program.name = std::move(name);
  program.recordings = recordings;
  program.inputs = std::move(inputs);
  program.file = file;
  program.eager = [fn, call](const Flat& in) mutable { return flat(call(fn, in)); };
  program.compile = [fn, call, name = program.name](const escapement::OptionList& options) {
    auto compiled = std::make_shared<decltype(escapement::jit(fn))>(escapement::jit(fn, options, name));
    return Compiled{[compiled, call](const Flat& in) { return flat(call(*compiled, in)); }, [compiled] { return compiled->explain(); },
                    [compiled] { return compiled->escapes(); }};
  };
  table().push_back(std::move(program));
  return 0;
}

#define PROGRAM(name, recordings, inputs, fn, ...)                                                                        \
  static const int program_##name = ::programs::add(__FILE__, #name, recordings, inputs, fn,                              \
                                                    []([[maybe_unused]] auto& f, [[maybe_unused]] const Flat& in) {       \
                                                      return __VA_ARGS__;                                                 \
                                                    })

}  // namespace programs

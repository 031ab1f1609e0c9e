// See functions.h. Running, printing and growing programs.
#include "functions.h"

#include <algorithm>

namespace functions {
namespace {

constexpr int64_t kMostElements = 4000;     // of a value, at the sizes that a program is grown with
constexpr Call kTrial{4, 3, 1, 0};

std::vector<std::string>& left_out() {
  static std::vector<std::string> names;
  return names;
}
bool is_left_out(const OpRow& row) { return std::find(left_out().begin(), left_out().end(), row.name) != left_out().end(); }

template <class T>
const T& one_of(Random& random, std::span<const T> choices) { return choices[random() % choices.size()]; }
bool chance(Random& random, int percent) { return static_cast<int>(random() % 100) < percent; }

Tensor numbers(c10::IntArrayRef sizes, uint64_t seed) {
  Tensor made = at::empty(sizes);
  Random random(seed);
  float* const memory = made.data_ptr<float>();
  for (int64_t i = 0; i < made.numel(); ++i) memory[i] = static_cast<float>(static_cast<int64_t>(random() % 9) - 4);
  return made;
}

Tensor laid_out(int layout, int64_t rows, int64_t columns, uint64_t seed) {
  switch (layout) {
    case 1: return numbers({columns, rows}, seed).t();
    case 2: return numbers({rows, 2 * columns}, seed).slice(1, 0, std::nullopt, 2);
    case 3: return numbers({rows + 1, columns}, seed).slice(0, 1);
    case 4: return numbers({rows, 1}, seed).expand({rows, columns});
    case 5: return numbers({1, columns}, seed);
    case 6: return numbers({columns}, seed);
    case 7: return numbers({rows, columns}, seed).to(at::kLong);
    case 8: return numbers({rows, columns}, seed).to(at::kDouble);
    default: return numbers({rows, columns}, seed);
  }
}

void replace_all(std::string& text, const std::string& what, const std::string& with) {
  for (size_t at = text.find(what); at != std::string::npos; at = text.find(what, at + with.size())) text.replace(at, what.size(), with);
}

std::string name_of(size_t value) {
  static constexpr const char* kNames[kArguments] = {"a", "b", "in_out"};
  return value < kArguments ? kNames[value] : "v" + std::to_string(value - kArguments);
}

// Grows a program by steps that eager accepts.
class Grower {
 public:
  explicit Grower(Random& random) : random_(random) {
    auto [a, b, c] = arguments(kTrial);
    in_out_ = c;
    frame_.values = {a, b, Tensor()};
    frame_.values.reserve(64);
    frame_.in_out = &in_out_;
    frame_.number = kTrial.rows;
  }

  Program grow() {
    const size_t wanted = 2 + random_() % 11;
    for (int attempt = 0; attempt < 60 && program_.steps.size() < wanted && !failed_; ++attempt) try_step();
    const size_t count = 1 + random_() % 3;
    for (size_t i = 0; i < count; ++i) program_.results.push_back(chance(random_, 70) ? frame_.values.size() - 1 - random_() % std::min<size_t>(3, frame_.values.size()) : pick());
    return std::move(program_);
  }

 private:
  size_t pick() {
    const size_t all = frame_.values.size();
    return chance(random_, 60) && all > kArguments ? all - 1 - random_() % std::min<size_t>(4, all) : random_() % all;
  }

  void try_step() {
    Step step;
    step.op = random_() % table().size();
    const OpRow& row = table()[step.op];
    if (is_left_out(row)) return;
    for (size_t i = 0; i < row.arity; ++i) step.inputs.push_back(pick());
    for (int64_t& number : step.numbers) number = static_cast<int64_t>(random_() % 4);
    program_.steps.push_back(step);
    const bool judged = decides_exactly(program_);
    program_.steps.pop_back();
    if (!judged) return;
    try {
      if (step.inputs.empty()) step.inputs.push_back(0);
      Tensor result = row.run(frame_, step);
      if (result.numel() > kMostElements) return;
      frame_.values.push_back(std::move(result));
    } catch (const std::exception&) {
      failed_ = chance(random_, 4);   // programs that raise are programs, too
      if (!failed_) return;
      frame_.values.push_back(frame_.values[0]);
    }
    program_.steps.push_back(std::move(step));
  }

  Random& random_;
  Program program_;
  Frame frame_;
  Tensor in_out_;
  bool failed_ = false;
};

}  // namespace

std::vector<Tensor> run(const Program& program, Frame& frame) {
  frame.values.reserve(program.steps.size() + kArguments);
  for (const Step& step : program.steps) frame.values.push_back(table()[step.op].run(frame, step));
  std::vector<Tensor> results;
  for (const size_t result : program.results) results.push_back(frame.value(result));
  return results;
}

std::string text(const Program& program) {
  std::string all = "(at::Tensor a, const at::Tensor& b, at::Tensor& in_out, c10::SymInt number) {\n";
  for (size_t i = 0; i < program.steps.size(); ++i) {
    const Step& step = program.steps[i];
    std::string line = table()[step.op].text;
    for (size_t k = 0; k < 3; ++k) replace_all(line, "$" + std::to_string(k), name_of(step.inputs[k < step.inputs.size() ? k : 0]));
    for (size_t k = 0; k < 2; ++k) replace_all(line, "#" + std::to_string(k), std::to_string(step.numbers[k]));
    all += "  auto " + name_of(i + kArguments) + " = " + line + ";\n";
  }
  all += "  return {";
  for (const size_t result : program.results) all += name_of(result) + (&result == &program.results.back() ? "" : ", ");
  return all + "};\n}";
}

std::string text(const Call& call) {
  return std::to_string(call.rows) + "x" + std::to_string(call.columns) + " layout " + std::to_string(call.layout) + " seed " + std::to_string(call.seed);
}

// The layout's digits: of a, b and in_out, and which of them are one tensor or share memory.
std::array<Tensor, kArguments> arguments(const Call& call) {
  std::array<Tensor, kArguments> made;
  int rest = call.layout;
  for (size_t i = 0; i < kArguments; ++i, rest /= 10) made[i] = laid_out(rest % 10, call.rows, call.columns, call.seed + i);
  switch (rest % 10) {
    case 1: made[1] = made[0]; break;
    case 2: made[2] = made[0]; break;
    case 3: made[1] = made[0].slice(0, 0, call.rows); break;
    case 4: made[2] = made[0].dim() > 1 ? made[0].t() : made[0].slice(0, 1); break;
    case 5: made[2] = made[1]; break;
    default: break;
  }
  return made;
}

void leave_out(const std::string& names) {
  for (size_t at = 0; at < names.size();) {
    const size_t end = std::min(names.find(',', at), names.size());
    left_out().push_back(names.substr(at, end - at));
    at = end + 1;
  }
}

bool decides_exactly(const Program& program) {
  std::vector<bool> exact(kArguments, true);
  for (const Step& step : program.steps) {
    const OpRow& row = table()[step.op];
    const bool all = std::all_of(step.inputs.begin(), step.inputs.begin() + static_cast<std::ptrdiff_t>(row.arity), [&](size_t v) { return exact[v]; });
    if (row.kind == Kind::decides && !all) return false;
    exact.push_back(all && row.kind != Kind::inexact);
    if (!exact.back() && std::string_view(row.name).find('_') != std::string_view::npos) exact.assign(exact.size(), false);   // it may have written any of them
  }
  return true;
}

Program generate(Random& random) { return Grower(random).grow(); }

std::vector<Call> calls(Random& random) {
  static constexpr int64_t kSizes[] = {0, 1, 1, 2, 3, 4, 5, 7, 16, 17, 31};
  const auto layout = [&] {
    int made = chance(random, 15) ? 1 + static_cast<int>(random() % 5) : 0;
    for (size_t i = 0; i < kArguments; ++i) made = 10 * made + (chance(random, 25) ? static_cast<int>(random() % 9) : 0);
    return made;
  };
  std::vector<Call> all;
  const int usual = layout();
  for (int i = 0; i < 6; ++i) {
    all.push_back({one_of<int64_t>(random, kSizes), one_of<int64_t>(random, kSizes), random() % 1000, chance(random, 80) ? usual : layout()});
  }
  all.push_back(all.front());
  return all;
}

}  // namespace functions

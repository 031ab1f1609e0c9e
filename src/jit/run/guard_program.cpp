// See guard_program.h.
#include "jit/run/guard_program.h"

#include <algorithm>

#include "dims/real.h"
#include "guards/check.h"
#include "support/error.h"

namespace escapement {
namespace {

std::string name_of_step(SizeOp op) { return op == SizeOp::add ? "add" : op == SizeOp::mul ? "mul" : std::string(name_of(op)); }

std::string text(Slot slot) { return "t" + std::to_string(slot); }

}  // namespace

GuardProgram::GuardProgram(const DimTable& dims) : shapes_(dims, std::vector<uint32_t>(dims.symbol_count(), 0)) {}

void GuardProgram::keep(Slot slot) {
  if (std::find(kept_.begin(), kept_.end(), slot) == kept_.end()) kept_.push_back(slot);
}

void GuardProgram::finish() { shapes_.finish(); }

bool GuardProgram::compile(GuardCompiler compiler) const {
  const bool trivial = shapes_.code().empty() && tests_.size() <= 1;
  const bool called = std::ranges::any_of(code(), [](const ShapeProgram::Code& c) { return is_of_libm(c.op); });
  if (trivial || called) return false;
  bool made = false;
  std::call_once(compiled_, [&] {
    code_ = compiler(*this);
    function_.store(code_.function, std::memory_order_release);
    made = true;
  });
  return made;
}

bool GuardProgram::interpret(int64_t* table) const {
  const std::span<int64_t> values(table, table_size());
  shapes_.initialise(values);
  try {
    shapes_.evaluate(0, values);
  } catch (const UserError&) {
    return false;
  }
  return std::all_of(tests_.begin(), tests_.end(), [&](const Test& t) { return escapement::holds(t.kind, table[t.left], table[t.right]); });
}

std::string GuardProgram::to_string() const {
  std::string lines;
  for (const auto& [slot, value] : constants()) lines += text(slot) + " = " + std::to_string(value) + "\n";
  for (const ShapeProgram::Code& c : code()) {
    lines += text(c.result) + " = " + name_of_step(c.op) + " " + text(c.a) + (is_unary(c.op) ? "" : " " + text(c.b)) + "\n";
  }
  for (const Test& t : tests_) lines += text(t.left) + " " + std::string(relation_text(t.kind)) + " " + text(t.right) + "\n";
  for (const Slot slot : kept_) lines += "keep " + text(slot) + "\n";
  return lines;
}

}  // namespace escapement

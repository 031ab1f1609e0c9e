// See relations.h.
#include "guards/relations.h"

#include <algorithm>

#include "guards/check.h"

namespace escapement {
namespace {

using Kind = Relation::Kind;

class Lister {
 public:
  Lister(const Trace& trace, std::span<const uint32_t> input_of_value) : trace_(trace), input_of_value_(input_of_value) {}

  EntryRelations run(std::span<const uint32_t> entry_guards) {
    add_bindings();
    for (uint32_t i = 0; i < trace_.inputs.size(); ++i) add_form(i);
    for (const uint32_t guard : entry_guards) add({Kind::guard, 0, 0, {}, guard});
    for (uint32_t i = 0; i < trace_.inputs.size(); ++i) add_sizes(i);
    add_apart();
    return std::move(relations_);
  }

 private:
  void add(Relation relation) { relations_.list.push_back(relation); }
  bool is_tensor(uint32_t i) const { return trace_.inputs[i].kind == Input::Kind::tensor && trace_.inputs[i].value; }
  bool is_integer(uint32_t i) const { return trace_.inputs[i].kind == Input::Kind::integer && trace_.inputs[i].dim; }

  void add_bindings() {
    for (uint32_t s = 0; s < trace_.dims.symbol_count(); ++s) {
      const Source& source = trace_.dims.info(Symbol(s)).source;
      if (source.kind == Source::Kind::item) {
        const uint32_t input = source.value.index < input_of_value_.size() ? input_of_value_[source.value.index] : Id<void>::kNone;
        if (input != Id<void>::kNone) relations_.bindings.push_back({source.kind, input, 0, Symbol(s)});
      } else if (source.kind >= Source::Kind::input_size && source.kind <= Source::Kind::input_value) {
        relations_.bindings.push_back({source.kind, source.input, source.dim, Symbol(s)});
      }
    }
  }

  // A place that binds a lone symbol need not be compared with it.
  bool binds(Source::Kind kind, uint32_t input, uint32_t axis, Dim expected) const {
    const auto steps = trace_.dims.steps(expected);
    if (steps.size() != 1 || steps[0].op != SizeOp::symbol) return false;
    const Source& source = trace_.dims.info(steps[0].symbol).source;
    return source.kind == kind && source.input == input && source.dim == axis;
  }

  void add_form(uint32_t i) {
    if (is_integer(i)) add({Kind::integer, i, 0, {}, 0});
    if (!is_tensor(i)) return;
    for (const Kind kind : {Kind::plain, Kind::dtype, Kind::rank}) add({kind, i, 0, {}, 0});
  }

  void add_sizes(uint32_t i) {
    const Input& input = trace_.inputs[i];
    if (is_integer(i) && !binds(Source::Kind::input_value, i, 0, input.dim)) add({Kind::value, i, 0, input.dim, 0});
    if (!is_tensor(i)) return;
    const TensorType& type = trace_.type(input.value);
    for (uint32_t d = 0; d < type.sizes.size(); ++d) {
      if (!binds(Source::Kind::input_size, i, d, type.sizes[d])) add({Kind::size, i, d, type.sizes[d], 0});
    }
    if (input.contiguous) return add({Kind::contiguous, i, 0, {}, 0});
    bool free = false;
    for (uint32_t d = 0; d < type.strides.size(); ++d) {
      if (binds(Source::Kind::input_stride, i, d, type.strides[d])) free = true;
      else add({Kind::stride, i, d, type.strides[d], 0});
    }
    // Strides that are all given are as they are by themselves.
    if (free) add({input.stride_order.empty() ? Kind::irregular : Kind::ordered, i, 0, {}, 0});
  }

  // Inputs that the program writes.
  void add_apart() {
    std::vector<uint8_t> written(trace_.storage_count, 0);
    const auto note = [&](ValueId value) { written[trace_.type(value).storage.index] = 1; };
    for (const Instr& instr : trace_.instrs) {
      for (const uint32_t operand : instr.writes) note(instr.operands[operand]);
      if (instr.op == Op::write) note(instr.operands[0]);
    }
    for (uint32_t i = 0; i < trace_.inputs.size(); ++i) {
      if (is_tensor(i) && written[trace_.type(trace_.inputs[i].value).storage.index]) add({Kind::apart, i, 0, {}, 0});
    }
  }

  const Trace& trace_;
  std::span<const uint32_t> input_of_value_;
  EntryRelations relations_;
};

std::string order_text(const std::vector<int32_t>& order) {
  std::string text;
  for (const int32_t axis : order) text += (text.empty() ? "" : ", ") + std::to_string(axis);
  return text;
}

}  // namespace

EntryRelations entry_relations(const Trace& trace, std::span<const uint32_t> entry_guards, std::span<const uint32_t> input_of_value) {
  return Lister(trace, input_of_value).run(entry_guards);
}

std::string to_string(const Trace& trace, const Relation& r) {
  if (r.kind == Kind::guard) return to_string(trace, trace.guards[r.guard]);
  const Input& input = trace.inputs[r.input];
  const auto equals = [&](const std::string& what) { return input.name + what + " == " + trace.dims.to_string(r.expected); };
  const std::string axis = "[" + std::to_string(r.axis) + "]";
  switch (r.kind) {
    case Kind::integer: return input.name + " is an integer";
    case Kind::plain: return input.name + " is a plain tensor";
    case Kind::dtype:
      return input.name + ".dtype == " + std::string(name_of(trace.type(input.value).dtype)) +
             (input.foreign >= 0 ? "(" + std::to_string(input.foreign) + ")" : "");
    case Kind::rank: return input.name + ".rank == " + std::to_string(trace.type(input.value).rank());
    case Kind::guard: break;
    case Kind::value: return equals("");
    case Kind::size: return equals(".size" + axis);
    case Kind::contiguous: return input.name + " is contiguous";
    case Kind::stride: return equals(".stride" + axis);
    case Kind::irregular: return input.name + " is not contiguous";
    case Kind::ordered: return input.name + " has its axes in the order " + order_text(input.stride_order);
    case Kind::apart: return input.name + " shares no memory with another argument";
  }
  return "?";
}

}  // namespace escapement

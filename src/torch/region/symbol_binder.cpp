// See symbol_binder.h.
#include "torch/region/symbol_binder.h"

#include <algorithm>

namespace escapement {
namespace {

bool is_symbol(const SizeSpec& spec) { return spec.op == SizeOp::symbol; }

Source source_of(uint32_t input, int64_t axis) { return {Source::Kind::input_size, input, {}, static_cast<uint32_t>(axis)}; }

bool sizes_are_known(const InputSpec& spec, const at::Tensor& tensor) { return static_cast<int64_t>(spec.sizes.size()) == tensor.dim(); }

}  // namespace

std::vector<c10::IValue> SymbolBinder::wrapped(std::span<const c10::IValue> arguments) {
  bind_sizes(arguments);
  std::vector<c10::IValue> wrapped;
  for (size_t i = 0; i < arguments.size(); ++i) {
    const InputSpec& spec = inputs_.at(i);
    if (arguments[i].isTensor()) {
      const at::Tensor& tensor = arguments[i].toTensor();
      wrapped.emplace_back(recorder_.tensor(tensor, sizes(tensor, static_cast<uint32_t>(i)), spec.name, spec.parameter));
    } else if (arguments[i].isInt() && spec.kind == InputSpec::Kind::integer) {
      wrapped.emplace_back(recorder_.as_symint(integer(spec, arguments[i].toInt())));
    } else {
      recorder_.opaque_input(spec.name);
      wrapped.push_back(arguments[i]);
    }
  }
  return wrapped;
}

// Before anything else: symbols that only sizes of tensors bind, so that arithmetic on them may stand in an argument before theirs.
void SymbolBinder::bind_sizes(std::span<const c10::IValue> arguments) {
  for (size_t i = 0; i < arguments.size(); ++i) {
    if (arguments[i].isTensor() && sizes_are_known(inputs_[i], arguments[i].toTensor()))
      bind_sizes_of(static_cast<uint32_t>(i), arguments[i].toTensor());
  }
}

void SymbolBinder::bind_sizes_of(uint32_t position, const at::Tensor& tensor) {
  for (int64_t axis = 0; axis < tensor.dim(); ++axis) {
    const SizeSpec& spec = inputs_[position].sizes[static_cast<size_t>(axis)];
    if (is_symbol(spec) && !is_integer(spec)) size(spec, tensor.size(axis), source_of(position, axis));
  }
}

bool SymbolBinder::is_integer(const SizeSpec& symbol) const {
  return std::any_of(inputs_.begin(), inputs_.end(), [&](const InputSpec& input) {
    return input.kind == InputSpec::Kind::integer && is_symbol(input.size) && input.size.number == symbol.number;
  });
}

// An integer has a symbol of its own. Where a tensor before it has that symbol as a size, their being equal is a guard.
Dim SymbolBinder::integer(const InputSpec& spec, int64_t value) {
  const Dim dim = recorder_.integer(value, spec.name);
  if (!is_symbol(spec.size)) return dim;
  const auto [found, fresh] = symbols_.try_emplace(spec.size.number, dim);
  if (fresh) recorder_.declare(spec.size, dim);
  else if (dims().hint(found->second) == value) recorder_.declare_equal(dim, found->second);
  return dim;
}

// One Dim per axis; where nothing is known a new symbol is bound to this very size.
std::vector<Dim> SymbolBinder::sizes(const at::Tensor& tensor, uint32_t position) {
  const InputSpec& spec = inputs_[position];
  const bool known = sizes_are_known(spec, tensor);
  const SizeSpec unknown;
  std::vector<Dim> result;
  for (int64_t axis = 0; axis < tensor.dim(); ++axis)
    result.push_back(size(known ? spec.sizes[static_cast<size_t>(axis)] : unknown, tensor.size(axis), source_of(position, axis)));
  return result;
}

Dim SymbolBinder::size(const SizeSpec& spec, int64_t seen, const Source& source) {
  if (is_symbol(spec)) return size_of_symbol(spec, seen, source);
  if (spec.op == SizeOp::constant && spec.number == seen) return dims().constant(seen);
  if (const Dim computed = expression(spec); computed && dims().hint(computed) == seen) return computed;
  return dims().new_symbol(SymbolKind::size, source, seen);  // what the front end said does not hold here
}

Dim SymbolBinder::size_of_symbol(const SizeSpec& spec, int64_t seen, const Source& source) {
  const auto found = symbols_.find(spec.number);
  if (found != symbols_.end() && dims().hint(found->second) == seen) return found->second;
  const Dim fresh = dims().new_symbol(SymbolKind::size, source, seen);
  if (found == symbols_.end()) {
    symbols_.emplace(spec.number, fresh);
    recorder_.declare(spec, fresh);
  }
  return fresh;
}

Dim SymbolBinder::expression(const SizeSpec& spec) {
  if (spec.op == SizeOp::constant) return dims().constant(spec.number);
  if (is_symbol(spec)) {
    const auto found = symbols_.find(spec.number);
    return found == symbols_.end() ? Dim() : found->second;
  }
  if (!spec.op || spec.operands.size() != 2) return Dim();
  const Dim a = expression(spec.operands[0]), b = expression(spec.operands[1]);
  return a && b ? dims().apply(*spec.op, a, b) : Dim();
}

}  // namespace escapement

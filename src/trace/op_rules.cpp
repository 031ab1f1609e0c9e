// Rules of all kinds but views, composites and contractions; see op_rules.h. `infer` at the end is the table of contents.
#include "trace/op_rules.h"

#include <algorithm>

#include "support/error.h"
#include "support/text.h"
#include "trace/layout.h"
#include "trace/reductions.h"

namespace escapement {

// --- Rules: demands and messages

std::string Rules::shown(Dim dim) const {
  if (const auto value = dims.as_constant(dim)) return std::to_string(*value);
  if (const auto seen = dims.hint(dim)) return std::to_string(*seen);
  return dims.to_string(dim);
}

std::string Rules::shown(std::span<const Dim> sizes) const {
  return "[" + join(sizes, ", ", [&](Dim dim) { return shown(dim); }) + "]";
}

void Rules::require(Guard::Kind kind, Dim a, Dim b, const std::string& message, bool (*holds)(int64_t, int64_t)) {
  const auto x = dims.hint(a), y = dims.hint(b);
  if (x && y && !holds(*x, *y)) throw UserError(message);
  try {
    demands.require(kind, a, b, std::string(name_of(op)));
  } catch (const UserError&) {
    throw UserError(message);  // the relation can never hold: say what eager would
  }
}

void Rules::require_equal(Dim a, Dim b, const std::string& message) {
  require(Guard::Kind::equal, a, b, message, [](int64_t x, int64_t y) { return x == y; });
}
void Rules::require_less(Dim a, Dim b, const std::string& message) {
  require(Guard::Kind::less, a, b, message, [](int64_t x, int64_t y) { return x < y; });
}
void Rules::require_less_equal(Dim a, Dim b, const std::string& message) {
  require(Guard::Kind::less_equal, a, b, message, [](int64_t x, int64_t y) { return x <= y; });
}
void Rules::require_not_zero(Dim a, const std::string& message) {
  require(Guard::Kind::not_equal, a, dims.constant(0), message, [](int64_t x, int64_t y) { return x != y; });
}

void Rules::check_axis(int64_t axis, int64_t rank) const {
  const int64_t limit = std::max<int64_t>(rank, 1);
  if (axis >= 0 && axis < limit) return;
  throw UserError("Dimension out of range (expected to be in range of [" + std::to_string(-limit) + ", " +
                  std::to_string(limit - 1) + "], but got " + std::to_string(axis) + ")");
}

TensorType Rules::plain(DType dtype, DeviceKind device, std::vector<Dim> sizes) {
  TensorType result;
  result.dtype = dtype;
  result.device = device;
  result.strides = contiguous_strides(dims, sizes);
  result.sizes = std::move(sizes);
  return result;
}

// --- types

namespace {

DType number_type(const Number& number) {
  switch (number.kind) {
    case Number::Kind::boolean: return DType::b8;
    case Number::Kind::real: return DType::f32;
    default: return DType::i64;
  }
}

// torch's combine_categories: `higher` keeps its width unless `lower` is of a higher kind.
std::optional<DType> combine(std::optional<DType> higher, std::optional<DType> lower) {
  if (!higher || !lower) return higher ? higher : lower;
  if (is_float(*higher) || *higher == DType::other) return higher;
  if (*higher == DType::b8 || is_float(*lower)) return promote(*higher, *lower);
  return higher;
}

}  // namespace

DType promoted_type(OperandTypes operands, const Number& number) {
  std::optional<DType> with_dims, without_dims, written;
  for (const TensorType* operand : operands) {
    std::optional<DType>& category = operand->rank() > 0 ? with_dims : without_dims;
    category = category ? promote(*category, operand->dtype) : operand->dtype;
  }
  if (number.kind != Number::Kind::none) written = number_type(number);
  return combine(with_dims, combine(without_dims, written)).value_or(DType::f32);
}

namespace {

DeviceKind common_device(OperandTypes operands) {
  const TensorType* chosen = nullptr;
  for (const TensorType* operand : operands) {
    const bool stronger = !chosen || (chosen->rank() == 0 && chosen->device == DeviceKind::cpu);
    const bool free_scalar = operand->rank() == 0 && operand->device == DeviceKind::cpu;
    if (chosen && !stronger && !free_scalar && chosen->device != operand->device)
      throw UserError("Expected all tensors to be on the same device, but found at least two devices");
    if (stronger) chosen = operand;
  }
  return chosen ? chosen->device : DeviceKind::cpu;
}

DType float_of(DType type) { return is_float(type) || type == DType::other ? type : DType::f32; }

DType pointwise_type(Op op, OperandTypes operands, const Attrs& attrs) {
  if (attrs.dtype) return *attrs.dtype;
  operands = without_numbers(op, operands);
  const bool number_is_operand = info(op).arity == static_cast<int>(operands.size()) + 1;
  const Number number = number_is_operand ? attrs.value : Number{};
  switch (info(op).rule) {
    case TypeRule::same: return operands[0]->dtype;
    case TypeRule::promote: return promoted_type(operands, number);
    case TypeRule::promote_float: return float_of(promoted_type(operands, number));
    case TypeRule::boolean: return DType::b8;
    case TypeRule::attribute: throw UserError(std::string(name_of(op)) + ": dtype is missing");
    case TypeRule::special: break;
  }
  return promoted_type(operands.subspan(1), number);  // where
}

// --- pointwise

Dim broadcast_dim(Rules& rules, Dim a, Dim b, const std::string& because, const std::string& message) {
  DimTable& dims = rules.dims;
  if (dims.same(a, b) || dims.as_constant(b) == 1) return a;
  if (dims.as_constant(a) == 1) return b;
  const auto x = dims.hint(a), y = dims.hint(b);
  if (x && y && (*x == 1) != (*y == 1)) {
    const Dim one = *x == 1 ? a : b;
    rules.demands.require(Guard::Kind::equal, one, dims.constant(1), because);
    return *x == 1 ? b : a;
  }
  if (x && y && *x != *y) throw UserError(message);
  try {
    rules.demands.require(Guard::Kind::equal, a, b, because);
  } catch (const UserError&) {
    throw UserError(message);
  }
  return a;
}

std::vector<Dim> broadcast_sizes(Rules& rules, std::span<const Dim> a, std::span<const Dim> b, const std::string& because) {
  const size_t rank = std::max(a.size(), b.size());
  std::vector<Dim> result(rank);
  for (size_t i = 0; i < rank; ++i) {
    const size_t axis = rank - 1 - i;
    if (i >= a.size() || i >= b.size()) {
      result[axis] = i >= a.size() ? b[b.size() - 1 - i] : a[a.size() - 1 - i];
      continue;
    }
    const Dim x = a[a.size() - 1 - i], y = b[b.size() - 1 - i];
    const std::string message = "The size of tensor a (" + rules.shown(x) + ") must match the size of tensor b (" +
                                rules.shown(y) + ") at non-singleton dimension " + std::to_string(axis);
    result[axis] = broadcast_dim(rules, x, y, because, message);
  }
  return result;
}

}  // namespace

std::vector<Dim> broadcast_all(Rules& rules, OperandTypes operands) {
  std::vector<Dim> sizes;
  for (const TensorType* operand : operands) sizes = broadcast_sizes(rules, sizes, operand->sizes, std::string(name_of(rules.op)));
  return sizes;
}

namespace {

TensorType infer_pointwise(Rules& rules, OperandTypes operands, const Attrs& attrs) {
  if (rules.op == Op::where && operands[0]->dtype != DType::b8 && operands[0]->dtype != DType::u8)
    throw UserError("where expected condition to be a boolean tensor, but got a tensor with dtype " +
                    std::string(name_of(operands[0]->dtype)));
  for (const TensorType* number : operands.subspan(without_numbers(rules.op, operands).size()))
    if (number->rank() != 0) throw UserError(std::string(name_of(rules.op)) + ": a number of the row's must have no dims");
  const DType dtype = pointwise_type(rules.op, operands, attrs);
  TensorType result = rules.plain(dtype, common_device(operands), broadcast_all(rules, operands));
  std::vector<Dim> strides = pointwise_strides(rules.dims, operands, result.sizes);
  if (!strides.empty()) result.strides = std::move(strides);
  return result;
}

// --- reductions, also those among the composites

std::vector<Dim> reduced_sizes(Rules& rules, const TensorType& a, const Attrs& attrs) {
  std::vector<bool> reduced(a.sizes.size(), attrs.axes.empty());
  for (int32_t axis : attrs.axes) {
    rules.check_axis(axis, a.rank());
    if (a.rank() == 0) continue;
    if (reduced[axis]) throw UserError("dim " + std::to_string(axis) + " appears multiple times in the list of dims");
    reduced[axis] = true;
  }
  std::vector<Dim> sizes;
  for (size_t i = 0; i < reduced.size(); ++i) {
    if (!reduced[i]) sizes.push_back(a.sizes[i]);
    else if (attrs.keepdim) sizes.push_back(rules.dims.constant(1));
  }
  return sizes;
}

// Eager raises for an empty extreme; demanding elements keeps a version from returning an infinity instead.
void require_elements(Rules& rules, const TensorType& a, const Attrs& attrs) {
  for (int32_t axis = 0; axis < a.rank(); ++axis) {
    const bool reduced = attrs.axes.empty() || std::find(attrs.axes.begin(), attrs.axes.end(), axis) != attrs.axes.end();
    if (reduced)
      rules.require_less(rules.dims.constant(0), a.sizes[axis],
                         std::string(name_of(rules.op)) + "(): Expected reduction dim " + std::to_string(axis) +
                             " to have non-zero size.");
  }
}

DType reduction_type(Op op, DType a, const Attrs& attrs) {
  const ReductionInfo* row = find_reduction(op);   // none: a composite that reduces
  if (row && (row->gives_position() || row->accumulator == Accumulator::count)) return DType::i64;
  if (row && row->accumulator == Accumulator::truth) return a == DType::u8 ? DType::u8 : DType::b8;
  if (attrs.dtype) return *attrs.dtype;
  if (row && row->accumulator == Accumulator::result && !is_float(a) && a != DType::other) return DType::i64;
  if (op == Op::mean && !is_float(a) && a != DType::other)
    throw UserError("mean(): could not infer output dtype. Input dtype must be either a floating point or complex dtype. Got: " +
                    std::string(name_of(a)));
  return a;
}

}  // namespace

TensorType infer_reduction(Rules& rules, const TensorType& a, const Attrs& attrs) {
  const DType dtype = reduction_type(rules.op, a.dtype, attrs);
  std::vector<Dim> sizes = reduced_sizes(rules, a, attrs);
  const ReductionInfo* row = find_reduction(rules.op);
  if (row && row->is_extreme() && attrs.mode != "identity") require_elements(rules, a, attrs);  // mode: of nothing, the identity
  return rules.plain(dtype, a.device, std::move(sizes));
}

namespace {

// --- creation, indexing, combining

TensorType infer_create(Rules& rules, const Attrs& attrs) {
  if (!attrs.dtype) throw UserError(std::string(name_of(rules.op)) + ": dtype is missing");
  if (rules.op == Op::arange && attrs.sizes.size() != 1) throw UserError("arange: expected one size, the length");
  return rules.plain(*attrs.dtype, DeviceKind::cpu, attrs.sizes);
}

void check_positions(Rules& rules, const TensorType& positions) {
  const bool right = positions.dtype == DType::i64 || (positions.dtype == DType::i32 && rules.op != Op::gather);
  if (!right)
    throw UserError(std::string(name_of(rules.op)) + "(): Expected dtype int64 for index, got " + std::string(name_of(positions.dtype)));
}

TensorType infer_gather(Rules& rules, const TensorType& data, const TensorType& positions, const Attrs& attrs) {
  rules.check_axis(attrs.axis, data.rank());
  if (std::max(data.rank(), 1) != std::max(positions.rank(), 1))
    throw UserError("Index tensor must have the same number of dimensions as input tensor");
  for (int32_t axis = 0; axis < std::min(data.rank(), positions.rank()); ++axis) {
    if (axis == attrs.axis) continue;
    rules.require_less_equal(positions.sizes[axis], data.sizes[axis],
                             "Size does not match at dimension " + std::to_string(axis) + " expected index " +
                                 rules.shown(positions.sizes) + " to be no larger than self " + rules.shown(data.sizes) +
                                 " apart from dimension " + std::to_string(attrs.axis));
  }
  return rules.plain(data.dtype, data.device, positions.sizes);
}

TensorType infer_index(Rules& rules, OperandTypes operands, const Attrs& attrs) {
  const TensorType &data = *operands[0], &positions = *operands[1];
  check_positions(rules, positions);
  if (rules.op == Op::gather) return infer_gather(rules, data, positions, attrs);
  std::vector<Dim> sizes = data.sizes;
  if (rules.op == Op::embedding) {
    if (data.rank() != 2) throw UserError("'weight' must be 2-D");
    sizes = positions.sizes;
    sizes.push_back(data.sizes[1]);
    return rules.plain(data.dtype, data.device, std::move(sizes));
  }
  rules.check_axis(attrs.axis, data.rank());
  if (positions.rank() > 1) throw UserError("index_select(): Index is supposed to be a vector");
  if (data.rank() > 0) sizes[attrs.axis] = positions.rank() == 1 ? positions.sizes[0] : rules.dims.constant(1);
  return rules.plain(data.dtype, data.device, std::move(sizes));
}

TensorType infer_cat(Rules& rules, OperandTypes operands, const Attrs& attrs) {
  if (operands.empty()) throw UserError("torch.cat(): expected a non-empty list of Tensors");
  std::vector<Dim> sizes = operands[0]->sizes;
  if (sizes.empty()) throw UserError("zero-dimensional tensor (at position 0) cannot be concatenated");
  rules.check_axis(attrs.axis, operands[0]->rank());
  for (size_t i = 1; i < operands.size(); ++i) {
    const TensorType& next = *operands[i];
    if (next.sizes.size() != sizes.size())
      throw UserError("Tensors must have same number of dimensions: got " + std::to_string(sizes.size()) + " and " +
                      std::to_string(next.sizes.size()));
    for (int32_t axis = 0; axis < next.rank(); ++axis) {
      if (axis == attrs.axis) sizes[axis] = rules.dims.add(sizes[axis], next.sizes[axis]);
      else
        rules.require_equal(sizes[axis], next.sizes[axis],
                            "Sizes of tensors must match except in dimension " + std::to_string(attrs.axis) + ". Expected size " +
                                rules.shown(sizes[axis]) + " but got size " + rules.shown(next.sizes[axis]) +
                                " for tensor number " + std::to_string(i) + " in the list.");
    }
  }
  const DType dtype = attrs.dtype ? *attrs.dtype : promoted_type(operands, {});
  return rules.plain(dtype, common_device(operands), std::move(sizes));
}

TensorType infer_pad(Rules& rules, const TensorType& a, const Attrs& attrs) {
  if (attrs.sizes.size() % 2 != 0 || attrs.sizes.size() > 2 * a.sizes.size())
    throw UserError("Length of pad should be no more than twice the number of dimensions of the input and even");
  std::vector<Dim> sizes = a.sizes;
  for (size_t pair = 0; 2 * pair < attrs.sizes.size(); ++pair) {
    Dim& size = sizes[sizes.size() - 1 - pair];
    size = rules.dims.add(size, rules.dims.add(attrs.sizes[2 * pair], attrs.sizes[2 * pair + 1]));
    rules.require_less_equal(rules.dims.constant(0), size, "The input size, plus negative padding, resulted in a negative output size, "
                                                           "which is invalid. Check dimension " +
                                                               std::to_string(sizes.size() - 1 - pair) + " of your input.");
  }
  return rules.plain(a.dtype, a.device, std::move(sizes));
}

// A source may be broadcast to its destination, never the other way round.
TensorType infer_write(Rules& rules, const TensorType& destination, const TensorType& source) {
  const std::string message = "output with shape " + rules.shown(destination.sizes) + " doesn't match the broadcast shape of " +
                              rules.shown(source.sizes);
  if (source.rank() > destination.rank()) throw UserError(message);
  const size_t missing = destination.sizes.size() - source.sizes.size();
  for (size_t i = 0; i < source.sizes.size(); ++i) {
    const Dim to = destination.sizes[missing + i], from = source.sizes[i];
    if (!rules.dims.same(broadcast_dim(rules, to, from, "write", message), to)) throw UserError(message);
  }
  return destination;
}

}  // namespace

std::vector<Dim> broadcast_sizes(DimTable& dims, Demands& demands, std::span<const Dim> a, std::span<const Dim> b,
                                 const std::string& because) {
  Rules rules(Op::add, dims, demands);
  return broadcast_sizes(rules, a, b, because);
}

OperandTypes without_numbers(Op op, OperandTypes operands) {
  return operands.first(std::min(operands.size(), static_cast<size_t>(info(op).arity)));
}

namespace {

// All numbers of the row as operands, none as an attribute.
bool has_its_numbers(Op op, size_t count, const Attrs& attrs) {
  const size_t numbers = numbers_of(op).size();
  const bool as_attributes = attrs.value.kind != Number::Kind::none || attrs.value2.kind != Number::Kind::none;
  return numbers > 0 && !as_attributes && count == static_cast<size_t>(info(op).arity) + numbers;
}

}  // namespace

bool arity_fits(Op op, size_t count, const Attrs& attrs) {
  const OpInfo& row = info(op);
  if (row.arity < 0 || count == static_cast<size_t>(row.arity)) return true;
  const bool one_less = count + 1 == static_cast<size_t>(row.arity);
  if (row.kind == OpKind::pointwise) return (one_less && row.arity > 1 && attrs.value.kind != Number::Kind::none) || has_its_numbers(op, count, attrs);
  switch (op) {
    case Op::layer_norm:
    case Op::group_norm: return count == 1 || count == 2;
    case Op::rms_norm: return count == 1;
    case Op::batch_norm: return count == 3 || count == 4;
    case Op::masked_fill: return one_less && attrs.value.kind != Number::Kind::none;
    default: return false;
  }
}

TensorType infer(Op op, OperandTypes operands, const Attrs& attrs, DimTable& dims, Demands& demands) {
  Rules rules(op, dims, demands);
  if (!arity_fits(op, operands.size(), attrs))
    throw UserError(std::string(name_of(op)) + " takes " + std::to_string(info(op).arity) + " operands, not " +
                    std::to_string(operands.size()));
  switch (info(op).kind) {
    case OpKind::pointwise: return infer_pointwise(rules, operands, attrs);
    case OpKind::reduce: return infer_reduction(rules, *operands[0], attrs);
    case OpKind::view: return infer_view(rules, *operands[0], attrs);
    case OpKind::create: return infer_create(rules, attrs);
    case OpKind::index: return infer_index(rules, operands, attrs);
    case OpKind::combine: return op == Op::cat ? infer_cat(rules, operands, attrs) : infer_pad(rules, *operands[0], attrs);
    case OpKind::composite: return infer_composite(rules, operands, attrs);
    case OpKind::contract: return infer_contraction(rules, operands, attrs);
    case OpKind::effect: return infer_write(rules, *operands[0], *operands[1]);
    case OpKind::call: break;
  }
  throw InternalError("op " + std::string(name_of(op)) + " has no size rule");
}

}  // namespace escapement

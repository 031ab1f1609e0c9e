// Bodies of stages. Each value is emitted once per stage: members are memoised by number, values computed in place of a load
// (constants, iota, cheap expressions) by node and axes, loads by parameter.
#include "kernels/emit.h"

#include <algorithm>

#include "support/error.h"
#include "trace/reduce_order.h"
#include "trace/scalar_ops.h"

namespace escapement {
namespace {

Number dim_number(Dim d) {
  Number n;
  n.kind = Number::Kind::dim;
  n.dim = d;
  return n;
}

bool is_integer_number(const Number& n, int64_t value) { return n.kind == Number::Kind::integer && n.integer == value; }

// Eager's index_select along axis 1 has a kernel of its own, which raises another error; x[:, i] has not.
std::string failure_of(const Instr& instr) {
  if (instr.attrs.mode == "target") return "nll_loss";
  const bool second = instr.op == Op::index_select && instr.attrs.axis == 1 && instr.attrs.mode.empty();
  return second ? "index_select_axis_1" : std::string(name_of(instr.op));
}

}  // namespace

// --- tables

uint32_t KernelTables::param(RootOperand operand, bool written) {
  auto& all = kernel_.operands;
  const auto found = std::find(all.begin(), all.end(), operand);
  const auto number = static_cast<uint32_t>(found - all.begin());
  if (found == all.end()) {
    LoopParam p;
    p.dtype = operand.dtype;
    p.inner = dims_.as_constant(operand.strides.back()) == 0 ? InnerStride::zero : InnerStride::unit;
    kernel_.nest.params.push_back(p);
    all.push_back(std::move(operand));
  }
  kernel_.nest.params[number].written |= written;
  return number;
}

uint32_t KernelTables::scalar(DType type, Number value) {
  for (uint32_t i = 0; i < kernel_.scalars.size(); ++i) {
    if (kernel_.nest.scalars[i] == type && kernel_.scalars[i] == value) return i;
  }
  kernel_.nest.scalars.push_back(type);
  kernel_.scalars.push_back(value);
  return static_cast<uint32_t>(kernel_.scalars.size() - 1);
}

uint32_t KernelTables::row_value(DType type) {
  kernel_.nest.row_values.push_back(type);
  return static_cast<uint32_t>(kernel_.nest.row_values.size() - 1);
}

// --- inputs of a body

size_t StageEmitter::position(uint32_t node) const {
  const auto& members = c_.group.members;
  return std::lower_bound(members.begin(), members.end(), node) - members.begin();
}

Reg StageEmitter::input(LoopInput description, DType type) {
  const auto found = std::find(stage_.inputs.begin(), stage_.inputs.end(), description);
  const auto number = found - stage_.inputs.begin();
  if (found == stage_.inputs.end()) stage_.inputs.push_back(description);
  const bool in_memory = description.kind == LoopInput::Kind::load || description.kind == LoopInput::Kind::gather;
  return body().input(static_cast<int>(number), type, in_memory ? c_.tables.nest().params[description.number].dtype : DType::other);
}

std::vector<Dim> StageEmitter::nest_strides(const std::vector<Dim>& group_strides) const {
  std::vector<Dim> strides;
  for (Axis a : c_.order.axes) strides.push_back(a < group_strides.size() ? group_strides[a] : c_.tables.dims().constant(0));
  return strides;
}

Reg StageEmitter::load(ValueId v, const AxisMap& map, std::span<const Dim> start) {
  DimTable& dims = c_.tables.dims();
  const TensorType& type = c_.graph.trace.type(v);
  std::vector<Dim> strides = type.strides;
  Dim offset = type.offset ? type.offset : dims.constant(0);
  for (size_t d = 0; d < start.size(); ++d) offset = dims.add(offset, dims.mul(start[d], strides[d]));
  for (size_t d = 0; d < strides.size(); ++d) {
    if (map[d].empty() || !start.empty()) continue;
    Dim shape = c_.group.extents[map[d][0]];
    for (int i = 1; i < map[d].size(); ++i) shape = dims.mul(shape, c_.group.extents[map[d][i]]);
    strides[d] = broadcast_stride(dims, strides[d], type.sizes[d], shape);
  }
  RootOperand operand{type.root, type.dtype, offset, nest_strides(strides_along(dims, c_.group.extents, map, strides)), {}};
  LoopInput description;
  description.number = c_.tables.param(std::move(operand), false);
  return input(description, compute_type(type.dtype));
}

Reg StageEmitter::row_input(size_t i) {
  const uint32_t row = c_.row_of[i];
  ESCAPEMENT_CHECK(row != kNoIndex, "a row value exists before it is read");
  LoopInput description;
  description.kind = LoopInput::Kind::row;
  description.number = row;
  return input(description, c_.tables.nest().row_values[row]);
}

// --- values

Reg StageEmitter::member(size_t i) {
  if (memo_[i] >= 0) return static_cast<Reg>(memo_[i]);
  const GraphNode& node = c_.graph.nodes[c_.group.members[i]];
  Reg value;
  if (node.role == Role::reduce) {
    value = finish(row_input(i), c_.graph.trace.type(c_.graph.instr(node).results[0]).dtype);
  } else if (!c_.plan.full[i] && c_.row_of[i] != kNoIndex) {
    value = row_input(i);
  } else if (c_.plan.full[i] && c_.plan.read_back[i] && c_.plan.time[i] < time_) {
    const uint32_t host = c_.plan.kept_in[i];
    const GraphNode& holder = host == kNoIndex ? node : c_.graph.nodes[c_.group.members[host]];
    LoopInput description;
    description.number = c_.tables.param(place_operand(holder), false);
    value = input(description, compute_type(c_.tables.nest().params[description.number].dtype));
  } else {
    value = compute(node, node.iter);
  }
  memo_[i] = value;
  return value;
}

Reg StageEmitter::operand(const GraphNode& node, uint32_t k, const AxisMap& iter) {
  const ValueId v = c_.graph.instr(node).operands[k];
  AxisMap map;
  operand_map(c_.graph, node, k, iter, map);
  for (const Edge& e : node.inputs) {
    if (e.operand != k || e.memory) continue;
    const GraphNode& producer = c_.graph.nodes[e.producer];
    if (e.inlined || node.group != id_ || iter != node.iter) {  // the whole of an inlined expression is inlined, on the axes of its reader
      AxisSpace none(c_.tables.dims());
      Reason why;
      to_root(c_.graph.trace, none, v, map, why);
      return inlined(producer, map);
    }
    if (producer.group == id_) return member(position(e.producer));
  }
  return load(v, map, node.crop);
}

Reg StageEmitter::inlined(const GraphNode& node, const AxisMap& iter) {
  for (const Inlined& known : inlined_) {
    if (known.node == &node && known.iter == iter) return known.value;
  }
  const Reg value = compute(node, iter);
  inlined_.push_back({&node, iter, value});
  return value;
}

Reg StageEmitter::finish(Reg value, DType type) { return body().round_to(body().cast(value, compute_type(type)), type); }

Reg StageEmitter::compute(const GraphNode& node, const AxisMap& iter) {
  const Instr& instr = c_.graph.instr(node);
  const Trace& trace = c_.graph.trace;
  switch (node.role) {
    case Role::pointwise: return pointwise(node, iter);
    case Role::create: return create(node, iter);
    case Role::index: return gather(node, iter);
    case Role::part: return finish(operand(node, node.part, iter), trace.type(instr.results[0]).dtype);
    case Role::fill: {
      const DType type = trace.type(instr.results[0]).dtype;
      return body().round_to(number(instr.attrs.value, compute_type(type)), type);
    }
    case Role::write: return finish(operand(node, 1, iter), trace.type(instr.operands[0]).dtype);
    default: throw InternalError("no body for this role");
  }
}

Reg StageEmitter::pointwise(const GraphNode& node, const AxisMap& iter) {
  const Instr& instr = c_.graph.instr(node);
  const Trace& trace = c_.graph.trace;
  std::vector<const TensorType*> types;
  for (ValueId v : instr.operands) types.push_back(&trace.type(v));
  const ComputeType type = compute_type_of(instr.op, types, instr.attrs);
  std::vector<Reg> operands, params;
  for (uint32_t k = 0; k < instr.operands.size(); ++k) {
    const Reg value = operand(node, k, iter);
    operands.push_back(instr.op == Op::where && k == 0 ? value : body().cast(value, type.compute));
  }
  for (const Number* n : {&instr.attrs.value, &instr.attrs.value2}) {
    if (n->kind == Number::Kind::dim) params.push_back(number(*n, type.compute));
  }
  return finish(emit_op(body(), instr.op, operands, instr.attrs, type, params), trace.type(instr.results[0]).dtype);
}

Reg StageEmitter::number(const Number& value, DType type) {
  switch (value.kind) {
    case Number::Kind::dim: return body().param(static_cast<int>(c_.tables.scalar(type, value)), type);
    case Number::Kind::real: return body().constant(value.real, type);
    default: return body().constant_int(value.integer, type);
  }
}

Reg StageEmitter::create(const GraphNode& node, const AxisMap& iter) {
  const Instr& instr = c_.graph.instr(node);
  const DType type = c_.graph.trace.type(instr.results[0]).dtype;
  if (instr.op == Op::arange) return finish(arange(instr, iter), type);
  return body().round_to(number(instr.attrs.value, compute_type(type)), type);
}

// Integers exactly; everything else in f64, rounded once, as ATen does.
Reg StageEmitter::arange(const Instr& instr, const AxisMap& iter) {
  const DType type = c_.graph.trace.type(instr.results[0]).dtype;
  const DType compute = is_integer(type) ? DType::i64 : DType::f64;
  const Number& start = instr.attrs.value;
  const Number& step = instr.attrs.value2;
  const bool from_zero = start.kind == Number::Kind::none || is_integer_number(start, 0);
  const bool by_one = step.kind == Number::Kind::none || is_integer_number(step, 1);
  Reg value = body().cast(iter.empty() ? body().constant_int(0, DType::i64) : index_of(iter[0]), compute);
  if (!by_one) value = body().emit(ScalarOp::mul, compute, value, number(step, compute));
  if (from_zero && (by_one || compute == DType::i64)) return value;
  const Reg first = from_zero ? body().constant_int(0, compute) : number(start, compute);  // 0 * -2.0 is -0.0: the sum is 0
  return body().emit(ScalarOp::add, compute, first, value);
}

Reg StageEmitter::index_of(const AxisList& list) {
  if (list.empty()) return body().constant_int(0, DType::i64);
  Reg sum = 0;
  Dim stride = c_.tables.dims().constant(1);
  bool first = true;
  for (int i = list.size(); i-- > 0;) {
    LoopInput description;
    description.kind = LoopInput::Kind::index;
    description.number = static_cast<uint32_t>(std::find(c_.order.axes.begin(), c_.order.axes.end(), list[i]) - c_.order.axes.begin());
    c_.tables.nest().axes[description.number].indexed = true;
    Reg index = input(description, DType::i64);
    if (!is_one(c_.tables.dims(), stride)) index = body().emit(ScalarOp::mul, DType::i64, index, number(dim_number(stride), DType::i64));
    sum = first ? index : body().emit(ScalarOp::add, DType::i64, sum, index);
    first = false;
    stride = c_.tables.dims().mul(stride, c_.group.extents[list[i]]);
  }
  return sum;
}

Reg StageEmitter::gather(const GraphNode& node, const AxisMap& iter) {
  DimTable& dims = c_.tables.dims();
  const Instr& instr = c_.graph.instr(node);
  const TensorType& data = c_.graph.trace.type(instr.operands[0]);
  const size_t axis = instr.op == Op::embedding ? 0 : static_cast<size_t>(instr.attrs.axis);
  AxisMap map(data.sizes.size());
  for (size_t d = 0; d < map.size(); ++d) {
    if (d != axis) map[d] = instr.op == Op::embedding ? iter[iter.size() - map.size() + d] : iter[d];
  }
  LoopInput description;
  description.kind = LoopInput::Kind::gather;
  description.position = body().cast(operand(node, 1, iter), DType::i64);
  description.bound = c_.tables.scalar(DType::i64, dim_number(data.sizes[axis]));
  description.wrap = instr.attrs.mode == "wrap";
  RootOperand place{data.root, data.dtype, data.offset ? data.offset : dims.constant(0),
                    nest_strides(strides_along(dims, c_.group.extents, map, data.strides)), data.strides[axis]};
  description.number = c_.tables.param(std::move(place), false);
  c_.kernel.failure = failure_of(instr);
  return input(description, compute_type(data.dtype));
}

// --- results

RootOperand StageEmitter::place_operand(const GraphNode& node) {
  const Place place = place_of(c_.graph, node);
  const AxisMap map = node.role == Role::reduce ? result_map(c_.graph, node) : node.iter;
  return {c_.graph.trace.type(place.value).root, place.dtype, place.offset,
          nest_strides(strides_along(c_.tables.dims(), c_.group.extents, map, place.strides)), {}};
}

void StageEmitter::store(size_t i) {
  const Reg value = member(i);
  const uint32_t param = c_.tables.param(place_operand(c_.graph.nodes[c_.group.members[i]]), true);
  stage_.stores.push_back({param, value});
}

void StageEmitter::keep_in(size_t i, size_t host) {
  const Reg value = member(i);
  const uint32_t param = c_.tables.param(place_operand(c_.graph.nodes[c_.group.members[host]]), true);
  stage_.stores.push_back({param, value});
}

void StageEmitter::reduce(size_t i) {
  const GraphNode& node = c_.graph.nodes[c_.group.members[i]];
  const Instr& instr = c_.graph.instr(node);
  const Trace& trace = c_.graph.trace;
  const DType type = reduction_accumulator(instr.op, trace.type(instr.operands[0]).dtype, trace.type(instr.results[0]).dtype);
  const ReductionInfo& row = reduction(instr.op);
  Reg element = operand(node, 0, node.iter);
  if (row.accumulator == Accumulator::count) element = body().cast(element, DType::b8);
  const Reg value = body().cast(element, type);
  c_.row_of[i] = c_.tables.row_value(row.gives_position() ? DType::i64 : type);
  stage_.reductions.push_back({instr.op, value, c_.row_of[i]});
}

void StageEmitter::keep_row(size_t i) {
  const Reg value = member(i);
  c_.row_of[i] = c_.tables.row_value(body().type(value));
  stage_.keeps.push_back({value, c_.row_of[i]});
}

}  // namespace escapement

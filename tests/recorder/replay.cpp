// See replay.h. A view is formed from its root's memory by the sizes, strides and offset that the trace claims, so a wrong claim
// shows; so does a wrong layout, since a fresh result is given the strides that the trace says it has.
#include "recorder/replay.h"

#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/stack.h>

#include <cmath>
#include <unordered_map>

#include "support/error.h"
#include "torch/record/host_args.h"
#include "torch/record/library_target.h"
#include "trace/guard_relation.h"
#include "trace/reductions.h"

namespace escapement {

namespace {

using Values = std::vector<c10::IValue>;

const c10::OperatorHandle& handle(const std::string& target) {
  static thread_local std::unordered_map<std::string, c10::OperatorHandle> known;
  const auto it = known.find(target);
  if (it != known.end()) return it->second;
  const size_t space = target.find("::"), dot = target.find('.', space);
  const std::string name = target.substr(0, dot), overload = dot == target.npos ? "" : target.substr(dot + 1);
  return known.emplace(target, c10::Dispatcher::singleton().findSchemaOrThrow(name.c_str(), overload.c_str())).first->second;
}

bool exists(const std::string& target) {
  const size_t dot = target.find('.');
  const std::string name = "aten::" + target.substr(0, dot), overload = dot == target.npos ? "" : target.substr(dot + 1);
  return c10::Dispatcher::singleton().findSchema({name, overload}).has_value();
}

// The overload whose operands are all tensors.
std::string of_tensors(const std::string& base, bool has_mode) {
  for (const char* overload : {".Tensor_mode", ".Tensor", ".Tensor_Tensor", ".self"})
    if ((has_mode || overload != std::string(".Tensor_mode")) && exists(base + overload)) return base + overload;
  return base;
}

// Calls an op with its leading arguments; the others have their defaults.
at::Tensor aten(const std::string& target, Values leading) {
  const c10::OperatorHandle& op = handle("aten::" + target);
  const auto& formals = op.schema().arguments();
  for (size_t i = leading.size(); i < formals.size(); ++i) leading.push_back(formals[i].default_value().value_or(c10::IValue()));
  op.callBoxed(leading);
  return leading[0].toTensor();
}

class Replay {
 public:
  Replay(const Recording& recording, std::span<const c10::IValue> arguments)
      : recording_(recording), trace_(recording.trace), values_(trace_.values.size()), symbols_(trace_.dims.symbol_count(), 0) {
    index_sources();
    bind_inputs(arguments);
  }

  ReplayResult run() {
    if (const Guard* failed = check(InstrId())) return {{}, failed};
    for (uint32_t i = 0; i < trace_.instrs.size(); ++i) {
      execute(trace_.instrs[i]);
      for (const ValueId v : trace_.instrs[i].results) bind_born(v);
      if (const Guard* failed = check(InstrId(i))) return {{}, failed};
    }
    ReplayResult result;
    for (const Output& output : trace_.outputs) result.outputs.push_back(value_of(output));
    return result;
  }

 private:
  // --- symbols

  void index_sources() {
    for (uint32_t s = 0; s < symbols_.size(); ++s) {
      const Source& source = trace_.dims.info(Symbol(s)).source;
      if (source.value) by_value_[source.value.index].push_back(Symbol(s));
    }
    for (const Guard& g : trace_.guards) guards_[g.after.index].push_back(&g);
  }

  void bind_inputs(std::span<const c10::IValue> arguments) {
    std::vector<c10::IValue> all(arguments.begin(), arguments.end());
    for (const at::Tensor& t : recording_.captured) all.emplace_back(t);
    ESCAPEMENT_CHECK(all.size() == trace_.inputs.size(), "replay got another number of arguments than the trace has");
    for (size_t i = 0; i < all.size(); ++i)
      if (trace_.inputs[i].kind == Input::Kind::tensor) values_[trace_.inputs[i].value.index] = all[i].toTensor();
    for (uint32_t s = 0; s < symbols_.size(); ++s) {
      const Source& source = trace_.dims.info(Symbol(s)).source;
      if (source.kind == Source::Kind::input_size) symbols_[s] = all[source.input].toTensor().size(source.dim);
      if (source.kind == Source::Kind::input_stride) symbols_[s] = all[source.input].toTensor().stride(source.dim);
      if (source.kind == Source::Kind::input_offset) symbols_[s] = all[source.input].toTensor().storage_offset();
      if (source.kind == Source::Kind::input_value) symbols_[s] = all[source.input].toInt();
    }
  }

  void bind_born(ValueId v) {
    const auto found = by_value_.find(v.index);
    if (found == by_value_.end()) return;
    const at::Tensor& t = values_[v.index];
    for (const Symbol s : found->second) {
      const Source& source = trace_.dims.info(s).source;
      int64_t& value = symbols_[s.index];
      if (source.kind == Source::Kind::value_size) value = t.size(source.dim);
      if (source.kind == Source::Kind::value_stride) value = t.stride(source.dim);
      if (source.kind == Source::Kind::item) value = aten("to.dtype", {t, c10::ScalarType::Long}).const_data_ptr<int64_t>()[0];
    }
  }

  int64_t size(Dim dim) const { return trace_.dims.evaluate(dim, symbols_); }

  std::vector<int64_t> sizes(const std::vector<Dim>& dims) const {
    std::vector<int64_t> out;
    for (const Dim d : dims) out.push_back(size(d));
    return out;
  }

  bool holds(const Guard& g) const {
    return escapement::holds(g.kind, size(g.left), size(g.right));
  }

  const Guard* check(InstrId after) const {
    const auto found = guards_.find(after.index);
    if (found == guards_.end()) return nullptr;
    for (const Guard* g : found->second)
      if (!holds(*g)) return g;
    return nullptr;
  }

  // --- values

  const at::Tensor& tensor(ValueId v) const { return values_[v.index]; }
  c10::Scalar scalar(const Number& n) const {
    return to_scalar(n, [this](Dim d) { return size(d); });
  }

  c10::IValue value_of(const Output& output) const {
    switch (output.kind) {
      case Output::Kind::value:
      case Output::Kind::input: return tensor(output.value);
      case Output::Kind::integer: return size(output.dim);
      case Output::Kind::boolean: return size(output.dim) != 0;
      case Output::Kind::none: break;
    }
    return {};
  }

  // A fresh result in the dtype and with the strides that the trace claims.
  at::Tensor settled(at::Tensor t, ValueId v) const {
    const TensorType& type = trace_.type(v);
    if (type.dtype != DType::other && t.scalar_type() != scalar_type_of(type.dtype)) t = aten("to.dtype", {t, scalar_type_of(type.dtype)});
    const std::vector<int64_t> want = sizes(type.sizes), strides = sizes(type.strides);
    if (t.sizes() != c10::IntArrayRef(want)) t = aten("expand", {t, want});
    if (t.strides() == c10::IntArrayRef(strides)) return t;
    at::Tensor out = aten("empty_strided", {want, strides, t.scalar_type(), c10::IValue(), t.device()});
    aten("copy_", {out, t});
    return out;
  }

  at::Tensor view(ValueId v) const {
    const TensorType& type = trace_.type(v);
    const at::Tensor& root = tensor(type.root);
    return aten("as_strided", {root, sizes(type.sizes), sizes(type.strides), root.storage_offset() + size(type.offset)});
  }

  // --- instructions

  void execute(const Instr& instr) {
    const OpInfo& row = info(instr.op);
    if (row.kind == OpKind::call) return execute_call(instr);
    if (row.kind == OpKind::effect) {
      aten("copy_", {tensor(instr.operands[0]), tensor(instr.operands[1])});
      return;
    }
    const ValueId result = instr.results[0];
    switch (row.kind) {
      case OpKind::view: values_[result.index] = view(result); return;
      case OpKind::contract: values_[result.index] = settled(library_call(instr)[0].toTensor(), result); return;
      default: values_[result.index] = settled(compute(instr, row), result);
    }
  }

  Values library_call(const Instr& instr) const {
    const LibraryTarget target = LibraryTarget::parse(instr.attrs.target);
    const c10::OperatorHandle& op = handle(target.overload.empty() ? target.name : target.name + "." + target.overload);
    std::vector<at::Tensor> operands;
    for (const ValueId v : instr.operands) operands.push_back(tensor(v));
    const ArgSource source{operands, [this](Dim d) { return size(d); }, recording_.host_objects};
    Values stack;
    for (size_t i = 0; i < instr.attrs.args.size(); ++i)
      stack.push_back(to_ivalue(instr.attrs.args[i], op.schema().arguments()[i], source));
    const AutocastAgain autocast(target.autocast);
    op.callBoxed(stack);
    return stack;
  }

  void execute_call(const Instr& instr) {
    size_t next = 0;
    const auto keep = [&](const at::Tensor& t) {
      if (next < instr.results.size()) values_[instr.results[next++].index] = t;
    };
    for (const c10::IValue& v : library_call(instr)) {
      if (v.isTensor()) keep(v.toTensor());
      else if (v.isTensorList())
        for (const at::Tensor& t : v.toTensorVector()) keep(t);
    }
  }

  std::vector<int64_t> axes(const Instr& instr) const { return {instr.attrs.axes.begin(), instr.attrs.axes.end()}; }
  bool all_axes(const Instr& instr) const {
    return instr.attrs.axes.empty() || static_cast<int>(instr.attrs.axes.size()) == trace_.type(instr.operands[0]).rank();
  }

  at::Tensor compute(const Instr& instr, const OpInfo& row) {
    Values operands;
    for (const ValueId v : instr.operands) operands.emplace_back(tensor(v));
    switch (row.kind) {
      case OpKind::pointwise: return pointwise(instr, row, std::move(operands));
      case OpKind::reduce: return reduce(instr, row, operands[0]);
      case OpKind::create: return create(instr);
      case OpKind::index: return index(instr, operands);
      case OpKind::combine: return combine(instr, operands);
      case OpKind::composite: return composite(instr, row, operands);
      default: throw InternalError("replay: unexpected op " + std::string(row.name));
    }
  }

  // The row's numbers, from its attributes or from the operands behind its own.
  Values numbers(const Instr& instr, Values& operands, size_t arity) const {
    Values found;
    for (const RowNumber& number : numbers_of(instr.op)) {
      const Number& value = number.place == RowNumber::Place::value ? instr.attrs.value : instr.attrs.value2;
      if (operands.size() > arity) {
        found.emplace_back(operands[arity].toTensor().item());
        operands.erase(operands.begin() + static_cast<std::ptrdiff_t>(arity));
      } else if (value.kind != Number::Kind::none) {
        found.emplace_back(scalar(value));
      }
    }
    return found;
  }

  // "gelu:tanh" is the function with this text as its mode.
  at::Tensor pointwise(const Instr& instr, const OpInfo& row, Values operands) {
    const Attrs& at = instr.attrs;
    const size_t colon = row.aten.find(':');
    const std::string base(row.aten.substr(0, colon)), mode(colon == row.aten.npos ? "" : row.aten.substr(colon + 1));
    const Values more = numbers(instr, operands, static_cast<size_t>(row.arity));
    if (more.empty() && at.value.kind != Number::Kind::none && static_cast<int>(operands.size()) + 1 == row.arity) operands.emplace_back(wrap_scalar(scalar(at.value)));
    switch (instr.op) {
      case Op::copy: return aten("clone", {operands[0]});
      case Op::cast: return operands[0].toTensor();  // settled() casts
      case Op::add: case Op::sub:
        if (at.value2.kind != Number::Kind::none) operands.emplace_back(scalar(at.value2));
        break;
      case Op::smooth_l1: case Op::huber: operands.emplace_back(int64_t{0}); break;   // without a reduction
      default: break;
    }
    operands.insert(operands.end(), more.begin(), more.end());
    if (!mode.empty()) operands.emplace_back(mode);
    return aten(of_tensors(base, !mode.empty()), std::move(operands));
  }

  at::Tensor reduce(const Instr& instr, const OpInfo& row, const c10::IValue& x) {
    const Attrs& at = instr.attrs;
    const std::string base(row.aten);
    if (gives_position(instr.op)) return aten(base, {x, all_axes(instr) ? c10::IValue() : c10::IValue(int64_t{at.axes[0]}), at.keepdim});
    if (reduction(instr.op).accumulator == Accumulator::count) return aten(base + ".dim_IntList", {x, axes(instr)});
    if (instr.op == Op::prod)
      return all_axes(instr) && !at.keepdim ? aten("prod", {x}) : aten("prod.dim_int", {x, int64_t{at.axes.at(0)}, at.keepdim});
    for (const char* overload : {".dim_IntList", ".dims", ""})
      if (exists(base + overload)) return aten(base + overload, {x, axes(instr), at.keepdim});
    throw InternalError("replay: unknown reduction");
  }

  at::Tensor create(const Instr& instr) {
    const Attrs& at = instr.attrs;
    const c10::ScalarType dtype = scalar_type_of(*at.dtype);
    if (instr.op == Op::full) return aten("full", {sizes(at.sizes), scalar(at.value), dtype});
    const c10::Scalar start = scalar(at.value), step = at.value2.kind == Number::Kind::none ? c10::Scalar(1) : scalar(at.value2);
    const int64_t length = size(at.sizes[0]);
    if (start.isFloatingPoint() || step.isFloatingPoint())
      return aten("arange.start_step", {start, start.toDouble() + step.toDouble() * (static_cast<double>(length) - 0.5), step, dtype});
    return aten("arange.start_step", {start, start.toLong() + step.toLong() * length, step, dtype});
  }

  at::Tensor index(const Instr& instr, const Values& operands) {
    const int64_t axis = instr.attrs.axis;
    if (instr.op == Op::embedding) return aten("embedding", operands);
    return aten(instr.op == Op::gather ? "gather" : "index_select", {operands[0], axis, operands[1]});
  }

  at::Tensor combine(const Instr& instr, const Values& operands) {
    if (instr.op == Op::pad) return aten("constant_pad_nd", {operands[0], sizes(instr.attrs.sizes), scalar(instr.attrs.value)});
    c10::List<at::Tensor> parts;
    for (const c10::IValue& v : operands) parts.push_back(v.toTensor());
    return aten("cat", {parts, int64_t{instr.attrs.axis}});
  }

  // Absent weights become None.
  c10::IValue operand_or_none(const Values& operands, size_t i) const { return i < operands.size() ? operands[i] : c10::IValue(); }

  std::vector<int64_t> normalised_shape(const Instr& instr) const {
    std::vector<int64_t> shape;
    for (const int32_t axis : instr.attrs.axes) shape.push_back(size(trace_.type(instr.operands[0]).sizes[axis]));
    return shape;
  }

  at::Tensor composite(const Instr& instr, const OpInfo& row, const Values& o) {
    const Attrs& at = instr.attrs;
    const std::string base(row.aten);
    const int64_t axis = at.axis;
    switch (instr.op) {
      case Op::mean: return aten("mean.dim", {o[0], axes(instr), at.keepdim});
      case Op::var: case Op::std: return aten(base + ".correction", {o[0], axes(instr), c10::Scalar(at.correction), at.keepdim});
      case Op::norm: return aten("linalg_vector_norm", {o[0], scalar(at.value), axes(instr), at.keepdim});
      case Op::logsumexp: return aten(base, {o[0], axes(instr), at.keepdim});
      case Op::softmax: case Op::log_softmax:
        return aten(base + ".int", {o[0], axis, at.dtype ? c10::IValue(scalar_type_of(*at.dtype)) : c10::IValue()});
      case Op::softmax_backward: case Op::log_softmax_backward:
        return aten(base, {o[0], o[1], axis, o[1].toTensor().scalar_type()});
      case Op::layer_norm:
        return aten(base, {o[0], normalised_shape(instr), operand_or_none(o, 1), operand_or_none(o, 2), at.eps});
      case Op::rms_norm: return aten(base, {o[0], normalised_shape(instr), operand_or_none(o, 1), at.eps});
      case Op::group_norm: return aten(base, {o[0], axis, operand_or_none(o, 1), operand_or_none(o, 2), at.eps});
      case Op::batch_norm: {
        const size_t n = o.size();
        return aten(base, {o[0], n > 3 ? o[1] : c10::IValue(), n > 4 ? o[2] : c10::IValue(), o[n - 2], o[n - 1], false, 0.0, at.eps, false});
      }
      case Op::tril: case Op::triu: return aten(base, {o[0], size(at.start)});
      case Op::masked_fill: return aten("masked_fill.Tensor", {o[0], o[1], o[2]});
      case Op::glu: return aten(base, {o[0], axis});
      default: throw InternalError("replay: unknown composite");
    }
  }

  const Recording& recording_;
  const Trace& trace_;
  std::vector<at::Tensor> values_;
  std::vector<int64_t> symbols_;
  std::unordered_map<uint32_t, std::vector<Symbol>> by_value_;
  std::unordered_map<uint32_t, std::vector<const Guard*>> guards_;
};

}  // namespace

ReplayResult replay(const Recording& recording, std::span<const c10::IValue> arguments) {
  return Replay(recording, arguments).run();
}

}  // namespace escapement

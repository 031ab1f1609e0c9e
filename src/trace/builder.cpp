// See builder.h. The rules are in op_rules.cpp, view_rules.cpp and contract_rules.cpp; here are guards, inputs and appending.
#include "trace/builder.h"

#include <algorithm>
#include <tuple>

#include "trace/layout.h"
#include "trace/op_rules.h"
#include "trace/reductions.h"

namespace escapement {
namespace {

// Rules demand relations; the builder makes guards of them.
class GuardDemands : public Demands {
 public:
  explicit GuardDemands(Builder& builder) : builder_(builder) {}
  void require(Guard::Kind kind, Dim left, Dim right, const std::string& because) override {
    builder_.guard(kind, left, right, because);
  }

 private:
  Builder& builder_;
};

Truth known(const DimTable& dims, Guard::Kind kind, Dim left, Dim right) {
  const auto opposite = [](Truth t) { return t == Truth::yes ? Truth::no : t == Truth::no ? Truth::yes : t; };
  switch (kind) {
    case Guard::Kind::equal: return dims.equal(left, right);
    case Guard::Kind::not_equal: return opposite(dims.equal(left, right));
    case Guard::Kind::less: return dims.less(left, right);
    case Guard::Kind::less_equal: return dims.less_equal(left, right);
  }
  return Truth::unknown;
}

void assume(DimTable& dims, Guard::Kind kind, Dim left, Dim right) {
  switch (kind) {
    case Guard::Kind::equal: return dims.assume_equal(left, right);
    case Guard::Kind::less: return dims.assume_range(dims.sub(right, left), {1, Range::kMax});
    case Guard::Kind::less_equal: return dims.assume_range(dims.sub(right, left), {0, Range::kMax});
    case Guard::Kind::not_equal: {
      const Dim apart = dims.sub(left, right);
      const Range range = dims.range(apart);  // only an end of the range can be cut off
      if (range.low == 0) dims.assume_range(apart, {1, Range::kMax});
      if (range.high == 0) dims.assume_range(apart, {Range::kMin, -1});
      return;
    }
  }
}

}  // namespace

Location Builder::locate(std::string_view text) {
  const auto [entry, inserted] = located_.try_emplace(std::string(text));
  if (!inserted) return entry->second;
  const auto found = std::find(trace_.locations.begin(), trace_.locations.end(), text);
  entry->second.index = static_cast<uint32_t>(found - trace_.locations.begin());
  if (found == trace_.locations.end()) trace_.locations.emplace_back(text);
  return entry->second;
}

// --- inputs

// A size that is a plain symbol of unknown source is read from this input.
void Builder::bind_sizes(const TensorType& type, uint32_t input) {
  const auto bind = [&](Dim dim, Source source) {
    for (Symbol s : dims().symbols(dim))
      if (dims().of(s) == dim && dims().info(s).source.kind == Source::Kind::none) dims().set_source(s, source);
  };
  for (uint32_t i = 0; i < type.sizes.size(); ++i) bind(type.sizes[i], {Source::Kind::input_size, input, {}, i});
  for (uint32_t i = 0; i < type.strides.size(); ++i) bind(type.strides[i], {Source::Kind::input_stride, input, {}, i});
}

ValueId Builder::input(TensorType type, std::string name, bool parameter) {
  const auto position = static_cast<uint32_t>(trace_.inputs.size());
  const ValueId value(static_cast<uint32_t>(trace_.values.size()));
  bind_sizes(type, position);
  if (type.strides.empty()) type.strides = contiguous_strides(type.sizes);
  ESCAPEMENT_CHECK(type.strides.size() == type.sizes.size(), "an input's strides do not fit its sizes");
  if (!type.storage) type.storage = Storage(trace_.storage_count++);
  if (!type.root) type.root = value;
  if (!type.offset) type.offset = dims().constant(0);
  Input row;
  row.value = value;
  row.parameter = parameter;
  row.name = name.empty() ? "arg" + std::to_string(position) : std::move(name);
  row.contiguous = is_contiguous(type);
  if (!row.contiguous) row.stride_order = dense_order(dims(), type.sizes, type.strides).value_or(std::vector<int32_t>{});
  trace_.values.push_back(Value{ValueKind::tensor, std::move(type), {}, 0});
  trace_.inputs.push_back(std::move(row));
  return value;
}

Dim Builder::input_integer(std::string name) {
  const auto position = static_cast<uint32_t>(trace_.inputs.size());
  Input row;
  row.kind = Input::Kind::integer;
  row.dim = dims().new_symbol(SymbolKind::integer, {Source::Kind::input_value, position, {}, 0});
  row.name = name.empty() ? "arg" + std::to_string(position) : std::move(name);
  trace_.inputs.push_back(row);
  return row.dim;
}

ValueId Builder::constant(TensorType type, std::string name) { return input(std::move(type), std::move(name), true); }

// --- ops

namespace {

// Reduced axes as they lie in memory, outermost first; ascending if that is not known. An index counts the elements as they are numbered.
void order_as_in_memory(DimTable& dims, const TensorType& type, std::vector<int32_t>& axes) {
  if (axes.size() < 2) return;
  const auto order = dense_order(dims, type.sizes, type.strides);
  if (!order) return;
  const auto place = [&](int32_t axis) { return std::find(order->begin(), order->end(), axis); };
  std::sort(axes.begin(), axes.end(), [&](int32_t x, int32_t y) { return place(x) < place(y); });
}

}  // namespace

std::vector<const TensorType*> Builder::types(std::span<const ValueId> operands) const {
  std::vector<const TensorType*> result;
  for (ValueId operand : operands) {
    ESCAPEMENT_CHECK(operand.index < trace_.values.size(), "an operand is no value of this trace");
    result.push_back(&trace_.type(operand));
  }
  return result;
}

ValueId Builder::emit(Op op, std::span<const ValueId> operands, Attrs attrs, std::vector<Dim> strides) {
  GuardDemands demands(*this);
  TensorType type = infer(op, types(operands), attrs, dims(), demands);
  if (!strides.empty()) {
    ESCAPEMENT_CHECK(strides.size() == type.sizes.size(), "the given strides do not fit the result's sizes");
    type.strides = std::move(strides);
  }
  Instr instr = blank_instr(op);
  instr.operands.assign(operands.begin(), operands.end());
  instr.attrs = std::move(attrs);
  return trace_[append(std::move(instr), {std::move(type)})].results[0];
}

ValueId Builder::pointwise(Op op, std::span<const ValueId> operands, Attrs attrs, std::vector<Dim> strides) {
  return emit(op, operands, std::move(attrs), std::move(strides));
}

std::vector<Dim> Builder::result_strides(std::span<const ValueId> operands, std::span<const Dim> sizes) {
  return pointwise_strides(dims(), types(operands), sizes);
}

ValueId Builder::cast(ValueId a, DType to) {
  if (trace_.type(a).dtype == to) return a;
  Attrs attrs;
  attrs.dtype = to;
  return emit(Op::cast, std::span(&a, 1), std::move(attrs), {});
}

ValueId Builder::reduce(Op op, ValueId a, std::vector<int32_t> axes, bool keepdim, Attrs attrs) {
  std::sort(axes.begin(), axes.end());
  if (axes.empty())
    for (int32_t axis = 0; axis < trace_.type(a).rank(); ++axis) axes.push_back(axis);
  if (!gives_position(op)) order_as_in_memory(dims(), trace_.type(a), axes);
  attrs.axes = std::move(axes);
  attrs.keepdim = keepdim;
  return emit(op, std::span(&a, 1), std::move(attrs), {});
}

ValueId Builder::view(Op op, ValueId a, Attrs attrs) { return emit(op, std::span(&a, 1), std::move(attrs), {}); }
ValueId Builder::create(Op op, Attrs attrs) { return emit(op, {}, std::move(attrs), {}); }
ValueId Builder::index(Op op, std::span<const ValueId> operands, Attrs attrs) { return emit(op, operands, std::move(attrs), {}); }

ValueId Builder::combine(Op op, std::span<const ValueId> operands, Attrs attrs, std::vector<Dim> strides) {
  return emit(op, operands, std::move(attrs), std::move(strides));
}
ValueId Builder::composite(Op op, std::span<const ValueId> operands, Attrs attrs, std::vector<Dim> strides) {
  return emit(op, operands, std::move(attrs), std::move(strides));
}
ValueId Builder::contract(Op op, std::span<const ValueId> operands, Attrs attrs, std::vector<Dim> strides) {
  return emit(op, operands, std::move(attrs), std::move(strides));
}

// A loop reads and writes element by element: what it must read before it writes any is copied first.
void Builder::write(ValueId destination, ValueId source) {
  if (may_overlap_partly(dims(), trace_.type(destination), trace_.type(source))) source = pointwise(Op::copy, std::span(&source, 1));
  const ValueId operands[] = {destination, source};
  GuardDemands demands(*this);
  infer(Op::write, types(operands), {}, dims(), demands);
  Instr instr = blank_instr(Op::write);
  instr.operands.assign(std::begin(operands), std::end(operands));
  append(std::move(instr), {});
}

InstrId Builder::call(std::string target, std::span<const ValueId> operands, std::vector<CallArg> args,
                      std::vector<TensorType> results, std::vector<uint32_t> writes, bool effect, Reason why) {
  Instr instr = blank_instr(Op::call);
  instr.operands.assign(operands.begin(), operands.end());
  instr.attrs.target = std::move(target);
  instr.attrs.args = std::move(args);
  instr.writes = std::move(writes);
  instr.effect = effect || !instr.writes.empty();
  instr.why = why;
  return append(std::move(instr), std::move(results));
}

void Builder::output(Output output) { trace_.outputs.push_back(output); }

// --- guards

// The last instruction that binds a symbol of the relation. A symbol without source is being bound right now.
InstrId Builder::bound_after(Dim left, Dim right) const {
  InstrId last;
  const auto later = [&](InstrId id) {
    if (id && (!last || last < id)) last = id;
  };
  for (Dim side : {left, right}) {
    for (Symbol s : trace_.dims.symbols(side)) {
      const Source& source = trace_.dims.info(s).source;
      if (source.value) later(trace_[source.value].definition);
      else if (trace_.dims.info(s).kind == SymbolKind::born && !trace_.instrs.empty())
        later(InstrId(static_cast<uint32_t>(trace_.instrs.size() - 1)));
    }
  }
  return last;
}

bool Builder::has_guard(Guard::Kind kind, Dim left, Dim right) const {
  return std::any_of(trace_.guards.begin(), trace_.guards.end(), [&](const Guard& guard) {
    return guard.kind == kind && trace_.dims.same(guard.left, left) && trace_.dims.same(guard.right, right);
  });
}

std::pair<Dim, Dim> Builder::oldest(Dim left, Dim right) {
  const InstrId bound = bound_after(left, right);
  const auto is_older = [&](Dim a, Dim b) {
    const InstrId now = bound_after(a, b);
    return !now || now < bound;
  };
  if (!bound) return {left, right};
  const Dim a = dims().canonical(left), b = dims().canonical(right);
  if (is_older(a, b)) return {a, b};
  try {
    const Dim apart = dims().canonical(dims().sub(a, b)), zero = dims().constant(0);
    if (is_older(apart, zero)) return {apart, zero};
  } catch (const UserError&) {  // beyond 64 bits
  }
  return {left, right};
}

void Builder::guard(Guard::Kind kind, Dim left, Dim right, std::string because, InstrId after) {
  std::tie(left, right) = oldest(left, right);
  const Truth truth = known(dims(), kind, left, right);
  if (truth == Truth::yes) return;
  if (truth == Truth::no)
    throw UserError("a relation of sizes can never hold: " + dims().to_string(left) + " and " + dims().to_string(right) + " (" +
                    because + ")");
  const bool symmetric = kind == Guard::Kind::equal || kind == Guard::Kind::not_equal;
  if (symmetric && dims().symbols(left).empty()) std::swap(left, right);  // "s0 == 4" reads better than "4 == s0"
  if (kind == Guard::Kind::not_equal && has_guard(kind, left, right)) return;
  const InstrId bound = bound_after(left, right);
  if (bound && (!after || after < bound)) after = bound;
  assume(dims(), kind, left, right);
  trace_.guards.push_back(Guard{kind, left, right, after, because, location_});
  guard_older(because);
}

void Builder::guard_older(const std::string& because) {
  for (const DimFact& fact : dims().take_older()) {
    if (fact.kind == DimFact::Kind::equal) {
      guard(Guard::Kind::equal, fact.left, fact.right, because);
      continue;
    }
    if (fact.range.low != Range::kMin) guard(Guard::Kind::less_equal, dims().constant(fact.range.low), fact.left, because);
    if (fact.range.high != Range::kMax) guard(Guard::Kind::less_equal, fact.left, dims().constant(fact.range.high), because);
  }
}

// --- helpers

std::vector<Dim> Builder::broadcast(std::span<const Dim> a, std::span<const Dim> b, const char* because) {
  GuardDemands demands(*this);
  return broadcast_sizes(dims(), demands, a, b, because);
}

std::vector<Dim> Builder::contiguous_strides(std::span<const Dim> sizes) { return escapement::contiguous_strides(dims(), sizes); }

TensorType Builder::fresh(DType dtype, std::vector<Dim> sizes, std::vector<Dim> strides) {
  TensorType type;
  type.dtype = dtype;
  type.strides = strides.empty() ? contiguous_strides(sizes) : std::move(strides);
  type.sizes = std::move(sizes);
  type.storage = Storage(trace_.storage_count++);
  type.offset = dims().constant(0);
  return type;
}

bool Builder::is_contiguous(const TensorType& type) const {
  return escapement::is_contiguous(trace_.dims, type.sizes, type.strides);
}

InstrId Builder::append(Instr instr, std::vector<TensorType> result_types) {
  const InstrId id(static_cast<uint32_t>(trace_.instrs.size()));
  instr.results.clear();
  for (uint32_t i = 0; i < result_types.size(); ++i) {
    TensorType& type = result_types[i];
    const ValueId value(static_cast<uint32_t>(trace_.values.size()));
    if (!type.storage) type.storage = Storage(trace_.storage_count++);
    if (!type.root) type.root = value;
    if (!type.offset) type.offset = dims().constant(0);
    trace_.values.push_back(Value{ValueKind::tensor, std::move(type), id, i});
    instr.results.push_back(value);
  }
  if (instr.location.index == Location{}.index) instr.location = location_;
  trace_.instrs.push_back(std::move(instr));
  return id;
}

}  // namespace escapement

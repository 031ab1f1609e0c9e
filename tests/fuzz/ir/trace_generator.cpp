// Sizes, inputs, outputs and the order of steps; see trace_generator.h.
#include "fuzz/ir/trace_generator.h"

#include <algorithm>

namespace escapement::fuzz {

// --- sizes and numbers

void TraceGenerator::add_sizes() {
  const size_t count = 1 + random_.below(3);
  for (size_t i = 0; i < count; ++i) symbols_.push_back(dims().new_symbol(SymbolKind::size, {}, size_hint()));
}

// Often one that was seen before, or 1: where such sizes meet there is a guard.
int64_t TraceGenerator::size_hint() {
  if (!symbols_.empty() && random_.one_in(3)) return *dims().hint(random_.pick(symbols_));
  if (random_.one_in(10)) return 1;
  return random_.one_in(4) ? random_size(random_, 50) : random_.between(2, 9);
}

Dim TraceGenerator::size() {
  if (random_.one_in(4)) return k(random_.pick<int64_t>({1, 1, 2, 3, 4, 8, 12}));
  if (random_.one_in(5)) symbols_.push_back(dims().new_symbol(SymbolKind::size, {}, size_hint()));
  return random_.pick(symbols_);
}

Dim TraceGenerator::expression() {
  const Dim a = random_.pick(symbols_);
  const Dim b = random_.one_in(2) ? k(random_.between(1, 5)) : !numbers_.empty() && random_.one_in(3) ? random_.pick(numbers_) : random_.pick(symbols_);
  switch (random_.below(8)) {
    case 0: return dims().mul(a, b);
    case 1: return dims().add(a, b);
    case 2: return dims().sub(a, b);
    case 3: return dims().floordiv(dims().add(a, b), k(random_.between(1, 4)));
    case 4: return dims().mod(dims().sub(a, b), k(random_.between(1, 4)));
    case 5: return dims().min(a, b);
    case 6: return dims().max(a, b);
    default: return a;
  }
}

Number TraceGenerator::number(DType type) {
  Number n;
  n.kind = Number::Kind::integer;
  n.integer = random_.between(-3, 7);
  if (!is_float(type) || random_.one_in(3)) return n;
  n.kind = Number::Kind::real;
  n.real = random_.pick({0.5, -1.5, 1.0, 0.1, 2.0, 1e-3, 3.25, -0.0, 1e30});
  return n;
}

Number TraceGenerator::symbolic_or(Number otherwise) {
  if (!random_.one_in(6)) return otherwise;
  Number n;
  n.kind = Number::Kind::dim;
  n.dim = expression();
  return n;
}

DType TraceGenerator::dtype() {
  if (random_.one_in(2)) return DType::f32;
  return random_.pick({DType::b8, DType::u8, DType::i8, DType::i16, DType::i32, DType::i64, DType::f16, DType::bf16, DType::f64});
}

// --- inputs

// Any strides; dense in another order; or repeated along an axis. Empty: contiguous.
std::vector<Dim> TraceGenerator::input_strides(const std::vector<Dim>& sizes) {
  std::vector<Dim> strides;
  const size_t how = random_.below(8);
  if (sizes.empty() || how < 4) return strides;
  if (how < 6) {
    for (size_t d = 0; d < sizes.size(); ++d) {
      const bool last = d + 1 == sizes.size() && random_.one_in(2);
      strides.push_back(last ? k(1) : dims().new_symbol(SymbolKind::stride, {}, 7));
    }
    return strides;
  }
  std::vector<size_t> order;
  for (size_t d = 0; d < sizes.size(); ++d) order.push_back(d);
  random_.shuffle(order);
  const bool repeated = how == 7;
  strides.resize(sizes.size());
  Dim next = k(1);
  for (size_t i = order.size(); i-- > 0;) {
    const bool zero = repeated && i == 0;
    strides[order[i]] = zero ? k(0) : next;
    if (!zero) next = dims().mul(next, sizes[order[i]]);
  }
  return strides;
}

void TraceGenerator::add_input() {
  TensorType type;
  type.dtype = random_.one_in(5) ? DType::i64 : dtype();
  const size_t rank = random_.below(4) + (random_.one_in(8) ? 1 : 0);
  for (size_t d = 0; d < rank; ++d) type.sizes.push_back(size());
  type.strides = input_strides(type.sizes);
  const bool shares = !pool_.empty() && random_.one_in(12);
  if (shares) {
    const TensorType& other = trace_.type(random_.pick(pool_));
    if (other.dtype == type.dtype) type.storage = other.storage;
  }
  const bool repeated = std::any_of(type.strides.begin(), type.strides.end(), [&](Dim d) { return dims().as_constant(d) == 0; });
  const ValueId value = b_.input(std::move(type), "", random_.one_in(6));
  overlapping_.resize(trace_.values.size());
  overlapping_[value.index] = repeated;
  pool_.push_back(value);
}

void TraceGenerator::add_integer() { numbers_.push_back(b_.input_integer()); }

// A symbol that no input has is read from nowhere.
void TraceGenerator::drop_unread_sizes() {
  std::erase_if(symbols_, [&](Dim d) { return dims().info(*dims().as_symbol(d)).source.kind == Source::Kind::none; });
  if (!symbols_.empty()) return;
  symbols_.push_back(dims().new_symbol(SymbolKind::size, {}, random_.between(1, 9)));
  TensorType type;
  type.sizes = symbols_;
  pool_.push_back(b_.input(std::move(type)));
}

// --- the pool

bool TraceGenerator::add(ValueId value) {
  if (!value) return false;
  overlapping_.resize(trace_.values.size());
  pool_.push_back(value);
  return true;
}

ValueId TraceGenerator::of_rank(int least) {
  for (int attempt = 0; attempt < 8; ++attempt) {
    const ValueId v = any();
    if (type(v).rank() >= least) return v;
  }
  return {};
}

ValueId TraceGenerator::floating(ValueId value) {
  return is_float(type(value).dtype) ? value : as(random_.pick({DType::f32, DType::f32, DType::f16, DType::f64}), value);
}

ValueId TraceGenerator::like(ValueId value) {
  std::vector<ValueId> fitting;
  for (const ValueId v : pool_)
    if (type(v).sizes == type(value).sizes) fitting.push_back(v);
  return random_.pick(fitting);
}

// --- all together

void TraceGenerator::step() {
  switch (random_.below(23)) {
    case 0: case 1: case 2: return unary();
    case 3: case 4: case 5: return binary();
    case 6: return ternary();
    case 7: return cast_chain();
    case 8: case 9: return reduction();
    case 10: return composite();
    case 11: return normalisation();
    case 12: return creation();
    case 13: return random_.one_in(2) ? contraction() : unary();
    case 14: case 15: case 16: return view();
    case 17: return indexing();
    case 18: return combining();
    case 19: return limits_.writes ? writing() : view();
    case 20: return limits_.calls ? calling() : again();
    case 21: return again();
    default: return limits_.calls && random_.one_in(2) ? born() : reduction();
  }
}

void TraceGenerator::add_outputs() {
  const size_t count = 1 + random_.below(4);
  for (size_t i = 0; i < count; ++i) {
    Output output;
    switch (random_.below(12)) {
      case 0: output.kind = Output::Kind::integer, output.dim = expression(); break;
      case 1: output.kind = Output::Kind::boolean, output.dim = expression(); break;
      case 2: output.kind = Output::Kind::none; break;
      case 3: output.kind = Output::Kind::input, output.value = trace_.inputs[0].value; break;
      default: output.value = any(); break;
    }
    if (output.kind == Output::Kind::input && !output.value) output.kind = Output::Kind::none;
    b_.output(output);
  }
  Output last;
  last.value = pool_.back();
  b_.output(last);
}

Trace TraceGenerator::run() {
  add_sizes();
  const size_t inputs = 1 + random_.below(4);
  for (size_t i = 0; i < inputs; ++i) add_input();
  drop_unread_sizes();
  if (random_.one_in(4)) add_integer();
  const size_t steps = 1 + random_.below(limits_.steps);
  for (size_t i = 0; i < steps; ++i) {
    try {
      step();
    } catch (const UserError&) {
      // The rules refuse it; guards that were demanded before that hold for the hints and stay.
    }
  }
  overlapping_.resize(trace_.values.size());
  add_outputs();
  return std::move(trace_);
}

Trace random_trace(Random& random, const TraceLimits& limits) { return TraceGenerator(random, limits).run(); }

}  // namespace escapement::fuzz

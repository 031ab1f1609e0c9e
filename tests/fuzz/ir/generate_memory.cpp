// Views, indexing, combining, writes and library calls: see trace_generator.h.
#include <algorithm>

#include "fuzz/ir/trace_generator.h"

namespace escapement::fuzz {

// --- views

ValueId TraceGenerator::reshaped(ValueId v) {
  std::vector<Dim> sizes = type(v).sizes;
  const size_t rank = sizes.size();
  if (rank >= 2 && random_.one_in(2)) {  // two axes become one
    const size_t at = random_.below(rank - 1);
    sizes[at] = dims().mul(sizes[at], sizes[at + 1]);
    sizes.erase(sizes.begin() + static_cast<std::ptrdiff_t>(at) + 1);
  } else if (rank >= 1 && random_.one_in(2)) {  // one becomes two
    const size_t at = random_.below(rank);
    const Dim inner = random_.one_in(2) ? k(random_.pick<int64_t>({1, 2, 3, 4})) : random_.pick(symbols_);
    sizes[at] = dims().floordiv(sizes[at], inner);
    sizes.insert(sizes.begin() + static_cast<std::ptrdiff_t>(at) + 1, inner);
    b_.guard(Guard::Kind::not_equal, inner, k(0), "reshape");
  } else {
    sizes = {dims().product(sizes)};
  }
  Attrs attrs;
  attrs.sizes = std::move(sizes);
  try {
    return b_.view(Op::reshape, v, attrs);
  } catch (const NotViewable&) {
    const ValueId operand[] = {v};
    return b_.view(Op::reshape, b_.pointwise(Op::copy, operand, {}, b_.contiguous_strides(type(v).sizes)), attrs);
  }
}

ValueId TraceGenerator::sliced(ValueId v) {
  Attrs attrs;
  attrs.axis = axis_of(v);
  const Dim size = type(v).sizes[static_cast<size_t>(attrs.axis)];
  attrs.start = random_.one_in(3) ? k(0) : random_.one_in(4) ? dims().min(expression(), size) : k(random_.between(0, 2));
  attrs.step = k(random_.pick<int64_t>({1, 1, 1, 2, 3}));
  const Dim room = dims().sub(size, attrs.start);
  const Dim most = dims().floordiv(dims().add(room, dims().sub(attrs.step, k(1))), attrs.step);
  switch (random_.below(4)) {
    case 0: attrs.sizes = {k(random_.between(1, 3))}; break;
    case 1: attrs.sizes = {dims().min(most, k(random_.between(0, 4)))}; break;
    case 2: attrs.sizes = {dims().floordiv(most, k(2))}; break;
    default: attrs.sizes = {most}; break;
  }
  return b_.view(Op::slice, v, attrs);
}

// As torch's unfold and strided views: pairs, or windows that overlap, of fresh contiguous memory.
ValueId TraceGenerator::windowed(ValueId v) {
  const ValueId operand[] = {v};
  const ValueId fresh = b_.pointwise(Op::copy, operand, {}, b_.contiguous_strides(type(v).sizes));
  const Dim count = dims().product(type(v).sizes);
  Attrs attrs;
  const bool windows = random_.one_in(2);
  if (windows) {
    const int64_t width = random_.between(1, 3);
    attrs.sizes = {dims().max(dims().sub(count, k(width - 1)), k(0)), k(width), k(1), k(1)};
  } else {
    attrs.sizes = {dims().floordiv(count, k(2)), k(2)};
    attrs.start = dims().mul(dims().min(dims().floordiv(count, k(2)), k(1)), k(random_.between(0, 1)));
  }
  const ValueId result = b_.view(Op::as_strided, fresh, attrs);
  overlapping_.resize(trace_.values.size());
  overlapping_[result.index] = windows;
  return result;
}

void TraceGenerator::view() {
  const ValueId v = any();
  const auto rank = static_cast<size_t>(type(v).rank());
  Attrs attrs;
  ValueId result;
  bool repeats = overlapping_.size() > v.index && overlapping_[v.index];
  switch (random_.below(10)) {
    case 0: result = b_.view(Op::alias, v, {}); break;
    case 1: result = reshaped(v); break;
    case 2:
      for (size_t d = 0; d < rank; ++d) attrs.axes.push_back(static_cast<int32_t>(d));
      random_.shuffle(attrs.axes);
      result = b_.view(Op::permute, v, attrs);
      break;
    case 3:
      attrs.sizes = random_.one_in(2) ? type(any()).sizes : type(v).sizes;
      if (attrs.sizes == type(v).sizes) attrs.sizes.insert(attrs.sizes.begin(), random_.pick(symbols_));
      result = b_.view(Op::expand, v, attrs);
      repeats = true;
      break;
    case 4: case 5:
      attrs.axis = static_cast<int32_t>(random_.below(rank + 1));
      result = b_.view(Op::unsqueeze, v, attrs);
      break;
    case 6:
      attrs.axis = axis_of(v);
      result = b_.view(Op::squeeze, v, attrs);
      break;
    case 7: case 8:
      if (rank > 0) result = sliced(v);
      break;
    default:
      if (rank > 0 && random_.one_in(2)) {
        attrs.axis = axis_of(v);
        attrs.start = random_.one_in(3) ? dims().sub(type(v).sizes[static_cast<size_t>(attrs.axis)], k(1)) : k(random_.between(0, 1));
        result = b_.view(Op::select, v, attrs);
      } else {
        result = windowed(v);
        repeats = overlapping_[result.index];
      }
      break;
  }
  if (add(result)) overlapping_[result.index] = repeats;
}

// --- indexing and combining

// Whole numbers in [0, below); where there is none, 0.
ValueId TraceGenerator::positions(Dim below) {
  ValueId v = as(DType::i64, any());
  Attrs last, first;
  last.value.kind = Number::Kind::dim;
  last.value.dim = dims().sub(below, k(1));
  first.value.kind = Number::Kind::integer;
  const ValueId upper[] = {v};
  const ValueId bounded[] = {b_.pointwise(Op::clamp_max, upper, last)};
  return b_.pointwise(Op::clamp_min, bounded, first);
}

void TraceGenerator::indexing() {
  const Op op = random_.pick({Op::embedding, Op::index_select, Op::index_select, Op::gather});
  const ValueId data = of_rank(op == Op::embedding ? 2 : 1);
  if (!data || (op == Op::embedding && type(data).rank() != 2)) return;
  Attrs attrs;
  if (op != Op::embedding) attrs.axis = axis_of(data);
  ValueId where = positions(type(data).sizes[op == Op::embedding ? 0 : static_cast<size_t>(attrs.axis)]);
  if (op == Op::index_select && type(where).rank() > 1) {
    Attrs flat;
    flat.sizes = {dims().product(type(where).sizes)};
    const ValueId operand[] = {where};
    where = b_.view(Op::reshape, b_.pointwise(Op::copy, operand, {}, b_.contiguous_strides(type(where).sizes)), flat);
  }
  if (op != Op::gather && random_.one_in(4)) where = as(DType::i32, where);
  const ValueId operands[] = {data, where};
  add(b_.index(op, operands, attrs));
}

ValueId TraceGenerator::padded(ValueId v) {
  Attrs attrs;
  const size_t pairs = 1 + random_.below(static_cast<size_t>(type(v).rank()));
  for (size_t i = 0; i < 2 * pairs; ++i)
    attrs.sizes.push_back(random_.one_in(5) ? random_.pick(symbols_) : k(random_.between(random_.one_in(3) ? -2 : 0, 3)));
  attrs.value = number(type(v).dtype);
  const ValueId operands[] = {v};
  return b_.combine(Op::pad, operands, attrs);
}

void TraceGenerator::combining() {
  const ValueId v = of_rank(1);
  if (!v) return;
  if (random_.one_in(2)) {
    add(padded(v));
    return;
  }
  std::vector<ValueId> parts{v};
  const size_t count = 1 + random_.below(3);
  for (int attempt = 0; attempt < 8 && parts.size() < count; ++attempt) {
    const ValueId other = random_.one_in(2) ? like(v) : any();
    if (type(other).rank() == type(v).rank()) parts.push_back(other);
  }
  Attrs attrs;
  attrs.axis = axis_of(v);
  add(b_.combine(Op::cat, parts, attrs));
}

// --- writes

// Nothing writes memory that two elements share, nor through a view that repeats it.
bool TraceGenerator::may_write(ValueId v) const {
  return v.index >= overlapping_.size() || !overlapping_[v.index];
}

void TraceGenerator::writing() {
  const ValueId destination = random_.one_in(3) ? random_.pick(pool_) : any();
  if (!may_write(destination) || !may_write(type(destination).root)) return;
  const ValueId source = random_.one_in(2) ? like(destination) : any();
  b_.write(destination, source);
}

// What was computed once more, of the same operands: the same value, unless something was written since.
void TraceGenerator::again() {
  if (trace_.instrs.empty()) return;
  const Instr instr = random_.pick(trace_.instrs);
  if (instr.effect || instr.results.size() != 1 || info(instr.op).kind == OpKind::call) return;
  TensorType type = trace_.type(instr.results[0]);
  const bool repeats = overlapping_.size() > instr.results[0].index && overlapping_[instr.results[0].index];
  if (info(instr.op).kind != OpKind::view) type.storage = {}, type.root = {}, type.offset = {};
  const ValueId result = trace_[b_.append(instr, {type})].results[0];
  add(result);
  overlapping_[result.index] = repeats;
}

// --- library calls

void TraceGenerator::calling() {
  const ValueId v = any();
  const std::vector<ValueId> operands{v};
  CallArg tensor;
  tensor.kind = CallArg::Kind::tensor;
  tensor.operands = {0};
  const std::string home = random_.below(2) ? "aten::" : "test::";   // what operators of others are given they may keep: it never lies in the arena
  switch (random_.below(6)) {
    case 5: {  // of the operand's memory; where that begins is known at the call only
      TensorType shared = b_.fresh(type(v).dtype, type(v).sizes, type(v).strides);
      shared.storage = type(v).storage;
      const bool repeats = overlapping_.size() > v.index && overlapping_[v.index];
      const InstrId i = b_.call(home + "same", operands, {tensor}, {shared}, {}, false, Reason::call_no_row);
      add(trace_[i].results[0]);
      overlapping_[trace_[i].results[0].index] = repeats;
      return;
    }
    case 0: case 1: {
      const InstrId i = b_.call(home + "scaled", operands, {tensor}, {b_.fresh(DType::f32, type(v).sizes)}, {}, false, Reason::call_no_row);
      add(trace_[i].results[0]);
      return;
    }
    case 2: {
      const InstrId i = b_.call(home + "pair", operands, {tensor}, {b_.fresh(type(v).dtype, type(v).sizes), b_.fresh(DType::i64, {})}, {}, false,
                                Reason::call_no_row);
      add(trace_[i].results[0]);
      add(trace_[i].results[1]);
      return;
    }
    case 3: {
      if (!limits_.writes || !may_write(v) || !may_write(type(v).root)) return;
      b_.call(home + "increase_", operands, {tensor}, {}, {0}, true, Reason::call_no_row);
      return;
    }
    default: {
      const InstrId i = b_.call(home + "draw", operands, {tensor}, {b_.fresh(DType::f32, type(v).sizes)}, {}, true, Reason::call_random);
      add(trace_[i].results[0]);
      return;
    }
  }
}

// A size that exists only at run time, and a number read from a tensor.
void TraceGenerator::born() {
  const ValueId v = any();
  const std::vector<ValueId> operands{v};
  CallArg tensor;
  tensor.kind = CallArg::Kind::tensor;
  tensor.operands = {0};
  if (random_.one_in(3)) {
    const InstrId i = b_.call("test::total", operands, {tensor}, {b_.fresh(DType::i64, {})}, {}, false, Reason::call_no_row);
    const ValueId scalar = trace_[i].results[0];
    add(scalar);
    numbers_.push_back(dims().new_symbol(SymbolKind::born, {Source::Kind::item, 0, scalar, 0}, 3));
    return;
  }
  const Dim size = dims().new_symbol(SymbolKind::born, {}, 3);
  dims().assume_range(size, {0, Range::kMax});
  const ValueId result(static_cast<uint32_t>(trace_.values.size()));
  Source source{Source::Kind::value_size, 0, result, 0};
  dims().set_source(*dims().as_symbol(size), source);
  std::vector<Dim> sizes{size};
  if (random_.one_in(2)) sizes.push_back(k(2));
  const InstrId i = b_.call("test::some", operands, {tensor}, {b_.fresh(random_.pick({DType::i64, DType::f32}), sizes)}, {}, false, Reason::call_no_row);
  add(trace_[i].results[0]);
  symbols_.push_back(size);
}

}  // namespace escapement::fuzz

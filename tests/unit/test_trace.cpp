// The builder's rules against definitions by enumeration: addresses of views, broadcast sizes, layouts. Each is checked at the
// sizes of the recording and, wherever the guards hold, at other sizes: guards must suffice.
#include <gtest/gtest.h>

#include <numeric>
#include <random>

#include "support/error.h"
#include "trace/builder.h"
#include "trace/verifier.h"

namespace escapement {
namespace {

using Sizes = std::vector<int64_t>;

class Random {
 public:
  explicit Random(uint64_t seed) : engine_(seed) {}
  int64_t between(int64_t low, int64_t high) { return std::uniform_int_distribution<int64_t>(low, high)(engine_); }
  int64_t size() { return std::vector<int64_t>{0, 1, 1, 2, 3, 5, 7}[static_cast<size_t>(between(0, 6))]; }

 private:
  std::mt19937_64 engine_;
};

struct Program {
  Trace trace;
  Builder builder{trace};
  std::vector<int64_t> hints;

  Dim symbol(int64_t hint) {
    hints.push_back(hint);
    return trace.dims.new_symbol(SymbolKind::size, {}, hint);
  }
  ValueId input(const Sizes& hints) {
    TensorType type;
    for (int64_t hint : hints) type.sizes.push_back(symbol(hint));
    return builder.input(std::move(type));
  }
  ValueId pointwise(Op op, std::initializer_list<ValueId> operands, Attrs attrs = {}) {
    return builder.pointwise(op, std::vector(operands), std::move(attrs));
  }
  Sizes values(const std::vector<Dim>& dims, const std::vector<int64_t>& symbols) const {
    Sizes result;
    for (Dim dim : dims) result.push_back(trace.dims.evaluate(dim, symbols));
    return result;
  }
  bool guards_hold(const std::vector<int64_t>& symbols) const {
    for (const Guard& guard : trace.guards) {
      const int64_t x = trace.dims.evaluate(guard.left, symbols), y = trace.dims.evaluate(guard.right, symbols);
      const bool holds[] = {x == y, x != y, x < y, x <= y, x == y || x == 1};
      if (!holds[static_cast<size_t>(guard.kind)]) return false;
    }
    return true;
  }
};

// --- reductions

// A tensor whose axes lie in memory in this order, outermost first, without holes but for `gap` behind each run of the innermost.
ValueId lying(Program& p, const std::vector<size_t>& order, int64_t gap = 0) {
  TensorType type;
  for (int64_t hint : {3, 5, 7}) type.sizes.push_back(p.symbol(hint));
  type.strides.resize(3);
  Dim stride = p.trace.dims.constant(1);
  for (size_t i = order.size(); i-- > 0;) {
    type.strides[order[i]] = stride;
    stride = p.trace.dims.add(p.trace.dims.mul(stride, type.sizes[order[i]]), p.trace.dims.constant(i == 2 ? gap : 0));
  }
  return p.builder.input(std::move(type));
}

std::vector<int32_t> listed(Op op, const std::vector<size_t>& order, std::vector<int32_t> axes, int64_t gap = 0) {
  Program p;
  p.builder.reduce(op, lying(p, order, gap), std::move(axes), false);
  return p.trace.instrs.back().attrs.axes;
}

TEST(Builder, ReducedAxesAreListedAsTheyLieInMemory) {
  using Axes = std::vector<int32_t>;
  EXPECT_EQ(listed(Op::sum, {0, 1, 2}, {2, 0}), (Axes{0, 2}));
  EXPECT_EQ(listed(Op::sum, {2, 0, 1}, {0, 1, 2}), (Axes{2, 0, 1}));
  EXPECT_EQ(listed(Op::amax, {1, 2, 0}, {0, 2}), (Axes{2, 0}));
  EXPECT_EQ(listed(Op::sum, {2, 1, 0}, {}), (Axes{2, 1, 0}));
  EXPECT_EQ(listed(Op::argmax, {2, 1, 0}, {}), (Axes{0, 1, 2}));      // an index counts in the order of the axes
  EXPECT_EQ(listed(Op::sum, {2, 1, 0}, {0, 1}, 4), (Axes{0, 1}));     // not dense: the order is not known
}

// --- views: a view is the list of addresses of its elements, in order

struct Seen {
  Sizes sizes;
  std::vector<int64_t> addresses;
};

int64_t count(const Sizes& sizes) { return std::accumulate(sizes.begin(), sizes.end(), int64_t{1}, std::multiplies<>()); }

// Calls visit(index) for every index in row-major order.
template <class Visitor>
void each_index(const Sizes& sizes, Visitor visit) {
  Sizes index(sizes.size());
  for (int64_t n = count(sizes); n > 0; --n) {
    visit(index);
    for (size_t axis = sizes.size(); axis-- > 0;) {
      if (++index[axis] < sizes[axis]) break;
      index[axis] = 0;
    }
  }
}

int64_t flat(const Sizes& sizes, const Sizes& index) {
  int64_t result = 0;
  for (size_t axis = 0; axis < sizes.size(); ++axis) result = result * sizes[axis] + index[axis];
  return result;
}

// The elements of `from`, looked at through `map`: result index to operand index.
template <class Map>
Seen remap(const Seen& from, Sizes sizes, Map map) {
  Seen result{sizes, {}};
  each_index(sizes, [&](const Sizes& index) { result.addresses.push_back(from.addresses.at(static_cast<size_t>(flat(from.sizes, map(index))))); });
  return result;
}

// The definition of each view op, on element lists.
Seen apply(Op op, const Attrs& attrs, const Seen& a, const Sizes& sizes, int64_t start, int64_t step) {
  const auto axis = static_cast<size_t>(attrs.axis);
  switch (op) {
    case Op::reshape: return {sizes, a.addresses};
    case Op::permute: {
      Sizes permuted;
      for (int32_t from : attrs.axes) permuted.push_back(a.sizes[static_cast<size_t>(from)]);
      return remap(a, permuted, [&](const Sizes& index) {
        Sizes back(index.size());
        for (size_t i = 0; i < index.size(); ++i) back[static_cast<size_t>(attrs.axes[i])] = index[i];
        return back;
      });
    }
    case Op::expand: return remap(a, sizes, [&](const Sizes& index) {
        Sizes back(index.end() - static_cast<std::ptrdiff_t>(a.sizes.size()), index.end());
        for (size_t i = 0; i < back.size(); ++i) if (a.sizes[i] == 1) back[i] = 0;
        return back;
      });
    case Op::unsqueeze: {
      Sizes more = a.sizes;
      more.insert(more.begin() + attrs.axis, 1);
      return {more, a.addresses};
    }
    case Op::squeeze: {
      Sizes fewer = a.sizes;
      fewer.erase(fewer.begin() + attrs.axis);
      return {fewer, a.addresses};
    }
    case Op::slice: {
      Sizes sliced = a.sizes;
      sliced[axis] = sizes[0];
      return remap(a, sliced, [&](Sizes index) { return index[axis] = start + index[axis] * step, index; });
    }
    default: {
      Sizes fewer = a.sizes;
      fewer.erase(fewer.begin() + attrs.axis);
      return remap(a, fewer, [&](Sizes index) { return index.insert(index.begin() + attrs.axis, start), index; });
    }
  }
}

struct ViewStep {
  Op op;
  Attrs attrs;
  ValueId result;
};

class ViewChain {
 public:
  ViewChain(Random& random, Program& program) : random_(random), p_(program) {}

  void extend(ValueId& value) {
    const TensorType type = p_.trace.type(value);
    const int rank = type.rank();
    const Op ops[] = {Op::reshape, Op::permute, Op::expand, Op::unsqueeze, Op::squeeze, Op::slice, Op::select, Op::slice};
    const Op op = ops[random_.between(0, 7)];
    Attrs attrs;
    attrs.axis = static_cast<int32_t>(random_.between(0, std::max(rank - 1, 0)));
    if (!choose(op, attrs, type)) return;
    try {
      value = p_.builder.view(op, value, attrs);
      steps.push_back({op, attrs, value});
    } catch (const NotViewable&) {
    }
  }

  std::vector<ViewStep> steps;

 private:
  bool choose(Op op, Attrs& attrs, const TensorType& type) {
    DimTable& dims = p_.trace.dims;
    const int rank = type.rank();
    const auto axis = static_cast<size_t>(attrs.axis);
    if (rank == 0 && op != Op::unsqueeze) return false;
    switch (op) {
      case Op::unsqueeze: return rank < 5;
      case Op::squeeze: return dims.hint(type.sizes[axis]) == 1;
      case Op::permute:
        attrs.axes.resize(type.sizes.size());
        std::iota(attrs.axes.begin(), attrs.axes.end(), 0);
        for (size_t i = attrs.axes.size(); i-- > 1;) std::swap(attrs.axes[i], attrs.axes[static_cast<size_t>(random_.between(0, static_cast<int64_t>(i)))]);
        return true;
      case Op::expand:
        attrs.sizes = type.sizes;
        for (Dim& size : attrs.sizes) if (dims.hint(size) == 1 && random_.between(0, 1)) size = dims.constant(4);
        if (random_.between(0, 1)) attrs.sizes.insert(attrs.sizes.begin(), dims.constant(2));
        return attrs.sizes.size() < 6;
      case Op::slice: {
        const int64_t size = *dims.hint(type.sizes[axis]), start = random_.between(0, size), step = random_.between(1, 3);
        attrs.start = dims.constant(start);
        attrs.step = dims.constant(step);
        const Dim room = dims.sub(type.sizes[axis], attrs.start);
        const Dim all = dims.floordiv(dims.add(room, dims.constant(step - 1)), attrs.step);  // x[start::step]
        attrs.sizes = {random_.between(0, 1) ? all : dims.constant(random_.between(0, *dims.hint(all)))};
        return true;
      }
      case Op::select: {
        const int64_t size = *dims.hint(type.sizes[axis]);
        if (size > 0) attrs.start = dims.constant(random_.between(0, size - 1));
        return size > 0;
      }
      default: return choose_reshape(attrs, type);
    }
  }

  bool choose_reshape(Attrs& attrs, const TensorType& type) {
    DimTable& dims = p_.trace.dims;
    attrs.sizes = type.sizes;
    const size_t at = static_cast<size_t>(random_.between(0, static_cast<int64_t>(attrs.sizes.size()) - 1));
    if (random_.between(0, 1) && at + 1 < attrs.sizes.size()) {  // merge two neighbours
      attrs.sizes[at] = dims.mul(attrs.sizes[at], attrs.sizes[at + 1]);
      attrs.sizes.erase(attrs.sizes.begin() + static_cast<std::ptrdiff_t>(at) + 1);
    } else {  // split one
      const Dim parts = dims.constant(random_.between(1, 2));
      if (*dims.hint(attrs.sizes[at]) % *dims.as_constant(parts) != 0) return false;
      attrs.sizes[at] = dims.floordiv(attrs.sizes[at], parts);
      attrs.sizes.insert(attrs.sizes.begin() + static_cast<std::ptrdiff_t>(at) + 1, parts);
    }
    return true;
  }

  Random& random_;
  Program& p_;
};

void expect_addresses(const Program& p, ValueId value, const Seen& seen, const std::vector<int64_t>& symbols) {
  const TensorType& type = p.trace.type(value);
  ASSERT_EQ(p.values(type.sizes, symbols), seen.sizes) << print(p.trace);
  const Sizes strides = p.values(type.strides, symbols);
  const int64_t offset = p.trace.dims.evaluate(type.offset, symbols);
  std::vector<int64_t> addresses;
  each_index(seen.sizes, [&](const Sizes& index) { addresses.push_back(std::inner_product(index.begin(), index.end(), strides.begin(), offset)); });
  ASSERT_EQ(addresses, seen.addresses) << print(p.trace);
}

void expect_chain(const Program& p, const ViewChain& chain, ValueId input, const std::vector<int64_t>& symbols) {
  Seen seen{p.values(p.trace.type(input).sizes, symbols), {}};
  seen.addresses.resize(static_cast<size_t>(count(seen.sizes)));
  std::iota(seen.addresses.begin(), seen.addresses.end(), 0);
  for (const ViewStep& step : chain.steps) {
    const auto value = [&](Dim dim, int64_t otherwise) { return dim ? p.trace.dims.evaluate(dim, symbols) : otherwise; };
    seen = apply(step.op, step.attrs, seen, p.values(step.attrs.sizes, symbols), value(step.attrs.start, 0), value(step.attrs.step, 1));
    expect_addresses(p, step.result, seen, symbols);
    if (::testing::Test::HasFatalFailure()) return;
  }
}

TEST(Views, AddressTheElementsThatTheirDefinitionsName) {
  Random random(3);
  int elsewhere = 0;
  for (int round = 0; round < 1500; ++round) {
    Program p;
    Sizes hints(static_cast<size_t>(random.between(1, 3)));
    for (int64_t& hint : hints) hint = random.size();
    const ValueId input = p.input(hints);
    ViewChain chain(random, p);
    ValueId value = input;
    for (int step = 0; step < 6; ++step) chain.extend(value);
    verify(p.trace);
    expect_chain(p, chain, input, p.hints);
    for (int other = 0; other < 6 && !HasFatalFailure(); ++other) {
      std::vector<int64_t> symbols(p.hints.size());
      for (int64_t& symbol : symbols) symbol = random.size();
      if (!p.guards_hold(symbols)) continue;
      ++elsewhere;
      expect_chain(p, chain, input, symbols);
    }
    if (HasFatalFailure()) return;
  }
  EXPECT_GT(elsewhere, 1000) << "the guards should leave most sizes free";
}

// --- broadcasting

std::optional<Sizes> broadcast(const Sizes& a, const Sizes& b) {
  Sizes result(std::max(a.size(), b.size()));
  for (size_t i = 0; i < result.size(); ++i) {
    const int64_t x = i < a.size() ? a[a.size() - 1 - i] : 1, y = i < b.size() ? b[b.size() - 1 - i] : 1;
    if (x != y && x != 1 && y != 1) return std::nullopt;
    result[result.size() - 1 - i] = x == 1 ? y : x;
  }
  return result;
}

TEST(Broadcast, ResultSizesAreNumpysWhereverTheGuardsHold) {
  Random random(4);
  int built = 0, elsewhere = 0;
  for (int round = 0; round < 2000; ++round) {
    Program p;
    Sizes a(static_cast<size_t>(random.between(0, 3))), b(static_cast<size_t>(random.between(0, 3)));
    for (int64_t& size : a) size = random.size();
    for (int64_t& size : b) size = random.size();
    const ValueId x = p.input(a), y = p.input(b);
    const auto expected = broadcast(a, b);
    if (!expected) {
      EXPECT_THROW(p.pointwise(Op::add, {x, y}), UserError);
      continue;
    }
    const ValueId sum = p.pointwise(Op::add, {x, y});
    verify(p.trace);
    verify_text(p.trace);
    EXPECT_EQ(p.values(p.trace.type(sum).sizes, p.hints), *expected);
    ++built;
    for (int other = 0; other < 10; ++other) {
      std::vector<int64_t> symbols(p.hints.size());
      for (int64_t& symbol : symbols) symbol = random.size();
      if (!p.guards_hold(symbols)) continue;
      ++elsewhere;
      const auto sizes = [&](ValueId value) { return p.values(p.trace.type(value).sizes, symbols); };
      ASSERT_EQ(sizes(sum), broadcast(sizes(x), sizes(y))) << print(p.trace);
    }
  }
  EXPECT_GT(built, 500);
  EXPECT_GT(elsewhere, 1000);
}

// --- single promises of the builder

TEST(Builder, AKnownRelationIsNoGuard) {
  Program p;
  const ValueId x = p.input({4, 5}), y = p.input({4, 5});
  p.pointwise(Op::add, {x, y});
  EXPECT_EQ(p.trace.guards.size(), 2u);
  p.pointwise(Op::mul, {x, y});
  p.pointwise(Op::mul, {y, x});
  EXPECT_EQ(p.trace.guards.size(), 2u);
  const auto& sizes = p.trace.type(x).sizes;
  p.builder.guard(Guard::Kind::less_equal, p.trace.dims.constant(0), sizes[0], "a size");
  EXPECT_EQ(p.trace.guards.size(), 2u);
  p.builder.guard(Guard::Kind::not_equal, sizes[0], p.trace.dims.constant(3), "a branch");
  p.builder.guard(Guard::Kind::not_equal, sizes[0], p.trace.dims.constant(3), "a branch");
  EXPECT_EQ(p.trace.guards.size(), 3u);
  EXPECT_THROW(p.builder.guard(Guard::Kind::less, sizes[0], p.trace.dims.constant(0), "a branch"), UserError);
}

TEST(Builder, GuardsKeepTheirSidesAsWritten) {
  Program p;
  const ValueId x = p.input({4}), y = p.input({4});
  p.pointwise(Op::add, {x, y});
  const Guard& guard = p.trace.guards.at(0);
  EXPECT_EQ(p.trace.dims.to_string(guard.left) + " " + p.trace.dims.to_string(guard.right), "s0 s1");
  const int64_t equal[] = {3, 3}, unequal[] = {3, 4};
  EXPECT_EQ(p.trace.dims.evaluate(guard.left, equal), p.trace.dims.evaluate(guard.right, equal));
  EXPECT_NE(p.trace.dims.evaluate(guard.left, unequal), p.trace.dims.evaluate(guard.right, unequal));
}

// A kernel in front of the check relies on it.
TEST(Builder, WhatACheckInsideSaysOfInputsIsAskedAtEntry) {
  Program p;
  const ValueId x = p.input({5}), y = p.input({5});
  const ValueId number = p.pointwise(Op::neg, {x});
  DimTable& dims = p.trace.dims;
  const Dim born = dims.new_symbol(SymbolKind::born, {Source::Kind::value_size, 0, number, 0}, 5);
  p.builder.guard(Guard::Kind::less_equal, dims.constant(4), born, "a branch");
  p.builder.guard(Guard::Kind::equal, born, p.trace.type(x).sizes[0], "a branch");
  p.builder.guard(Guard::Kind::equal, born, p.trace.type(y).sizes[0], "a branch");
  std::string texts;
  for (const Guard& guard : p.trace.guards)
    texts += dims.to_string(guard.left) + (guard.kind == Guard::Kind::equal ? " == " : " <= ") + dims.to_string(guard.right) + (guard.after ? " inside; " : "; ");
  EXPECT_EQ(texts, "4 <= u0 inside; u0 == s0 inside; 4 <= s0; s0 == s1; ");
}

TEST(Builder, InputsBindTheirSymbolsAndSayHowTheyLie) {
  Program p;
  const Dim rows = p.symbol(4), columns = p.symbol(6);
  TensorType type;
  type.sizes = {rows, columns};
  type.strides = {p.trace.dims.constant(1), rows};
  const ValueId x = p.builder.input(type, "x");
  EXPECT_EQ(to_string(p.trace.dims.info(*p.trace.dims.as_symbol(columns)).source), "arg0.size[1]");
  EXPECT_FALSE(p.trace.inputs[0].contiguous);
  EXPECT_EQ(p.trace.inputs[0].stride_order, (std::vector<int32_t>{1, 0}));
  EXPECT_EQ(p.trace.type(x).root, x);
  EXPECT_FALSE(p.trace.inputs[0].parameter);
  TensorType weight;
  weight.sizes = {p.trace.dims.constant(3)};
  p.builder.constant(weight, "w");
  EXPECT_TRUE(p.trace.inputs[1].parameter);
  EXPECT_EQ(p.trace.dims.to_string(p.builder.input_integer("n")), "i0");
  verify(p.trace);
}

TEST(Builder, LocationsAreSharedAndGoToInstructionsAndGuards) {
  Program p;
  const ValueId x = p.input({4}), y = p.input({4});
  p.builder.set_location(p.builder.locate("model.py:3"));
  p.pointwise(Op::add, {x, y});
  p.builder.set_location(p.builder.locate("model.py:3"));
  p.pointwise(Op::neg, {x});
  EXPECT_EQ(p.trace.locations, std::vector<std::string>{"model.py:3"});
  EXPECT_EQ(p.trace.guards[0].location.index, 0u);
  EXPECT_EQ(p.trace.instrs[1].location.index, 0u);
}

TEST(Builder, CastToTheSameTypeIsTheOperand) {
  Program p;
  const ValueId x = p.input({4});
  EXPECT_EQ(p.builder.cast(x, DType::f32), x);
  EXPECT_EQ(p.trace.type(p.builder.cast(x, DType::f16)).dtype, DType::f16);
}

TEST(Builder, UndecidableLayoutIsEmpty) {
  Program p;
  TensorType type;
  type.sizes = {p.symbol(4), p.symbol(6)};
  type.strides = {p.trace.dims.new_symbol(SymbolKind::stride, {}, 50), p.trace.dims.new_symbol(SymbolKind::stride, {}, 3)};
  const ValueId x = p.builder.input(type);
  EXPECT_TRUE(p.builder.result_strides(std::vector{x}, p.trace.type(x).sizes).empty());
  EXPECT_TRUE(p.builder.is_contiguous(p.trace.type(p.pointwise(Op::neg, {x}))));
}

TEST(Builder, MatmulFollowsNumpy) {
  Program p;
  const auto sizes = [&](const Sizes& a, const Sizes& b) {
    const ValueId operands[] = {p.input(a), p.input(b)};
    return p.values(p.trace.type(p.builder.contract(Op::matmul, operands, {})).sizes, p.hints);
  };
  EXPECT_EQ(sizes({3}, {3}), Sizes{});
  EXPECT_EQ(sizes({2, 3}, {3}), Sizes{2});
  EXPECT_EQ(sizes({3}, {3, 4}), Sizes{4});
  EXPECT_EQ(sizes({5, 1, 2, 3}, {6, 3, 4}), (Sizes{5, 6, 2, 4}));
  EXPECT_THROW(sizes({2, 3}, {4, 3}), UserError);
  verify(p.trace);
}

TEST(DTypes, PromotionIsTorchs) {
  EXPECT_EQ(promote(DType::u8, DType::i8), DType::i16);
  EXPECT_EQ(promote(DType::f16, DType::bf16), DType::f32);
  EXPECT_EQ(promote(DType::i64, DType::f16), DType::f16);
  EXPECT_EQ(promote(DType::b8, DType::u8), DType::u8);
  EXPECT_EQ(promote(DType::u8, DType::i32), DType::i32);
  EXPECT_EQ(promote(DType::bf16, DType::f64), DType::f64);
  EXPECT_EQ(compute_type(DType::bf16), DType::f32);
  for (int a = 0; a < 11; ++a) {
    EXPECT_EQ(dtype_from_name(name_of(static_cast<DType>(a))), static_cast<DType>(a));
    for (int b = 0; b < 11; ++b) EXPECT_EQ(promote(static_cast<DType>(a), static_cast<DType>(b)), promote(static_cast<DType>(b), static_cast<DType>(a)));
  }
}

TEST(Ops, RowsAreFoundByName) {
  for (int i = 0; i < op_count(); ++i) EXPECT_EQ(op_from_name(name_of(static_cast<Op>(i))), static_cast<Op>(i));
  EXPECT_EQ(op_from_name("frobnicate"), std::nullopt);
}

TEST(Attrs, EqualityIsBitwiseForReals) {
  Attrs a, b;
  a.value = {Number::Kind::real, 0, 0.0, {}};
  b.value = {Number::Kind::real, 0, -0.0, {}};
  EXPECT_FALSE(a == b);
  EXPECT_NE(hash(a), hash(b));
  a.value.real = b.value.real = std::numeric_limits<double>::quiet_NaN();
  EXPECT_TRUE(a == b);
  EXPECT_EQ(hash(a), hash(b));
  b.args.push_back(CallArg{});
  EXPECT_FALSE(a == b);
  EXPECT_NE(hash(a), hash(b));
}

}  // namespace
}  // namespace escapement

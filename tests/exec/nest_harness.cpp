// See nest_harness.h.
#include "nest_harness.h"

#include <algorithm>

#include "exec/nest_memory.h"
#include "kernels/loop_interpreter.h"
#include "trace/reduce_order.h"

namespace escapement::testing {

namespace {

// Compiled code of nests seen before: tests run one nest on many sizes.
KernelFunction compiled(const LoopNest& nest, Variant variant) {
  struct Entry {
    LoopNest nest;
    Variant variant;
    std::unique_ptr<CodeModule> module;
  };
  static std::vector<Entry>* entries = new std::vector<Entry>;
  for (const Entry& e : *entries)
    if (e.variant == variant && structurally_equal(e.nest, nest)) return e.module->function(0);
  entries->push_back({nest, variant, nullptr});
  Entry& entry = entries->back();
  entry.module = CodeGenerator::instance().compile({{&entry.nest, variant, "test_kernel"}});
  return entry.module->function(0);
}

template <class F>
void for_pieces(int64_t count, int64_t pieces, F f) {
  for (int64_t k = 0; k < pieces; ++k) f(count * k / pieces, count * (k + 1) / pieces);
}

// Code for given sizes takes the optimiser's time: one launch in so many gets it.
constexpr uint64_t kSizedOneIn = 24;

bool gets_sized_code(const LoopNest& nest, const Launch& launch) {
  if (nest.schedule == Schedule::map) return false;
  uint64_t hash = structural_hash(nest);
  for (const int64_t extent : launch.extents) hash = hash * 1099511628211u + static_cast<uint64_t>(extent);
  return (hash >> 7) % kSizedOneIn == 0;
}

// The run time leaves out the number of rows; here every other launch leaves it in.
Geometry sizes_of(const LoopNest& nest, const Launch& launch) {
  Geometry sizes{launch.extents, {}};
  for (size_t p = 0; p < nest.params.size(); ++p) {
    for (const int64_t stride : launch.operands[p].strides) sizes.strides.push_back(stride * size_of(nest.params[p].dtype));
    sizes.strides.push_back(launch.operands[p].gather_stride * size_of(nest.params[p].dtype));
  }
  for (size_t a = 0; a < nest.axes.size() && launch.extents[0] % 2 == 0; ++a) {
    const bool vector = nest.schedule == Schedule::row ? nest.axes[a].reduced : a + 1 == nest.axes.size();
    if (!vector) sizes.extents[a] = kAnySize;
  }
  return sizes;
}

void expect_equal_code(KernelFunction function, const LoopNest& nest, const Launch& launch, Pieces pieces, uint64_t seed, const std::string& what) {
  for (GuardedBuffer::Guard guard : {GuardedBuffer::Guard::before, GuardedBuffer::Guard::after}) {
    Memory expected = make_memory(nest, launch, guard, seed), got = make_memory(nest, launch, guard, seed);
    Ranges ranges = ranges_of(nest, launch);
    interpret(nest, NestPart::whole, expected.args(launch, nullptr), 0, ranges.outer, 0, ranges.inner);
    KernelArgs args = got.args(launch, nullptr);
    for_pieces(ranges.outer, pieces.outer, [&](int64_t ob, int64_t oe) {
      for_pieces(ranges.inner, pieces.inner, [&](int64_t ib, int64_t ie) { function(&args, ob, oe, ib, ie); });
    });
    expect_same(nest, expected, got, what);
  }
}

}  // namespace

void expect_equal(const LoopNest& nest, Variant variant, const Launch& launch, Pieces pieces, uint64_t seed) {
  verify(nest);
  expect_equal_code(compiled(nest, variant), nest, launch, pieces, seed, describe(nest, variant, launch));
  if (gets_sized_code(nest, launch)) expect_equal_sized(nest, variant, launch, pieces, seed);
}

void expect_equal_sized(const LoopNest& nest, Variant variant, const Launch& launch, Pieces pieces, uint64_t seed) {
  const Geometry sizes = sizes_of(nest, launch);
  const auto sized = CodeGenerator::instance().compile({{&nest, variant, "test_kernel", &sizes}});
  expect_equal_code(sized->function(0), nest, launch, pieces, seed, "for given sizes: " + describe(nest, variant, launch));
}

void expect_equal_split(const LoopNest& nest, const Launch& launch, uint64_t seed) {
  Memory expected = make_memory(nest, launch, GuardedBuffer::Guard::after, seed);
  Memory got = make_memory(nest, launch, GuardedBuffer::Guard::after, seed);
  Ranges ranges = ranges_of(nest, launch);
  interpret(nest, NestPart::whole, expected.args(launch, nullptr), 0, ranges.outer, 0, ranges.inner);
  int64_t stretches = (ranges.reduced + kReduceStretch - 1) / kReduceStretch;
  std::vector<uint64_t> scratch(static_cast<size_t>(ranges.outer * stretches) * nest.stages[0].reductions.size() * 2, 77);
  KernelArgs args = got.args(launch, scratch.data());
  KernelFunction partial = compiled(nest, Variant::partial), finish = compiled(nest, Variant::finish);
  for (int64_t row = 0; row < ranges.outer; ++row)
    for (int64_t s = 0; s < stretches; s += 2) partial(&args, row, row + 1, s, std::min(s + 2, stretches));
  for_pieces(ranges.outer, 2, [&](int64_t begin, int64_t end) { finish(&args, begin, end, 0, stretches); });
  expect_same(nest, expected, got, "split " + describe(nest, Variant::finish, launch));
}

}  // namespace escapement::testing

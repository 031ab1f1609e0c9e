// Invariants, equality and hash of loop nests.
//
// Equality is of structure: everything in a LoopNest counts, since it has no names. The hash is 64-bit FNV over the same
// fields; equal hashes are confirmed by structurally_equal before code is shared.
#include "kernels/loops.h"

#include <algorithm>

#include "support/error.h"
#include "trace/reductions.h"

namespace escapement {
namespace {

class Hasher {
 public:
  void add(uint64_t value) {
    state_ ^= value + 0x9e3779b97f4a7c15ull + (state_ << 6) + (state_ >> 2);
    state_ *= 0x100000001b3ull;
  }
  template <class E>
    requires std::is_enum_v<E>
  void add(E value) {
    add(static_cast<uint64_t>(value));
  }
  uint64_t state() const { return state_; }

 private:
  uint64_t state_ = 0xcbf29ce484222325ull;
};

void hash_body(Hasher& h, const ScalarProgram& body) {
  h.add(body.nodes().size());
  for (const ScalarNode& n : body.nodes()) {
    h.add(n.op);
    h.add(n.type);
    h.add((uint64_t{n.a} << 32) | (uint64_t{n.b} << 16) | n.c);
    h.add(n.bits);
  }
}

void hash_input(Hasher& h, const LoopInput& input) {
  h.add(input.kind);
  h.add(input.number);
  h.add((uint64_t{input.position} << 33) | (uint64_t{input.bound} << 1) | uint64_t{input.wrap});
}

void hash_stage(Hasher& h, const Stage& stage) {
  h.add(stage.kind);
  hash_body(h, stage.body);
  h.add(stage.inputs.size());
  for (const LoopInput& i : stage.inputs) hash_input(h, i);
  h.add(stage.stores.size());
  for (const LoopStore& s : stage.stores) h.add((uint64_t{s.param} << 16) | s.value);
  h.add(stage.reductions.size());
  for (const LoopReduction& r : stage.reductions) {
    h.add(r.op);
    h.add((uint64_t{r.row_value} << 16) | r.value);
  }
  h.add(stage.keeps.size());
  for (const RowKeep& k : stage.keeps) h.add((uint64_t{k.row_value} << 16) | k.value);
}

bool equal_bodies(const ScalarProgram& a, const ScalarProgram& b) {
  return std::equal(a.nodes().begin(), a.nodes().end(), b.nodes().begin(), b.nodes().end());
}

bool equal_stages(const Stage& a, const Stage& b) {
  return a.kind == b.kind && a.inputs == b.inputs && a.stores == b.stores && a.reductions == b.reductions &&
         a.keeps == b.keeps && equal_bodies(a.body, b.body);
}

// --- verify: one function per part, one check per line

void verify_axes(const LoopNest& nest) {
  ESCAPEMENT_CHECK(!nest.axes.empty(), "a nest has at least one axis");
  const auto reduced = std::count_if(nest.axes.begin(), nest.axes.end(), [](const LoopAxis& a) { return a.reduced; });
  const size_t first = std::find_if(nest.axes.begin(), nest.axes.end(), [](const LoopAxis& a) { return a.reduced; }) - nest.axes.begin();
  const bool together = std::all_of(nest.axes.begin() + first, nest.axes.begin() + first + reduced, [](const LoopAxis& a) { return a.reduced; });
  ESCAPEMENT_CHECK((nest.schedule == Schedule::map) == (reduced == 0), "exactly maps have no reduced axis");
  ESCAPEMENT_CHECK(together, "reduced axes stand together");
  const size_t after = nest.axes.size() - first - reduced;
  ESCAPEMENT_CHECK(nest.schedule != Schedule::row || after == 0, "row: the reduced axes are innermost");
  ESCAPEMENT_CHECK(nest.schedule != Schedule::column || after == 1, "column: one parallel axis inside the reduced ones");
}

void verify_input(const LoopNest& nest, const Stage& stage, const LoopInput& input, DType type, const std::vector<bool>& ready) {
  switch (input.kind) {
    case LoopInput::Kind::gather:
      ESCAPEMENT_CHECK(input.bound < nest.scalars.size() && nest.scalars[input.bound] == DType::i64, "gather bound is an i64 scalar");
      ESCAPEMENT_CHECK(input.position < stage.body.nodes().size(), "gather position is a register");
      ESCAPEMENT_CHECK(stage.body.type(input.position) == DType::i64, "gather position is i64");
      [[fallthrough]];
    case LoopInput::Kind::load:
      ESCAPEMENT_CHECK(input.number < nest.params.size(), "parameter exists");
      ESCAPEMENT_CHECK(type == compute_type(nest.params[input.number].dtype), "a load has its parameter's compute type");
      break;
    case LoopInput::Kind::index:
      ESCAPEMENT_CHECK(input.number < nest.axes.size() && nest.axes[input.number].indexed, "index of an axis marked so");
      ESCAPEMENT_CHECK(stage.kind == Stage::Kind::each_element || !nest.axes[input.number].reduced, "no reduced index in a row");
      ESCAPEMENT_CHECK(type == DType::i64, "an index is i64");
      break;
    case LoopInput::Kind::row:
      ESCAPEMENT_CHECK(input.number < nest.row_values.size(), "row value exists");
      ESCAPEMENT_CHECK(ready[input.number], "a row value is computed by an earlier stage");
      ESCAPEMENT_CHECK(type == nest.row_values[input.number], "a row value has its type");
      break;
  }
}

void verify_body(const LoopNest& nest, const Stage& stage, const std::vector<bool>& ready) {
  const auto nodes = stage.body.nodes();
  for (size_t i = 0; i < nodes.size(); ++i) {
    const ScalarNode& n = nodes[i];
    const int arity = arity_of(n.op);
    ESCAPEMENT_CHECK(arity < 1 || n.a < i, "operands come first");
    ESCAPEMENT_CHECK(arity < 2 || n.b < i, "operands come first");
    ESCAPEMENT_CHECK(arity < 3 || n.c < i, "operands come first");
    if (n.op == ScalarOp::input) {
      ESCAPEMENT_CHECK(n.bits < stage.inputs.size(), "every input is described");
      const LoopInput& input = stage.inputs[n.bits];
      verify_input(nest, stage, input, n.type, ready);
      ESCAPEMENT_CHECK(input.kind != LoopInput::Kind::gather || input.position < i, "a position is computed before its gather");
    } else if (n.op == ScalarOp::param) {
      ESCAPEMENT_CHECK(n.bits < nest.scalars.size() && nest.scalars[n.bits] == n.type, "scalar exists with this type");
    }
  }
}

void verify_results(const LoopNest& nest, const Stage& stage, std::vector<bool>& ready) {
  const size_t registers = stage.body.nodes().size();
  const bool element = stage.kind == Stage::Kind::each_element;
  for (const LoopStore& s : stage.stores) {
    ESCAPEMENT_CHECK(s.param < nest.params.size() && nest.params[s.param].written, "stores go to written parameters");
    ESCAPEMENT_CHECK(s.value < registers && stage.body.type(s.value) == compute_type(nest.params[s.param].dtype), "store has the compute type");
  }
  ESCAPEMENT_CHECK(element || stage.reductions.empty(), "reductions stand in element stages");
  ESCAPEMENT_CHECK(!element || stage.keeps.empty(), "keeps stand in row stages");
  for (const LoopReduction& r : stage.reductions) {
    ESCAPEMENT_CHECK(nest.schedule != Schedule::map, "a map reduces nothing");
    ESCAPEMENT_CHECK(r.value < registers && r.row_value < nest.row_values.size(), "reduction of a register to a row value");
    ESCAPEMENT_CHECK(nest.row_values[r.row_value] == (gives_position(r.op) ? DType::i64 : stage.body.type(r.value)), "accumulator type");
    ready[r.row_value] = true;
  }
  for (const RowKeep& k : stage.keeps) {
    ESCAPEMENT_CHECK(k.value < registers && k.row_value < nest.row_values.size(), "keep of a register to a row value");
    ESCAPEMENT_CHECK(nest.row_values[k.row_value] == stage.body.type(k.value), "keep has the row value's type");
    ready[k.row_value] = true;
  }
}

}  // namespace

uint64_t structural_hash(const LoopNest& nest) {
  Hasher h;
  h.add(nest.schedule);
  h.add(nest.axes.size());
  for (const LoopAxis& a : nest.axes) h.add((a.reduced ? 2u : 0u) | (a.indexed ? 1u : 0u));
  h.add(nest.params.size());
  for (const LoopParam& p : nest.params) h.add((uint64_t(p.dtype) << 4) | (p.written ? 2u : 0u) | uint64_t(p.inner));
  h.add(nest.scalars.size());
  for (DType t : nest.scalars) h.add(t);
  h.add(nest.row_values.size());
  for (DType t : nest.row_values) h.add(t);
  h.add(nest.stages.size());
  for (const Stage& s : nest.stages) hash_stage(h, s);
  return h.state();
}

bool structurally_equal(const LoopNest& a, const LoopNest& b) {
  return a.schedule == b.schedule && a.axes == b.axes && a.params == b.params && a.scalars == b.scalars &&
         a.row_values == b.row_values &&
         std::equal(a.stages.begin(), a.stages.end(), b.stages.begin(), b.stages.end(), equal_stages);
}

void verify(const LoopNest& nest) {
  verify_axes(nest);
  ESCAPEMENT_CHECK(!nest.stages.empty(), "a nest has a stage");
  std::vector<bool> ready(nest.row_values.size(), false);
  for (const Stage& stage : nest.stages) {
    ESCAPEMENT_CHECK(nest.schedule != Schedule::map || stage.kind == Stage::Kind::each_element, "a map has no rows");
    verify_body(nest, stage, ready);
    verify_results(nest, stage, ready);
  }
}

}  // namespace escapement

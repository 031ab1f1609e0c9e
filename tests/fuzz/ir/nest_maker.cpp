// See nest_maker.h.
#include "fuzz/ir/nest_maker.h"

#include <algorithm>
#include <optional>

#include "trace/scalar_math.h"

namespace escapement::fuzz {
namespace {

DType random_storage(Random& random) {
  if (random.one_in(2)) return DType::f32;
  return random.pick({DType::b8, DType::u8, DType::i8, DType::i16, DType::i32, DType::i64, DType::f16, DType::bf16, DType::f64});
}

DType random_compute(Random& random) { return compute_type(random_storage(random)); }

bool has_meaning(ScalarOp op, DType type) {
  switch (op) {
    case ScalarOp::scale: return false;   // of few numbers; exp has it
    case ScalarOp::div: case ScalarOp::fma: case ScalarOp::sqrt: case ScalarOp::floor: case ScalarOp::ceil: case ScalarOp::trunc:
    case ScalarOp::rint: case ScalarOp::copysign: case ScalarOp::is_nan: return is_float(type);
    case ScalarOp::sub: case ScalarOp::neg: return type != DType::b8;
    case ScalarOp::bit_and: case ScalarOp::bit_or: case ScalarOp::bit_xor: case ScalarOp::bit_not: return !is_float(type);
    case ScalarOp::shl: case ScalarOp::shr: return is_integer(type);
    case ScalarOp::round_to: return type == DType::f32;
    default: return true;
  }
}

// One stage under construction.
class StageMaker {
 public:
  StageMaker(Random& random, LoopNest& nest, Stage& stage, const std::vector<bool>& ready, bool row)
      : random_(random), nest_(nest), stage_(stage), ready_(ready), row_(row) {}

  // Computes again what an earlier stage did.
  void begin_like(const Stage& earlier) {
    stage_.body = earlier.body;
    stage_.inputs = earlier.inputs;
    for (size_t r = 0; r < earlier.body.nodes().size(); ++r) registers_.push_back(static_cast<Reg>(r));
  }

  void leaves() {
    const size_t count = 1 + random_.below(4);
    for (size_t i = 0; i < count; ++i) leaf();
    for (uint32_t r = 0; r < nest_.row_values.size(); ++r)
      if (ready_[r] && random_.one_in(2)) input({.kind = LoopInput::Kind::row, .number = r}, nest_.row_values[r]);
    // What an earlier stage stored, or what this one will store over.
    for (uint32_t p = 0; p < nest_.params.size(); ++p)
      if (nest_.params[p].written && !is_loaded(p) && in_rows(p) == row_ && random_.one_in(3)) input({.kind = LoopInput::Kind::load, .number = p}, nest_.params[p].dtype);
  }

  void body() {
    const size_t count = random_.below(9);
    for (size_t i = 0; i < count; ++i) grow();
    if (random_.one_in(6)) function();
    for (const Reg r : gathered_) {  // one that nothing uses may fail or not
      nest_.params.push_back({DType::f32, true, row_ && nest_.schedule == Schedule::row ? InnerStride::zero : InnerStride::unit});
      stage_.stores.push_back({static_cast<uint32_t>(nest_.params.size() - 1), stage_.body.cast(r, DType::f32)});
    }
  }

  Reg of_type(DType type) {
    std::vector<Reg> fitting;
    for (const Reg r : registers_)
      if (stage_.body.type(r) == type) fitting.push_back(r);
    if (!fitting.empty() && !random_.one_in(8)) return random_.pick(fitting);
    return push(stage_.body.cast(random_.pick(registers_), type));
  }

  void store(uint32_t param) { stage_.stores.push_back({param, of_type(compute_type(nest_.params[param].dtype))}); }

 private:
  Reg push(Reg r) {
    registers_.push_back(r);
    return r;
  }

  bool is_loaded(uint32_t p) const {
    return std::any_of(stage_.inputs.begin(), stage_.inputs.end(), [&](const LoopInput& i) { return i.kind == LoopInput::Kind::load && i.number == p; });
  }

  bool in_rows(uint32_t p) const { return param_uses(nest_)[p].row; }

  Reg input(const LoopInput& described, DType type) {
    const int number = static_cast<int>(stage_.inputs.size());
    stage_.inputs.push_back(described);
    return push(stage_.body.input(number, compute_type(type)));
  }

  uint32_t new_param(bool written) {
    LoopParam param{random_storage(random_), written, InnerStride::unit};
    const bool row_in_row = row_ && nest_.schedule == Schedule::row;
    if (row_in_row || (!written && random_.one_in(4))) param.inner = InnerStride::zero;
    nest_.params.push_back(param);
    return static_cast<uint32_t>(nest_.params.size() - 1);
  }

  void leaf() {
    switch (random_.below(8)) {
      case 0: {
        nest_.scalars.push_back(random_compute(random_));
        push(stage_.body.param(static_cast<int>(nest_.scalars.size() - 1), nest_.scalars.back()));
        return;
      }
      case 1: push(stage_.body.constant(random_.pick({0.0, 1.0, -2.5, 0.1, 100.0, -0.0}), random_compute(random_))); return;
      case 2: index(); return;
      case 3: if (random_.one_in(2) && nest_.params.size() < 6) return gather();
    }
    const uint32_t p = new_param(false);
    input({.kind = LoopInput::Kind::load, .number = p}, nest_.params[p].dtype);
  }

  void index() {
    std::vector<uint32_t> axes;
    for (uint32_t a = 0; a < nest_.axes.size(); ++a)
      if (!row_ || !nest_.axes[a].reduced) axes.push_back(a);
    if (axes.empty()) return leaf();
    const uint32_t axis = random_.pick(axes);
    nest_.axes[axis].indexed = true;
    input({.kind = LoopInput::Kind::index, .number = axis}, DType::i64);
  }

  // Positions of -1 to 6; the bound is the launch's.
  void gather() {
    if (registers_.empty()) return leaf();
    ScalarProgram& b = stage_.body;
    const Reg masked = b.emit(ScalarOp::bit_and, DType::i64, of_type(DType::i64), b.constant_int(7, DType::i64));
    const Reg position = random_.one_in(2) ? masked : b.emit(ScalarOp::sub, DType::i64, masked, b.constant_int(1, DType::i64));
    nest_.scalars.push_back(DType::i64);
    const uint32_t p = new_param(false);
    gathered_.push_back(input({.kind = LoopInput::Kind::gather, .number = p, .position = position,
                               .bound = static_cast<uint32_t>(nest_.scalars.size() - 1), .wrap = random_.one_in(2)}, nest_.params[p].dtype));
  }

  // Something that is worth keeping.
  void function() {
    const scalar::Expr x{&stage_.body, of_type(DType::f32)};
    push((random_.one_in(2) ? scalar::exp(x) : scalar::tanh(x)).reg);
  }

  void grow() {
    const auto op = static_cast<ScalarOp>(static_cast<int>(ScalarOp::add) + random_.below(static_cast<size_t>(ScalarOp::round_to) - static_cast<size_t>(ScalarOp::add) + 1));
    const DType type = stage_.body.type(random_.pick(registers_));
    ScalarProgram& b = stage_.body;
    if (op == ScalarOp::bitcast) return;
    if (op == ScalarOp::convert) return static_cast<void>(push(b.cast(of_type(type), random_compute(random_))));
    if (!has_meaning(op, type)) return;
    const Reg x = of_type(type), y = of_type(type);
    if (op == ScalarOp::round_to) return static_cast<void>(push(b.round_to(x, random_.pick({DType::f16, DType::bf16}))));
    if (op == ScalarOp::select) return static_cast<void>(push(b.emit(op, type, of_type(DType::b8), x, y)));
    if (op == ScalarOp::shl || op == ScalarOp::shr)
      return static_cast<void>(push(b.emit(op, type, x, b.emit(ScalarOp::bit_and, type, y, b.constant_int(8 * size_of(type) - 1, type)))));
    if (op == ScalarOp::copysign) {
      const Reg number = b.emit(ScalarOp::select, type, b.emit(ScalarOp::is_nan, DType::b8, y), b.constant(1, type), y);
      return static_cast<void>(push(b.emit(op, type, x, number)));
    }
    const bool compares = op >= ScalarOp::eq && op <= ScalarOp::is_nan;
    const int arity = arity_of(op);
    push(b.emit(op, compares ? DType::b8 : type, x, arity > 1 ? y : Reg{0}, arity > 2 ? of_type(type) : Reg{0}));
  }

  Random& random_;
  LoopNest& nest_;
  Stage& stage_;
  const std::vector<bool>& ready_;
  bool row_;
  std::vector<Reg> registers_, gathered_;
};

class NestMaker {
 public:
  explicit NestMaker(Random& random) : random_(random) {}

  LoopNest run() {
    nest_.schedule = random_.pick({Schedule::map, Schedule::map, Schedule::row, Schedule::row, Schedule::column});
    make_axes();
    const size_t stages = nest_.schedule == Schedule::map ? 1 : 1 + random_.below(4);
    for (size_t s = 0; s < stages; ++s) make_stage(s + 1 == stages);
    return std::move(nest_);
  }

 private:
  void add_axes(size_t count, bool reduced) {
    for (size_t i = 0; i < count; ++i) nest_.axes.push_back({reduced, false});
  }

  void make_axes() {
    if (nest_.schedule == Schedule::map) return add_axes(1 + random_.below(3), false);
    add_axes(nest_.schedule == Schedule::column ? random_.below(2) : random_.below(3), false);
    add_axes(1 + random_.below(2), true);
    if (nest_.schedule == Schedule::column) add_axes(1, false);
  }

  void make_stage(bool last) {
    Stage stage;
    const bool first = nest_.stages.empty();
    const bool row = nest_.schedule != Schedule::map && !first && random_.one_in(last ? 2 : 3);
    stage.kind = row ? Stage::Kind::each_row : Stage::Kind::each_element;
    StageMaker maker(random_, nest_, stage, ready_, row);
    if (const Stage* earlier = row ? nullptr : one_to_repeat()) maker.begin_like(*earlier);
    maker.leaves();
    maker.body();
    if (nest_.schedule != Schedule::map && !row && (!last || random_.one_in(2))) reduce(maker, stage);
    if (row && random_.one_in(2)) keep(maker, stage);
    if (last || random_.one_in(3)) store(maker, stage, row);
    nest_.stages.push_back(std::move(stage));
    ready_.resize(nest_.row_values.size(), true);
    if (!last) return;
    const bool stores = std::any_of(nest_.stages.begin(), nest_.stages.end(), [](const Stage& s) { return !s.stores.empty(); });
    if (stores && !nest_.stages.back().reductions.empty()) finish();
  }

  const Stage* one_to_repeat() {
    if (nest_.stages.empty() || random_.one_in(2)) return nullptr;
    const Stage& earlier = random_.pick(nest_.stages);
    const bool gathers = std::any_of(earlier.inputs.begin(), earlier.inputs.end(), [](const LoopInput& i) { return i.kind == LoopInput::Kind::gather; });
    return gathers || earlier.kind == Stage::Kind::each_row ? nullptr : &earlier;
  }

  // A row value that nothing reads says nothing: the last ones are stored.
  void finish() {
    Stage stage;
    stage.kind = Stage::Kind::each_row;
    for (uint32_t r = 0; r < nest_.row_values.size() && r < 3; ++r) {
      const DType type = nest_.row_values[r];
      nest_.params.push_back({type, true, nest_.schedule == Schedule::row ? InnerStride::zero : InnerStride::unit});
      stage.inputs.push_back({.kind = LoopInput::Kind::row, .number = r});
      stage.stores.push_back({static_cast<uint32_t>(nest_.params.size() - 1), stage.body.input(static_cast<int>(r), type)});
    }
    nest_.stages.push_back(std::move(stage));
  }

  void reduce(StageMaker& maker, Stage& stage) {
    const size_t count = 1 + random_.below(3);
    for (size_t i = 0; i < count; ++i) {
      const Op op = random_.pick({Op::sum, Op::sum, Op::prod, Op::amax, Op::amin, Op::argmax, Op::argmin, Op::any, Op::all});
      DType type = random_compute(random_);
      if (op == Op::sum || op == Op::prod) type = random_.pick({DType::f32, DType::f32, DType::f64, DType::i64});
      if (op == Op::any || op == Op::all) type = DType::b8;
      const bool position = op == Op::argmax || op == Op::argmin;
      stage.reductions.push_back({op, maker.of_type(type), static_cast<uint32_t>(nest_.row_values.size())});
      nest_.row_values.push_back(position ? DType::i64 : type);
    }
    ready_.resize(nest_.row_values.size(), false);
  }

  void keep(StageMaker& maker, Stage& stage) {
    const DType type = random_compute(random_);
    stage.keeps.push_back({maker.of_type(type), static_cast<uint32_t>(nest_.row_values.size())});
    nest_.row_values.push_back(type);
    ready_.resize(nest_.row_values.size(), false);
  }

  // Into a fresh parameter, or over one that this kind of stage reads or wrote.
  void store(StageMaker& maker, Stage& stage, bool row) {
    const size_t count = 1 + random_.below(2);
    for (size_t i = 0; i < count; ++i) {
      const bool zero = row && nest_.schedule == Schedule::row;
      nest_.params.push_back({storage_like(stage), true, zero ? InnerStride::zero : InnerStride::unit});
      auto param = static_cast<uint32_t>(nest_.params.size() - 1);
      if (random_.one_in(3)) {
        if (const auto old = in_place(stage, row)) nest_.params.pop_back(), param = *old;
      }
      const bool taken = std::any_of(stage.stores.begin(), stage.stores.end(), [&](const LoopStore& s) { return s.param == param; });
      if (!taken) maker.store(param);
    }
  }

  // Often an operand's, over which it may then stand.
  DType storage_like(const Stage& stage) {
    for (const LoopInput& i : stage.inputs)
      if (i.kind == LoopInput::Kind::load && random_.one_in(3)) return nest_.params[i.number].dtype;
    return random_storage(random_);
  }

  // A parameter that so far was only loaded, by stages of this kind.
  std::optional<uint32_t> in_place(const Stage& stage, bool row) {
    const bool row_schedule = nest_.schedule == Schedule::row;
    for (const LoopInput& i : stage.inputs) {
      if (i.kind != LoopInput::Kind::load || nest_.params[i.number].written) continue;
      if ((nest_.params[i.number].inner == InnerStride::zero) != (row && row_schedule)) continue;
      nest_.params[i.number].written = true;
      return i.number;
    }
    return {};
  }

  Random& random_;
  LoopNest nest_;
  std::vector<bool> ready_;
};

}  // namespace

std::vector<ParamUse> param_uses(const LoopNest& nest) {
  std::vector<ParamUse> uses(nest.params.size());
  for (const Stage& stage : nest.stages) {
    const bool row = stage.kind == Stage::Kind::each_row;
    for (const LoopInput& i : stage.inputs) {
      if (i.kind != LoopInput::Kind::load && i.kind != LoopInput::Kind::gather) continue;
      uses[i.number].row |= row;
      uses[i.number].gathered |= i.kind == LoopInput::Kind::gather;
    }
    for (const LoopStore& s : stage.stores) uses[s.param].row |= row;
  }
  return uses;
}

namespace {

constexpr size_t kNever = SIZE_MAX;

struct Span {
  size_t first_load = kNever, last_load = kNever, first_store = kNever;
};

std::vector<Span> spans_of(const LoopNest& nest) {
  std::vector<Span> spans(nest.params.size());
  for (size_t s = 0; s < nest.stages.size(); ++s) {
    for (const LoopInput& i : nest.stages[s].inputs) {
      if (i.kind != LoopInput::Kind::load) continue;
      spans[i.number].first_load = std::min(spans[i.number].first_load, s);
      spans[i.number].last_load = s;
    }
    for (const LoopStore& store : nest.stages[s].stores) spans[store.param].first_store = std::min(spans[store.param].first_store, s);
  }
  return spans;
}

}  // namespace

std::vector<std::pair<uint32_t, uint32_t>> may_overwrite(const LoopNest& nest) {
  const std::vector<Span> spans = spans_of(nest);
  const std::vector<ParamUse> uses = param_uses(nest);
  std::vector<std::pair<uint32_t, uint32_t>> pairs;
  for (uint32_t from = 0; from < nest.params.size(); ++from) {
    for (uint32_t to = 0; to < nest.params.size(); ++to) {
      const LoopParam &r = nest.params[from], &w = nest.params[to];
      if (r.written || !w.written || r.dtype != w.dtype || r.inner != w.inner) continue;
      if (uses[from].gathered || spans[from].last_load == kNever || (uses[from].row && !uses[to].row)) continue;
      if (spans[from].last_load > spans[to].first_store || spans[to].first_load <= spans[to].first_store) continue;
      pairs.emplace_back(from, to);
    }
  }
  return pairs;
}

LoopNest random_nest(Random& random) { return NestMaker(random).run(); }

}  // namespace escapement::fuzz

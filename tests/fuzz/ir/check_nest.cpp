// Loop nests as machine code: see checks.h. Every launch is laid out at random, computed by the loop interpreter on the layout as it is,
// and by machine code on the layout as the run time would arrange it (jit/run/geometry.cpp), in every variant that then applies.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <map>
#include <utility>

#include "fuzz/ir/checks.h"
#include "fuzz/ir/guarded_memory.h"
#include "fuzz/ir/nest_maker.h"
#include "jit/llvm/compile.h"
#include "jit/llvm/device/device.h"
#include "jit/run/launch.h"
#include "jit/run/row_block.h"
#include "kernels/loop_interpreter.h"
#include "simt/simt.h"
#include "trace/reduce_order.h"

namespace escapement::fuzz {
namespace {

// Sanitizers do not follow fibers that change stacks by themselves.
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr bool kFibers = false;
#else
constexpr bool kFibers = true;
#endif

struct Wrong {
  std::string what;
};

struct Layout {
  Geometry geometry;
  std::vector<int64_t> elements;     // of each parameter's memory
  std::vector<std::vector<int64_t>> places;  // which of them there are
  std::vector<size_t> memory_of;     // the parameter whose memory it is
  std::vector<uint64_t> scalars;
};

class NestCheck {
 public:
  NestCheck(uint64_t seed, Counts& counts)
      : random_(seed), device_random_(~seed), counts_(counts), nest(random_nest(random_)), uses_(param_uses(nest)) {}

  void run() {
    verify(nest);
    check_text();
    sized_ = random_.one_in(24);
    for (int i = 0; i < 40; ++i) {
      on_device_ = kFibers && i < kDeviceLaunches && device_random_.one_in(3);
      launch();
    }
  }

 private:
  Random random_, device_random_;   // one of its own: with or without device kernels, a seed makes the same nest
  Counts& counts_;

 public:
  LoopNest nest;

 private:
  void check_text() {
    const LoopNest again = parse_loop_nest(text_in_hand);
    ++counts_.cases;
    if (!structurally_equal(again, nest) || structural_hash(again) != structural_hash(nest)) throw Wrong{"it reads back as another"};
  }

  // --- layout
  bool is_vector(size_t axis) const { return axis + 1 == nest.axes.size(); }

  int64_t extent(size_t axis) {
    if (is_vector(axis)) return random_size(random_, 8);
    return random_.pick<int64_t>({0, 1, 1, 2, 3, 4, 5, 7, 33}) ;
  }

  // Axes along which a parameter has elements of its own.
  std::vector<bool> own_axes(size_t p) {
    std::vector<bool> own;
    for (size_t a = 0; a < nest.axes.size(); ++a) {
      const bool reduced_away = uses_[p].row && nest.axes[a].reduced;
      const bool expected_zero = is_vector(a) && nest.params[p].inner == InnerStride::zero;
      own.push_back(!reduced_away && (nest.params[p].written ? true : !expected_zero && !random_.one_in(6)));
    }
    return own;
  }

  void lay_out(size_t p, Layout& layout) {
    const size_t axes = nest.axes.size(), columns = axes + 1;
    const std::vector<bool> own = own_axes(p);
    std::vector<size_t> order;
    for (size_t a = 0; a < axes; ++a) order.push_back(a);
    if (random_.one_in(4)) random_.shuffle(order);
    else if (axes > 1 && random_.one_in(6)) std::swap(order[axes - 1], order[axes - 2]);
    int64_t next = 1, last = 0;
    const auto place = [&](size_t column, int64_t extent) {
      layout.geometry.strides[p * columns + column] = next;
      last += std::max<int64_t>(extent - 1, 0) * next;
      next = next * std::max<int64_t>(extent, 1) + (random_.one_in(6) ? random_.between(1, 3) : 0);
    };
    if (random_.one_in(10)) next = 2;
    const bool far = far_ && random_.one_in(2);  // the outermost axis more than 4 GiB apart
    for (size_t i = axes; i-- > 0;) {
      if (!own[order[i]]) continue;
      if (far && i == 0) next = std::max(next, (int64_t{5} << 30) / size_of(nest.params[p].dtype));
      place(order[i], layout.geometry.extents[order[i]]);
    }
    if (uses_[p].gathered) place(axes, kStored);
    layout.elements.push_back(last + 1);
    layout.places.push_back(places_of(p, layout.geometry));
    for (size_t column = 0; column < columns; ++column) layout.geometry.strides[p * columns + column] *= size_of(nest.params[p].dtype);
  }

  // All elements that a parameter has, in elements from its first; strides are in elements still.
  std::vector<int64_t> places_of(size_t p, const Geometry& g) const {
    std::vector<int64_t> places{0};
    for (size_t column = 0; column <= nest.axes.size(); ++column) {
      const int64_t stride = g.strides[p * (nest.axes.size() + 1) + column], count = column < nest.axes.size() ? g.extents[column] : kStored;
      if (stride == 0) continue;
      std::vector<int64_t> next;
      for (int64_t i = 0; i < count; ++i)
        for (const int64_t place : places) next.push_back(place + i * stride);
      places = std::move(next);
    }
    return places;
  }

  Layout make_layout() {
    Layout layout;
    far_ = random_.one_in(25);
    for (size_t a = 0; a < nest.axes.size(); ++a) layout.geometry.extents.push_back(far_ ? random_.between(1, 5) : extent(a));
    int64_t points = 1;
    for (int64_t& e : layout.geometry.extents) {
      if (points * e > kMostPoints) e = 1;
      points *= std::max<int64_t>(e, 1);
    }
    layout.geometry.strides.assign(nest.params.size() * (nest.axes.size() + 1), 0);
    for (size_t p = 0; p < nest.params.size(); ++p) lay_out(p, layout);
    share_memory(layout);
    for (size_t s = 0; s < nest.scalars.size(); ++s) layout.scalars.push_back(scalar(static_cast<uint32_t>(s)));
    return layout;
  }

  // Results over operands that nobody needs any more, as a plan puts them there (kernels/memory.cpp).
  void share_memory(Layout& layout) {
    for (size_t p = 0; p < nest.params.size(); ++p) layout.memory_of.push_back(p);
    for (const auto& [operand, result] : may_overwrite(nest)) {
      const bool is_free = layout.memory_of[operand] == operand && std::count(layout.memory_of.begin(), layout.memory_of.end(), result) == 1;
      if (is_free && random_.one_in(2)) overwrite(operand, result, layout);
    }
  }

  void overwrite(size_t operand, size_t result, Layout& layout) const {
    const size_t columns = nest.axes.size() + 1;
    auto* const strides = layout.geometry.strides.data();
    std::copy_n(strides + result * columns, columns, strides + operand * columns);
    layout.elements[operand] = layout.elements[result];
    layout.places[operand] = layout.places[result];
    layout.memory_of[operand] = result;
  }

  uint64_t scalar(uint32_t number) {
    for (const Stage& stage : nest.stages)
      for (const LoopInput& i : stage.inputs)
        if (i.kind == LoopInput::Kind::gather && i.bound == number) return static_cast<uint64_t>(random_.one_in(4) ? random_.between(0, kStored) : kStored);
    return is_float(nest.scalars[number]) ? to_bits(static_cast<double>(random_.between(-20, 20)) / 8, nest.scalars[number])
                                          : to_bits(random_.between(nest.scalars[number] == DType::b8 ? 0 : -3, nest.scalars[number] == DType::b8 ? 1 : 7), nest.scalars[number]);
  }

  // --- memory
  struct Memory {
    std::vector<GuardedMemory> blocks;
    std::vector<void*> data;
    int64_t failure = 0;
    KernelArgs args(const Geometry& g, const Layout& layout, void* scratch) {
      return {data.data(), g.extents.data(), g.strides.data(), layout.scalars.data(), &failure, scratch};
    }
  };

  uint64_t element(DType type, bool wild) {
    uint64_t stored = 0;
    if (wild && random_.one_in(2)) return random_.bits();
    static const std::vector<double> special{0.0, -0.0, 1.0, 1.5, -2.5, 3e38, 1e-40, 65520.0, INFINITY, -INFINITY, NAN};
    const double value = wild ? random_.pick(special) : static_cast<double>(random_.between(-2000, 2000)) / 500;
    if (is_float(type)) store_bits(&stored, type, to_bits(value, compute_type(type)));
    else stored = type == DType::b8 ? random_.below(3) : static_cast<uint64_t>(random_.between(-2, 7));
    return stored;
  }

  // Of the elements that there are; what lies between them holds a pattern.
  using Contents = std::vector<std::vector<uint64_t>>;

  Contents make_contents(const Layout& layout) {
    Contents contents;
    const bool wild = random_.one_in(2);
    for (size_t p = 0; p < nest.params.size(); ++p) {
      contents.emplace_back();
      for (size_t i = 0; i < layout.places[p].size(); ++i) contents.back().push_back(element(nest.params[p].dtype, wild));
    }
    return contents;
  }

  Memory make_memory(const Contents& contents, const Layout& layout, GuardedMemory::Side side) const {
    Memory memory;
    for (size_t p = 0; p < nest.params.size(); ++p) {
      const auto size = static_cast<size_t>(size_of(nest.params[p].dtype));
      memory.blocks.emplace_back(static_cast<size_t>(layout.elements[p]) * size, side);
      char* const data = memory.blocks.back().data();
      for (size_t i = 0; i < contents[p].size(); ++i) std::memcpy(data + static_cast<size_t>(layout.places[p][i]) * size, &contents[p][i], size);
      memory.data.push_back(data);
    }
    for (size_t p = 0; p < nest.params.size(); ++p) memory.data[p] = memory.blocks[layout.memory_of[p]].data();
    return memory;
  }

  static bool is_nan(DType type, const char* at) {
    return is_float(type) && std::isnan(double_from_bits(load_bits(at, type), compute_type(type)));
  }

  void compare(const Memory& expected, const Memory& got, const std::string& how, const Layout& layout) {
    ++counts_.cases;
    if ((expected.failure != 0) != (got.failure != 0)) throw Wrong{how + ": only one of them fails" + describe(layout)};
    if (expected.failure != 0) return static_cast<void>(++counts_.refused);
    for (size_t p = 0; p < nest.params.size(); ++p) {
      if (!got.blocks[p].intact()) throw Wrong{how + ": parameter " + std::to_string(p) + ": bytes outside were written" + describe(layout)};
      const DType type = nest.params[p].dtype;
      const auto size = static_cast<size_t>(size_of(type));
      const char *a = expected.blocks[p].data(), *b = got.blocks[p].data();
      // Near memory as a whole, gaps included; of far memory only what there is.
      const bool far = expected.blocks[p].size() >= GuardedMemory::kFar;
      const size_t count = far ? layout.places[p].size() : expected.blocks[p].size() / size;
      for (size_t i = 0; i < count; ++i) {
        const size_t at = (far ? static_cast<size_t>(layout.places[p][i]) : i) * size;
        if (std::memcmp(a + at, b + at, size) == 0 || (is_nan(type, a + at) && is_nan(type, b + at))) continue;
        throw Wrong{how + ": parameter " + std::to_string(p) + " element " + std::to_string(at / size) + describe(layout)};
      }
    }
  }

  std::string describe(const Layout& layout) const {
    std::string text = "; extents";
    for (const int64_t e : layout.geometry.extents) text += " " + std::to_string(e);
    text += "; byte strides";
    for (const int64_t s : layout.geometry.strides) text += " " + std::to_string(s);
    for (size_t p = 0; p < nest.params.size(); ++p)
      if (layout.memory_of[p] != p) text += "; parameter " + std::to_string(p) + " in the memory of " + std::to_string(layout.memory_of[p]);
    return text;
  }

  // --- running
  struct Ranges {
    int64_t outer = 1, inner = 1, reduced = 1;
  };
  Ranges ranges(const Geometry& g) const {
    Ranges r;
    for (size_t a = 0; a < nest.axes.size(); ++a) {
      if (nest.axes[a].reduced) r.reduced *= g.extents[a];
      else if (nest.schedule != Schedule::row && is_vector(a)) r.inner = g.extents[a];
      else r.outer *= g.extents[a];
    }
    return r;
  }

  KernelFunction code(Variant variant) {
    auto& module = modules_[variant];
    if (!module) module = CodeGenerator::instance().compile({{&nest, variant, "fuzz_nest"}});
    return module->function(0);
  }

  void launch() {
    const Layout layout = make_layout();
    const auto contents = make_contents(layout);
    const auto side = random_.one_in(2) ? GuardedMemory::Side::before : GuardedMemory::Side::after;
    Memory expected = make_memory(contents, layout, side);
    const Ranges all = ranges(layout.geometry);
    interpret(nest, NestPart::whole, expected.args(layout.geometry, layout, nullptr), 0, all.outer, 0, all.inner);
    const auto check = [&](Variant variant, const Geometry& g, KernelFunction function, const char* name) {
      Memory got = make_memory(contents, layout, side);
      run_in_pieces(function, got.args(g, layout, nullptr), ranges(g), variant);
      compare(expected, got, name, layout);
    };
    check(Variant::general, layout.geometry, code(Variant::general), "general");
    check_device(layout.geometry, false, layout, contents, expected, side);
    Geometry arranged = layout.geometry;
    if (!arrange(arranged)) {
      check(Variant::general, arranged, code(Variant::general), "general, merged");
      if (has_tile(nest) && is_tile(nest, arranged)) check(Variant::tile, arranged, code(Variant::tile), "tile");
      if (is_strided(nest, arranged)) check(Variant::strided, arranged, code(Variant::strided), "strided");
      if (takes_blocks(arranged)) check(Variant::block, arranged, code(Variant::block), "block");
      check_staged(layout, contents, expected, side);
      return;
    }
    check(Variant::fast, arranged, code(Variant::fast), "fast");
    check_device(arranged, true, layout, contents, expected, side);
    if (Geometry across = arranged; takes_blocks(across)) check(Variant::block, across, code(Variant::block), "block");
    if (has_alone(nest) && is_alone(nest, arranged)) check(Variant::alone, arranged, code(Variant::alone), "alone");
    if (can_split(nest)) check_split(arranged, layout, contents, expected, side);
    if (sized_) check(Variant::fast, arranged, sized_code(arranged), "fast, sizes known");
  }

  // Any parallel axis may be that of the rows.
  bool takes_blocks(Geometry& geometry) {
    const int64_t length = ranges(geometry).reduced;
    if (!has_block(nest) || length < 1 || length > kBlockLength || !is_block(nest, geometry)) return false;
    if (random_.one_in(2)) choose_row_axis(nest, geometry);
    return true;
  }

  // As the run time does; whether the fast variant then applies.
  bool arrange(Geometry& geometry) {
    Geometry ordered = geometry;
    merge_axes(nest, geometry);
    if (is_fast(nest, geometry)) return true;
    order_axes(nest, ordered);
    merge_axes(nest, ordered);
    if (!is_fast(nest, ordered)) return false;
    geometry = ordered;
    return true;
  }

  KernelFunction sized_code(const Geometry& geometry) {
    Geometry sizes = geometry;
    for (size_t a = 0; a < nest.axes.size(); ++a)
      if (!nest.axes[a].reduced && sizes.extents[a] != 1) sizes.extents[a] = kAnySize;
    sized_modules_.push_back(CodeGenerator::instance().compile({{&nest, Variant::fast, "fuzz_nest_sized", &sizes}}));
    sized_ = sized_modules_.size() < 4;
    return sized_modules_.back()->function(0);
  }

  // Cut anywhere: tiles only at their own edges.
  void run_in_pieces(KernelFunction function, const KernelArgs& args, const Ranges& r, Variant variant) {
    if (r.outer == 0 || r.inner == 0) return;
    const int64_t grain = variant == Variant::tile ? kTileLines : 1;
    const auto cut = [&](int64_t whole, int64_t grain_of) {
      std::vector<int64_t> edges{0};
      if (random_.one_in(2) && whole > grain_of) edges.push_back(random_.between(1, (whole - 1) / grain_of) * grain_of);
      edges.push_back(whole);
      return edges;
    };
    const std::vector<int64_t> outer = cut(r.outer, grain), inner = nest.schedule == Schedule::row ? std::vector<int64_t>{0, 1} : cut(r.inner, 1);
    for (size_t o = outer.size() - 1; o-- > 0;)
      for (size_t i = inner.size() - 1; i-- > 0;) function(&args, outer[o], outer[o + 1], inner[i], inner[i + 1]);
  }

  void check_split(const Geometry& g, const Layout& layout, const Contents& contents, const Memory& expected, GuardedMemory::Side side) {
    const Ranges r = ranges(g);
    const int64_t stretches = (r.reduced + kReduceStretch - 1) / kReduceStretch;
    if (stretches == 0 || r.outer == 0) return;
    std::vector<uint64_t> scratch(static_cast<size_t>(r.outer * stretches) * nest.stages[0].reductions.size() * 2, 77);
    Memory got = make_memory(contents, layout, side);
    const KernelArgs args = got.args(g, layout, scratch.data());
    const int64_t step = random_.between(1, 2);
    for (int64_t row = r.outer; row-- > 0;)
      for (int64_t s = 0; s < stretches; s += step) code(Variant::partial)(&args, row, row + 1, s, std::min(s + step, stretches));
    code(Variant::finish)(&args, 0, r.outer, 0, stretches);
    compare(expected, got, "split", layout);
  }

  // --- as kernels of a device, on the SIMT twin
  DeviceTwin& twin(DeviceVariant variant) {
    auto& twin = twins_[name_of(variant)];
    if (!twin) twin = device_twin({&nest, variant, "fuzz_nest"});
    return *twin;
  }

  testing::Grid grid(DeviceVariant variant) {
    const bool column = nest.schedule == Schedule::column;
    const auto warps = column ? kColumnWarps : static_cast<unsigned>(device_random_.between(1, most_threads(nest, variant) / kWarp));
    return {static_cast<uint32_t>(device_random_.between(1, 4)), kWarp * warps};
  }

  bool one_reduced_axis(const Geometry& g) const {   // the last of them aside, all are 1
    int64_t longest = 1, last = 1;
    for (size_t a = 0; a < nest.axes.size(); ++a)
      if (nest.axes[a].reduced) longest = std::max(longest, std::exchange(last, g.extents[a]));
    return longest == 1;
  }

  void check_device(const Geometry& g, bool fast, const Layout& layout, const Contents& contents, const Memory& expected, GuardedMemory::Side side) {
    const Ranges r = ranges(g);
    if (!on_device_ || far_ || r.outer == 0 || r.inner == 0) return;
    if (nest.schedule == Schedule::column) fast = one_reduced_axis(g);
    for (const Team team : {Team::thread, Team::tile, Team::warp, Team::block, Team::partial}) {
      const DeviceVariant variant{team, fast};
      if (!has_team(nest, variant)) continue;
      Memory got = make_memory(contents, layout, side);
      const int64_t points = nest.schedule == Schedule::column ? r.outer * r.inner : r.outer;
      std::vector<uint64_t> scratch(static_cast<size_t>(points * ((r.reduced + kReduceStretch - 1) / kReduceStretch) * 2) * (1 + nest.stages[0].reductions.size()), 77);
      run_on_device(variant, g, layout, got, scratch);
      if (team == Team::partial) run_on_device({Team::finish, fast}, g, layout, got, scratch);
      compare(expected, got, "device " + name_of(variant), layout);
    }
  }

  void run_on_device(DeviceVariant variant, const Geometry& g, const Layout& layout, Memory& memory, std::vector<uint64_t>& scratch) {
    testing::SimtMachine machine(device_random_.bits());
    for (size_t p = 0; p < nest.params.size(); ++p)
      machine.allow(memory.blocks[p].data(), memory.blocks[p].size(), static_cast<size_t>(size_of(nest.params[p].dtype)));
    machine.allow(&memory.failure, 8, 8, true);
    machine.allow(scratch.data(), scratch.size() * 8, 8);
    const ArgumentBlock block(nest);
    std::vector<uint64_t> words(block.words());
    const auto put = [&](unsigned place, const auto& values) {
      for (const auto value : values) words[place++] = (uint64_t)value;
    };
    put(block.data(), memory.data), put(block.extents(), g.extents), put(block.strides(), g.strides), put(block.scalars(), layout.scalars);
    put(block.failure(), std::vector<void*>{&memory.failure, scratch.data()});
    const std::string fault = machine.run(twin(variant).thread(), twin(variant).shared_bytes(), grid(variant), words.data());
    if (!fault.empty()) throw Wrong{"device " + name_of(variant) + ": " + fault + describe(layout)};
  }

  // Operands copied into place, in pieces of any size.
  void check_staged(const Layout& layout, const Contents& contents, const Memory& expected, GuardedMemory::Side side) {
    escapement::Launch staged;
    staged.geometry = layout.geometry;
    const int64_t small = random_.pick<int64_t>({1, 300, 5000, 100000});
    FuzzedKernel kernel(*this);
    LaunchRecipe recipe;
    recipe.code = &kernel;
    recipe.may_block = true;
    recipe.uses = uses_of(nest);
    plan_staging(recipe, staged, {small, random_.one_in(4) ? small : 1 << 20, small, random_.one_in(2) ? 0 : 100000});
    if (!staged.staging) return;
    Memory got = make_memory(contents, layout, side);
    staged.data = got.data;
    const Ranges r = ranges(staged.geometry);
    const int64_t stretches = staged.staging.pieces == Staging::Pieces::stretches ? (r.reduced + kReduceStretch - 1) / kReduceStretch : 0;
    std::vector<uint64_t> scratch(static_cast<size_t>(r.outer * stretches) * nest.stages[0].reductions.size() * 2, 77);
    const KernelArgs args = got.args(staged.geometry, layout, scratch.data());
    if (stretches > 0) {
      staged.function = code(Variant::partial);
      for (int64_t row = r.outer; row-- > 0;) run_staged(recipe, staged, Variant::partial, args, row, row + 1, 0, stretches);
      code(Variant::finish)(&args, 0, r.outer, 0, stretches);
    } else {
      staged.function = code(staged.variant);
      const int64_t outer = random_.between(0, r.outer), inner = nest.schedule == Schedule::row ? 0 : random_.between(0, r.inner);
      for (const auto& [ob, oe] : {std::pair{outer, r.outer}, std::pair{int64_t{0}, outer}})
        for (const auto& [ib, ie] : {std::pair{inner, r.inner}, std::pair{int64_t{0}, inner}})
          if (ob < oe && ib < ie) run_staged(recipe, staged, staged.variant, args, ob, oe, ib, ie);
    }
    compare(expected, got, "staged", layout);
  }

  class FuzzedKernel final : public KernelCode {
   public:
    explicit FuzzedKernel(NestCheck& check) : check_(check) {}
    const LoopNest& nest() const override { return check_.nest; }
    bool has(Variant variant) const override { return variant == Variant::fast || can_split(check_.nest); }
    KernelFunction function(Variant variant) override { return check_.code(variant); }
    void run(Variant, const KernelArgs&, int64_t, int64_t, int64_t, int64_t) override {}

   private:
    NestCheck& check_;
  };

  static constexpr int64_t kStored = 9;         // positions of a gathered parameter
  static constexpr int64_t kMostPoints = 5000;

  std::vector<ParamUse> uses_;
  static constexpr int kDeviceLaunches = 6;     // the twin takes its time

  bool sized_ = false, far_ = false, on_device_ = false;
  std::map<std::string, std::unique_ptr<DeviceTwin>> twins_;
  std::map<Variant, std::unique_ptr<CodeModule>> modules_;
  std::vector<std::unique_ptr<CodeModule>> sized_modules_;
};

}  // namespace

std::optional<Finding> check_nest(uint64_t seed, Counts& counts) {
  ++counts.made;
  NestCheck check(seed, counts);
  text_in_hand = print(check.nest);
  try {
    check.run();
  } catch (const Wrong& wrong) {
    return Finding{wrong.what, text_in_hand};
  } catch (const std::exception& error) {
    return Finding{std::string("exception: ") + error.what(), text_in_hand};
  }
  return {};
}

}  // namespace escapement::fuzz

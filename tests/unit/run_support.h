// What the tests of jit/run share: hand-made plans, a kernel in plain C++ that stands for compiled code, and a host without torch.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstring>
#include <functional>
#include <map>
#include <memory>
#include <thread>
#include <vector>

#include "jit/run/executable.h"
#include "trace/reduce_order.h"

namespace escapement::run_test {

// A kernel over f32: adds all parameters that are read into the ones that are written, at any strides (map), or sums rows (row).
class PlainKernel final : public KernelCode {
 public:
  explicit PlainKernel(LoopNest nest) : nest_(std::move(nest)) {}
  const LoopNest& nest() const override { return nest_; }
  bool has(Variant variant) const override {
    if (variant == Variant::block || variant == Variant::tile) return across;
    return variant <= Variant::general || nest_.schedule == Schedule::row;
  }
  KernelFunction function(Variant variant) override {
    ++asked[static_cast<size_t>(variant)];
    return nullptr;
  }
  void run(Variant variant, const KernelArgs& args, int64_t ob, int64_t oe, int64_t ib, int64_t ie) override {
    ++runs[static_cast<size_t>(variant)];
    if (nest_.schedule == Schedule::map) return map(args, ob, oe, ib, ie);
    if (variant == Variant::partial) return partial(args, ob, oe, ib, ie);
    for (int64_t row = ob; row < oe; ++row) {
      float sum = 0;
      if (variant == Variant::finish) sum = finish(args, row, ie);
      else for (int64_t begin = 0; begin < length(args); begin += kStretch) sum += stretch(args, row, begin);
      store(args, row, sum);
    }
  }

  int count(Variant variant) const { return runs[static_cast<size_t>(variant)]; }

  bool across = false;  // has the variants block and tile too; they do what the others do
  std::atomic<int> asked[kVariants]{}, runs[kVariants]{};
  std::function<void(const KernelArgs&)> after;  // called by map

 private:
  static constexpr int64_t kStretch = kReduceStretch;

  size_t columns() const { return nest_.axes.size() + 1; }
  int64_t length(const KernelArgs& args) const { return args.extents[nest_.axes.size() - 1]; }
  char* row_address(const KernelArgs& args, size_t p, int64_t outer, bool skip_last) const {
    char* address = static_cast<char*>(args.data[p]);
    for (size_t axis = nest_.axes.size() - (skip_last ? 1 : 0); axis-- > 0;) {
      if (nest_.axes[axis].reduced) continue;
      address += outer % args.extents[axis] * args.strides[p * columns() + axis];
      outer /= args.extents[axis];
    }
    return address;
  }
  void map(const KernelArgs& args, int64_t ob, int64_t oe, int64_t ib, int64_t ie) const {
    const size_t last = nest_.axes.size() - 1;
    for (int64_t o = ob; o < oe; ++o) {
      for (int64_t i = ib; i < ie; ++i) {
        float sum = 0;
        for (size_t p = 0; p < nest_.params.size(); ++p) {
          float* at = reinterpret_cast<float*>(row_address(args, p, o, true) + i * args.strides[p * columns() + last]);
          if (nest_.params[p].written) *at = sum;
          else sum += *at;
        }
      }
    }
    if (after) after(args);
  }
  float stretch(const KernelArgs& args, int64_t row, int64_t begin) const {
    float sum = 0;
    const size_t last = nest_.axes.size() - 1;
    const char* address = row_address(args, 0, row, false);
    for (int64_t i = begin; i < std::min(begin + kStretch, length(args)); ++i) {
      sum += *reinterpret_cast<const float*>(address + i * args.strides[last]);
    }
    return sum;
  }
  uint64_t* slot(const KernelArgs& args, int64_t row, int64_t number) const {
    return static_cast<uint64_t*>(args.scratch) + (row * ((length(args) + kStretch - 1) / kStretch) + number) * 2;
  }
  void partial(const KernelArgs& args, int64_t ob, int64_t oe, int64_t ib, int64_t ie) const {
    for (int64_t row = ob; row < oe; ++row) {
      for (int64_t s = ib; s < ie; ++s) {
        const float sum = stretch(args, row, s * kStretch);
        std::memcpy(slot(args, row, s), &sum, sizeof sum);
      }
    }
  }
  float finish(const KernelArgs& args, int64_t row, int64_t stretches) const {
    float sum = 0;
    for (int64_t s = 0; s < stretches; ++s) {
      float part;
      std::memcpy(&part, slot(args, row, s), sizeof part);
      sum += part;
    }
    return sum;
  }
  void store(const KernelArgs& args, int64_t row, float sum) const { *reinterpret_cast<float*>(row_address(args, 1, row, false)) = sum; }

  LoopNest nest_;
};

inline LoopNest map_nest(size_t axes, size_t inputs) {
  LoopNest nest;
  nest.axes.resize(axes);
  nest.params.resize(inputs + 1);
  nest.params.back().written = true;
  nest.stages.resize(1);
  return nest;
}

inline LoopNest sum_nest(size_t parallel, size_t reduced) {
  LoopNest nest;
  nest.schedule = Schedule::row;
  nest.axes.resize(parallel + reduced);
  for (size_t i = parallel; i < nest.axes.size(); ++i) nest.axes[i].reduced = true;
  nest.params = {{DType::f32, false, InnerStride::unit}, {DType::f32, true, InnerStride::zero}};
  nest.row_values = {DType::f32};
  nest.stages.resize(2);
  nest.stages[0].reductions.resize(1);
  nest.stages[1].kind = Stage::Kind::each_row;
  return nest;
}

// Builds plans value by value; every tensor is f32 and contiguous.
struct PlanBuilder {
  LaunchPlan plan;
  std::vector<std::shared_ptr<KernelCode>> code;

  Dim symbol(SymbolKind kind = SymbolKind::size, Source source = {}) { return plan.trace.dims.new_symbol(kind, source); }
  Dim constant(int64_t value) { return plan.trace.dims.constant(value); }
  std::vector<Dim> contiguous(const std::vector<Dim>& sizes) {
    std::vector<Dim> strides(sizes.size());
    Dim stride = constant(1);
    for (size_t d = sizes.size(); d-- > 0; stride = plan.trace.dims.mul(stride, sizes[d])) strides[d] = stride;
    return strides;
  }
  ValueId value(std::vector<Dim> sizes, Buffer::Kind kind, uint32_t slot = 0) {
    Value value;
    const ValueId id(static_cast<uint32_t>(plan.trace.values.size()));
    value.type.sizes = sizes;
    value.type.strides = contiguous(sizes);
    value.type.storage = Storage(plan.trace.storage_count++);
    value.type.root = id;
    value.type.offset = constant(0);
    plan.trace.values.push_back(value);
    Buffer buffer;
    buffer.kind = kind;
    buffer.root = id;
    buffer.slot = slot;
    buffer.bytes = plan.trace.dims.mul(constant(4), plan.trace.dims.product(sizes));
    if (kind == Buffer::Kind::temporary) plan.slot_count = std::max(plan.slot_count, slot + 1);
    if (kind == Buffer::Kind::input) {
      buffer.input = static_cast<uint32_t>(plan.trace.inputs.size());
      Input input;
      input.value = id;
      input.name = "arg" + std::to_string(buffer.input);
      plan.trace.inputs.push_back(input);
    }
    plan.buffer_of.push_back(static_cast<uint32_t>(plan.buffers.size()));
    plan.buffers.push_back(buffer);
    return id;
  }
  uint32_t kernel(LoopNest nest) {
    code.push_back(std::make_shared<PlainKernel>(nest));
    plan.kernels.push_back({std::move(nest), "k" + std::to_string(plan.kernels.size()), {}});
    return static_cast<uint32_t>(plan.kernels.size() - 1);
  }
  PlainKernel& plain(uint32_t number) { return static_cast<PlainKernel&>(*code[number]); }
  KernelOperand operand(ValueId value, std::vector<Dim> strides) {
    KernelOperand result;
    result.buffer = plan.buffer_of[value.index];
    result.offset = constant(0);
    result.strides = std::move(strides);
    return result;
  }
  // Sums the inputs element by element; all of one shape.
  void add(uint32_t kernel, std::vector<ValueId> inputs, ValueId output) {
    KernelStep step;
    step.kernel = kernel;
    step.extents = plan.trace.type(output).sizes;
    for (const ValueId input : inputs) step.operands.push_back(operand(input, plan.trace.type(input).strides));
    step.operands.push_back(operand(output, plan.trace.type(output).strides));
    step.writes = {output};
    plan.steps.emplace_back(std::in_place_type<KernelStep>, std::move(step));
  }
  ValueId output(ValueId value) {
    plan.trace.outputs.push_back({Output::Kind::value, value, {}});
    return value;
  }
};

// Two chunks at once, on a thread made for it: as little as a thread pool can be.
inline ParallelHost two_threads() {
  return {[](int64_t count, ParallelHost::Body body, void* context) {
            std::thread other([&] { body(count / 2, count, context); });
            body(0, count / 2, context);
            other.join();
          },
          [] { return 2; }};
}

// Outputs in vectors; calls and born symbols by function.
class PlainHost : public Host {
 public:
  explicit PlainHost(const LaunchPlan& plan, const Context& context, const Executable& executable)
      : plan_(plan), context_(context), executable_(executable) {}
  void* allocate(uint32_t buffer) override {
    outputs[buffer].assign(static_cast<size_t>(context_.table[bytes[buffer]]) / 4 + 1, -1.0f);
    return outputs[buffer].data();
  }
  bool call(uint32_t step) override { return on_call(step); }
  int64_t read(const Source& source) override { return on_read(source); }

  std::map<uint32_t, Slot> bytes;
  std::map<uint32_t, std::vector<float>> outputs;
  std::function<bool(uint32_t)> on_call = [](uint32_t) { return true; };
  std::function<int64_t(const Source&)> on_read = [](const Source&) { return int64_t{0}; };

 private:
  const LaunchPlan& plan_;
  const Context& context_;
  const Executable& executable_;
};

}  // namespace escapement::run_test

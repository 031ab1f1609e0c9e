// Runs a launch plan with the loop interpreter: no torch, no LLVM. Library calls are answered by the test.
//
// Memory is poisoned before use, so that a kernel which reads what was not written shows, and slots are shared as planned, so that
// wrong lifetimes show.
#pragma once

#include <cstring>
#include <functional>
#include <memory>
#include <random>

#include "kernels/loop_interpreter.h"
#include "kernels/plan.h"
#include "support/error.h"

namespace escapement::testing {

struct HostTensor {
  DType dtype = DType::f32;
  std::vector<int64_t> sizes, strides;  // strides in elements
  int64_t offset = 0;                   // of the first element, in elements of `memory`
  std::shared_ptr<std::vector<char>> memory;

  int64_t count() const {
    int64_t n = 1;
    for (int64_t s : sizes) n *= s;
    return n;
  }
  char* at(int64_t flat) const {  // row-major number of an element
    int64_t place = offset;
    for (size_t d = sizes.size(); d-- > 0; flat /= sizes[d]) place += flat % sizes[d] * strides[d];
    return memory->data() + place * size_of(dtype);
  }
  uint64_t bits(int64_t flat) const { return load_bits(at(flat), dtype); }
};

// Elements further apart and further in than need be, if `odd`.
inline HostTensor make_tensor(DType dtype, std::vector<int64_t> sizes, bool odd = false) {
  HostTensor t{dtype, sizes, std::vector<int64_t>(sizes.size()), odd ? 3 : 0, nullptr};
  int64_t stride = 1;
  for (size_t d = sizes.size(); d-- > 0;) {
    t.strides[d] = stride;
    stride *= std::max<int64_t>(sizes[d], 1);
    if (odd && d + 1 == sizes.size()) stride += 5;
  }
  t.memory = std::make_shared<std::vector<char>>((stride + 16) * size_of(dtype), char(0x5a));
  return t;
}

inline void fill_random(HostTensor& t, std::mt19937& random, int64_t below = 0) {
  for (int64_t i = 0; i < t.count(); ++i) {
    const double value = below > 0 ? double(random() % uint64_t(below)) : double(int(random() % 4001) - 2000) / 500.0;
    const uint64_t bits = is_float(t.dtype) ? to_bits(value, compute_type(t.dtype)) : to_bits(int64_t(value), t.dtype);
    store_bits(t.at(i), t.dtype, t.dtype == DType::b8 ? (random() & 1) : bits);
  }
}

class PlanRunner {
 public:
  // operands and results of a library call; results are contiguous and may be filled
  using Call = std::function<void(const Instr&, const std::vector<HostTensor>&, std::vector<HostTensor>&)>;
  explicit PlanRunner(const LaunchPlan& plan, Call call = {}) : plan_(plan), trace_(plan.trace), call_(std::move(call)) {}

  std::vector<HostTensor> run(const std::vector<HostTensor>& inputs) {
    bind(inputs);
    buffers_.assign(plan_.buffers.size(), {});
    slots_.assign(plan_.slot_count, nullptr);
    failure = 0;
    allocate(inputs);
    for (const Step& step : plan_.steps) {
      if (const auto* kernel = std::get_if<KernelStep>(&step)) launch(*kernel);
      if (const auto* call = std::get_if<CallStep>(&step)) invoke(*call);
    }
    std::vector<HostTensor> outputs;
    for (const Output& o : trace_.outputs) {
      if (o.value) outputs.push_back(view(o.value));
    }
    return outputs;
  }

  int64_t failure = 0;
  int64_t pieces = 1;  // into how many ranges each launch is cut

 private:
  struct Memory {
    std::shared_ptr<std::vector<char>> bytes;
    int64_t offset = 0;  // elements
  };
  int64_t value(Dim d) const { return trace_.dims.evaluate(d, symbols_); }

  void bind(const std::vector<HostTensor>& inputs) {
    symbols_.assign(trace_.dims.symbol_count(), 0);
    for (uint32_t s = 0; s < symbols_.size(); ++s) {
      const Source& source = trace_.dims.info(Symbol(s)).source;
      if (source.kind == Source::Kind::input_size) symbols_[s] = inputs[source.input].sizes[source.dim];
      if (source.kind == Source::Kind::input_stride) symbols_[s] = inputs[source.input].strides[source.dim];
    }
  }

  static std::shared_ptr<std::vector<char>> poison(int64_t bytes) {
    return std::make_shared<std::vector<char>>(std::max<int64_t>(bytes, 0) + 8, char(0xcd));
  }

  void allocate(const std::vector<HostTensor>& inputs) {
    for (size_t b = 0; b < buffers_.size(); ++b) {
      const Buffer& buffer = plan_.buffers[b];
      if (buffer.kind == Buffer::Kind::input) buffers_[b] = {inputs[buffer.input].memory, inputs[buffer.input].offset};
      if (buffer.kind == Buffer::Kind::output) buffers_[b] = {poison(value(buffer.bytes)), 0};
      if (buffer.kind != Buffer::Kind::temporary) continue;
      auto& slot = slots_[buffer.slot];
      if (!slot) slot = poison(0);
      if (int64_t(slot->size()) < value(buffer.bytes) + 8) slot->resize(value(buffer.bytes) + 8, char(0xcd));
      buffers_[b] = {slot, 0};
    }
  }

  HostTensor view(ValueId v) const {
    const TensorType& type = trace_.type(v);
    const Memory& memory = buffers_[plan_.buffer_of[v.index]];
    HostTensor t{type.dtype, {}, {}, memory.offset + value(type.offset), memory.bytes};
    for (Dim d : type.sizes) t.sizes.push_back(value(d));
    for (Dim d : type.strides) t.strides.push_back(value(d));
    return t;
  }

  uint64_t scalar(const Number& n, DType type) const {
    if (n.kind == Number::Kind::real) return to_bits(n.real, type);
    return to_bits(n.kind == Number::Kind::dim ? value(n.dim) : n.integer, type);
  }

  void launch(const KernelStep& step) {
    const LoopNest& nest = plan_.kernels[step.kernel].nest;
    const size_t axes = nest.axes.size();
    std::vector<void*> data;
    std::vector<int64_t> extents, strides;
    std::vector<uint64_t> scalars;
    for (Dim d : step.extents) extents.push_back(value(d));
    for (const KernelOperand& o : step.operands) {
      const Memory& memory = buffers_[o.buffer];
      const int64_t size = size_of(o.dtype);
      data.push_back(memory.bytes->data() + (memory.offset + value(o.offset)) * size);
      for (Dim d : o.strides) strides.push_back(value(d) * size);
      strides.push_back(o.gathered ? value(o.gathered) * size : 0);
    }
    for (size_t i = 0; i < step.scalars.size(); ++i) scalars.push_back(scalar(step.scalars[i], nest.scalars[i]));
    KernelArgs args{data.data(), extents.data(), strides.data(), scalars.data(), &failure, nullptr};
    int64_t outer = 1, inner = 1;
    for (size_t a = 0; a < axes; ++a) {
      const bool vector_axis = nest.schedule != Schedule::row && a + 1 == axes;
      if (vector_axis) inner = extents[a];
      else if (!nest.axes[a].reduced) outer *= extents[a];
    }
    for (int64_t p = 0; p < pieces; ++p) {
      interpret(nest, NestPart::whole, args, outer * p / pieces, outer * (p + 1) / pieces, 0, inner);
    }
  }

  void invoke(const CallStep& step) {
    const Instr& instr = trace_[step.instr];
    std::vector<HostTensor> operands, results;
    for (ValueId v : instr.operands) operands.push_back(view(v));
    for (ValueId v : instr.results) {
      const uint32_t b = plan_.buffer_of[v.index];
      if (!buffers_[b].bytes) {
        std::vector<int64_t> sizes;
        for (Dim d : trace_.type(v).sizes) sizes.push_back(value(d));
        buffers_[b] = {make_tensor(trace_.type(v).dtype, sizes).memory, 0};
      }
      results.push_back(view(v));
    }
    ESCAPEMENT_CHECK(call_ != nullptr, "the test answers library calls");
    call_(instr, operands, results);
  }

  const LaunchPlan& plan_;
  const Trace& trace_;
  Call call_;
  std::vector<int64_t> symbols_;
  std::vector<Memory> buffers_;
  std::vector<std::shared_ptr<std::vector<char>>> slots_;
};

}  // namespace escapement::testing

// Warm-up and plans (include/escapement/load.h).
#include <ATen/core/Tensor.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/zeros.h>
#include <c10/core/InferenceMode.h>

#include <chrono>
#include <cstdio>

#include "support/error.h"
#include "support/text.h"
#include "torch/serving/module_impl.h"

namespace escapement {

namespace {

using Clock = std::chrono::steady_clock;
using Values = Region::Values;

std::string shape_text(c10::IntArrayRef sizes) {
  return "[" + join(sizes, ", ", [](int64_t size) { return std::to_string(size); }) + "]";
}

std::string shapes_of(const Values& inputs) {
  return join(inputs, " ", [](const c10::IValue& v) {
    return v.isTensor() ? shape_text(v.toTensor().sizes()) : v.isInt() ? std::to_string(v.toInt()) : v.tagKind();
  });
}

void check_shapes(const ModuleFacts& facts, const Shapes& shapes) {
  if (shapes.size() != facts.forms.size())
    throw UserError("escapement: '" + facts.name + "' takes " + std::to_string(facts.forms.size()) +
                    " inputs, and shapes of " + std::to_string(shapes.size()) + " are given");
  for (size_t i = 0; i < shapes.size(); ++i) {
    const bool negative = std::any_of(shapes[i].begin(), shapes[i].end(), [](int64_t size) { return size < 0; });
    if (facts.forms[i].integer ? shapes[i].size() != 1 : negative)
      throw UserError("escapement: the shape " + shape_text(shapes[i]) + " of the input '" + facts.forms[i].name +
                      "' is none" + (facts.forms[i].integer ? ": for an integer its value alone is expected" : ""));
  }
}

template <class MakeTensor>
Values values_of(const ModuleFacts& facts, const Shapes& shapes, MakeTensor make) {
  check_shapes(facts, shapes);
  Values values;
  for (size_t i = 0; i < shapes.size(); ++i) {
    if (facts.forms[i].integer)
      values.emplace_back(shapes[i][0]);
    else
      values.emplace_back(make(shapes[i], facts.forms[i].dtype));
  }
  return values;
}

at::Tensor zeros(const std::vector<int64_t>& sizes, c10::ScalarType dtype) {
  const c10::InferenceMode ordinary(false);
  return at::zeros(sizes, at::TensorOptions().dtype(dtype));
}

// A tensor with sizes and no memory, at an address of its own that nobody reads.
class ShapeOnly {
 public:
  at::Tensor operator()(const std::vector<int64_t>& sizes, c10::ScalarType dtype) {
    int64_t bytes = static_cast<int64_t>(c10::elementSize(dtype));
    for (const int64_t size : sizes) {
      if (__builtin_mul_overflow(bytes, size, &bytes))
        throw UserError("escapement: the shape " + shape_text(sizes) + " overflows");
    }
    bytes_ += bytes;
    c10::DataPtr nowhere(reinterpret_cast<void*>(next_), c10::Device(c10::DeviceType::CPU));
    next_ += static_cast<uintptr_t>(bytes) / 64 * 64 + 128;
    auto storage = c10::make_intrusive<c10::StorageImpl>(c10::StorageImpl::use_byte_size_t(), static_cast<size_t>(bytes),
                                                         std::move(nowhere), nullptr, /*resizable=*/false);
    at::Tensor tensor = at::detail::make_tensor<c10::TensorImpl>(
        std::move(storage), c10::DispatchKeySet(c10::DispatchKey::CPU), c10::scalarTypeToTypeMeta(dtype));
    tensor.unsafeGetTensorImpl()->set_sizes_contiguous(sizes);
    return tensor;
  }
  int64_t bytes() const { return bytes_; }

 private:
  uintptr_t next_ = 4096;
  int64_t bytes_ = 0;
};

// Buffers, and parameters that the program writes, as they were, whatever happens in between.
class StateKept {
 public:
  StateKept(const ModuleFacts& facts, const GraphRunner& runner) {
    for (size_t i = 0; i < facts.weights.size(); ++i) {
      const at::Tensor& weight = runner.weights()[i];
      if (facts.weights[i].kind != ExportedInput::Kind::parameter || facts.weights[i].is_written)
        kept_.push_back({weight, weight.clone(), weight._version()});
    }
  }
  ~StateKept() {
    const at::NoGradGuard no_gradients;   // parameters of a program may ask for them
    for (const Kept& kept : kept_) {
      if (kept.tensor._version() != kept.version) kept.tensor.copy_(kept.copy);
    }
  }

 private:
  struct Kept {
    at::Tensor tensor, copy;
    int64_t version;
  };
  std::vector<Kept> kept_;
};

double milliseconds_since(Clock::time_point start) {
  return std::chrono::duration<double, std::milli>(Clock::now() - start).count();
}

WarmUpReport::Row warm_up_once(Module::Impl& module, const Values& inputs) {
  WarmUpReport::Row row;
  row.shapes = shapes_of(inputs);
  const Metrics before = module.meter.read();
  const Clock::time_point start = Clock::now();
  Values outputs;
  const Region::Answer answer = module.call(inputs, outputs);
  row.milliseconds = milliseconds_since(start);
  const Metrics after = module.meter.read();
  row.recorded = answer.how == Region::Answer::How::recording;
  row.eager = answer.how == Region::Answer::How::eager;
  row.record_milliseconds = (after.record_seconds - before.record_seconds) * 1e3;
  row.compile_milliseconds = (after.compile_seconds - before.compile_seconds) * 1e3;
  return row;
}

WarmUpReport warm_up_all(Module::Impl& module, const std::vector<Values>& inputs) {
  const std::lock_guard lock(module.changing);
  const auto state = module.gate.enter();
  const StateKept kept(module.facts, state->runner);
  const Clock::time_point start = Clock::now();
  WarmUpReport report;
  for (const Values& values : inputs) report.rows.push_back(warm_up_once(module, values));
  report.milliseconds = milliseconds_since(start);
  return report;
}

}  // namespace

WarmUpReport Module::warm_up(const std::vector<Shapes>& shapes) const {
  return serving(name(), [&] {
    std::vector<Values> inputs;
    for (const Shapes& one : shapes) inputs.push_back(values_of(impl_->facts, one, zeros));
    return warm_up_all(*impl_, inputs);
  });
}

WarmUpReport Module::warm_up_with(const std::vector<std::vector<c10::IValue>>& inputs) const {
  return serving(name(), [&] { return warm_up_all(*impl_, inputs); });
}

std::string WarmUpReport::text() const {
  std::string text;
  for (const Row& row : rows) {
    char line[160];
    std::snprintf(line, sizeof line, "  %s in %.1f ms (recording %.1f, compiling %.1f)\n",
                  row.recorded ? "recorded"
                  : row.eager  ? "ran eagerly"
                               : "had a version",
                  row.milliseconds, row.record_milliseconds, row.compile_milliseconds);
    text += row.shapes + line;
  }
  char total[64];
  std::snprintf(total, sizeof total, "%zu calls in %.1f ms\n", rows.size(), milliseconds);
  return text + total;
}

void Module::on_miss(OnMiss what) const {
  serving(name(), [&] {
    const std::lock_guard lock(impl_->changing);
    const auto state = impl_->gate.enter();
    if (what != OnMiss::record) state->region.versions().make_all_code();
    state->region.on_miss(what == OnMiss::record   ? Region::OnMiss::record
                          : what == OnMiss::refuse ? Region::OnMiss::refuse
                                                   : Region::OnMiss::run_eagerly);
  });
}

Plan Module::plan(const Shapes& shapes) const {
  return serving(name(), [&] {
    const auto state = impl_->gate.enter();
    ShapeOnly make;
    const Values inputs = values_of(impl_->facts, shapes, std::ref(make));
    impl_->facts.check(inputs);
    const VersionList::Fit fit = state->region.versions().fit(inputs);
    return Plan{fit.fits, fit.miss, make.bytes(), fit.memory.output_bytes, fit.memory.temporary_bytes, fit.memory.complete};
  });
}

}  // namespace escapement

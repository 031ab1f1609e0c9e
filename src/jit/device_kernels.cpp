// See device_kernels.h.
#include "jit/device_kernels.h"

#include <algorithm>
#include <atomic>
#include <map>
#include <unordered_map>

#include "jit/cuda/launch.h"
#include "jit/device_driver.h"
#include "jit/llvm/device/device.h"
#include "support/error.h"
#include "support/events.h"
#include "support/fork.h"

namespace escapement {
namespace {

// A kernel of one variant on one device.
struct Loaded {
  std::unique_ptr<DeviceTwin> twin;   // where the driver is the tests' twin
  std::unique_ptr<cuda::LoadedModule> module;
  cuda::Function function = nullptr;
};

class Prepared final : public PreparedLaunch {
 public:
  Prepared(const LoopNest& nest, cuda::Device& device, cuda::DeviceLaunch launch, std::vector<cuda::Function> functions)
      : nest_(nest), device_(device), launch_(std::move(launch)), functions_(std::move(functions)), addresses_(nest.params.size()) {}

  size_t scratch_bytes() const override { return launch_.scratch_bytes; }
  void launch(std::span<void* const> data, void* scratch, void* stream) override {
    const auto address = [](void* pointer) { return reinterpret_cast<cuda::Address>(pointer); };
    std::transform(data.begin(), data.end(), addresses_.begin(), address);
    cuda::set_addresses(nest_, addresses_, /*failure=*/0, address(scratch), launch_);
    cuda::launch(device_, functions_, launch_, static_cast<cuda::Stream>(stream));
  }

 private:
  const LoopNest& nest_;
  cuda::Device& device_;
  cuda::DeviceLaunch launch_;
  std::vector<cuda::Function> functions_;
  std::vector<cuda::Address> addresses_;
};

// Teams that a launch takes where layouts are as expected and rows are short.
DeviceVariant likely_variant(const LoopNest& nest) {
  switch (nest.schedule) {
    case Schedule::map: return {Team::tile, true};
    case Schedule::row: return {Team::warp, true};
    case Schedule::column: return {Team::block, true};
  }
  throw InternalError("a schedule without a team");
}

uint64_t written_params(const LoopNest& nest) {
  uint64_t written = 0;
  for (size_t p = 0; p < nest.params.size() && p < 64; ++p) written |= uint64_t{nest.params[p].written} << p;
  return written;
}

class DeviceKernel final : public DeviceKernelCode {
 public:
  DeviceKernel(LoopNest nest, const std::string& name) : nest_(std::move(nest)), name_(name + "_" + std::to_string(number())) {
    text(likely_variant(nest_));
  }

  const LoopNest& nest() const override { return nest_; }

  std::unique_ptr<PreparedLaunch> prepare(const Geometry& geometry, std::span<const uint64_t> scalars, int ordinal) override {
    cuda::Device& device = device_of(ordinal);
    cuda::DeviceLaunch launch = cuda::prepare(nest_, geometry, scalars, device.limits());
    std::vector<cuda::Function> functions;
    for (const cuda::GridStep& step : launch.steps) functions.push_back(function(step.variant, device, ordinal));
    return std::make_unique<Prepared>(nest_, device, std::move(launch), std::move(functions));
  }

 private:
  using Key = std::pair<Team, bool>;
  static Key key(DeviceVariant variant) { return {variant.team, variant.fast}; }
  static int number() {
    static std::atomic<int> next{0};
    return next.fetch_add(1, std::memory_order_relaxed);
  }
  std::string symbol(DeviceVariant variant) const { return name_ + "_" + name_of(variant); }

  const std::string& text(DeviceVariant variant) {
    std::string& ptx = texts_[key(variant)];
    if (ptx.empty()) {
      ptx = device_ptx({{&nest_, variant, symbol(variant)}}, DeviceTarget{});
      count(Stat::device_kernels_compiled);
    }
    return ptx;
  }

  cuda::Function function(DeviceVariant variant, cuda::Device& device, int ordinal) {
    const std::lock_guard turn(turn_);
    Loaded& loaded = loaded_[{ordinal, key(variant)}];
    if (loaded.function) return loaded.function;
    if (driver_is_twin() && !loaded.twin) offer(variant, loaded);
    loaded.module = std::make_unique<cuda::LoadedModule>(device, text(variant));
    return loaded.function = loaded.module->function(symbol(variant));
  }

  void offer(DeviceVariant variant, Loaded& loaded) {
    const std::string& name = *names_.emplace_back(std::make_unique<std::string>(symbol(variant)));
    loaded.twin = device_twin({&nest_, variant, name});
    offer_to_twin({name.c_str(), reinterpret_cast<void*>(loaded.twin->thread()), loaded.twin->shared_bytes(), static_cast<unsigned>(nest_.params.size()),
                   written_params(nest_)});
  }

  LoopNest nest_;
  std::string name_;
  ForkTurn turn_;   // of making text and loading
  std::map<Key, std::string> texts_;
  std::map<std::pair<int, Key>, Loaded> loaded_;
  std::vector<std::unique_ptr<std::string>> names_;   // that the twin goes by
};

bool gathers(const LoopNest& nest) {
  const auto is_gather = [](const LoopInput& input) { return input.kind == LoopInput::Kind::gather; };
  return std::any_of(nest.stages.begin(), nest.stages.end(), [&](const Stage& stage) { return std::any_of(stage.inputs.begin(), stage.inputs.end(), is_gather); });
}

// A position out of range would be known only once the stream has been waited for: the recorder leaves what looks up to ATen (lower_index.cpp).
void refuse_unfit(const Kernel& kernel) {
  if (!cuda::fits_device(kernel.nest)) throw InternalError("the kernel " + kernel.name + " takes more than 4 KiB of arguments", Reason::device_kernel);
  if (gathers(kernel.nest)) throw InternalError("the kernel " + kernel.name + " looks up by index", Reason::device_kernel);
}

// Never destroyed.
struct Cache {
  ForkMutex mutex;
  std::unordered_multimap<uint64_t, std::shared_ptr<DeviceKernel>> entries;
};

Cache& cache() {
  static Cache* const instance = new Cache;
  return *instance;
}

std::shared_ptr<DeviceKernel> find(uint64_t key, const LoopNest& nest) {
  const std::lock_guard lock(cache().mutex);
  const auto [begin, end] = cache().entries.equal_range(key);
  const auto found = std::find_if(begin, end, [&](const auto& entry) { return structurally_equal(entry.second->nest(), nest); });
  return found == end ? nullptr : found->second;
}

}  // namespace

std::vector<std::shared_ptr<KernelCode>> device_code_for(const std::vector<Kernel>& kernels) {
  std::vector<std::shared_ptr<KernelCode>> result;
  for (const Kernel& kernel : kernels) refuse_unfit(kernel);
  for (const Kernel& kernel : kernels) {
    const uint64_t key = structural_hash(kernel.nest);
    std::shared_ptr<DeviceKernel> code = find(key, kernel.nest);
    if (!code) {
      code = std::make_shared<DeviceKernel>(kernel.nest, kernel.name);   // outside of the lock: two threads may make one kernel, and both are right
      const std::lock_guard lock(cache().mutex);
      cache().entries.emplace(key, code);
    }
    result.push_back(std::move(code));
  }
  return result;
}

}  // namespace escapement

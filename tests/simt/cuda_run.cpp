// See cuda_run.h.
#include "simt/cuda_run.h"

#include <dlfcn.h>

#include "jit/run/launch.h"
#include "support/error.h"

namespace escapement::testing {

using cuda::DriverTable;

const char* twin_driver_path() { return ESCAPEMENT_TWIN_DRIVER; }

const TwinControl& twin_driver() {
  static const TwinControl* control = [] {
    void* library = dlopen(twin_driver_path(), RTLD_NOW | RTLD_LOCAL);   // kept open: the twin's state is its own
    ESCAPEMENT_CHECK(library, "the twin driver is built beside the tests");
    return reinterpret_cast<const TwinControl* (*)()>(dlsym(library, "escapement_twin_control"))();
  }();
  return *control;
}

// --- code

std::string kernel_name(DeviceVariant variant) { return "nest_" + name_of(variant); }

DeviceCode::DeviceCode(const LoopNest& loop_nest, bool with_twins) : nest(loop_nest) {
  std::vector<DeviceSource> sources;
  for (const Team team : {Team::thread, Team::tile, Team::warp, Team::block, Team::partial, Team::finish})
    for (const bool fast : {false, true})
      if (has_team(nest, {team, fast})) sources.push_back({&nest, {team, fast}, kernel_name({team, fast})});
  ptx = device_ptx(sources, {});
  for (const DeviceSource& source : sources)
    if (with_twins) twins.push_back(device_twin(source));
}

void DeviceCode::offer() const {
  uint64_t written = 0;
  for (size_t p = 0; p < nest.params.size(); ++p) written |= uint64_t{nest.params[p].written} << p;
  size_t next = 0;
  for (const Team team : {Team::thread, Team::tile, Team::warp, Team::block, Team::partial, Team::finish}) {
    for (const bool fast : {false, true}) {
      if (!has_team(nest, {team, fast})) continue;
      static std::vector<std::unique_ptr<std::string>>* names = new std::vector<std::unique_ptr<std::string>>;
      names->push_back(std::make_unique<std::string>(kernel_name({team, fast})));
      const DeviceTwin& twin = *twins[next++];
      twin_driver().offer({names->back()->c_str(), twin.thread(), twin.shared_bytes(), static_cast<unsigned>(nest.params.size()), written});
    }
  }
}

// --- memory and streams

DeviceMemory::DeviceMemory(cuda::Device& device, size_t bytes) : device_(device) {
  device_.within([&] { device_.driver().call<&DriverTable::cuMemAlloc_v2>(&address_, std::max<size_t>(bytes, 1)); });
}

DeviceMemory::~DeviceMemory() {
  if (address_ != 0) device_.attempt([&] { device_.driver().call<&DriverTable::cuMemFree_v2>(address_); });
}

DeviceStream::DeviceStream(cuda::Device& device) : device_(device) {
  device_.within([&] { device_.driver().call<&DriverTable::cuStreamCreate>(&stream_, 1u); });
}

DeviceStream::~DeviceStream() {
  device_.attempt([&] { device_.driver().call<&DriverTable::cuStreamDestroy_v2>(stream_); });
}

void DeviceStream::upload(const DeviceMemory& to, const void* from, size_t bytes) {
  device_.within([&] { device_.driver().call<&DriverTable::cuMemcpyHtoDAsync_v2>(to.address(), from, bytes, stream_); });
}

void DeviceStream::download(void* to, const DeviceMemory& from, size_t bytes) {
  device_.within([&] { device_.driver().call<&DriverTable::cuMemcpyDtoHAsync_v2>(to, from.address(), bytes, stream_); });
}

void DeviceStream::wait() {
  device_.within([&] { device_.driver().call<&DriverTable::cuStreamSynchronize>(stream_); });
}

// --- a whole run

namespace {

Geometry geometry_of(const Launch& launch, const Memory& memory) { return {launch.extents, memory.strides}; }

std::vector<cuda::Function> functions_of(const cuda::LoadedModule& module, const cuda::DeviceLaunch& launch) {
  std::vector<cuda::Function> functions;
  for (const cuda::GridStep& step : launch.steps) functions.push_back(module.function(kernel_name(step.variant)));
  return functions;
}

}  // namespace

void run_on_device(const DeviceCode& code, const Launch& launch, Memory& memory, unsigned multiprocessors, int ordinal) {
  const cuda::Driver driver(twin_driver_path());
  cuda::Device device(driver, ordinal);
  const cuda::LoadedModule module(device, code.ptx);
  DeviceStream stream(device);
  std::vector<DeviceMemory> arrays;
  std::vector<cuda::Address> addresses;
  for (const GuardedBuffer& buffer : memory.buffers) {
    arrays.emplace_back(device, buffer.size());
    addresses.push_back(arrays.back().address());
    if (buffer.size() > 0) stream.upload(arrays.back(), buffer.data(), buffer.size());
  }
  const DeviceMemory failure(device, sizeof(int64_t));
  stream.upload(failure, &memory.failure, sizeof(int64_t));
  cuda::DeviceLimits limits = device.limits();
  limits.multiprocessors = multiprocessors;
  cuda::DeviceLaunch prepared = cuda::prepare(code.nest, geometry_of(launch, memory), launch.scalars, limits);
  const DeviceMemory scratch(device, prepared.scratch_bytes);
  cuda::set_addresses(code.nest, addresses, failure.address(), scratch.address(), prepared);
  cuda::launch(device, functions_of(module, prepared), prepared, stream.handle());
  for (size_t p = 0; p < arrays.size(); ++p)
    if (memory.buffers[p].size() > 0) stream.download(memory.buffers[p].data(), arrays[p], memory.buffers[p].size());
  stream.download(&memory.failure, failure, sizeof(int64_t));
  stream.wait();
}

}  // namespace escapement::testing

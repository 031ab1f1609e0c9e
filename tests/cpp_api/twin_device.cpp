// A device of torch's for tests, in the slot PrivateUse1: memory and streams of the twin driver (simt/driver_twin.h), operators those of the CPU.
// It stands for a CUDA device: two of them, streams of their own, an allocator that gives memory of a stream again to that stream at once, spoilt. The host cannot
// touch the memory but here, and an operator waits for what is in the streams.
//
// Loaded with torch.ops.load_library; ESCAPEMENT_CUDA_DRIVER names the twin driver. What tests ask of it are the C functions at the end.
#include <ATen/EmptyTensor.h>
#include <ATen/core/LegacyTypeDispatch.h>
#include <ATen/detail/PrivateUse1HooksInterface.h>
#include <ATen/ops/_reshape_alias_native.h>
#include <ATen/ops/as_strided_native.h>
#include <ATen/ops/from_blob.h>
#include <ATen/ops/set_native.h>
#include <ATen/ops/unfold_native.h>
#include <ATen/ops/view_native.h>
#include <c10/core/impl/DeviceGuardImplInterface.h>
#include <torch/library.h>

#include <cstdlib>
#include <dlfcn.h>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "jit/cuda/device.h"
#include "simt/driver_twin.h"

namespace {

using escapement::cuda::Address;
using escapement::cuda::DriverTable;
using escapement::testing::TwinControl;

constexpr c10::DeviceType kType = c10::DeviceType::PrivateUse1;
constexpr c10::DeviceIndex kDevices = 2;

const char* driver_path() {
  const char* path = std::getenv("ESCAPEMENT_CUDA_DRIVER");
  TORCH_CHECK(path, "ESCAPEMENT_CUDA_DRIVER names no twin driver");
  return path;
}

const TwinControl& control() {
  static const TwinControl* found = [] {
    void* library = dlopen(driver_path(), RTLD_NOW | RTLD_LOCAL);
    TORCH_CHECK(library, dlerror());
    const auto* control = reinterpret_cast<const TwinControl* (*)()>(dlsym(library, "escapement_twin_control"))();
    control->reset(kDevices, 7);
    return control;
  }();
  return *found;
}

// --- devices and streams

thread_local c10::DeviceIndex t_device = 0;
thread_local std::vector<int64_t> t_streams(kDevices, 0);   // current ones, by device

struct Devices {
  Devices() : driver((control(), driver_path())) {
    for (int d = 0; d < kDevices; ++d) devices.push_back(std::make_unique<escapement::cuda::Device>(driver, d));
    handles.assign(kDevices, {nullptr});
  }
  escapement::cuda::Driver driver;
  std::vector<std::unique_ptr<escapement::cuda::Device>> devices;
  std::vector<std::vector<escapement::cuda::Stream>> handles;   // by device, by number of the stream; 0: the default one
};

Devices& all() {
  static Devices* const devices = new Devices;
  return *devices;
}

int64_t new_stream(c10::DeviceIndex device) {
  escapement::cuda::Stream stream = nullptr;
  all().devices[device]->within([&] { all().driver.call<&DriverTable::cuStreamCreate>(&stream, 1u); });
  all().handles[device].push_back(stream);
  return static_cast<int64_t>(all().handles[device].size()) - 1;
}

void wait_for_all() {
  for (c10::DeviceIndex d = 0; d < kDevices; ++d)
    for (escapement::cuda::Stream stream : all().handles[d])
      all().devices[d]->within([&] { all().driver.call<&DriverTable::cuStreamSynchronize>(stream); });
}

struct TwinGuard final : c10::impl::DeviceGuardImplInterface {
  TwinGuard() = default;
  explicit TwinGuard(c10::DeviceType) {}
  c10::DeviceType type() const override { return kType; }
  c10::Device exchangeDevice(c10::Device device) const override {
    const c10::Device before(kType, t_device);
    setDevice(device);
    return before;
  }
  c10::Device getDevice() const override { return {kType, t_device}; }
  void setDevice(c10::Device device) const override { t_device = device.index() < 0 ? t_device : device.index(); }
  void uncheckedSetDevice(c10::Device device) const noexcept override { t_device = device.index(); }
  c10::Stream getStream(c10::Device device) const override { return c10::Stream(c10::Stream::UNSAFE, device, t_streams[device.index()]); }
  c10::Stream getDefaultStream(c10::Device device) const override { return c10::Stream(c10::Stream::DEFAULT, device); }
  c10::Stream getNewStream(c10::Device device, int) const override { return c10::Stream(c10::Stream::UNSAFE, device, new_stream(device.index())); }
  c10::Stream exchangeStream(c10::Stream stream) const override {
    const c10::Stream before = getStream(stream.device());
    t_streams[stream.device_index()] = stream.id();
    return before;
  }
  void* getStreamNativeHandle(const c10::Stream stream) const override { return all().handles[stream.device_index()][stream.id()]; }
  void synchronizeStream(const c10::Stream&) const override { wait_for_all(); }
  void synchronizeDevice(const c10::DeviceIndex) const override { wait_for_all(); }
  c10::DeviceIndex deviceCount() const noexcept override { return kDevices; }
};
C10_REGISTER_GUARD_IMPL(PrivateUse1, TwinGuard)

struct TwinHooks final : at::PrivateUse1HooksInterface {
  bool isBuilt() const override { return true; }
  bool isAvailable() const override { return true; }
  bool hasPrimaryContext(c10::DeviceIndex) const override { return true; }
};

// --- memory

class TwinAllocator final : public c10::Allocator {
 public:
  c10::DataPtr allocate(size_t bytes) override {
    const c10::Device device(kType, t_device);
    if (bytes == 0) return {nullptr, nullptr, &release, device};
    auto* block = take({t_device, t_streams[t_device], bytes});
    ++live();
    return {reinterpret_cast<void*>(block->address), block, &release, device};
  }
  c10::DeleterFnPtr raw_deleter() const override { return &release; }
  void copy_data(void*, const void*, std::size_t) const override { TORCH_CHECK(false, "no memory of the twin is copied by address"); }
  static int64_t& live() {
    static int64_t count = 0;
    return count;
  }

 private:
  using Place = std::tuple<c10::DeviceIndex, int64_t, size_t>;
  struct Block {
    Place place;
    Address address = 0;
  };
  static std::map<Place, std::vector<Block*>>& idle() {
    static auto* const blocks = new std::map<Place, std::vector<Block*>>;
    return *blocks;
  }
  static Block* take(const Place& place) {
    if (auto& free = idle()[place]; !free.empty()) {
      Block* const block = free.back();
      free.pop_back();
      return block;
    }
    auto* const block = new Block{place, 0};
    all().devices[std::get<0>(place)]->within([&] { all().driver.call<&DriverTable::cuMemAlloc_v2>(&block->address, std::get<2>(place)); });
    return block;
  }
  // From here on in its stream it holds nothing: what still reads it shows.
  static void spoil(const Block& block) {
    const auto [device, stream, bytes] = block.place;
    const std::vector<char> nothing(bytes, static_cast<char>(0xdd));
    all().devices[device]->attempt([&] {
      all().driver.call<&DriverTable::cuMemcpyHtoDAsync_v2>(block.address, static_cast<const void*>(nothing.data()), nothing.size(), all().handles[device][stream]);
    });
  }
  static void release(void* context) {
    if (context == nullptr) return;
    auto* const block = static_cast<Block*>(context);
    --live();
    spoil(*block);
    idle()[block->place].push_back(block);
  }
};

TwinAllocator* allocator() {
  static auto* const made = new TwinAllocator;
  return made;
}

class OnDevice {
 public:
  explicit OnDevice(c10::Device device) : before_(t_device) { TwinGuard().setDevice(device); }
  ~OnDevice() { t_device = before_; }

 private:
  c10::DeviceIndex before_;
};

// The host at work in the devices' memory.
class HostInside {
 public:
  HostInside() {
    wait_for_all();
    control().let_host_in(1);
  }
  ~HostInside() { control().let_host_in(0); }
};

// --- operators

constexpr c10::DispatchKeySet kKeys(c10::DispatchKey::PrivateUse1);

c10::Device device_or_current(std::optional<c10::Device> device) {
  return device && device->has_index() ? *device : c10::Device(kType, t_device);
}

at::Tensor empty(c10::IntArrayRef sizes, std::optional<c10::ScalarType> dtype, std::optional<c10::Layout>, std::optional<c10::Device> device, std::optional<bool>,
                 std::optional<c10::MemoryFormat> format) {
  const OnDevice there(device_or_current(device));
  return at::detail::empty_generic(sizes, allocator(), kKeys, c10::dtype_or_default(dtype), format);
}

at::Tensor empty_strided(c10::IntArrayRef sizes, c10::IntArrayRef strides, std::optional<c10::ScalarType> dtype, std::optional<c10::Layout>,
                         std::optional<c10::Device> device, std::optional<bool>) {
  const OnDevice there(device_or_current(device));
  return at::detail::empty_strided_generic(sizes, strides, allocator(), kKeys, c10::dtype_or_default(dtype));
}

// The same memory, as the host sees it.
at::Tensor seen_by_host(const at::Tensor& tensor) {
  if (tensor.is_cpu()) return tensor;
  void* const address = tensor.numel() == 0 ? nullptr : tensor.data_ptr();
  return at::from_blob(address, tensor.sizes(), tensor.strides(), at::TensorOptions().dtype(tensor.dtype()));
}

at::Tensor copy_from(const at::Tensor& from, const at::Tensor& to, bool) {
  const HostInside inside;
  seen_by_host(to).copy_(seen_by_host(from));
  return to;
}

at::Tensor copy_from_and_resize(const at::Tensor& from, const at::Tensor& to) {
  if (to.sizes() != from.sizes()) to.resize_(from.sizes());
  return copy_from(from, to, false);
}

const at::Tensor& resize(const at::Tensor& tensor, c10::IntArrayRef sizes, std::optional<c10::MemoryFormat>) {
  int64_t elements = 1;
  for (const int64_t size : sizes) elements *= size;
  const size_t bytes = static_cast<size_t>(elements + tensor.storage_offset()) * tensor.itemsize();
  if (bytes > tensor.storage().nbytes()) {
    const OnDevice there(tensor.device());
    c10::DataPtr memory = allocator()->allocate(bytes);
    tensor.storage().set_data_ptr_noswap(std::move(memory));
    tensor.storage().set_nbytes(bytes);
  }
  tensor.unsafeGetTensorImpl()->set_sizes_contiguous(sizes);
  return tensor;
}

at::Tensor& set_storage(at::Tensor& tensor, at::Storage storage, int64_t offset, c10::IntArrayRef sizes, c10::IntArrayRef strides) {
  tensor.unsafeGetTensorImpl()->set_storage_keep_dtype(std::move(storage));
  tensor.unsafeGetTensorImpl()->set_sizes_and_strides(sizes, strides, offset);
  return tensor;
}

at::Tensor& set_whole_storage(at::Tensor& tensor, at::Storage storage) {
  const auto elements = static_cast<int64_t>(storage.nbytes() / tensor.itemsize());
  return set_storage(tensor, std::move(storage), 0, {elements}, {1});
}

at::Tensor& set_tensor(at::Tensor& tensor, const at::Tensor& source) {
  return set_storage(tensor, source.storage(), source.storage_offset(), source.sizes(), source.strides());
}

// An operator of the CPU at work in the devices' memory, on tensors of the same strides and offsets.
class Fallback {
 public:
  Fallback(const c10::OperatorHandle& op, torch::jit::Stack& stack) : op_(op), stack_(stack), first_(stack.size() - op.schema().arguments().size()) {}

  void run() {
    const OnDevice there(device_of_arguments());
    const HostInside inside;
    for (size_t i = first_; i < stack_.size(); ++i) stack_[i] = replaced(stack_[i], is_out(i - first_));
    {
      const at::AutoDispatchBelowADInplaceOrView below;
      op_.callBoxed(stack_);
    }
    for (const auto& [original, made] : outs_) store(original, made);
    for (size_t i = first_; i < stack_.size(); ++i) stack_[i] = with_each(stack_[i], [&](const at::Tensor& t) { return back(t); });
  }

 private:
  // What an operator may give another size is a tensor of its own until it is done.
  bool is_out(size_t argument) const { return op_.schema().arguments()[argument].is_out(); }

  c10::Device device_of_arguments() const {
    for (size_t i = first_; i < stack_.size(); ++i) {
      if (stack_[i].isDevice() && stack_[i].toDevice().has_index()) return stack_[i].toDevice();
      if (stack_[i].isTensor() && stack_[i].toTensor().defined() && !stack_[i].toTensor().is_cpu()) return stack_[i].toTensor().device();
      if (!stack_[i].isTensorList()) continue;
      for (const at::Tensor& tensor : stack_[i].toTensorVector())
        if (!tensor.is_cpu()) return tensor.device();
    }
    return {kType, t_device};
  }

  template <class Visit>
  static c10::IValue with_each(const c10::IValue& value, Visit visit) {
    if (value.isTensor()) return value.toTensor().defined() ? c10::IValue(visit(value.toTensor())) : value;
    if (value.isTensorList()) {
      c10::List<at::Tensor> list;
      for (const at::Tensor& tensor : value.toTensorVector()) list.push_back(visit(tensor));
      return list;
    }
    if (value.isOptionalTensorList()) {
      c10::List<std::optional<at::Tensor>> list;
      for (const std::optional<at::Tensor>& tensor : value.toOptionalTensorVector())
        list.push_back(tensor && tensor->defined() ? std::optional<at::Tensor>(visit(*tensor)) : tensor);
      return list;
    }
    return value;
  }

  c10::IValue replaced(const c10::IValue& value, bool out) {
    if (value.isDevice()) return c10::Device(c10::kCPU);
    return with_each(value, [&](const at::Tensor& tensor) {
      if (tensor.is_cpu()) return tensor;
      const at::Tensor seen = out ? seen_by_host(tensor).clone() : seen_by_host(tensor);
      (out ? outs_ : seen_).emplace_back(tensor, seen);
      return seen;
    });
  }

  static void store(const at::Tensor& original, const at::Tensor& made) {
    if (original.sizes() != made.sizes()) {
      original.resize_(made.sizes());
      original.unsafeGetTensorImpl()->set_sizes_and_strides(made.sizes(), made.strides());
    }
    seen_by_host(original).copy_(made);
  }

  at::Tensor back(const at::Tensor& result) const {
    for (const auto* given : {&seen_, &outs_})
      for (const auto& [original, made] : *given)
        if (made.is_same(result)) return original;
    for (const auto& [original, made] : seen_) {
      if (!result.has_storage() || !made.storage().is_alias_of(result.storage())) continue;
      return original.as_strided(result.sizes(), result.strides(), original.storage_offset() + result.storage_offset());
    }
    const at::Tensor there = empty_strided(result.sizes(), result.strides(), result.scalar_type(), {}, c10::Device(kType, t_device), {});
    seen_by_host(there).copy_(result);
    return there;
  }

  const c10::OperatorHandle& op_;
  torch::jit::Stack& stack_;
  size_t first_;
  std::vector<std::pair<at::Tensor, at::Tensor>> seen_, outs_;   // the device's tensor, and what the operator got
};

void fall_back(const c10::OperatorHandle& op, torch::jit::Stack* stack) { Fallback(op, *stack).run(); }

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  m.impl("empty.memory_format", &empty);
  m.impl("empty_strided", &empty_strided);
  m.impl("_copy_from", &copy_from);
  m.impl("_copy_from_and_resize", &copy_from_and_resize);
  m.impl("resize_", &resize);
  m.impl("as_strided", &at::native::as_strided_tensorimpl);
  m.impl("view", &at::native::view);
  m.impl("_reshape_alias", &at::native::_reshape_alias);
  m.impl("unfold", &at::native::unfold);
  m.impl("set_.source_Storage_storage_offset", &set_storage);
  m.impl("set_.source_Storage", &set_whole_storage);
  m.impl("set_.source_Tensor", &set_tensor);
}

TORCH_LIBRARY_IMPL(_, PrivateUse1, m) { m.fallback(torch::CppFunction::makeFromBoxedFunction<&fall_back>()); }

const bool registered = [] {
  c10::register_privateuse1_backend("twin");
  at::RegisterPrivateUse1HooksInterface(new TwinHooks);
  c10::SetAllocator(kType, allocator());
  return true;
}();

}  // namespace

extern "C" {

#define TWIN_DEVICE __attribute__((visibility("default")))
TWIN_DEVICE int64_t twin_new_stream(int device) { return new_stream(static_cast<c10::DeviceIndex>(device)); }
TWIN_DEVICE void twin_use_stream(int device, int64_t stream) { t_streams[static_cast<size_t>(device)] = stream; }
TWIN_DEVICE void twin_use_device(int device) { t_device = static_cast<c10::DeviceIndex>(device); }
TWIN_DEVICE void twin_fail_at(int call, int status) { control().fail_at(call, status); }
TWIN_DEVICE void twin_set_version(int version) { control().set_version(version); }
TWIN_DEVICE int twin_calls() { return control().calls(); }
TWIN_DEVICE const char* twin_complaints() { return control().complaints(); }
TWIN_DEVICE int twin_queued(int device, int64_t stream) { return control().queued(all().handles[static_cast<size_t>(device)][static_cast<size_t>(stream)]); }
TWIN_DEVICE int64_t twin_live_blocks() { return TwinAllocator::live(); }
}

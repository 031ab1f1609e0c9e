// See device_call.h.
#include "torch/program/device_call.h"

#include <ATen/ops/empty.h>

#include <algorithm>

#include "support/events.h"
#include "torch/record/device.h"

namespace escapement {
namespace {

constexpr int64_t kNothingBytes = 4096;   // more than what any kernel reads ahead of a check

at::Tensor bytes_on(c10::Device device, int64_t count) { return at::empty({count}, at::TensorOptions(device).dtype(at::kByte)); }

}  // namespace

void DeviceCall::begin() { stream_ = current_stream(device_); }

void* DeviceCall::nothing() {
  if (!nothing_.defined()) nothing_ = bytes_on(device_, kNothingBytes);
  return nothing_.data_ptr();
}

void DeviceCall::launch(PreparedLaunch& launch, std::span<void* const> data) {
  addresses_.assign(data.begin(), data.end());
  for (void*& address : addresses_)
    if (address == nullptr) address = nothing();
  at::Tensor scratch;
  if (const size_t bytes = launch.scratch_bytes()) scratch = bytes_on(device_, static_cast<int64_t>(bytes));
  launch.launch(addresses_, scratch.defined() ? scratch.data_ptr() : nullptr, stream_);
  count(Stat::device_launches);
}

int64_t read_integer(const at::Tensor& element) {
  count(Stat::device_reads);
  const c10::Scalar value = element.item();
  if (value.isBoolean()) return value.toBool();
  return value.isFloatingPoint() ? static_cast<int64_t>(value.toDouble()) : value.toLong();
}

}  // namespace escapement

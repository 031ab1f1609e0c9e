// What is asked of torch about devices. The one place that names kinds of them; nothing of CUDA is included or linked, so that one build serves
// torch's wheels for CPUs and for CUDA.
//
// A recording is of one device, its home (Recording::device): all its tensors lie there, and a trace says nothing more about it.
#pragma once

#include <ATen/autocast_mode.h>
#include <ATen/core/Tensor.h>
#include <c10/core/impl/VirtualGuardImpl.h>

namespace escapement {

// PrivateUse1 is what a test may have registered there (docs/cuda.md); whether calls on it are recorded is asked elsewhere (region/call_device.h).
inline bool is_known_kind(c10::DeviceType type) {
  return type == c10::DeviceType::CPU || type == c10::DeviceType::CUDA || type == c10::DeviceType::PrivateUse1;
}

// The dispatch keys of a plain tensor there, but for those of autograd and autocast.
inline c10::DispatchKeySet plain_keys(c10::Device device) {
  if (device.is_cuda()) return c10::DispatchKeySet(c10::DispatchKey::CUDA);
  if (device.is_privateuseone()) return c10::DispatchKeySet(c10::DispatchKey::PrivateUse1);
  return c10::DispatchKeySet(c10::DispatchKey::CPU);
}

// The stream that torch puts work into now, as the driver knows it.
inline void* current_stream(c10::Device device) {
  const c10::impl::VirtualGuardImpl guard(device.type());
  return guard.getStreamNativeHandle(guard.getStream(device));
}

// Casts that a recording of a device knows nothing of.
inline bool is_under_autocast(c10::Device device) {
  return at::autocast::is_autocast_enabled(device.type()) || at::autocast::is_autocast_enabled(at::kCPU);
}

}  // namespace escapement

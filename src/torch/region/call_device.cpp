// See call_device.h.
#include "torch/region/call_device.h"

#include <algorithm>

#include "jit/device_driver.h"
#include "torch/record/device.h"
#include "torch/record/recorder_tape.h"

namespace escapement {
namespace {

// CUDA's tensors are the driver's, those of a test's extension are its twin's.
CallDevice with_driver(c10::Device device) {
  const bool of_tests = driver_is_twin();
  if (device.is_privateuseone() && !of_tests) return {device, Reason::unsupported_input, "torch's PrivateUse1 devices are no CUDA devices"};
  if (device.is_cuda() && of_tests) return {device, Reason::device_driver, "the driver that ESCAPEMENT_CUDA_DRIVER names is a twin for tests"};
  const std::string& missing = why_no_device(device.index());
  return {device, missing.empty() ? std::optional<Reason>() : Reason::device_driver, missing};
}

// A number of a tracer's own, such as Dynamo's when it tries a graph at example inputs: no number of this call.
bool is_symbol(const c10::IValue& value) { return value.isSymInt() || value.isSymFloat() || value.isSymBool(); }

}  // namespace

CallDevice device_of_call(std::span<const c10::IValue> arguments) {
  std::optional<c10::Device> home;
  for (const c10::IValue& value : arguments) {
    if (value.isCapsule() || is_symbol(value)) return {c10::kCPU, Reason::unsupported_input, ""};
    if (!value.isTensor()) continue;
    if (!is_plain(value.toTensor())) return {c10::kCPU, Reason::unsupported_input, ""};
    const c10::Device device = value.toTensor().device();
    if (home && *home != device) return {*home, Reason::device_mixed, home->str() + " and " + device.str()};
    home = device;
  }
  if (!home || home->is_cpu()) return {};
  return with_driver(*home);
}

bool lies_on_device(std::span<const c10::IValue> arguments) {
  return std::any_of(arguments.begin(), arguments.end(), [](const c10::IValue& value) {
    return value.isTensor() && value.toTensor().defined() && !value.toTensor().is_cpu();
  });
}

}  // namespace escapement

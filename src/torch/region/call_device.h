// Which device a call's tensors lie on, and whether a recording of it could be run there. Asked when a call is about to be recorded, and never of calls that
// a version serves: their entry checks compare the device.
#pragma once

#include <ATen/core/ivalue.h>

#include <optional>
#include <span>
#include <string>

#include "support/reason.h"

namespace escapement {

struct CallDevice {
  c10::Device device{c10::DeviceType::CPU};
  std::optional<Reason> refused;   // set: the call runs eagerly
  std::string detail;
};

CallDevice device_of_call(std::span<const c10::IValue> arguments);
bool lies_on_device(std::span<const c10::IValue> arguments);   // any of its tensors, on another than the CPU

}  // namespace escapement

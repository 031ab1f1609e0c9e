// A loop nest as a device kernel on the SIMT twin.
#pragma once

#include <string>
#include <vector>

#include "exec/nest_memory.h"
#include "jit/llvm/device/device.h"
#include "simt/simt.h"

namespace escapement::testing {

// Every variant that fits the launch, the general ones if `fast` is not asked for. Two for a row in parts are one: partial, then finish.
std::vector<DeviceVariant> variants_for(const LoopNest& nest, const Launch& launch, bool fast);

// Whether a launch that a variant of the host takes is one for the fast kernels.
bool is_for_fast(const LoopNest& nest, const Launch& launch, Variant variant);

// A grid that the variant may have; which one, the seed tells.
Grid random_grid(const LoopNest& nest, DeviceVariant variant, uint64_t seed);

// Runs the kernel on the memory; empty, or what the twin found wrong. `scratch`: of partial and finish.
std::string run_on_twin(const LoopNest& nest, DeviceVariant variant, const Launch& launch, Memory& memory, Grid grid, uint64_t seed,
                        std::vector<uint64_t>* scratch = nullptr);

std::vector<uint64_t> words_of(const LoopNest& nest, const Launch& launch, Memory& memory, void* scratch);

}  // namespace escapement::testing

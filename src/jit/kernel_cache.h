// Compiled kernels of the process, shared by structure: equal loop nests are compiled once, whichever program asks. An entry
// lives as long as a program uses it.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "jit/run/kernel_code.h"
#include "jit/run/object_code.h"
#include "kernels/plan.h"

namespace escapement {

// Code for all kernels of a plan, in order; those not yet known are compiled together. Throws InternalError.
// `objects`: linked where they hold a kernel's code; null: none.
std::vector<std::shared_ptr<KernelCode>> code_for(const std::vector<Kernel>& kernels, const ObjectCode* objects = nullptr);
// The variants of a kernel that have code, as bytes. Throws InternalError.
void add_objects(const Kernel& kernel, KernelCode& code, ObjectCode& into);

}  // namespace escapement

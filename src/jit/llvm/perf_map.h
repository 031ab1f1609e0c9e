// Names of machine code for profilers: one line for each function (address, size, "escapement::" and the kernel's name) in
// /tmp/perf-PID.map, where `perf report` and others look for code that no file has. Written while code is linked, in processes that start
// with ESCAPEMENT_PERF_MAP=1 in their environment. What is freed stays in it: the format knows no end of a function.
#pragma once

#include <llvm/ExecutionEngine/Orc/ObjectLinkingLayer.h>

#include <memory>

namespace escapement {

// Null: nobody has asked for it.
std::shared_ptr<llvm::orc::ObjectLinkingLayer::Plugin> perf_map();

}  // namespace escapement

// What stands between a loop nest and NVIDIA's driver (src/jit/cuda), on the twin driver: right results, every call of the driver failing in turn, and
// what a caller may do wrong.
#include <gtest/gtest.h>

#include <cstdlib>

#include "jit/cuda/linker.h"
#include "kernels/loop_interpreter.h"
#include "simt/cuda_run.h"
#include "trace/reduce_order.h"

namespace escapement::testing {
namespace {

using cuda::DriverTable;

// y = 2x and the sum of y over the reduced axes
LoopNest doubling(Schedule schedule, std::vector<bool> reduced) {
  LoopNest nest;
  nest.schedule = schedule;
  for (const bool r : reduced) nest.axes.push_back({r, false});
  const bool reduces = schedule != Schedule::map;
  nest.params = {{DType::f32, false, InnerStride::unit}, {DType::f32, true, InnerStride::unit}};
  Stage stage;
  stage.inputs = {load_of(0)};
  const Reg twice = stage.body.emit(ScalarOp::add, DType::f32, stage.body.input(0, DType::f32), 0);
  stage.stores = {{1, twice}};
  if (reduces) stage.reductions = {{Op::sum, twice, 0}};
  nest.stages = {stage};
  if (!reduces) return nest;
  nest.row_values = {DType::f32};
  nest.params.push_back({DType::f32, true, schedule == Schedule::row ? InnerStride::zero : InnerStride::unit});
  Stage row;
  row.kind = Stage::Kind::each_row;
  row.inputs = {row_input(0)};
  row.stores = {{2, row.body.input(0, DType::f32)}};
  nest.stages.push_back(row);
  return nest;
}

Launch launch_of(const LoopNest& nest, std::vector<int64_t> extents) {
  std::vector<bool> parallel;
  for (const LoopAxis& axis : nest.axes) parallel.push_back(!axis.reduced);
  Launch launch{extents, {{row_major(extents)}, {row_major(extents)}}, {}};
  if (nest.params.size() > 2) launch.operands.push_back({row_major(extents, parallel)});
  return launch;
}

Memory interpreted(const LoopNest& nest, const Launch& launch) {
  Memory memory = make_memory(nest, launch, GuardedBuffer::Guard::after, 3);
  const Ranges ranges = ranges_of(nest, launch);
  interpret(nest, NestPart::whole, memory.args(launch, nullptr), 0, ranges.outer, 0, ranges.inner);
  return memory;
}

void begin(const DeviceCode& code, int devices = 1) {
  twin_driver().reset(devices, 7);
  code.offer();
}

void expect_clean() {
  EXPECT_STREQ(twin_driver().complaints(), "");
  EXPECT_EQ(twin_driver().live(), 0);
}

void expect_right(const DeviceCode& code, const Launch& launch, unsigned multiprocessors = 4) {
  begin(code);
  Memory got = make_memory(code.nest, launch, GuardedBuffer::Guard::after, 3);
  run_on_device(code, launch, got, multiprocessors);
  expect_same(code.nest, interpreted(code.nest, launch), got, "through the driver");
  expect_clean();
}

TEST(CudaRun, Maps) {
  const LoopNest nest = doubling(Schedule::map, {false, false});
  const DeviceCode code(nest);
  for (const std::vector<int64_t>& extents : {std::vector<int64_t>{1, 1}, {1, 5000}, {70, 3}, {5, 77}, {0, 3}, {3, 0}}) expect_right(code, launch_of(nest, extents));
  Launch transposed = launch_of(nest, {30, 70});
  transposed.operands[0].strides = {1, 30};
  expect_right(code, transposed);
}

TEST(CudaRun, Rows) {
  const LoopNest nest = doubling(Schedule::row, {false, true});
  const DeviceCode code(nest);
  for (const std::vector<int64_t>& extents : {std::vector<int64_t>{1, 1}, {50, 17}, {3, 1025}, {2, 5000}, {3, 0}, {0, 3}}) expect_right(code, launch_of(nest, extents));
  expect_right(code, launch_of(nest, {2, 65 * kReduceStretch}));   // in parts
}

TEST(CudaRun, Columns) {
  const LoopNest nest = doubling(Schedule::column, {true, true, false});
  const DeviceCode code(nest);
  for (const std::vector<int64_t>& extents : {std::vector<int64_t>{1, 1, 1}, {3, 40, 33}, {1, 1100, 70}, {2, 1024, 300}, {0, 3, 4}}) expect_right(code, launch_of(nest, extents));
}

// --- errors

// What a run makes of the twin failing at its n-th call.
std::string failing_at(const DeviceCode& code, const Launch& launch, int call, int status) {
  begin(code);
  Memory memory = make_memory(code.nest, launch, GuardedBuffer::Guard::after, 3);
  twin_driver().fail_at(call, status);
  try {
    run_on_device(code, launch, memory);
  } catch (const cuda::DeviceError& error) {
    return error.what();
  } catch (const cuda::NoDriver& error) {
    return error.what();
  }
  return "";
}

TEST(CudaRun, EveryCallMayFail) {
  const LoopNest nest = doubling(Schedule::row, {false, true});
  const DeviceCode code(nest);
  const Launch launch = launch_of(nest, {2, 65 * kReduceStretch});
  begin(code);
  twin_driver().fail_at(0, 0);
  expect_right(code, launch);
  const int calls = twin_driver().calls();
  ASSERT_GT(calls, 30);
  int silent = 0;
  for (int call = 1; call <= calls; ++call) {
    const std::string said = failing_at(code, launch, call, 2);
    twin_driver().fail_at(0, 0);
    EXPECT_STREQ(twin_driver().complaints(), "") << "call " << call << ": " << said;
    if (said.empty()) {
      ++silent;   // giving back: nothing can be done about it
    } else {
      EXPECT_EQ(twin_driver().live(), 0) << "call " << call << ": " << said;
      EXPECT_TRUE(said.find("CUDA_ERROR_OUT_OF_MEMORY (2)") != std::string::npos || said.find("no CUDA: ") == 0) << said;
    }
    expect_right(code, launch);
  }
  EXPECT_LT(silent, 16);
}

// --- the driver itself

std::string why_none(const std::string& path) {
  try {
    cuda::Driver driver(path);
  } catch (const cuda::NoDriver& error) {
    return error.what();
  }
  return "";
}

TEST(CudaDriver, AbsenceIsOneLine) {
  EXPECT_EQ(why_none("libno_such_driver.so.1"), "no CUDA: libno_such_driver.so.1 cannot be opened; install NVIDIA's driver, or make its library visible to this process");
  EXPECT_EQ(why_none("libm.so.6"), "no CUDA: libm.so.6 has no cuInit; install a driver for CUDA 12.1 or later");
  twin_driver().reset(1, 1);
  twin_driver().set_version(11080);
  EXPECT_EQ(why_none(twin_driver_path()), "no CUDA: the driver is one for CUDA 11.8; install one for CUDA 12.1 or later");
  twin_driver().reset(1, 1);
  twin_driver().fail_at(1, 100);
  EXPECT_EQ(why_none(twin_driver_path()), "no CUDA: the driver does not start (cuInit gives 100); is there a device, and does `nvidia-smi` see it?");
}

struct Opened {
  explicit Opened(const DeviceCode& code, int devices = 1) : driver((begin(code, devices), twin_driver_path())) {}
  cuda::Driver driver;
};

TEST(CudaDriver, RefusedPtxIsSaid) {
  const LoopNest nest = doubling(Schedule::map, {false});
  const DeviceCode code(nest);
  Opened opened(code);
  cuda::Device device(opened.driver, 0);
  try {
    cuda::LoadedModule module(device, ".version 8.7\n.target sm_120\n");
    FAIL();
  } catch (const cuda::DeviceError& error) {
    EXPECT_STREQ(error.what(), "cuModuleLoadDataEx: CUDA_ERROR_INVALID_PTX (218): no PTX for this device");
    EXPECT_FALSE(error.ends_device());
  }
}

// A kernel that runs out of its memory: the device is at its end, which is said once by the driver and from then on by us, without asking it.
TEST(CudaDriver, AFaultEndsTheDevice) {
  const LoopNest nest = doubling(Schedule::map, {false});
  const DeviceCode code(nest);
  Opened opened(code);
  cuda::Device device(opened.driver, 0);
  const cuda::LoadedModule module(device, code.ptx);
  DeviceStream stream(device);
  const DeviceMemory from(device, 400), to(device, 396);
  cuda::DeviceLaunch launch = cuda::prepare(nest, {{100}, {4, 0, 4, 0}}, {}, device.limits());
  const std::vector<cuda::Address> addresses{from.address(), to.address()};
  cuda::set_addresses(nest, addresses, 0, 0, launch);
  const std::vector<cuda::Function> functions{module.function(kernel_name(launch.steps[0].variant))};
  cuda::launch(device, functions, launch, stream.handle());
  EXPECT_THROW(stream.wait(), cuda::DeviceError);
  EXPECT_NE(std::string(twin_driver().complaints()).find("outside of all memory"), std::string::npos);
  const int calls = twin_driver().calls();
  try {
    cuda::launch(device, functions, launch, stream.handle());
    FAIL();
  } catch (const cuda::DeviceError& error) {
    EXPECT_TRUE(error.ends_device());
    EXPECT_STREQ(error.what(), "the device was ended by an earlier error (700); start a new process");
  }
  EXPECT_EQ(twin_driver().calls(), calls);
}

// --- nvJitLink

TEST(CudaLinker, AbsenceIsNothing) {
  EXPECT_EQ(cuda::Linker::open("libno_such_linker.so"), nullptr);
  EXPECT_EQ(cuda::Linker::open("libm.so.6"), nullptr);
}

TEST(CudaLinker, WhatItLinksIsLoaded) {
  const LoopNest nest = doubling(Schedule::map, {false});
  const DeviceCode code(nest);
  Opened opened(code);
  cuda::Device device(opened.driver, 0);
  const auto linker = cuda::Linker::open(ESCAPEMENT_TWIN_LINKER);
  ASSERT_TRUE(linker);
  const cuda::LoadedModule module(device, linker->link(code.ptx, device.limits().compute));
  EXPECT_NE(module.function(kernel_name({Team::tile, true})), nullptr);
  try {
    linker->link("nonsense", 90);
    FAIL();
  } catch (const cuda::LinkError& error) {
    EXPECT_STREQ(error.what(), "nvJitLink (4): that is no PTX");
  }
}

// The real one, where $ESCAPEMENT_NVJITLINK names it: it needs no GPU.
TEST(CudaLinker, TheRealOneTakesOurPtx) {
  const char* path = std::getenv("ESCAPEMENT_NVJITLINK");
  if (!path) GTEST_SKIP() << "ESCAPEMENT_NVJITLINK names no library";
  const auto linker = cuda::Linker::open(path);
  ASSERT_TRUE(linker);
  for (const Schedule schedule : {Schedule::map, Schedule::row, Schedule::column}) {
    const LoopNest nest = doubling(schedule, schedule == Schedule::map ? std::vector{false} : schedule == Schedule::row ? std::vector{false, true} : std::vector{true, false});
    const DeviceCode code(nest);
    for (const int compute : {80, 90, 100, 120}) {
      const std::vector<char> cubin = linker->link(code.ptx, compute);
      EXPECT_GT(cubin.size(), 1000u);
      EXPECT_EQ(std::string(cubin.data(), 4), "\x7f" "ELF");
    }
  }
  EXPECT_THROW(linker->link(".version 8.1\n.target sm_80\nnonsense\n", 90), cuda::LinkError);
}

// --- what a caller may do wrong

std::string complaints() { return twin_driver().complaints(); }

TEST(TwinDriver, FindsAForgottenStream) {
  const LoopNest nest = doubling(Schedule::map, {false});
  const DeviceCode code(nest);
  Opened opened(code);
  cuda::Device device(opened.driver, 0);
  DeviceStream one(device), other(device);
  const DeviceMemory memory(device, 64);
  uint64_t value = 5;
  one.upload(memory, &value, 8);
  other.download(&value, memory, 8);
  EXPECT_NE(complaints().find("that work in another stream may still use"), std::string::npos);
}

TEST(TwinDriver, TakesAStreamThatWaited) {
  const LoopNest nest = doubling(Schedule::map, {false});
  const DeviceCode code(nest);
  Opened opened(code);
  cuda::Device device(opened.driver, 0);
  DeviceStream one(device), other(device);
  const DeviceMemory memory(device, 64);
  uint64_t value = 5, back = 0;
  one.upload(memory, &value, 8);
  one.wait();
  other.download(&back, memory, 8);
  other.wait();
  EXPECT_EQ(back, 5u);
  EXPECT_EQ(complaints(), "");
}

TEST(TwinDriver, FindsAPointerOfAnotherDevice) {
  const LoopNest nest = doubling(Schedule::map, {false});
  const DeviceCode code(nest);
  Opened opened(code, 2);
  cuda::Device device(opened.driver, 0), second(opened.driver, 1);
  const cuda::LoadedModule module(device, code.ptx);
  DeviceStream stream(device), foreign(second);
  const DeviceMemory from(device, 400), to(second, 400);
  cuda::DeviceLaunch launch = cuda::prepare(nest, {{100}, {4, 0, 4, 0}}, {}, device.limits());
  const std::vector<cuda::Address> addresses{from.address(), to.address()};
  cuda::set_addresses(nest, addresses, 0, 0, launch);
  const std::vector<cuda::Function> functions{module.function(kernel_name(launch.steps[0].variant))};
  EXPECT_THROW(cuda::launch(device, functions, launch, stream.handle()), cuda::DeviceError);
  EXPECT_NE(complaints().find("a pointer of another device"), std::string::npos);
  EXPECT_THROW(cuda::launch(device, functions, launch, foreign.handle()), cuda::DeviceError);
  EXPECT_NE(complaints().find("on a stream of another device"), std::string::npos);
}

TEST(TwinDriver, FindsMemoryThatWasGivenBackAndBlocksOfAnotherSize) {
  const LoopNest nest = doubling(Schedule::map, {false});
  const DeviceCode code(nest);
  Opened opened(code);
  cuda::Device device(opened.driver, 0);
  const cuda::LoadedModule module(device, code.ptx);
  DeviceStream stream(device);
  const DeviceMemory from(device, 400);
  cuda::DeviceLaunch launch = cuda::prepare(nest, {{100}, {4, 0, 4, 0}}, {}, device.limits());
  const std::vector<cuda::Address> addresses{from.address(), DeviceMemory(device, 400).address()};
  cuda::set_addresses(nest, addresses, 0, 0, launch);
  const std::vector<cuda::Function> functions{module.function(kernel_name(launch.steps[0].variant))};
  EXPECT_THROW(cuda::launch(device, functions, launch, stream.handle()), cuda::DeviceError);
  EXPECT_NE(complaints().find("memory that was given back"), std::string::npos);
  launch.words.push_back(0);
  EXPECT_THROW(cuda::launch(device, functions, launch, stream.handle()), cuda::DeviceError);
  EXPECT_NE(complaints().find("an argument block of another size"), std::string::npos);
}

// --- the formula

TEST(CudaLaunch, GridsFollowSizesAndLimits) {
  const cuda::DeviceLimits h100{90, 132, 2048};
  const auto steps = [&](Schedule schedule, std::vector<bool> reduced, std::vector<int64_t> extents) {
    const LoopNest nest = doubling(schedule, reduced);
    const Launch launch = launch_of(nest, extents);
    Geometry geometry{extents, {}};
    for (size_t p = 0; p < nest.params.size(); ++p) {
      for (const int64_t stride : launch.operands[p].strides) geometry.strides.push_back(stride * 4);
      geometry.strides.push_back(0);
    }
    return cuda::prepare(nest, geometry, {}, h100).steps;
  };
  using Steps = std::vector<cuda::GridStep>;
  EXPECT_EQ(steps(Schedule::map, {false, false}, {4096, 4096}), (Steps{{{Team::tile, true}, 132 * 8, 256}}));   // one axis, merged
  EXPECT_EQ(steps(Schedule::map, {false}, {1000}), (Steps{{{Team::tile, true}, 1, 256}}));
  EXPECT_EQ(steps(Schedule::map, {false}, {5}), (Steps{{{Team::tile, true}, 1, 32}}));
  EXPECT_EQ(steps(Schedule::row, {false, true}, {100000, 768}), (Steps{{{Team::warp, true}, 132 * 8, 256}}));
  EXPECT_EQ(steps(Schedule::row, {false, true}, {4096, 8192}), (Steps{{{Team::block, true}, 132 * 8, 256}}));
  EXPECT_EQ(steps(Schedule::row, {false, true}, {64, 4096}), (Steps{{{Team::block, true}, 64, 128}}));
  EXPECT_EQ(steps(Schedule::row, {false, true}, {1, 1 << 22}), (Steps{{{Team::partial, true}, 512, 256}, {{Team::finish, true}, 1, 512}}));
  EXPECT_EQ(steps(Schedule::column, {true, false}, {8192, 768}), (Steps{{{Team::partial, true}, 24 * 8, 256}, {{Team::finish, true}, 24, 256}}));
  EXPECT_EQ(steps(Schedule::column, {true, false}, {1000, 768}), (Steps{{{Team::block, true}, 24, 256}}));
  EXPECT_EQ(steps(Schedule::column, {true, false}, {8192, 100000}), (Steps{{{Team::block, true}, 132 * 8, 256}}));
  EXPECT_TRUE(steps(Schedule::map, {false, false}, {0, 5}).empty());
}

}  // namespace
}  // namespace escapement::testing

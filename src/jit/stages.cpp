// See stages.h. Each row's functions are found by its name, so that a row without them does not compile.
#include "jit/stages.h"

#include <array>

#if ESCAPEMENT_WITH_LLVM
#include "jit/llvm/compile.h"
#include "jit/llvm/device/device.h"
#endif
#include "kernels/distribute_cat.h"
#include "specialize/channels_last.h"
#include "specialize/epilogue.h"
#include "specialize/passes.h"
#include "support/error.h"
#include "trace/expand.h"

namespace escapement {
namespace {

namespace run {

void record(Compiling&, const Options&) {}
void dce(Compiling& c, const Options&) { c.trace = remove_dead_code(c.trace); }
void early(Compiling& c, const Options&) { c.trace = check_early(c.trace); }
void expand(Compiling& c, const Options&) { c.trace = expand_composites(c.trace); }
void identities(Compiling& c, const Options&) { c.trace = remove_identities(c.trace); }
void cse(Compiling& c, const Options&) { c.trace = share_common_values(c.trace); }
void channels_last(Compiling& c, const Options&) { c.trace = make_channels_last(c.trace); }
void epilogue(Compiling& c, const Options&) { c.trace = mark_epilogues(c.trace); }
void dce_late(Compiling& c, const Options&) { c.trace = remove_dead_code(c.trace); }
void cat(Compiling& c, const Options&) { c.trace = distribute_cat(std::move(c.trace)); }

void plan(Compiling& c, const Options& options) {
  c.plan = make_plan(std::move(c.trace), {options.fuse, static_cast<int>(options.max_ops_per_kernel)});
}

void fuse(Compiling&, const Options&) {}
void ir(Compiling&, const Options&) {}
void optimised(Compiling&, const Options&) {}
void assembly(Compiling&, const Options&) {}
void device_ir(Compiling&, const Options&) {}
void ptx(Compiling&, const Options&) {}

}  // namespace run

const LaunchPlan& plan_of(const Compiling& c) {
  if (!c.plan) throw UserError("this stage shows a plan, and there is none yet: run `plan` before it");
  return *c.plan;
}

#if ESCAPEMENT_WITH_LLVM
std::string code_text(const Compiling& c, CodeText form) {
  std::vector<KernelSource> sources;
  for (const Kernel& kernel : plan_of(c).kernels) sources.push_back({&kernel.nest, Variant::fast, kernel.name});
  return sources.empty() ? "" : CodeGenerator::instance().text(sources, form);
}

// A kernel for each team that suits the nest's layout as it is expected.
std::vector<DeviceSource> device_sources(const Compiling& c) {
  std::vector<DeviceSource> sources;
  for (const Kernel& kernel : plan_of(c).kernels) {
    for (const Team team : {Team::tile, Team::warp, Team::block}) {
      const DeviceVariant variant{team, true};
      if (has_team(kernel.nest, variant)) sources.push_back({&kernel.nest, variant, kernel.name + "_" + name_of(variant)});
    }
  }
  return sources;
}

std::string device_text(const Compiling& c) { return device_ir(device_sources(c)); }
std::string ptx_text(const Compiling& c) { return device_ptx(device_sources(c), DeviceTarget{}); }
#else
enum class CodeText : uint8_t { ir, optimised, assembly };
std::string code_text(const Compiling&, CodeText) { throw UserError("this was built without LLVM"); }
std::string device_text(const Compiling& c) { return code_text(c, CodeText::ir); }
std::string ptx_text(const Compiling& c) { return code_text(c, CodeText::ir); }
#endif

namespace text {

std::string trace(const Compiling& c) { return print(c.trace); }
constexpr auto record = trace, dce = trace, early = trace, expand = trace, identities = trace, cse = trace, channels_last = trace, epilogue = trace, dce_late = trace, cat = trace;
std::string plan(const Compiling& c) { return print(plan_of(c)); }
std::string fuse(const Compiling& c) { return print_steps(plan_of(c)); }
std::string ir(const Compiling& c) { return code_text(c, CodeText::ir); }
std::string optimised(const Compiling& c) { return code_text(c, CodeText::optimised); }
std::string assembly(const Compiling& c) { return code_text(c, CodeText::assembly); }
std::string device_ir(const Compiling& c) { return device_text(c); }
std::string ptx(const Compiling& c) { return ptx_text(c); }

}  // namespace text

}  // namespace

std::span<const CompileStage> compile_stages() {
  static constexpr std::array kStages{
#define STAGE(name, leaves, wanted, what)                                               \
  CompileStage{#name, what, CompileStage::Leaves::leaves, run::name, text::name,        \
               []([[maybe_unused]] const Options& options) -> bool { return wanted; }},
#include "support/stages.def"
#undef STAGE
  };
  return kStages;
}

}  // namespace escapement

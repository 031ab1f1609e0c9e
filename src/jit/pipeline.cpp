// From a generic trace to machine code: the stages of support/stages.def in order, then code generation.
#include "jit/pipeline.h"

#include <algorithm>
#include <chrono>
#include <cstdio>

#include "jit/device_kernels.h"
#include "jit/kernel_cache.h"
#include "jit/llvm/compile.h"
#include "jit/stages.h"
#include "support/float_mode.h"
#include "support/text.h"

namespace escapement {
namespace {

using Clock = std::chrono::steady_clock;

void show(const CompileStage& stage, const Compiling& compiling) {
  std::fprintf(stderr, "--- %s: %s\n%s\n", std::string(stage.name).c_str(), std::string(stage.what).c_str(), stage.text(compiling).c_str());
}

void check(const CompileStage& stage, const Compiling& compiling) {
  if (stage.leaves == CompileStage::Leaves::trace) verify(compiling.trace);
  if (stage.leaves == CompileStage::Leaves::plan) verify(*compiling.plan);
}

// Timed and verified here; a stage does neither itself.
StepTime run(const CompileStage& stage, Compiling& compiling, const Options& options) {
  const Clock::time_point start = Clock::now();
  stage.run(compiling, options);
  const double milliseconds = std::chrono::duration<double, std::milli>(Clock::now() - start).count();
  if (options.verify) check(stage, compiling);
  return {std::string(stage.name), milliseconds};
}

// Layouts between convolutions and epilogues of linear layers suit the processor's library.
Options for_device(Options options) {
  options.pack_weights = false;
  return options;
}

}  // namespace

std::shared_ptr<const Compiled> compile(const Trace& generic, const Options& given, const ObjectCode* objects, Target target) {
  const Options options = target == Target::device ? for_device(given) : given;
  const FloatModeGuard plain(kPlainFloatMode);   // the code serves callers that flush denormals and those that do not
  Compiling compiling{generic, {}};
  auto compiled = std::make_shared<Compiled>();
  const std::vector<std::string_view> dumped = names_in(options.dump);
  for (const CompileStage& stage : compile_stages()) {
    if (!stage.is_wanted(options)) continue;
    if (stage.leaves != CompileStage::Leaves::text) compiled->times.push_back(run(stage, compiling, options));
    if (std::ranges::find(dumped, stage.name) != dumped.end()) show(stage, compiling);
  }
  compiled->plan = std::move(*compiling.plan);
  const Clock::time_point start = Clock::now();
  if (target == Target::device) keep_off_arena(compiled->plan);
  compiled->code = target == Target::device ? device_code_for(compiled->plan.kernels) : code_for(compiled->plan.kernels, objects);
  compiled->times.push_back({"codegen", std::chrono::duration<double, std::milli>(Clock::now() - start).count()});
  compiled->guards = compile_guards;
  return compiled;
}

ObjectCode object_code(const Compiled& compiled) {
  ObjectCode objects;
  for (size_t i = 0; i < compiled.code.size(); ++i) add_objects(compiled.plan.kernels[i], *compiled.code[i], objects);
  return objects;
}

}  // namespace escapement

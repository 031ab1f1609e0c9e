// KernelEmitter sources to LLVM modules to machine code. Kernels are spread over up to kModules modules, compiled concurrently; every
// module is verified. No middle-end passes: bodies are already vectorised and free of dead code, and LLVM's O2 pipeline would
// double the compile time for nothing. Code for given sizes is the exception: there they unroll short rows.
#include <llvm/ADT/StringExtras.h>
#include <llvm/Support/SHA256.h>

#include <algorithm>
#include <shared_mutex>
#include <thread>

#include "jit/llvm/emit_guards.h"
#include "jit/llvm/kernel.h"
#include "jit/llvm/known_masks.h"
#include "jit/llvm/known_values.h"
#include "jit/llvm/modules.h"
#include "support/error.h"

namespace escapement {

namespace {

constexpr size_t kModules = 8;
constexpr size_t kKernelsPerModule = 2;  // fewer are not worth a thread

llvm::Function* declare(llvm::Module& module, const std::string& name, const TargetInfo& target) {
  llvm::LLVMContext& c = module.getContext();
  llvm::Type* i64 = llvm::Type::getInt64Ty(c);
  auto* type = llvm::FunctionType::get(llvm::Type::getVoidTy(c), {llvm::PointerType::get(c, 0), i64, i64, i64, i64}, false);
  auto* function = llvm::Function::Create(type, llvm::Function::ExternalLinkage, name, module);
  function->addFnAttr(llvm::Attribute::NoUnwind);
  function->addFnAttr("prefer-vector-width", std::to_string(target.vector_bits));
  function->addFnAttr("min-legal-vector-width", std::to_string(target.vector_bits));
  return function;
}

void emit(llvm::Module& module, const KernelSource& source, const TargetInfo& target) {
  bool split = source.variant == Variant::partial || source.variant == Variant::finish;
  ESCAPEMENT_CHECK(!split || can_split(*source.nest), "this nest has no partial and finish variants");
  ESCAPEMENT_CHECK(source.variant != Variant::block || has_block(*source.nest), "this nest has no block variant");
  ESCAPEMENT_CHECK(source.variant != Variant::tile || has_tile(*source.nest), "this nest has no tile variant");
  ESCAPEMENT_CHECK(source.variant != Variant::strided || has_strided(*source.nest), "this nest has no strided variant");
  ESCAPEMENT_CHECK(source.variant != Variant::alone || has_alone(*source.nest), "this nest has no variant for one column");
  llvm::Function& function = *declare(module, source.name, target);
  KernelEmitter kernel(function, *source.nest, source.variant, target, source.sizes);
  switch (source.nest->schedule) {
    case Schedule::map: source.variant == Variant::tile ? emit_tile(kernel) : emit_map(kernel); break;
    case Schedule::row: source.variant == Variant::block ? emit_block(kernel) : emit_row(kernel); break;
    case Schedule::column:
      if (source.variant == Variant::alone) emit_row(kernel);
      else source.variant == Variant::block ? emit_block(kernel) : emit_column(kernel);
      break;
  }
  kernel.ir.finish();
  settle_known_values(function);
}

OwnedModule new_module(Jit& jit) { return escapement::new_module(jit.data_layout(), jit.triple()); }

std::string sha256(std::string_view text) {
  const auto* data = reinterpret_cast<const uint8_t*>(text.data());
  return llvm::toHex(llvm::SHA256::hash(llvm::ArrayRef<uint8_t>(data, text.size())), /*LowerCase=*/true);
}

constexpr const char* kGuards = "guards";

OwnedModule build(Jit& jit, const GuardProgram& program) {
  OwnedModule result = new_module(jit);
  emit_guards(*result.module, kGuards, program);
  verify(*result.module);
  return result;
}

void optimise(Jit& jit, llvm::Module& module) {
  jit.optimise(module);
  store_known_lanes(module);
}

OwnedModule build(Jit& jit, const std::vector<KernelSource>& sources, size_t begin, size_t end) {
  OwnedModule result = new_module(jit);
  for (size_t i = begin; i < end; ++i) emit(*result.module, sources[i], jit.target());
  verify(*result.module);
  // Code for given sizes is made while nobody waits. The optimiser keeps every bit of the results: no instruction allows it to do
  // otherwise.
  if (sources[begin].sizes != nullptr) optimise(jit, *result.module);
  return result;
}

class LinkedCode final : public CodeModule {
 public:
  LinkedCode(std::unique_ptr<CompiledModules> modules, const std::vector<std::string>& names)
      : modules_(std::move(modules)), addresses_(modules_->addresses(names)) {}
  ~LinkedCode() override {
    const std::shared_lock lock(inside_llvm());
    modules_.reset();
  }
  KernelFunction function(size_t index) const override { return reinterpret_cast<KernelFunction>(addresses_[index]); }

 private:
  std::unique_ptr<CompiledModules> modules_;
  std::vector<void*> addresses_;
};

class Generator final : public CodeGenerator {
 public:
  std::unique_ptr<CodeModule> compile(const std::vector<KernelSource>& sources) override {
    const std::shared_lock lock(inside_llvm());
    size_t threads = std::clamp<size_t>(std::thread::hardware_concurrency(), 1, kModules);
    size_t count = std::clamp<size_t>(sources.size() / kKernelsPerModule, 1, threads);
    std::vector<OwnedModule> modules;
    for (size_t m = 0; m < count; ++m)
      modules.push_back(build(jit_, sources, m * sources.size() / count, (m + 1) * sources.size() / count));
    std::vector<std::string> names;
    for (const KernelSource& s : sources) names.push_back(s.name);
    return std::make_unique<LinkedCode>(jit_.add(std::move(modules), names), names);
  }

  void make_object(const KernelSource& source, ObjectCode& into) override {
    const std::shared_lock lock(inside_llvm());
    const OwnedModule module = build(jit_, {source}, 0, 1);
    const std::string key = key_of(*module.module);
    if (into.contains(key)) return;
    std::string bytes = jit_.object(*module.module);
    std::string digest = sha256(bytes);
    into.emplace(key, ObjectBytes{std::move(digest), std::move(bytes)});
  }

  std::unique_ptr<CodeModule> link(const KernelSource& source, const ObjectCode& objects) override {
    const std::shared_lock lock(inside_llvm());
    const auto found = objects.find(key_of(*build(jit_, {source}, 0, 1).module));
    if (found == objects.end() || sha256(found->second.bytes) != found->second.digest) return nullptr;
    return std::make_unique<LinkedCode>(jit_.link(found->second.bytes, {source.name}), std::vector{source.name});
  }

  std::string text(const std::vector<KernelSource>& sources, CodeText form) override {
    const std::shared_lock lock(inside_llvm());
    const OwnedModule module = build(jit_, sources, 0, sources.size());
    if (form == CodeText::assembly) return jit_.assembly(*module.module);
    if (form == CodeText::optimised) optimise(jit_, *module.module);
    return text_of(*module.module);
  }

  const TargetInfo& target() const override { return jit_.target(); }

  GuardCode compile_guards(const GuardProgram& program) override {
    const std::shared_lock lock(inside_llvm());
    std::vector<OwnedModule> modules;
    modules.push_back(build(jit_, program));
    const std::shared_ptr<const CompiledModules> code = jit_.add(std::move(modules), {kGuards});
    return {reinterpret_cast<bool (*)(int64_t*)>(code->addresses({kGuards})[0]), code};
  }

  std::string ir_text(const GuardProgram& program) override { return text_of(*build(jit_, program).module); }

 private:
  std::string key_of(const llvm::Module& module) const { return sha256(jit_.settings() + text_of(module)); }

  Jit& jit_ = Jit::instance();
};

}  // namespace

CodeGenerator& CodeGenerator::instance() {
  static Generator* generator = new Generator;  // never destroyed: kernels may be freed during exit
  return *generator;
}

GuardCode compile_guards(const GuardProgram& program) { return CodeGenerator::instance().compile_guards(program); }

bool can_split(const LoopNest& nest) {
  if (nest.schedule != Schedule::row || nest.stages.empty()) return false;
  const Stage& first = nest.stages.front();
  return first.kind == Stage::Kind::each_element && !first.reductions.empty();
}

}  // namespace escapement

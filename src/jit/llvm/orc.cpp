// LLJIT set up as orc.h promises. IR becomes objects outside of LLJIT, on the caller's thread and, for several modules, on threads
// of ours: LLJIT's own compiler is not safe for concurrent use, or makes a TargetMachine and a thread for each module, which cost
// more than a small kernel. LLJIT links. Other defaults of LLVM that are wrong for us: the large code model (constants through
// movabs), symbol search in the process (we resolve the few run-time routines the backend may call ourselves, so a hidden library
// links too).
#include "jit/llvm/orc.h"

#include <llvm/ADT/SmallString.h>
#include <llvm/Analysis/TargetLibraryInfo.h>
#include <llvm/Config/llvm-config.h>
#include <llvm/ExecutionEngine/JITLink/JITLinkMemoryManager.h>
#include <llvm/ExecutionEngine/Orc/AbsoluteSymbols.h>
#include <llvm/ExecutionEngine/Orc/CompileUtils.h>
#include <llvm/ExecutionEngine/Orc/LLJIT.h>
#include <llvm/ExecutionEngine/Orc/ObjectLinkingLayer.h>
#include <llvm/IR/LegacyPassManager.h>
#include <llvm/Passes/PassBuilder.h>
#include <llvm/Support/CommandLine.h>
#include <llvm/Support/ErrorHandling.h>
#include <llvm/Support/MemoryBuffer.h>
#include <llvm/Support/TargetSelect.h>
#include <llvm/Support/VirtualFileSystem.h>
#include <llvm/Support/raw_ostream.h>
#include <llvm/Target/TargetMachine.h>

#include <atomic>
#include <cmath>
#include <cstring>
#include <exception>
#include <mutex>
#include <new>
#include <system_error>
#include <thread>

#include "jit/llvm/llvm_compat.h"
#include "jit/llvm/perf_map.h"
#include "jit/run/row_block.h"
#include "support/error.h"
#include "trace/scalar.h"

namespace escapement {

namespace orc = llvm::orc;

namespace {

void check(llvm::Error error) {
  if (error) throw InternalError("LLVM: " + llvm::toString(std::move(error)));
}

template <class T>
T take(llvm::Expected<T> value) {
  if (!value) check(value.takeError());
  return static_cast<T&&>(*value);
}

// --- routines that code generation may call on hosts without the instruction (F16C, SSE4.1, FMA)

extern "C" float escapement_extend_half(uint16_t half) {
  uint64_t bits = load_bits(&half, DType::f16);
  float value;
  std::memcpy(&value, &bits, sizeof value);
  return value;
}
extern "C" uint16_t escapement_truncate_half(float value) {
  uint32_t bits;
  uint16_t half;
  std::memcpy(&bits, &value, sizeof bits);
  store_bits(&half, DType::f16, bits);
  return half;
}

orc::SymbolMap runtime_symbols(orc::LLJIT& jit) {
  orc::SymbolMap symbols;
  auto add = [&](const char* name, auto* function) {
    auto flags = llvm::JITSymbolFlags::Exported | llvm::JITSymbolFlags::Callable;
    symbols[jit.mangleAndIntern(name)] = {orc::ExecutorAddr::fromPtr(function), flags};
  };
  add("memcpy", &std::memcpy);
  add("memmove", &std::memmove);
  add("memset", &std::memset);
  add("__extendhfsf2", &escapement_extend_half);
  add("__truncsfhf2", &escapement_truncate_half);
  add("fmaf", static_cast<float (*)(float, float, float)>(&::fmaf));
  add("fma", static_cast<double (*)(double, double, double)>(&::fma));
  add("rintf", static_cast<float (*)(float)>(&::rintf));
  add("rint", static_cast<double (*)(double)>(&::rint));
  add("floorf", static_cast<float (*)(float)>(&::floorf));
  add("floor", static_cast<double (*)(double)>(&::floor));
  add("ceilf", static_cast<float (*)(float)>(&::ceilf));
  add("ceil", static_cast<double (*)(double)>(&::ceil));
  for (const int64_t element : {1, 2, 4, 8}) {
    add(gather_rows_symbol(element).c_str(), gather_rows(element));
    add(scatter_rows_symbol(element).c_str(), scatter_rows(element));
  }
  add("truncf", static_cast<float (*)(float)>(&::truncf));
  add("trunc", static_cast<double (*)(double)>(&::trunc));
  return symbols;
}

// --- the JIT

std::unique_ptr<orc::LLJIT> create_jit(const orc::JITTargetMachineBuilder& machine) {
  orc::LLJITBuilder builder;
  builder.setJITTargetMachineBuilder(machine)
      .setLinkProcessSymbolsByDefault(false)
      .setPlatformSetUp(orc::setUpInactivePlatform)  // no static constructors, no thread-local data
      .setObjectLinkingLayerCreator(
          [](ESCAPEMENT_LINKING_LAYER_PARAMETERS(session)) -> llvm::Expected<std::unique_ptr<orc::ObjectLayer>> {
            auto memory = llvm::jitlink::InProcessMemoryManager::Create();
            if (!memory) return memory.takeError();
            auto layer = std::make_unique<orc::ObjectLinkingLayer>(session, std::move(*memory));
            if (auto names = perf_map()) layer->addPlugin(std::move(names));
            return layer;
          });
  return take(builder.create());
}

// Loop strength reduction costs a fifth of the compile time and gains nothing: our loops have one index, and every address is
// base + scaled index. There is no other way to leave a pass of the code generator out.
void disable_loop_strength_reduction() {
  auto& options = llvm::cl::getRegisteredOptions();
  if (auto option = options.find("disable-lsr"); option != options.end()) option->second->addOccurrence(0, "disable-lsr", "true");
}

// LLVM ends the process where it finds no memory or meets what it cannot do. Here that ends a compile instead. Its own functions have no
// clean-up for exceptions, so what they were working on is in no known state and its locks stay locked: modules, target machines and
// sessions that an exception left are neither used again nor taken apart.
class FatalError : public InternalError {
 public:
  explicit FatalError(const char* reason) : InternalError(std::string("LLVM: ") + reason, Reason::compile_failed) {}
};

void survive_fatal_errors() {
  llvm::install_bad_alloc_error_handler([](void*, const char*, bool) { throw std::bad_alloc(); });
  llvm::install_fatal_error_handler([](void*, const char* reason, bool) { throw FatalError(reason); });
}

orc::JITTargetMachineBuilder host_machine() {
  survive_fatal_errors();
  disable_loop_strength_reduction();
  // LLVM frees this object at exit, and its optimiser uses it. Made here, it is freed after the background thread has ended; made by
  // that thread, it would be freed before.
  llvm::vfs::getRealFileSystem();
  llvm::InitializeNativeTarget();
  llvm::InitializeNativeTargetAsmPrinter();
  auto machine = take(orc::JITTargetMachineBuilder::detectHost());
  machine.setRelocationModel(llvm::Reloc::PIC_)
      .setCodeModel(llvm::CodeModel::Small)
      .setCodeGenOptLevel(llvm::CodeGenOptLevel::Default);
  return machine;
}

// --- IR to objects

using Object = std::unique_ptr<llvm::MemoryBuffer>;

// Joins, whatever happens: a thread that is not joined ends the process.
class Helpers {
 public:
  ~Helpers() { join(); }
  // False: no thread is to be had.
  template <class Work>
  bool start(const Work& work) {
    try {
      threads_.emplace_back(work);
      return true;
    } catch (const std::system_error&) {
      return false;
    }
  }
  void join() {
    for (std::thread& thread : threads_) thread.join();
    threads_.clear();
  }

 private:
  std::vector<std::thread> threads_;
};

// TargetMachines are not safe for concurrent use and slow to make: kept for the next compile. One that an exception left is not used
// again, nor taken apart.
class Compiler {
 public:
  explicit Compiler(orc::JITTargetMachineBuilder builder) : builder_(std::move(builder)) {}

  Object compile(llvm::Module& module) {
    llvm::TargetMachine* const machine = acquire().release();
    Object object = take(orc::SimpleCompiler(*machine)(module));
    release(std::unique_ptr<llvm::TargetMachine>(machine));
    return object;
  }

  std::string assembly(llvm::Module& module) {
    std::unique_ptr<llvm::TargetMachine> machine = acquire();
    llvm::SmallString<0> text;
    llvm::raw_svector_ostream stream(text);
    llvm::legacy::PassManager passes;
    if (machine->addPassesToEmitFile(passes, stream, nullptr, llvm::CodeGenFileType::AssemblyFile)) throw InternalError("this target has no assembly language");
    passes.run(module);
    release(std::move(machine));
    return text.str().str();
  }

  void optimise(llvm::Module& module) {
    std::unique_ptr<llvm::TargetMachine> machine = acquire();
    llvm::LoopAnalysisManager loops;
    llvm::FunctionAnalysisManager functions;
    llvm::CGSCCAnalysisManager components;
    llvm::ModuleAnalysisManager modules;
    llvm::TargetLibraryInfoImpl library(machine->getTargetTriple());
    library.disableAllFunctions();
    functions.registerPass([&] { return llvm::TargetLibraryAnalysis(library); });
    llvm::PassBuilder passes(machine.get());
    passes.registerModuleAnalyses(modules);
    passes.registerCGSCCAnalyses(components);
    passes.registerFunctionAnalyses(functions);
    passes.registerLoopAnalyses(loops);
    passes.crossRegisterProxies(loops, functions, components, modules);
    passes.buildPerModuleDefaultPipeline(llvm::OptimizationLevel::O2).run(module, modules);
    release(std::move(machine));
  }

  // One thread per module, the caller's included.
  std::vector<Object> compile_all(std::vector<OwnedModule>& modules) {
    std::vector<Object> objects(modules.size());
    std::vector<std::exception_ptr> failures(modules.size());
    auto compile_one = [&](size_t i) {
      try {
        objects[i] = compile(*modules[i].module);
      } catch (...) {
        failures[i] = std::current_exception();
      }
    };
    Helpers helpers;
    for (size_t i = 1; i < modules.size(); ++i)
      if (!helpers.start([&compile_one, i] { compile_one(i); })) compile_one(i);
    compile_one(0);
    helpers.join();
    for (const std::exception_ptr& failure : failures)
      if (failure) std::rethrow_exception(failure);
    return objects;
  }

 private:
  std::unique_ptr<llvm::TargetMachine> acquire() {
    const std::lock_guard lock(mutex_);
    if (idle_.empty()) return take(builder_.createTargetMachine());
    std::unique_ptr<llvm::TargetMachine> machine = std::move(idle_.back());
    idle_.pop_back();
    return machine;
  }

  void release(std::unique_ptr<llvm::TargetMachine> machine) {
    const std::lock_guard lock(mutex_);
    idle_.push_back(std::move(machine));
  }

  std::mutex mutex_;
  orc::JITTargetMachineBuilder builder_;
  std::vector<std::unique_ptr<llvm::TargetMachine>> idle_;
};

TargetInfo describe(const orc::JITTargetMachineBuilder& machine) {
  TargetInfo info{machine.getCPU(), machine.getFeatures().getString(), 128};
  auto has = [&](const char* feature) { return ("," + info.features + ",").find("," + std::string(feature) + ",") != std::string::npos; };
  if (has("+avx2")) info.vector_bits = 256;
  if (has("+avx512f") && has("+avx512bw") && has("+avx512vl")) info.vector_bits = 512;
  info.converts_bf16 = info.vector_bits == 512 && has("+avx512bf16") && has("+avx512dq");
  return info;
}

// What links, and the routines that every kernel may call.
struct Session {
  explicit Session(const orc::JITTargetMachineBuilder& machine) : jit(create_jit(machine)), runtime(take(jit->createJITDylib("runtime"))) {
    check(runtime.define(orc::absoluteSymbols(runtime_symbols(*jit))));
  }
  std::unique_ptr<orc::LLJIT> jit;
  orc::JITDylib& runtime;
  std::atomic<bool> broken{false};   // an exception left it
};

class Modules final : public CompiledModules {
 public:
  Modules(Session& session, orc::JITDylib& dylib) : session_(session), jit_(*session.jit), dylib_(dylib) {}
  ~Modules() override {  // an error here means that LLVM lost track of its own memory: leak it
    if (session_.broken || std::uncaught_exceptions() != 0) return;
    llvm::consumeError(dylib_.clear());
    llvm::consumeError(jit_.getExecutionSession().removeJITDylib(dylib_));
  }

  std::vector<void*> addresses(const std::vector<std::string>& names) const override {
    orc::SymbolLookupSet set;
    for (const std::string& name : names) set.add(jit_.mangleAndIntern(name));
    auto found = take(jit_.getExecutionSession().lookup({{&dylib_, orc::JITDylibLookupFlags::MatchAllSymbols}}, std::move(set)));
    std::vector<void*> result;
    for (const std::string& name : names) result.push_back(found[jit_.mangleAndIntern(name)].getAddress().toPtr<void*>());
    return result;
  }

 private:
  Session& session_;
  orc::LLJIT& jit_;
  orc::JITDylib& dylib_;
};

class OrcJit final : public Jit {
 public:
  OrcJit() : OrcJit(host_machine()) {}

  const TargetInfo& target() const override { return target_; }
  const llvm::DataLayout& data_layout() const override { return first_->jit->getDataLayout(); }
  const llvm::Triple& triple() const override { return first_->jit->getTargetTriple(); }

  void optimise(llvm::Module& module) override { compiler_.optimise(module); }

  std::string object(llvm::Module& module) override { return compiler_.compile(module)->getBuffer().str(); }

  std::string assembly(llvm::Module& module) override { return compiler_.assembly(module); }

  std::string settings() const override {
    return std::string(LLVM_VERSION_STRING) + "\n" + triple().str() + "\n" + target_.cpu + "\n" + target_.features +
           "\npic small default no-lsr\n";
  }

  std::unique_ptr<CompiledModules> link(const std::string& object, const std::vector<std::string>& names) override {
    std::vector<Object> objects;
    objects.push_back(llvm::MemoryBuffer::getMemBufferCopy(object, "package"));
    return link_all(std::move(objects), names);
  }

  std::unique_ptr<CompiledModules> add(std::vector<OwnedModule> modules, const std::vector<std::string>& names) override {
    return link_all(compiler_.compile_all(modules), names);
  }

 private:
  std::unique_ptr<CompiledModules> link_all(std::vector<Object> objects, const std::vector<std::string>& names) {
    Session& session = this->session();
    try {
      return link_in(session, std::move(objects), names);
    } catch (const FatalError&) {
      session.broken = true;
      throw;
    } catch (const std::bad_alloc&) {
      session.broken = true;
      throw;
    }
  }

  std::unique_ptr<CompiledModules> link_in(Session& session, std::vector<Object> objects, const std::vector<std::string>& names) {
    orc::JITDylib& dylib = take(session.jit->createJITDylib("kernels" + std::to_string(next_++)));
    dylib.addToLinkOrder(session.runtime);
    auto result = std::make_unique<Modules>(session, dylib);
    for (Object& object : objects) check(session.jit->addObjectFile(dylib, std::move(object)));
    result->addresses(names);  // links now, and throws here if it fails
    return result;
  }

  // A broken one keeps the code that runs, for ever; its successor links what comes.
  Session& session() {
    const std::lock_guard lock(mutex_);
    if (session_->broken) session_ = new Session(machine_);
    return *session_;
  }

  explicit OrcJit(const orc::JITTargetMachineBuilder& machine)
      : machine_(machine), target_(describe(machine)), compiler_(machine), first_(new Session(machine)), session_(first_) {}

  const orc::JITTargetMachineBuilder machine_;
  TargetInfo target_;
  Compiler compiler_;
  std::mutex mutex_;
  Session* const first_;    // never destroyed, like the others
  Session* session_;
  std::atomic<uint64_t> next_{0};
};

}  // namespace

Jit& Jit::instance() {
  static OrcJit* jit = new OrcJit;
  return *jit;
}

}  // namespace escapement

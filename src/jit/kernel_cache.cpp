// See kernel_cache.h. The fast variant of every new kernel of a plan is compiled in one module; the others at first need.
#include "jit/kernel_cache.h"

#include <array>
#include <atomic>
#include <unordered_map>

#include "jit/llvm/compile.h"
#include "jit/tuned_sizes.h"
#include "support/background.h"
#include "support/events.h"
#include "support/fork.h"

namespace escapement {
namespace {

std::string variant_symbol(const std::string& kernel, Variant variant) {
  static constexpr std::array<const char*, kVariants> kSuffix{"", "_general", "_partial", "_finish", "_block", "_strided", "_tile", "_alone"};
  return kernel + kSuffix[static_cast<size_t>(variant)];
}

class CompiledKernel final : public KernelCode, public std::enable_shared_from_this<CompiledKernel> {
 public:
  CompiledKernel(LoopNest nest, std::string name) : nest_(std::move(nest)), name_(std::move(name)) {}

  const LoopNest& nest() const override { return nest_; }
  const std::string& name() const { return name_; }
  bool has(Variant variant) const override {
    if (variant == Variant::block) return has_block(nest_);
    if (variant == Variant::tile) return has_tile(nest_);
    if (variant == Variant::strided) return has_strided(nest_);
    if (variant == Variant::alone) return has_alone(nest_);
    return variant == Variant::fast || variant == Variant::general || can_split(nest_);
  }

  KernelFunction function(Variant variant) override {
    const size_t i = static_cast<size_t>(variant);
    if (KernelFunction known = functions_[i].load(std::memory_order_acquire)) return known;
    const std::lock_guard turn(turn_);
    if (KernelFunction known = functions_[i].load(std::memory_order_relaxed)) return known;
    std::shared_ptr<CodeModule> module = CodeGenerator::instance().compile({{&nest_, variant, symbol(variant)}});
    install(variant, module, 0);
    return functions_[i].load(std::memory_order_relaxed);
  }

  void run(Variant variant, const KernelArgs& args, int64_t outer_begin, int64_t outer_end, int64_t inner_begin,
           int64_t inner_end) override {
    function(variant)(&args, outer_begin, outer_end, inner_begin, inner_end);
  }

  KernelFunction tuned(Variant variant, const Geometry& sizes, int64_t launches, int64_t hot) override {
    const TunedSizes::Noted noted = tuned_.note(variant, sizes, launches, hot);
    if (noted.wanted) {
      run_in_background([kernel = weak_from_this(), variant, sizes] {
        if (const auto alive = kernel.lock()) alive->tune(variant, sizes);
      });
    }
    return noted.function;
  }

  bool is_made(Variant variant) const override {
    return functions_[static_cast<size_t>(variant)].load(std::memory_order_acquire) != nullptr;
  }

  std::string symbol(Variant variant) const { return variant_symbol(name_, variant); }

  void install(Variant variant, std::shared_ptr<CodeModule> module, size_t index) {
    const size_t i = static_cast<size_t>(variant);
    const KernelFunction function = module->function(index);
    const std::lock_guard lock(mutex_);
    modules_[i] = std::move(module);   // the first: nothing is released
    functions_[i].store(function, std::memory_order_release);
  }

 private:
  void tune(Variant variant, const Geometry& sizes) {
    tuned_.install(variant, sizes, CodeGenerator::instance().compile({{&nest_, variant, symbol(variant) + "_sized", &sizes}}));
    count(Stat::kernels_tuned);
  }

  LoopNest nest_;
  std::string name_;
  TunedSizes tuned_;
  ForkTurn turn_;     // of compiling a variant
  ForkMutex mutex_;   // of the modules
  std::array<std::shared_ptr<CodeModule>, kVariants> modules_;
  std::array<std::atomic<KernelFunction>, kVariants> functions_{};
};

// Its lock is held for moments; kernels, which have such locks of their own, are neither made nor released under it.
struct Cache {
  ForkMutex mutex;
  std::unordered_multimap<uint64_t, std::weak_ptr<CompiledKernel>> entries;
};

Cache& cache() {
  static Cache* const instance = new Cache;  // never destroyed: kernels may be used during exit
  return *instance;
}

// Null: there is none. Others of the same key are looked at, and may have no other owner by then: `kept` lets go of them.
std::shared_ptr<CompiledKernel> find(Cache& c, uint64_t key, const LoopNest& nest) {
  std::vector<std::shared_ptr<CompiledKernel>> kept;
  const std::lock_guard lock(c.mutex);
  auto [begin, end] = c.entries.equal_range(key);
  for (auto it = begin; it != end;) {
    if (auto kernel = it->second.lock()) {
      if (structurally_equal(kernel->nest(), nest)) return kernel;
      kept.push_back(std::move(kernel));
      ++it;
    } else {
      it = c.entries.erase(it);
    }
  }
  return nullptr;
}

constexpr std::array<Variant, kVariants> kAllVariants{Variant::fast,  Variant::general, Variant::partial, Variant::finish,
                                                      Variant::block, Variant::strided, Variant::tile, Variant::alone};

// Every variant that the objects hold. Whether the fast one is among them.
bool link(CompiledKernel& kernel, const ObjectCode& objects) {
  for (const Variant variant : kAllVariants) {
    if (!kernel.has(variant)) continue;
    std::shared_ptr<CodeModule> module = CodeGenerator::instance().link({&kernel.nest(), variant, kernel.symbol(variant)}, objects);
    if (module) kernel.install(variant, std::move(module), 0);
  }
  const bool linked = kernel.is_made(Variant::fast);
  if (linked) count(Stat::package_kernels);
  else count(Reason::package_code_stale);
  return linked;
}

std::vector<std::shared_ptr<CompiledKernel>> not_linked(std::vector<std::shared_ptr<CompiledKernel>> kernels, const ObjectCode* objects) {
  if (objects != nullptr) std::erase_if(kernels, [&](const auto& kernel) { return link(*kernel, *objects); });
  return kernels;
}

void compile_together(const std::vector<std::shared_ptr<CompiledKernel>>& kernels) {
  if (kernels.empty()) return;
  count(Stat::kernels_compiled, static_cast<int64_t>(kernels.size()));
  std::vector<KernelSource> sources;
  for (const auto& kernel : kernels) sources.push_back({&kernel->nest(), Variant::fast, kernel->symbol(Variant::fast)});
  const std::shared_ptr<CodeModule> module = CodeGenerator::instance().compile(sources);
  for (size_t i = 0; i < kernels.size(); ++i) kernels[i]->install(Variant::fast, module, i);
}

}  // namespace

std::vector<std::shared_ptr<KernelCode>> code_for(const std::vector<Kernel>& kernels, const ObjectCode* objects) {
  Cache& c = cache();
  std::vector<std::shared_ptr<KernelCode>> result;
  std::vector<std::shared_ptr<CompiledKernel>> fresh;
  std::vector<uint64_t> fresh_keys;
  for (const Kernel& kernel : kernels) {
    const uint64_t key = structural_hash(kernel.nest);
    std::shared_ptr<CompiledKernel> code = find(c, key, kernel.nest);
    if (code) count(Stat::kernels_shared);
    if (!code) {
      code = std::make_shared<CompiledKernel>(kernel.nest, kernel.name);
      fresh.push_back(code);
      fresh_keys.push_back(key);
    }
    result.push_back(code);
  }
  // Compiled outside the lock: another thread may compile the same kernel, which costs time but never a wait.
  compile_together(not_linked(fresh, objects));
  const std::lock_guard lock(c.mutex);
  for (size_t i = 0; i < fresh.size(); ++i) c.entries.emplace(fresh_keys[i], fresh[i]);
  return result;
}

void add_objects(const Kernel& kernel, KernelCode& code, ObjectCode& into) {
  for (const Variant variant : kAllVariants) {
    if (code.is_made(variant)) CodeGenerator::instance().make_object({&kernel.nest, variant, variant_symbol(kernel.name, variant)}, into);
  }
}

}  // namespace escapement

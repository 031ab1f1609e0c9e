// What is noticed of a torch::nn module between calls. Code compiled from a recording holds the parameters that it found,
// by identity, and whatever else the module's code looked at as constants. Updates in place are seen, since those tensors
// are read anew; a member that is assigned (`linear->weight = other`, another child, train()) is not, so it must be
// noticed: the memory of every module object is compared with what it was when recorded. That needs the size of the
// object, which is known of torch's own classes, of the class that was passed to jit(), and of those that the user
// declares (watch_module).
//
// What was seen is kept: a tensor that takes another's place could else be given its address, and look the same.
//
// A tensor that a recording found, and that somebody else holds, must be named by one of the compared words; else a
// replacement would go unseen, and the recording is not kept (Reason::unwatched_module).
#pragma once

#include <ATen/core/Tensor.h>

#include <cstddef>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <typeinfo>
#include <vector>

#include "support/reason.h"
#include "torch/api/listing.h"

namespace torch::nn {
class Module;
}

namespace escapement {

void declare_module_size(const std::type_info& type, size_t size);
// `list`: tensors, modules and whatever else an object of the class keeps in memory of its own.
void declare_module_class(const std::type_info& type, size_t size, void (*list)(const torch::nn::Module& module, Listing& into));

// One state of a module and all modules below it.
class ModuleWatch {
 public:
  // Empty if some object's size is not known: `unknown` is its type then.
  static std::shared_ptr<const ModuleWatch> of(const std::shared_ptr<torch::nn::Module>& module, std::string& unknown);
  // Of a callable that may change itself, which is one object. What it captured by pointer or reference is its own affair.
  static std::shared_ptr<const ModuleWatch> of(std::span<const std::byte> callable);

  bool same() const;                               // is that still the state?
  std::optional<Reason> refuses(std::span<const at::Tensor> captured) const;  // of a recording that has just ended

 private:
  struct Object {
    std::shared_ptr<torch::nn::Module> module;     // kept, so that the memory may be looked at whatever happens to its parent
    const std::byte* memory = nullptr;
    std::vector<std::byte> seen;
    void (*list)(const torch::nn::Module& module, Listing& into) = nullptr;
    Listing listed{/*keeping=*/true};              // what the object keeps in memory of its own; its tensors are kept, too
  };
  static bool look_at(Object& object, std::string& unknown);
  bool names(const at::Tensor& tensor) const;
  bool is_module_ = true;
  std::vector<Object> objects_;
};

}  // namespace escapement

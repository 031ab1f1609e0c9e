// See script_state.h.
#include "torch/script/script_state.h"

#include <ATen/core/Dict.h>
#include <ATen/core/List.h>

#include <algorithm>
#include <bit>

#include "torch/api/jit_modules.h"

namespace escapement {

namespace {

constexpr size_t kDeepest = 64;   // objects in objects: whatever is further in is not compared, and so never the same

// Each value begins with its kind: None, 0, 0.0 and False are four.
enum class Kind : uint8_t { none, tensor, integer, real, complex, truth, text, device, object, list, tuple, table, other, seen_above };

class Lister {
 public:
  explicit Lister(Listing& into) : into_(into) {}

  void add(const c10::IValue& value) {
    if (value.isTensor()) return kind(Kind::tensor), into_.tensor(value.toTensor());
    if (value.isInt()) return kind(Kind::integer), into_.number(static_cast<uint64_t>(value.toInt()));
    if (value.isDouble()) return kind(Kind::real), real(value.toDouble());
    if (value.isBool()) return kind(Kind::truth), into_.number(value.toBool());
    if (value.isString()) return kind(Kind::text), into_.text(value.toStringRef());
    if (value.isNone()) return kind(Kind::none);
    if (value.isComplexDouble()) return kind(Kind::complex), real(value.toComplexDouble().real()), real(value.toComplexDouble().imag());
    if (value.isDevice()) return kind(Kind::device), device(value.toDevice());
    if (value.isObject() || value.isList() || value.isTuple() || value.isGenericDict()) return container(value);
    kind(Kind::other);
    value.isPtrType() ? into_.value(value.internalToPointer(), value) : into_.never_equal();
  }

 private:
  void kind(Kind which) { into_.number(static_cast<uint64_t>(which)); }
  void real(double value) { into_.number(std::bit_cast<uint64_t>(value)); }
  void device(c10::Device which) {
    into_.number(static_cast<uint64_t>(which.type()));
    into_.number(static_cast<uint64_t>(which.index()));
  }

  // What stands in it is compared, too: a program may append to it. One that stands in itself is gone through once.
  void container(const c10::IValue& value) {
    const void* const self = value.internalToPointer();
    const bool seen = std::ranges::find(above_, self) != above_.end();
    if (seen) kind(Kind::seen_above);
    into_.value(self, value);
    if (seen) return;
    if (above_.size() == kDeepest) return into_.never_equal();
    above_.push_back(self);
    parts(value);
    above_.pop_back();
  }

  void parts(const c10::IValue& value) {
    if (value.isObject()) return kind(Kind::object), all(value.toObjectRef().slots());
    if (value.isList()) return kind(Kind::list), all(value.toListRef());
    if (value.isTuple()) return kind(Kind::tuple), all(value.toTupleRef().elements().asArrayRef());
    const auto table = value.toGenericDict();
    kind(Kind::table);
    into_.number(table.size());
    for (const auto& entry : table) {
      add(entry.key());
      add(entry.value());
    }
  }

  void all(c10::ArrayRef<c10::IValue> values) {
    into_.number(values.size());
    for (const c10::IValue& value : values) add(value);
  }

  Listing& into_;
  std::vector<const void*> above_;   // what the value stands in
};

void list_state(const torch::nn::Module& module, Listing& into) { static_cast<const ScriptState&>(module).list(into); }

}  // namespace

ScriptState::ScriptState(c10::intrusive_ptr<c10::ivalue::Object> object, std::vector<at::Tensor> constants)
    : object_(std::move(object)), constants_(std::move(constants)) {
  declare_module_class(typeid(ScriptState), sizeof(ScriptState), list_state);
}

void ScriptState::list(Listing& into) const {
  for (const at::Tensor& constant : constants_) into.tensor(constant);
  Lister(into).add(object_);
}

}  // namespace escapement

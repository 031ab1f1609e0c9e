// See script_state.h.
#include "torch/script/script_state.h"

#include <ATen/core/Dict.h>
#include <ATen/core/List.h>

#include <bit>
#include <functional>
#include <string>

#include "torch/api/jit_modules.h"

namespace escapement {

namespace {

using Pointers = std::vector<const void*>;

constexpr int kDeepest = 64;   // objects in objects: a circle of them ends here

const void* as_word(uint64_t bits) { return reinterpret_cast<const void*>(bits); }

void list_value(const c10::IValue& value, int depth, Pointers& into);

void list_object(const c10::ivalue::Object& object, int depth, Pointers& into) {
  for (const c10::IValue& slot : object.slots()) list_value(slot, depth, into);
}

// What stands in a list or a table is compared, too: a program may append to it.
void list_value(const c10::IValue& value, int depth, Pointers& into) {
  if (depth == kDeepest) return;
  if (value.isTensor()) return into.push_back(value.toTensor().unsafeGetTensorImpl());
  if (value.isInt()) return into.push_back(as_word(static_cast<uint64_t>(value.toInt())));
  if (value.isDouble()) return into.push_back(as_word(std::bit_cast<uint64_t>(value.toDouble())));
  if (value.isBool()) return into.push_back(as_word(value.toBool()));
  if (value.isString()) return into.push_back(as_word(std::hash<std::string_view>()(value.toStringRef())));
  if (value.isNone()) return into.push_back(nullptr);
  if (value.isObject()) return into.push_back(&value.toObjectRef()), list_object(value.toObjectRef(), depth + 1, into);
  if (value.isPtrType()) into.push_back(value.internalToPointer());
  if (value.isList()) {
    into.push_back(as_word(value.toListRef().size()));
    for (const c10::IValue& item : value.toListRef()) list_value(item, depth + 1, into);
  } else if (value.isTuple()) {
    for (const c10::IValue& item : value.toTupleRef().elements()) list_value(item, depth + 1, into);
  } else if (value.isGenericDict()) {
    for (const auto& entry : value.toGenericDict()) {
      list_value(entry.key(), depth + 1, into);
      list_value(entry.value(), depth + 1, into);
    }
  }
}

void list_state(const torch::nn::Module& module, Pointers& into) { static_cast<const ScriptState&>(module).list(into); }

}  // namespace

ScriptState::ScriptState(c10::intrusive_ptr<c10::ivalue::Object> object, std::vector<at::Tensor> constants)
    : object_(std::move(object)), constants_(std::move(constants)) {
  declare_module_class(typeid(ScriptState), sizeof(ScriptState), list_state);
}

void ScriptState::list(Pointers& into) const {
  for (const at::Tensor& constant : constants_) into.push_back(constant.unsafeGetTensorImpl());
  list_object(*object_, 0, into);
}

}  // namespace escapement

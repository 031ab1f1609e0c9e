// The values of ScriptRun (script_run.h): what operators take of symbols, containers, numbers that are tensors, arithmetic.
#include <ATen/core/Dict.h>
#include <ATen/core/List.h>
#include <ATen/ops/scalar_tensor.h>

#include <algorithm>
#include <array>
#include <string_view>
#include <utility>

#include "torch/exported/symbolic.h"
#include "torch/script/script_run.h"

namespace escapement {

namespace {

using torch::jit::Node;
using Values = ScriptRun::Values;

// Names of TorchScript's operators on numbers, and those of exported programs that compute the same.
constexpr std::pair<std::string_view, const char*> kArithmetic[] = {
    {"aten::add", "_operator.add"},        {"aten::sub", "_operator.sub"},          {"aten::mul", "_operator.mul"},
    {"aten::floordiv", "_operator.floordiv"}, {"aten::floor_divide", "_operator.floordiv"}, {"aten::remainder", "_operator.mod"},
    {"aten::div", "_operator.truediv"},    {"aten::neg", "_operator.neg"},
    {"aten::eq", "_operator.eq"},          {"aten::ne", "_operator.ne"},            {"aten::lt", "_operator.lt"},
    {"aten::le", "_operator.le"},          {"aten::gt", "_operator.gt"},            {"aten::ge", "_operator.ge"},
    {"aten::__and__", "_operator.and_"},   {"aten::__or__", "_operator.or_"},       {"aten::__not__", "torch.sym_not"},
    {"prim::min", "torch.sym_min"},        {"prim::max", "torch.sym_max"},          {"aten::sqrt", "torch.sym_sqrt"},
    {"aten::Float", "torch.sym_float"},    {"aten::Int", "torch.sym_int"},          {"aten::FloatImplicit", "torch.sym_float"},
    {"aten::IntImplicit", "torch.sym_int"}, {"aten::ScalarImplicit", "_operator.pos"}};

// Operators without a kernel that hand on what they are given, or count it. All others look at it.
constexpr std::string_view kMoving[] = {
    "aten::append", "aten::insert", "aten::extend", "aten::pop", "aten::clear", "aten::reverse", "aten::copy", "aten::list", "aten::slice", "aten::len",
    "aten::add", "aten::add_", "aten::mul", "aten::__getitem__", "aten::_set_item", "aten::Delete", "aten::values", "aten::keys", "aten::items", "aten::get", "aten::setdefault",
    "aten::update", "aten::__is__", "aten::__isnot__", "aten::dict", "prim::SetAttr", "prim::unchecked_unwrap_optional", "aten::_unwrap_optional"};

bool is_number(const c10::IValue& value) { return is_symbol(value) || value.isInt() || value.isDouble() || value.isBool(); }

bool is_truth(const c10::IValue& value) { return value.isSymBool() || value.isBool(); }
bool is_real(const c10::IValue& value) { return value.isSymFloat() || value.isDouble(); }

bool has_symbols(const c10::IValue& value) { return value.isList() && std::ranges::any_of(value.toListRef(), is_symbol); }

const c10::Type& without_optional(const c10::Type& type) {
  return type.kind() == c10::TypeKind::OptionalType ? without_optional(*type.expectRef<c10::OptionalType>().getElementType()) : type;
}

bool takes_symbols(const c10::Type& type) {
  return type.kind() == c10::TypeKind::ListType && type.expectRef<c10::ListType>().getElementType()->kind() == c10::TypeKind::SymIntType;
}

c10::IValue list_of(const Node& node, Values items) {
  const c10::TypePtr element = node.output()->type()->expectRef<c10::ListType>().getElementType();
  c10::impl::GenericList list(element);
  for (c10::IValue& item : items) list.push_back(element->kind() == c10::TypeKind::TensorType ? as_tensor(item) : std::move(item));
  return list;
}

c10::IValue table_of(const Node& node, const Values& items) {
  const auto& type = node.output()->type()->expectRef<c10::DictType>();
  c10::impl::GenericDict table(type.getKeyType(), type.getValueType());
  for (size_t i = 0; i + 1 < items.size(); i += 2) table.insert_or_assign(number_read(items[i]), items[i + 1]);
  return table;
}

c10::IValue tuple_of(const Node& node, Values items) {
  const auto& type = node.output()->type()->expectRef<c10::TupleType>();
  return type.name() ? c10::ivalue::Tuple::createNamed(std::move(items), node.output()->type()->expect<c10::TupleType>())
                     : c10::ivalue::Tuple::create(std::move(items));
}

}  // namespace

bool is_symbol(const c10::IValue& value) { return value.isSymInt() || value.isSymFloat() || value.isSymBool(); }

c10::IValue number_read(const c10::IValue& value) {
  if (value.isSymBool()) return holds(value);
  if (value.isSymInt()) return value.toInt();
  return value.isSymFloat() ? c10::IValue(value.toDouble()) : value;
}

// Lists and tables keep who they are.
c10::IValue all_read(const c10::IValue& value) {
  if (value.isTuple()) {
    std::vector<c10::IValue> items = value.toTupleRef().elements().vec();
    if (std::ranges::none_of(items, [](const c10::IValue& item) { return is_symbol(item) || item.isList() || item.isTuple() || item.isGenericDict(); })) return value;
    std::ranges::transform(items, items.begin(), all_read);
    const auto type = value.type()->expect<c10::TupleType>();
    return type->name() ? c10::ivalue::Tuple::createNamed(std::move(items), type) : c10::ivalue::Tuple::create(std::move(items));
  }
  if (value.isGenericDict()) {
    for (const auto& entry : value.toGenericDict()) entry.setValue(all_read(entry.value()));
  } else if (value.isList()) {
    const auto type = value.type()->expectRef<c10::ListType>().getElementType()->kind();
    if (type == c10::TypeKind::TensorType || type == c10::TypeKind::StringType) return value;
    auto list = value.toList();
    for (size_t i = 0; i < list.size(); ++i) list.set(i, all_read(list.get(i)));
  }
  return number_read(value);
}

void read_what_is_looked_at(const std::string& name, Values& stack) {
  if (std::ranges::find(kMoving, name) == std::end(kMoving)) std::ranges::transform(stack, stack.begin(), all_read);
  else if (!stack.empty() && stack[0].isGenericDict() && stack.size() > 1) stack[1] = all_read(stack[1]);   // a key
}

std::optional<bool> lists_compared(const Node& node, std::span<const c10::IValue> operands) {
  const bool equal = node.kind() == c10::aten::eq;
  if ((!equal && node.kind() != c10::aten::ne) || operands.size() != 2 || !operands[0].isList() || !operands[1].isList()) return {};
  const c10::ArrayRef<c10::IValue> left = operands[0].toListRef(), right = operands[1].toListRef();
  if (!has_symbols(operands[0]) && !has_symbols(operands[1])) return {};
  bool same = left.size() == right.size();
  const SymbolicOp& op = *find_symbolic_op("_operator.eq");
  for (size_t i = 0; same && i < left.size(); ++i)
    same = is_symbol(left[i]) || is_symbol(right[i]) ? holds(run_symbolic_op(op, std::array{left[i], right[i]})) : left[i] == right[i];
  return same == equal;
}

c10::IValue as_tensor(const c10::IValue& value) {
  if (value.isSymBool()) return at::scalar_tensor(holds(value), at::kBool);
  if (value.isInt() || value.isSymInt()) return at::scalar_tensor(value.toScalar(), at::kLong);
  return value.isSymFloat() ? c10::IValue(at::scalar_tensor(value.toScalar(), at::kDouble)) : value;
}

c10::IValue fitting(const c10::IValue& value, const c10::Argument& formal) {
  const c10::Type& type = without_optional(*formal.real_type());
  if (value.isSymBool()) return holds(value);
  if (is_number(value) && type.kind() == c10::TypeKind::TensorType) return as_tensor(value);
  if (value.isSymInt() && type.kind() == c10::TypeKind::IntType) return value.toInt();
  if (value.isSymFloat() && type.kind() == c10::TypeKind::FloatType) return value.toDouble();
  if (!has_symbols(value)) return value;
  if (!takes_symbols(type)) return value.toIntVector();
  std::vector<c10::SymInt> symbols;
  for (const c10::IValue& item : value.toListRef()) symbols.push_back(item.toSymInt());
  return symbols;
}

c10::IValue collected(const Node& node, Values items) {
  if (node.kind() == c10::prim::ListConstruct) return list_of(node, std::move(items));
  return node.kind() == c10::prim::DictConstruct ? table_of(node, items) : tuple_of(node, std::move(items));
}

Values taken_apart(const Node& node, const c10::IValue& value) {
  const bool list = node.kind() == c10::prim::ListUnpack;
  const c10::ArrayRef<c10::IValue> items = list ? value.toListRef() : value.toTupleRef().elements().asArrayRef();
  TORCH_CHECK(items.size() == node.outputs().size(), "Expected ", node.outputs().size(), " elements in a list but found ", items.size());
  return items.vec();
}

// Truth values and numbers do not mix, nor do integers and floats where the result is one of the operands: these read the symbol.
const char* arithmetic_of(const Node& node, std::span<const c10::IValue> operands) {
  if (!std::ranges::all_of(operands, is_number) || std::ranges::none_of(operands, is_symbol)) return nullptr;
  const std::string_view name = node.kind().toQualString();
  const auto found = std::ranges::find(kArithmetic, name, &std::pair<std::string_view, const char*>::first);
  if (found == std::end(kArithmetic)) return nullptr;
  const bool of_truths = name == "aten::__and__" || name == "aten::__or__" || name == "aten::__not__";
  if (!std::ranges::all_of(operands, [=](const c10::IValue& v) { return is_truth(v) == of_truths; })) return nullptr;
  const bool chooses = name == "prim::min" || name == "prim::max";
  return chooses && is_real(operands[0]) != is_real(operands[1]) ? nullptr : found->second;
}

c10::IValue folded(const Node& node, std::span<const c10::IValue> operands) {
  const bool sum = node.kind() == c10::aten::sum;
  if (operands.size() != 1 || !has_symbols(operands[0]) || !(sum || node.kind() == c10::prim::min || node.kind() == c10::prim::max)) return {};
  const SymbolicOp& op = *find_symbolic_op(sum ? "_operator.add" : node.kind() == c10::prim::min ? "torch.sym_min" : "torch.sym_max");
  const c10::ArrayRef<c10::IValue> items = operands[0].toListRef();
  c10::IValue all = items[0];
  for (const c10::IValue& item : items.slice(1)) all = run_symbolic_op(op, std::array{all, item});
  return all;
}

bool is_instance(const Node& node, const c10::IValue& value) {
  const c10::TypePtr type = value.isTensor()     ? c10::TensorType::get()
                            : value.isSymInt()   ? c10::IntType::get()
                            : value.isSymFloat() ? c10::FloatType::get()
                            : value.isSymBool()  ? c10::BoolType::get()
                                                 : value.type();
  return std::ranges::any_of(node.tys(c10::attr::types), [&](const c10::TypePtr& wanted) { return type->isSubtypeOf(*wanted); });
}

Values part_of_tuple(const Node& node, std::span<const c10::IValue> operands) {
  const c10::ArrayRef<c10::IValue> items = operands[0].toTupleRef().elements().asArrayRef();
  if (node.kind() == c10::prim::TupleSlice) {
    const auto first = static_cast<size_t>(node.i(c10::attr::beg)), last = static_cast<size_t>(node.i(c10::attr::end));
    TORCH_CHECK(first <= last && last <= items.size(), "Tuple slice out of range");
    return {c10::ivalue::Tuple::create(items.slice(first, last - first).vec())};
  }
  const int64_t at = operands[1].toInt(), size = static_cast<int64_t>(items.size());
  TORCH_CHECK(at >= -size && at < size, "Tuple index out of range");
  return {items[static_cast<size_t>(at < 0 ? at + size : at)]};
}

}  // namespace escapement

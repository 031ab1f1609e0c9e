// See patterns.h.
#include "torch/replay_mode/patterns.h"

#include <algorithm>
#include <limits>

#include "support/limits.h"
#include "torch/record/recorder_tape.h"

namespace escapement {
namespace {

using Kind = Pattern::Kind;

const c10::Type& without_option(const c10::Type& type) {
  return type.kind() == c10::TypeKind::OptionalType ? *type.expectRef<c10::OptionalType>().getElementType() : type;
}

// Sizes, indices and the like, alone or in lists.
bool holds_sizes(const c10::Type& type) {
  const c10::Type& plain = without_option(type);
  if (plain.kind() == c10::TypeKind::SymIntType) return true;
  return plain.kind() == c10::TypeKind::ListType && holds_sizes(*plain.expectRef<c10::ListType>().getElementType());
}

// A `float` of the schema (eps, beta) is read exactly by most operators: each is a way of its own.
bool holds_number(const c10::Type& type) { return without_option(type).kind() == c10::TypeKind::NumberType; }

bool is_usable(const c10::TensorImpl& impl) {
  if (is_dressed_number(impl)) return true;
  // A tensor of this segment has our key beside those of a plain one.
  return !impl.is_wrapped_number() && ((impl.key_set().has(kRecorderKey)) || is_plain_tensor(impl));
}

// What a range of integers means by position, as in arange(start, end).
bool is_length(const OpPlan& plan, const c10::Argument& formal) {
  return plan.base == "arange" && (formal.name() == "start" || formal.name() == "end");
}

// Of the type of a size, yet part of what the operator does.
bool is_structural(const c10::Argument& formal) {
  static constexpr std::string_view names[] = {"step", "normalized_shape", "num_groups", "groups"};
  return std::find(std::begin(names), std::end(names), formal.name()) != std::end(names);
}

class Describer {
 public:
  Describer(const Segment& segment, const OpPlan& plan, StreamNode& node, const std::vector<bool>& vary)
      : segment_(segment), plan_(plan), node_(node), vary_(vary) {}

  void run(std::span<const c10::IValue> arguments) {
    for (size_t i = 0; i < arguments.size(); ++i)
      node_.arguments.push_back(describe(arguments[i], plan_.schema->arguments()[i]));
  }

 private:
  Pattern describe(const c10::IValue& v, const c10::Argument& formal) {
    if (v.isTensorList() || v.isOptionalTensorList()) return list(v);
    if (v.isTensor()) return tensor(v.toTensor());
    if (v.isNone()) return {};
    const c10::Type& type = *formal.real_type();
    if (is_structural(formal)) return constant(v);
    if (v.isIntList() && holds_sizes(type)) return list(v);
    if (v.isInt() && (holds_sizes(type) || is_length(plan_, formal))) return integer(v.toInt());
    return holds_number(type) && !v.isBool() ? number(v) : constant(v);
  }

  Pattern list(const c10::IValue& v) {
    Pattern pattern;
    pattern.kind = Kind::list;
    pattern.integer = v.isIntList();
    pattern.value = c10::IValue(c10::List<std::optional<at::Tensor>>());
    if (v.isIntList()) pattern.value = c10::IValue(c10::List<int64_t>());
    if (v.isTensorList()) pattern.value = c10::IValue(c10::List<at::Tensor>());
    if (v.isIntList())
      for (const int64_t item : v.toIntVector()) pattern.items.push_back(integer(item));
    else if (v.isTensorList())
      for (const at::Tensor& item : v.toTensorVector()) pattern.items.push_back(tensor(item));
    else
      for (const auto& item : v.toOptionalTensorVector()) pattern.items.push_back(item ? tensor(*item) : Pattern());
    return pattern;
  }

  static Pattern constant(const c10::IValue& v) {
    Pattern pattern;
    pattern.kind = Kind::constant;
    pattern.hold(v);
    return pattern;
  }

  // -1 and the end of an open slice mean something of their own.
  Pattern integer(int64_t v) {
    if (v == -1 || v == INT64_MIN || v == INT64_MAX) return constant(v);
    Pattern pattern;
    pattern.kind = v < 0 ? Kind::negative : Kind::integer;
    pattern.index = slot();
    return pattern;
  }

  Pattern number(const c10::IValue& v) {
    if (!next_number_varies()) {
      Pattern pattern = constant(v);
      pattern.scalar = true;
      return pattern;
    }
    if (v.isInt()) {
      Pattern pattern = integer(v.toInt());
      pattern.scalar = true;
      return pattern;
    }
    Pattern pattern;
    pattern.kind = Kind::any_real;
    pattern.index = real();
    return pattern;
  }

  Pattern dressed(const c10::TensorImpl& impl) {
    Pattern pattern;
    pattern.hold(number_in(impl));
    const bool varies = !pattern.value.isBool() && next_number_varies();
    pattern.kind = varies ? Kind::any_number : Kind::number;
    pattern.integer = pattern.value.isInt();
    if (varies) pattern.index = pattern.integer ? slot() : real();
    return pattern;
  }

  Pattern tensor(const at::Tensor& tensor) {
    Pattern pattern;
    pattern.value = tensor.defined() ? c10::IValue() : c10::IValue(tensor);
    if (!tensor.defined()) return pattern;
    const c10::TensorImpl* const impl = tensor.unsafeGetTensorImpl();
    if (is_dressed_number(*impl)) return dressed(*impl);
    if (const auto number = segment_.produced_number(impl)) return operand(Kind::produced, *number);
    if (const auto number = segment_.external_number(impl)) return operand(Kind::known, *number);
    const auto seen = std::find(fresh_.begin(), fresh_.end(), impl);
    const auto first = static_cast<uint32_t>(segment_.externals().size());
    if (seen != fresh_.end()) return operand(Kind::known, first + static_cast<uint32_t>(seen - fresh_.begin()));
    fresh_.push_back(impl);
    return fresh(tensor);
  }

  static Pattern operand(Kind kind, uint32_t index) {
    Pattern pattern;
    pattern.kind = kind;
    pattern.index = index;
    return pattern;
  }

  Pattern fresh(const at::Tensor& tensor) {
    Pattern pattern = operand(Kind::fresh, node_.extent.externals++);
    pattern.form = TensorForm::of(tensor);
    pattern.slot = node_.extent.table;
    node_.extent.table += pattern.form.slots();
    node_.inputs.push_back({SegmentInput::Kind::tensor, pattern.index});
    return pattern;
  }

  uint32_t slot() {
    node_.inputs.push_back({SegmentInput::Kind::integer, node_.extent.table});
    return node_.extent.table++;
  }
  uint32_t real() {
    node_.inputs.push_back({SegmentInput::Kind::real, node_.extent.reals});
    return node_.extent.reals++;
  }

  bool next_number_varies() {
    const size_t number = numbers_++;
    return number < vary_.size() && vary_[number];
  }

  const Segment& segment_;
  const OpPlan& plan_;
  StreamNode& node_;
  const std::vector<bool>& vary_;
  std::vector<const c10::TensorImpl*> fresh_;
  size_t numbers_ = 0;
};

// --- numbers that vary

bool is_number(const Pattern& p) {
  return p.kind == Kind::number || (p.kind == Kind::constant && p.scalar);
}
bool is_any(const Pattern& p) { return p.kind == Kind::any_number || p.kind == Kind::any_real; }

bool same_kind_of_number(const Pattern& a, const Pattern& b) {
  if (is_any(a) || is_any(b)) {
    const Pattern& any = is_any(a) ? a : b;
    const Pattern& other = is_any(a) ? b : a;
    if (is_any(other)) return any.kind == other.kind && any.integer == other.integer;
    return is_number(other) && (any.integer ? other.value.isInt() : other.value.isDouble());
  }
  return is_number(a) && is_number(b) && a.kind == b.kind && a.value.isInt() == b.value.isInt();
}

bool similar(const Pattern& a, const Pattern& b);

bool similar_lists(const Pattern& a, const Pattern& b) {
  return std::equal(a.items.begin(), a.items.end(), b.items.begin(), b.items.end(), similar);
}

bool similar(const Pattern& a, const Pattern& b) {
  if (same_kind_of_number(a, b)) return true;
  if (a.kind != b.kind) return false;
  switch (a.kind) {
    case Kind::constant:
    case Kind::number: return same_constant(a.value, b.value);
    case Kind::produced:
    case Kind::known: return a.index == b.index;
    case Kind::list: return similar_lists(a, b);
    default: return true;
  }
}

// The numbers of a node, in the order in which the describer meets them. Of formal numbers and dressed ones; other constants
// do not vary.
void numbers_of(const Pattern& pattern, bool formal, std::vector<const Pattern*>& out) {
  for (const Pattern& item : pattern.items) numbers_of(item, formal, out);
  const bool dressed = (pattern.kind == Kind::number || pattern.kind == Kind::any_number) && !pattern.value.isBool();
  const bool input = pattern.kind == Kind::any_real || pattern.kind == Kind::integer || pattern.kind == Kind::negative;
  const bool plain = formal && (input || (pattern.kind == Kind::constant && !pattern.value.isBool()));
  if (dressed || plain) out.push_back(&pattern);
}

std::vector<const Pattern*> numbers_of(const StreamNode& node, const OpPlan& plan) {
  std::vector<const Pattern*> out;
  for (size_t i = 0; i < node.arguments.size(); ++i) {
    const c10::Argument& formal = plan.schema->arguments()[i];
    if (!is_length(plan, formal)) numbers_of(node.arguments[i], holds_number(*formal.real_type()), out);
  }
  return out;
}

bool is_fixed(const Pattern& p) { return p.kind == Kind::number || p.kind == Kind::constant; }

// Which numbers differ from those of a similar node, or vary there.
void note_differences(const StreamNode& node, const StreamNode& other, const OpPlan& plan, std::vector<bool>& vary) {
  const auto mine = numbers_of(node, plan), theirs = numbers_of(other, plan);
  if (mine.size() != theirs.size()) return;
  vary.resize(mine.size());
  for (size_t i = 0; i < mine.size(); ++i)
    if (!is_fixed(*theirs[i]) || !same_constant(mine[i]->value, theirs[i]->value)) vary[i] = true;
}

}  // namespace

bool is_similar(const StreamNode& a, const StreamNode& b) {
  return a.op == b.op && std::equal(a.arguments.begin(), a.arguments.end(), b.arguments.begin(), b.arguments.end(), similar);
}

NumberUse number_use(const OpPlan& plan, std::span<const c10::IValue> arguments) {
  NumberUse use{plan.schema, {}};
  for (size_t i = 0; i < arguments.size(); ++i) {
    const c10::Type& type = *plan.schema->arguments()[i].real_type();
    const bool dtype = without_option(type).kind() == c10::TypeKind::ScalarTypeType;
    if (dtype) use.second.push_back(arguments[i].isInt() ? arguments[i].toInt() : -1);
    if (holds_number(type)) use.second.push_back(arguments[i].isInt() ? -2 : -3);
    each_tensor_of(arguments[i], [&](const at::Tensor& tensor) {
      if (tensor.defined()) use.second.push_back(static_cast<int64_t>(tensor.scalar_type()));
    });
  }
  return use;
}

bool can_describe(const OpPlan& plan, std::span<const c10::IValue> arguments) {
  bool possible = arguments.size() == plan.schema->arguments().size();
  size_t slots = 0;
  for (const c10::IValue& v : arguments) {
    slots += v.isList() ? v.toListRef().size() : 1;
    each_tensor_of(v, [&](const at::Tensor& tensor) {
      if (!tensor.defined()) return;
      const c10::TensorImpl& impl = *tensor.unsafeGetTensorImpl();
      possible = possible && is_usable(impl);
      if (impl.key_set().has(kRecorderKey)) return;   // of this segment, which has its sizes
      slots += static_cast<size_t>(2 * impl.dim() + 1);
      possible = possible && impl.dim() <= std::numeric_limits<decltype(TensorForm::rank)>::max();
    });
    const bool tensors = v.isTensor() || v.isTensorList() || v.isOptionalTensorList() || v.isNone();
    possible = possible && (tensors || can_be_constant(v));
  }
  return possible && slots < limits::table_of_a_segment / 4;
}

std::unique_ptr<StreamNode> describe_arguments(const Segment& segment, const OpPlan& plan, const c10::OperatorHandle& op,
                                               std::span<const c10::IValue> arguments, const Extent& before,
                                               std::span<StreamNode* const> similar_nodes) {
  const auto make = [&](const std::vector<bool>& vary) {
    auto node = std::make_unique<StreamNode>(op);
    node->extent = before;
    ++node->extent.operators;
    Describer(segment, plan, *node, vary).run(arguments);
    return node;
  };
  auto node = make({});
  std::vector<bool> vary;
  for (const StreamNode* other : similar_nodes)
    if (is_similar(*node, *other)) note_differences(*node, *other, plan, vary);
  return vary.empty() ? std::move(node) : make(vary);
}

}  // namespace escapement

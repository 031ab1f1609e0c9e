// See order_by_ones.h.
#include "torch/record/order_by_ones.h"

#include <algorithm>
#include <array>

#include "trace/layout.h"

namespace escapement {

namespace {

constexpr const char* kBecause = "which axes of one element decide the order of a result's";
constexpr size_t kMost = 6;   // axes that may be 1, whose patterns are all tried
constexpr std::array<int64_t, kMost> kSizes{3, 5, 7, 11, 13, 17};

class Patterns {
 public:
  explicit Patterns(OpCall& call) : call_(call), dims_(call.table()) {
    for (const ValueId v : call.values)
      if (v) operands_.push_back(call.type(v));
    find_sizes();
    for (size_t axis = 0; axis < sizes_.size(); ++axis)
      if (is_open(axis)) open_.push_back(sizes_[axis]);
  }

  bool matter() {
    if (sizes_.size() < 3 || operands_.size() < 2 || open_.empty() || !axes_may_wait(dims_, pointers(operands_), sizes_)) return false;
    if (open_.size() > kMost) return true;
    const std::vector<Dim> claimed = pointwise_strides(dims_, pointers(operands_), sizes_);
    for (uint32_t ones = 0; !claimed.empty() && ones < (1U << open_.size()); ++ones)
      if (!holds(claimed, values(ones))) return true;
    return false;
  }

  void hold() {
    const Dim one = dims_.constant(1);
    for (const Dim size : open_) {
      const auto now = dims_.hint(size);
      if (now == std::optional<int64_t>(1)) call_.tape.guard_relation(Guard::Kind::equal, size, one, true, kBecause);
      else if (now && *now > 1) call_.tape.guard_relation(Guard::Kind::less, one, size, true, kBecause);
    }
  }

 private:
  // As operands are broadcast: an axis of size 1 has no say beside another one. Which are broadcast is what the operator itself will hold.
  void find_sizes() {
    for (const TensorType& operand : operands_) sizes_.resize(std::max(sizes_.size(), operand.sizes.size()), dims_.constant(1));
    for (const TensorType& operand : operands_)
      for (size_t axis = 0; axis < operand.sizes.size(); ++axis) {
        Dim& size = whole(operand, axis);
        if (dims_.hint(size) == std::optional<int64_t>(1)) size = operand.sizes[axis];
      }
    for (TensorType& operand : operands_)
      for (size_t axis = 0; axis < operand.sizes.size(); ++axis)
        if (dims_.hint(operand.sizes[axis]) == std::optional<int64_t>(1) && dims_.hint(whole(operand, axis)) != std::optional<int64_t>(1))
          operand.sizes[axis] = dims_.constant(1);
  }

  // The result's size along an operand's axis.
  Dim& whole(const TensorType& operand, size_t axis) { return sizes_[sizes_.size() - operand.sizes.size() + axis]; }
  Dim whole(const TensorType& operand, size_t axis) const { return sizes_[sizes_.size() - operand.sizes.size() + axis]; }

  // May it be 1? Sizes that are computed are taken as they are now, since what they are computed from is not this operator's to choose.
  bool is_open(size_t axis) const {
    if (dims_.less(dims_.constant(1), sizes_[axis]) == Truth::yes || dims_.as_constant(sizes_[axis])) return false;
    return std::all_of(operands_.begin(), operands_.end(), [&](const TensorType& operand) {
      const size_t missing = sizes_.size() - operand.sizes.size();
      return axis < missing || dims_.as_constant(operand.sizes[axis - missing]) || dims_.as_symbol(operand.sizes[axis - missing]);
    });
  }

  static std::vector<const TensorType*> pointers(const std::vector<TensorType>& types) {
    std::vector<const TensorType*> found;
    for (const TensorType& type : types) found.push_back(&type);
    return found;
  }

  // Of all symbols, where the open sizes are 1 or numbers of their own.
  std::vector<int64_t> values(uint32_t ones) const {
    std::vector<int64_t> found(dims_.symbol_count());
    for (uint32_t i = 0; i < found.size(); ++i) {
      const Dim dim = dims_.of(Symbol{i}), of_result = result_size(dim);
      found[i] = dims_.hint(dim).value_or(2);
      for (size_t k = 0; k < open_.size(); ++k)
        if (dims_.same(of_result, open_[k])) found[i] = (ones >> k & 1) != 0 ? 1 : kSizes[k];
    }
    return found;
  }

  // The size of the result that an operand's is equal to, which nobody has asked yet.
  Dim result_size(Dim size) const {
    for (const TensorType& operand : operands_)
      for (size_t axis = 0; axis < operand.sizes.size(); ++axis) {
        const Dim of_result = whole(operand, axis);
        if (dims_.same(operand.sizes[axis], size) && dims_.hint(of_result) == dims_.hint(size)) return of_result;
      }
    return size;
  }

  bool holds(const std::vector<Dim>& claimed, const std::vector<int64_t>& symbols) const {
    DimTable then;
    const auto at = [&](Dim dim) { return dims_.evaluate(dim, symbols); };
    const auto settled = [&](std::vector<Dim> list) {
      for (Dim& dim : list) dim = then.constant(at(dim));
      return list;
    };
    std::vector<TensorType> types = operands_;
    for (TensorType& type : types) type.sizes = settled(type.sizes), type.strides = settled(type.strides);
    const std::vector<Dim> found = pointwise_strides(then, pointers(types), settled(sizes_));
    for (size_t axis = 0; axis < found.size(); ++axis)
      if (at(sizes_[axis]) > 1 && then.as_constant(found[axis]) != at(claimed[axis])) return false;
    return true;
  }

  OpCall& call_;
  DimTable& dims_;
  std::vector<TensorType> operands_;
  std::vector<Dim> sizes_, open_;
};

}  // namespace

void hold_ones_that_decide(OpCall& call) {
  Patterns patterns(call);
  if (patterns.matter()) patterns.hold();
}

}  // namespace escapement

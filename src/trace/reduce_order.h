// The canonical order of reductions. The reference evaluator and the loop interpreter run these templates; generated code does the
// same steps in the same order, so that a sum has the same bits however it is vectorised, split among threads or batched.
//
// The n elements of a row (row-major over the reduced axes in the order of attrs.axes: a trace that is recorded walks them as they lie in
// memory) fall into stretches of kReduceStretch. In a stretch, element i belongs
// to lane i % kReduceLanes; each lane starts at the identity and takes its elements in order: lane = op(lane, x). The lanes are
// combined by halves: for step 16, 8, 4, 2, 1: lane[j] = op(lane[j], lane[j + step]) for j < step. The stretches are combined from
// left to right, starting from the identity; for floating-point sums each addition's rounding error is found (Knuth's TwoSum) and
// the errors' sum is added at the end, so that a long sum loses no more than a short one. Threads may share out stretches, never lanes.
//
// What is combined how, and from where: reduce.def.
#pragma once

#include <array>
#include <cmath>
#include <cstdint>
#include <limits>
#include <memory>
#include <type_traits>

#include "trace/dtype.h"
#include "trace/reductions.h"

namespace escapement {

inline constexpr unsigned kReduceLanes = 32;
inline constexpr int64_t kReduceStretch = 1024;

// Where partial results live: elements are converted to this type before they are combined. f32 for half types.
DType reduction_accumulator(Op op, DType operand, DType result);

// One reduction of one row on register bit patterns of the accumulator's type, for those who do not know types statically.
class Reduction {
 public:
  Reduction(Op op, DType accumulator);
  ~Reduction();
  Reduction(Reduction&&) noexcept;
  Reduction& operator=(Reduction&&) noexcept;

  void add(uint64_t bits, int64_t index);     // the row's next element; index: where it stands, for argmax and argmin
  void add_stretch(const uint64_t* partial);  // the next stretch's result, as saved by another Reduction
  void save(uint64_t* partial);               // two words: the value so far and its index
  uint64_t result();                          // the value; for argmax and argmin the index

  struct State;

 private:
  std::unique_ptr<State> state_;
};

namespace reduce {

// --- the operations: identity() and operator()(accumulated, next), in this order of arguments

template <class T>
using Wrapping = std::conditional_t<std::is_integral_v<T>, uint64_t, T>;

template <class T>
constexpr T least() {
  return std::is_floating_point_v<T> ? -std::numeric_limits<T>::infinity() : std::numeric_limits<T>::lowest();
}
template <class T>
constexpr T greatest() {
  return std::is_floating_point_v<T> ? std::numeric_limits<T>::infinity() : std::numeric_limits<T>::max();
}

template <Identity identity, class T>
constexpr T identity_of() {
  switch (identity) {
    case Identity::zero: return T(0);
    case Identity::one: return T(1);
    case Identity::least: return least<T>();
    case Identity::greatest: return greatest<T>();
  }
}

// What scalar.def says of the operation, on a type that is known. Of max and min NaN wins, and of equals the accumulated one stays.
template <ScalarOp combine, class T>
constexpr T combined(T a, T b) {
  if constexpr (combine == ScalarOp::add) return static_cast<T>(static_cast<Wrapping<T>>(a) + static_cast<Wrapping<T>>(b));
  else if constexpr (combine == ScalarOp::mul) return static_cast<T>(static_cast<Wrapping<T>>(a) * static_cast<Wrapping<T>>(b));
  else if constexpr (combine == ScalarOp::max) return b > a || b != b ? b : a;
  else if constexpr (combine == ScalarOp::min) return b < a || b != b ? b : a;
  else if constexpr (combine == ScalarOp::bit_or) return static_cast<T>(a | b);
  else if constexpr (combine == ScalarOp::bit_and) return static_cast<T>(a & b);
  else static_assert(combine == ScalarOp::add, "no reduction combines by this operation yet: say here what it does");
}

template <class T, ScalarOp combine, Identity start>
struct Fold {
  using Value = T;
  static constexpr T identity() { return identity_of<start, T>(); }
  T operator()(T a, T b) const { return combined<combine>(a, b); }
};

template <class T>
struct Indexed {
  T value;
  int64_t index;
};

// The first NaN, else the first of the best values. No order of combination changes the result.
template <class T, ScalarOp better, Identity start>
struct Best {
  static_assert(better == ScalarOp::gt || better == ScalarOp::lt);
  using Value = Indexed<T>;
  static constexpr int64_t kNoIndex = std::numeric_limits<int64_t>::max();
  static constexpr Value identity() { return {identity_of<start, T>(), kNoIndex}; }
  Value operator()(Value a, Value b) const { return is_better(b, a) ? b : a; }

 private:
  static bool is_better(Value b, Value a) {
    bool a_nan = a.value != a.value, b_nan = b.value != b.value;
    if (a_nan != b_nan) return b_nan;
    if (a_nan || a.value == b.value) return b.index < a.index;
    return better == ScalarOp::gt ? b.value > a.value : b.value < a.value;
  }
};

// The operation of a row, on elements of one type.
template <Op op, class T>
struct OfRow {
  static constexpr ReductionInfo kRow = *find_reduction(op);
  template <bool position>
  static auto pick() {
    if constexpr (position) return Best<T, kRow.combine, kRow.identity>{};
    else return Fold<T, kRow.combine, kRow.identity>{};
  }
  using Type = decltype(pick<kRow.gives_position()>());
};
template <Op op, class T>
using Of = typename OfRow<op, T>::Type;

// --- the order

template <class Operation>
typename Operation::Value combine_lanes(std::array<typename Operation::Value, kReduceLanes>& lanes, Operation op) {
  for (size_t step = kReduceLanes / 2; step > 0; step /= 2)
    for (size_t j = 0; j < step; ++j) lanes[j] = op(lanes[j], lanes[j + step]);
  return lanes[0];
}

// Elements begin .. end of a row, which are one stretch or its beginning. load(i) gives element i.
template <class Operation, class Load>
typename Operation::Value stretch(int64_t begin, int64_t end, Load load, Operation op) {
  std::array<typename Operation::Value, kReduceLanes> lanes;
  lanes.fill(Operation::identity());
  for (int64_t i = begin; i < end; ++i) {
    auto& lane = lanes[static_cast<size_t>((i - begin) % kReduceLanes)];
    lane = op(lane, load(i));
  }
  return combine_lanes(lanes, op);
}

// What the stretches so far come to.
template <class Operation>
class Total {
 public:
  using Value = typename Operation::Value;
  void add(Value stretch) { sum_ = Operation{}(sum_, stretch); }
  Value value() const { return sum_; }

 private:
  Value sum_ = Operation::identity();
};

template <class T>
  requires std::is_floating_point_v<T>
class Total<Fold<T, ScalarOp::add, Identity::zero>> {
 public:
  void add(T stretch) {
    const T next = sum_ + stretch, taken = next - sum_;
    error_ += (sum_ - (next - taken)) + (stretch - taken);
    sum_ = next;
  }
  T value() const { return std::abs(sum_) < greatest<T>() ? sum_ + error_ : sum_; }  // an infinite sum has no error but NaN

 private:
  T sum_ = 0, error_ = 0;
};

template <class Operation, class Load>
typename Operation::Value row(int64_t n, Load load, Operation op = {}) {
  Total<Operation> total;
  for (int64_t begin = 0; begin < n; begin += kReduceStretch)
    total.add(stretch(begin, n - begin < kReduceStretch ? n : begin + kReduceStretch, load, op));
  return total.value();
}

}  // namespace reduce
}  // namespace escapement

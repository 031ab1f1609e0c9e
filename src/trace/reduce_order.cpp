// Reduction: the templates of reduce_order.h behind bit patterns.
#include "trace/reduce_order.h"

#include <bit>

#include "support/error.h"
#include "trace/scalar.h"

namespace escapement {

struct Reduction::State {
  virtual ~State() = default;
  virtual void add(uint64_t bits, int64_t index) = 0;
  virtual void add_stretch(const uint64_t* partial) = 0;
  virtual void save(uint64_t* partial) = 0;
  virtual uint64_t result() = 0;
};

namespace {

template <class T>
T from_bits(uint64_t bits) {
  if constexpr (std::is_same_v<T, float>) return std::bit_cast<float>(static_cast<uint32_t>(bits));
  else if constexpr (std::is_same_v<T, double>) return std::bit_cast<double>(bits);
  else return static_cast<T>(bits);
}

template <class T>
uint64_t as_bits(T value) {
  if constexpr (std::is_same_v<T, float>) return std::bit_cast<uint32_t>(value);
  else if constexpr (std::is_same_v<T, double>) return std::bit_cast<uint64_t>(value);
  else return static_cast<uint64_t>(static_cast<int64_t>(value));
}

// Values without or with an index.
template <class T>
struct Pack {
  static T make(uint64_t bits, int64_t) { return from_bits<T>(bits); }
  static uint64_t value(T v) { return as_bits(v); }
  static uint64_t index(T) { return 0; }
  static uint64_t result(T v) { return as_bits(v); }
};
template <class T>
struct Pack<reduce::Indexed<T>> {
  static reduce::Indexed<T> make(uint64_t bits, int64_t index) { return {from_bits<T>(bits), index}; }
  static uint64_t value(reduce::Indexed<T> v) { return as_bits(v.value); }
  static uint64_t index(reduce::Indexed<T> v) { return static_cast<uint64_t>(v.index); }
  static uint64_t result(reduce::Indexed<T> v) { return static_cast<uint64_t>(v.index); }
};

// The lanes of the stretch in progress, and what the stretches before it came to.
template <class Operation>
class TypedState final : public Reduction::State {
  using Value = typename Operation::Value;

 public:
  TypedState() { lanes_.fill(Operation::identity()); }

  void add(uint64_t bits, int64_t index) override {
    Value& lane = lanes_[static_cast<size_t>(count_ % kReduceLanes)];
    lane = op_(lane, Pack<Value>::make(bits, index));
    if (++count_ == kReduceStretch) finish_stretch();
  }

  void add_stretch(const uint64_t* partial) override {
    total_.add(Pack<Value>::make(partial[0], static_cast<int64_t>(partial[1])));
  }

  void save(uint64_t* partial) override {
    finish_stretch();
    partial[0] = Pack<Value>::value(total_.value());
    partial[1] = Pack<Value>::index(total_.value());
  }

  uint64_t result() override {
    finish_stretch();
    return Pack<Value>::result(total_.value());
  }

 private:
  void finish_stretch() {
    if (count_ == 0) return;
    total_.add(reduce::combine_lanes(lanes_, op_));
    lanes_.fill(Operation::identity());
    count_ = 0;
  }

  Operation op_;
  std::array<Value, kReduceLanes> lanes_;
  int64_t count_ = 0;
  reduce::Total<Operation> total_;
};

// Whether its accumulator may be a floating-point type.
template <Op op>
constexpr bool kHasFloats = find_reduction(op)->accumulator == Accumulator::result || find_reduction(op)->accumulator == Accumulator::operand;

template <Op op>
std::unique_ptr<Reduction::State> make(DType type) {
  switch (type) {
    case DType::b8: return std::make_unique<TypedState<reduce::Of<op, bool>>>();
    case DType::u8: return std::make_unique<TypedState<reduce::Of<op, uint8_t>>>();
    case DType::i8: return std::make_unique<TypedState<reduce::Of<op, int8_t>>>();
    case DType::i16: return std::make_unique<TypedState<reduce::Of<op, int16_t>>>();
    case DType::i32: return std::make_unique<TypedState<reduce::Of<op, int32_t>>>();
    case DType::i64: return std::make_unique<TypedState<reduce::Of<op, int64_t>>>();
    case DType::f32: if constexpr (kHasFloats<op>) return std::make_unique<TypedState<reduce::Of<op, float>>>(); else break;
    case DType::f64: if constexpr (kHasFloats<op>) return std::make_unique<TypedState<reduce::Of<op, double>>>(); else break;
    default: break;
  }
  throw InternalError("no reduction in this type");
}

std::unique_ptr<Reduction::State> make(Op op, DType type) {
  switch (op) {
#define REDUCTION(op, combine, identity, accumulator, gives) \
  case Op::op: return make<Op::op>(type);
#include "trace/reduce.def"
#undef REDUCTION
    default: throw InternalError("not a reduction: " + std::string(name_of(op)));
  }
}

}  // namespace

DType reduction_accumulator(Op op, DType operand, DType result) {
  switch (reduction(op).accumulator) {
    case Accumulator::result: return compute_type(result);
    case Accumulator::operand: return compute_type(operand);
    case Accumulator::truth: return DType::b8;
    case Accumulator::count: return DType::i64;
  }
  throw InternalError("unknown accumulator");
}

Reduction::Reduction(Op op, DType accumulator) : state_(make(op, accumulator)) {}
Reduction::~Reduction() = default;
Reduction::Reduction(Reduction&&) noexcept = default;
Reduction& Reduction::operator=(Reduction&&) noexcept = default;
void Reduction::add(uint64_t bits, int64_t index) { state_->add(bits, index); }
void Reduction::add_stretch(const uint64_t* partial) { state_->add_stretch(partial); }
void Reduction::save(uint64_t* partial) { state_->save(partial); }
uint64_t Reduction::result() { return state_->result(); }

}  // namespace escapement

// Symbolic integers, booleans and floats as the program sees them: c10::SymNodeImpl over the Dims of a tape.
//
// Integers and comparisons stay symbolic; a boolean that the host looks at becomes a guard of the outcome seen; an integer that
// the host looks at is pinned to its value. Floats are small expressions over integers and 0-d tensors: an op that takes one as
// a number gets a 0-d f64 value; one of sizes that is rounded or compared is an expression of them; a float that the host looks at pins the
// integers in it, or guards the tensor's value.
#pragma once

#include <c10/core/SymBool.h>
#include <c10/core/SymFloat.h>
#include <c10/core/SymInt.h>
#include <c10/core/SymNodeImpl.h>

#include <span>

#include "torch/record/recorder_tape.h"

namespace escapement {

struct FloatExpr;
using FloatExprPtr = std::shared_ptr<const FloatExpr>;

struct FloatExpr {
  enum class Kind : uint8_t { constant, dim, value, add, sub, mul, div, pow, sqrt, log2, neg, min, max } kind = Kind::constant;
  bool reads = false;     // there is a value in it
  uint32_t depth = 0;
  double hint = 0;        // the value at recording
  Dim dim;                // dim
  ValueId value;          // value: 0-d tensor
  FloatExprPtr a, b;
};
FloatExprPtr float_constant(double value);
FloatExprPtr float_binary(FloatExpr::Kind kind, FloatExprPtr a, FloatExprPtr b);
FloatExprPtr float_value(ValueId value, double hint);    // of a 0-d tensor
ValueId materialise(Tape& tape, const FloatExpr& expr);  // 0-d f64
bool never_negative(const DimTable& dims, const FloatExpr& expr);  // for any value of its symbols, as far as cheap reasoning goes
// As an expression of sizes (dims/real.h); nothing if it reads values or is too long.
std::optional<Dim> real_dim(Tape& tape, const FloatExpr& expr);
void pin_float(Tape& tape, const FloatExpr& expr, const std::string& because);  // the host needs the number itself

struct BoolExpr {
  // layout: `a` where `b` holds (null: everywhere), elsewhere what was seen, of these very inputs (layout_questions.h).
  enum class Kind : uint8_t { constant, relation, negation, both, either, floats, layout } kind = Kind::constant;
  bool hint = false;
  Guard::Kind relation = Guard::Kind::equal;
  Dim left, right;
  std::shared_ptr<const BoolExpr> a, b;
  FloatExprPtr x, y;      // floats: `relation` of these
};
using BoolExprPtr = std::shared_ptr<const BoolExpr>;
BoolExprPtr bool_constant(bool value);
BoolExprPtr bool_relation(Guard::Kind relation, Dim left, Dim right, bool hint);
BoolExprPtr bool_node(BoolExpr::Kind kind, BoolExprPtr a, BoolExprPtr b, bool hint);
BoolExprPtr bool_both(BoolExprPtr a, BoolExprPtr b);
BoolExprPtr bool_either(BoolExprPtr a, BoolExprPtr b);
Truth known(Tape& tape, const BoolExpr& expr);   // what the sizes' relations say without a guard
bool outcome(Tape& tape, const BoolExpr& expr, std::span<const int64_t> symbols);   // at these values; of floats and layouts what was seen
// Guards the outcome that was seen; nothing if it is provable.
bool decide(Tape& tape, const BoolExpr& expr, const std::string& because);

class Node final : public c10::SymNodeImpl {
 public:
  static c10::SymNode integer(TapePtr tape, Dim dim, int64_t hint);
  static c10::SymNode boolean(TapePtr tape, BoolExprPtr expr);
  static c10::SymNode real(TapePtr tape, FloatExprPtr expr);
  // The node behind a SymInt, SymFloat or SymBool, with torch's Python shell taken off; null if it is not ours.
  static Node* of(c10::SymNodeImpl* node);

  Tape& tape() const { return *tape_; }
  const TapePtr& tape_ptr() const { return tape_; }
  Dim dim() const { return dim_; }
  int64_t int_hint() const { return int_hint_; }
  const FloatExprPtr& float_expr() const { return float_; }
  const BoolExprPtr& bool_expr() const { return bool_expr_; }
  double float_hint() const { return float_->hint; }

  bool is_int() override { return kind_ == Kind::integer; }
  bool is_bool() override { return kind_ == Kind::boolean; }
  bool is_float() override { return kind_ == Kind::real; }
  bool has_hint() override { return true; }

  c10::SymNode add(const c10::SymNode& other) override;
  c10::SymNode sub(const c10::SymNode& other) override;
  c10::SymNode mul(const c10::SymNode& other) override;
  c10::SymNode truediv(const c10::SymNode& other) override;
  c10::SymNode pow(const c10::SymNode& other) override;
  c10::SymNode float_pow(const c10::SymNode& other) override;   // Python's, which is not the square root where it is one nearly
  c10::SymNode floordiv(const c10::SymNode& other) override;
  c10::SymNode mod(const c10::SymNode& other) override;
  c10::SymNode eq(const c10::SymNode& other) override;
  c10::SymNode ne(const c10::SymNode& other) override;
  c10::SymNode gt(const c10::SymNode& other) override;
  c10::SymNode lt(const c10::SymNode& other) override;
  c10::SymNode le(const c10::SymNode& other) override;
  c10::SymNode ge(const c10::SymNode& other) override;
  c10::SymNode ceil() override;
  c10::SymNode floor() override;
  c10::SymNode neg() override;
  c10::SymNode sym_min(const c10::SymNode& other) override;
  c10::SymNode sym_max(const c10::SymNode& other) override;
  c10::SymNode sym_or(const c10::SymNode& other) override;
  c10::SymNode sym_and(const c10::SymNode& other) override;
  c10::SymNode sym_not() override;
  c10::SymNode clone() override;
  c10::SymNode sym_float() override;
  c10::SymNode wrap_int(int64_t num) override;
  c10::SymNode wrap_float(double num) override;
  c10::SymNode wrap_bool(bool num) override;
  int64_t guard_int(const char* file, int64_t line) override;
  bool guard_bool(const char* file, int64_t line) override;
  bool statically_known_true(const char* file, int64_t line) override;
  bool guard_or_false(const char* file, int64_t line) override { return guard_or(false, file, line); }
  bool guard_or_true(const char* file, int64_t line) override { return guard_or(true, file, line); }
  double guard_float(const char* file, int64_t line) override;
  int64_t int_() override { return guard_int("", 0); }
  bool bool_() override { return is_int() ? guard_int("", 0) != 0 : is_float() ? guard_float("", 0) != 0 : guard_bool("", 0); }
  std::string str() override;
  std::optional<int64_t> constant_int() override { return maybe_as_int(); }
  std::optional<int64_t> maybe_as_int() override;
  bool is_constant() override { return false; }
  bool is_symbolic() override { return true; }

  FloatExprPtr as_float() const;
  const Node& number() const;   // itself, or of a truth value the integer that it is; lives as long as this node
  // Methods that torch's own class lacks and Python is given (python/symnode_python.cpp).
  c10::SymNode sym_sqrt();
  c10::SymNode sym_log2();
  c10::SymNode trunc();
  c10::SymNode round();   // half to even

 private:
  enum class Kind : uint8_t { integer, boolean, real };
  c10::SymNode compare(Guard::Kind relation, const c10::SymNode& left, const c10::SymNode& right);
  bool either_is_real(const Node& o) const { return kind_ == Kind::real || o.kind_ == Kind::real; }
  c10::SymNode arithmetic(SizeOp op, const Node& o) const;
  c10::SymNode rounded(SizeOp op, double hint);
  bool guard_or(bool otherwise, const char* file, int64_t line);
  bool was_told(bool otherwise) const;

  Kind kind_ = Kind::integer;
  TapePtr tape_;
  Dim dim_;
  int64_t int_hint_ = 0;
  BoolExprPtr bool_expr_;
  FloatExprPtr float_;
  mutable c10::SymNode number_;

  friend c10::intrusive_ptr<Node>;
};

c10::SymBool symbool(Tape& tape, BoolExprPtr expr);
// The outcome as an expression of the sizes that is 1 or 0, without a guard; empty where there is none (a comparison of floats).
Dim truth_dim(DimTable& dims, const BoolExpr& expr);
c10::SymInt truth_number(const c10::SymBool& value);

}  // namespace escapement

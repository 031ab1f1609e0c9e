// Builder: the only way to make a trace. Each method applies the op's type and size rule, adds the guards that the rule needs
// (broadcast relations: op_rules.h says which), and returns the result's value. A rule that cannot be met throws UserError with
// eager's wording; nothing has been appended then, except guards.
#pragma once

#include <span>
#include <string>
#include <unordered_map>

#include "support/error.h"
#include "trace/trace.h"

namespace escapement {

// Thrown by view(Op::reshape, ...) for an operand whose memory cannot (provably) be seen in the new sizes: copy it, then reshape.
class NotViewable : public UserError {
 public:
  using UserError::UserError;
};

class Builder {
 public:
  explicit Builder(Trace& trace) : trace_(trace) {}
  Trace& trace() { return trace_; }
  DimTable& dims() { return trace_.dims; }

  void set_location(Location location) { location_ = location; }
  Location locate(std::string_view text);  // the entry of Trace::locations with this text, made if needed

  // --- inputs. `type.strides` empty = contiguous. Adds the Input row; sizes are Dims of this trace.
  ValueId input(TensorType type, std::string name = "", bool parameter = false);
  Dim input_integer(std::string name = "");                       // a new `i` symbol
  ValueId constant(TensorType type, std::string name);           // a captured tensor: an input of kind parameter

  // --- ops of the table. Result types by the row's rule. Sizes broadcast; guards are added where equality is not known.
  // `strides`: the result's layout if the caller knows it (checked against sizes in length only); empty = result_strides.
  ValueId pointwise(Op op, std::span<const ValueId> operands, Attrs attrs = {}, std::vector<Dim> strides = {});
  // Eager's layout of a pointwise result: contiguous if the operands are; else dense in the stride order of the first
  // operand that has the full shape. Empty if no rule of ours applies (the recorder then leaves the op to ATen; pointwise itself
  // falls back to contiguous).
  std::vector<Dim> result_strides(std::span<const ValueId> operands, std::span<const Dim> sizes);
  ValueId cast(ValueId a, DType to);                                // identity if equal
  ValueId reduce(Op op, ValueId a, std::vector<int32_t> axes, bool keepdim, Attrs attrs = {});  // axes empty = all, in any order
  ValueId view(Op op, ValueId a, Attrs attrs);                    // any row of kind view; see ops.def for attrs per row
  ValueId create(Op op, Attrs attrs);
  ValueId index(Op op, std::span<const ValueId> operands, Attrs attrs);
  // `strides` as for pointwise; empty = the rule's.
  ValueId combine(Op op, std::span<const ValueId> operands, Attrs attrs, std::vector<Dim> strides = {});
  ValueId composite(Op op, std::span<const ValueId> operands, Attrs attrs, std::vector<Dim> strides = {});
  ValueId contract(Op op, std::span<const ValueId> operands, Attrs attrs, std::vector<Dim> strides = {});
  void write(ValueId destination, ValueId source);                  // source broadcasts and casts; one that overlaps otherwise is copied first

  // --- library calls: result types are given (fresh symbols where no rule is known). Empty storage = fresh.
  InstrId call(std::string target, std::span<const ValueId> operands, std::vector<CallArg> args,
               std::vector<TensorType> results, std::vector<uint32_t> writes, bool effect, Reason why);

  void output(Output output);
  // Adds the guard and tells the DimTable. Does nothing if the relation is known already; UserError if it can never hold.
  // It is placed after `after` and after the instructions that bind its symbols, whichever is last.
  void guard(Guard::Kind kind, Dim left, Dim right, std::string because, InstrId after = {});
  // The sides of the same relation, as early as it can be tested: of `u0 == s1`, where u0 is s0, that s0 is s1. What follows for the inputs
  // is a guard of theirs, since kernels in front of the check rely on it.
  std::pair<Dim, Dim> oldest(Dim left, Dim right);

  // --- helpers that recorder and passes share
  std::vector<Dim> broadcast(std::span<const Dim> a, std::span<const Dim> b, const char* because);
  std::vector<Dim> contiguous_strides(std::span<const Dim> sizes);
  TensorType fresh(DType dtype, std::vector<Dim> sizes, std::vector<Dim> strides = {});  // new storage, root set on append
  bool is_contiguous(const TensorType& type) const;  // provably, by symbols

  // General form: appends an instruction whose result types are already known. Used by passes that copy.
  // A type without root is its own root; without storage it gets a fresh one.
  InstrId append(Instr instr, std::vector<TensorType> result_types);

 private:
  ValueId emit(Op op, std::span<const ValueId> operands, Attrs attrs, std::vector<Dim> strides);
  std::vector<const TensorType*> types(std::span<const ValueId> operands) const;
  InstrId bound_after(Dim left, Dim right) const;
  bool has_guard(Guard::Kind kind, Dim left, Dim right) const;
  void guard_older(const std::string& because);
  void bind_sizes(const TensorType& type, uint32_t input);

  Trace& trace_;
  Location location_;
  std::unordered_map<std::string, Location> located_;
};

}  // namespace escapement

// Shape program: all sizes of a plan as one flat program from symbol values to a table of int64.
//
// Equal subexpressions are computed once. Slots [0, symbols) of the table are the symbols themselves, so a plain symbol costs
// nothing. Symbols become known in levels: level 0 at entry, then one level for each step of the plan that brings symbols to
// life; `evaluate(level)` computes what that level makes computable. Arithmetic is checked: an overflow or a division by zero
// throws UserError, never a wrong number.
#pragma once

#include <cstdint>
#include <span>
#include <unordered_map>
#include <vector>

#include "dims/dims.h"

namespace escapement {

using Slot = uint32_t;

class ShapeProgram {
 public:
  struct Code {                        // table[result] = op(table[a], table[b])
    SizeOp op;
    Slot a, b, result;
  };

  // `level_of_symbol`: one per symbol of `dims`.
  ShapeProgram(const DimTable& dims, std::vector<uint32_t> level_of_symbol);

  // --- building
  Slot add(Dim dim);
  Slot add_constant(int64_t value);
  Slot add_input() { return new_slot(0); }  // a value that the caller writes before level 0 is evaluated
  void finish();                       // sorts by level; no `add` of new expressions afterwards

  // --- running
  uint32_t level(Slot slot) const { return levels_[slot]; }
  size_t table_size() const { return levels_.size(); }
  size_t symbol_count() const { return symbols_; }
  std::span<const Code> code() const { return code_; }
  std::span<const std::pair<Slot, int64_t>> constants() const { return constants_; }
  void initialise(std::span<int64_t> table) const;  // writes the constants
  void evaluate(uint32_t level, std::span<int64_t> table) const;

 private:
  Slot emit(SizeOp op, Slot a, Slot b);
  Slot new_slot(uint32_t level);

  const DimTable* dims_;               // used while building only
  size_t symbols_;
  std::vector<uint32_t> levels_;       // per slot
  std::vector<std::pair<Slot, int64_t>> constants_;
  std::vector<Code> code_;             // after finish: ascending levels
  std::vector<uint32_t> begin_of_level_;
  struct Key {
    SizeOp op;
    Slot a, b;
    friend bool operator==(const Key&, const Key&) = default;
  };
  struct KeyHash {
    size_t operator()(const Key& key) const {
      return ((uint64_t{key.a} << 32 | key.b) ^ static_cast<uint64_t>(key.op) << 29) * 0x9e3779b97f4a7c15u >> 16;
    }
  };
  std::unordered_map<Dim, Slot> slot_of_dim_;
  std::unordered_map<int64_t, Slot> slot_of_constant_;
  std::unordered_map<Key, Slot, KeyHash> slot_of_code_;  // sums of hundreds of lengths: a lookup for each term
};

}  // namespace escapement

// What a module takes and returns, as data and as text.
//
//   values: float32[s0, 64]  s0 in 0..4096
//   lengths: int64[s1]  s1 in 0..32
//   -> float32[s1, 10]
#pragma once

#include <c10/core/ScalarType.h>

#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <vector>

#include "escapement/export.h"
#include "escapement/version.h"

namespace escapement::inline ESCAPEMENT_ABI {

struct ESCAPEMENT_API Signature {
  struct Dim {
    std::string text;              // "64", "s0", "(2*s0)"; "any" where the program says nothing
    std::optional<int64_t> value;  // of a constant
    int64_t least = 0;             // declared range of a symbol that stands alone, both ends included. A declared
    int64_t most = std::numeric_limits<int64_t>::max();  // least of 1 or 2 admits 0, as in PyTorch
    bool is_symbol = false;
  };
  struct Item {
    enum class Kind : uint8_t {
      tensor,
      integer,
      other
    } kind = Kind::tensor;  // other: results that are numbers, truth values, None
    std::string name;
    c10::ScalarType dtype = c10::ScalarType::Undefined;  // of tensors
    std::vector<Dim> dims;                               // of tensors; of an integer its value alone
  };
  std::vector<Item> inputs, outputs;  // in the order of a call

  std::string text() const;
};

}  // namespace escapement

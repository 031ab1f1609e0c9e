// Random expressions over symbols, each with a second definition: a tree that is evaluated in 128 bits, step by step as it was written.
#pragma once

#include <optional>
#include <span>
#include <vector>

#include "dims/dims.h"
#include "fuzz/ir/random.h"

namespace escapement::fuzz {

class SizeMaker {
 public:
  // `big`: also constants at the ends of 64 bits.
  SizeMaker(Random& random, bool big) : random_(random), big_(big) {}

  void add_symbols(size_t count);
  void grow(size_t size);       // until there are so many expressions
  void widen();                 // a sum of more terms than the table multiplies out
  size_t pick() { return random_.below(nodes_.size()); }
  size_t count() const { return nodes_.size(); }
  Dim dim(size_t i) const { return nodes_[i].dim; }

  // Exactly; nothing for a division by zero, or beyond 2**100.
  std::optional<__int128> exact(size_t i, std::span<const int64_t> symbols) const;
  // What no part of the expression exceeds in whatever order the table multiplies and adds: factors of zero hide nothing.
  double reach(size_t i, std::span<const int64_t> symbols) const;

  DimTable table;

 private:
  struct Node {
    SizeOp op;
    int64_t constant = 0;
    size_t a = 0, b = 0;
    Dim dim;
  };
  int64_t constant();
  size_t operand();
  void combine();
  size_t add_node(SizeOp op, size_t a, size_t b);

  Random& random_;
  bool big_;
  std::vector<Node> nodes_;
};

}  // namespace escapement::fuzz

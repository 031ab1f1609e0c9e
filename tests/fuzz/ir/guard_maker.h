// A random guard program, and the relations that it should test.
#pragma once

#include <memory>

#include "fuzz/ir/size_maker.h"
#include "jit/run/guard_program.h"
#include "trace/guard_relation.h"

namespace escapement::fuzz {

struct GuardMaker {
  struct Relation {
    Guard::Kind kind;
    size_t left, right;   // expressions of `sizes`
  };

  GuardMaker(Random& random, bool big) : sizes(random, big) {
    sizes.add_symbols(1 + random.below(4));
    sizes.grow(sizes.count() + 3 + random.below(14));
    program = std::make_unique<GuardProgram>(sizes.table);
    const size_t tests = 1 + random.below(4);
    for (size_t i = 0; i < tests; ++i) {
      const Relation r{random.pick({Guard::Kind::equal, Guard::Kind::not_equal, Guard::Kind::less, Guard::Kind::less_equal}),
                       sizes.pick(), sizes.pick()};
      relations.push_back(r);
      program->test(r.kind, program->value(sizes.dim(r.left)), program->value(sizes.dim(r.right)));
      used.insert(used.end(), {r.left, r.right});
    }
    if (random.one_in(2)) {
      used.push_back(sizes.pick());
      program->keep(program->value(sizes.dim(used.back())));
    }
    program->finish();
  }

  std::vector<int64_t> table(const std::vector<int64_t>& symbols) const {
    std::vector<int64_t> values(program->table_size(), -77);
    for (size_t s = 0; s < symbols.size(); ++s) values[s] = symbols[s];
    return values;
  }

  // A division by zero somewhere in what was written may have been simplified away: then there is nothing to say.
  bool holds_exactly(const std::vector<int64_t>& symbols) const {
    for (const Relation& r : relations) {
      const auto left = sizes.exact(r.left, symbols), right = sizes.exact(r.right, symbols);
      if (!left || !right) continue;
      const bool wide = *left != static_cast<int64_t>(*left) || *right != static_cast<int64_t>(*right);
      if (wide || !holds(r.kind, static_cast<int64_t>(*left), static_cast<int64_t>(*right))) return false;
    }
    return true;
  }

  SizeMaker sizes;
  std::unique_ptr<GuardProgram> program;
  std::vector<Relation> relations;
  std::vector<size_t> used;
};

}  // namespace escapement::fuzz

// The world: what of torch, beside its tensors, a program can change and an operator or the host can look at: seeds, default dtype,
// modes of the thread, flags of the process, how the processor treats denormals.
//
// A compiled program runs in the world that its caller is in, and changes nothing of it but generators, by the draws that were
// recorded. So a program that changes the world by itself is noticed while it is recorded, whatever it calls to do so: the world is
// compared with what it was, not the ways of changing it listed. Such a recording is refused (Reason::state_changed), and the program
// itself runs at every call.
//
// Three questions, the rows of world.cpp say which state matters to which:
// - at the end: is everything as it was? Modes that are entered and left again are the recording's own business.
// - at an operator: is what decides about its meaning as it was at the start? Else the call, which is replayed, would mean something else.
// - at the entry of a later call: is what the program may have looked at as it was (Ground)? Else another version is made.
#pragma once

#include <ATen/core/Generator.h>
#include <ATen/core/ivalue.h>
#include <c10/core/ScalarType.h>

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "escapement/export.h"
#include "torch/record/process_flags.h"

namespace escapement {

// What a version takes for granted of the process. Asked at every call: some ten nanoseconds. Made in another way than by now(), it is
// that of no process: such a version fits no call.
struct Ground {
  uint32_t flags = kNoFlags;                 // a number for the flags of at::Context, of this process alone (process_flags.h)
  c10::ScalarType dtype = c10::ScalarType::Float;

  static Ground now();
  friend bool operator==(const Ground&, const Ground&) = default;
};

class ESCAPEMENT_API World {
 public:
  World();                                   // as it is now, for this thread
  // The first thing that is otherwise now; empty if none is.
  std::string changed() const;               // of everything
  std::string changed_inside() const;        // of what decides about operators

 private:
  std::vector<uint64_t> seen_;
};

// One recording's watch over the world.
class WorldWatch {
 public:
  // `known`: generators besides torch's own whose state is noted now. Of others nobody can say whether the program seeded them before
  // it drew from them.
  explicit WorldWatch(std::span<const at::Generator> known);
  ~WorldWatch();
  WorldWatch(const WorldWatch&) = delete;
  WorldWatch& operator=(const WorldWatch&) = delete;

  // Around every operator. `before` says what the program has changed, or nothing; `after` whether the operator drew random numbers.
  std::string before(std::span<const c10::IValue> arguments);
  bool after();
  std::string at_end();
  const std::vector<at::Generator>& unknown() const { return unknown_; }

 private:
  struct Watched;
  std::string moved() const;

  World world_;
  std::vector<Watched> generators_;
  std::vector<at::Generator> unknown_;
};

}  // namespace escapement

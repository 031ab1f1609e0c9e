// Where eager makes a view at some sizes and a copy at others (reshape), or hands back its argument (contiguous, dropout of nothing), call mode
// records the copy, for all sizes. Here is decided what of the difference can be seen, and only that is guarded:
//   - memory that both have: if one of them is written, or both are known outside of the recording;
//   - strides: of a result, or of what takes its layout from there, where the view has others than the copy;
//   - whether two results are one tensor, and in which mode a result was made (`is_inference`): also where there are no elements.
// Each is one relation of sizes, of the side that was seen (copies.h). If eager did not copy while it was recorded, and that can be seen, the
// recording is lost, and the next one decides at the operators named in Recording::decided.
#pragma once

#include <cstdint>
#include <functional>
#include <set>
#include <string>
#include <vector>

#include "trace/trace.h"

namespace escapement {

struct Tape;

struct Choice {
  ValueId source;
  Dim copies;            // at least 1 where eager copies what has elements; none: it copies all that has
  Dim strays;            // at least 1 where eager's view has other strides than the copy; none: nowhere
  bool itself = false;   // where eager does not copy it hands back the argument itself
  bool unlike = false;   // the argument was made in inference mode, and the copy is not, or the other way
  bool atens = false;    // it is made by ATen at each call, and so right whatever the side; only the kind of its result is held
};

class Choices {
 public:
  explicit Choices(Tape& tape) : tape_(tape) {}

  void note(ValueId copy, const Choice& choice);
  bool is_noted(ValueId copy) const;
  void forget(uint32_t first_value);            // instructions were taken back
  void decide_at(std::set<size_t> operators) { decided_ = std::move(operators); }
  bool decides_now() const;                     // at the operator that is being recorded

  void written(ValueId value);                  // in place, or reached into
  void renamed(ValueId value);                  // its sizes and strides were changed in place
  void asked_kind(ValueId value);               // is it a view?
  void layout_read(ValueId value);
  void at_exit();                               // a side trace gets what is held as it is, and could not tell
  void at_end();                                // all outputs are known

 private:
  struct Noted {
    Choice choice;
    ValueId copy;
    size_t number;                              // of the operator
    bool apart = false, filled = false, straight = false;   // guarded: it is a copy, there are elements, the strides are the copy's
  };
  uint32_t storage(ValueId value) const;
  Dim how_apart(const Noted& noted);
  bool is_shared_now(const Noted& noted);
  void demand(Noted& noted, bool Noted::* done, Dim at_least_one, const char* what);
  void demand_apart(Noted& noted);
  void demand_elements(Noted& noted);
  void demand_kind(Noted& noted);
  void hold_side(const Noted& noted);
  void lose(const Noted& noted, const char* what);
  std::set<uint32_t> joined(uint32_t storage, bool now);
  using Seen = std::function<bool(uint32_t storage)>;
  void part(uint32_t storage, const Seen& seen);
  void follow_layouts();
  void hold_identities();
  void hold_modes(uint32_t of);

  Tape& tape_;
  std::vector<Noted> noted_;
  std::set<size_t> decided_;
  std::vector<std::set<size_t>> layouts_;       // by value: the choices that its strides depend on
  size_t followed_ = 0;                         // instructions whose results are in there
};

}  // namespace escapement

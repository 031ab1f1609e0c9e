// Pending: the tensors of a running segment that have no memory yet, by number. A place keeps its tensor where nobody else
// has it when the segment ends, so that the next segment need not make one.
#pragma once

#include <vector>

#include "support/limits.h"
#include "torch/replay_mode/deferred.h"
#include "torch/replay_mode/held.h"

namespace escapement {

class Pending {
 public:
  size_t size() const { return size_; }
  Deferred& operator[](size_t number) const { return *places_[number]; }
  at::Tensor tensor(size_t number) const { return at::Tensor(places_[number]); }
  bool is_held(size_t number) const { return escapement::is_held(places_[number], *places_[number], 1); }
  Deferred& add(ReplayCall* call, const Produced& type) {
    if (size_ == places_.size()) places_.emplace_back();
    Place& place = places_[size_++];
    if (!place || !place->may_begin(type)) [[unlikely]] place = Deferred::make(type.keys, type.dtype);
    place->begin(call, type);
    return *place;
  }

  // Those that others may know of are handed over; if nothing was computed for them they say so from now on.
  void clear(std::vector<at::Tensor>& others) {
    for (size_t i = 0; i < size_; ++i) {
      Place& place = places_[i];
      if (is_ours_alone(place)) [[likely]] continue;
      if (place->call() != nullptr) place->lose();
      others.emplace_back(std::move(place));
    }
    size_ = 0;
    if (places_.size() > kKept) places_.resize(kKept);
  }

 private:
  using Place = c10::intrusive_ptr<Deferred>;
  // Nobody else knows it, and it has stayed without memory: it may stand for another tensor.
  static bool is_ours_alone(const Place& place) {
    return place.use_count() == 1 && place.weak_use_count() == 1 && !has_python_object(*place) &&
           place->autograd_meta() == nullptr && place->call() != nullptr;
  }
  static constexpr size_t kKept = limits::operators_of_a_segment;
  std::vector<Place> places_;   // the first `size_` are in use
  size_t size_ = 0;
};

}  // namespace escapement

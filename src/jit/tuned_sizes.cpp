// See tuned_sizes.h.
#include "jit/tuned_sizes.h"

#include <algorithm>

namespace escapement {

TunedSizes::Entry* TunedSizes::find(Variant variant, const Geometry& sizes) {
  const auto same = [&](const Entry& e) { return e.variant == variant && e.sizes == sizes; };
  const auto found = std::find_if(entries_.begin(), entries_.end(), same);
  return found == entries_.end() ? nullptr : &*found;
}

TunedSizes::Entry& TunedSizes::entry(Variant variant, const Geometry& sizes) {
  if (Entry* const known = find(variant, sizes)) return *known;
  if (entries_.size() < kTracked) return entries_.emplace_back(Entry{variant, sizes, 0, false, nullptr});
  const auto rarer = [](const Entry& a, const Entry& b) { return !a.asked && (b.asked || a.launches < b.launches); };
  Entry& rarest = *std::min_element(entries_.begin(), entries_.end(), rarer);
  return rarest = Entry{variant, sizes, 0, false, nullptr};
}

TunedSizes::Noted TunedSizes::note(Variant variant, const Geometry& sizes, int64_t launches, int64_t hot) {
  const std::lock_guard lock(mutex_);
  Entry& seen = entry(variant, sizes);
  if (seen.code != nullptr) return {seen.code->function(0), false};
  seen.launches += launches;
  if (seen.asked || seen.launches < hot || asked_ == kTuned) return {};
  seen.asked = true;
  ++asked_;
  return {nullptr, true};
}

void TunedSizes::install(Variant variant, const Geometry& sizes, std::unique_ptr<CodeModule> code) {
  const std::lock_guard lock(mutex_);
  if (Entry* const asked = find(variant, sizes)) asked->code = std::move(code);  // what was asked for is never given up
}

}  // namespace escapement

// See device_code.h.
#include "jit/run/device_code.h"

#include <algorithm>

namespace escapement {

namespace {

bool reduces_first(const LoopNest& nest) {
  if (nest.stages.empty()) return false;
  const Stage& first = nest.stages.front();
  return first.kind == Stage::Kind::each_element && !first.reductions.empty();
}

std::string_view name_of(Team team) {
  switch (team) {
    case Team::thread: return "thread";
    case Team::tile: return "tile";
    case Team::warp: return "warp";
    case Team::block: return "block";
    case Team::partial: return "partial";
    case Team::finish: return "finish";
  }
  return "";
}

}  // namespace

bool has_team(const LoopNest& nest, DeviceVariant variant) {
  const bool in_parts = variant.team == Team::partial || variant.team == Team::finish;
  switch (nest.schedule) {
    case Schedule::map: return variant.team == Team::tile || (variant.team == Team::thread && !variant.fast);
    case Schedule::row: return variant.team == Team::warp || variant.team == Team::block || (in_parts && reduces_first(nest));
    case Schedule::column: return variant.team == Team::block || (in_parts && reduces_first(nest));
  }
  return false;
}

std::string name_of(DeviceVariant variant) { return std::string(name_of(variant.team)) + (variant.fast ? "_fast" : "_general"); }

unsigned device_vector(const LoopNest& nest) {
  int64_t widest = 1;
  for (const LoopParam& param : nest.params) widest = std::max(widest, param.inner == InnerStride::unit ? size_of(param.dtype) : 1);
  return kVectorBytes / static_cast<unsigned>(widest);
}

}  // namespace escapement

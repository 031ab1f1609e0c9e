// See size_rules.h: layers, losses and their gradients.
#include "torch/record/size_rules.h"

namespace escapement::size_rules {

namespace {

const std::vector<Dim>& sizes_of(const OpCall& call, const char* name) { return call.type(call.value(name)).sizes; }

// None where there is no such axis.
Dim axis_of(const std::vector<Dim>& sizes, size_t axis) { return axis < sizes.size() ? sizes[axis] : Dim(); }

Dim constant(const OpCall& call, int64_t n) { return call.table().constant(n); }

bool any_varies(const OpCall& call, std::initializer_list<const char*> names) {
  for (const char* name : names)
    if (call.find(name) >= 0 && call.varies(name)) return true;
  return false;
}

int64_t product_of(OpCall& call, const char* name, size_t axes) {
  const std::vector<int64_t> numbers = call.integers(name);
  int64_t product = 1;
  for (size_t i = 0; i < axes; ++i) product *= numbers.empty() ? 1 : numbers[std::min(i, numbers.size() - 1)];
  return product;
}

}  // namespace

Sizes convolution_gradients(OpCall& call) {
  return {sizes_of(call, "input"), sizes_of(call, "weight"), {axis_of(sizes_of(call, "grad_output"), 1)}};
}

Sizes group_norm(OpCall& call) {
  if (any_varies(call, {"group"})) return {};
  const std::vector<Dim> each{call.dim("N"), constant(call, call.integer("group"))};
  return {sizes_of(call, "input"), each, each};
}

Sizes group_norm_gradients(OpCall& call) {
  const std::vector<Dim> channels{call.dim("C")};
  return {sizes_of(call, "input"), channels, channels};
}

// Outside of training nothing is saved.
Sizes batch_norm(OpCall& call) {
  const std::vector<Dim> channels{axis_of(sizes_of(call, "input"), 1)};
  const bool saves = call.flag("training", call.plan.base.find("no_training") == std::string::npos && call.plan.base.find("no_update") == std::string::npos);
  const std::vector<Dim> saved = saves ? channels : std::vector<Dim>{constant(call, 0)};
  Sizes sizes{sizes_of(call, "input"), saved, saved};
  const bool reserves = call.plan.base.find("_with_update") != std::string::npos || call.plan.base.find("no_update") != std::string::npos;
  if (reserves) sizes.push_back({Dim()});
  while (sizes.size() < call.reals.size()) sizes.push_back(channels);
  return sizes;
}

Sizes batch_norm_gradients(OpCall& call) {
  const std::vector<Dim> channels{axis_of(sizes_of(call, "input"), 1)};
  return {sizes_of(call, "input"), channels, channels};
}

Sizes weight_norm(OpCall& call) {
  if (call.find("saved_v") >= 0) return {sizes_of(call, "saved_v"), sizes_of(call, "saved_g")};
  return {sizes_of(call, "v"), sizes_of(call, "g")};
}

Sizes sampling_gradients(OpCall& call) { return {sizes_of(call, "input"), sizes_of(call, "grid")}; }

Sizes padded(OpCall& call) {
  std::vector<Dim> sizes = sizes_of(call, "self");
  const std::vector<Dim> ends = call.dims(call.find("pad") >= 0 ? "pad" : "padding");
  if (ends.size() % 2 != 0 || ends.size() / 2 > sizes.size()) return {};
  DimTable& dims = call.table();
  for (size_t i = 0; i < ends.size() / 2; ++i) {
    Dim& size = sizes[sizes.size() - 1 - i];
    size = dims.add(dims.add(size, ends[2 * i]), ends[2 * i + 1]);
  }
  return {sizes};
}

Sizes nll_loss(OpCall& call) {
  constexpr int64_t kNone = 0;   // at::Reduction::None
  if (call.integer("reduction", 1) != kNone) return {{}, {}};
  return {sizes_of(call, "target"), {}};
}

Sizes pair_loss(OpCall& call) {
  constexpr int64_t kNone = 0;   // at::Reduction::None
  if (call.integer("reduction", 1) != kNone) return {{}};
  return {call.build.broadcast(sizes_of(call, "self"), sizes_of(call, "target"), call.plan.target.c_str())};
}

Sizes embedding_bags(OpCall& call) {
  const std::vector<Dim>&offsets = sizes_of(call, "offsets"), &weight = sizes_of(call, "weight");
  if (offsets.size() != 1 || weight.size() != 2) return {};
  DimTable& dims = call.table();
  const Dim bags = call.flag("include_last_offset") ? dims.sub(offsets[0], dims.constant(1)) : offsets[0];
  return {{bags, weight[1]}};
}

Sizes bag_gradients(OpCall& call) { return {{call.dim("num_weights"), axis_of(sizes_of(call, "grad"), 1)}}; }

// [.., C, H * r, W * r] -> [.., C * r * r, H, W]
Sizes pixel_unshuffle(OpCall& call) {
  std::vector<Dim> sizes = sizes_of(call, "self");
  if (any_varies(call, {"downscale_factor"}) || sizes.size() < 3) return {};
  DimTable& dims = call.table();
  const int64_t factor = call.integer("downscale_factor");
  const size_t last = sizes.size() - 1;
  sizes[last - 2] = dims.mul(sizes[last - 2], dims.constant(factor * factor));
  for (const size_t axis : {last - 1, last}) sizes[axis] = dims.floordiv(sizes[axis], dims.constant(factor));
  return {sizes};
}

// [N, C * kernel, windows] -> [N, C, H, W]
Sizes folded(OpCall& call) {
  std::vector<Dim> sizes = sizes_of(call, "self");
  const std::vector<Dim> image = call.dims("output_size");
  if (any_varies(call, {"kernel_size"}) || sizes.size() < 2 || image.size() != 2) return {};
  sizes.pop_back();
  sizes.back() = call.table().floordiv(sizes.back(), constant(call, product_of(call, "kernel_size", 2)));
  sizes.insert(sizes.end(), image.begin(), image.end());
  return {sizes};
}

Sizes unpooled(OpCall& call) {
  std::vector<Dim> sizes = sizes_of(call, "self");
  const std::vector<Dim> target = call.dims("output_size");
  if (target.size() > sizes.size()) return {};
  std::copy(target.begin(), target.end(), sizes.end() - static_cast<std::ptrdiff_t>(target.size()));
  return Sizes(call.reals.size(), sizes);
}

Sizes integer_product(OpCall& call) {
  const size_t columns = call.plan.base == "_int_mm" ? 1 : 0;
  return {{axis_of(sizes_of(call, "self"), 0), axis_of(sizes_of(call, "mat2"), columns)}};
}

}  // namespace escapement::size_rules

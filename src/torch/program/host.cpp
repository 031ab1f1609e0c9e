// See host.h.
#include "torch/program/host.h"

#include <ATen/ops/empty_strided.h>

#include <c10/core/Contiguity.h>
#include <c10/core/MemoryFormat.h>

#include <algorithm>
#include <functional>
#include <numeric>

#include "support/error.h"
#include "torch/program/number_operands.h"
#include "torch/program/pool.h"
#include "torch/program/sorted_axes.h"
#include "torch/record/recorder_tape.h"
#include "trace/layout.h"

namespace escapement {
namespace {

// The deleter of borrowed memory: nothing to free, and the mark by which `is_borrowed` knows it.
void not_ours(void*) {}

c10::DataPtr borrowed(void* address) { return {address, address, &not_ours, c10::Device(c10::DeviceType::CPU)}; }

constexpr const char* kTooLarge = "a tensor of this call would not fit 64-bit addresses";

// Elements from the first to one past the last that sizes and strides reach.
int64_t reach(c10::IntArrayRef sizes, c10::IntArrayRef strides) {
  int64_t last = 1;
  for (size_t d = 0; d < sizes.size(); ++d) {
    if (sizes[d] == 0) return 0;
    int64_t step = 0;
    if (__builtin_mul_overflow(sizes[d] - 1, strides[d], &step) || __builtin_add_overflow(last, step, &last)) {
      throw UserError(kTooLarge);
    }
  }
  return last;
}

[[gnu::noinline, gnu::cold]] at::Tensor new_tensor_there(c10::IntArrayRef sizes, c10::IntArrayRef strides, caffe2::TypeMeta dtype, c10::Device device) {
  return at::empty_strided(sizes, strides, at::TensorOptions(device).dtype(dtype));
}

// Of one axis without elements, until it is told otherwise.
at::TensorBase on_new_memory(int64_t elements, caffe2::TypeMeta dtype) {
  int64_t bytes = 0;
  if (elements < 0 || __builtin_mul_overflow(elements, static_cast<int64_t>(dtype.itemsize()), &bytes)) throw UserError(kTooLarge);
  c10::Allocator* allocator = output_allocator(static_cast<size_t>(bytes));
  auto storage = c10::make_intrusive<c10::StorageImpl>(c10::StorageImpl::use_byte_size_t(), bytes, allocator->allocate(static_cast<size_t>(bytes)),
                                                       allocator, /*resizable=*/true);
  return at::detail::make_tensor_base<c10::TensorImpl>(std::move(storage), c10::DispatchKeySet(c10::DispatchKey::CPU), dtype);
}

// Contiguous, on the CPU: no strides to compute and to compare.
at::Tensor new_plain_tensor(c10::IntArrayRef sizes, caffe2::TypeMeta dtype) {
  int64_t elements = 1;
  for (const int64_t size : sizes) {
    if (__builtin_mul_overflow(elements, size, &elements)) throw UserError(kTooLarge);
  }
  at::TensorBase tensor = on_new_memory(elements, dtype);
  tensor.unsafeGetTensorImpl()->set_sizes_contiguous(sizes);
  return at::Tensor(std::move(tensor));
}

}  // namespace

at::Tensor new_tensor(c10::IntArrayRef sizes, c10::IntArrayRef strides, caffe2::TypeMeta dtype, c10::Device device) {
  if (!device.is_cpu()) [[unlikely]] return new_tensor_there(sizes, strides, dtype, device);
  at::TensorBase tensor = on_new_memory(reach(sizes, strides), dtype);
  if (sizes.size() != 1 || sizes[0] != 0) tensor.unsafeGetTensorImpl()->set_sizes_and_strides(sizes, strides);
  return at::Tensor(std::move(tensor));
}

at::Tensor new_view(const at::Tensor& base, c10::IntArrayRef sizes, c10::IntArrayRef strides, int64_t offset, caffe2::TypeMeta dtype) {
  auto tensor = at::detail::make_tensor<c10::TensorImpl>(c10::TensorImpl::VIEW, c10::Storage(base.storage()),
                                                         base.key_set(), dtype);  // without autograd's keys it would be an inference tensor
  c10::TensorImpl* impl = tensor.unsafeGetTensorImpl();
  impl->set_sizes_and_strides(sizes, strides, offset);
  if (!impl->is_inference() && !base.is_inference()) impl->set_version_counter(base.unsafeGetTensorImpl()->version_counter());
  return tensor;
}

bool is_borrowed(const at::Tensor& tensor) {
  return tensor.has_storage() && tensor.storage().data_ptr().get_deleter() == &not_ours;
}

// Unlike dense_order: an axis of one element has a stride of its own, which ATen looks at (whether two views are the same one).
std::vector<uint8_t> TensorRecipes::stepping_order(const TensorType& type) {
  std::vector<uint8_t> order;
  std::vector<bool> taken(static_cast<size_t>(type.rank()));
  Dim expected = dims_.constant(1);
  while (order.size() < taken.size()) {
    int axis = type.rank() - 1;
    while (axis >= 0 && (taken[axis] || type.strides[axis] != expected)) --axis;
    if (axis < 0) return {};
    taken[axis] = true;
    order.push_back(static_cast<uint8_t>(axis));
    expected = dims_.mul(expected, type.sizes[axis]);
  }
  return order;
}

// Whether an axis of stride 0 is as long as it was expanded to: part of a longer one keeps its stride, and so does one that was given.
bool TensorRecipes::is_as_expanded(ValueId value, int32_t axis) const {
  const Trace& trace = plan_.trace;
  while (trace[value].definition) {
    const Instr& made = trace[trace[value].definition];
    if (made.op == Op::reshape) return true;
    if (made.op == Op::expand) {
      const TensorType &whole = trace.type(value), &before = trace.type(made.operands[0]);
      if (before.rank() == 0) return false;   // ATen's rule of its own
      axis -= whole.rank() - before.rank();
      if (axis < 0 || dims_.as_constant(before.strides[axis]) != std::optional<int64_t>(0)) return true;
      value = made.operands[0];
      continue;
    }
    if (info(made.op).kind != OpKind::view || made.op == Op::as_strided) return false;
    if (made.op == Op::slice && made.attrs.axis == axis) return false;
    if (made.op == Op::permute) axis = made.attrs.axes[static_cast<size_t>(axis)];
    else if (made.op == Op::unsqueeze && made.attrs.axis == axis) return false;
    else if (made.op == Op::unsqueeze) axis -= axis > made.attrs.axis;
    else if (made.op == Op::squeeze || made.op == Op::select) axis += axis >= made.attrs.axis;
    value = made.operands[0];
  }
  return false;
}

// Behind copies, which keep strides, also those of axes of one element.
ValueId TensorRecipes::copied_from(ValueId value) const {
  const Trace& trace = plan_.trace;
  for (InstrId made = trace[value].definition; made; made = trace[value].definition) {
    if (trace[made].op != Op::copy && trace[made].op != Op::cast) break;
    value = trace[made].operands[0];
  }
  return value;
}

std::optional<uint32_t> TensorRecipes::input_of(ValueId value) const {
  const uint32_t number = plan_.buffer_of[value.index];
  if (number == Id<void>::kNone) return {};
  const Buffer& buffer = plan_.buffers[number];
  if (buffer.kind != Buffer::Kind::input || buffer.root != value) return {};
  return buffer.input;
}

// What was made of an input, or of one whose axes were permuted, and of numbers: ATen's iterator sorts its axes by the strides that the input has.
std::optional<TensorRecipe::Sorted> TensorRecipes::sorted_as(ValueId value) const {
  const Trace& trace = plan_.trace;
  const TensorType& type = trace.type(value);
  for (InstrId made_by = trace[value].definition; made_by && info(trace[made_by].op).kind == OpKind::pointwise; made_by = trace[value].definition) {
    const Instr& made = trace[made_by];
    const auto whole = std::ranges::find_if(made.operands, [&](ValueId operand) { return trace.type(operand).sizes == type.sizes; });
    if (has_only_whole(trace, made, type) || whole == made.operands.end()) return {};
    value = *whole;
  }
  std::vector<uint8_t> axes(type.sizes.size());
  std::iota(axes.begin(), axes.end(), 0);
  if (const InstrId made_by = trace[value].definition; made_by && trace[made_by].op == Op::permute) {
    const std::vector<int32_t>& permuted = trace[made_by].attrs.axes;
    std::ranges::transform(permuted, axes.begin(), [](int32_t axis) { return static_cast<uint8_t>(axis); });
    value = trace[made_by].operands[0];
  }
  const auto input = input_of(value);
  return input ? std::optional(TensorRecipe::Sorted{*input, std::move(axes)}) : std::nullopt;
}

// Of new memory that is not laid out as a new tensor for all sizes.
void TensorRecipes::note_rule(TensorRecipe& recipe, ValueId value) {
  const Trace& trace = plan_.trace;
  if (std::ranges::is_sorted(recipe.dense, std::greater())) return;
  const bool channels_last = is_channels_last(dims_, trace.type(value).sizes, trace.type(value).strides);
  value = copied_from(value);
  if (!trace[value].definition) {
    recipe.copied = input_of(value);
    return;
  }
  const Instr& made = trace[trace[value].definition];
  const bool is_pointwise = info(made.op).kind == OpKind::pointwise;
  recipe.sorted = sorted_as(value);
  recipe.natural = is_pointwise && !recipe.sorted;
  recipe.natural_image = is_pointwise && has_only_whole(trace, made, trace.type(value));
  recipe.natural_of_nothing = is_pointwise && (!channels_last || recipe.natural_image);
}

std::optional<StrideWalk> TensorRecipes::walk_to(ValueId value) {
  return StrideWalk::of(plan_.trace, value, [this](ValueId v) { return input_of(v); }, [this](Dim dim) { return executable_.slot(dim); });
}

uint32_t TensorRecipes::add(ValueId value) {
  if (const auto known = known_.find(value.index); known != known_.end()) return known->second;
  const TensorType& type = plan_.trace.type(value);
  TensorRecipe recipe;
  recipe.buffer = plan_.buffer_of[value.index];
  ESCAPEMENT_CHECK(recipe.buffer != Id<void>::kNone, "a value that a call or the caller needs has no memory");
  const Buffer& buffer = plan_.buffers[recipe.buffer];
  recipe.kind = buffer.kind;
  recipe.input = buffer.input;
  recipe.whole = value == buffer.root;
  const TensorType& root = plan_.trace.type(buffer.root);
  recipe.alike = type.sizes == root.sizes && type.strides == root.strides && type.offset == root.offset;
  recipe.dense = stepping_order(type);
  const bool is_new = recipe.whole && recipe.kind != Buffer::Kind::input;
  if (is_new ? type.rank() > 1 : !recipe.whole) recipe.walk = walk_to(value);
  recipe.alike = recipe.alike && !(recipe.walk && recipe.kind == Buffer::Kind::input);
  if (is_new) note_rule(recipe, value);
  recipe.plain = is_new && recipe.dense.size() == type.sizes.size() && std::ranges::is_sorted(recipe.dense, std::greater());
  if (type.dtype != DType::other) recipe.dtype = c10::scalarTypeToTypeMeta(scalar_type_of(type.dtype));
  else ESCAPEMENT_CHECK(root.dtype == DType::other, "a view of another dtype than its root's is a call's result");
  for (const Dim size : type.sizes) recipe.sizes.push_back(executable_.slot(size));
  for (const Dim stride : type.strides) {
    const auto axis = static_cast<int32_t>(recipe.strides.size());
    const bool stays = dims_.as_constant(stride) == std::optional<int64_t>(0);
    recipe.expanded |= uint64_t{stays} << axis;
    recipe.new_if_one |= uint64_t{stays && is_as_expanded(value, axis)} << axis;
    recipe.strides.push_back(executable_.slot(stride));
  }
  if (type.offset) recipe.offset = executable_.slot(type.offset);
  else recipe.offset = executable_.constant(0);
  recipes_.push_back(std::move(recipe));
  known_.emplace(value.index, static_cast<uint32_t>(recipes_.size() - 1));
  return static_cast<uint32_t>(recipes_.size() - 1);
}

void TensorRecipes::settle() {
  const ShapeProgram& shapes = executable_.shapes();
  for (TensorRecipe& recipe : recipes_) {
    recipe.level = shapes.level(recipe.offset);
    for (const Slot slot : recipe.sizes) recipe.level = std::max(recipe.level, shapes.level(slot));
    for (const Slot slot : recipe.strides) recipe.level = std::max(recipe.level, shapes.level(slot));
    if (recipe.walk)
      for (const Slot slot : recipe.walk->slots()) recipe.level = std::max(recipe.level, shapes.level(slot));
  }
}

void TensorTable::hold() {
  held_.assign(arguments_.begin(), arguments_.end());
  held_tensors_.reserve(held_.size());
  for (Argument& argument : held_) {
    if (argument.tensor) argument.tensor = &held_tensors_.emplace_back(*argument.tensor);
  }
  arguments_ = held_;
}

void TensorTable::end() {
  for (at::Tensor& tensor : of_buffer_) tensor.reset();
  for (auto it = displaced_.rbegin(); it != displaced_.rend(); ++it) context_.bases[it->first] = it->second;
  displaced_.clear();
  arguments_ = {};
  held_.clear();
  held_tensors_.clear();
  offers_ = {};
}

c10::IntArrayRef TensorTable::values(const std::vector<Slot>& slots, c10::SmallVector<int64_t, 8>& into) const {
  into.resize(slots.size());
  for (size_t i = 0; i < slots.size(); ++i) into[i] = context_.table[slots[i]];
  return into;
}

// An axis of size 0 counts as 1 in torch's strides, in ours it is 0, like any other product; and a stride of 0 is an expanded axis to ATen.
// An axis that was expanded to one element has the stride of a new axis: ATen takes tensors whose strides differ for other places in memory.
c10::IntArrayRef TensorTable::strides(const TensorRecipe& recipe) {
  const auto made = values(recipe.strides, strides_);
  const bool nothing = is_empty(recipe);
  if (recipe.walk && stride_by_walk(recipe, nothing)) return strides_;
  if ((recipe.natural || recipe.natural_of_nothing || recipe.sorted || recipe.copied) && stride_as_eager(recipe)) return strides_;
  if (nothing) stride_over_nothing(recipe);
  else if (recipe.new_if_one != 0) stride_over_one(recipe);
  return nothing || recipe.new_if_one != 0 ? c10::IntArrayRef(strides_) : made;
}

// Axes of more than one element are as the recipe says.
bool TensorTable::stride_by_walk(const TensorRecipe& recipe, bool nothing) {
  if (!nothing && !(recipe.walk->is_exact() && has_axis_of(1, recipe))) return false;
  const auto from = recipe.walk->input();
  Strides walked = recipe.walk->strides(from ? &input(*from) : nullptr, context_.table.data());
  for (size_t axis = 0; axis < walked.size() && !nothing; ++axis)
    if (context_.table[recipe.sizes[axis]] > 1 && walked[axis] != strides_[axis]) return false;
  strides_ = std::move(walked);
  return true;
}

bool TensorTable::walks(const TensorRecipe& recipe) const {
  if (!recipe.walk || !has_axis_below_two(recipe)) return false;
  const auto from = recipe.walk->input();
  return !from || !recipe.walk->keeps_new(input(*from));
}

bool TensorTable::strides_vary(const TensorRecipe& recipe) const {
  return (recipe.walk || recipe.sorted || recipe.copied) && has_axis_below_two(recipe);
}

bool TensorTable::has_axis_below_two(const TensorRecipe& recipe) const {
  return std::ranges::any_of(recipe.sizes, [&](Slot slot) { return context_.table[slot] < 2; });
}

bool TensorTable::has_axis_of(int64_t size, const TensorRecipe& recipe) const {
  return std::ranges::any_of(recipe.sizes, [&](Slot slot) { return context_.table[slot] == size; });
}

bool TensorTable::stride_as_eager(const TensorRecipe& recipe) {
  if (recipe.sorted && stride_sorted(recipe)) return true;
  if (!recipe.copied) return stride_naturally(recipe);
  const at::Tensor& from = input(*recipe.copied);
  const auto of_one = [](int64_t size) { return size < 2; };
  if (std::none_of(from.sizes().begin(), from.sizes().end(), of_one)) return false;
  if (from.sizes() != sizes(recipe) || !from.is_non_overlapping_and_dense()) return false;
  strides_.assign(from.strides().begin(), from.strides().end());
  return true;
}

// Of axes of more than one element the order is the one that the recipe has.
bool TensorTable::stride_sorted(const TensorRecipe& recipe) {
  const c10::IntArrayRef shape = sizes(recipe);
  const at::Tensor& from = input(recipe.sorted->input);
  if (from.numel() == 0 || std::ranges::count(shape, 1) == 0) return false;
  Strides given;
  for (const uint8_t axis : recipe.sorted->axes) given.push_back(from.stride(axis));
  Strides sorted = sorted_strides({&given, 1}, shape);
  for (size_t axis = 0; axis < shape.size(); ++axis)
    if (shape[axis] > 1 && strides_[axis] != sorted[axis]) return false;
  strides_ = std::move(sorted);
  return true;
}

bool TensorTable::stride_as_image(const TensorRecipe& recipe) {
  const c10::IntArrayRef shape = sizes(recipe);
  if (!c10::_compute_channels_last_contiguous_2d<int64_t>(shape, strides_)) return false;
  const std::vector<int64_t> strides = c10::get_channels_last_strides_2d(shape);
  strides_.assign(strides.begin(), strides.end());
  return true;
}

bool TensorTable::stride_naturally(const TensorRecipe& recipe) {
  int64_t next = 1;
  bool contiguous = true, empty = false;
  for (size_t d = strides_.size(); d-- > 0;) {
    const int64_t size = context_.table[recipe.sizes[d]];
    contiguous = contiguous && (size == 1 || strides_[d] == next);
    empty = empty || size == 0;
    next *= size;
  }
  if (!empty && !contiguous) return recipe.natural_image && stride_as_image(recipe);
  if (empty ? !recipe.natural_of_nothing : !recipe.natural) return false;
  next = 1;
  for (size_t d = strides_.size(); d-- > 0; next *= std::max<int64_t>(context_.table[recipe.sizes[d]], 1)) strides_[d] = next;
  return true;
}

void TensorTable::stride_over_one(const TensorRecipe& recipe) {
  int64_t next = 1;
  for (size_t d = strides_.size(); d-- > 0;) {
    const int64_t size = context_.table[recipe.sizes[d]];
    if ((recipe.new_if_one >> d & 1) != 0 && size == 1) strides_[d] = next;
    next = size * strides_[d];
  }
}

void TensorTable::stride_over_nothing(const TensorRecipe& recipe) {
  for (size_t d = 0; d < strides_.size(); ++d)
    if ((recipe.expanded >> d & 1) == 0) strides_[d] = std::max<int64_t>(strides_[d], 1);
  int64_t inner = 1;
  for (const uint8_t axis : recipe.dense) {
    strides_[axis] = inner;
    inner *= std::max<int64_t>(context_.table[recipe.sizes[axis]], 1);
  }
}

void* TensorTable::address(uint32_t index) const {
  const TensorRecipe& recipe = recipes_[index];
  return static_cast<char*>(context_.bases[recipe.buffer]) + offset(recipe) * static_cast<int64_t>(recipe.dtype.itemsize());
}

const at::Tensor* TensorTable::offered(const TensorRecipe& recipe) {
  const uint32_t output = output_of_buffer_[recipe.buffer];
  if (output >= offers_.size() || !recipe.whole) return nullptr;
  const at::Tensor& offer = offers_[output];
  if (!offer.defined() || offer.dtype() != recipe.dtype || offer.requires_grad() || offer.device() != entry_.device()) return nullptr;
  // Of a negated or conjugated view, and of one that is zero, the memory does not hold what the tensor is.
  if (offer.is_neg() || offer.is_conj() || offer._is_zerotensor()) return nullptr;
  return offer.sizes() == sizes(recipe) && offer.strides() == strides(recipe) ? &offer : nullptr;
}

void* TensorTable::allocate(uint32_t index) {
  const TensorRecipe& recipe = recipes_[index];
  at::Tensor& tensor = of_buffer_[recipe.buffer];
  if (const at::Tensor* const offer = offers_.empty() ? nullptr : offered(recipe)) {
    tensor = *offer;
    if (!tensor.is_inference()) tensor.unsafeGetTensorImpl()->bump_version();
    return tensor.mutable_data_ptr();
  }
  const bool plain = recipe.plain && entry_.device().is_cpu() && !walks(recipe);
  tensor = plain ? new_plain_tensor(sizes(recipe), recipe.dtype) : new_tensor(sizes(recipe), strides(recipe), recipe.dtype, entry_.device());
  return tensor.unsafeGetTensorImpl()->unsafe_storage().mutable_data();
}

void TensorTable::adopt(uint32_t buffer, at::Tensor tensor) {
  displaced_.emplace_back(buffer, context_.bases[buffer]);
  context_.bases[buffer] = const_cast<void*>(tensor.const_data_ptr());
  of_buffer_[buffer] = std::move(tensor);
}

void TensorTable::point(Cached& cached, const TensorRecipe& recipe, void* address) {
  const auto recipe_sizes = sizes(recipe), recipe_strides = strides(recipe);
  const size_t bytes = static_cast<size_t>(reach(recipe_sizes, recipe_strides)) * recipe.dtype.itemsize();
  // A library that kept the tensor keeps this one; the next calls get another.
  if (!cached.tensor.defined() || cached.tensor.use_count() != 1 || cached.tensor.storage().use_count() != 1) {
    auto storage = c10::make_intrusive<c10::StorageImpl>(c10::StorageImpl::use_byte_size_t(), bytes, borrowed(address), nullptr,
                                                         /*resizable=*/false);
    cached.tensor = at::detail::make_tensor<c10::TensorImpl>(std::move(storage), c10::DispatchKeySet(c10::DispatchKey::CPU), recipe.dtype);
  } else {
    c10::StorageImpl* storage = cached.tensor.storage().unsafeGetStorageImpl();
    storage->set_data_ptr_noswap(borrowed(address));
    storage->unsafe_set_nbytes(bytes);
  }
  cached.tensor.unsafeGetTensorImpl()->set_sizes_and_strides(recipe_sizes, recipe_strides);
}

const at::Tensor& TensorTable::temporary(uint32_t index) {
  ESCAPEMENT_CHECK(entry_.device().is_cpu(), "a temporary in the arena, which is no memory of a device");
  const TensorRecipe& recipe = recipes_[index];
  Cached& cached = cached_[index];
  void* const where = address(index);
  const uint64_t epoch = context_.epochs[recipe.level];
  if (cached.address != where || cached.epoch != epoch || cached.tensor.use_count() != 1 || strides_vary(recipe)) {
    point(cached, recipe, where);
    cached.address = where;
    cached.epoch = epoch;
  }
  return cached.tensor;
}

at::Tensor TensorTable::get(uint32_t index) {
  const TensorRecipe& recipe = recipes_[index];
  const bool input = recipe.kind == Buffer::Kind::input;
  const at::Tensor& root = input ? this->input(recipe.input) : of_buffer_[recipe.buffer];
  if (!root.defined()) {
    if (recipe.kind != Buffer::Kind::output) return temporary(index);  // in the arena
    context_.bases[recipe.buffer] = allocate(index);  // the result of a call that writes into planned memory
  }
  if (recipe.whole) return root;
  const caffe2::TypeMeta dtype = recipe.dtype == caffe2::TypeMeta() ? root.dtype() : recipe.dtype;
  if (recipe.alike) return new_view(root, root.sizes(), root.strides(), root.storage_offset(), dtype);  // ATen compares the strides
  return new_view(root, sizes(recipe), strides(recipe), root.storage_offset() + offset(recipe), dtype);
}

}  // namespace escapement

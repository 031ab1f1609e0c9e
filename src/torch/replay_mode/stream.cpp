// See stream.h.
#include "torch/replay_mode/stream.h"

#include <ATen/core/grad_mode.h>

#include <algorithm>
#include <bit>

#include "support/events.h"
#include "support/limits.h"
#include "torch/record/program_metadata.h"
#include "torch/replay_mode/host_memory.h"
#include "torch/replay_mode/launch.h"

namespace escapement {
namespace {

bool is_shared_memory(const c10::TensorImpl& impl) {
  const c10::StorageImpl* storage = impl.unsafe_storage().unsafeGetStorageImpl();
  if (storage == nullptr) return false;
  if (is_host_memory(*storage)) return true;
  if (storage->allocator() != nullptr) return !storage->resizable();   // an array was made of it: torch forbids to resize it then
  // Parameters are read late all the same: files that are mapped into memory look like this.
  return impl.autograd_meta() == nullptr || !impl.autograd_meta()->requires_grad();
}

// Without those of autograd, but with the one that tells an inference tensor from others: its views are inference tensors.
uint64_t form_keys(const c10::TensorImpl& impl) {
  return impl.key_set().raw_repr() & ~(c10::autograd_dispatch_keyset | c10::autocast_dispatch_keyset).raw_repr();
}

bool is_dense(const c10::TensorImpl& impl, const std::vector<int32_t>& order) {
  int64_t expected = 1;
  for (auto axis = order.rbegin(); axis != order.rend(); ++axis) {
    if (impl.strides()[axis_of(*axis)] != expected) return false;
    expected *= impl.sizes()[axis_of(*axis)];
  }
  return true;
}

std::vector<bool> broadcast_axes(const c10::TensorImpl& impl) {
  std::vector<bool> axes;
  for (const int64_t stride : impl.strides()) axes.push_back(stride == 0);
  return axes;
}

}  // namespace

// A fake tensor, while torch looks at what stands behind it, has a CPU's keys and the device `meta`.
bool is_plain_tensor(const c10::TensorImpl& impl) { return is_plain(impl) && impl.device_type() == c10::DeviceType::CPU; }

bool wants_gradient(const c10::TensorImpl& impl) {
  c10::AutogradMetaInterface* const meta = impl.autograd_meta();
  if (meta == nullptr) return false;
  if (meta->requires_grad() && at::GradMode::is_enabled()) return true;
  const at::Tensor self(c10::intrusive_ptr<c10::TensorImpl>::reclaim_copy(const_cast<c10::TensorImpl*>(&impl)));
  return meta->fw_grad(/*level=*/0, self).defined();
}

TensorForm TensorForm::of(const at::Tensor& tensor) {
  const c10::TensorImpl& impl = *tensor.unsafeGetTensorImpl();
  TensorForm form;
  form.keys = form_keys(impl);
  form.dtype = bits_of(impl.dtype());
  form.rank = static_cast<uint8_t>(impl.dim());
  form.contiguous = has_natural_strides(impl);
  form.shared = is_shared_memory(impl);
  if (!form.contiguous) {
    form.order = order_of(impl);
    form.dense = is_dense(impl, form.order);
    form.broadcast = broadcast_axes(impl);
  }
  return form;
}

bool TensorForm::holds(const c10::TensorImpl& impl) const {
  if (form_keys(impl) != keys || bits_of(impl.dtype()) != dtype) return false;
  if (rank != impl.sizes().size() || has_natural_strides(impl) != contiguous || is_shared_memory(impl) != shared) return false;
  if (impl.is_wrapped_number() || wants_gradient(impl)) return false;
  return contiguous || (order_of(impl) == order && is_dense(impl, order) == dense && broadcast_axes(impl) == broadcast);
}

void TensorForm::read(const c10::TensorImpl& impl, int64_t* slots) const {
  slots = std::copy(impl.sizes().begin(), impl.sizes().end(), slots);
  if (!contiguous) slots = std::copy(impl.strides().begin(), impl.strides().end(), slots);
  *slots = impl.storage_offset();
}

bool Produced::holds_for(c10::IntArrayRef known_sizes) const {
  if (holds == LayoutHolds::always) return true;
  const int64_t least = holds == LayoutHolds::elements ? 1 : 2;
  return std::all_of(known_sizes.begin(), known_sizes.end(), [&](int64_t size) { return size >= least; });
}

bool Produced::evaluate(const int64_t* table, c10::SmallVectorImpl<int64_t>& known_sizes) const {
  int64_t value = 0;
  for (const Formula& size : sizes) {
    if (!size.evaluate(table, value)) return false;
    known_sizes.push_back(value);
  }
  return true;
}

bool Produced::evaluate_layout(const int64_t* table, c10::IntArrayRef known_sizes, c10::SmallVectorImpl<int64_t>& known_strides,
                               int64_t& known_offset) const {
  if (!strides_known || !offset || !offset->evaluate(table, known_offset)) return false;
  if (base_slot) known_offset += table[*base_slot];
  known_strides.resize(known_sizes.size());
  int64_t next = 1;
  for (size_t axis = known_sizes.size(); axis-- > 0;) {
    if (natural) known_strides[axis] = next;
    else if (!strides[axis].evaluate(table, known_strides[axis])) return false;
    if (known_sizes[axis] > 1) next *= known_sizes[axis];
  }
  return true;
}

void Pattern::hold(const c10::IValue& constant) {
  value = constant;
  if (constant.isInt()) number = Number::integer, bits = constant.toInt();
  if (constant.isDouble()) number = Number::real, bits = std::bit_cast<int64_t>(constant.toDouble());
  if (constant.isBool()) number = Number::truth, bits = constant.toBool() ? 1 : 0;
  if (constant.isIntList()) integers = constant.toIntVector();
}

// One after the other: a stream is as deep as a program has operators, and the stack is not.
StreamNode::~StreamNode() {
  delete launch.load();
  for (StreamNode* rest = child.exchange(nullptr); rest != nullptr;) {
    StreamNode* const node = std::exchange(rest, rest->sibling.exchange(nullptr));
    if (StreamNode* const below = node->child.exchange(nullptr)) {
      StreamNode* last = below;
      while (StreamNode* const next = last->sibling.load()) last = next;
      last->sibling = std::exchange(rest, below);
    }
    delete node;
  }
}

StreamTree::StreamTree(std::string name, Options options) : name_(std::move(name)), options_(std::move(options)) {}
StreamTree::~StreamTree() = default;

StreamNode* StreamTree::root(uint64_t included, uint64_t excluded, caffe2::TypeMeta dtype) {
  const std::lock_guard lock(mutex_);
  auto& root = roots_[{included, excluded, c10::typeMetaToScalarType(dtype)}];
  if (!root) {
    static const auto any = c10::Dispatcher::singleton().findSchemaOrThrow("aten::alias", "");
    root = std::make_unique<StreamNode>(any);
  }
  return root.get();
}

bool StreamTree::may_grow(const StreamNode& parent) const {
  int children = 0;
  for (const StreamNode* node = parent.child.load(); node != nullptr; node = node->sibling.load()) ++children;
  return children < (parent.parent == nullptr ? limits::first_operators : limits::branches_of_an_operator) && nodes_.load() < limits::operators_of_a_function;
}

template <class T>
static void append(std::atomic<T*>& first, T* last, std::atomic<T*> T::*next) {
  std::atomic<T*>* place = &first;
  while (T* node = place->load()) place = &(node->*next);
  place->store(last, std::memory_order_release);
}

StreamNode* StreamTree::add(StreamNode* parent, std::unique_ptr<StreamNode> node) {
  const std::lock_guard lock(mutex_);
  node->parent = parent;
  append(parent->child, node.get(), &StreamNode::sibling);
  ++nodes_;
  return node.release();
}

void StreamTree::add(StreamNode* node, std::unique_ptr<SegmentLaunch> launch) {
  const std::lock_guard lock(mutex_);
  append(node->launch, launch.release(), &SegmentLaunch::next);
}

bool StreamTree::is_refused(const c10::OperatorHandle& op) const {
  if (!any_refused_.load(std::memory_order_acquire)) return false;
  const std::lock_guard lock(mutex_);
  return refused_.contains(&op.schema());
}

void StreamTree::refuse(const c10::OperatorHandle& op, Reason why, const std::string& detail) {
  log_event("fallback", name_ + ": " + std::string(reason_name(why)) + " " + detail);
  note(why);
  const std::lock_guard lock(mutex_);
  refused_.insert(&op.schema());
  any_refused_.store(true, std::memory_order_release);
}

bool StreamTree::has_fixed_numbers(const NumberUse& use) const {
  const std::lock_guard lock(mutex_);
  return fixed_.contains(use);
}

void StreamTree::fix_numbers(const NumberUse& use) {
  const std::lock_guard lock(mutex_);
  fixed_.insert(use);
}

void StreamTree::note(Reason why, const std::string& what) {
  count(why);
  const std::lock_guard lock(mutex_);
  ++reasons_[why];
  if (!what.empty() && (at_once_.size() < 64 || at_once_.contains(what))) ++at_once_[what];
}

}  // namespace escapement

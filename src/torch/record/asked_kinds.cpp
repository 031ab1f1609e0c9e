// See asked_kinds.h.
#include "torch/record/asked_kinds.h"

#include <ATen/core/VariableHooksInterface.h>
#include <c10/core/impl/LocalDispatchKeySet.h>
#include <torch/csrc/autograd/variable.h>

#include <algorithm>
#include <utility>

#include "torch/record/exposed_memory.h"
#include "torch/record/library_target.h"
#include "torch/record/lower.h"
#include "torch/record/recorder_fallback.h"
#include "torch/record/wrapper.h"

namespace escapement {
namespace {

namespace autograd = torch::autograd;
using Question = ArgumentKind::Question;
using at::TensorBase;

at::impl::VariableHooksInterface* torchs = nullptr;   // set once, before ours are asked

Wrapper* wrapper_of(const TensorBase& tensor) { return Wrapper::of(tensor.unsafeGetTensorImpl()); }

// A composite of torch's that asks takes a shortcut and is right either way.
bool is_program_asking(const Wrapper& wrapper) {
  return wrapper.value() && wrapper.tape().live() && current_tape() == &wrapper.tape() && composite_in_progress() == nullptr;
}

// Later calls are held to the argument's kind.
void note(Tape& tape, ValueId value, Question question) {
  const Recording& recording = tape.recording;
  const auto input = tape.input_of(value);
  if (!input || *input >= recording.trace.inputs.size() - recording.captured.size()) return;
  std::vector<ArgumentKind>& kinds = tape.recording.kinds;
  const auto same = [&](const ArgumentKind& kind) { return kind.input == *input && kind.question == question; };
  if (std::none_of(kinds.begin(), kinds.end(), same)) kinds.push_back({*input, question, ArgumentKind::is(question, tape.given(value))});
}

// Eager's answer. A view requires gradients, and so stands in their graph, if what it is a view of does.
bool ask(const Wrapper& wrapper, Question question) {
  Tape& tape = wrapper.tape();
  if (is_program_asking(wrapper)) {
    const ValueId root = tape.trace().type(wrapper.value()).root;
    const bool inherited = question == Question::requires_grad || question == Question::has_node;
    note(tape, inherited ? root : wrapper.value(), question);
    if (question == Question::has_node && root != wrapper.value()) note(tape, root, Question::requires_grad);
  }
  return ArgumentKind::is(question, wrapper.inner());
}

bool is_given(const Wrapper& wrapper) {
  Tape& tape = wrapper.tape();
  return !tape.trace()[tape.trace().type(wrapper.value()).root].definition;
}

// A composite that is recorded whole may hand on a view at some sizes, and what it made itself at others.
bool is_composites(const Wrapper& wrapper) {
  const Trace& trace = wrapper.tape().trace();
  const InstrId made_by = trace[wrapper.value()].definition;
  if (!made_by || trace[made_by].op != Op::call) return false;
  const std::string name = LibraryTarget::parse(trace[made_by].attrs.target).name;
  return name.starts_with("aten::") && keep_whole(std::string_view(name).substr(6));
}

// Is what the answer says of this tensor another thing at other calls? Then there is no program for them.
void end(const Wrapper& wrapper, Reason why, const char* detail) {
  if (is_program_asking(wrapper) && is_given(wrapper)) wrapper.tape().refuse(why, detail);
}

// The flag of a wrapper is the program's to set; to begin with it is the tensor's.
class Watch {
 public:
  virtual ~Watch() = default;
  virtual bool changed() const = 0;   // of this one: in replay mode the program holds the tensor itself, and may change that
};

// What autograd finds at the wrapper of an argument, or of a view.
template <typename Meta>
class Asked final : public Meta, public Watch {
 public:
  template <typename... Arguments>
  explicit Asked(Wrapper& wrapper, Arguments&&... arguments)
      : Meta(std::forward<Arguments>(arguments)...), wrapper_(&wrapper), given_(wrapper.inner().requires_grad()) {
    this->requires_grad_ = given_;
  }

  bool requires_grad() const override {
    if (composite_in_progress() != nullptr) return false;
    if (!changed()) ask(*wrapper_, Question::requires_grad);
    return this->requires_grad_;
  }
  const at::Tensor& grad() const override {
    if (ask(*wrapper_, Question::has_grad)) end(*wrapper_, Reason::gradient, "the program asked an argument for its gradient");
    return wrapper_->inner().grad();
  }
  at::Tensor& mutable_grad() override {
    end(*wrapper_, Reason::gradient, "the program sets an argument's gradient");
    return wrapper_->inner().mutable_grad();
  }
  bool changed() const override { return this->requires_grad_ != given_; }

 private:
  Wrapper* const wrapper_;   // which owns this
  const bool given_;
};

const Watch* watch_of(const Wrapper& wrapper) { return dynamic_cast<const Watch*>(wrapper.autograd_meta()); }

// Who was told of a view takes what autograd keeps of one for granted (`torch::autograd::Function` writes there what made it).
void keep_as_view(Wrapper& wrapper) {
  auto* const meta = static_cast<autograd::AutogradMeta*>(wrapper.autograd_meta());
  if (meta != nullptr && meta->is_view_) return;
  const bool wanted = meta != nullptr && meta->requires_grad_;
  const at::Tensor base = Wrapper::of(wrapper.base()) ? wrapper.base() : at::Tensor(torchs->base(wrapper.inner()));
  autograd::ViewInfo info(base, /*view_fn=*/nullptr, /*rev_view_fn=*/nullptr);
  auto made = std::make_unique<Asked<autograd::DifferentiableViewMeta>>(wrapper, &wrapper, std::move(info), std::nullopt, /*shared_view_info=*/true);
  made->requires_grad_ = wanted;
  wrapper.set_autograd_meta(std::move(made));
}

// A tensor of replay mode without memory says what it is a view of once it has some.
void end_deferral(const TensorBase& tensor) {
  if (tensor.unsafeGetTensorImpl()->key_set().has(kRecorderKey)) static_cast<void>(tensor.has_storage());
}

// A tensor of the program gets other memory, by no operator: what is pending in replay mode is to read what it has held so far.
void end_segment() {
  OpListener* const listener = op_listener();
  if (listener != nullptr && !c10::impl::tls_is_dispatch_key_excluded(kRecorderKey)) listener->end_segment();
}

// Another name for a tensor's memory is made. Of a tensor of the program it is what stands behind that is exposed; what has no memory yet holds nothing.
void expose(const TensorBase& tensor) {
  if (const Wrapper* const wrapper = wrapper_of(tensor)) return note_exposed(wrapper->inner());
  if (!tensor.unsafeGetTensorImpl()->key_set().has(kRecorderKey)) note_exposed(tensor);
}

class Hooks final : public at::impl::VariableHooksInterface {
 public:
  bool is_view(const TensorBase& tensor) const override {
    Wrapper* const wrapper = wrapper_of(tensor);
    if (wrapper == nullptr) return end_deferral(tensor), torchs->is_view(tensor);
    const bool view = ask_view(*wrapper);
    if (view) keep_as_view(*wrapper);
    return view;
  }

  // The program's own name for it, if it has one.
  const TensorBase& base(const TensorBase& tensor) const override {
    const Wrapper* const wrapper = wrapper_of(tensor);
    if (!wrapper) return end_deferral(tensor), torchs->base(tensor);
    if (const Wrapper* const known = Wrapper::of(wrapper->base())) {
      ask(*known, Question::view);
      return wrapper->base();
    }
    if (is_program_asking(*wrapper)) wrapper->tape().refuse(Reason::recorder_refused, "the base of a view that was given was asked for");
    return torchs->base(wrapper->inner());
  }

  int64_t _version(const TensorBase& tensor) const override {
    const Wrapper* const wrapper = wrapper_of(tensor);
    if (!wrapper) return torchs->_version(tensor);
    end(*wrapper, Reason::recorder_refused, "how often an argument was written was asked");
    return torchs->_version(wrapper->inner());
  }

  const c10::intrusive_ptr<autograd::Node>& grad_fn(const TensorBase& tensor) const override {
    return torchs->grad_fn(noded(tensor) ? wrapper_of(tensor)->inner() : tensor);
  }
  // Asked, too, before a tensor is made to require gradients: so do its views from then on, which are to know of it.
  bool is_leaf(const TensorBase& tensor) const override {
    const Wrapper* const wrapper = wrapper_of(tensor);
    if (wrapper == nullptr) end_deferral(tensor);
    return wrapper && watch_of(*wrapper) ? !ask(*wrapper, Question::has_node) : torchs->is_leaf(tensor);
  }
  int64_t output_nr(const TensorBase& tensor) const override {
    return torchs->output_nr(noded(tensor) ? wrapper_of(tensor)->inner() : tensor);
  }
  bool retains_grad(const TensorBase& tensor) const override {
    return torchs->retains_grad(noded(tensor) ? wrapper_of(tensor)->inner() : tensor);
  }

  // Of these torch's own mean the wrapper, or are asked of it in ways that the recording notices.
  TensorBase tensor_data(const TensorBase& tensor) const override { return expose(tensor), torchs->tensor_data(tensor); }
  TensorBase variable_data(const TensorBase& tensor) const override { return expose(tensor), torchs->variable_data(tensor); }
  unsigned _register_hook(const TensorBase& tensor, std::function<TensorBase(const TensorBase&)> hook) const override {
    return torchs->_register_hook(tensor, std::move(hook));
  }
  void remove_hook(const TensorBase& tensor, unsigned position) const override { torchs->remove_hook(tensor, position); }
  const std::string& name(const TensorBase& tensor) const override { return torchs->name(tensor); }
  // A tensor from elsewhere gets what ours stands for: what is ours ends with the call, and its memory may not be there yet.
  void set_data(const TensorBase& tensor, const TensorBase& data) const override {
    const Wrapper* const from = wrapper_of(tensor) ? nullptr : wrapper_of(data);
    if (from == nullptr) return end_deferral(data), end_segment(), torchs->set_data(tensor, data);
    from->tape().refuse(Reason::argument_reshaped, "the data of a tensor from elsewhere was replaced (x.data = y)");
    from->tape().written.note();
    torchs->set_data(tensor, from->inner());
  }
  TensorBase data(const TensorBase& tensor) const override { return expose(tensor), torchs->data(tensor); }
  void retain_grad(const TensorBase& tensor) const override { torchs->retain_grad(tensor); }
  void _backward(const at::Tensor& tensor, at::TensorList inputs, const std::optional<at::Tensor>& gradient, std::optional<bool> keep_graph,
                 bool create_graph) const override {
    torchs->_backward(tensor, inputs, gradient, keep_graph, create_graph);
  }
  void requires_grad_(const TensorBase& tensor, bool wanted) const override { torchs->requires_grad_(tensor, wanted); }
  void basic_autograd_not_implemented_fallback(const c10::OperatorHandle& op, c10::DispatchKeySet keys, torch::jit::Stack* stack) const override {
    torchs->basic_autograd_not_implemented_fallback(op, keys, stack);
  }
  std::optional<c10::ScalarType> grad_dtype(const TensorBase& tensor) const override { return torchs->grad_dtype(tensor); }
  void set_grad_dtype(const TensorBase& tensor, const std::optional<c10::ScalarType>& dtype) const override {
    torchs->set_grad_dtype(tensor, dtype);
  }

 private:
  // An argument that stands in a graph of gradients, which the recording ends at.
  static bool noded(const TensorBase& tensor) {
    const Wrapper* const wrapper = wrapper_of(tensor);
    if (!wrapper || !watch_of(*wrapper) || !ask(*wrapper, Question::has_node)) return false;
    end(*wrapper, Reason::gradient, "the program asked an argument for its place in a graph of gradients");
    return true;
  }
};

}  // namespace

bool ArgumentKind::is(Question question, const at::Tensor& real) {
  const c10::TensorImpl& impl = *real.unsafeGetTensorImpl();
  switch (question) {
    case Question::view: return torchs->is_view(real);
    case Question::inference: return real.is_inference();
    case Question::requires_grad: return impl.requires_grad();
    case Question::has_node: return torchs->grad_fn(real) != nullptr;
    case Question::has_grad: return impl.grad().defined();
  }
  return false;
}

std::string ArgumentKind::text() const {
  constexpr const char* kTexts[][2] = {{"is no view", "is a view"},
                                       {"was made outside of inference mode", "was made in inference mode"},
                                       {"requires no gradient", "requires a gradient"},
                                       {"stands in no graph of gradients", "stands in a graph of gradients"},
                                       {"has no gradient", "has a gradient"}};
  return kTexts[static_cast<size_t>(question)][answer];
}

void install_kind_questions() {
  static const bool installed = [] {
    torchs = at::impl::GetVariableHooks();
    at::impl::SetVariableHooks(new Hooks);   // lives as long as torch
    return true;
  }();
  static_cast<void>(installed);
}

// Eager hands back the tensor itself at some sizes, or a view, and a copy at others: as if it were written, one of them is decided on.
bool ask_view(const Wrapper& wrapper) {
  if (is_program_asking(wrapper)) {
    wrapper.tape().choices.asked_kind(wrapper.value());
    if (is_composites(wrapper)) wrapper.tape().refuse(Reason::recorder_refused, "whether the result of a composite operator is a view was asked");
  }
  return ask(wrapper, Question::view);
}

void watch_kind(Wrapper& tensor) { tensor.set_autograd_meta(std::make_unique<Asked<autograd::AutogradMeta>>(tensor)); }

std::optional<bool> requested_gradient(const Wrapper& wrapper) {
  const auto* const meta = dynamic_cast<const autograd::AutogradMeta*>(wrapper.autograd_meta());
  const Watch* const asked = watch_of(wrapper);
  const bool changed = asked ? asked->changed() : meta && meta->requires_grad() && !wrapper.inner().requires_grad();
  return changed ? std::optional(meta->requires_grad_) : std::nullopt;
}

}  // namespace escapement

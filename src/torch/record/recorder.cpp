// See recorder.h.
#include "torch/record/recorder.h"

#include <c10/core/InferenceMode.h>
#include <c10/core/impl/LocalDispatchKeySet.h>

#include <algorithm>
#include <map>

#include "support/error.h"
#include "torch/record/forward.h"
#include "torch/record/gradient_mirror.h"
#include "torch/record/host_args.h"
#include "torch/record/recorder_fallback.h"
#include "torch/record/symnode.h"
#include "torch/record/unharmed.h"
#include "torch/record/wrapper.h"

namespace escapement {

struct Recorder::State {
  TapePtr tape;
  TapePtr outer;              // what this thread recorded before; restored by leave()
  bool included_before = false, excluded_before = false;
  bool entered = false;
};

Recorder::Recorder(std::string name, c10::Device device) : state_(std::make_unique<State>()) {
  install_recorder();
  state_->tape = std::make_shared<Tape>(std::move(name));
  state_->tape->recording.device = device;
}

Recorder::~Recorder() {
  leave();
  state_->tape->closed = true;
}

void install_recorder() {
  install_fallback();
  install_kind_questions();
}

const TapePtr& Recorder::tape() const { return state_->tape; }

DimTable& Recorder::dims() { return state_->tape->dims(); }

void Recorder::declare(const SizeSpec& spec, Dim dim) {
  Tape& tape = *state_->tape;
  const Range known = tape.dims().range(dim);
  const auto at_most = [&](Dim left, Dim right) { tape.guard_relation(Guard::Kind::less_equal, left, right, true, kDeclared); };
  if (spec.least > known.low) at_most(tape.dims().constant(spec.least), dim);
  if (spec.most < known.high) at_most(dim, tape.dims().constant(spec.most));
}

void Recorder::declare_equal(Dim a, Dim b) { state_->tape->guard_relation(Guard::Kind::equal, a, b, true, kDeclared); }

Dim Recorder::integer(int64_t value, std::string name) {
  Tape& tape = *state_->tape;
  // Not Builder::input_integer: the symbol needs the value seen now.
  Source source;
  source.kind = Source::Kind::input_value;
  source.input = static_cast<uint32_t>(tape.trace().inputs.size());
  Input input;
  input.kind = Input::Kind::integer;
  input.dim = tape.dims().new_symbol(SymbolKind::integer, source, value);
  input.name = std::move(name);
  tape.trace().inputs.push_back(input);
  return input.dim;
}

c10::SymInt Recorder::as_symint(Dim dim) {
  const auto hint = dims().hint(dim);
  ESCAPEMENT_CHECK(hint.has_value(), "a size without a value");
  return state_->tape->symint(dim, *hint);
}

at::Tensor Recorder::tensor(const at::Tensor& real, std::vector<Dim> sizes, std::string name, bool parameter) {
  Tape& tape = *state_->tape;
  if (!is_plain(real))
    throw InternalError("the input " + name + " is not a plain strided tensor", Reason::unsupported_input);
  if (!tape.is_home(real)) throw InternalError("the input " + name + " lies on " + real.device().str(), Reason::device_mixed);
  if (sizes.size() != static_cast<size_t>(real.dim())) throw UserError("the input " + name + " has another rank than was said");
  for (size_t d = 0; d < sizes.size(); ++d) {
    const auto symbol = tape.dims().as_symbol(sizes[d]);
    if (symbol && tape.dims().info(*symbol).source.kind == Source::Kind::none) {
      Source source;
      source.kind = Source::Kind::input_size;
      source.input = static_cast<uint32_t>(tape.trace().inputs.size());
      source.dim = static_cast<uint32_t>(d);
      tape.dims().set_source(*symbol, source);
    }
    if (tape.dims().hint(sizes[d]) != std::optional<int64_t>(real.size(static_cast<int64_t>(d))))
      throw UserError("size " + std::to_string(d) + " of the input " + name + " is " + std::to_string(real.size(static_cast<int64_t>(d))) +
                      ", not " + tape.dims().to_string(sizes[d]));
  }
  const ValueId value = tape.add_input(real, std::move(sizes), name, parameter);
  const at::Tensor wrapper = Wrapper::make(real, state_->tape, value);
  watch_kind(*Wrapper::of(wrapper));
  return wrapper;
}

at::Tensor Recorder::tensor(const at::Tensor& real, std::string name) {
  std::vector<Dim> sizes;
  for (const int64_t size : real.sizes()) sizes.push_back(dims().new_symbol(SymbolKind::size, {}, size));
  return tensor(real, std::move(sizes), std::move(name), false);
}

void Recorder::opaque_input(std::string name) {
  Input input;
  input.kind = Input::Kind::integer;
  input.name = std::move(name);
  state_->tape->trace().inputs.push_back(std::move(input));
}

void Recorder::set_location_hook(std::function<int()> hook) { state_->tape->location_hook = std::move(hook); }

void Recorder::enter(std::span<const at::Generator> known, bool exits_everywhere) {
  if (state_->entered) return;
  state_->tape->recording.ground = Ground::now();
  state_->tape->world = std::make_shared<WorldWatch>(known);
  state_->tape->exits = std::make_unique<ExitNotes>(exits_everywhere);
  state_->tape->recording.exits_everywhere = exits_everywhere;
  state_->tape->thread = std::this_thread::get_id();
  state_->outer = current_tape_ptr();
  state_->included_before = c10::impl::tls_is_dispatch_key_included(kRecorderKey);
  set_current_tape(state_->tape);
  c10::impl::tls_set_dispatch_key_included(kRecorderKey, true);
  // A program that a library call runs (flow.h) is recorded by itself, inside a call that the outer recording does not see.
  state_->excluded_before = c10::impl::tls_is_dispatch_key_excluded(kRecorderKey);
  c10::impl::tls_set_dispatch_key_excluded(kRecorderKey, false);
  state_->entered = true;
}

void Recorder::go_forward(Departure departure) {
  state_->tape->forward = std::make_shared<Forward>(std::move(departure));
  state_->tape->written.note();   // whatever ends the program now, it cannot be run from its beginning
}

void Recorder::leave() {
  if (!state_->entered) return;
  c10::impl::tls_set_dispatch_key_included(kRecorderKey, state_->included_before);
  c10::impl::tls_set_dispatch_key_excluded(kRecorderKey, state_->excluded_before);
  set_current_tape(std::move(state_->outer));
  state_->entered = false;
}

namespace {

Output output_of(Tape& tape, const c10::IValue& v) {
  Output out;
  out.kind = Output::Kind::none;
  if (v.isTensor() && v.toTensor().defined()) {
    out.kind = Output::Kind::value;
    out.value = tape.value_of(v.toTensor());
  } else if (v.isInt() || v.isSymInt()) {
    out.kind = Output::Kind::integer;
    out.dim = tape.dim_of(v.isSymInt() ? v.toSymInt() : c10::SymInt(v.toInt()));
  } else if (v.isBool() || v.isSymBool()) {
    out.kind = Output::Kind::boolean;
    out.dim = tape.dim_of(v.isBool() ? c10::SymInt(v.toBool()) : truth_number(v.toSymBool()));
  } else if (!v.isNone() && !v.isTensor()) {
    if (v.isSymFloat()) v.toSymFloat().guard_float(__FILE__, __LINE__);
    tape.refuse(Reason::recorder_refused, "the program returns something that is no tensor, integer or boolean");
  }
  return out;
}

// The bound that an entry guard sets on an expression: at least (low) or at most `value`.
struct Bound {
  Dim of;
  bool low = true;
  int64_t value = 0;
};

std::optional<Bound> bound_of(const DimTable& dims, const Guard& guard) {
  if (guard.after || (guard.kind != Guard::Kind::less && guard.kind != Guard::Kind::less_equal)) return {};
  const int64_t open = guard.kind == Guard::Kind::less ? 1 : 0;
  const auto constant = [&](Dim side) { return dims.symbols(side).empty() ? dims.as_constant(side) : std::nullopt; };
  if (const auto c = constant(guard.left); c && *c != Range::kMax) return Bound{guard.right, true, *c + open};
  if (const auto c = constant(guard.right); c && *c != Range::kMin) return Bound{guard.left, false, *c - open};
  return {};
}

// Of several bounds of one expression the strongest says all: `x[0]` to `x[499]` ask for 500 of them.
void drop_implied_guards(Trace& trace) {
  std::map<std::pair<Dim, bool>, int64_t> strongest;
  for (const Guard& guard : trace.guards) {
    const auto bound = bound_of(trace.dims, guard);
    if (!bound) continue;
    const auto [known, fresh] = strongest.try_emplace({bound->of, bound->low}, bound->value);
    if (!fresh) known->second = bound->low ? std::max(known->second, bound->value) : std::min(known->second, bound->value);
  }
  std::erase_if(trace.guards, [&](const Guard& guard) {
    const auto bound = bound_of(trace.dims, guard);
    return bound && strongest.at({bound->of, bound->low}) != bound->value;
  });
}

// Whether the recording left the world as it found it, but for the draws that are recorded.
void check_world(Tape& tape) {
  if (!tape.world) return;
  if (const std::string changed = tape.world->at_end(); !changed.empty()) tape.refuse(Reason::state_changed, changed);
}

// Not a copy, which a library call may make of an argument where another call hands back a view: that is held where it can be told (choices.h).
bool lies_in_given(Tape& tape, const at::Tensor& real, Storage storage) {
  const std::vector<Input>& inputs = tape.trace().inputs;
  return std::any_of(inputs.begin(), inputs.end(), [&](const Input& i) {
    return i.value && tape.trace().type(i.value).storage == storage && tape.given(i.value).is_alias_of(real);
  });
}

// Results of a program that switches inference mode by itself are made in the mode that it had on, if that is one for all of them. What shares
// an argument's memory was not made at all; where a library call said so, it may make it at other sizes, and in which mode cannot be told.
void note_inference(Tape& tape, const std::vector<c10::IValue>& outputs) {
  const bool outside = c10::InferenceMode::is_enabled();
  std::optional<bool> inside;
  bool has_views_of_calls = false;
  for (const c10::IValue& v : outputs) {
    if (!v.isTensor() || !v.toTensor().defined()) continue;
    const Wrapper* const w = Wrapper::of(v.toTensor());
    if (!w || !w->value()) continue;
    const TensorType& type = tape.trace().type(w->value());
    if (!tape.trace()[type.root].definition) continue;
    if (lies_in_given(tape, w->inner(), type.storage)) {
      has_views_of_calls = true;
      continue;
    }
    const bool made = w->inner().is_inference();
    if (inside.value_or(made) != made) return tape.refuse(Reason::state_changed, "only some of the results are made in inference mode");
    inside = made;
  }
  if (!inside || *inside == outside) return;
  if (has_views_of_calls) return tape.refuse(Reason::state_changed, "a library call's view of an argument may be made in another mode than the results");
  tape.recording.inference = inside;
}

void note_outputs(Tape& tape, const std::vector<c10::IValue>& outputs) {
  hand_over_requests(tape, outputs);
  {
    const ExitNotes::InsideOp no_exit(tape.exits.get());   // the program had its answer while it held more than it does now
    tape.end_question();
  }
  if (tape.live()) tape.lent.take_in(tape);
  if (tape.live()) check_world(tape);
  if (tape.live()) note_inference(tape, outputs);
  for (const c10::IValue& v : outputs) {
    if (!tape.live()) return;
    const Wrapper* const w = v.isTensor() ? Wrapper::of(v.toTensor()) : nullptr;
    if (w != nullptr && is_lazy(w->inner())) return tape.refuse(Reason::unsupported_tensor, "a result that is conjugated or negated by a bit");
    Output out = output_of(tape, v);
    if (tape.live()) tape.builder.output(std::move(out));
  }
  if (tape.live()) tape.choices.at_end();
  if (tape.live()) tape.judge_captures(outputs);
  if (tape.live()) drop_implied_guards(tape.trace());
}

}  // namespace

Recording Recorder::finish(std::vector<c10::IValue>& outputs) {
  leave();
  Tape& tape = *state_->tape;
  if (tape.forward) tape.forward->expect_arrived();
  unharmed(tape, [&] { note_outputs(tape, outputs); });
  if (tape.exits) tape.recording.exits = tape.exits->take_exits();
  if (!tape.recording.exits.empty()) tape.recording.script = std::make_shared<const std::vector<ScriptStep>>(tape.exits->take_script());
  for (c10::IValue& v : outputs) v = concrete(v);
  tape.closed = true;
  return std::move(tape.recording);
}

}  // namespace escapement

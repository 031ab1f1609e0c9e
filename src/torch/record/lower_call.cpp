// Library calls: any op without a lowering (or declined by it) is recorded whole, with what its schema says about writes and
// aliases. Result sizes come from a size rule where we have one that agrees with the real result, else from fresh symbols that
// are read from the result when the program runs.
#include <c10/core/impl/LocalDispatchKeySet.h>

#include <algorithm>
#include <numeric>

#include "torch/record/copies.h"
#include "torch/record/flow.h"
#include "torch/record/library_target.h"
#include "torch/record/lower.h"
#include "torch/record/program_metadata.h"
#include "torch/record/suggested_format.h"
#include "torch/record/wrapper.h"
#include "trace/layout.h"

namespace escapement {

namespace {

constexpr std::string_view kAttentionWithGradient = "_scaled_dot_product_flash_attention_for_cpu";   // draws where it has a dropout, which no CPU's has

bool agree(const DimTable& dims, const std::vector<Dim>& claimed, c10::IntArrayRef real) {
  if (claimed.size() != real.size()) return false;
  for (size_t i = 0; i < real.size(); ++i)
    if (!claimed[i] || dims.hint(claimed[i]) != std::optional<int64_t>(real[i])) return false;
  return true;
}

bool is_target(const OpCall& call, size_t argument) {
  const auto& writes = call.plan.writes;
  return call.plan.form == OpPlan::Form::out && std::find(writes.begin(), writes.end(), argument) != writes.end();
}

// What an out= argument was before decides nothing.
std::vector<Dim> broadcast_sizes(OpCall& call) {
  std::vector<Dim> sizes;
  for (size_t i = 0; i < call.args.size(); ++i) {
    const ValueId v = call.args[i].isTensor() && !is_target(call, i) ? call.value_at(static_cast<int>(i)) : ValueId();
    if (v) sizes = call.build.broadcast(sizes, call.type(v).sizes, call.plan.target.c_str());
  }
  return sizes;
}

std::vector<std::vector<Dim>> rule_sizes(OpCall& call) {
  if (!call.result_sizes.empty()) return {call.result_sizes};
  if (call.plan.sizes) return call.plan.sizes->rule(call);
  if (const Flow* flow = flow_of(call)) return flow_sizes(call, *flow);
  if (!call.plan.pointwise) return {};
  return {call.reals.size(), broadcast_sizes(call)};
}

// Where an out= argument kept its sizes, they must be the result's at every call: the caller's tensor does not grow under our hands.
void hold_targets(OpCall& call, const std::vector<std::vector<Dim>>& rules) {
  for (size_t i = 0; call.plan.form == OpPlan::Form::out && i < call.plan.writes.size(); ++i) {
    const ValueId target = call.value_at(static_cast<int>(call.plan.writes[i]));
    const at::Tensor real = call.real_at(static_cast<int>(call.plan.writes[i]));
    if (!target || !agree(call.table(), call.type(target).sizes, real.sizes())) continue;
    if (i >= rules.size() || !agree(call.table(), rules[i], real.sizes()))
      return call.tape.refuse(Reason::argument_reshaped, call.plan.target + " into a tensor of the program");
    hold_same_sizes(call, rules[i], call.type(target).sizes);
  }
}

bool effect_before(const OpCall& call) {
  const auto& instrs = call.tape.trace().instrs;
  return std::any_of(instrs.begin(), instrs.end(), [](const Instr& instr) { return instr.effect || !instr.writes.empty(); });
}

// A result whose sizes or strides no rule gives: born symbols, whose sources are set once the value exists.
struct Born {
  size_t result;
  uint32_t axis;
  bool stride;
  Symbol symbol;
};

class CallRecorder {
 public:
  explicit CallRecorder(OpCall& call) : call_(call), dims_(call.table()) {}

  void record() {
    // Whether the program seeds the device's generator before it draws from it is not watched (world.h).
    if (draws() && call_.tape.on_device()) return call_.tape.refuse(Reason::device_random, call_.plan.target);
    hold_layouts();
    keep_suggested_formats(call_);
    note_strides_of_nothing();
    CallArgs collected = call_args(call_.tape, *call_.plan.schema, call_.args, call_.values);
    note_flow();
    rules_ = rule_sizes(call_);
    hold_targets(call_, rules_);
    // A claim that fails is a failed check, and then all is done again: nothing may be claimed of a flow with effects, or behind one.
    if (flow_of(call_) && (effects_.other || effects_.writes_arguments || effect_before(call_))) rules_.clear();
    if (!rules_.empty() && rules_.size() < call_.reals.size()) rules_.resize(call_.reals.size());
    std::vector<TensorType> types;
    for (size_t i = 0; i < call_.reals.size(); ++i) types.push_back(result_type(i));
    const std::vector<uint32_t> writes = written_operands(collected);
    const bool effect = !writes.empty() || draws() || returns_nothing() || effects_.other || call_.plan.collective;
    const InstrId instr = call_.build.call(library_target(call_.plan.target), collected.operands, std::move(collected.args), std::move(types),
                                           writes, effect, draws() ? Reason::call_random : call_.why);
    call_.results = call_.tape.trace()[instr].results;
    bind_sources();
    for (const uint32_t w : writes) call_.tape.note_write(collected.operands[w]);
  }

 private:
  void note_flow() {
    const Flow* flow = flow_of(call_);
    if (!flow) return;
    effects_ = flow->effects();
    call_.why = Reason::call_flow;
  }

  bool draws() const { return (call_.plan.random && !has_no_dropout()) || call_.draws; }

  // Attention draws for its dropout alone, and so do recurrent networks, in training.
  bool has_no_dropout() const {
    if (call_.plan.base == "scaled_dot_product_attention" || call_.plan.base == kAttentionWithGradient) return call_.number("dropout_p") == 0;
    return is_recurrent(call_.plan.base) && (!call_.flag("train") || call_.number("dropout") == 0);
  }

  // An empty list is a result.
  bool returns_nothing() const { return call_.reals.empty() && call_.plan.schema->returns().empty(); }

  TensorType result_type(size_t i) {
    const at::Tensor& real = call_.reals[i];
    TensorType type;
    if (!real.defined()) return type;
    type.dtype = dtype_of(real.scalar_type());
    type.sizes = sizes_of(i);
    type.strides = strides_of(i, type.sizes);
    type.storage = shared_storage(real);
    return type;
  }

  std::vector<Dim> sizes_of(size_t i) {
    const at::Tensor& real = call_.reals[i];
    known_ = i < rules_.size() && agree(dims_, rules_[i], real.sizes());
    if (known_) return rules_[i];
    if (const ValueId same = argument_with(real)) {
      if (agree(dims_, call_.type(same).sizes, real.sizes())) return call_.type(same).sizes;
    }
    std::vector<Dim> sizes = fresh_dims(i, real.sizes(), false);
    if (i < rules_.size() && rules_[i].size() == sizes.size()) keep_known(sizes, i);
    return sizes;
  }

  // A rule may know some of the sizes.
  void keep_known(std::vector<Dim>& sizes, size_t i) {
    for (uint32_t d = 0; d < sizes.size(); ++d) {
      const Dim claimed = rules_[i][d];
      if (!claimed || dims_.hint(claimed) != std::optional<int64_t>(call_.reals[i].size(d))) continue;
      sizes[d] = claimed;
      std::erase_if(born_, [&](const Born& born) { return born.result == i && born.axis == d && !born.stride; });
    }
  }

  std::vector<Dim> fresh_dims(size_t i, c10::IntArrayRef hints, bool stride) {
    std::vector<Dim> out;
    for (size_t d = 0; d < hints.size(); ++d) {
      const Dim dim = dims_.new_symbol(SymbolKind::born, {}, hints[d]);
      if (!stride) dims_.assume_range(dim, {0, Range::kMax});
      born_.push_back({i, static_cast<uint32_t>(d), stride, *dims_.as_symbol(dim)});
      out.push_back(dim);
    }
    return out;
  }

  // As the first operand lies, and so does the output of attention with a gradient.
  std::vector<Dim> preserved(size_t i, const std::vector<Dim>& sizes) {
    const bool like = call_.plan.sizes && call_.plan.sizes->layout == ResultLayout::preserved;
    if (!known_ || !(like || (i == 0 && call_.plan.base == kAttentionWithGradient)) || shared_storage(call_.reals[i])) return {};
    const TensorType& first = call_.type(call_.values[0]);
    if (sizes != first.sizes) return {};
    const std::vector<Dim> strides = preserved_strides(dims_, first);
    return strides.size() == sizes.size() && agree_where_it_matters(strides, call_.reals[i]) ? strides : std::vector<Dim>{};
  }

  bool agree_where_it_matters(const std::vector<Dim>& claimed, const at::Tensor& real) {
    for (size_t axis = 0; axis < claimed.size(); ++axis)
      if (real.size(static_cast<int64_t>(axis)) > 1 && dims_.hint(claimed[axis]) != std::optional<int64_t>(real.stride(static_cast<int64_t>(axis)))) return false;
    return true;
  }

  std::vector<Dim> strides_of(size_t i, const std::vector<Dim>& sizes) {
    const at::Tensor& real = call_.reals[i];
    if (std::vector<Dim> strides = preserved(i, sizes); !strides.empty()) return strides;
    if (claim_contiguous(i)) return call_.build.contiguous_strides(sizes);
    if (claim_channels_last(i, sizes)) return channels_last_strides(dims_, sizes);
    if (known_ && call_.plan.sizes && call_.plan.sizes->layout == ResultLayout::heads && sizes.size() >= 3 && !shared_storage(real)) {
      std::vector<int32_t> order(sizes.size());
      std::iota(order.begin(), order.end(), 0);
      std::swap(order[1], order[2]);
      const c10::impl::ExcludeDispatchKeyGuard unseen(kRecorderKey);   // the question is ours, no operator of the program
      if (real.transpose(1, 2).is_contiguous()) return dense_strides(dims_, sizes, order);
    }
    return fresh_dims(i, real.strides(), true);
  }

  // Fresh one-dimensional memory is where it has two elements; otherwise only where the op is known for it and its inputs were seen so.
  bool claim_contiguous(size_t i) const {
    const at::Tensor& real = call_.reals[i];
    if (!real.is_contiguous()) return false;
    if (shared_storage(real)) return false;
    if (real.dim() == 0 || (real.dim() == 1 && real.size(0) > 1)) return true;
    if (real.dim() == 1) return has_natural_strides(*real.unsafeGetTensorImpl()) && of_contiguous();   // a copy may keep strides that address nothing
    if (!known_) return false;
    if (call_.plan.sizes && call_.plan.sizes->layout == ResultLayout::own) return false;
    if (call_.lays_out_otherwise()) return false;
    const bool fixed = call_.plan.sizes && call_.plan.sizes->layout != ResultLayout::of_operands;
    if (fixed && tells_layout(i) && !(call_.plan.sizes->layout == ResultLayout::image && strides_are_read(call_, call_.value_at(0)))) return true;
    return of_contiguous();
  }

  // Of images with their channels innermost, or by such weights, the operators that make images make such again. (Of volumes it depends on sizes which
  // of ATen's convolutions is taken, and they differ.) Seen where there are channels and positions to tell it by.
  bool claim_channels_last(size_t i, const std::vector<Dim>& sizes) {
    const at::Tensor& real = call_.reals[i];
    if (!known_ || !call_.plan.sizes || call_.plan.sizes->layout != ResultLayout::image || shared_storage(real)) return false;
    if (!has_channels_last(0) && !(call_.find("weight") == 1 && has_channels_last(1))) return false;
    if (real.dim() != 4 || !real.is_contiguous(at::MemoryFormat::ChannelsLast) || real.size(1) == 1) return false;
    const bool one_position = std::all_of(sizes.begin() + 2, sizes.end(), [&](Dim size) { return dims_.as_constant(size) == 1; });
    return one_position || std::any_of(real.sizes().begin() + 2, real.sizes().end(), [](int64_t size) { return size > 1; });
  }

  bool has_channels_last(int argument) {
    const ValueId value = call_.value_at(argument);
    if (!value) return false;
    const TensorType type = call_.type(value);
    return is_channels_last(dims_, type.sizes, type.strides) && !is_contiguous(dims_, type.sizes, type.strides);
  }

  // What is written into a part of a copy (slice_scatter) is laid out as what was copied, however it lies itself.
  bool of_contiguous() const {
    const auto end = call_.plan.base.ends_with("_scatter") && !call_.values.empty() ? call_.values.begin() + 1 : call_.values.end();
    return std::all_of(call_.values.begin(), end, [&](ValueId v) { return !v || call_.build.is_contiguous(call_.type(v)); });
  }

  // Contiguous it is in any order of the axes, if only one of them has more than one element.
  // For an image that goes for an axis that has one element always, too: what format its operands suggest is held (suggested_format.h).
  bool tells_layout(size_t i) const {
    const at::Tensor& real = call_.reals[i];
    const bool image = call_.plan.sizes->layout == ResultLayout::image && (real.dim() == 4 || real.dim() == 5);
    for (int64_t axis = 0; axis < real.dim(); ++axis)
      if (real.size(axis) <= 1 && !(image && is_always_one(rules_[i][static_cast<size_t>(axis)]))) return false;
    return true;
  }

  bool is_always_one(Dim size) const { return dims_.less_equal(size, dims_.constant(1)) == Truth::yes && dims_.hint(size) == std::optional<int64_t>(1); }

  Storage shared_storage(const at::Tensor& real) const {
    const ValueId v = call_.as_library_may_share ? call_.value_at(0) : argument_sharing(real);
    return v ? call_.type(v).storage : Storage();
  }

  // Strides that address nothing, of memory of ours, are a dense tensor's at run time, and not always those that eager gave it; results may
  // take them over.
  void note_strides_of_nothing() {
    find_argument([&](const at::Tensor& t, ValueId v) {
      const Trace& trace = call_.tape.trace();
      const InstrId made_by = trace[call_.type(v).root].definition;
      const bool ours = made_by && trace[made_by].op != Op::call;
      if (ours && strides_at_run_time(t, v) != t.strides()) call_.tape.odd_strides_of_nothing = true;
      return false;
    });
  }

  std::vector<int64_t> strides_at_run_time(const at::Tensor& t, ValueId v) const {
    if (t.numel() == 0) return strides_of_nothing(dims_, call_.type(v));
    std::vector<int64_t> strides;
    for (const Dim stride : call_.type(v).strides) strides.push_back(dims_.hint(stride).value_or(0));
    return strides;
  }

  // What makes views asks how a tensor lies, and may refuse it.
  void hold_layouts() {
    if (call_.as_library_may_share) return;
    for (const at::Tensor& real : call_.reals)
      if (const ValueId v = argument_sharing(real)) call_.tape.choices.layout_read(v);
  }

  template <class Match>
  ValueId find_argument(Match match) const {
    size_t position = 0;
    const auto visit = [&](const at::Tensor& t) {
      const ValueId v = call_.values[position++];
      if (!v) return ValueId();
      const Wrapper* w = Wrapper::of(t);
      return match(w ? w->inner() : t, v) ? v : ValueId();
    };
    for (const c10::IValue& arg : call_.args) {
      ValueId found;
      if (arg.isTensor()) {
        found = visit(arg.toTensor());
      } else if (arg.isTensorList()) {
        for (const at::Tensor& t : arg.toTensorVector())
          if (const ValueId v = visit(t); v && !found) found = v;
      } else if (arg.isOptionalTensorList()) {
        for (const auto& t : arg.toOptionalTensorVector())
          if (const ValueId v = visit(t.has_value() ? *t : at::Tensor()); v && !found) found = v;
      }
      if (found) return found;
    }
    return {};
  }

  ValueId argument_sharing(const at::Tensor& real) const {
    if (!real.defined() || !real.has_storage()) return {};
    return find_argument([&](const at::Tensor& t, ValueId) { return t.has_storage() && t.storage().is_alias_of(real.storage()); });
  }
  ValueId argument_with(const at::Tensor& real) const {
    return find_argument([&](const at::Tensor& t, ValueId) { return t.is_same(real); });
  }

  // An operator of somebody else's that returns what it was given has done something with it.
  bool hands_back(size_t argument) const {
    if (!call_.args[argument].isTensor() || !call_.value_at(static_cast<int>(argument))) return false;
    const at::Tensor given = call_.real_at(static_cast<int>(argument));
    return std::any_of(call_.reals.begin(), call_.reals.end(), [&](const at::Tensor& real) { return real.defined() && real.is_same(given); });
  }

  std::vector<uint32_t> written_operands(const CallArgs& collected) const {
    std::vector<uint32_t> out;
    const auto add = [&](size_t arg) {
      for (const int32_t operand : collected.args[arg].operands)
        if (operand >= 0) out.push_back(static_cast<uint32_t>(operand));
    };
    for (const uint32_t arg : call_.plan.writes) add(arg);
    if (effects_.writes_arguments) add(1);  // the tensors of a flow
    for (size_t arg = 0; call_.plan.base.empty() && arg < call_.args.size(); ++arg)
      if (hands_back(arg)) add(arg);
    std::vector<std::string_view> hidden;
    if (writes_silently(call_.plan.base, hidden) && silent_write_applies())
      for (const std::string_view name : hidden)
        if (const int arg = call_.find(name); arg >= 0) add(static_cast<size_t>(arg));
    std::sort(out.begin(), out.end());
    out.erase(std::unique(out.begin(), out.end()), out.end());
    return out;
  }

  bool silent_write_applies() const {
    for (const char* name : {"training", "use_input_stats", "train"})
      if (call_.find(name) >= 0) return call_.flag(name);
    return true;
  }

  void bind_sources() {
    for (size_t i = 0; i < call_.results.size(); ++i) {
      if (!call_.reals[i].defined()) {
        call_.tape.trace().values[call_.results[i].index].kind = ValueKind::none;
        continue;
      }
      call_.tape.note_root(call_.results[i], call_.reals[i]);
    }
    for (const Born& b : born_) {
      Source source;
      source.kind = b.stride ? Source::Kind::value_stride : Source::Kind::value_size;
      source.value = call_.results[b.result];
      source.dim = b.axis;
      dims_.set_source(b.symbol, source);
    }
  }

  OpCall& call_;
  DimTable& dims_;
  std::vector<std::vector<Dim>> rules_;
  std::vector<Born> born_;
  BodyEffects effects_{false, false};        // of the bodies of a flow
  bool known_ = false;
};

}  // namespace

namespace {

// Operators whose results have another rank, or are other tensors, where a size is 0 or 1. (Splits, squeezes and unbind have lowerings.)
constexpr std::string_view kRankBySizes[] = {"cov", "corrcoef", "linalg_lstsq", "addmv"};

// Of nothing the mask has another dtype, and the first result is the argument.
void guard_nothing(OpCall& call) {
  const Dim count = call.table().product(call.type(call.value_at(0)).sizes);
  const bool none = call.table().hint(count) == std::optional<int64_t>(0);
  call.tape.guard_relation(Guard::Kind::equal, count, call.table().constant(0), none, "dropout of nothing");
  if (none) call.tape.refuse(Reason::recorder_refused, "native_dropout of nothing hands back its argument");
}

// Without channels ATen's convolutions give results of other sizes than with any.
void guard_channels(OpCall& call) {
  const ValueId weight = call.value("weight");
  if (!weight) return;
  DimTable& dims = call.table();
  const Dim count = dims.product(call.type(weight).sizes);
  call.tape.guard_relation(Guard::Kind::equal, count, dims.constant(0), dims.hint(count) == std::optional<int64_t>(0), "a convolution without weights");
}

// In training: of nothing it hands back its argument.
void note_dropout(OpCall& call) {
  constexpr std::string_view kDropouts[] = {"dropout", "feature_dropout", "alpha_dropout", "feature_alpha_dropout"};
  if (std::find(std::begin(kDropouts), std::end(kDropouts), call.plan.base) == std::end(kDropouts) || !call.plan.writes.empty()) return;
  const ValueId input = call.value_at(0);
  if (!input || call.reals.size() != 1 || call.reals[0].is_same(call.real_at(0))) return;
  const bool unlike = call.real_at(0).is_inference() != call.reals[0].is_inference();
  call.choice = Choice{.source = input, .copies = {}, .strays = {}, .itself = true, .unlike = unlike};
}

bool returns_list(const OpPlan& plan) {
  const auto& returns = plan.schema->returns();
  return std::any_of(returns.begin(), returns.end(), [](const c10::Argument& r) { return r.type()->kind() == c10::TypeKind::ListType; });
}

// Of an operator of somebody else's we know that sizes decide how long its list is, not how. Where nothing has happened yet the list itself tells,
// and the call begins anew; else it has to be known before.
void guard_sizes(OpCall& call) {
  if (!effect_before(call)) return;
  for (const ValueId v : call.values) {
    if (!v) continue;
    for (const Dim size : std::vector<Dim>(call.type(v).sizes))
      call.tape.guard_relation(Guard::Kind::equal, size, call.table().constant(*call.table().hint(size)), true, "the length of a list of results");
  }
}

// How many results there are.
void guard_count(OpCall& call) {
  if (call.plan.form != OpPlan::Form::functional || !returns_list(call.plan)) return;
  if (call.plan.collective) return;                           // as many as it is given
  if (call.plan.target.starts_with("escapement::")) return;   // flow.h: as many as the bodies have
  if (call.plan.base.empty()) return guard_sizes(call);
  if (call.plan.base != "split_copy" && call.plan.base != "unbind_copy") return;
  const ValueId self = call.value_at(0);
  const auto axis = call.axis("dim", call.rank(self));
  if (!axis || call.reals.empty()) return;
  DimTable& dims = call.table();
  const Dim total = call.type(self).sizes[*axis], count = dims.constant(static_cast<int64_t>(call.reals.size()));
  if (call.plan.base == "split_copy") return hold_pieces(call, total, call.dim("split_size"));
  call.tape.guard_relation(Guard::Kind::equal, total, count, true, "unbind");
}

// Before the call: what comes out of it otherwise would be noticed only behind it, when there is no way back.
void guard_degenerate_sizes(OpCall& call) {
  guard_count(call);
  if (call.plan.base == "native_dropout") return guard_nothing(call);
  if (call.plan.base.find("conv") != call.plan.base.npos) return guard_channels(call);
  if (std::find(std::begin(kRankBySizes), std::end(kRankBySizes), call.plan.base) == std::end(kRankBySizes)) return;
  DimTable& dims = call.table();
  for (const ValueId v : call.values) {
    if (!v) continue;
    for (const Dim size : std::vector<Dim>(call.type(v).sizes))
      for (const int64_t end : {0, 1})
        call.tape.guard_relation(Guard::Kind::equal, size, dims.constant(end), dims.hint(size) == std::optional(end), "the rank of a result");
  }
}

}  // namespace

void hold_same_sizes(OpCall& call, const std::vector<Dim>& result, const std::vector<Dim>& target) {
  for (size_t d = 0; d < result.size(); ++d)
    call.tape.guard_relation(Guard::Kind::equal, result[d], target[d], true, "out= that has the result's sizes");
}

// Laid out anew; where another call's has the result's sizes it keeps its strides.
void hold_resized(OpCall& call, ValueId result, ValueId target) {
  const TensorType wanted = call.type(result), before = call.type(target);
  if (wanted.rank() != before.rank() || (call.build.is_contiguous(wanted) && call.build.is_contiguous(before))) return;
  for (int d = 0; d < wanted.rank(); ++d)
    if (call.table().hint(wanted.sizes[d]) != call.table().hint(before.sizes[d]))
      return call.tape.guard_relation(Guard::Kind::equal, wanted.sizes[d], before.sizes[d], false, "out= that is resized");
}

void record_call(OpCall& call) {
  call.results.clear();
  guard_degenerate_sizes(call);
  note_dropout(call);
  CallRecorder(call).record();
}

}  // namespace escapement

// Losses of classes: nll_loss in all its spellings, its gradient, and cross_entropy of targets that are classes. The classes lie along axis 1, or 0 of a
// single sample. Eager writes the logarithms of all probabilities, looks up one a sample, and in the gradient fills zeros and writes one a sample; here a
// loss reads its row, and a gradient is a choice between two numbers. A target out of range is found by the look-up, also in the gradient, where nobody
// needs what it finds.
#include "torch/record/lower_families.h"

namespace escapement {

namespace {

enum Reduction : int64_t { kNone, kMean, kSum };   // ATen's numbers

class ClassLoss {
 public:
  // `targets`: the argument's name.
  ClassLoss(OpCall& call, std::string_view targets) : call_(call), input_(call.value("self")), target_(call.value(targets)), axis_(call.rank(input_) > 1) {}

  bool has_row() const {
    const DType type = call_.result_type();
    if (!call_.varies("ignore_index") && (type == DType::f32 || type == DType::f64)) return are_of(type) && call_.rank(target_) == call_.rank(input_) - 1;
    return call_.decline(Reason::call_dtype);   // half types are summed up in half types
  }

  // Those that eager raises for are not recorded; at other sizes it would.
  bool hold_sizes() {
    DimTable& dims = call_.table();
    const std::vector<Dim>& sizes = call_.type(input_).sizes;
    const std::vector<Dim> samples = sizes_of_targets();
    for (size_t i = 0; i < samples.size(); ++i)
      call_.tape.guard_relation(Guard::Kind::equal, call_.type(target_).sizes[i], samples[i], true, "a target for each sample");
    if (call_.given("weight")) call_.tape.guard_relation(Guard::Kind::equal, call_.type(call_.value("weight")).sizes[0], sizes[axis_], true, "a weight for each class");
    const bool some = dims.hint(sizes[axis_]) != std::optional<int64_t>(0);
    call_.tape.guard_relation(Guard::Kind::less, dims.constant(0), sizes[axis_], some, "there are classes");
    return some;
  }

  std::vector<Dim> sizes_of_targets() const {
    std::vector<Dim> sizes = call_.type(input_).sizes;
    sizes.erase(sizes.begin() + axis_);
    return sizes;
  }

  ValueId input() const { return input_; }
  int axis() const { return axis_; }
  ValueId apply(Op op, std::vector<ValueId> operands) const { return call_.build.pointwise(op, operands); }
  ValueId number(double value) const { return call_.constant(value, call_.result_type()); }

  ValueId counts() const { return apply(Op::ne, {target_, class_number(call_.integer("ignore_index", -100))}); }

  // Of each sample, its own class's element of `table`, which has the sizes of the input.
  ValueId looked_up(ValueId table) const {
    Attrs attrs;
    attrs.axis = axis_;
    attrs.mode = "target";   // what it raises
    const ValueId positions = with_axis(apply(Op::where, {counts(), target_, class_number(0)}));
    const ValueId found = call_.build.index(Op::gather, std::vector<ValueId>{table, positions}, std::move(attrs));
    Attrs axis;
    axis.axis = axis_;
    return call_.build.view(Op::squeeze, found, std::move(axis));
  }

  // Of each sample that counts; null where there are no weights.
  ValueId weights() const { return call_.given("weight") ? looked_up(weight_of_classes()) : ValueId(); }

  ValueId with_axis(ValueId of_samples) const {
    Attrs attrs;
    attrs.axis = axis_;
    return call_.build.view(Op::unsqueeze, of_samples, std::move(attrs));
  }

  ValueId weight_of_classes() const {
    ValueId weight = call_.value("weight");
    const int rank = call_.rank(input_);
    for (int before = 0; before < axis_; ++before) {
      Attrs attrs;
      attrs.axis = 0;
      weight = call_.build.view(Op::unsqueeze, weight, std::move(attrs));
    }
    while (call_.rank(weight) < rank) {
      Attrs attrs;
      attrs.axis = call_.rank(weight);
      weight = call_.build.view(Op::unsqueeze, weight, std::move(attrs));
    }
    Attrs attrs;
    attrs.sizes = call_.type(input_).sizes;
    return call_.build.view(Op::expand, weight, std::move(attrs));
  }

  // 0, 1, 2, ... along the axis of classes.
  ValueId classes() const {
    Attrs attrs;
    attrs.sizes = {call_.type(input_).sizes[axis_]};
    attrs.dtype = DType::i64;
    attrs.value = integer_number(0);
    attrs.value2 = integer_number(1);
    ValueId numbers = call_.build.create(Op::arange, std::move(attrs));
    while (call_.rank(numbers) < call_.rank(input_) - axis_) {
      Attrs last;
      last.axis = call_.rank(numbers);
      numbers = call_.build.view(Op::unsqueeze, numbers, std::move(last));
    }
    return numbers;
  }

  ValueId target() const { return target_; }

 private:
  bool are_of(DType type) const {
    if (!input_ || !target_ || call_.rank(input_) == 0 || call_.type(input_).dtype != type || call_.type(target_).dtype != DType::i64)
      return call_.decline(Reason::call_dtype);
    const ValueId weight = call_.given("weight") ? call_.value("weight") : ValueId();
    if (call_.given("weight") && (!weight || call_.type(weight).dtype != type || call_.rank(weight) != 1)) return call_.decline(Reason::call_dtype);
    return true;
  }
  ValueId class_number(int64_t value) const { return call_.scalar(c10::Scalar(value), DType::i64); }

  OpCall& call_;
  ValueId input_, target_;
  int axis_;
};

// The losses of the samples, and what their mean is taken over.
struct Losses {
  ValueId of_samples, total;
};

Losses losses(OpCall& call, const ClassLoss& of, ValueId likelihoods) {
  const ValueId zero = of.number(0), weights = of.weights();
  const ValueId signless = of.apply(Op::neg, {likelihoods}), weighted = weights ? of.apply(Op::mul, {signless, weights}) : signless;
  const ValueId counted = of.apply(Op::where, {of.counts(), weights ? weights : of.number(1), zero});
  return {of.apply(Op::where, {of.counts(), weighted, zero}), call.build.reduce(Op::sum, counted, {}, false)};
}

ValueId reduced(OpCall& call, const ClassLoss& of, const Losses& losses) {
  const int64_t reduction = call.integer("reduction", kMean);
  if (reduction == kNone) return losses.of_samples;
  const ValueId sum = call.build.reduce(Op::sum, losses.of_samples, {}, false);
  return reduction == kMean ? of.apply(Op::div, {sum, losses.total}) : sum;
}

// What log_softmax takes from the elements of a row, in this order: its largest element, and the logarithm of the sum of their powers.
struct Norm {
  ValueId largest, log_sum;
};

Norm norm_of_rows(OpCall& call, const ClassLoss& of) {
  Attrs attrs;
  attrs.mode = "identity";
  const ValueId largest = call.build.reduce(Op::amax, of.input(), {of.axis()}, true, std::move(attrs));
  const ValueId powers = of.apply(Op::exp, {of.apply(Op::sub, {of.input(), largest})});
  return {largest, of.apply(Op::log, {call.build.reduce(Op::sum, powers, {of.axis()}, true)})};
}

// Of each sample, its class's element of log_softmax.
ValueId likelihoods(OpCall& call, const ClassLoss& of, const Norm& norm) {
  const auto of_samples = [&](ValueId row) {
    Attrs attrs;
    attrs.axis = of.axis();
    return call.build.view(Op::squeeze, row, std::move(attrs));
  };
  return of.apply(Op::sub, {of.apply(Op::sub, {of.looked_up(of.input()), of_samples(norm.largest)}), of_samples(norm.log_sum)});
}

// The same loss of all classes alike, and how much of it there is in the whole: `smoothing` by the number of classes.
ValueId smoothed(OpCall& call, const ClassLoss& of, const Norm& norm, const Losses& own, double smoothing) {
  ValueId all = of.apply(Op::sub, {of.apply(Op::sub, {of.input(), norm.largest}), norm.log_sum});
  if (call.given("weight")) all = of.apply(Op::mul, {all, of.weight_of_classes()});
  const ValueId sums = of.apply(Op::neg, {call.build.reduce(Op::sum, all, {of.axis()}, false)});
  const ValueId uniform = reduced(call, of, {of.apply(Op::where, {of.counts(), sums, of.number(0)}), own.total});
  Number classes;
  classes.kind = Number::Kind::dim;
  classes.dim = call.type(of.input()).sizes[of.axis()];
  const ValueId share = of.apply(Op::div, {call.constant(smoothing, DType::f64), call.build.cast(call.tape.scalar(classes, DType::i64), DType::f64)});
  const ValueId weighted = of.apply(Op::mul, {uniform, call.build.cast(share, call.result_type())});
  return of.apply(Op::add, {of.apply(Op::mul, {reduced(call, of, own), of.number(1 - smoothing)}), weighted});
}

}  // namespace

// One result, or with the total weight that the gradient wants.
bool lower_nll_loss(OpCall& call) {
  ClassLoss of(call, "target");
  if (!of.has_row() || !of.hold_sizes()) return call.decline(Reason::call_attribute);
  const Losses each = losses(call, of, of.looked_up(of.input()));
  call.results.push_back(reduced(call, of, each));
  if (call.reals.size() == 2) {
    const bool unused = call.integer("reduction", kMean) == kNone;   // eager leaves it 0
    call.results.push_back(unused ? call.build.pointwise(Op::copy, std::vector<ValueId>{of.number(0)}) : each.total);
  }
  return true;
}

bool lower_nll_loss_backward(OpCall& call) {
  ClassLoss of(call, "target");
  if (!of.has_row() || !call.reals[0].is_contiguous() || !of.hold_sizes()) return call.decline(Reason::call_attribute);
  const int64_t reduction = call.integer("reduction", kMean);
  ValueId grad = call.value("grad_output");
  if (!grad || call.type(grad).dtype != call.result_type() || call.rank(grad) != (reduction == kNone ? call.rank(of.target()) : 0))
    return call.decline(Reason::call_attribute);
  of.looked_up(of.input());
  if (reduction == kMean) grad = of.apply(Op::div, {grad, call.value("total_weight")});
  grad = of.apply(Op::neg, {reduction == kNone ? of.with_axis(grad) : grad});
  if (call.given("weight")) grad = of.apply(Op::mul, {grad, of.weight_of_classes()});
  const ValueId here = of.apply(Op::eq, {of.classes(), of.with_axis(of.target())});
  const ValueId counts = of.apply(Op::logical_and, {here, of.with_axis(of.counts())});
  return call.done(of.apply(Op::where, {counts, grad, of.number(0)}));
}

bool lower_cross_entropy(OpCall& call) {
  ClassLoss of(call, "target");
  if (call.varies("label_smoothing") || !of.has_row() || !of.hold_sizes()) return call.decline(Reason::call_attribute);
  const double smoothing = call.number("label_smoothing");
  if (!(smoothing >= 0 && smoothing <= 1)) return call.decline(Reason::call_attribute);   // eager raises
  const Norm norm = norm_of_rows(call, of);
  const Losses own = losses(call, of, likelihoods(call, of, norm));
  return call.done(smoothing == 0 ? reduced(call, of, own) : smoothed(call, of, norm, own, smoothing));
}

}  // namespace escapement

// What each relation of an entry check means by itself, and what to say if it does not hold: the slow twin of program_entry.cpp,
// which the tests compare with it on every call.
#include <algorithm>

#include "guards/check.h"
#include "support/error.h"
#include "torch/program/program_entry.h"
#include "torch/record/device.h"
#include "torch/record/program_metadata.h"
#include "torch/record/recorder_tape.h"

namespace escapement {
namespace {

using Kind = Relation::Kind;

int64_t seen_at(const Relation& relation, const at::Tensor& tensor) {
  return relation.kind == Kind::size ? tensor.size(relation.axis) : tensor.stride(relation.axis);
}

// Relations that read a tensor's sizes and strides make sense only for the rank they were written for.
bool has_rank(const at::Tensor& tensor, const TensorType& type) { return tensor.dim() == type.rank(); }

std::string kind_of(const at::Tensor* seen, c10::Device device) {
  if (seen == nullptr) return "no tensor";
  return is_plain(*seen->unsafeGetTensorImpl(), plain_keys(device)) ? "on " + seen->device().str() : c10::toString(seen->key_set());
}

}  // namespace

bool EntryChecks::holds(const Relation& r, std::span<const Argument> arguments, std::span<const int64_t> symbols) const {
  const auto expected = [&] { return trace_.dims.evaluate(r.expected, symbols); };
  switch (r.kind) {
    case Kind::integer: return arguments[r.input].tensor == nullptr && !arguments[r.input].other;
    case Kind::value: return arguments[r.input].integer == expected();
    case Kind::apart: return apart(arguments, r.input);
    case Kind::guard: {
      const Guard& guard = trace_.guards[r.guard];
      return escapement::holds(guard.kind, trace_.dims.evaluate(guard.left, symbols), trace_.dims.evaluate(guard.right, symbols));
    }
    default: break;
  }
  const at::Tensor* const seen = tensor(arguments, r.input);
  if (seen == nullptr) return false;
  const c10::TensorImpl& impl = *seen->unsafeGetTensorImpl();
  switch (r.kind) {
    case Kind::plain: return is_plain(impl, plain_keys(device_)) && (device_.is_cpu() || (impl.device() == device_ && !is_under_autocast(device_)));
    case Kind::dtype: return seen->scalar_type() == dtype_of_input(trace_, r.input);
    case Kind::rank: return has_rank(*seen, type(r.input));
    case Kind::size: return seen_at(r, *seen) == expected();
    case Kind::stride: return stride_holds(impl, r.axis, expected());
    case Kind::contiguous: return impl.is_contiguous();
    case Kind::irregular: return !impl.is_contiguous();
    case Kind::ordered: return order_holds(impl, order_of(trace_, trace_.inputs[r.input]));
    default: return false;
  }
}

Miss EntryChecks::miss(const Relation& r, std::span<const Argument> arguments, std::span<const int64_t> symbols) const {
  if (r.kind == Kind::guard) {
    const GuardMiss seen = escapement::explain(trace_, trace_.guards[r.guard], symbols);
    return {seen.source, seen.expected, seen.seen};
  }
  const std::string& name = trace_.inputs[r.input].name;
  const at::Tensor* const seen = r.kind == Kind::integer || r.kind == Kind::value ? nullptr : tensor(arguments, r.input);
  const auto expected = [&] { return std::to_string(trace_.dims.evaluate(r.expected, symbols)); };
  const std::string axis = "[" + std::to_string(r.axis) + "]";
  switch (r.kind) {
    case Kind::integer: return {name + ".kind", "an integer", "another"};
    case Kind::value: return {name + ".value", expected(), std::to_string(arguments[r.input].integer)};
    case Kind::plain: return {name + ".kind", device_.is_cpu() ? "a plain CPU tensor" : "a plain tensor on " + device_.str() + ", without autocast", kind_of(seen, device_)};
    case Kind::dtype: return {name + ".dtype", std::string(name_of(type(r.input).dtype)), c10::toString(seen->scalar_type())};
    case Kind::rank: return {name + ".rank", std::to_string(type(r.input).rank()), std::to_string(seen->dim())};
    case Kind::size: return {name + ".size" + axis, expected(), std::to_string(seen_at(r, *seen))};
    case Kind::stride: return {name + ".stride" + axis, expected(), std::to_string(seen_at(r, *seen))};
    case Kind::contiguous: return {name + ".layout", "contiguous", "another"};
    case Kind::irregular: return {name + ".layout", "not contiguous", "another"};
    case Kind::ordered: return {name + ".layout", "the order of strides seen when recorded", "another"};
    case Kind::apart: return {name + ".memory", "shared with no other argument", "shared"};
    default: return {};
  }
}

// Relations in order: those before one make it safe to read what it reads.
Miss EntryChecks::first_miss(std::span<const Argument> arguments) const {
  std::vector<int64_t> symbols(trace_.dims.symbol_count(), 0);
  bool bound = false;
  for (const Relation& r : relations_.list) {
    const bool form = r.kind == Kind::integer || r.kind == Kind::plain || r.kind == Kind::dtype || r.kind == Kind::rank;
    if (!form && !bound) {
      bind(arguments, symbols);
      bound = true;
    }
    if (!holds(r, arguments, symbols)) return miss(r, arguments, symbols);
  }
  return {};
}

Miss EntryChecks::explain(std::span<const Argument> arguments) const {
  if (arguments.size() != argument_count_) return {"the call", std::to_string(argument_count_) + " arguments", std::to_string(arguments.size())};
  try {
    return first_miss(arguments);
  } catch (const UserError& error) {
    return {"sizes", "sizes whose arithmetic fits 64 bits", error.what()};
  } catch (const c10::Error&) {
    return {"sizes", "a tensor of one element where a number is read", "another"};
  }
}

}  // namespace escapement

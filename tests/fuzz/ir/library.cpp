// See library.h.
#include "fuzz/ir/library.h"

#include "support/error.h"
#include "trace/scalar.h"

namespace escapement::fuzz {
namespace {

double value_at(const HostTensor& t, int64_t place) { return double_from_bits(t.load(place), compute_type(t.dtype)); }

int64_t positive(const HostTensor& t) {
  int64_t count = 0;
  for (const int64_t place : t.places()) count += value_at(t, place) > 0;
  return count;
}

HostTensor scalar(int64_t value) {
  HostTensor t = HostTensor::make(DType::i64, {});
  t.store(0, to_bits(value, DType::i64));
  return t;
}

HostTensor scaled(const HostTensor& x) {
  HostTensor result = HostTensor::make(DType::f32, x.sizes);
  int64_t at = 0;
  for (const int64_t place : x.places()) result.store(at++, to_bits(value_at(x, place) * 0.5, DType::f32));
  return result;
}

HostTensor copy(const HostTensor& x) {
  HostTensor result = HostTensor::make(x.dtype, x.sizes);
  int64_t at = 0;
  for (const int64_t place : x.places()) result.store(at++, x.load(place));
  return result;
}

void increase(const HostTensor& x) {
  const DType type = compute_type(x.dtype);
  for (const int64_t place : x.places()) {
    const uint64_t bits = x.load(place);
    if (is_float(type)) x.store(place, to_bits(double_from_bits(bits, type) + 1, type));
    else x.store(place, x.dtype == DType::b8 ? 1 : to_bits(static_cast<int64_t>(static_cast<uint64_t>(int_from_bits(bits, type)) + 1), type));
  }
}

HostTensor some(const HostTensor& x, const TensorType& type) {
  std::vector<int64_t> sizes{positive(x) % 6};
  if (type.rank() == 2) sizes.push_back(2);
  HostTensor result = HostTensor::make(type.dtype, sizes);
  int64_t at = 0;
  for (const int64_t place : result.places()) result.store(place, to_bits(at++ * 3 % 7 - 2, compute_type(type.dtype)));
  return result;
}

}  // namespace

HostTensor Library::draw(const HostTensor& like) {
  HostTensor result = HostTensor::make(DType::f32, like.sizes);
  for (const int64_t place : result.places()) result.store(place, to_bits(static_cast<double>(drawn_++ % 97) / 16 - 3, DType::f32));
  ++drawn_;  // also where nothing was drawn
  return result;
}

std::vector<HostTensor> Library::call(const Trace& trace, const Instr& instr, std::span<const HostTensor> operands) {
  const std::string& target = instr.attrs.target;
  const std::string name = target.substr(target.find("::") + 2);
  if (name == "scaled") return {scaled(operands[0])};
  if (name == "same") return {operands[0]};
  if (name == "pair") return {copy(operands[0]), scalar(positive(operands[0]))};
  if (name == "draw") return {draw(operands[0])};
  if (name == "total") return {scalar(positive(operands[0]) % 9 - 2)};
  if (name == "some") return {some(operands[0], trace.type(instr.results[0]))};
  ESCAPEMENT_CHECK(name == "increase_", "no such call: " + target);
  increase(operands[0]);
  return {};
}

}  // namespace escapement::fuzz

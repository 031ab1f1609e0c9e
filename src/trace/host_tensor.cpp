// HostTensor: strided memory of the reference evaluator.
#include <cstring>

#include "support/error.h"
#include "trace/evaluator.h"
#include "trace/scalar.h"

namespace escapement {

namespace {

std::vector<int64_t> dense(std::span<const int64_t> sizes) {
  std::vector<int64_t> strides(sizes.size());
  int64_t next = 1;
  for (size_t i = sizes.size(); i-- > 0;) {
    strides[i] = next;
    next *= sizes[i] > 1 ? sizes[i] : 1;
  }
  return strides;
}

// Elements from the first to the last, that one included.
int64_t extent(std::span<const int64_t> sizes, std::span<const int64_t> strides) {
  int64_t last = 0;
  for (size_t i = 0; i < sizes.size(); ++i) {
    if (sizes[i] == 0) return 0;
    last += (sizes[i] - 1) * strides[i];
  }
  return last + 1;
}

}  // namespace

int64_t HostTensor::count() const {
  int64_t n = 1;
  for (int64_t size : sizes) n *= size;
  return n;
}

std::byte* HostTensor::element(int64_t place) const {
  const int64_t size = size_of(dtype);
  ESCAPEMENT_CHECK(place >= 0 && (place + 1) * size <= static_cast<int64_t>(storage->size()), "element outside its storage");
  return storage->data() + place * size;
}

std::vector<int64_t> HostTensor::places() const { return places(sizes); }

std::vector<int64_t> HostTensor::places(std::span<const int64_t> broadcast_to) const {
  const size_t missing = broadcast_to.size() - sizes.size();
  std::vector<int64_t> result{offset};
  for (size_t axis = 0; axis < broadcast_to.size(); ++axis) {
    const bool there = axis >= missing && sizes[axis - missing] == broadcast_to[axis];
    ESCAPEMENT_CHECK(axis < missing || there || sizes[axis - missing] == 1, "sizes do not broadcast");
    const int64_t stride = there ? strides[axis - missing] : 0;
    std::vector<int64_t> next;
    next.reserve(result.size() * static_cast<size_t>(broadcast_to[axis]));
    for (int64_t place : result)
      for (int64_t i = 0; i < broadcast_to[axis]; ++i) next.push_back(place + i * stride);
    result = std::move(next);
  }
  return result;
}

uint64_t HostTensor::load(int64_t place) const { return load_bits(element(place), dtype); }
void HostTensor::store(int64_t place, uint64_t bits) const { store_bits(element(place), dtype, bits); }

HostTensor HostTensor::make(DType dtype, std::vector<int64_t> sizes, std::vector<int64_t> strides) {
  HostTensor t;
  t.dtype = dtype;
  t.strides = strides.empty() ? dense(sizes) : std::move(strides);
  t.sizes = std::move(sizes);
  t.storage = std::make_shared<std::vector<std::byte>>(static_cast<size_t>(extent(t.sizes, t.strides) * size_of(dtype)));
  return t;
}

HostTensor HostTensor::from_doubles(DType dtype, std::vector<int64_t> sizes, std::span<const double> values) {
  HostTensor t = make(dtype, std::move(sizes));
  ESCAPEMENT_CHECK(static_cast<int64_t>(values.size()) == t.count(), "wrong number of values");
  for (size_t i = 0; i < values.size(); ++i) t.store(static_cast<int64_t>(i), to_bits(values[i], dtype));
  return t;
}

std::vector<double> HostTensor::to_doubles() const {
  std::vector<double> result;
  for (int64_t place : places()) result.push_back(double_from_bits(load(place), dtype));
  return result;
}

}  // namespace escapement

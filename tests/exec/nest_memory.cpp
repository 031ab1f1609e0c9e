// See nest_memory.h.
#include "exec/nest_memory.h"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <utility>

namespace escapement::testing {

// --- memory

GuardedBuffer::GuardedBuffer(size_t bytes, Guard guard) : bytes_(bytes) {
  const size_t page = static_cast<size_t>(sysconf(_SC_PAGESIZE)), inside = (bytes + page - 1) / page * page;
  mapped_ = inside + 2 * page;
  mapping_ = static_cast<char*>(mmap(nullptr, mapped_, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
  if (inside > 0) mprotect(mapping_ + page, inside, PROT_READ | PROT_WRITE);
  data_ = guard == Guard::before ? mapping_ + page : mapping_ + page + inside - bytes;
}

GuardedBuffer::~GuardedBuffer() {
  if (mapping_) munmap(mapping_, mapped_);
}

GuardedBuffer::GuardedBuffer(GuardedBuffer&& other) noexcept
    : mapping_(std::exchange(other.mapping_, nullptr)), data_(other.data_), mapped_(other.mapped_), bytes_(other.bytes_) {}

namespace {

uint64_t wild_bits(std::mt19937_64& random, DType type) {
  static constexpr std::array<double, 14> kSpecial{0.0, -0.0, 1.0, -1.0, 0.5, 1.5, -2.5, 3e38, 1e-40, -1e-40, 65520.0, INFINITY, -INFINITY, NAN};
  if (random() % 2 == 0) return random();
  if (type == DType::f64) return std::bit_cast<uint64_t>(kSpecial[random() % kSpecial.size()]);
  if (type == DType::f32) return std::bit_cast<uint32_t>(static_cast<float>(kSpecial[random() % kSpecial.size()]));
  if (is_half(type)) {
    uint16_t half;
    store_bits(&half, type, std::bit_cast<uint32_t>(static_cast<float>(kSpecial[random() % kSpecial.size()])));
    return half;
  }
  static constexpr std::array<int64_t, 10> kInteger{0, 1, -1, 2, 127, -128, 255, INT32_MIN, INT64_MIN, INT64_MAX};
  return static_cast<uint64_t>(kInteger[random() % kInteger.size()]);
}

uint64_t element_bits(std::mt19937_64& random, DType type, const Operand& operand) {
  if (operand.values == Values::wild) return wild_bits(random, type);
  double value = std::uniform_real_distribution<double>(-4, 4)(random);
  if (is_float(type)) {
    uint64_t stored = 0;
    store_bits(&stored, type, escapement::to_bits(value, compute_type(type)));
    return stored;
  }
  return type == DType::b8 ? random() % 3 : random() % 7;   // bool: any nonzero byte is true
}

void fill(GuardedBuffer& buffer, DType type, const Operand& operand, std::mt19937_64& random) {
  const size_t size = static_cast<size_t>(size_of(type));
  for (size_t at = 0; at + size <= buffer.size(); at += size) {
    uint64_t bits = element_bits(random, type, operand);
    std::memcpy(buffer.data() + at, &bits, size);
  }
}

size_t bytes_of(const Launch& launch, const Operand& operand, DType type) {
  if (operand.gather_extent < 0) return 0;
  int64_t last = 0;
  for (size_t a = 0; a < launch.extents.size(); ++a) {
    if (operand.strides[a] != 0 && launch.extents[a] == 0) return 0;
    last += std::max<int64_t>(launch.extents[a] - 1, 0) * operand.strides[a];
  }
  if (operand.gather_extent > 0) last += (operand.gather_extent - 1) * operand.gather_stride;
  return static_cast<size_t>((last + 1) * size_of(type));
}

}  // namespace

KernelArgs Memory::args(const Launch& launch, void* scratch) {
  return {data.data(), launch.extents.data(), strides.data(), launch.scalars.data(), &failure, scratch};
}

Memory make_memory(const LoopNest& nest, const Launch& launch, GuardedBuffer::Guard guard, uint64_t seed) {
  Memory memory;
  std::mt19937_64 random(seed);
  for (size_t p = 0; p < nest.params.size(); ++p) {
    DType type = nest.params[p].dtype;
    const Operand& operand = launch.operands[p];
    memory.buffers.emplace_back(bytes_of(launch, operand, type), guard);
    fill(memory.buffers.back(), type, operand, random);
    memory.buffer_of.push_back(operand.over < 0 ? p : static_cast<size_t>(operand.over));
    memory.data.push_back(memory.buffers[memory.buffer_of[p]].data());
    for (int64_t stride : operand.strides) memory.strides.push_back(stride * size_of(type));
    memory.strides.push_back(operand.gather_stride * size_of(type));
  }
  return memory;
}

namespace {

bool is_nan(DType type, const char* element) {
  if (!is_float(type)) return false;
  return std::isnan(double_from_bits(load_bits(element, type), compute_type(type)));
}

}  // namespace

void expect_same(const LoopNest& nest, const Memory& expected, const Memory& got, const std::string& what) {
  EXPECT_EQ(expected.failure != 0, got.failure != 0) << what;
  if (expected.failure != 0) return;
  for (size_t p = 0; p < nest.params.size(); ++p) {
    DType type = nest.params[p].dtype;
    const size_t size = static_cast<size_t>(size_of(type)), bytes = expected.buffers[p].size();
    if (bytes == 0) continue;
    const char *a = expected.buffers[p].data(), *b = got.buffers[p].data();
    for (size_t at = 0; at < bytes; at += size) {
      if (std::memcmp(a + at, b + at, size) == 0 || (is_nan(type, a + at) && is_nan(type, b + at))) continue;
      uint64_t x = 0, y = 0;
      std::memcpy(&x, a + at, size), std::memcpy(&y, b + at, size);
      ADD_FAILURE() << what << ": param " << p << " element " << at / size << " of " << bytes / size << ": expected " << std::hex << x << ", got " << y;
      return;
    }
  }
}

std::string describe(const LoopNest& nest, Variant variant, const Launch& launch) {
  std::string text = "schedule " + std::to_string(int(nest.schedule)) + " variant " + std::to_string(int(variant)) + " extents";
  for (int64_t e : launch.extents) text += " " + std::to_string(e);
  return text;
}

Ranges ranges_of(const LoopNest& nest, const Launch& launch) {
  Ranges r;
  bool has_vector = nest.schedule != Schedule::row;
  for (size_t a = 0; a < launch.extents.size(); ++a) {
    if (nest.axes[a].reduced) r.reduced *= launch.extents[a];
    else if (!(has_vector && a + 1 == launch.extents.size())) r.outer *= launch.extents[a];
  }
  if (has_vector) r.inner = launch.extents.back();
  return r;
}

// --- shapes and nests

std::vector<int64_t> row_major(const std::vector<int64_t>& extents, const std::vector<bool>& has) {
  std::vector<int64_t> strides(extents.size(), 0);
  int64_t next = 1;
  for (size_t a = extents.size(); a-- > 0;) {
    if (!has[a]) continue;
    strides[a] = next;
    next *= std::max<int64_t>(extents[a], 1);
  }
  return strides;
}

std::vector<int64_t> row_major(const std::vector<int64_t>& extents) {
  return row_major(extents, std::vector<bool>(extents.size(), true));
}

LoopInput load_of(uint32_t param) { return {.kind = LoopInput::Kind::load, .number = param}; }
LoopInput row_input(uint32_t row_value) { return {.kind = LoopInput::Kind::row, .number = row_value}; }
LoopInput index_of(uint32_t axis) { return {.kind = LoopInput::Kind::index, .number = axis}; }

}  // namespace escapement::testing

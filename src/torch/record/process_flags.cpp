// See process_flags.h.
#include "torch/record/process_flags.h"

#include <ATen/Context.h>
#include <c10/util/CallOnce.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstring>
#include <deque>
#include <mutex>
#include <span>
#include <type_traits>

#include "support/error.h"
#include "support/fork.h"

namespace escapement {
namespace {

// Only an explicit instantiation may name a private member.
template <class Tag, auto kMember>
struct Reveal {
  friend constexpr auto revealed(Tag) { return kMember; }
};
#define REVEAL(member)                              \
  struct Tag_##member {                             \
    friend constexpr auto revealed(Tag_##member);   \
  };                                                \
  template struct Reveal<Tag_##member, &at::Context::member>;

#define EACH_FLAG(FLAG)                                                                                                              \
  FLAG(enabled_cudnn) FLAG(deterministic_cudnn) FLAG(deterministic_mkldnn) FLAG(_deterministic_algorithms)                           \
  FLAG(_deterministic_algorithms_warn_only) FLAG(_deterministic_fill_uninitialized_memory) FLAG(sdp_priority_order)                  \
  FLAG(enabled_flashSDP) FLAG(enabled_fa3SDP) FLAG(enabled_mem_efficientSDP) FLAG(enabled_mathSDP) FLAG(enabled_cudnnSDP)            \
  FLAG(enabled_overrideable) FLAG(allow_fp16_bf16_reduction_mathSDP) FLAG(benchmark_cudnn) FLAG(immediate_miopen)                    \
  FLAG(float32_matmul_precision) FLAG(benchmark_limit_cudnn) FLAG(allow_tf32_cudnn) FLAG(allow_fp16_reduction_cublas)                \
  FLAG(allow_bf16_reduction_cublas) FLAG(allow_fp16_accumulation_cublas) FLAG(sm_carveout) FLAG(enabled_mkldnn)                      \
  FLAG(allow_tf32_onednn) FLAG(enabled_nnpack) FLAG(depthwise_kernel_cudnn) FLAG(linalg_preferred_backend)                           \
  FLAG(blas_preferred_backend) FLAG(rocm_fa_preferred_backend) FLAG(release_original_weights) FLAG(display_vmap_fallback_warnings_)  \
  FLAG(warn_on_accumulate_grad_stream_mismatch_) FLAG(override_stale_capture_stream_) FLAG(quantized_engine)                         \
  FLAG(enable_sparse_tensor_invariant_checks) FLAG(allow_fp16_reduction_cpu)

REVEAL(init_)            // which devices have been initialised: no flag, and most of a Context
REVEAL(fp32_precision)   // addresses; what lies there is asked by library calls whenever they run
EACH_FLAG(REVEAL)

template <class Member>
std::span<const unsigned char> bytes_of(Member at::Context::*member) {
  return {reinterpret_cast<const unsigned char*>(&(at::globalContext().*member)), sizeof(Member)};
}

// --- states

// All of a Context behind the devices, as it lies in memory: every flag that it has or will have is in there.
struct Flags {
  using Devices = std::remove_reference_t<decltype(std::declval<at::Context&>().*revealed(Tag_init_{}))>;
  static constexpr size_t kWords = (sizeof(at::Context) - sizeof(Devices)) / sizeof(uint64_t);
  const unsigned char* place = behind_the_devices();
  std::array<uint64_t, kWords> words = now();
  std::array<uint64_t, kWords> meaning{};   // the same for states that no program can tell apart
  uint32_t number = 0;

  static const unsigned char* behind_the_devices() {
    const auto devices = bytes_of(revealed(Tag_init_{}));
    ESCAPEMENT_CHECK(static_cast<const void*>(devices.data()) == &at::globalContext(), "a Context does not begin with the states of its devices");
    return devices.data() + devices.size();
  }
  uint64_t word(size_t i) const {
    uint64_t found;
    std::memcpy(&found, place + i * sizeof found, sizeof found);
    return found;
  }
  std::array<uint64_t, kWords> now() const {
    std::array<uint64_t, kWords> found;
    for (size_t i = 0; i < kWords; ++i) found[i] = word(i);
    return found;
  }
  bool hold() const {
    uint64_t differ = 0;
#pragma GCC unroll 32
    for (size_t i = 0; i < kWords; ++i) differ |= word(i) ^ words[i];
    return differ == 0;
  }
};

std::atomic<const Flags*> last_flags{nullptr};

// --- names

// A flag in the copied bytes of a Context: values are copied out and in, of an atomic flag what it holds.
template <class T>
struct Plain {
  using Type = T;
};
template <class T>
struct Plain<std::atomic<T>> {
  using Type = T;
};

template <class T>
std::vector<int64_t> values_of(const T& flag) {
  std::vector<int64_t> values;
  if constexpr (requires { flag.has_value(); }) {
    if (flag) values.push_back(static_cast<int64_t>(*flag));
  } else if constexpr (requires { flag.size(); }) {
    for (const auto& element : flag) values.push_back(static_cast<int64_t>(element));
  } else {
    values.push_back(static_cast<int64_t>(flag));
  }
  return values;
}

template <class T>
void put_values(T& flag, const std::vector<int64_t>& values) {
  if constexpr (requires { flag.has_value(); }) {
    flag.reset();
    if (!values.empty()) flag = static_cast<typename T::value_type>(values[0]);
  } else if constexpr (requires { flag.size(); }) {
    for (size_t i = 0; i < std::min(flag.size(), values.size()); ++i) flag[i] = static_cast<typename T::value_type>(values[i]);
  } else if (!values.empty()) {
    flag = static_cast<T>(values[0]);
  }
}

template <class T>
std::vector<int64_t> read_flag(const unsigned char* at) {
  T flag;
  std::memcpy(&flag, at, sizeof flag);
  return values_of(flag);
}

template <class T>
bool write_flag(unsigned char* at, const std::vector<int64_t>& values) {
  T flag;
  std::memcpy(&flag, at, sizeof flag);
  if (values_of(flag) == values) return true;
  put_values(flag, values);
  std::memcpy(at, &flag, sizeof flag);
  return values_of(flag) == values;
}

struct Row {
  const char* name;
  size_t place, size;   // in Flags::words
  std::vector<int64_t> (*read)(const unsigned char*);
  bool (*write)(unsigned char*, const std::vector<int64_t>&);
};

size_t place_of(std::span<const unsigned char> bytes) { return static_cast<size_t>(bytes.data() - Flags::behind_the_devices()); }

template <class Member>
Row row(const char* name, Member at::Context::*member) {
  using Type = typename Plain<Member>::Type;
  static_assert(sizeof(Type) == sizeof(Member) && std::is_trivially_copyable_v<Type>);
  return {name, place_of(bytes_of(member)), sizeof(Member), read_flag<Type>, write_flag<Type>};
}

#define ROW(member) row(#member, revealed(Tag_##member{})),
const std::vector<Row>& rows() {
  static const std::vector<Row> found{EACH_FLAG(ROW)};
  return found;
}

// Bytes without a row are zero, as they lie before anything is set: a flag that no row names cannot be on unseen.
bool all_named(const Flags& flags) {
  std::array<unsigned char, sizeof flags.words> bytes;
  std::memcpy(bytes.data(), flags.words.data(), bytes.size());
  const auto named = [&](size_t place, size_t size) { std::fill_n(bytes.begin() + static_cast<std::ptrdiff_t>(place), size, 0); };
  for (const Row& row : rows()) named(row.place, row.size);
  const auto addresses = bytes_of(revealed(Tag_fp32_precision{}));
  named(place_of(addresses), addresses.size());
  return std::all_of(bytes.begin(), bytes.end(), [](unsigned char byte) { return byte == 0; });
}

// Only a warning tells whether nobody has asked for these checks or somebody has switched them off, which building a sparse tensor does.
std::vector<int64_t> meaning_of(const Row& row, std::vector<int64_t> values) {
  if (values.empty() && row.name == std::string_view("enable_sparse_tensor_invariant_checks")) values.push_back(0);
  return values;
}

// Bytes that say nothing, beside a value or in its stead, are zero.
std::array<uint64_t, Flags::kWords> meaning_of(const Flags& flags) {
  std::array<uint64_t, Flags::kWords> words = flags.words;
  auto* const bytes = reinterpret_cast<unsigned char*>(words.data());
  for (const Row& row : rows()) {
    const std::vector<int64_t> values = meaning_of(row, row.read(bytes + row.place));
    std::memset(bytes + row.place, 0, row.size);
    ESCAPEMENT_CHECK(row.write(bytes + row.place, values), "a flag does not keep its value");
  }
  return words;
}

// --- known states

struct KnownFlags {
  ForkMutex mutex;
  std::deque<Flags> states;                  // addresses stay; those of one number mean the same
  uint32_t numbers = 0;
};
KnownFlags& known_flags() {
  static KnownFlags known;
  return known;
}

const Flags& intern(Flags flags) {
  flags.meaning = meaning_of(flags);
  KnownFlags& known = known_flags();
  const std::lock_guard lock(known.mutex);
  const auto find = [&](auto same) { return std::find_if(known.states.begin(), known.states.end(), same); };
  const auto found = find([&](const Flags& other) { return other.words == flags.words; });
  if (found != known.states.end()) return *found;
  const auto alike = find([&](const Flags& other) { return other.meaning == flags.meaning; });
  flags.number = alike != known.states.end() ? alike->number : known.numbers++;
  return known.states.emplace_back(flags);
}

Flags state(uint32_t number) {
  KnownFlags& known = known_flags();
  const std::lock_guard lock(known.mutex);
  const auto found = std::find_if(known.states.begin(), known.states.end(), [&](const Flags& flags) { return flags.number == number; });
  ESCAPEMENT_CHECK(found != known.states.end(), "flags of another process");
  return *found;
}

}  // namespace

uint32_t flags_number() {
  const Flags* last = last_flags.load(std::memory_order_acquire);
  if (last == nullptr || !last->hold()) last_flags.store(last = &intern({}), std::memory_order_release);
  return last->number;
}

std::optional<NamedFlags> named_flags(uint32_t number) {
  const Flags flags = state(number);
  if (!all_named(flags)) return {};
  const auto* const bytes = reinterpret_cast<const unsigned char*>(flags.meaning.data());
  NamedFlags named;
  for (const Row& row : rows()) named.emplace_back(row.name, row.read(bytes + row.place));
  return named;
}

std::optional<uint32_t> number_of(const NamedFlags& named) {
  Flags flags;
  if (!all_named(flags) || named.size() != rows().size()) return {};
  auto* const bytes = reinterpret_cast<unsigned char*>(flags.words.data());
  for (const Row& row : rows()) {
    const auto same = [&](const auto& flag) { return flag.first == row.name; };
    const auto found = std::find_if(named.begin(), named.end(), same);
    if (found == named.end() || !row.write(bytes + row.place, found->second)) return {};
  }
  return intern(flags).number;
}

}  // namespace escapement

// See cpp_catches.h. What the unwinder would do is read from the same tables: each frame's language-specific data of the Itanium C++ ABI
// lists ranges of calls, each with a chain of actions. A positive action is a `catch`, zero a destructor, a negative one a noexcept.
#include "torch/api/cpp_catches.h"

#include <unwind.h>

#include <cstdint>
#include <cstring>

#include "escapement/jit_core.h"
#include "torch/program/cpp_location.h"
#include "torch/record/recorder_tape.h"

namespace escapement {
namespace {

thread_local const detail::ProgramFrames* t_frames = nullptr;   // the innermost

// --- the tables' numbers

constexpr uint8_t kOmitted = 0xff;

class TableReader {
 public:
  explicit TableReader(const uint8_t* at) : at_(at) {}

  const uint8_t* at() const { return at_; }
  uint8_t byte() { return *at_++; }

  uint64_t unsigned_leb() {
    uint64_t value = 0;
    int shift = 0;
    for (uint8_t more = 0x80; more & 0x80; shift += 7) {
      more = byte();
      value |= static_cast<uint64_t>(more & 0x7f) << shift;
    }
    return value;
  }

  int64_t signed_leb() {
    uint64_t value = 0;
    int shift = 0;
    uint8_t last = 0x80;
    for (; last & 0x80; shift += 7) {
      last = byte();
      value |= static_cast<uint64_t>(last & 0x7f) << shift;
    }
    if ((last & 0x40) && shift < 64) value |= ~uint64_t{0} << shift;
    return static_cast<int64_t>(value);
  }

  // False: a format that compilers do not use for distances.
  bool distance(uint8_t encoding, uint64_t& value) {
    switch (encoding & 0x0f) {
      case 0x01: value = unsigned_leb(); return true;
      case 0x02: case 0x0a: value = plain<uint16_t>(); return true;
      case 0x03: case 0x0b: value = plain<uint32_t>(); return true;
      case 0x00: case 0x04: case 0x0c: value = plain<uint64_t>(); return true;
      default: return false;
    }
  }

 private:
  template <typename T>
  T plain() {
    T value;
    std::memcpy(&value, at_, sizeof value);
    at_ += sizeof value;
    return value;
  }

  const uint8_t* at_;
};

bool has_catch(const uint8_t* actions, uint64_t first) {
  for (const uint8_t* action = first == 0 ? nullptr : actions + first - 1; action;) {
    TableReader reader(action);
    if (reader.signed_leb() > 0) return true;
    const uint8_t* const next = reader.at();
    const int64_t step = reader.signed_leb();
    action = step == 0 ? nullptr : next + step;
  }
  return false;
}

// `offset`: of the running call in its function. What cannot be read counts as a catch.
bool catches_at(const uint8_t* table, uint64_t offset) {
  TableReader reader(table);
  uint64_t ignored = 0;
  if (const uint8_t pads = reader.byte(); pads != kOmitted && !reader.distance(pads, ignored)) return true;
  if (reader.byte() != kOmitted) reader.unsigned_leb();   // where the types are
  const uint8_t encoding = reader.byte();
  const uint64_t length = reader.unsigned_leb();
  const uint8_t* const actions = reader.at() + length;
  while (reader.at() < actions) {
    uint64_t start = 0, size = 0, pad = 0;
    if (!reader.distance(encoding, start) || !reader.distance(encoding, size) || !reader.distance(encoding, pad)) return true;
    const uint64_t action = reader.unsigned_leb();
    if (offset < start) return false;   // the ranges are in order
    if (offset < start + size) return pad != 0 && has_catch(actions, action);
  }
  return false;
}

// --- the walk

struct Walk {
  const detail::ProgramFrames* inside;
  bool found = false;
};

// Compiled functions that the program calls are parts of it, but not the frames that call them: those have handlers of ours.
_Unwind_Reason_Code visit(_Unwind_Context* context, void* data) {
  auto& walk = *static_cast<Walk*>(data);
  const uintptr_t stack = _Unwind_GetCFA(context);   // the frame's stack pointer
  while (walk.inside && walk.inside->is_called_by(stack)) walk.inside = walk.inside->around();
  if (!walk.inside) return _URC_END_OF_STACK;
  int is_exact = 0;
  const uintptr_t address = _Unwind_GetIPInfo(context, &is_exact) - (is_exact == 0 ? 1 : 0);   // inside of the call
  if (!walk.inside->has_called(stack) || is_library_code(address)) return _URC_NO_REASON;
  const auto* const table = static_cast<const uint8_t*>(_Unwind_GetLanguageSpecificData(context));
  walk.found = table != nullptr && catches_at(table, address - _Unwind_GetRegionStart(context));
  return walk.found ? _URC_END_OF_STACK : _URC_NO_REASON;
}

}  // namespace

// What its frame calls later begins where this constructor's frame does.
detail::ProgramFrames::ProgramFrames()
    : around_(t_frames), recording_(current_tape()), begin_(reinterpret_cast<uintptr_t>(__builtin_dwarf_cfa())) {
  t_frames = this;
}
detail::ProgramFrames::~ProgramFrames() { t_frames = around_; }

const detail::ProgramFrames* detail::ProgramFrames::around() const { return around_ && around_->recording_ == recording_ ? around_ : nullptr; }

bool program_may_catch() {
  Walk walk{t_frames};
  if (t_frames) _Unwind_Backtrace(visit, &walk);
  return walk.found;
}

}  // namespace escapement

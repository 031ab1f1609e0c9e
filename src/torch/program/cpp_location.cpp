// See cpp_location.h.
#include "torch/program/cpp_location.h"

#include <link.h>
#include <unwind.h>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <utility>

#include "jit/llvm/symbolizer.h"

namespace escapement {
namespace {

// --- libraries whose frames are nobody's code

struct Range {
  uintptr_t begin, end;
};

bool is_foreign(std::string_view file) {
  const std::string_view name = file.substr(file.rfind('/') + 1);
  for (const std::string_view start : {"libescapement.", "libtorch", "libc10", "libstdc++", "libgcc_s", "libc.", "libgomp", "ld-linux"}) {
    if (name.starts_with(start)) return true;
  }
  return false;
}

int add_ranges(dl_phdr_info* info, size_t, void* into) {
  if (!is_foreign(info->dlpi_name)) return 0;
  for (int i = 0; i < info->dlpi_phnum; ++i) {
    const auto& segment = info->dlpi_phdr[i];
    if (segment.p_type != PT_LOAD || (segment.p_flags & PF_X) == 0) continue;
    const uintptr_t begin = info->dlpi_addr + segment.p_vaddr;
    static_cast<std::vector<Range>*>(into)->push_back({begin, begin + segment.p_memsz});
  }
  return 0;
}

}  // namespace

// All of them are loaded before anything can be recorded.
bool is_library_code(uintptr_t address) {
  static const std::vector<Range> ranges = [] {
    std::vector<Range> found;
    dl_iterate_phdr(add_ranges, &found);
    return found;
  }();
  return std::any_of(ranges.begin(), ranges.end(), [&](const Range& r) { return address >= r.begin && address < r.end; });
}

namespace {

// --- the walk

struct Walk {
  const void** next;
  const void** end;
};

_Unwind_Reason_Code visit(_Unwind_Context* context, void* data) {
  auto& walk = *static_cast<Walk*>(data);
  const uintptr_t address = _Unwind_GetIP(context);
  if (address == 0) return _URC_END_OF_STACK;
  if (is_library_code(address)) return _URC_NO_REASON;
  *walk.next++ = reinterpret_cast<const void*>(address - 1);  // inside the call, which may be the last of its line
  return walk.next == walk.end ? _URC_END_OF_STACK : _URC_NO_REASON;
}

// --- what the frames mean

constexpr char kBegin = '\x01', kEnd = '\x02';  // around addresses in a text

bool has(std::string_view text, std::string_view part) { return text.find(part) != text.npos; }

bool is_library_source(const SourceFrame& frame) {
  for (const std::string_view folder : {"/torch/include/", "/include/escapement/", "/boost/hana", "/include/c++/"}) {
    if (has(frame.file, folder)) return true;
  }
  if (!frame.file.empty()) return false;
  for (const std::string_view space : {"at::", "c10::", "torch::", "escapement::", "std::", "boost::"}) {
    if (std::string_view(frame.function).starts_with(space)) return true;
  }
  return frame.function.empty();
}

std::string line_of(const void* address) {
  for (const SourceFrame& frame : frames_at(address)) {
    if (is_library_source(frame)) continue;
    return frame.file.empty() ? symbol_at(address) : frame.file + ":" + std::to_string(frame.line);
  }
  return {};
}

}  // namespace

namespace {
thread_local const NamedPlace* t_named = nullptr;
}  // namespace

NamedPlace::NamedPlace(std::function<std::string()> text) : text_(std::move(text)), before_(std::exchange(t_named, this)) {}
NamedPlace::~NamedPlace() { t_named = before_; }

int CppLocations::here() {
  if (t_named) {
    if (std::string named = t_named->text_(); !named.empty()) return number_of({}, std::move(named));
  }
  Place place{};
  Walk walk{place.data(), place.data() + place.size()};
  _Unwind_Backtrace(visit, &walk);
  return place[0] == nullptr ? -1 : number_of(place, {});
}

int CppLocations::number_of(Place place, std::string named) {
  const std::lock_guard lock(mutex_);
  const std::pair key{place, std::move(named)};
  const auto [known, fresh] = numbers_.try_emplace(key, static_cast<int>(places_.size()));
  if (fresh) places_.push_back(key);
  return known->second;
}

std::string CppLocations::text(int number) const {
  const std::lock_guard lock(mutex_);
  const auto& [place, named] = places_.at(static_cast<size_t>(number));
  if (!named.empty()) return named;
  std::string text(1, kBegin);
  for (const void* address : place) {
    char digits[24];
    if (address) text.append(digits, static_cast<size_t>(std::snprintf(digits, sizeof digits, "%p ", address)));
  }
  return text + kEnd;
}

namespace {

// `text`: the addresses, each followed by a blank.
std::string line_of_first(const char* text) {
  const void* innermost = nullptr;
  for (char* end = nullptr; *text != kEnd && *text != 0; text = end + 1) {
    const auto* address = reinterpret_cast<const void*>(static_cast<uintptr_t>(std::strtoull(text, &end, 16)));
    if (end == text) break;
    if (std::string line = line_of(address); !line.empty()) return line;
    if (innermost == nullptr) innermost = address;
  }
  return innermost ? symbol_at(innermost) : std::string();  // stripped: all that is known
}

}  // namespace

std::string readable_place(const std::string& text) {
  const size_t begin = text.find(kBegin), end = text.find(kEnd);
  if (begin == text.npos || end == text.npos) return text;
  return text.substr(0, begin) + line_of_first(text.c_str() + begin + 1) + text.substr(end + 1);
}

void make_readable(std::vector<std::string>& locations) {
  for (std::string& location : locations) location = readable_place(location);
}

}  // namespace escapement

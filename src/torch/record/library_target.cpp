// See library_target.h.
#include "torch/record/library_target.h"

#include <ATen/autocast_mode.h>
#include <c10/core/impl/LocalDispatchKeySet.h>

#include <string_view>

#include "support/error.h"

namespace escapement {

namespace {

constexpr std::string_view kMark = " under autocast to ";

c10::ScalarType dtype_named(std::string_view name) {
  for (int8_t i = 0; i < static_cast<int8_t>(c10::ScalarType::NumOptions); ++i)
    if (name == c10::toString(static_cast<c10::ScalarType>(i))) return static_cast<c10::ScalarType>(i);
  throw UserError("no dtype is called " + std::string(name));
}

}  // namespace

std::string library_target(const std::string& op) {
  if (!op.starts_with("aten::") || !at::autocast::is_autocast_enabled(at::kCPU)) return op;
  return op + std::string(kMark) + c10::toString(at::autocast::get_autocast_dtype(at::kCPU));
}

LibraryTarget LibraryTarget::parse(const std::string& text) {
  LibraryTarget target;
  const size_t mark = text.find(kMark);
  if (mark != std::string::npos) target.autocast = dtype_named(std::string_view(text).substr(mark + kMark.size()));
  const std::string op = text.substr(0, mark);
  const size_t space = op.find("::"), dot = op.find('.', space == std::string::npos ? 0 : space + 2);
  target.name = op.substr(0, dot);
  if (dot != std::string::npos) target.overload = op.substr(dot + 1);
  return target;
}

AutocastAgain::AutocastAgain(std::optional<c10::ScalarType> dtype) : changes_(dtype.has_value()) {
  if (!changes_) return;
  excluded_ = c10::impl::tls_is_dispatch_key_excluded(c10::DispatchKey::AutocastCPU);
  cache_ = at::autocast::is_autocast_cache_enabled();
  dtype_ = at::autocast::get_autocast_dtype(at::kCPU);
  c10::impl::tls_set_dispatch_key_excluded(c10::DispatchKey::AutocastCPU, false);
  at::autocast::set_autocast_cache_enabled(false);
  at::autocast::set_autocast_dtype(at::kCPU, *dtype);
}

AutocastAgain::~AutocastAgain() {
  if (!changes_) return;
  c10::impl::tls_set_dispatch_key_excluded(c10::DispatchKey::AutocastCPU, excluded_);
  at::autocast::set_autocast_cache_enabled(cache_);
  at::autocast::set_autocast_dtype(at::kCPU, dtype_);
}

}  // namespace escapement

// See replay_region.h.
#include "torch/replay_mode/replay_region.h"

#include <c10/core/impl/LocalDispatchKeySet.h>

#include "jit/run/context_pool.h"
#include "support/events.h"
#include "torch/record/recorder_tape.h"
#include "torch/replay_mode/call.h"
#include "torch/replay_mode/unboxed.h"

namespace escapement {
namespace {

void materialise(const c10::TensorImpl& impl) {
  if (const Deferred* deferred = Deferred::of(&impl)) static_cast<void>(deferred->has_storage());
}

}  // namespace

struct ReplayRegion::Pool {
  ContextPool<ReplayCall> calls;
};

ReplayRegion::ReplayRegion(std::string name, Forward forward, Options options)
    : name_(std::move(name)), forward_(std::move(forward)), options_(std::move(options)),
      tree_(std::make_unique<StreamTree>(name_, options_)), pool_(std::make_unique<Pool>()) {
  install_recorder();
  install_unboxed();
  set_materialise_hook(&materialise);
}
ReplayRegion::~ReplayRegion() = default;

void ReplayRegion::call(const Values& arguments, Values& outputs) {
  if (options_.disable) {
    tree_->note(Reason::disabled);
    count(Stat::eager_calls);
    return forward_(arguments, outputs);
  }
  Scope scope(*this, /*counts=*/false);
  forward_(arguments, outputs);
  scope.finish();
}

ReplayRegion::Scope::Scope(ReplayRegion& region, bool counts) : region_(region) {
  if (region.options_.disable || op_listener() != nullptr || current_tape() != nullptr) return;
  if (counts) count(Stat::calls);
  region.tree_->note_call();
  outer_ = ReplayCall::current();
  included_before_ = c10::impl::tls_is_dispatch_key_included(kRecorderKey);
  excluded_before_ = c10::impl::tls_is_dispatch_key_excluded(kRecorderKey);
  call_ = region.pool_->calls.take([&] { return std::make_unique<ReplayCall>(*region.tree_); });
  call_->begin();
  set_op_listener(call_.get());
  c10::impl::tls_set_dispatch_key_included(kRecorderKey, true);
  c10::impl::tls_set_dispatch_key_excluded(kRecorderKey, false);
}

void ReplayRegion::Scope::finish() {
  if (call_) call_->end_segment();
}

void ReplayRegion::Scope::restore() {
  if (!call_) return;
  c10::impl::tls_set_dispatch_key_included(kRecorderKey, included_before_);
  c10::impl::tls_set_dispatch_key_excluded(kRecorderKey, excluded_before_);
  set_op_listener(outer_);
}

ReplayRegion::Scope::~Scope() {
  try {
    finish();
  } catch (...) {   // the program's own exception is on its way; what depended on this one says so when it is used
  }
  restore();
  if (call_) region_.pool_->calls.give(std::move(call_));
}

std::string ReplayRegion::info() const { return tree_->json(); }
std::string ReplayRegion::text() const { return tree_->text(); }

}  // namespace escapement

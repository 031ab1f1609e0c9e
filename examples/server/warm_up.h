// What makes a model warm before it is served: a few calls that fit any batch.
#pragma once

#include <escapement/batcher.h>

namespace server {

// Sizes other than the first get a small value in their range. A model some of whose sizes are expressions is not called.
escapement::WarmUpReport warm_up(const escapement::Module& module, const escapement::Batcher& batcher);

}  // namespace server

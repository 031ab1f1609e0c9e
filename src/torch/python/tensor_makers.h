// `Tensor.new_tensor` and `Tensor.new`: torch reads the device of what they make off the tensor's dispatch keys, and raises at our key.
#pragma once

namespace escapement {

// From then on a tensor that has our key is stood in for by an ordinary one of its dtype and device; all else is torch's, as before.
// Once, when the module is imported.
void mend_tensor_makers();

}  // namespace escapement

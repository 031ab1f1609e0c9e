// Where every tensor of a plan lives: buffers of roots, and slots of the arena shared by temporaries that never live at once.
#pragma once

#include "kernels/plan.h"

namespace escapement {

// Fills plan.buffers, buffer_of, slot_count, the operands' buffer numbers, `into_planned`, `dead_before` and `dead_after`.
// `roots`: per step, the root of each operand of a kernel step.
void assign_buffers(LaunchPlan& plan, const CheckedVector<std::vector<ValueId>>& roots);

// Memory that a fresh value of this type takes.
Dim bytes_of(DimTable& dims, const TensorType& type);

}  // namespace escapement

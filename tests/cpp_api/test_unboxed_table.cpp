// What the table of operators without boxes lists is what a recording can hold.
#include <ATen/Operators.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <gtest/gtest.h>

#include "torch/record/lower.h"

namespace escapement {
namespace {

TEST(UnboxedTable, EveryOperatorHasALowering) {
  const auto check = [](const char* name, const char* overload) {
    const auto op = c10::Dispatcher::singleton().findSchemaOrThrow(name, overload);
    const OpPlan& plan = plan_of(op);
    EXPECT_TRUE(plan.lower && !plan.decompose) << name << "." << overload << " would never be matched";
    EXPECT_EQ(op.schema().returns().size(), 1u);
  };
#define OPERATOR(op) check(at::_ops::op::name, at::_ops::op::overload_name);
#include "torch/replay_mode/unboxed.def"
#undef OPERATOR
}

}  // namespace
}  // namespace escapement

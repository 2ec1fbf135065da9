#include "base/core/op_kind.h"

#include <gtest/gtest.h>

namespace lowgear {
namespace {

TEST(OpKind, HasTheNamesOfStageProfilesAndTheLettersOfSchedules) {
  EXPECT_EQ(name(OpKind::forward), "forward");
  EXPECT_EQ(name(OpKind::backward), "backward");
  EXPECT_EQ(name(OpKind::input_gradient), "input_gradient");
  EXPECT_EQ(name(OpKind::weight_gradient), "weight_gradient");
  EXPECT_EQ(name(OpKind::recomputation), "recomputation");
  EXPECT_EQ(name(OpKind::recomputing_backward), "recomputing_backward");
  EXPECT_EQ(letter(OpKind::forward), 'F');
  EXPECT_EQ(letter(OpKind::backward), 'B');
  EXPECT_EQ(letter(OpKind::input_gradient), 'I');
  EXPECT_EQ(letter(OpKind::weight_gradient), 'W');
  EXPECT_EQ(letter(OpKind::recomputation), 'R');
  EXPECT_EQ(letter(OpKind::recomputing_backward), 'C');
}

TEST(OpKind, IsInSchedulesButForOne) {
  EXPECT_EQ(kScheduledKinds.size(), static_cast<std::size_t>(kOpKindCount - 1));
  for (const OpKind kind : kScheduledKinds) EXPECT_TRUE(is_scheduled(kind));
  EXPECT_FALSE(is_scheduled(OpKind::forward_backward));
  EXPECT_EQ(name(OpKind::forward_backward), "forward_backward");
  EXPECT_EQ(op_kind_names(),
            "forward, backward, input_gradient, weight_gradient, recomputation and recomputing_backward");
}

TEST(OpKind, IsFoundByItsName) {
  for (const OpKind kind : kScheduledKinds) EXPECT_EQ(op_kind_from_name(name(kind)), kind);
}

TEST(OpKind, IsNotFoundByAnythingElse) {
  for (const char* text : {"", "load", "Forward", "forward ", "f", "forward_backward"})
    EXPECT_FALSE(op_kind_from_name(text)) << text;
}

}  // namespace
}  // namespace lowgear

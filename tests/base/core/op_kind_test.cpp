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

TEST(OpKind, IsFoundByNameAndLetter) {
  for (int i = 0; i < kOpKindCount; ++i) {
    const auto kind = static_cast<OpKind>(i);
    EXPECT_EQ(op_kind_from_name(name(kind)), kind);
    EXPECT_EQ(op_kind_from_letter(letter(kind)), kind);
    EXPECT_NE(op_kind_names().find(name(kind)), std::string_view::npos);
  }
}

TEST(OpKind, IsNotFoundByAnythingElse) {
  for (const char* text : {"", "load", "Forward", "forward ", "f"}) EXPECT_FALSE(op_kind_from_name(text)) << text;
  for (const char text : {'\0', 'f', 'X', ' '}) EXPECT_FALSE(op_kind_from_letter(text)) << text;
}

}  // namespace
}  // namespace lowgear

#include "planning/plan/literal_cursor.h"

#include <gtest/gtest.h>

namespace lowgear::plan {
namespace {

TEST(LiteralCursor, SkipsBlanksAndComments) {
  LiteralCursor cursor(" \t# the first [ is a comment's\r\n\f [ 1");
  EXPECT_TRUE(cursor.accept('['));
  EXPECT_FALSE(cursor.accept(']'));
  EXPECT_EQ(cursor.peek(), '1');
}

TEST(LiteralCursor, ACommentMayEndTheText) {
  LiteralCursor cursor("# no line ends here");
  cursor.skip_blank();
  EXPECT_TRUE(cursor.at_end());
  EXPECT_EQ(cursor.peek(), '\0');
}

TEST(LiteralCursor, DoesNotTakeTheEndForANul) {
  LiteralCursor cursor("");
  EXPECT_FALSE(cursor.accept('\0'));
}

TEST(LiteralCursor, MovesNoFurtherThanTheEnd) {
  LiteralCursor cursor("ab");
  cursor.move_to(7);
  EXPECT_EQ(cursor.position(), 2U);
  cursor.move_to(1);
  EXPECT_EQ(cursor.peek(), 'b');
}

}  // namespace
}  // namespace lowgear::plan

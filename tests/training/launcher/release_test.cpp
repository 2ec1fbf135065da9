#include "training/launcher/release.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/core/error_of.h"
#include "base/core/version.h"

namespace lowgear::launcher {
namespace {

using testing::AllOf;
using testing::HasSubstr;

TEST(Release, HasToBeThatOfTheLauncher) {
  EXPECT_EQ(error_of([] { require_release_of(std::nullopt); }), "no error") << "torchrun says none";
  EXPECT_EQ(error_of([] { require_release_of(version()); }), "no error");
  EXPECT_THAT(error_of([] { require_release_of("999.0.0"); }),
              AllOf(HasSubstr("lowgear is 999.0.0"), HasSubstr(version()), HasSubstr("of one release")));
}

}  // namespace
}  // namespace lowgear::launcher

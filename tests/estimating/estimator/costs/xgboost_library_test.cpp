#include "estimating/estimator/costs/xgboost_library.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "base/core/error.h"

namespace lowgear::estimator {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

std::string refusal(const char* file) {
  try {
    (void)load_xgboost(file);
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

TEST(XgboostLibrary, IsLoadedOnce) { EXPECT_EQ(&xgboost(), &xgboost()); }

TEST(XgboostLibrary, ThatIsMissingSaysWhatToInstall) {
  EXPECT_THAT(refusal("libxgboost-of-nobody.so"),
              AllOf(HasSubstr("libxgboost-of-nobody.so"), HasSubstr("install libxgboost0"), Not(HasSubstr("\n"))));
}

TEST(XgboostLibrary, ThatLacksAFunctionNamesIt) {
  EXPECT_THAT(refusal("libm.so.6"), AllOf(HasSubstr("XGBGetLastError"), HasSubstr("install libxgboost0")));
}

}  // namespace
}  // namespace lowgear::estimator

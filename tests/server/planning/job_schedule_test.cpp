#include "server/planning/job_schedule.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "base/core/error_of.h"

namespace lowgear::server {
namespace {

using testing::HasSubstr;

Json job() {
  return Json::parse(R"({"run":"r","model":"m","gpu":"g","parallel":{"pp":2},"schedule":"1f1b","microbatches":4})");
}

std::string refusal(const Json& body) {
  return error_of([&] { (void)make_schedule(protocol::read_job_spec(JsonView(body, "body"))); });
}

TEST(JobSchedule, NamesAScheduleThatThereIsNot) {
  Json body = job();
  body["schedule"] = "none such";
  EXPECT_THAT(refusal(body), HasSubstr("none such"));
}

TEST(JobSchedule, BoundsTheUnitsOfASchedule) {
  Json body = job();
  body["parallel"] = {{"pp", 1000}};
  body["microbatches"] = 501;
  EXPECT_THAT(refusal(body), HasSubstr("1002000 units"));
}

TEST(JobSchedule, WantsAScheduleOfItsSizes) {
  Json body = job();
  body["schedule"] = {{"csv", "0F0,0B0\n"}};
  EXPECT_THAT(refusal(body), HasSubstr("the schedule has 1 ranks"));
}

}  // namespace
}  // namespace lowgear::server

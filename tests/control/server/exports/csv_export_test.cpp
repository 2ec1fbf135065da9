#include "control/server/exports/csv_export.h"

#include <gtest/gtest.h>

#include <string>
#include <tuple>
#include <vector>

#include "base/core/error_of.h"

namespace lowgear::server {
namespace {

TEST(CsvExport, KnowsItsFiles) {
  EXPECT_EQ(export_table("usage.csv"), ExportTable::usage);
  EXPECT_EQ(export_table("decisions.csv"), ExportTable::decisions);
  EXPECT_FALSE(export_table("budgets.csv"));
  EXPECT_FALSE(export_table("../server.db"));
}

TEST(CsvExport, AcceptsPlacesThatPagesName) {
  for (const auto& [table, place, is_place] :
       std::vector<std::tuple<ExportTable, std::string, bool>>{{ExportTable::usage, "", true},
                                                               {ExportTable::usage, "3600.17", true},
                                                               {ExportTable::usage, "3600", false},
                                                               {ExportTable::usage, "x.17", false},
                                                               {ExportTable::usage, ".", false},
                                                               {ExportTable::jobs, "j-1", true},
                                                               {ExportTable::decisions, "j-1.4", true},
                                                               {ExportTable::decisions, "j-1", false}}) {
    const std::string refusal = error_of([&] { require_place(table, place); });
    EXPECT_EQ(refusal == "no error", is_place) << place;
  }
}

TEST(CsvExport, WritesDecisionsAndLeavesDamagedOnesOut) {
  ExportPage page;
  page.decisions.push_back({"j-1", 4, 1.5, R"({"kind":"plan","plan_version":3,"reason":"a, \"b\""})"});
  page.decisions.push_back({"j-1", 5, 2.5, R"({"kind":"observe","plan_version":null,"reason":"r"})"});
  page.decisions.push_back({"j-1", 6, 3.5, "{"});
  EXPECT_EQ(export_csv(ExportTable::decisions, page, CsvHeader::with),
            "job,id,time_s,kind,plan_version,reason\n"
            "j-1,4,1.5,plan,3,\"a, \"\"b\"\"\"\n"
            "j-1,5,2.5,observe,,r\n");
  EXPECT_EQ(export_csv(ExportTable::decisions, {}, CsvHeader::without), "");
}

TEST(CsvExport, WritesJobsAndBudgets) {
  ExportPage page;
  page.jobs.push_back({.job = "j-1",
                       .run = "r",
                       .name = "n",
                       .user = "ada",
                       .gpu = "H100",
                       .simulated = true,
                       .created_s = 1,
                       .finished_s = {},
                       .iterations = 3,
                       .measured_iterations = 2,
                       .time_s = 6.5,
                       .energy_j = 70});
  EXPECT_EQ(export_csv(ExportTable::jobs, page, CsvHeader::without), "j-1,r,n,ada,H100,true,1,,3,2,6.5,70\n");
  const Json budgets = Json::parse(R"({"budgets":[{"name":"row 1","watts":60000,"hosts":["a","b"],"watts_now":60000,
    "planned_w":50000.5,"assumed_w":0,"kept":true,"gpus_per_kw":0.25}]})");
  EXPECT_EQ(budgets_csv(budgets),
            "budget,watts_now,planned_w,assumed_w,kept,gpus_per_kw,other_w,hosts\n"
            "row 1,60000,50000.5,0,true,0.25,0,a b\n");
}

}  // namespace
}  // namespace lowgear::server

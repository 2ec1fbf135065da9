#include "server/http/csv_export.h"

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
  EXPECT_EQ(export_table("budgets.csv"), ExportTable::budgets);
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
                                                               {ExportTable::decisions, "j-1", false},
                                                               {ExportTable::budgets, "3601.17", true},
                                                               {ExportTable::budgets, "j-1.17", false}}) {
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
  ExportPage uses;
  uses.budgets.push_back({.time_s = 1000,
                          .budget = "row, 1",
                          .limit_w = 60000,
                          .planned_w = 50000.5,
                          .assumed_w = 0,
                          .measured_w = std::nullopt,
                          .measured_gpus = 0,
                          .held_w = std::nullopt,
                          .kept = true});
  uses.budgets.push_back(uses.budgets.back());
  uses.budgets[1].measured_w = 40000.25;
  uses.budgets[1].measured_gpus = 64;
  uses.budgets[1].held_w = 61000;
  uses.budgets[1].kept = false;
  EXPECT_EQ(export_csv(ExportTable::budgets, uses, CsvHeader::with),
            "time_s,budget,limit_w,planned_w,assumed_w,measured_w,measured_gpus,held_w,kept\n"
            "1000,\"row, 1\",60000,50000.5,0,,0,,true\n"
            "1000,\"row, 1\",60000,50000.5,0,40000.25,64,61000,false\n");
}

}  // namespace
}  // namespace lowgear::server

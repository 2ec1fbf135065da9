#pragma once

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "app/cli/run_lowgear.h"
#include "base/core/files/file.h"
#include "base/core/formats/json.h"
#include "base/core/temporary_folder.h"

namespace lowgear::cli {

/// A small profile, its plans in the folder `out`, and the texts of that folder.
class PlanCommand : public ::testing::Test {
 protected:
  PlanCommand() { profile_ = write_text(folder_ / "profile.csv", small_profile(3)); }

  [[nodiscard]] std::string out() const { return (folder_ / "out").string(); }
  [[nodiscard]] std::string text(const std::string& name) const { return read_file(folder_ / "out" / name); }

  [[nodiscard]] ProgramResult plan(std::vector<std::string> others = {}) const {
    others.insert(others.end(), {"--out", out()});
    return run_lowgear(pipeline_command("plan", profile_, 3, 6, others));
  }
  /// Plans and returns what `--json` says.
  [[nodiscard]] Json planned(std::vector<std::string> others = {}) const {
    others.emplace_back("--json");
    const ProgramResult result = plan(others);
    EXPECT_EQ(result.exit_code, 0) << result.err;
    return parse_json(result.out, "stdout");
  }

  TemporaryFolder folder_;
  std::string profile_;
};

}  // namespace lowgear::cli

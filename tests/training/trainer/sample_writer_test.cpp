#include "training/trainer/sampler/sample_writer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <optional>

#include "base/core/error.h"
#include "base/core/error_of.h"
#include "base/core/files/file.h"
#include "base/core/temporary_folder.h"

namespace lowgear::trainer {
namespace {

using ::testing::HasSubstr;

using Plan = std::vector<std::vector<std::int64_t>>;

class SampleWriterTest : public ::testing::Test {
 protected:
  [[nodiscard]] SampleWriter open() const {
    return {path, sampling::SampleFormat::of(sampling::SampledOperator::optimizer), plan};
  }
  static std::vector<sampling::PassSample> passes() {
    return {{.duration_us = 5, .spread_us = 1, .repeats = 3, .clock_mhz = {}, .energy = {}}};
  }
  [[nodiscard]] std::size_t lines() const {
    const std::string text = read_file(path);
    return static_cast<std::size_t>(std::ranges::count(text, '\n'));
  }

  TemporaryFolder folder;
  std::filesystem::path path = folder.path() / "operator" / "samples.csv";
  Plan plan = {{10}, {20}, {30}};
};

TEST_F(SampleWriterTest, ContinuesWhereItWasClosed) {
  {
    SampleWriter file = open();
    EXPECT_EQ(file.next(), 0U);
    file.append(passes());
  }
  {
    SampleWriter file = open();
    EXPECT_EQ(file.next(), 1U);
    EXPECT_EQ(file.rows(), 1U);
    EXPECT_EQ(file.new_rows(), 0U);
    file.skip();
    file.append(passes());
    EXPECT_TRUE(file.done());
    EXPECT_EQ(file.rows(), 2U);
    EXPECT_EQ(file.skipped(), 1U);
  }
  EXPECT_TRUE(open().done());
  EXPECT_EQ(lines(), 3U);
}

TEST_F(SampleWriterTest, CutsOffALineThatWasNotFinished) {
  {
    SampleWriter file = open();
    file.append(passes());
  }
  const std::string whole = read_file(path);
  std::ofstream(path, std::ios::app) << "20,7";
  open().append(passes());
  EXPECT_TRUE(read_file(path).starts_with(whole + "20,5,"));
}

TEST_F(SampleWriterTest, BeginsAnewWhenTheHeaderWasNotFinished) {
  std::filesystem::create_directories(path.parent_path());
  std::ofstream(path) << "params,dur(";
  EXPECT_EQ(open().next(), 0U);
  EXPECT_EQ(read_file(path), sampling::SampleFormat::of(sampling::SampledOperator::optimizer).header());
}

TEST_F(SampleWriterTest, LeavesAnothersFileAsItIs) {
  std::filesystem::create_directories(path.parent_path());
  std::ofstream(path) << "no samples";
  EXPECT_THROW((void)open(), InputError);
  EXPECT_EQ(read_file(path), "no samples");
}

TEST_F(SampleWriterTest, IsWrittenByOneAlone) {
  std::optional<SampleWriter> first(open());
  EXPECT_THAT(error_of([&] { (void)open(); }), HasSubstr("another process writes it"));
  first.reset();
  EXPECT_NO_THROW((void)open());
}

TEST_F(SampleWriterTest, SaysWhatCannotBeWritten) {
  path = "/dev/null/operator/samples.csv";
  EXPECT_THROW((void)open(), InputError);
}

}  // namespace
}  // namespace lowgear::trainer

#include "app/doctor/program_output.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <stdexcept>
#include <string>

#include "base/core/stopwatch.h"

namespace lowgear::doctor {
namespace {

using std::chrono::milliseconds;
using testing::HasSubstr;

constexpr ProgramLimits kPatient{.time = milliseconds(240'000), .bytes = 100'000};
constexpr double kWellBelowS = 200;

ProgramOutput run_shell(const std::string& script, const ProgramLimits& limits = kPatient) {
  return run_for_output({"sh", "-c", script}, {{"MEMBER", "value of it"}}, limits);
}

TEST(ProgramOutput, HoldsBothOutputs) {
  const ProgramOutput output = run_shell("echo one; echo two >&2; echo \"$MEMBER\"; cat");
  EXPECT_EQ(output.out, "one\nvalue of it\n") << "there is nothing to read";
  EXPECT_EQ(output.err, "two\n");
  EXPECT_EQ(output.problem, "");
}

TEST(ProgramOutput, SaysHowAProgramEnded) {
  EXPECT_EQ(run_shell("echo before; exit 3").problem, "ended with 3");
  EXPECT_EQ(run_shell("echo before; exit 3").out, "before\n");
  EXPECT_EQ(run_shell("kill -9 $$").problem, "was killed by signal 9");
  EXPECT_EQ(run_for_output({"/no/such/program"}, {}, kPatient).problem, "cannot be started: No such file or directory");
}

TEST(ProgramOutput, EndsAProgramThatHangs) {
  const ProgramOutput output = run_shell("echo before; sleep 1000", {.time = milliseconds(300), .bytes = 1000});
  EXPECT_EQ(output.problem, "did not end within 0.3 s and was killed");
}

TEST(ProgramOutput, EndsAProgramThatPrintsWithoutEnd) {
  const ProgramOutput output = run_shell("yes");
  EXPECT_EQ(output.problem, "printed more than 100000 bytes and was ended");
}

TEST(ProgramOutput, DoesNotWaitForWhatAProgramHasLeftBehind) {
  const Stopwatch watch;
  const ProgramOutput output = run_shell("sleep 1000 & echo $!");
  EXPECT_LT(watch.elapsed_s(), kWellBelowS);
  EXPECT_EQ(output.problem, "");
  EXPECT_NE(output.out, "");
  EXPECT_EQ(run_shell("kill " + output.out).problem, "");
}

TEST(ProgramOutput, KillsWhatAHangingProgramHasStarted) {
  const ProgramOutput output = run_shell("sleep 1000 & echo $!; wait", {.time = milliseconds(2000), .bytes = 1000});
  EXPECT_THAT(output.problem, HasSubstr("did not end"));
  // A process that is gone, or one that its parent has not waited for.
  EXPECT_EQ(run_shell("for i in 1 2 3 4 5 6 7 8 9; do grep -qs '^State:.[SR]' /proc/" +
                      output.out.substr(0, output.out.find('\n')) + "/status || exit 0; sleep 1; done; exit 1")
                .problem,
            "");
}

TEST(ProgramOutput, IsInterruptedByWhatIsCalledInBetween) {
  int calls = 0;
  EXPECT_THROW((void)run_for_output({"sleep", "1000"}, {}, kPatient,
                                    [&calls] {
                                      if (++calls == 3) throw std::runtime_error("enough");
                                    }),
               std::runtime_error);
  EXPECT_EQ(calls, 3);
}

}  // namespace
}  // namespace lowgear::doctor

#include "app/operations/doctor/program_output.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <stdexcept>
#include <string>

#include "base/core/eventually.h"

namespace lowgear::operations::doctor {
namespace {

using std::chrono::milliseconds;
using testing::HasSubstr;

constexpr ProgramLimits kPatient{.time = kPatience, .bytes = 100'000};

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
  const ProgramOutput output = run_shell("sleep 10000 & echo $!");
  EXPECT_EQ(output.problem, "");
  EXPECT_NE(output.out, "");
  EXPECT_EQ(run_shell("kill " + output.out).problem, "");
}

TEST(ProgramOutput, KillsWhatAProgramThatItEndsHasStarted) {
  const ProgramOutput output = run_shell("sleep 10000 & echo $!; yes", {.time = kPatience, .bytes = 1000});
  EXPECT_THAT(output.problem, HasSubstr("printed more than 1000 bytes"));
  const std::string started = output.out.substr(0, output.out.find('\n'));
  ASSERT_NE(started, "");
  // Until the process is gone, or one that its parent has not waited for.
  EXPECT_EQ(run_shell("while grep -qs '^State:.[SR]' /proc/" + started + "/status; do sleep 0.1; done").problem, "");
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
}  // namespace lowgear::operations::doctor

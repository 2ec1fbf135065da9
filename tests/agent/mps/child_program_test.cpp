#include "agent/mps/child_program.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <unistd.h>

#include <fstream>
#include <memory>
#include <string>

#include "base/core/eventually.h"

namespace lowgear::agent {
namespace {

ProgramStart shell(const std::string& script) {
  return {.program = "/bin/sh", .arguments = {"-c", script}, .environment = {{"WORD", "set"}}, .input = "asked\n"};
}

/// A process is a zombie until its new parent waits for it.
bool has_ended(pid_t pid) {
  std::ifstream file("/proc/" + std::to_string(pid) + "/stat");
  std::string text;
  return !std::getline(file, text) || text.find(") Z ") != std::string::npos;
}

TEST(ChildProgram, ReportsItsEndWithAllThatItWrote) {
  boost::asio::io_context io;
  int ends = 0;
  std::unique_ptr<ChildProgram> child;
  std::string output;
  child = std::make_unique<ChildProgram>(io, shell("read line; echo $line $WORD; echo bad >&2; exit 3"), [&] {
    ++ends;
    EXPECT_EQ(child->status(), 3);
    output = child->output();
    child.reset();  // as its owner may
  });
  io.run();
  EXPECT_EQ(ends, 1);
  EXPECT_EQ(output, "asked set\nbad\n");
}

TEST(ChildProgram, KeepsTheNewestOfWhatItWrote) {
  boost::asio::io_context io;
  ChildProgram child(io, shell("seq 1 20000; echo end"), [&] { io.stop(); });
  io.run();
  EXPECT_LE(child.output().size(), 16'384U);
  EXPECT_TRUE(child.output().ends_with("20000\nend\n"));
}

TEST(ChildProgram, ReportsAProgramThatIsNotThere) {
  boost::asio::io_context io;
  ChildProgram child(io, {.program = "/nonexistent", .arguments = {}, .environment = {}, .input = {}}, [] {});
  io.run();
  EXPECT_EQ(child.status(), 127);
}

TEST(ChildProgram, EndsItsWholeSessionWithItself) {
  boost::asio::io_context io;
  auto child = std::make_unique<ChildProgram>(io, shell("sleep 1000 & echo $!; wait"), [] { FAIL(); });
  while (child->output().empty()) io.run_one();
  const pid_t grandchild = std::stoi(child->output());
  EXPECT_EQ(::kill(grandchild, 0), 0);
  child.reset();
  io.poll();
  EXPECT_TRUE(eventually([&] { return has_ended(grandchild); }));
}

}  // namespace
}  // namespace lowgear::agent

#include "agent/journal/journal.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <memory>
#include <optional>
#include <set>
#include <string>

#include "base/core/error.h"
#include "base/core/error_of.h"

namespace lowgear::agent {
namespace {

using testing::HasSubstr;
namespace fs = std::filesystem;

OriginalGpuState gpu(int number) {
  return {.uuid = "GPU-" + std::to_string(number),
          .pci_address = "0000:0" + std::to_string(number) + ":00.0",
          .power_limit_w = 700,
          .persistence_mode = true};
}

/// The machine died.
struct Death {};

/// A journal's file, empty where there is none; its machine dies at the replacement number `dies_at`, before or after
/// it.
class MortalStorage final : public JournalStorage {
 public:
  explicit MortalStorage(std::optional<std::string>& file, int dies_at = 0, bool replaced = false)
      : file_(&file), dies_at_(dies_at), replaced_(replaced) {}

  [[nodiscard]] std::optional<std::string> read() override { return *file_; }
  void replace(std::string_view bytes) override {
    const bool dies = ++replacements_ == dies_at_;
    if (!dies || replaced_) *file_ = bytes;
    if (dies) throw Death{};
  }

 private:
  std::optional<std::string>* file_;
  int dies_at_;
  bool replaced_;
  int replacements_ = 0;
};

Journal journal_in(std::optional<std::string>& file) { return Journal(std::make_unique<MortalStorage>(file)); }

/// What an agent does with its GPUs, and which of them are really changed.
void work(Journal& journal, std::set<std::string>& really_changed) {
  for (const int number : {1, 2, 1, 3}) {
    journal.record_change(gpu(number));
    really_changed.insert(gpu(number).uuid);
    if (number == 2) {
      really_changed.erase(gpu(1).uuid);
      journal.record_restored(gpu(1).uuid);
    }
  }
  really_changed.erase(gpu(3).uuid);
  journal.record_restored(gpu(3).uuid);
}

std::set<std::string> named(const Journal& journal) {
  std::set<std::string> uuids;
  for (const OriginalGpuState& state : journal.changed()) uuids.insert(state.uuid);
  return uuids;
}

TEST(Journal, RemembersWhatIsChangedAndHowItWas) {
  std::optional<std::string> file;
  Journal journal = journal_in(file);
  journal.record_change(gpu(1));
  OriginalGpuState later = gpu(1);
  later.power_limit_w = 300;
  journal.record_change(later);
  journal.record_change({.uuid = "GPU-bare", .pci_address = "x", .power_limit_w = {}, .persistence_mode = {}});
  journal.record_change(gpu(2));
  journal.record_restored("GPU-2");
  journal.record_restored("GPU-unknown");
  const Journal again = journal_in(file);
  EXPECT_EQ(named(again), (std::set<std::string>{"GPU-1", "GPU-bare"}));
  EXPECT_EQ(again.changed("GPU-1"), gpu(1)) << "what came first is how it was";
  EXPECT_FALSE(again.changed("GPU-bare")->power_limit_w);
  EXPECT_THAT(again.damage(), testing::IsEmpty());
}

TEST(Journal, RemembersPowerFeatures) {
  std::optional<std::string> file;
  Journal journal = journal_in(file);
  OriginalGpuState rich = gpu(1);
  rich.workload_power_profiles = lowgear::gpu::WorkloadPowerProfileSet(0b1000'0010);
  rich.power_smoothing = OriginalPowerSmoothing{.enabled = true, .preset = 2};
  OriginalGpuState all = gpu(2);
  all.workload_power_profiles = ~lowgear::gpu::WorkloadPowerProfileSet();
  all.power_smoothing = OriginalPowerSmoothing{};
  OriginalGpuState none = gpu(3);
  none.workload_power_profiles.emplace();
  for (const OriginalGpuState& state : {rich, all, none}) journal.record_change(state);
  const Journal again = journal_in(file);
  for (const OriginalGpuState& state : {rich, all, none}) EXPECT_EQ(again.changed(state.uuid), state) << state.uuid;
  EXPECT_THAT(again.damage(), testing::IsEmpty());
}

TEST(Journal, NamesEveryChangedGpuWhereverTheMachineDies) {
  int deaths = 0;
  for (int dies_at = 1; dies_at <= 8; ++dies_at) {
    for (const bool replaced : {false, true}) {
      std::optional<std::string> file;
      std::set<std::string> really_changed;
      try {
        Journal journal(std::make_unique<MortalStorage>(file, dies_at, replaced));
        work(journal, really_changed);
      } catch (const Death&) {
        ++deaths;
      }
      const Journal journal = journal_in(file);
      EXPECT_THAT(journal.damage(), testing::IsEmpty()) << "replacement " << dies_at;
      for (const std::string& uuid : really_changed) {
        EXPECT_TRUE(named(journal).contains(uuid)) << uuid << ", replacement " << dies_at;
      }
    }
  }
  EXPECT_EQ(deaths, 2 * 7) << "a new journal, four changes, of which one is known, two restores and an end";
}

/// A journal of two changed GPUs, and a third that was restored.
std::string journal_of_two() {
  std::optional<std::string> file;
  Journal journal = journal_in(file);
  for (int i = 1; i <= 3; ++i) journal.record_change(gpu(i));
  journal.record_restored("GPU-2");
  return *file;
}

TEST(Journal, KnowsEverythingWhateverBitIsFlipped) {
  const std::string whole = journal_of_two();
  const auto changed = parse_journal(whole).changed;
  ASSERT_EQ(changed.size(), 2U);
  for (std::size_t bit = 0; bit < 8 * whole.size(); ++bit) {
    std::string flipped = whole;
    flipped[bit / 8] = static_cast<char>(flipped[bit / 8] ^ 1 << bit % 8);
    const JournalContent content = parse_journal(flipped);
    ASSERT_TRUE(content.healed && !content.damaged) << "bit " << bit;
    ASSERT_EQ(content.changed, changed) << "bit " << bit;
  }
}

TEST(Journal, NoticesALostEndWhereverItBegins) {
  const std::string whole = journal_of_two();
  const ChangedGpus changed = parse_journal(whole).changed;
  for (std::size_t size = 0; size < whole.size(); ++size) {
    for (const std::string& bytes :
         {whole.substr(0, size), whole.substr(0, size) + std::string(whole.size() - size, '\0'),
          whole.substr(0, size) + std::string(whole.size() - size, '\xff')}) {
      const JournalContent content = parse_journal(bytes);
      const bool has_a_copy = 2 * size >= whole.size();
      EXPECT_EQ(content.healed, has_a_copy) << size;
      EXPECT_EQ(content.damaged, !has_a_copy) << size;
      EXPECT_EQ(content.changed, has_a_copy ? changed : ChangedGpus()) << size;
    }
  }
}

TEST(Journal, NoticesALostEndOfOneThatNamesNoGpu) {
  std::optional<std::string> file;
  (void)journal_in(file);
  ASSERT_TRUE(file) << "a new journal is written at once";
  EXPECT_THAT(journal_in(file).damage(), testing::IsEmpty());
  for (std::size_t size = 0; size < file->size(); ++size) {
    std::optional<std::string> cut = file->substr(0, size);
    const Journal journal = journal_in(cut);
    EXPECT_THAT(journal.damage(), testing::Not(testing::IsEmpty())) << size;
    EXPECT_EQ(journal.damaged(), 2 * size < file->size()) << size;
  }
}

TEST(Journal, IsHealedWhenItIsOpened) {
  std::optional<std::string> file = journal_of_two();
  (*file)[20] ^= 1;
  Journal journal = journal_in(file);
  EXPECT_FALSE(journal.damaged());
  EXPECT_THAT(journal.damage(), HasSubstr("nothing is lost"));
  EXPECT_EQ(file, journal_of_two());
  journal.record_change(gpu(4));
  const Journal again = journal_in(file);
  EXPECT_THAT(again.damage(), testing::IsEmpty());
  EXPECT_EQ(named(again), (std::set<std::string>{"GPU-1", "GPU-3", "GPU-4"}));
}

TEST(Journal, IsDamagedWhereItIsNoneOrTwo) {
  std::optional<std::string> file;
  journal_in(file).record_change(gpu(1));
  const std::string one = *file;
  const std::string two = journal_of_two();
  std::string both_copies = two;
  both_copies[4] ^= 1;
  both_copies[two.size() / 2 + 4] ^= 1;
  for (const std::string& bytes : {std::string(), std::string(4096, '\0'), std::string("this is no journal"),
                                   both_copies, one.substr(one.size() / 2) + two.substr(two.size() / 2)}) {
    const JournalContent content = parse_journal(bytes);
    EXPECT_TRUE(content.damaged && !content.healed) << bytes;
  }
  EXPECT_TRUE(parse_journal(one + "more").healed);
}

constexpr const char* kNoJournal = "this is no journal";

TEST(Journal, RefusesChangesAfterDamageUntilItIsCleared) {
  std::optional<std::string> file = kNoJournal;
  Journal journal = journal_in(file);
  EXPECT_TRUE(journal.damaged());
  EXPECT_THROW(journal.record_change(gpu(9)), Error) << "nothing is written before everything is restored";
  journal.clear();
  EXPECT_FALSE(journal.damaged());
  journal.record_change(gpu(9));
}

TEST(Journal, StrikesOutWhatIsRestoredAfterDamageWithoutWritingIt) {
  std::optional<std::string> one;
  journal_in(one).record_change(gpu(1));
  std::optional<std::string> two = journal_of_two();
  std::optional<std::string> file = one->substr(one->size() / 2) + two->substr(two->size() / 2);
  const std::optional<std::string> damaged = file;
  Journal journal = journal_in(file);
  ASSERT_TRUE(journal.damaged());
  EXPECT_TRUE(journal.changed("GPU-3")) << "what can be read counts";
  journal.record_restored("GPU-1");
  EXPECT_FALSE(journal.changed("GPU-1"));
  EXPECT_EQ(file, damaged);
}

/// A disk that is full after so many bytes.
class FullStorage final : public JournalStorage {
 public:
  explicit FullStorage(std::size_t room) : room_(room) {}
  [[nodiscard]] std::optional<std::string> read() override { return content_; }
  void replace(std::string_view bytes) override {
    if (bytes.size() > room_) throw Error("No space left on device");
    content_ = bytes;
  }

 private:
  std::size_t room_;
  std::optional<std::string> content_;
};

TEST(Journal, RefusesAChangeThatDoesNotFitOnTheDisk) {
  auto storage = std::make_unique<FullStorage>(400);
  FullStorage& disk = *storage;
  Journal journal(std::move(storage));
  journal.record_change(gpu(1));
  EXPECT_THROW(journal.record_change(gpu(2)), Error);
  EXPECT_FALSE(journal.changed("GPU-2")) << "it must not be written to";
  EXPECT_EQ(parse_journal(*disk.read()).changed.size(), 1U);
  journal.record_restored("GPU-1");
  journal.record_change(gpu(2));
  Journal none(std::make_unique<FullStorage>(0));
  EXPECT_THROW(none.record_change(gpu(1)), Error);
}

TEST(Journal, StaysShort) {
  std::optional<std::string> file;
  Journal journal = journal_in(file);
  journal.record_change(gpu(7));
  for (int i = 0; i < 5000; ++i) {
    journal.record_change(gpu(1));
    journal.record_restored("GPU-1");
  }
  EXPECT_LT(file->size(), 1'000U);
  EXPECT_EQ(named(journal_in(file)), (std::set<std::string>{"GPU-7"}));
}

class JournalFolderTest : public testing::Test {
 protected:
  JournalFolderTest() : root_(fs::temp_directory_path() / ("lowgear-journal-" + std::to_string(getpid()))) {
    fs::remove_all(root_);
    fs::create_directory(root_);
    fs::permissions(root_, fs::perms::owner_all);
  }
  ~JournalFolderTest() override { fs::remove_all(root_); }

  static void expect_refused(const fs::path& folder, const std::string& words) {
    EXPECT_THAT(error_of([&] { (void)open_journal_folder(folder); }), HasSubstr(words));
  }

  fs::path root_;
};

TEST_F(JournalFolderTest, KeepsItsContent) {
  { Journal(open_journal_folder(root_ / "j")).record_change(gpu(1)); }
  EXPECT_EQ(named(Journal(open_journal_folder(root_ / "j"))), (std::set<std::string>{"GPU-1"}));
  EXPECT_EQ(fs::status(root_ / "j").permissions(), fs::perms::owner_all);
}

TEST_F(JournalFolderTest, IsDamagedWhenItsFileIsLostOrEmpty) {
  { Journal(open_journal_folder(root_ / "j")).record_change(gpu(1)); }
  fs::resize_file(root_ / "j" / "journal", 0);
  EXPECT_TRUE(read_journal_folder(root_ / "j").damaged);
  EXPECT_TRUE(Journal(open_journal_folder(root_ / "j")).damaged());
  fs::remove(root_ / "j" / "journal");
  EXPECT_TRUE(read_journal_folder(root_ / "j").damaged);
  Journal journal(open_journal_folder(root_ / "j"));
  EXPECT_TRUE(journal.damaged());
  journal.clear();
  EXPECT_FALSE(read_journal_folder(root_ / "j").damaged);
}

TEST_F(JournalFolderTest, IsWrittenWhenItIsNew) {
  EXPECT_THAT(Journal(open_journal_folder(root_ / "j")).damage(), testing::IsEmpty());
  EXPECT_GT(fs::file_size(root_ / "j" / "journal"), 0U);
  EXPECT_EQ(fs::status(root_ / "j" / "journal").permissions(), fs::perms::owner_read | fs::perms::owner_write);
  EXPECT_THAT(Journal(open_journal_folder(root_ / "j")).damage(), testing::IsEmpty());
}

TEST_F(JournalFolderTest, IsHeldByOneAgent) {
  const auto first = open_journal_folder(root_ / "j");
  EXPECT_THROW((void)open_journal_folder(root_ / "j"), JournalHeld);
}

TEST_F(JournalFolderTest, NamesWhoHoldsIt) {
  const auto first = open_journal_folder(root_ / "j", "/somewhere/agent.sock");
  try {
    (void)open_journal_folder(root_ / "j");
    FAIL() << "an error was expected";
  } catch (const JournalHeld& held) {
    EXPECT_EQ(held.holder().pid, ::getpid());
    EXPECT_EQ(held.holder().control_socket, "/somewhere/agent.sock");
  }
}

TEST_F(JournalFolderTest, IsReadWhoeverHoldsIt) {
  Journal journal(open_journal_folder(root_ / "j"));
  EXPECT_TRUE(read_journal_folder(root_ / "j").changed.empty());
  journal.record_change(gpu(1));
  EXPECT_TRUE(read_journal_folder(root_ / "j").changed.contains("GPU-1"));
  ::chmod((root_ / "j" / "journal").c_str(), 0666);
  EXPECT_THROW((void)read_journal_folder(root_ / "j"), InputError);
}

TEST_F(JournalFolderTest, IsNotMadeByReadingIt) {
  EXPECT_THAT(error_of([&] { (void)read_journal_folder(root_ / "j"); }), HasSubstr("there is no journal"));
  EXPECT_FALSE(fs::exists(root_ / "j"));
  fs::create_directory(root_ / "empty");
  EXPECT_THAT(error_of([&] { (void)read_journal_folder(root_ / "empty"); }), HasSubstr("there is no journal"));
  EXPECT_TRUE(fs::is_empty(root_ / "empty"));
}

TEST_F(JournalFolderTest, RefusesWhatOthersCouldChange) {
  fs::create_directory(root_ / "open");
  ::chmod((root_ / "open").c_str(), 0777);
  expect_refused(root_ / "open", "chmod go-w");
  fs::create_directory(root_ / "real");
  ::chmod((root_ / "real").c_str(), 0700);
  fs::create_directory_symlink(root_ / "real", root_ / "link");
  expect_refused(root_ / "link", "symbolic link");
  std::ofstream(root_ / "real" / "journal").close();
  ::chmod((root_ / "real" / "journal").c_str(), 0666);
  expect_refused(root_ / "real", "chmod go-w");
  fs::remove(root_ / "real" / "journal");
  fs::create_symlink("/etc/passwd", root_ / "real" / "journal");
  expect_refused(root_ / "real", "symbolic link");
  expect_refused(root_ / "none" / "deeper", "No such file");
}

}  // namespace
}  // namespace lowgear::agent

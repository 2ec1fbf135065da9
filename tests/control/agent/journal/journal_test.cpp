#include "control/agent/journal/journal.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <memory>
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

/// The disk of a machine that may die: what was written since the last sync survives in part, byte by byte.
struct Disk {
  std::string durable;
  std::string written;
};

/// The machine died.
struct Death {};

/// A journal's file on such a disk. Dies before the operation number `dies_at`, or within it after `torn_bytes`.
class MortalStorage final : public JournalStorage {
 public:
  MortalStorage(Disk& disk, int dies_at, std::size_t torn_bytes)
      : disk_(&disk), dies_at_(dies_at), torn_bytes_(torn_bytes) {}

  [[nodiscard]] std::string read() override { return disk_->written; }
  void append(std::string_view bytes) override {
    if (dies_now()) {
      disk_->written += bytes.substr(0, torn_bytes_);
      throw Death{};
    }
    disk_->written += bytes;
  }
  void sync() override {
    if (dies_now()) throw Death{};
    disk_->durable = disk_->written;
  }
  void truncate(std::size_t bytes) override {
    if (dies_now()) throw Death{};
    disk_->written.resize(bytes);
  }
  void replace(std::string_view bytes) override {
    if (dies_now()) throw Death{};
    disk_->written = disk_->durable = bytes;
  }

 private:
  bool dies_now() { return ++operations_ == dies_at_; }

  Disk* disk_;
  int dies_at_;
  std::size_t torn_bytes_;
  int operations_ = 0;
};

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
  Disk disk;
  Journal journal(std::make_unique<MortalStorage>(disk, 0, 0));
  journal.record_change(gpu(1));
  OriginalGpuState later = gpu(1);
  later.power_limit_w = 300;
  journal.record_change(later);
  journal.record_change({.uuid = "GPU-bare", .pci_address = "x", .power_limit_w = {}, .persistence_mode = {}});
  journal.record_change(gpu(2));
  journal.record_restored("GPU-2");
  journal.record_restored("GPU-unknown");
  const Journal again(std::make_unique<MortalStorage>(disk, 0, 0));
  EXPECT_EQ(named(again), (std::set<std::string>{"GPU-1", "GPU-bare"}));
  EXPECT_EQ(again.changed("GPU-1"), gpu(1)) << "what came first is how it was";
  EXPECT_FALSE(again.changed("GPU-bare")->power_limit_w);
  EXPECT_FALSE(again.damaged());
}

TEST(Journal, RemembersPowerFeatures) {
  Disk disk;
  Journal journal(std::make_unique<MortalStorage>(disk, 0, 0));
  OriginalGpuState rich = gpu(1);
  rich.workload_power_profiles = lowgear::gpu::WorkloadPowerProfileSet(0b1000'0010);
  rich.power_smoothing = OriginalPowerSmoothing{.enabled = true, .preset = 2};
  OriginalGpuState all = gpu(2);
  all.workload_power_profiles = ~lowgear::gpu::WorkloadPowerProfileSet();
  all.power_smoothing = OriginalPowerSmoothing{};
  OriginalGpuState none = gpu(3);
  none.workload_power_profiles.emplace();
  for (const OriginalGpuState& state : {rich, all, none}) journal.record_change(state);
  const Journal again(std::make_unique<MortalStorage>(disk, 0, 0));
  for (const OriginalGpuState& state : {rich, all, none}) EXPECT_EQ(again.changed(state.uuid), state) << state.uuid;
  EXPECT_FALSE(again.damaged());
}

TEST(Journal, NamesEveryChangedGpuWhereverTheMachineDies) {
  int deaths = 0;
  for (int dies_at = 1; dies_at <= 20; ++dies_at) {
    for (std::size_t torn = 0; torn < 260; ++torn) {
      Disk disk;
      std::set<std::string> really_changed;
      try {
        Journal journal(std::make_unique<MortalStorage>(disk, dies_at, torn));
        work(journal, really_changed);
      } catch (const Death&) {
        ++deaths;
      }
      // After a SIGKILL everything written is there, after a power loss what was synced, or part of the rest.
      for (const std::string& survivor : {disk.written, disk.durable}) {
        Disk restarted{.durable = survivor, .written = survivor};
        const Journal journal(std::make_unique<MortalStorage>(restarted, 0, 0));
        EXPECT_FALSE(journal.damaged()) << "operation " << dies_at << ", " << torn << " bytes";
        for (const std::string& uuid : really_changed) {
          EXPECT_TRUE(named(journal).contains(uuid)) << uuid << ", operation " << dies_at << ", " << torn << " bytes";
        }
      }
    }
  }
  EXPECT_GT(deaths, 1000);
}

TEST(Journal, ToleratesATornEndAndGoesOn) {
  Disk disk;
  {
    Journal journal(std::make_unique<MortalStorage>(disk, 0, 0));
    journal.record_change(gpu(1));
    journal.record_change(gpu(2));
  }
  const std::string whole = disk.written;
  const std::size_t first = parse_journal(whole).whole_bytes / 2;
  for (std::size_t size = first; size < whole.size(); ++size) {
    Disk torn{.durable = {}, .written = whole.substr(0, size)};
    {
      Journal journal(std::make_unique<MortalStorage>(torn, 0, 0));
      EXPECT_FALSE(journal.damaged());
      EXPECT_TRUE(named(journal).contains("GPU-1"));
      journal.record_change(gpu(3));
    }
    EXPECT_EQ(named(Journal(std::make_unique<MortalStorage>(torn, 0, 0))), (std::set<std::string>{"GPU-1", "GPU-3"}));
  }
}

/// A journal of three changed GPUs, one of which was restored, and of what it says.
Disk disk_of_three() {
  Disk disk;
  Journal journal(std::make_unique<MortalStorage>(disk, 0, 0));
  for (int i = 1; i <= 3; ++i) journal.record_change(gpu(i));
  journal.record_restored("GPU-2");
  return disk;
}

TEST(Journal, KnowsEveryRecordWhateverBitIsFlipped) {
  const std::string whole = disk_of_three().written;
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

TEST(Journal, IsHealedWhenItIsOpened) {
  Disk disk = disk_of_three();
  disk.written[20] ^= 1;
  Journal journal(std::make_unique<MortalStorage>(disk, 0, 0));
  EXPECT_FALSE(journal.damaged());
  EXPECT_THAT(journal.damage(), HasSubstr("nothing is lost"));
  journal.record_change(gpu(4));
  const Journal again(std::make_unique<MortalStorage>(disk, 0, 0));
  EXPECT_THAT(again.damage(), testing::IsEmpty());
  EXPECT_EQ(named(again), (std::set<std::string>{"GPU-1", "GPU-3", "GPU-4"}));
}

TEST(Journal, NoticesWhateverIsLost) {
  const std::string whole = disk_of_three().written;
  Disk one;
  Journal(std::make_unique<MortalStorage>(one, 0, 0)).record_change(gpu(1));
  const std::size_t record = one.written.size();
  std::string both_copies = whole;
  both_copies[record + 4] ^= 1;
  both_copies[record + record / 2 + 4] ^= 1;
  std::string last = whole;
  for (std::size_t at = 3 * record; at < last.size(); ++at) last[at] ^= 1;
  std::string torn = whole.substr(0, whole.size() - 3);
  torn[4] ^= 1;
  const std::string without_the_first = whole.substr(record);
  const std::string more = whole + "this is none of the records that a journal has";
  for (const std::string& bytes : {both_copies, last, torn, without_the_first, more}) {
    const JournalContent content = parse_journal(bytes);
    EXPECT_TRUE(content.damaged && !content.healed);
    EXPECT_TRUE(content.changed.contains("GPU-3")) << "what can be read counts";
  }
}

TEST(Journal, TakesZerosForWhatADiskHasLostAtTheEnd) {
  Disk disk = disk_of_three();
  disk.written += std::string(300, '\0');
  Journal journal(std::make_unique<MortalStorage>(disk, 0, 0));
  EXPECT_THAT(journal.damage(), testing::IsEmpty());
  EXPECT_EQ(named(journal), (std::set<std::string>{"GPU-1", "GPU-3"}));
}

TEST(Journal, ReadsThatOfEarlierReleases) {
  // One record: GPU-1 is changed, and had 700 W.
  const std::string payload = R"({"event":"changed","pci_address":"x","power_limit_w":700.0,"uuid":"GPU-1"})";
  std::string first = std::string("LGJ1") + std::string("\x4a\0\0\0", 4) + std::string("CRC!", 4) + payload;
  ASSERT_EQ(payload.size(), 0x4aU);
  EXPECT_TRUE(parse_journal(first).damaged) << "the checksum is wrong";
  first.replace(8, 4, "\xac\x13\xec\xf1", 4);
  Disk disk{.durable = first, .written = first};
  {
    Journal journal(std::make_unique<MortalStorage>(disk, 0, 0));
    EXPECT_THAT(journal.damage(), testing::IsEmpty());
    EXPECT_EQ(journal.changed("GPU-1")->power_limit_w, 700);
    journal.record_change(gpu(2));
  }
  EXPECT_TRUE(disk.written.starts_with("LGJ2"));
  EXPECT_EQ(named(Journal(std::make_unique<MortalStorage>(disk, 0, 0))), (std::set<std::string>{"GPU-1", "GPU-2"}));
}

/// A record of earlier releases.
std::string first_format_record(const std::string& payload, const std::string& checksum) {
  return std::string("LGJ1") + static_cast<char>(payload.size()) + std::string("\0\0\0", 3) + checksum + payload;
}

/// Two records of earlier releases: GPU-1 and GPU-2 are changed.
std::string journal_of_earlier_releases() {
  return first_format_record(R"({"event":"changed","pci_address":"x","uuid":"GPU-1"})", "\xe1\xdb\xf6\x5c") +
         first_format_record(R"({"event":"changed","pci_address":"x","uuid":"GPU-2"})", "\xb8\x65\xb0\x5e");
}

TEST(Journal, ToleratesATornEndOfEarlierReleases) {
  const std::string whole = journal_of_earlier_releases();
  const std::size_t record = whole.size() / 2;
  ASSERT_EQ(parse_journal(whole).changed.size(), 2U);
  for (std::size_t size = record; size < whole.size(); ++size) {
    Disk torn{.durable = {}, .written = whole.substr(0, size)};
    Journal journal(std::make_unique<MortalStorage>(torn, 0, 0));
    EXPECT_THAT(journal.damage(), testing::IsEmpty()) << size << " bytes";
    EXPECT_EQ(named(journal), (std::set<std::string>{"GPU-1"})) << size << " bytes";
    journal.record_change(gpu(3));
    EXPECT_EQ(named(Journal(std::make_unique<MortalStorage>(torn, 0, 0))), (std::set<std::string>{"GPU-1", "GPU-3"}));
  }
}

TEST(Journal, TakesNoWholeRecordOfEarlierReleasesForATornOne) {
  const std::string whole = journal_of_earlier_releases();
  const std::size_t record = whole.size() / 2;
  for (const std::size_t length_at : {std::size_t{4}, record + 4}) {
    for (int bit = 0; bit < 32; ++bit) {
      std::string flipped = whole;
      const std::size_t byte = length_at + static_cast<std::size_t>(bit) / 8;
      flipped[byte] = static_cast<char>(flipped[byte] ^ 1 << bit % 8);
      EXPECT_TRUE(parse_journal(flipped).damaged) << "bit " << bit << " of the length at " << length_at;
    }
  }
}

TEST(Journal, RefusesChangesAfterDamageUntilItIsCleared) {
  Disk bad = disk_of_three();
  bad.written += "this is none of the records that a journal has";
  Journal journal(std::make_unique<MortalStorage>(bad, 0, 0));
  EXPECT_TRUE(journal.damaged());
  EXPECT_THROW(journal.record_change(gpu(9)), Error) << "nothing is written before everything is restored";
  journal.clear();
  EXPECT_FALSE(journal.damaged());
  journal.record_change(gpu(9));
}

TEST(Journal, StrikesOutWhatIsRestoredAfterDamageWithoutAddingToIt) {
  Disk disk;
  {
    Journal journal(std::make_unique<MortalStorage>(disk, 0, 0));
    journal.record_change(gpu(1));
    disk.written += "this is none of the records that a journal has";
  }
  const std::string damaged = disk.written;
  Journal journal(std::make_unique<MortalStorage>(disk, 0, 0));
  ASSERT_TRUE(journal.damaged());
  journal.record_restored("GPU-1");
  EXPECT_FALSE(journal.changed("GPU-1"));
  EXPECT_EQ(disk.written, damaged);
}

/// A disk that is full after so many bytes, and takes part of what does not fit.
class FullStorage final : public JournalStorage {
 public:
  explicit FullStorage(std::size_t room) : room_(room) {}
  [[nodiscard]] std::string read() override { return content_; }
  void append(std::string_view bytes) override {
    const std::size_t fits = std::min(bytes.size(), room_ - content_.size());
    content_ += bytes.substr(0, fits);
    if (fits < bytes.size()) throw Error("No space left on device");
  }
  void sync() override {}
  void truncate(std::size_t bytes) override {
    if (!may_truncate) throw Error("Input/output error");
    content_.resize(bytes);
  }
  void replace(std::string_view bytes) override { content_ = bytes; }

  bool may_truncate = true;

 private:
  std::size_t room_;
  std::string content_;
};

TEST(Journal, RefusesAChangeThatDoesNotFitOnTheDisk) {
  auto storage = std::make_unique<FullStorage>(400);
  FullStorage& disk = *storage;
  Journal journal(std::move(storage));
  journal.record_change(gpu(1));
  EXPECT_THROW(journal.record_change(gpu(2)), Error);
  EXPECT_FALSE(journal.changed("GPU-2")) << "it must not be written to";
  EXPECT_EQ(parse_journal(disk.read()).whole_bytes, disk.read().size()) << "nothing torn is left in the middle";
  disk.may_truncate = false;
  EXPECT_THROW(journal.record_change(gpu(3)), Error);
  disk.may_truncate = true;
  EXPECT_THROW(journal.record_change(gpu(4)), Error) << "what was left torn would hide what follows it";
}

TEST(Journal, StaysShort) {
  Disk disk;
  Journal journal(std::make_unique<MortalStorage>(disk, 0, 0));
  journal.record_change(gpu(7));
  for (int i = 0; i < 5000; ++i) {
    journal.record_change(gpu(1));
    journal.record_restored("GPU-1");
  }
  EXPECT_LT(disk.written.size(), 100'000U);
  EXPECT_EQ(named(Journal(std::make_unique<MortalStorage>(disk, 0, 0))), (std::set<std::string>{"GPU-7"}));
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
    try {
      (void)open_journal_folder(folder);
      FAIL() << "an error was expected";
    } catch (const InputError& error) {
      EXPECT_THAT(error.what(), HasSubstr(words));
    }
  }

  fs::path root_;
};

TEST_F(JournalFolderTest, KeepsItsContent) {
  { Journal(open_journal_folder(root_ / "j")).record_change(gpu(1)); }
  EXPECT_EQ(named(Journal(open_journal_folder(root_ / "j"))), (std::set<std::string>{"GPU-1"}));
  EXPECT_EQ(fs::status(root_ / "j").permissions(), fs::perms::owner_all);
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

#pragma once

#include <filesystem>
#include <functional>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "app/cli/terminal/console.h"
#include "client/rank/rank_environment.h"
#include "training/launcher/rank_processes.h"

namespace lowgear::operations {

/// The folder that this program is in.
[[nodiscard]] std::filesystem::path program_folder();

/// A name that tells one start of a job from every other: `PREFIX-` and 128 random bits.
[[nodiscard]] std::string random_run(std::string_view prefix);

/// Replaces this process by the program `words[0]`, found as by a shell, with these arguments and further environment
/// variables. Returns only where that fails: the reason.
[[nodiscard]] std::string replace_process(std::vector<std::string> words,
                                          const std::map<std::string, std::string>& variables);

/// A program that is installed and built next to this one. Throws InputError where it is not there: the build has no
/// libtorch.
[[nodiscard]] std::filesystem::path sibling_program(std::string_view name);

/// How ranks of that program are started, without arguments and for one rank. They refuse a `lowgear` of another
/// release.
[[nodiscard]] launcher::RankCommand sibling_command(std::string_view name);

/// Replaces this process by that program.
[[noreturn]] void become_program(std::string_view name, std::vector<std::string> words);

/// Whether torchrun, srun or mpirun started this process as one rank of several. A batch script of Slurm has a rank
/// too, but is in no step. Throws InputError as job_rank_from_environment.
[[nodiscard]] bool is_one_rank_of_many(const Environment& environment);

/// A file in which ranks find each other, in a folder that no other user may write to; both are removed with this.
class RendezvousFolder {
 public:
  RendezvousFolder();
  ~RendezvousFolder();
  RendezvousFolder(const RendezvousFolder&) = delete;
  RendezvousFolder& operator=(const RendezvousFolder&) = delete;
  [[nodiscard]] std::filesystem::path file() const { return path_ / "rendezvous"; }

 private:
  std::filesystem::path path_;
};

/// How ranks are watched.
struct RankWatch {
  std::string ending;  ///< said when a signal asks them to end: `stopping after this step; ...`
  /// Takes a line of a rank that is for the program and not for the user; may be empty.
  std::function<bool(std::string_view line)> take_line = {};
  /// Next to which ranks note where they have registered; empty: they do not. Servers of ranks that are gone without a
  /// word are told of their end.
  std::filesystem::path mark = {};
};

/// Names a file next to which ranks note where they have registered, and which the first client of a command makes.
inline constexpr const char* kMarkVariable = "LOWGEAR_ATTACHED_MARK";

/// Tells the servers of ranks whose processes are gone without a word that they are over, and says where that fails.
/// `failure` has ended them; empty: none is known. Returns those that left no word at the mark.
std::set<int> finish_gone_ranks(const std::filesystem::path& mark, const std::string& failure, cli::Console& console);

/// Runs all ranks, prints their output, and ends them in order after a signal. Throws Interrupted after that,
/// and Error, or InputError where a rank found the input wrong, when one has failed.
void run_watched(const launcher::RankCommand& command, const RankWatch& watch, cli::Console& console);

}  // namespace lowgear::operations

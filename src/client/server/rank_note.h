#pragma once

#include <chrono>
#include <filesystem>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "base/core/files/file_descriptor.h"
#include "base/http/message/message.h"
#include "base/http/tls/tls_credentials.h"

namespace lowgear::client {

/// With what the line begins that a first rank leaves at the mark of `lowgear run` where its plan did nothing.
inline constexpr std::string_view kNoPlanFollowed = "no plan was followed";

/// Between the mark's name and that of a record: what a first rank followed so far, one line, which it removes when it
/// leaves its last line at the mark.
inline constexpr std::string_view kRecordInfix = ".last-";

/// Which rank a process is, and where it has registered.
struct NotedRank {
  std::vector<http::Endpoint> addresses = {};  ///< empty: the note is not for a server
  http::TlsClientFiles tls = {};
  std::filesystem::path token_file = {};  ///< empty: none is sent
  std::string job = {};
  int rank = 0;
  std::string rank_key = {};
};

/// A file next to the mark of `lowgear run` that names a rank while its process has not told that it is over: its
/// server, or, by a second file, the mark. The process holds a lock on the file as long as it lives.
class RankNote {
 public:
  /// No mark: no note. Nor where the mark's folder is not there, as on another machine.
  RankNote(const std::filesystem::path& mark, std::string_view instance);

  void write(const NotedRank& rank);
  /// The end is known.
  void remove();

 private:
  std::filesystem::path path_;
  FileDescriptor file_;
};

/// Ranks whose processes ended without a word.
struct GoneRanks {
  std::set<int> numbers;  ///< that left none at the mark
  std::string problem;    ///< why a server was not told; empty: all were
};

/// Tells the servers that the ranks are over whose notes lie next to the mark and whose processes are gone. `failure`
/// has ended them; empty: none is known. A signal to all processes may end the command before its ranks: waits for
/// those that live, `patience` at most, and a few seconds for servers.
[[nodiscard]] GoneRanks finish_gone_ranks(const std::filesystem::path& mark, const std::string& failure,
                                          std::chrono::milliseconds patience);

}  // namespace lowgear::client

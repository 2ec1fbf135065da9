#include "client/server/rank_note.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <chrono>
#include <system_error>
#include <thread>
#include <utility>

#include "base/core/error.h"
#include "base/core/files/file.h"
#include "base/core/formats/json.h"
#include "base/http/client/client.h"
#include "protocol/rank_reports.h"

namespace lowgear::client {
namespace {

namespace fs = std::filesystem;
using std::chrono::milliseconds;

constexpr milliseconds kAnswer{2'000};
constexpr milliseconds kAllAnswers{6'000};

std::string prefix_of(const fs::path& mark) { return mark.filename().string() + ".rank-"; }

/// By this process; a child does not inherit it. False where another process has it.
bool lock_note(const FileDescriptor& file) {
  struct flock lock {};
  lock.l_type = F_WRLCK;
  return ::fcntl(file.get(), F_SETLK, &lock) == 0;
}

/// Whether its process is gone by then.
bool await_end(const FileDescriptor& note, std::chrono::steady_clock::time_point patience_ends) {
  constexpr milliseconds kLook{10};
  while (!lock_note(note)) {
    if (std::chrono::steady_clock::now() >= patience_ends) return false;
    std::this_thread::sleep_for(kLook);
  }
  return true;
}

NotedRank read_note(const fs::path& path) {
  const Json json = parse_json(read_file(path), path.string());
  const JsonView view(json, path.string());
  NotedRank rank{
      .addresses = {},
      .tls = {.ca = view.at("ca").text(), .certificate = view.at("certificate").text(), .key = view.at("key").text()},
      .token_file = view.at("token_file").text(),
      .job = view.at("job").text(),
      .rank = static_cast<int>(view.at("rank").integer()),
      .rank_key = view.at("rank_key").text()};
  const JsonView addresses = view.at("addresses");
  for (std::size_t i = 0; i < addresses.size(); ++i) {
    rank.addresses.push_back(http::Endpoint::parse(addresses.at(i).text()));
  }
  return rank;
}

/// At the first address that can be reached. A server that does not know the rank any more needs no word.
void finish_rank(const NotedRank& rank, const std::string& failure) {
  http::Client::HeaderList headers = http::token_headers(rank.token_file);
  headers.insert(headers.end(), {{"Content-Type", "application/json"}, {"Lowgear-Rank-Key", rank.rank_key}});
  std::string problems;
  for (const http::Endpoint& address : rank.addresses) {
    try {
      http::Client client(address, {.connect_timeout = kAnswer, .tls = rank.tls});
      (void)client.request("POST", fmt::format("/v1/jobs/{}/finish", rank.job),
                           protocol::write_rank_finish({.rank = rank.rank, .failure = failure}), headers, kAnswer);
      return;
    } catch (const http::ClientError& error) {
      problems += (problems.empty() ? "" : "; ") + std::string(error.what());
    }
  }
  throw Error(problems);
}

}  // namespace

RankNote::RankNote(const fs::path& mark, std::string_view instance) {
  if (mark.empty()) return;
  path_ = mark.parent_path() / fmt::format("{}{}", prefix_of(mark), instance);
  constexpr mode_t kOwnerAlone = 0600;  // it holds a key
  file_ = FileDescriptor(::open(path_.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, kOwnerAlone));
  if (file_ && !lock_note(file_)) file_.reset();
}

void RankNote::write(const NotedRank& rank) {
  if (!file_) return;
  Json addresses = Json::array();
  for (const http::Endpoint& address : rank.addresses) addresses.push_back(address.text());
  const Json note = {{"addresses", std::move(addresses)},
                     {"ca", rank.tls.ca.string()},
                     {"certificate", rank.tls.certificate.string()},
                     {"key", rank.tls.key.string()},
                     {"token_file", rank.token_file.string()},
                     {"job", rank.job},
                     {"rank", rank.rank},
                     {"rank_key", rank.rank_key}};
  // A full disk leaves a note that cannot be read: the server then notices the silence by itself.
  if (::ftruncate(file_.get(), 0) == 0 && ::lseek(file_.get(), 0, SEEK_SET) == 0) {
    (void)write_all(file_.get(), note.dump());
  }
}

void RankNote::remove() {
  std::error_code ignored;
  if (file_) fs::remove(path_, ignored);
  file_.reset();
}

GoneRanks finish_gone_ranks(const fs::path& mark, const std::string& failure, milliseconds patience) {
  GoneRanks gone;
  const auto patience_ends = std::chrono::steady_clock::now() + patience;
  const auto end = patience_ends + kAllAnswers;
  std::error_code unknown;
  for (const fs::directory_entry& entry : fs::directory_iterator(mark.parent_path(), unknown)) {
    if (!entry.path().filename().string().starts_with(prefix_of(mark))) continue;
    const FileDescriptor file(::open(entry.path().c_str(), O_WRONLY | O_CLOEXEC | O_NOFOLLOW));
    if (!file || !await_end(file, patience_ends)) continue;
    std::error_code removed;
    if (fs::file_size(entry.path(), removed) == 0 || removed) continue;  // it has not registered, or its end is known
    try {
      const NotedRank rank = read_note(entry.path());
      if (rank.addresses.empty()) {
        gone.numbers.insert(rank.rank);
      } else if (gone.problem.empty()) {
        if (std::chrono::steady_clock::now() > end) throw Error("it takes too long");
        finish_rank(rank, failure);
      }
    } catch (const Error& error) {
      gone.problem = error.what();
    }
  }
  return gone;
}

}  // namespace lowgear::client

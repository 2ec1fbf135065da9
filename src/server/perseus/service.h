#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <string>

#include "base/core/progress.h"
#include "base/http/message/message.h"
#include "base/http/server/reply.h"
#include "server/perseus/scheduler.h"
#include "server/perseus/settings.h"
#include "server/store/store.h"

namespace lowgear::server::perseus {

struct ServiceOptions {
  Settings settings;
  double max_idle_s = 7 * 24 * 3600;  ///< a job that no rank has asked for in this time is removed
  std::size_t max_jobs = 256;
  std::size_t max_ranks = std::size_t{1} << 17;  ///< of all jobs together
  bool loopback_only = false;                    ///< `refuse_browsers`
};

/// The parts of the process that the service uses.
struct Surroundings {
  std::function<double()> now_s;  ///< seconds since 1970
  /// Calls `work` on some other thread, or at once, and then `done` on the server's.
  std::function<void(std::function<void()> work, std::function<void()> done)> run;
  /// Writes a file of a job's results (`0.prof.json`, `0.sched.json`, a profile, ...) to the folder of that name and
  /// returns when it is on the disk. Called where `work` is; must not throw. May be empty.
  std::function<void(const std::string& job, File file)> dump;
  /// Receives messages for an operator, on the server's thread. May be empty.
  std::function<void(const std::string& text)> warn;
  /// Whether a job of this id has left results. May be empty.
  std::function<bool(const std::string& job)> has_results;
  /// Receives how far planning has come, where `work` is, and may stop it by an exception. May be null.
  std::shared_ptr<Progress> progress;
};

/// Numbers of jobs, ranks and waiting requests.
struct Status {
  std::size_t jobs = 0;
  std::size_t ranks = 0;
  std::size_t waiting = 0;  ///< requests for a schedule that are not answered yet
};

/// Jobs of clients that speak the Perseus protocol (see protocol.h). All calls come from the server's thread.
///
/// Errors are `{"detail": "..."}` as FastAPI writes them: 400 for whatever a client did wrong, 404 and 405 for what
/// does not exist, 500 for the message that a scheduler ended with (`[profiling-done]` is how the artifact ends
/// training), 503 when there is no room or the disk is full. Every rank gets an answer with the reason that has ended
/// its job, now and whenever it asks.
///
/// A request that changes something is answered once the store has it. A server that starts anew puts every job back
/// where it was by going through its windows again. The results of a window are on the disk before the window counts as
/// over: one that was killed in between writes them again.
class Service {
 public:
  /// `store` must outlive the service; `contents`: its rows when the server started.
  Service(ServiceOptions options, Surroundings surroundings, Store& store, const StoreContents& contents);
  ~Service();
  Service(const Service&) = delete;
  Service& operator=(const Service&) = delete;

  /// Whether the request is one of this protocol; it then is, or will be, answered. Never throws.
  bool handle(const http::Request& request, const std::shared_ptr<http::Reply>& reply);
  /// Removes jobs that have been idle too long; for a timer. Their documents are replaced by empty ones.
  void remove_idle_jobs();
  [[nodiscard]] Status status() const;

 private:
  class Impl;
  std::shared_ptr<Impl> impl_;
};

}  // namespace lowgear::server::perseus

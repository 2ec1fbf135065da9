#pragma once

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <thread>

#include "client/marks/mark_writer.h"
#include "client/marks/stream_driver.h"
#include "client/measure/bounded_queue.h"

namespace lowgear::client {

struct MarkRelayOptions {
  std::chrono::nanoseconds look_period{50'000};   ///< between reads of the number that the GPU writes
  std::chrono::nanoseconds idle_period{250'000};  ///< where nothing was marked for `idle_after`
  std::chrono::nanoseconds idle_after{20'000'000};
  std::chrono::milliseconds last_wait{2'000};  ///< for marks that the GPU has not come to when nothing more will come
};

/// Passes marks on when a GPU has come to them: each mark waits in a queue, and the GPU is asked to write its number in
/// the order of its work. A thread looks for the numbers and passes marks on in the order in which they were made, with
/// the time at which the number came: the middle between the looks before and after it. It is the only thread that
/// passes anything on. Once the driver fails, marks pass through the queue with the host's time.
class MarkRelay {
 public:
  /// `taker` lives longer than this.
  MarkRelay(std::unique_ptr<StreamDriver> driver, MarkTaker& taker, MarkRelayOptions options = {});
  ~MarkRelay() { finish(); }
  MarkRelay(const MarkRelay&) = delete;
  MarkRelay& operator=(const MarkRelay&) = delete;

  // By the thread that marks.
  /// Marks from now on follow the work of this stream. False when there have been more streams than can be
  /// distinguished: marks then follow the one before.
  [[nodiscard]] bool use(StreamDriver::Stream stream) noexcept;
  /// Never waits, but where the driver does so before it takes work for a GPU.
  void mark(const Mark& mark) noexcept;
  /// Waits until the GPU has come to the newest mark, at most `last_wait`.
  void wait_for_gpu() const noexcept;
  /// Waits for the last marks, at most `last_wait`; marks that the GPU has not reached by then are lost. Nothing is
  /// passed on afterwards.
  void finish();

  // By any.
  /// Marks that were never passed on: there was no room for them, or the GPU did not come to them.
  [[nodiscard]] std::uint64_t lost() const;
  /// Whether marks follow the GPU's work.
  [[nodiscard]] bool works() const { return failure_.load(std::memory_order_relaxed) == StreamDriver::kWritten; }
  /// What does not work, for a person; empty: nothing.
  [[nodiscard]] std::string problem() const;

 private:
  static constexpr std::size_t kMaxWaiting = std::size_t{1} << 14U;
  static constexpr std::uint16_t kHost = UINT16_MAX;

  struct Waiting {
    Mark mark;
    std::uint32_t number = 0;
    std::uint16_t word = kHost;  ///< that its number comes to; kHost: it waits for those before it alone
  };

  /// How far the relay's thread has come.
  struct Progress {
    std::optional<Waiting> next;
    std::uint64_t look_ns = 0;        ///< of the last read of the number that the GPU writes
    std::uint64_t mark_ns = 0;        ///< of the mark that was passed on last
    std::uint64_t ends_since_ns = 0;  ///< since when no more numbers are to be expected; 0: they are
  };

  void run(const std::stop_token& stop);
  void look(std::uint64_t now_ns);
  [[nodiscard]] bool has_come(const Waiting& waiting) const noexcept;
  [[nodiscard]] bool is_given_up(std::uint64_t now_ns) const noexcept;
  void pass_on(const Waiting& waiting, std::uint64_t now_ns) noexcept;
  [[nodiscard]] std::chrono::nanoseconds pause(std::uint64_t now_ns) const;

  std::unique_ptr<StreamDriver> driver_;
  std::span<const std::atomic<std::uint32_t>> words_;
  MarkTaker* taker_;
  MarkRelayOptions options_;
  BoundedQueue<Waiting, kMaxWaiting> queue_;

  KnownStreams streams_;      ///< the marking thread's; each has the word of its number
  std::uint32_t number_ = 0;  ///< the marking thread's: of the newest mark
  std::size_t word_ = 0;      ///< the marking thread's: that `number_` comes to

  std::atomic<int> failure_{StreamDriver::kWritten};
  std::atomic<std::uint64_t> not_reached_{0};
  std::atomic<std::uint64_t> captured_{0};

  Progress progress_;    ///< the relay's thread's
  std::jthread thread_;  ///< last: it uses everything above
};

struct StreamMarksStatus {
  bool follow_stream = false;  ///< marks count when the GPU comes to them; otherwise when they are made
  std::string problem;         ///< why marks do not follow the stream as asked, or which were lost; empty: none
};

/// Passes marks on as a GPU comes to them, where they are to follow a stream. One thread marks and says which stream;
/// any may ask for the rest.
class StreamMarks {
 public:
  using OpenDriver = std::function<std::unique_ptr<StreamDriver>()>;

  /// `taker` lives longer than this. `open_driver` throws Error.
  StreamMarks(MarkTaker& taker, OpenDriver open_driver) : taker_(&taker), open_driver_(std::move(open_driver)) {}

  /// Marks from now on follow the work of this stream, or the host where that cannot be. Null: the host; waits at most
  /// MarkRelayOptions::last_wait for marks that the GPU has not come to.
  void use(StreamDriver::Stream stream);
  /// False: marks are the host's, and the caller passes them on itself, at once.
  [[nodiscard]] bool defers() const noexcept { return relay_ != nullptr; }
  /// Where marks are deferred.
  void mark(Mark mark) noexcept;
  /// Where marks are deferred: returns once the GPU has come to the newest, as `MarkRelay::wait_for_gpu`.
  void wait_for_gpu() const noexcept {
    if (relay_) relay_->wait_for_gpu();
  }

  [[nodiscard]] StreamMarksStatus status() const;
  /// Marks that were never passed on.
  [[nodiscard]] std::uint64_t lost() const;

 private:
  void use_host();

  MarkTaker* taker_;
  OpenDriver open_driver_;
  mutable std::mutex mutex_;          ///< of what follows, but for the marking thread's looks at `relay_`
  std::unique_ptr<MarkRelay> relay_;  ///< null: marks are the host's
  std::string problem_;               ///< why there is none, although a stream was named, or it follows another
  std::uint64_t lost_before_ = 0;     ///< by relays that are gone
};

}  // namespace lowgear::client

#pragma once

#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace lowgear::client {

/// Ranks along each axis of a job, as a job specification names them (docs/server-api.md).
struct JobSizes {
  int pp = 1;
  int dp = 1;  ///< replicas; context parallel ranks count into them
  int tp = 1;
  /// Stage N of the pipeline is on pipeline rank N: one chunk a rank, and no schedule of the user's own.
  bool stage_is_pp_rank = true;

  [[nodiscard]] long long world_size() const { return 1LL * pp * dp * tp; }
};

/// The sizes of a job specification; empty where it has no `parallel`, and for an empty text. Throws InputError when
/// they are no whole numbers from 1.
[[nodiscard]] std::optional<JobSizes> read_job_sizes(std::string_view job_json);

/// How a job numbers its ranks: its axes, those of neighbouring ranks first, in Megatron's notation
/// (`tp-cp-ep-dp-pp`), each with its size where one is written (`tp2-cp-pp4-dp`).
class RankOrder {
 public:
  enum class Axis : unsigned char { tp, cp, dp, pp };
  struct SizedAxis {
    Axis axis;
    std::optional<int> size;
  };

  /// `text` is such an order, or the name of a framework whose default is meant: `megatron` (tp-cp-ep-dp-pp;
  /// megatron/core/parallel_state.py, RankGenerator), `deepspeed` (tp-dp-pp; its PipeModelDataParallelTopology, which
  /// Merak has, too). Expert parallel ranks lie within dp, so `ep` takes no size. Throws InputError for anything else.
  [[nodiscard]] static RankOrder parse(std::string_view text);

  [[nodiscard]] const std::vector<SizedAxis>& axes() const { return axes_; }
  [[nodiscard]] const std::string& text() const { return text_; }

 private:
  std::vector<SizedAxis> axes_;
  std::string text_;
};

/// Known facts of a process' position in its job.
struct JobPlaceFacts {
  int rank = 0;
  std::optional<int> world_size = {};  ///< empty: a launcher says a rank and no size
  std::optional<int> pp_rank = {};     ///< of the caller
  std::optional<int> dp_rank = {};
  std::optional<int> tp_rank = {};
  std::optional<RankOrder> order = {};
  std::optional<JobSizes> sizes = {};
};

/// A process' position on an axis, or that it is not certain.
struct AxisRank {
  std::optional<int> rank;
  std::string reason;  ///< how it is known; or why it is not, and what to pass
};

/// The position in the pipeline. With `plan_ranks`, the ranks of a plan, the position is one of them. The first
/// applicable rule decides: `pp_rank`; the order of ranks; sizes of which one alone is above 1; a job of one process; a
/// plan of one rank; a plan with as many ranks as the job. Nothing is assumed beyond that: the rank modulo the ranks of
/// the plan is another stage's wherever neighbouring ranks share a stage, as under Megatron and DeepSpeed.
[[nodiscard]] AxisRank pipeline_rank(const JobPlaceFacts& facts, std::optional<int> plan_ranks = {});

/// The place on all axes, as it is sent to a server.
struct JobPlace {
  int pp = 0;
  int dp = 0;
  int tp = 0;
};

/// Decided axis by axis as pipeline_rank. Throws InputError, which says what to pass, where an axis is not certain.
[[nodiscard]] JobPlace job_place(const JobPlaceFacts& facts);

/// Where this rank is in the pipeline, as known from the start or by the newest plan. Thread-safe.
class KnownPlace {
 public:
  struct Place {
    std::optional<int> pp_rank;  ///< empty: not certain
    std::optional<int> stage;    ///< the only one of this rank; empty: not certain, or it has several
    std::string text;            ///< how they are known; or why not, and what to pass
  };

  KnownPlace(AxisRank pipeline, std::optional<int> stage) { set(std::move(pipeline), stage); }

  /// `stage` is the only one of this rank; empty: not certain, or it has several.
  void set(AxisRank pipeline, std::optional<int> stage);
  [[nodiscard]] Place get() const;

 private:
  mutable std::mutex mutex_;  ///< of the two below
  AxisRank pipeline_;
  std::optional<int> stage_;
};

}  // namespace lowgear::client

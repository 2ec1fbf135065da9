#include "training/trainer/sampler/sampling_run.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <utility>

#include "base/core/error.h"
#include "base/core/files/file.h"
#include "training/launcher/rank_layout.h"
#include "training/trainer/engine/backend.h"

namespace lowgear::trainer {

namespace {

/// Repeats of one pass may take so long together.
constexpr double kPassTimeS = 0.03;
constexpr int kFewestRepeats = 5;

}  // namespace

sampling::PassSample SamplingRun::time_pass(const TimedWork& work, const std::function<double(double)>& agree) const {
  TimedWork trial = work;
  trial.meanwhile = {};
  (void)device.time_s(trial, 1);  // libraries choose their kernels
  const double trial_s = agree(device.time_s(trial, 1).front());
  const double affordable = std::min(kPassTimeS / std::max(trial_s, 1e-9), 1e6);
  const int fewest = std::min(kFewestRepeats, options.repeats);
  sampling::PassSample sample;
  sample.repeats = std::clamp(static_cast<int>(affordable), fewest, options.repeats);
  TimedWork watched = work;
  watched.meanwhile = [&] {
    if (gpu != nullptr) sample.clock_mhz = gpu->clock_mhz();
  };
  const sampling::Spread spread = sampling::spread_of(device.time_s(watched, sample.repeats));
  sample.duration_us = spread.median * 1e6;
  sample.spread_us = spread.quartiles * 1e6;
  return sample;
}

namespace {

constexpr std::string_view kFormat = "lowgear.sampling/1";

/// `2026-11-21`, in UTC.
std::string today() {
  const std::chrono::year_month_day day(std::chrono::floor<std::chrono::days>(std::chrono::system_clock::now()));
  return fmt::format("{:04}-{:02}-{:02}", int{day.year()}, unsigned{day.month()}, unsigned{day.day()});
}

void require_same(const std::filesystem::path& path, const Json& now) {
  const Json before = parse_json(read_file(path), path.string());
  const JsonView view(before, path.string());
  require_format(view, kFormat);
  for (const std::string_view member : {"device", "driver", "torch", "simulated"}) {
    const Json& old = view.at(member).json();
    if (old == now.at(member)) continue;
    view.at(member).fail(
        fmt::format("the samples here have {} {}, this machine {}", member, old.dump(), now.at(member).dump()),
        "give another folder");
  }
}

}  // namespace

Json SamplingRecord::to_json() const {
  return {{"device", device}, {"driver", driver}, {"torch", torch}, {"type", type}, {"simulated", simulated}};
}

void write_record(const std::filesystem::path& folder, const SamplingRecord& record) {
  const std::filesystem::path path = folder / "sampling.json";
  Json document = {{"format", kFormat}};
  document.update(record.to_json());
  if (std::filesystem::exists(path)) return require_same(path, document);
  document.erase("type");  // several may stand in one document: their files say which
  document["begun"] = today();
  std::error_code error;
  std::filesystem::create_directories(folder, error);  // writing says why when it fails
  write_file_atomically(path, document.dump(2) + "\n");
}

std::string summary_text(const std::vector<SampledFile>& files) {
  std::string text;
  for (const SampledFile& sampled : files) {
    const SampleWriter& file = sampled.file;
    text += fmt::format("{:<28} {:>5} of {} rows, {} new", sampled.name, file.rows(), file.planned(), file.new_rows());
    if (file.skipped() > 0) text += fmt::format(", {} did not fit into memory", file.skipped());
    text += fmt::format("  {}\n", file.path().string());
  }
  return text;
}

Json summary_json(const SamplingRecord& record, const std::vector<SampledFile>& files) {
  Json json = record.to_json();
  json["complete"] = std::ranges::all_of(files, [](const SampledFile& sampled) { return sampled.file.done(); });
  json["files"] = Json::array();
  for (const SampledFile& sampled : files) {
    const SampleWriter& file = sampled.file;
    json["files"].push_back({{"name", sampled.name},
                             {"path", file.path().string()},
                             {"planned", file.planned()},
                             {"rows", file.rows()},
                             {"new_rows", file.new_rows()},
                             {"skipped", file.skipped()}});
  }
  return json;
}

namespace {

/// A rank that nothing is heard of for so long is taken for dead.
constexpr std::chrono::seconds kTimeout{300};

at::ScalarType scalar_type(sampling::SampleType type) {
  if (type == sampling::SampleType::fp32) return at::kFloat;
  return type == sampling::SampleType::bf16 ? at::kBFloat16 : at::kHalf;
}

/// The ranks of a job, as one group and as one pipeline.
class Ranks {
 public:
  Ranks(const SamplingRun& run, const Rendezvous& rendezvous)
      : backend_(connect_backend(run.options.gpu, launcher::RankLayout({.pp = run.rank.world_size}), run.rank.rank,
                                 run.rank.local_rank, rendezvous, kTimeout)),
        token_(at::zeros({1}, at::device(backend_.device).dtype(at::kFloat))) {}

  [[nodiscard]] const Backend& backend() const { return backend_; }
  [[nodiscard]] Collective& world() const { return *backend_.ranks.world; }
  [[nodiscard]] PointToPoint& pipeline() const { return *backend_.ranks.pipeline; }

  /// Ends for no rank before it has begun for all; on GPUs, in the order of their streams.
  void meet() const { world().all_reduce(token_); }
  /// The largest of what the ranks say.
  [[nodiscard]] double largest(double value) const {
    const at::Tensor all = at::full({1}, value, at::device(backend_.device).dtype(at::kDouble));
    world().all_reduce(all, Reduction::maximum);
    return all.item<double>();
  }
  void close() const {
    if (backend_.ranks.close) backend_.ranks.close();
  }

 private:
  Backend backend_;
  at::Tensor token_;
};

/// One message with its buffers, on one rank.
class Message {
 public:
  Message(const Ranks& ranks, sampling::SampledCollective collective, sampling::SampleType type, std::int64_t elements)
      : ranks_(&ranks), collective_(collective) {
    const auto options = at::device(ranks.backend().device).dtype(scalar_type(type));
    part_ = at::randn({elements}, options);
    const bool gathers = collective == sampling::SampledCollective::all_gather ||
                         collective == sampling::SampledCollective::reduce_scatter;
    if (gathers) all_ = at::randn({elements * ranks.world().size()}, options);
  }

  void pass() const {
    switch (collective_) {
      case sampling::SampledCollective::all_reduce:
        return ranks_->world().all_reduce(part_);
      case sampling::SampledCollective::all_gather:
        return ranks_->world().all_gather(all_, part_);
      case sampling::SampledCollective::reduce_scatter:
        return ranks_->world().reduce_scatter(part_, all_);
      case sampling::SampledCollective::send:
        return send();
    }
  }

 private:
  /// From the first rank to the last.
  void send() const {
    const int last = ranks_->world().size() - 1;
    if (ranks_->world().rank() == 0) ranks_->pipeline().send(part_, last)->wait();
    if (ranks_->world().rank() == last) ranks_->pipeline().receive(part_, 0)->wait();
  }

  const Ranks* ranks_;
  sampling::SampledCollective collective_;
  at::Tensor part_;
  at::Tensor all_;
};

class CollectiveSampler {
 public:
  CollectiveSampler(const SamplingRun& run, const Ranks& ranks, const SamplingEvents& events)
      : run_(&run),
        ranks_(&ranks),
        events_(&events),
        gpus_per_node_(static_cast<int>(ranks.largest(run.rank.local_rank)) + 1),
        nodes_(std::max(run.rank.world_size / gpus_per_node_, 1)) {}

  [[nodiscard]] std::vector<SampledFile> sample_all() {
    std::vector<SampledFile> files;
    std::vector<std::vector<sampling::PlannedMessage>> plans;
    for (const sampling::SampledCollective collective : run_->options.collectives) {
      plans.push_back(plan_messages(collective, run_->options.type, run_->rank.world_size, run_->options.sizes,
                                    run_->options.energy_points));
      planned_ += plans.back().size();
      if (run_->rank.rank == 0) files.push_back({std::string(name(collective)), open_file(collective, plans.back())});
    }
    std::vector<std::size_t> begins;
    for (std::size_t i = 0; i < plans.size(); ++i) {
      begins.push_back(static_cast<std::size_t>(ranks_->largest(files.empty() ? 0 : double(files[i].file.next()))));
      done_ += begins.back();
    }
    for (std::size_t i = 0; i < plans.size(); ++i) {
      SampleWriter* file = files.empty() ? nullptr : &files[i].file;
      sample_rest(run_->options.collectives[i], std::span(plans[i]).subspan(begins[i]), file);
    }
    return files;
  }

 private:
  [[nodiscard]] SampleWriter open_file(sampling::SampledCollective collective,
                                       const std::vector<sampling::PlannedMessage>& plan) const {
    std::vector<std::vector<std::int64_t>> cells;
    cells.reserve(plan.size());
    for (const sampling::PlannedMessage& message : plan) cells.push_back({message.elements, nodes_, gpus_per_node_});
    const std::string_view library = run_->options.gpu ? "nccl" : "gloo";
    const auto path =
        std::filesystem::path(run_->options.folder) /
        collective_file(library, run_->device.name(), collective, run_->options.type, nodes_, gpus_per_node_);
    return {path, sampling::SampleFormat::of_collectives(), std::move(cells)};
  }

  /// All ranks go through the same messages and end after the same one.
  void sample_rest(sampling::SampledCollective collective, std::span<const sampling::PlannedMessage> plan,
                   SampleWriter* file) {
    for (const sampling::PlannedMessage& message : plan) {
      if (ranks_->largest(run_->asked_to_end() ? 1 : 0) > 0) return;
      const sampling::PassSample sample = sample_message(collective, message);
      ++done_;
      if (file == nullptr) continue;
      file->append({sample});
      events_->on_row(name(collective), done_, planned_);
    }
  }

  [[nodiscard]] sampling::PassSample sample_message(sampling::SampledCollective collective,
                                                    const sampling::PlannedMessage& planned) const {
    const Message message(*ranks_, collective, run_->options.type, planned.elements);
    const auto agree = [this](double value) { return ranks_->largest(value); };
    const auto once = [&] { message.pass(); };
    sampling::PassSample sample =
        run_->time_pass({.before_each = [this] { ranks_->meet(); }, .run = once, .meanwhile = {}}, agree);
    // A rank that came late makes the others wait, and one that has no part in a message waits for nothing.
    sample.duration_us = agree(sample.duration_us);
    sample.spread_us = agree(sample.spread_us);
    if (planned.energy && agree(run_->gpu != nullptr ? 0 : 1) == 0) {
      const RepeatedWork repeated = {
          .begin_one = once, .finish = [this] { run_->device.synchronize(); }, .agree = agree};
      sample.energy = run_->gpu->energy_of(repeated, sample.duration_us / 1e6, run_->options.window_s);
    }
    return sample;
  }

  const SamplingRun* run_;
  const Ranks* ranks_;
  const SamplingEvents* events_;
  int gpus_per_node_;
  int nodes_;
  std::size_t planned_ = 0;
  std::size_t done_ = 0;
};

}  // namespace

std::vector<SampledFile> sample_collectives(const SamplingRun& run, const Rendezvous& rendezvous,
                                            const SamplingEvents& events) {
  if (run.rank.world_size < 2) {
    throw InputError("collectives need two ranks or more: give --ranks, or start under torchrun or srun");
  }
  const Ranks ranks(run, rendezvous);
  std::vector<SampledFile> files = CollectiveSampler(run, ranks, events).sample_all();
  ranks.close();
  return files;
}

}  // namespace lowgear::trainer

#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "training/dataset/batch_sampler.h"
#include "training/launcher/checkpoint_manifest.h"
#include "training/launcher/config/train_config.h"
#include "training/tensorfile/safetensors.h"
#include "training/trainer/checkpoint/job_folder.h"
#include "training/trainer/engine/loss_scale.h"
#include "training/trainer/engine/optimizer.h"
#include "training/trainer/model/parameter_store.h"
#include "training/trainer/transport/transport.h"

namespace lowgear::trainer {

/// State beyond the parameters, the same on all ranks.
class SavedState {
 public:
  virtual ~SavedState() = default;
  /// As JSON; empty: there is none.
  [[nodiscard]] virtual std::string save() const = 0;
  /// Restores the result of `save`. Throws InputError, naming `source`, on anything else.
  virtual void restore(const std::string& json, const std::string& source) = 0;
};

/// A rank's part of the training state.
struct TrainingState {
  AdamW* optimizer = nullptr;
  dataset::BatchSampler* sampler = nullptr;
  SavedState* changes = nullptr;    ///< may be null
  LossScale* loss_scale = nullptr;  ///< null: not in fp16

  [[nodiscard]] ParameterStore& store() const { return optimizer->store(); }
};

/// Saves the training state of all ranks as the folder `step-NNNNNNNN` of `folder`: each rank a safetensors file of the
/// fp32 values and AdamW's moments that it owns, then rank 0 a checkpoint.json (see CheckpointManifest).
/// The folder is complete or does not exist. Replicas share the work, with ZeRO-1 or without. A meeting of all ranks;
/// all throw Error when one cannot write, or holds values that are no numbers.
void save_checkpoint(const std::filesystem::path& folder, std::int64_t step, const launcher::TrainConfig& config,
                     const TrainingState& state, const Communicators& ranks);

/// Takes the training state from the checkpoint `path`, whatever the layout of the ranks that wrote it. Returns the
/// number of steps done. Sampling continues after the samples taken, also if a step now takes another number of them. A
/// meeting of all ranks; all throw InputError naming the file when it is of another model, seed, text or sequence
/// length, damaged or incomplete.
std::int64_t load_checkpoint(const std::filesystem::path& path, const launcher::TrainConfig& config,
                             const TrainingState& state, const Communicators& ranks);

/// The checkpoints of a job in their folder, which no other job may use while rank 0 has this object. Every call is a
/// meeting of all ranks.
class CheckpointFolder {
 public:
  /// The configuration has a folder for checkpoints. Makes it and removes what a killed job left half-written; throws
  /// InputError when it cannot be written to, or another job has it.
  CheckpointFolder(const launcher::TrainConfig& config, const TrainingState& state, const Communicators& ranks);

  /// Continues from the newest complete checkpoint, if there is one. Returns the number of steps done.
  std::int64_t resume();
  /// After each step: saves if a checkpoint is due or the step is the last one, and then deletes old ones.
  void after_step(std::int64_t steps_done, bool last);
  /// The newest complete one that this run has read or written, in words for an error's message.
  [[nodiscard]] std::string newest_text() const;

 private:
  void delete_old() const;

  const launcher::TrainConfig* config_;
  TrainingState state_;
  const Communicators* ranks_;
  std::filesystem::path folder_;
  std::optional<FolderLock> lock_;     ///< rank 0's
  std::optional<std::int64_t> saved_;  ///< steps of the newest one
};

/// The member of a file's metadata that lists its pieces.
inline constexpr std::string_view kPiecesKey = "lowgear.pieces";

/// The name of a parameter in a checkpoint. The copy of a tied embedding, which is saved too as rounding may have made
/// it another, has that of the output matrix.
[[nodiscard]] std::string saved_name(const Parameter& parameter);
/// The tensor of a piece: `mean.model.norm.weight`.
[[nodiscard]] std::string tensor_name(std::string_view moment, std::string_view parameter);

/// The tensors of a checkpoint, put together from the pieces in its files.
class CheckpointReader {
 public:
  /// Throws InputError naming the file that is damaged.
  CheckpointReader(std::filesystem::path path, const launcher::CheckpointManifest& manifest);

  /// Elements `begin` to `end` of this rank's part of the parameter, flattened, fp32. `moment` is `master`, `mean` or
  /// `variance`. Throws InputError when the checkpoint lacks some of them or has another shape.
  [[nodiscard]] at::Tensor read(const Parameter& parameter, std::string_view moment, std::int64_t begin,
                                std::int64_t end) const;

 private:
  struct Source {
    launcher::CheckpointPiece piece;
    const tensorfile::SafetensorsFile* file = nullptr;
  };
  using Sources = std::vector<Source>;  ///< by part, and then by place in it

  [[nodiscard]] const Sources& sources_of(const Parameter& parameter) const;
  [[nodiscard]] at::Tensor read_part(const Sources& sources, int part, std::string_view moment, std::int64_t begin,
                                     std::int64_t end) const;
  [[noreturn]] void fail(const std::string& file, std::string_view what) const;

  std::filesystem::path path_;
  std::vector<tensorfile::SafetensorsFile> files_;
  std::map<std::string, Sources, std::less<>> sources_;
};

}  // namespace lowgear::trainer

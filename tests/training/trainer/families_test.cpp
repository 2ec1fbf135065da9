#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <filesystem>
#include <set>
#include <string>

#include "base/core/files/file.h"
#include "estimating/model/config_json.h"
#include "estimating/model/parameters.h"
#include "training/tensorfile/safetensors.h"
#include "training/trainer/checkpoint/weights.h"
#include "training/trainer/engine/optimizer.h"
#include "training/trainer/family_models.h"
#include "training/trainer/model/stage.h"
#include "training/trainer/thread_job.h"
#include "training/trainer/transport/in_process_transport.h"

namespace lowgear::trainer {
namespace {

namespace fs = std::filesystem;

class Family : public testing::TestWithParam<FamilyModel> {};

ThreadJob job_of(const model::ModelConfig& config, const std::string& schedule, int pp, int chunks = 1) {
  return {.config = config, .schedule = schedule, .pp = pp, .chunks = chunks, .microbatches = 4};
}

TEST_P(Family, GivesTheSameBitsInAPipelineAsInOneProcess) {
  const model::ModelConfig config = GetParam().read();
  const ThreadJobResult expected = run_iteration(job_of(config, "gpipe", 1));
  for (const launcher::Recompute recompute : kRecomputes) {
    for (const auto& [schedule, pp, chunks] : std::vector<std::tuple<std::string, int, int>>{
             {"gpipe", 2, 1}, {"1f1b", 4, 1}, {"envpipe", 3, 1}, {"interleaved", 2, 2}, {"zb-h1", 2, 1}}) {
      SCOPED_TRACE(schedule + ", recompute " + std::string(name(recompute)));
      ThreadJob job = job_of(config, schedule, pp, chunks);
      job.recompute = recompute;
      expect_equal(run_iteration(job), expected);
    }
  }
}

TEST_P(Family, GivesTheSameBitsInAPipelineWithAFrozenPrefix) {
  ThreadJob single = job_of(GetParam().read(), "gpipe", 1);
  single.frozen_blocks = 2;
  const ThreadJobResult expected = run_iteration(single);
  for (const int pp : {2, 4}) {
    for (const launcher::Recompute recompute : kRecomputes) {
      ThreadJob job = job_of(single.config, "1f1b", pp);
      job.frozen_blocks = 2;
      job.recompute = recompute;
      expect_equal(run_iteration(job), expected);
    }
  }
}

TEST_P(Family, HasTheGradientsOfAFrozenPrefixThatItHasWithout) {
  ThreadJob job = job_of(GetParam().read(), "gpipe", 1);
  const ThreadJobResult whole = run_iteration(job);
  job.frozen_blocks = 2;
  const ThreadJobResult frozen = run_iteration(job);
  EXPECT_EQ(frozen.loss, whole.loss);
  EXPECT_LT(frozen.gradients.size(), whole.gradients.size());
  for (const auto& [name, gradient] : frozen.gradients) {
    EXPECT_TRUE(at::equal(gradient, whole.gradients.at(name))) << name;
  }
}

TEST_P(Family, ComputesTheSameOnRanksThatShareLayers) {
  const model::ModelConfig config = GetParam().read();
  const ThreadJobResult expected = run_iteration(job_of(config, "gpipe", 1));
  ThreadJob job = job_of(config, "1f1b", 2);
  job.tp = 2;
  const ThreadJobResult result = run_iteration(job);
  EXPECT_NEAR(result.loss, expected.loss, 1e-5 * expected.loss);
  ASSERT_EQ(result.gradients.size(), expected.gradients.size());
  for (const auto& [name, gradient] : expected.gradients) {
    const at::Tensor difference = (result.gradients.at(name) - gradient).abs().max();
    EXPECT_LE(difference.item<double>(), 1e-5 * gradient.abs().max().item<double>() + 1e-9) << name;
  }
  job.recompute = launcher::Recompute::attention;
  expect_equal(run_iteration(job), result);
}

TEST_P(Family, DropsWhatItsConfigurationSays) {
  model::ModelConfig config = GetParam().read();
  const ThreadJobResult with = run_iteration(job_of(config, "gpipe", 1));
  config.embedding_dropout = config.attention_dropout = config.residual_dropout = 0;
  const auto [name, gradient] = *run_iteration(job_of(config, "gpipe", 1)).gradients.begin();
  EXPECT_FALSE(at::equal(gradient, with.gradients.at(name)));
}

TEST_P(Family, HasTheParametersOfItsDescription) {
  const model::ModelConfig config = GetParam().read();
  const ThreadJobResult result = run_iteration(job_of(config, "gpipe", 1));
  std::set<std::string> names;
  for (const model::ParameterSpec& spec : parameters(config)) {
    names.insert(spec.name);
    ASSERT_TRUE(result.weights.contains(spec.name)) << spec.name;
    EXPECT_EQ(result.weights.at(spec.name).numel(), model::element_count(spec.shape)) << spec.name;
  }
  EXPECT_EQ(result.weights.size(), names.size());
}

INSTANTIATE_TEST_SUITE_P(Models, Family, testing::ValuesIn(family_models()),
                         [](const auto& of) { return of.param.name; });

/// What Hugging Face transformers computes of a small model: see families/make_fixtures.py.
class Fixture {
 public:
  explicit Fixture(const fs::path& folder)
      : folder_(folder),
        expected_(tensorfile::SafetensorsFile::open(folder / "expected.safetensors")),
        gradients_(tensorfile::SafetensorsFile::open(folder / "gradients.safetensors")) {}

  [[nodiscard]] model::ModelConfig config() const {
    return model::parse_trainable_config(read_file(folder_ / "config.json"), (folder_ / "config.json").string());
  }
  [[nodiscard]] const fs::path& folder() const { return folder_; }
  [[nodiscard]] at::Tensor expected(const std::string& name) const { return tensor(expected_, name); }
  [[nodiscard]] at::Tensor ids(const std::string& name, std::int64_t step) const {
    return expected(name)[step].to(at::kLong).contiguous();
  }
  [[nodiscard]] Microbatch microbatch(std::int64_t step) const {
    Microbatch microbatch{ids("inputs", step), ids("targets", step)};
    if (has_encoder_and_decoder(config())) microbatch.encoder_ids = ids("encoder_inputs", step);
    return microbatch;
  }
  [[nodiscard]] at::Tensor gradient(const std::string& name) const { return tensor(gradients_, name); }

 private:
  static at::Tensor tensor(const tensorfile::SafetensorsFile& file, const std::string& name) {
    const tensorfile::TensorView* const view = file.find(name);
    if (view == nullptr) throw Error(file.path().string() + ": no tensor " + name);
    const at::Tensor values = at::empty(view->shape, view->type == tensorfile::TensorType::i32 ? at::kInt : at::kFloat);
    std::memcpy(values.data_ptr(), view->data.data(), view->data.size());
    return values;
  }

  fs::path folder_;
  tensorfile::SafetensorsFile expected_;
  tensorfile::SafetensorsFile gradients_;
};

Communicators lone_rank(InProcessHub& hub) {
  Communicators ranks;
  ranks.pipeline = hub.pipeline("pp", 0);
  ranks.data = hub.group("dp", 0, 1);
  ranks.tensor = hub.group("tp", 0, 1);
  ranks.world = hub.group("world", 0, 1);
  return ranks;
}

void expect_close(const at::Tensor& values, const at::Tensor& expected, const std::string& what) {
  ASSERT_EQ(values.sizes(), expected.sizes()) << what;
  constexpr double kRounding = 1e-7;  // of gradients that are zero: those of the biases of keys
  const double difference = (values - expected).abs().max().item<double>();
  EXPECT_LE(difference, 1e-4 * expected.abs().max().item<double>() + kRounding) << what;
}

class OfTransformers : public testing::TestWithParam<std::string> {
 protected:
  [[nodiscard]] static fs::path folder() {
    return fs::path(LOWGEAR_SOURCE_DIR) / "tests/training/families" / GetParam();
  }
};

TEST_P(OfTransformers, HasLogitsLossGradientsAndThirtySteps) {
  const Fixture fixture(folder());
  const model::ModelConfig config = fixture.config();
  InProcessHub hub;
  Communicators ranks = lone_rank(hub);
  const std::vector<model::LayerRange> whole = {{0, config.layers}};
  ModelPart part(config, whole, {0}, {}, ranks);
  load_weights(fixture.folder(), config, part.store());
  AdamW optimizer(part.store(), {.beta2 = 0.95, .weight_decay = 0.1, .clip_norm = 0}, ranks);
  Stage& stage = *part.stages().at(0);
  expect_close(stage.logits(fixture.microbatch(0)), fixture.expected("logits"), "logits");
  const at::Tensor losses = fixture.expected("step_losses");
  for (std::int64_t step = 0; step < losses.size(0); ++step) {
    const Microbatch microbatch = fixture.microbatch(step);
    const at::Tensor loss = stage.forward(0, microbatch).front();
    // The mean over the targets that count, as TrainingData::loss_weight makes it.
    const double weight =
        static_cast<double>(microbatch.targets.numel()) / microbatch.targets.ge(0).sum().item<double>();
    EXPECT_NEAR(loss.item<double>() * weight, losses[step].item<double>(), 1e-4) << step;
    (void)stage.backward(0, {at::full_like(loss, weight)}, WeightGradients::now);
    part.reduce_tied_gradients();
    for (const Parameter& parameter : part.store().parameters()) {
      if (step > 0 || parameter.tied_copy) continue;
      const at::Tensor gradient = parameter.transposed ? parameter.gradient.t() : parameter.gradient;
      expect_close(gradient, fixture.gradient(parameter.name), parameter.name);
    }
    (void)optimizer.step(1e-3);
    stage.clear();
  }
}

/// Largest errors of some 1500 logits, which differ by a factor between one order of operations and another.
TEST_P(OfTransformers, IsInBf16AboutAsFarFromFp32) {
  const Fixture fixture(folder());
  const model::ModelConfig config = fixture.config();
  InProcessHub hub;
  const Communicators ranks = lone_rank(hub);
  const std::vector<model::LayerRange> whole = {{0, config.layers}};
  ModelPart part(config, whole, {0}, {.type = at::kBFloat16}, ranks);
  load_weights(fixture.folder(), config, part.store());
  const at::Tensor logits = part.stages().at(0)->logits(fixture.microbatch(0)).to(at::kFloat);
  const double error = (logits - fixture.expected("logits")).abs().max().item<double>();
  EXPECT_LE(error, 2.5 * fixture.expected("bf16_logits_error").item<double>());
}

std::vector<std::string> fixture_names() {
  std::vector<std::string> names;
  for (const auto& entry : fs::directory_iterator(fs::path(LOWGEAR_SOURCE_DIR) / "tests/training/families")) {
    if (entry.is_directory()) names.push_back(entry.path().filename().string());
  }
  std::ranges::sort(names);
  return names;
}

INSTANTIATE_TEST_SUITE_P(Fixtures, OfTransformers, testing::ValuesIn(fixture_names()),
                         [](const auto& of) { return of.param; });

}  // namespace
}  // namespace lowgear::trainer

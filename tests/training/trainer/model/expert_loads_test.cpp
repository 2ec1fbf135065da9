#include "training/trainer/model/expert_loads.h"

#include <ATen/CPUGeneratorImpl.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <set>
#include <tuple>

#include "base/core/files/file.h"
#include "base/core/temporary_folder.h"
#include "client/steps/step_rows.h"
#include "training/trainer/checkpoint/weights.h"
#include "training/trainer/family_models.h"
#include "training/trainer/measuring/expert_load_rows.h"
#include "training/trainer/model/stage.h"
#include "training/trainer/transport/in_process_transport.h"

namespace lowgear::trainer {
namespace {

TEST(ExpertLoads, AreThoseOfEachForwardOfARecordedStep) {
  model::ModelConfig config = std::ranges::find(family_models(), "mixtral", &FamilyModel::name)->read();
  for (const launcher::Recompute recompute :
       {launcher::Recompute::none, launcher::Recompute::attention, launcher::Recompute::full}) {
    InProcessHub hub;
    Communicators ranks;
    ranks.tensor = hub.group("tp", 0, 1);
    const std::vector<model::LayerRange> whole = {{0, config.layers}};
    ModelPart part(config, whole, {0}, {.recompute = recompute}, ranks);
    initialize(part.store(), config.layers, 1);
    auto generator = at::detail::createCPUGenerator(3);
    const at::Tensor ids = at::randint(0, config.vocabulary, {2, 5}, generator, at::kLong);
    const Microbatch microbatch{.ids = ids, .targets = ids};
    Stage& stage = *part.stages().at(0);
    const auto run = [&] {
      for (const int index : {3, 7}) {
        (void)stage.forward(index, microbatch);
        (void)stage.evaluate(microbatch);
        (void)stage.backward(index, {at::ones({})}, WeightGradients::now);
      }
    };
    part.expert_loads().begin_step(false);
    run();
    EXPECT_TRUE(part.expert_loads().passes().empty());
    part.expert_loads().begin_step(true);
    run();
    std::set<std::tuple<int, std::int64_t>> met;
    for (const ExpertLoads::Pass& pass : part.expert_loads().passes()) {
      EXPECT_TRUE(met.emplace(pass.microbatch, pass.layer).second);
      EXPECT_EQ(static_cast<std::int64_t>(pass.tokens.size()), config.experts->experts);
      EXPECT_EQ(std::accumulate(pass.tokens.begin(), pass.tokens.end(), std::int64_t{0}),
                ids.numel() * config.experts->experts_per_token);
    }
    EXPECT_EQ(met.size(), 2U * static_cast<std::size_t>(config.layers));
    EXPECT_TRUE(met.contains({7, config.layers - 1}));
  }
}

TEST(StepRows, KeepRowsOfStepsBefore) {
  const TemporaryFolder folder;
  const std::vector<ExpertLoads::Pass> passes{{.microbatch = 1, .layer = 2, .tokens = {3, 4}}};
  const std::vector<model::LayerRange> partition{{0, 2}, {2, 3}};
  for (const int first : {0, 1}) {
    client::StepRows rows(folder / "e.csv", kExpertLoadsHeader, first);
    for (int step = first; step < 2; ++step) rows.add(expert_load_rows(step, 5, partition, passes));
    rows.add(expert_load_rows(first, 5, partition, {}));
  }
  EXPECT_EQ(read_file(folder / "e.csv"),
            "step,replica,microbatch,layer,stage,expert_tokens\n0,5,1,2,1,3 4\n1,5,1,2,1,3 4\n");
}

TEST(StepRows, OfAllRanksAreCutWhereAJobContinues) {
  const TemporaryFolder folder;
  const std::string header = std::string(kExpertLoadsHeader) + '\n';
  write_file_atomically(folder / "expert_loads-00000.csv", header + "0,0,0,0,0,3 4\n1,0,0,0,0,3 4\n");
  write_file_atomically(folder / "expert_loads-00001.csv", header + "0,1,0,0,0,3 4\n1,1,0,0,0,3 4\n2,1,0,0,0,3 4\n");
  write_file_atomically(folder / "lengths.csv", "step\n2\n");
  cut_expert_loads(folder.path(), 1);
  EXPECT_EQ(read_file(folder / "expert_loads-00000.csv"), header + "0,0,0,0,0,3 4\n");
  EXPECT_EQ(read_file(folder / "expert_loads-00001.csv"), header + "0,1,0,0,0,3 4\n");
  EXPECT_EQ(read_file(folder / "lengths.csv"), "step\n2\n");
}

}  // namespace
}  // namespace lowgear::trainer

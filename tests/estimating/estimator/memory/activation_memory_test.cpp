#include "estimating/estimator/memory/activation_memory.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "base/core/error.h"
#include "estimating/estimator/job/job_file.h"

namespace lowgear::estimator {
namespace {

TrainingJob job_of(const std::string& more) {
  return parse_training_job(
      "model: {model_type: gpt2, vocab_size: 50257, n_embd: 1536, n_layer: 24, n_head: 24, n_positions: 2048}\n"
      "parallel: {pp: 4}\nbatch: {global: 256, micro: 4, sequence: 2048}\n" +
          more,
      "job.yaml", {}, {});
}

/// In GPipe's order every rank holds the activations of all microbatches: what fits is found by trying.
bool holds(TrainingJob job, std::size_t rank, int activations) {
  job.schedule = "gpipe";
  job.batch.global = job.batch.micro * activations;
  const MemoryEstimate memory = estimate_memory(job);
  return memory.ranks[rank].total() <= memory.capacity;
}

TEST(ActivationsThatFit, AreThoseThatGPipeCouldHold) {
  const TrainingJob job = job_of("gpu: rtx-3090\n");
  const std::vector<int> fit = activations_that_fit(job, estimate_memory(job));
  ASSERT_EQ(fit.size(), 4U);
  for (std::size_t rank = 0; rank < fit.size(); ++rank) {
    EXPECT_LT(fit[rank], 64);
    EXPECT_TRUE(holds(job, rank, fit[rank])) << rank;
    EXPECT_FALSE(holds(job, rank, fit[rank] + 1)) << rank;
  }
}

TEST(ActivationsThatFit, AreNoMoreThanThereAreMicrobatches) {
  const TrainingJob job = job_of("gpu: b200\nrecompute: full\n");
  EXPECT_EQ(activations_that_fit(job, estimate_memory(job)), (std::vector<int>{64, 64, 64, 64}));
}

TEST(ActivationsThatFit, AreNotCountedWhereNothingFitsOrOrdersDiffer) {
  const TrainingJob large = job_of("gpu: v100-16gb-sxm\nrecompute: none\nattention: unfused\n");
  EXPECT_THROW((void)activations_that_fit(large, estimate_memory(large)), InputError);
  const TrainingJob other = job_of("gpu: b200\nschedule: gpipe\n");
  EXPECT_THROW((void)activations_that_fit(other, estimate_memory(other)), InputError);
}

}  // namespace
}  // namespace lowgear::estimator

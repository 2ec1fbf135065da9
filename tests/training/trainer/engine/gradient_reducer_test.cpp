#include "training/trainer/engine/gradient_reducer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "training/trainer/test_models.h"
#include "training/trainer/thread_job.h"

namespace lowgear::trainer {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

/// A sum that was started: of which stretch, and for whom.
struct Started {
  std::int64_t begin = 0;
  std::int64_t count = 0;
  int root = -1;  ///< -1: for all

  bool operator==(const Started&) const = default;
  friend void PrintTo(const Started& started, std::ostream* out) {
    *out << started.begin << "+" << started.count << " to " << started.root;
  }
};

/// Two replicas, of which the other never answers.
class RecordingGroup final : public Collective {
 public:
  [[nodiscard]] int rank() const override { return 0; }
  [[nodiscard]] int size() const override { return 2; }
  std::unique_ptr<PendingTransfer> start_all_reduce(const at::Tensor& tensor, Reduction /*reduction*/) override {
    return start(tensor, -1);
  }
  std::unique_ptr<PendingTransfer> start_reduce(const at::Tensor& tensor, int root) override {
    return start(tensor, root);
  }
  void all_gather(const at::Tensor& /*all*/, const at::Tensor& /*part*/) override {}
  void reduce_scatter(const at::Tensor& /*part*/, const at::Tensor& /*all*/) override {}
  void broadcast(const at::Tensor& /*tensor*/, int /*root*/) override {}

  std::vector<Started> started;
  int waited = 0;
  bool lost_at_start = false;
  bool lost_at_wait = false;

 private:
  class Waiting final : public PendingTransfer {
   public:
    explicit Waiting(RecordingGroup& group) : group_(&group) {}
    void wait() override {
      if (group_->lost_at_wait) throw PeerLost("lost the connection to the other replica");
      ++group_->waited;
    }

   private:
    RecordingGroup* group_;
  };

  std::unique_ptr<PendingTransfer> start(const at::Tensor& tensor, int root) {
    if (lost_at_start) throw PeerLost("lost the connection to the other replica");
    started.push_back({tensor.storage_offset(), tensor.numel(), root});
    return std::make_unique<Waiting>(*this);
  }
};

/// Four matrices of 10 elements, which decay, the first one tied; two norms of 3. In the buffer the matrices come
/// first: a 0, b 10, c 20, d 30, then the norms 40, 43.
class Reducer : public testing::Test {
 protected:
  void make(const GradientReducerOptions& options, bool tied = false) {
    for (const char* name : {"a", "norm a", "b", "c", "norm c", "d"}) {
      Parameter parameter;
      parameter.name = name;
      parameter.decays = parameter.name.size() == 1;
      parameter.shape = {parameter.decays ? 10 : 3};
      parameter.tied = tied && parameter.name == "a";
      store_.declare(parameter);
    }
    store_.allocate(at::kFloat, at::kCPU, 2);
    reducer_ = std::make_unique<GradientReducer>(store_, replicas_, options);
    reducer_->begin();
  }
  void add(const std::string& name) {
    const auto found = std::ranges::find(store_.parameters(), name, &Parameter::name);
    found->accumulate(at::ones(found->shape));
  }
  void add(std::initializer_list<const char*> names) {
    for (const char* name : names) add(name);
  }

  ParameterStore store_;
  RecordingGroup replicas_;
  std::unique_ptr<GradientReducer> reducer_;
};

TEST_F(Reducer, StartsABucketWithItsLastAddition) {
  make({.bucket_elements = 10, .additions = 2});
  add({"a", "norm a", "b", "c", "norm c", "d", "d"});
  EXPECT_THAT(replicas_.started, ElementsAre(Started{30, 10}));
  add("norm c");
  add("c");
  EXPECT_THAT(replicas_.started, ElementsAre(Started{30, 10}, Started{20, 10}));
  add({"b", "norm a", "a"});
  EXPECT_THAT(replicas_.started,
              ElementsAre(Started{30, 10}, Started{20, 10}, Started{10, 10}, Started{0, 10}, Started{40, 6}));
  EXPECT_EQ(replicas_.waited, 0);
  reducer_->finish();
  EXPECT_EQ(replicas_.waited, 5);
}

TEST_F(Reducer, PutsParametersTogetherUntilABucketIsFull) {
  make({.bucket_elements = 11});
  add({"d", "c", "norm c"});
  EXPECT_THAT(replicas_.started, ElementsAre(Started{20, 20}));
  add({"b", "a", "norm a"});
  EXPECT_THAT(replicas_.started, ElementsAre(Started{20, 20}, Started{0, 20}, Started{40, 6}));
}

TEST_F(Reducer, LetsABucketThatIsCompleteEarlyWaitForThoseBeforeIt) {
  make({.bucket_elements = 10});
  add({"a", "b", "c", "norm a", "norm c"});
  EXPECT_THAT(replicas_.started, IsEmpty());
  add("d");
  EXPECT_EQ(replicas_.started.size(), 5U);
}

TEST_F(Reducer, KeepsTiedParametersUntilTheirStagesHaveAddedThemUp) {
  make({.bucket_elements = 10}, /*tied=*/true);
  add({"d", "c", "b", "a", "norm a", "norm c"});
  EXPECT_THAT(replicas_.started, ElementsAre(Started{30, 10}, Started{20, 10}, Started{10, 10}, Started{40, 6}));
  reducer_->finish();
  EXPECT_EQ(replicas_.started.back(), (Started{0, 10}));
  EXPECT_EQ(replicas_.waited, 5);
}

TEST_F(Reducer, StartsInTheSameOrderWhateverOrderGradientsComeIn) {
  make({.bucket_elements = 10, .additions = 3}, /*tied=*/true);
  std::vector<std::string> additions;
  for (const Parameter& parameter : store_.parameters()) additions.insert(additions.end(), 3, parameter.name);
  std::mt19937 generator(5);
  std::vector<Started> expected;
  for (int round = 0; round < 50; ++round) {
    reducer_->begin();
    replicas_.started.clear();
    std::ranges::shuffle(additions, generator);
    for (const std::string& name : additions) add(name);
    reducer_->finish();
    if (round == 0) expected = replicas_.started;
    EXPECT_EQ(replicas_.started, expected);
  }
}

TEST_F(Reducer, GivesEachOwnerItsPart) {
  make({.bucket_elements = 11, .to_owners = true});
  add({"d", "c", "b", "a", "norm a", "norm c"});
  // 46 elements: 23 of each.
  EXPECT_THAT(replicas_.started,
              ElementsAre(Started{23, 17, 1}, Started{20, 3, 0}, Started{0, 20, 0}, Started{40, 6, 1}));
}

TEST_F(Reducer, StartsWhatIsMissingInTheEnd) {
  make({.bucket_elements = 10, .additions = 2});
  add("d");
  EXPECT_THAT(replicas_.started, IsEmpty());
  reducer_->finish();
  EXPECT_EQ(replicas_.started.size(), 5U);
  EXPECT_EQ(replicas_.waited, 5);
}

TEST_F(Reducer, SaysWhenAReplicaIsLost) {
  make({.bucket_elements = 10});
  add("d");
  replicas_.lost_at_wait = true;
  EXPECT_THROW(reducer_->finish(), PeerLost);
}

/// Buckets start inside of autograd, which must hand on what kind of error it was.
TEST_F(Reducer, LosesAReplicaInTheMiddleOfABackwardPass) {
  make({.bucket_elements = 10});
  replicas_.lost_at_start = true;
  const auto weight = c10::make_intrusive<LinearWeight>();
  const Parameter& matrix = store_.parameters().back();
  weight->weight = matrix.value.view({5, 2});
  weight->weight_gradient = matrix.gradient.view({5, 2});
  weight->store = &store_;
  const at::Tensor input = at::ones({3, 2}).requires_grad_(true);
  const at::Tensor output = linear(input, weight).sum();
  EXPECT_THROW(torch::autograd::backward({output}, {}), PeerLost);
}

/// Whole iterations on threads. With two replicas a sum has one order, so that nothing may change a bit.
class ReducedIteration : public testing::TestWithParam<std::string> {};

TEST_P(ReducedIteration, HasTheSameBitsForBucketsOfAnySize) {
  const bool interleaved = GetParam() == "interleaved";
  for (const model::ModelConfig& config : {tiny_llama(), tiny_llama(true), tiny_gpt2()}) {
    ThreadJob job{.config = config, .schedule = GetParam(), .pp = 2, .dp = 2, .chunks = interleaved ? 2 : 1};
    job.bucket_elements = INT64_MAX;
    const ThreadJobResult expected = run_iteration(job);
    for (const std::int64_t elements : {std::int64_t{1}, std::int64_t{3000}}) {
      for (const bool zero1 : {false, true}) {
        job.bucket_elements = elements;
        job.zero1 = zero1;
        SCOPED_TRACE(std::to_string(elements) + " elements" + (zero1 ? ", ZeRO-1" : ""));
        expect_equal(run_iteration(job), expected);
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Schedules, ReducedIteration,
                         testing::Values("gpipe", "1f1b", "envpipe", "interleaved", "zb-h1"));

}  // namespace
}  // namespace lowgear::trainer

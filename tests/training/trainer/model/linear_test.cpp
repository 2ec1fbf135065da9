#include "training/trainer/model/linear.h"

#include <ATen/CPUGeneratorImpl.h>
#include <gtest/gtest.h>

#include "training/trainer/checkpoint/weights.h"
#include "training/trainer/model/stage.h"
#include "training/trainer/test_models.h"
#include "training/trainer/transport/in_process_transport.h"

namespace lowgear::trainer {
namespace {

at::Tensor random_tensor(at::IntArrayRef shape, std::uint64_t seed, double size = 1) {
  return at::empty(shape).normal_(0, size, at::detail::createCPUGenerator(seed));
}

/// As fp8 has it: the rounding is tested with casts.
at::Tensor rounded(const at::Tensor& tensor, fp8::Format format) {
  const fp8::Matrix matrix = fp8::cast(tensor.reshape({-1, tensor.size(-1)}), format, fp8::Orientations::as_is).as_is;
  at::Tensor values = at::empty(matrix.bits.sizes());
  for (std::int64_t i = 0; i < values.numel(); ++i) {
    values.data_ptr<float>()[i] = decode(matrix.bits.data_ptr<std::uint8_t>()[i], format);
  }
  return values.mul_(matrix.factor).view(tensor.sizes());
}

bool near(const at::Tensor& a, const at::Tensor& b, double tolerance) {
  return ((a - b).norm() / b.norm()).item<double>() <= tolerance;
}

/// A layer of 32 inputs and 48 outputs by itself, and a batch of two sequences of eight.
class Fp8Linear : public testing::Test {
 protected:
  Fp8Linear() {
    weight_->weight = random_tensor({48, 32}, 1, 0.1);
    weight_->weight_gradient = at::zeros({48, 32});
    weight_->queue = &queue_;
    weight_->store = &store_;
    weight_->fp8_blocks = &blocks_;
  }

  /// From zero: nothing is added to it before its queued computation runs.
  void compute_the_weight_gradient_later() {
    weight_->weight_gradient.zero_();
    WeightGradientQueue::Deferred deferred;
    {
      const WeightGradientQueue::Guard guard(queue_, &deferred);
      backward(linear(input_, weight_));
    }
    EXPECT_EQ(weight_->weight_gradient.abs().max().item<float>(), 0);
    for (const auto& compute : deferred) compute();
  }
  at::Tensor backward(const at::Tensor& output) {
    torch::autograd::backward({output}, {output_gradient_});
    return input_.grad();
  }

  ParameterStore store_;
  WeightGradientQueue queue_;
  Fp8Blocks blocks_{.begin = 0, .end = 1, .on = true};
  c10::intrusive_ptr<LinearWeight> weight_ = c10::make_intrusive<LinearWeight>();
  at::Tensor input_ = random_tensor({2, 8, 32}, 2).requires_grad_(true);
  at::Tensor output_gradient_ = random_tensor({2, 8, 48}, 3, 1e-4);
};

TEST_F(Fp8Linear, MultipliesRoundedMatrices) {
  const at::Tensor output = linear(input_, weight_);
  const at::Tensor x = rounded(input_.detach(), fp8::Format::e4m3);
  const at::Tensor w = rounded(weight_->weight, fp8::Format::e4m3);
  const at::Tensor g = rounded(output_gradient_, fp8::Format::e5m2);
  EXPECT_TRUE(near(output.detach(), at::matmul(x, w.t()), 1e-6));
  EXPECT_TRUE(near(backward(output), at::matmul(g, w), 1e-6));
  EXPECT_TRUE(near(weight_->weight_gradient, at::matmul(g.view({16, 48}).t(), x.view({16, 32})), 1e-6));
}

TEST_F(Fp8Linear, IsCloseToTheSameInFp32) {
  const at::Tensor output = linear(input_, weight_);
  EXPECT_TRUE(near(output.detach(), at::matmul(input_.detach(), weight_->weight.t()), 0.06));
  EXPECT_FALSE(near(output.detach(), at::matmul(input_.detach(), weight_->weight.t()), 0.005)) << "it is not in fp8";
  EXPECT_TRUE(near(backward(output), at::matmul(output_gradient_, weight_->weight), 0.1));
  const at::Tensor expected = at::matmul(output_gradient_.view({16, 48}).t(), input_.detach().view({16, 32}));
  EXPECT_TRUE(near(weight_->weight_gradient, expected, 0.1));
}

TEST_F(Fp8Linear, KeepsTheWeightsGradientUnroundedIfAsked) {
  blocks_.weight_gradients = WeightGradientType::bf16;
  weight_->bias = random_tensor({48}, 4);
  weight_->bias_gradient = at::zeros({48});
  const at::Tensor expected = at::matmul(output_gradient_.view({16, 48}).t(), input_.detach().view({16, 32}));
  const at::Tensor g = rounded(output_gradient_, fp8::Format::e5m2);
  const at::Tensor w = rounded(weight_->weight, fp8::Format::e4m3);
  EXPECT_TRUE(near(backward(linear(input_, weight_)), at::matmul(g, w), 1e-6)) << "the other products are in fp8";
  EXPECT_TRUE(near(weight_->weight_gradient, expected, 1e-6));
  EXPECT_TRUE(near(weight_->bias_gradient, output_gradient_.view({16, 48}).sum(0), 1e-6));

  compute_the_weight_gradient_later();
  EXPECT_TRUE(near(weight_->weight_gradient, expected, 1e-6));
}

TEST_F(Fp8Linear, IsThePlainOneWhereItIsOff) {
  blocks_.on = false;
  EXPECT_TRUE(at::equal(linear(input_, weight_).detach(), at::linear(input_.detach(), weight_->weight)));
}

TEST_F(Fp8Linear, AddsTheBiasAndItsGradientUnrounded) {
  weight_->bias = random_tensor({48}, 4);
  weight_->bias_gradient = at::zeros({48});
  const at::Tensor without =
      at::matmul(rounded(input_.detach(), fp8::Format::e4m3), rounded(weight_->weight, fp8::Format::e4m3).t());
  const at::Tensor output = linear(input_, weight_);
  EXPECT_TRUE(near(output.detach(), without + weight_->bias, 1e-6));
  backward(output);
  EXPECT_TRUE(near(weight_->bias_gradient, output_gradient_.view({16, 48}).sum(0), 1e-6));
}

TEST_F(Fp8Linear, GivesTheSameGradientLater) {
  backward(linear(input_, weight_));
  const at::Tensor now = weight_->weight_gradient.clone();
  compute_the_weight_gradient_later();
  EXPECT_TRUE(at::equal(weight_->weight_gradient, now));
}

TEST_F(Fp8Linear, PassesGradientsThroughAFrozenWeight) {
  weight_->weight_gradient = at::Tensor();
  const at::Tensor expected =
      at::matmul(rounded(output_gradient_, fp8::Format::e5m2), rounded(weight_->weight, fp8::Format::e4m3));
  EXPECT_TRUE(near(backward(linear(input_, weight_)), expected, 1e-6));
}

TEST_F(Fp8Linear, CastsWeightsAnewWhenTheyHaveChanged) {
  const at::Tensor before = linear(input_, weight_).detach();
  weight_->weight.mul_(3);
  EXPECT_TRUE(at::equal(linear(input_, weight_).detach(), before)) << "cast again within an iteration";
  ++blocks_.weights_epoch;
  EXPECT_TRUE(near(linear(input_, weight_).detach(), 3 * before, 1e-6));
}

/// The logits of a model of eight blocks, of which those from the third to the sixth do nothing: what they add is zero.
at::Tensor logits(const Fp8Blocks& fp8) {
  InProcessHub hub;
  Communicators ranks;
  ranks.tensor = hub.group("tp", 0, 1);
  const model::ModelConfig config = tiny_llama();
  const std::vector<model::LayerRange> whole = {{0, config.layers}};
  ModelPart part(config, whole, {0}, {.fp8 = fp8}, ranks);
  initialize(part.store(), config.layers, 1);
  for (Parameter& parameter : part.store().parameters()) {
    const bool leaves = parameter.name.ends_with("o_proj.weight") || parameter.name.ends_with("down_proj.weight");
    if (leaves && parameter.block >= 2 && parameter.block < 6) parameter.value.detach().zero_();
  }
  return part.stages().at(0)->logits({at::arange(16).view({1, 16}), {}});
}

TEST(Fp8BlocksOfAModel, LeaveAllElseAsItIs) {
  const at::Tensor plain = logits({.begin = 0, .end = 8, .on = false});
  EXPECT_TRUE(at::equal(logits({.begin = 2, .end = 6, .on = true}), plain));
  EXPECT_FALSE(at::equal(logits({.begin = 1, .end = 6, .on = true}), plain));
  EXPECT_FALSE(at::equal(logits({.begin = 2, .end = 7, .on = true}), plain));
}

}  // namespace
}  // namespace lowgear::trainer

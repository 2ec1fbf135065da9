// kernel_rates: the trainer's CUDA kernels of the memory's speed. Each against fp64 in fp32, bf16 and fp16, at a size
// of whole vectors and an odd one; then its time in bf16 at the sizes of pipeline.yaml against a copy that moves as
// many bytes. Ends with 0 only if all errors are within the limits.

#include <ATen/ATen.h>
#include <ATen/cuda/CUDAEvent.h>
#include <fmt/format.h>
#include <torch/csrc/autograd/autograd.h>

#include <algorithm>
#include <cstdio>
#include <functional>
#include <string>
#include <vector>

#include "training/trainer/model/kernels.h"

namespace {

namespace kernels = lowgear::trainer::kernels;
using Tensors = std::vector<at::Tensor>;

constexpr double kEpsilon = 1e-5;

struct Sizes {
  std::int64_t batch = 4;
  std::int64_t time = 2048;
  std::int64_t hidden = 2048;
  std::int64_t intermediate = 5632;
  std::int64_t vocabulary = 32000;
  kernels::AttentionHeads heads{16, 16, 128};

  [[nodiscard]] std::int64_t rows() const { return batch * time; }
};

/// A kernel with tensors of its own, its result as it is to be, and the bytes that it must move.
struct Case {
  std::string name;
  std::function<Tensors()> run;
  std::function<Tensors()> reference;
  double bytes = 0;
};

at::Tensor wide(const at::Tensor& tensor) { return tensor.to(at::kDouble); }

/// Results of `forward` for variables in fp64, and the variables' gradients.
Tensors differentiated(const Tensors& inputs, const Tensors& gradients,
                       const std::function<Tensors(Tensors)>& forward) {
  Tensors variables;
  for (const at::Tensor& input : inputs) variables.push_back(wide(input).requires_grad_(true));
  Tensors outputs = forward(variables);
  Tensors incoming;
  for (const at::Tensor& gradient : gradients) incoming.push_back(wide(gradient));
  const Tensors back = torch::autograd::grad(outputs, variables, incoming);
  outputs.insert(outputs.end(), back.begin(), back.end());
  return outputs;
}

Tensors part(const Tensors& all, std::size_t begin, std::size_t end) {
  return {all.begin() + static_cast<std::ptrdiff_t>(begin), all.begin() + static_cast<std::ptrdiff_t>(end)};
}

void add_swiglu(std::vector<Case>& cases, const Sizes& n, const at::TensorOptions& options) {
  const at::Tensor input = at::randn({n.rows(), 2 * n.intermediate}, options);
  const at::Tensor gradient = at::randn({n.rows(), n.intermediate}, options);
  const auto all = [=] {
    return differentiated({input}, {gradient}, [](const Tensors& x) -> Tensors {
      const Tensors halves = x[0].chunk(2, -1);
      return {at::silu(halves[0]) * halves[1]};
    });
  };
  const double bytes = static_cast<double>(gradient.nbytes());
  cases.push_back(
      {"SwiGLU", [=] { return Tensors{kernels::swiglu(input)}; }, [=] { return part(all(), 0, 1); }, 3 * bytes});
  cases.push_back({"SwiGLU backward", [=] { return Tensors{kernels::swiglu_backward(input, gradient)}; },
                   [=] { return part(all(), 1, 2); }, 5 * bytes});
}

/// `turned`: dimensions of each head.
void add_rotary(std::vector<Case>& cases, const Sizes& n, const at::TensorOptions& options, const std::string& name,
                const kernels::AttentionHeads& heads, std::int64_t turned) {
  const std::int64_t width = (heads.heads + 2 * heads.kv_heads) * heads.head_dim;
  const at::Tensor input = at::randn({n.batch, n.time, width}, options);
  const at::Tensor angles = at::randn({n.time, turned / 2}, options.dtype(at::kFloat));
  const at::Tensor cosine = angles.cos();
  const at::Tensor sine = angles.sin();
  const auto of = [&](std::int64_t count) { return at::randn({n.batch, n.time, count, heads.head_dim}, options); };
  const Tensors gradients = {of(heads.heads), of(heads.kv_heads), of(heads.kv_heads)};
  const auto all = [=] {
    return differentiated({input}, gradients, [=](const Tensors& x) -> Tensors {
      const at::Tensor joined = x[0].view({x[0].size(0), x[0].size(1), -1, heads.head_dim});
      const Tensors parts = heads.by_head ? joined.unflatten(2, {heads.heads, 3}).unbind(3)
                                          : joined.split_with_sizes({heads.heads, heads.kv_heads, heads.kv_heads}, 2);
      const auto rotated = [&](const at::Tensor& part) {
        const Tensors halves = part.narrow(-1, 0, turned).chunk(2, -1);
        const at::Tensor c = wide(cosine).unsqueeze(1);
        const at::Tensor s = wide(sine).unsqueeze(1);
        return at::cat({halves[0] * c - halves[1] * s, halves[1] * c + halves[0] * s,
                        part.narrow(-1, turned, heads.head_dim - turned)},
                       -1);
      };
      return {rotated(parts[0]), rotated(parts[1]), parts[2] * 1.0};
    });
  };
  const double bytes = 2 * static_cast<double>(input.nbytes());
  cases.push_back({name,
                   [=] {
                     Tensors parts(3);
                     kernels::split_and_rotate(input, cosine, sine, heads, parts[0], parts[1], parts[2]);
                     return parts;
                   },
                   [=] { return part(all(), 0, 3); }, bytes});
  cases.push_back({name + ", backward",
                   [=] {
                     return Tensors{kernels::split_and_rotate_backward(gradients[0], gradients[1], gradients[2], cosine,
                                                                       sine, heads)};
                   },
                   [=] { return part(all(), 3, 4); }, bytes});
}

void add_norm(std::vector<Case>& cases, const Sizes& n, const at::TensorOptions& options, bool centred) {
  const auto rows = [&] { return at::randn({n.rows(), n.hidden}, options); };
  const at::Tensor residual = rows();
  const at::Tensor branch = rows();
  const at::Tensor gradient = rows();
  const at::Tensor passed = rows();
  const auto weight = [&] { return at::randn({n.hidden}, options); };
  const kernels::NormWeights weights{weight(), centred ? weight() : at::Tensor()};
  const kernels::NormalisedRows forward = kernels::add_and_normalise(residual, branch, weights, kEpsilon);
  // Of the sum as it was rounded: rounding it is part of what is asked for.
  const auto all = [=] {
    Tensors inputs = {forward.sum, weights.weight};
    if (centred) inputs.push_back(weights.bias);
    return differentiated(inputs, {passed, gradient}, [=](const Tensors& x) -> Tensors {
      const at::Tensor mean = centred ? x[0].mean(-1, true) : at::zeros({}, x[0].options());
      const at::Tensor scaled = (x[0] - mean) * ((x[0] - mean).square().mean(-1, true) + kEpsilon).rsqrt();
      return {x[0] * 1.0, centred ? scaled * x[1] + x[2] : scaled * x[1]};
    });
  };
  const double bytes = 4 * static_cast<double>(residual.nbytes());
  const std::string name = centred ? "addition and layer norm" : "addition and RMS norm";
  cases.push_back({name,
                   [=] {
                     const kernels::NormalisedRows made =
                         kernels::add_and_normalise(residual, branch, weights, kEpsilon);
                     return Tensors{made.sum, made.normalised};
                   },
                   [=] {
                     return Tensors{wide(residual) + wide(branch), all()[1]};
                   },
                   bytes});
  const auto backward = [=](const at::Tensor& sums) {
    const auto sum = [&](std::int64_t i) { return sums.select(0, i); };
    const kernels::NormWeights to{sum(0), centred ? sum(1) : at::Tensor()};
    return kernels::add_and_normalise_backward(forward, weights, gradient, passed, to);
  };
  const at::Tensor kept = at::zeros({2, n.hidden}, options.dtype(at::kFloat));
  cases.push_back({name + ", backward",
                   [=] {
                     return Tensors{backward(kept), kept.select(0, 0), kept.select(0, 1)};
                   },
                   [=] { return part(all(), 2, centred ? 5 : 4); }, bytes});
}

/// Over a vocabulary in two parts, as two ranks have it.
void add_cross_entropy(std::vector<Case>& cases, const Sizes& n, const at::TensorOptions& options) {
  const at::Tensor logits = at::randn({n.rows(), n.vocabulary}, options).mul_(2);
  const at::Tensor targets = at::randint(0, n.vocabulary, {n.rows()}, options.dtype(at::kLong));
  const at::Tensor gradient = at::full({}, 256.0, options.dtype(at::kFloat));
  const auto all = [=] {
    return differentiated({logits}, {gradient},
                          [=](const Tensors& x) -> Tensors { return {at::cross_entropy_loss(x[0], targets)}; });
  };
  const auto loss = [](const kernels::LogitSums& rows) {
    return (rows.sums.log() + rows.largest - rows.chosen).mean();
  };
  const double bytes = static_cast<double>(logits.nbytes());
  cases.push_back({"cross-entropy", [=] { return Tensors{loss(kernels::cross_entropy(logits, targets, 0))}; },
                   [=] { return part(all(), 0, 1); }, bytes});
  const kernels::LogitSums sums = kernels::cross_entropy(logits, targets, 0);
  const at::Tensor log_sums = sums.sums.log() + sums.largest;
  const at::Tensor scratch = logits.clone();
  cases.push_back({"cross-entropy, backward",
                   [=] {
                     kernels::cross_entropy_backward(scratch, targets, 0, log_sums, gradient);
                     return Tensors{scratch};
                   },
                   [=] { return part(all(), 1, 2); }, 2 * bytes});
  const std::int64_t half = n.vocabulary / 2;
  const auto of_rank = [=](std::int64_t rank) { return logits.narrow(1, rank * half, half).contiguous(); };
  cases.push_back({"cross-entropy, vocabulary of two ranks",
                   [=] {
                     const kernels::LogitSums a = kernels::cross_entropy(of_rank(0), targets, 0);
                     const kernels::LogitSums b = kernels::cross_entropy(of_rank(1), targets, half);
                     const at::Tensor largest = at::maximum(a.largest, b.largest);
                     const kernels::LogitSums both{
                         largest, a.sums * (a.largest - largest).exp() + b.sums * (b.largest - largest).exp(),
                         a.chosen + b.chosen};
                     const at::Tensor second = of_rank(1);
                     kernels::cross_entropy_backward(second, targets, half, both.sums.log() + largest, gradient);
                     return Tensors{loss(both), second};
                   },
                   [=] {
                     Tensors results = all();
                     results[1] = results[1].narrow(1, half, half);
                     return results;
                   }});
}

void add_row_sum(std::vector<Case>& cases, const Sizes& n, const at::TensorOptions& options) {
  const at::Tensor rows = at::randn({n.rows(), n.intermediate}, options);
  const at::Tensor sum = at::zeros({n.intermediate}, options.dtype(at::kFloat));
  cases.push_back({"gradient of a bias",
                   [=] {
                     kernels::add_row_sum(sum, rows);
                     return Tensors{sum};
                   },
                   [=] { return Tensors{wide(rows).sum(0)}; }, static_cast<double>(rows.nbytes())});
}

std::vector<Case> cases_of(const Sizes& sizes, at::ScalarType type) {
  const at::TensorOptions options = at::TensorOptions().device(at::kCUDA).dtype(type);
  std::vector<Case> cases;
  add_swiglu(cases, sizes, options);
  add_rotary(cases, sizes, options, "rotary and split", sizes.heads, sizes.heads.head_dim);
  const kernels::AttentionHeads by_head{sizes.heads.heads, sizes.heads.heads, sizes.heads.head_dim, /*by_head=*/true};
  const std::int64_t turned = sizes.heads.head_dim % 8 == 0 ? sizes.heads.head_dim / 4 : 4;
  add_rotary(cases, sizes, options, "rotary of a part and split by head", by_head, turned);
  add_row_sum(cases, sizes, options);
  add_norm(cases, sizes, options, /*centred=*/false);
  add_norm(cases, sizes, options, /*centred=*/true);
  add_cross_entropy(cases, sizes, options);
  return cases;
}

/// Largest of the results' relative errors, in the Euclidean norm; of NaN, infinite.
double error_of(const Case& one) {
  const Tensors results = one.run();
  const Tensors references = one.reference();
  double worst = 0;
  for (std::size_t i = 0; i < references.size(); ++i) {
    const double error = ((wide(results.at(i)) - references[i]).norm() / references[i].norm()).item<double>();
    worst = error <= worst ? worst : error;
  }
  return worst;
}

bool check() {
  struct Type {
    at::ScalarType type;
    double limit;
  };
  constexpr Type kTypes[] = {{at::kFloat, 5e-6}, {at::kBFloat16, 4e-3}, {at::kHalf, 1e-3}};
  const Sizes whole{
      .batch = 2, .time = 96, .hidden = 1280, .intermediate = 704, .vocabulary = 4096, .heads = {8, 2, 64}};
  const Sizes odd{.batch = 3, .time = 37, .hidden = 1002, .intermediate = 333, .vocabulary = 5026, .heads = {3, 1, 10}};
  const Sizes large{
      .batch = 1, .time = 40, .hidden = 8192, .intermediate = 64, .vocabulary = 256, .heads = {1, 1, 256}};
  bool passed = true;
  for (const Type& type : kTypes) {
    for (const Sizes& sizes : {whole, odd, large}) {
      for (const Case& one : cases_of(sizes, type.type)) {
        const double error = error_of(one);
        const bool within = error <= type.limit;
        passed = passed && within;
        fmt::print("{} | {} | hidden {} | {:.1e} | limit {:.0e}{}\n", one.name, at::toString(type.type), sizes.hidden,
                   error, type.limit, within ? "" : " | EXCEEDED");
      }
    }
  }
  return passed;
}

/// Median of seven means of 20 runs of all of `works` in turns, in microseconds a work.
double microseconds(const std::vector<std::function<void()>>& works) {
  constexpr int kRuns = 20;
  std::vector<double> times;
  for (int round = 0; round < 8; ++round) {
    at::cuda::CUDAEvent begin(cudaEventDefault);
    at::cuda::CUDAEvent end(cudaEventDefault);
    begin.record();
    for (int run = 0; run < kRuns; ++run) works[static_cast<std::size_t>(run) % works.size()]();
    end.record();
    end.synchronize();
    if (round > 0) times.push_back(1e3 * begin.elapsed_time(end) / kRuns);
  }
  std::ranges::sort(times);
  return times[times.size() / 2];
}

void time_all() {
  constexpr std::size_t kSets = 2;  // so that caches do not keep what the next run reads
  std::vector<std::vector<Case>> sets;
  for (std::size_t set = 0; set < kSets; ++set) sets.push_back(cases_of({}, at::kBFloat16));
  fmt::print("| kernel, bf16 | us | a copy of as many bytes, us | ratio |\n|---|---|---|---|\n");
  for (std::size_t i = 0; i < sets.front().size(); ++i) {
    const Case& one = sets.front()[i];
    if (one.bytes == 0) continue;
    std::vector<std::function<void()>> works;
    std::vector<std::function<void()>> copies;
    for (std::size_t set = 0; set < kSets; ++set) {
      works.emplace_back([run = sets[set][i].run] { (void)run(); });
      const at::Tensor from =
          at::ones({static_cast<std::int64_t>(one.bytes / 2)}, at::TensorOptions(at::kCUDA).dtype(at::kByte));
      copies.emplace_back([from, to = at::empty_like(from)] { to.copy_(from); });
    }
    const double time = microseconds(works);
    const double copy = microseconds(copies);
    fmt::print("| {} | {:.1f} | {:.1f} | {:.3f} |\n", one.name, time, copy, time / copy);
    std::fflush(stdout);
  }
}

}  // namespace

int main() {
  const bool passed = check();
  std::fflush(stdout);
  time_all();
  return passed ? 0 : 1;
}

// gradient_dump MODEL IDS BATCH TIME TYPE DEVICE OUT: logits, loss and gradients of a Hugging Face model folder on
// token ids (raw int64, BATCH x (TIME + 1)), as the trainer computes them, as a safetensors file in fp32 in the files'
// layout.

#include <fmt/format.h>

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <string_view>
#include <vector>

#include "base/core/error.h"
#include "base/core/files/file.h"
#include "estimating/model/config_json.h"
#include "training/tensorfile/safetensors.h"
#include "training/trainer/checkpoint/weights.h"
#include "training/trainer/model/stage.h"
#include "training/trainer/transport/in_process_transport.h"

namespace {

using namespace lowgear;  // NOLINT(google-build-using-namespace)

struct Arguments {
  std::string model;
  std::string ids;
  std::int64_t batch = 0;
  std::int64_t time = 0;
  at::ScalarType type = at::kFloat;
  at::Device device = at::kCPU;
  std::string out;
};

/// Tensors that are to be written, kept alive in fp32 on the CPU.
class Dump {
 public:
  void add(std::string name, const at::Tensor& tensor) {
    tensors_.push_back(tensor.detach().to(at::kCPU, at::kFloat).contiguous());
    names_.push_back(std::move(name));
  }
  void write(const std::string& path) const {
    std::vector<tensorfile::TensorView> views;
    for (std::size_t i = 0; i < tensors_.size(); ++i) {
      const at::Tensor& tensor = tensors_[i];
      const auto* bytes = reinterpret_cast<const std::byte*>(tensor.data_ptr<float>());
      views.push_back({names_[i], tensorfile::TensorType::f32, tensor.sizes().vec(), {bytes, tensor.nbytes()}});
    }
    write_safetensors(path, views);
  }

 private:
  std::vector<std::string> names_;
  std::vector<at::Tensor> tensors_;
};

void dump(const Arguments& arguments) {
  const std::string config_file = arguments.model + "/config.json";
  const model::ModelConfig config = model::parse_trainable_config(read_file(config_file), config_file);
  trainer::InProcessHub hub;
  trainer::Communicators ranks;
  ranks.pipeline = hub.pipeline("pp", 0);
  ranks.data = hub.group("dp", 0, 1);
  ranks.tensor = hub.group("tp", 0, 1);
  ranks.world = hub.group("world", 0, 1);
  const std::vector<model::LayerRange> whole = {{0, config.layers}};
  trainer::ModelPart part(config, whole, {0}, {.type = arguments.type, .device = arguments.device}, ranks);
  load_weights(arguments.model, config, part.store());
  const std::string bytes = read_file(arguments.ids);
  at::Tensor tokens = at::empty({arguments.batch, arguments.time + 1}, at::kLong);
  if (bytes.size() != tokens.nbytes()) throw InputError(arguments.ids + ": not as many ids as BATCH x (TIME + 1)");
  std::memcpy(tokens.data_ptr<std::int64_t>(), bytes.data(), bytes.size());
  tokens = tokens.to(arguments.device);
  const at::Tensor ids = tokens.narrow(1, 0, arguments.time).contiguous();
  const at::Tensor targets = tokens.narrow(1, 1, arguments.time).contiguous();

  trainer::Stage& stage = *part.stages().at(0);
  Dump result;
  result.add("logits", stage.logits({ids, targets}));
  const at::Tensor loss = stage.forward(0, {ids, targets}).front();
  result.add("loss", loss.reshape({1}));
  (void)stage.backward(0, {at::ones_like(loss)}, trainer::WeightGradients::now);
  part.reduce_tied_gradients();
  for (const trainer::Parameter& parameter : part.store().parameters()) {
    if (parameter.tied_copy) continue;
    result.add(parameter.name, parameter.transposed ? parameter.gradient.t() : parameter.gradient);
  }
  result.write(arguments.out);
}

}  // namespace

int main(int count, char** words) {
  if (count != 8) {
    fmt::print(stderr, "usage: gradient_dump MODEL IDS BATCH TIME fp32|bf16 cpu|cuda OUT.safetensors\n");
    return 2;
  }
  try {
    dump({.model = words[1],
          .ids = words[2],
          .batch = std::atoll(words[3]),
          .time = std::atoll(words[4]),
          .type = std::string_view(words[5]) == "bf16" ? at::kBFloat16 : at::kFloat,
          .device = std::string_view(words[6]) == "cuda" ? at::kCUDA : at::kCPU,
          .out = words[7]});
    return EXIT_SUCCESS;
  } catch (const std::exception& error) {
    fmt::print(stderr, "error: {}\n", error.what());
    return EXIT_FAILURE;
  }
}

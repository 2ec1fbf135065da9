#include "report/evaluation/published_tables.h"

#include <fmt/format.h>

#include "base/core/error.h"

namespace lowgear::evaluation {
namespace {

constexpr auto kDevices = std::to_array<PublishedDevice>({
    {"a100_sxm", "A100", 83.64, 1e-3},
    {"a40", "A40", 70.38, 1e-4},
});

constexpr auto kWorkloads = std::to_array<PublishedWorkload>({
    {"A100", "gpt3-xl", {13.2, 0.1, {14.7, 15.9, 15.5, 15.0, 14.6, 14.3}}, {8.8, 0.1, {8.7, 8.5, 8.3, 8.1, 7.9, 7.7}}},
    {"A100", "bloom-3b", {11.7, 0.2, {13.6, 15.6, 15.2, 14.7, 14.3, 14.0}}, {8.9, 0.2, {8.8, 8.7, 8.4, 8.2, 8.0, 7.8}}},
    {"A100",
     "bert-huge-uncased",
     {12.9, 0.5, {14.9, 16.9, 16.4, 15.9, 15.5, 15.0}},
     {8.0, 0.0, {7.9, 7.8, 7.5, 7.3, 7.1, 6.9}}},
    {"A100", "t5-3b", {10.6, 1.3, {15.3, 18.0, 17.9, 17.4, 16.9, 16.5}}, {7.4, 3.4, {8.4, 8.2, 8.0, 7.8, 7.6, 7.4}}},
    {"A100",
     "wide-resnet101_8",
     {3.2, 2.3, {9.4, 12.7, 12.6, 12.3, 12.0, 11.6}},
     {3.7, 4.1, {4.9, 4.8, 4.7, 4.5, 4.4, 4.3}}},
    {"A40",
     "gpt3-2.7b",
     {21.1, 0.2, {24.5, 26.0, 25.9, 25.2, 24.6, 24.0}},
     {21.7, 5.6, {22.9, 22.6, 22.0, 21.4, 20.9, 20.4}}},
    {"A40",
     "bloom-3b",
     {22.4, 0.0, {25.5, 26.4, 25.9, 25.2, 24.6, 24.0}},
     {19.9, 0.0, {19.6, 19.3, 18.8, 18.3, 17.8, 17.4}}},
    {"A40",
     "bert-huge-uncased",
     {15.7, 0.0, {20.0, 22.6, 24.1, 23.4, 22.8, 22.2}},
     {16.5, 9.7, {19.2, 18.9, 18.3, 17.8, 17.4, 16.9}}},
    {"A40",
     "t5-3b",
     {28.5, 0.0, {27.9, 27.3, 26.2, 25.2, 24.3, 23.4}},
     {19.3, 0.0, {18.4, 18.0, 17.3, 16.6, 16.0, 15.4}}},
    {"A40",
     "wide-resnet101_8",
     {20.4, 0.2, {24.3, 26.2, 26.3, 25.7, 25.0, 24.4}},
     {16.5, 0.5, {16.4, 16.2, 15.8, 15.4, 15.0, 14.6}}},
});

constexpr auto kEmulations = std::to_array<PublishedEmulation>({
    {"gpt3-175b", "a100_sxm", {15.201604, 14.190355, 13.616616, 13.319138}, {27.012699, 11.977369}},
    {"gpt3-175b", "a40", {11.810657, 10.220271, 9.340778, 8.878493}, {23.575644, 7.805060}},
    {"bloom", "a100_sxm", {10.471891, 7.064365, 5.234097, 4.284563}, {29.881358, 1.031186}},
    {"bloom", "a40", {6.973716, 4.488244, 3.122653, 2.405541}, {21.090338, 0.162844}},
});

}  // namespace

std::span<const PublishedWorkload> published_workloads() { return kWorkloads; }

std::span<const PublishedEmulation> published_emulations() { return kEmulations; }

std::span<const PublishedDevice> published_devices() { return kDevices; }

double published_blocking_power_w(std::string_view gpu_or_device) {
  for (const PublishedDevice& device : kDevices) {
    if (gpu_or_device == device.device || gpu_or_device == device.gpu) return device.blocking_power_w;
  }
  throw InputError(fmt::format("GPU {}: the evaluation has A100 (a100_sxm) and A40 (a40) only", gpu_or_device));
}

}  // namespace lowgear::evaluation

#include "estimating/estimator/costs/gradient_boosted_trees.h"

#include <dlfcn.h>
#include <fmt/format.h>
#include <xgboost/c_api.h>

#include <array>
#include <limits>
#include <stdexcept>
#include <string_view>
#include <utility>

#include "base/core/error.h"

namespace lowgear::estimator {

/// Functions of XGBoost's C API (1.6 or newer), by its names without `XG`.
struct XgboostFunctions {
  decltype(&XGBGetLastError) last_error;
  decltype(&XGDMatrixCreateFromMat_omp) matrix_create;
  decltype(&XGDMatrixSetFloatInfo) matrix_set_float_info;
  decltype(&XGDMatrixFree) matrix_free;
  decltype(&XGBoosterCreate) booster_create;
  decltype(&XGBoosterSetParam) booster_set_param;
  decltype(&XGBoosterUpdateOneIter) booster_update_one_iteration;
  decltype(&XGBoosterPredictFromDMatrix) booster_predict;
  decltype(&XGBoosterFree) booster_free;
};

namespace {

/// Throws the first line of XGBoost's message; a stack trace follows it.
void check(int status) {
  if (status == 0) return;
  const std::string_view message = xgboost().last_error();
  throw Error(fmt::format("XGBoost: {}", printable(message.substr(0, message.find('\n')))));
}

using Matrix = std::unique_ptr<void, decltype(XgboostFunctions::matrix_free)>;

Matrix matrix_of(const FeatureTable& features) {
  DMatrixHandle handle = nullptr;
  check(xgboost().matrix_create(features.values().data(), features.rows(), features.columns(),
                                std::numeric_limits<float>::quiet_NaN(), &handle, 1));
  return {handle, xgboost().matrix_free};
}

}  // namespace

void FeatureTable::add(std::span<const float> row) {
  if (row.size() != columns_) throw std::invalid_argument("a row of features has another number of columns");
  values_.insert(values_.end(), row.begin(), row.end());
}

std::span<const float> FeatureTable::row(std::size_t index) const {
  return std::span(values_).subspan(index * columns_, columns_);
}

GradientBoostedTrees::GradientBoostedTrees(const FeatureTable& features, std::span<const float> targets,
                                           const BoostingParameters& parameters)
    : columns_(features.columns()), booster_(nullptr, xgboost().booster_free) {
  if (targets.size() != features.rows() || targets.empty() || parameters.n_estimators < 1) {
    throw std::invalid_argument("boosted trees need a tree, and a target for each row");
  }
  const Matrix matrix = matrix_of(features);
  check(xgboost().matrix_set_float_info(matrix.get(), "label", targets.data(), targets.size()));
  const std::array<DMatrixHandle, 1> matrices{matrix.get()};
  BoosterHandle handle = nullptr;
  check(xgboost().booster_create(matrices.data(), matrices.size(), &handle));
  booster_.reset(handle);
  const auto settings = std::to_array<std::pair<const char*, std::string>>({
      {"verbosity", "0"},
      {"nthread", "1"},
      {"objective", "reg:squarederror"},
      {"tree_method", parameters.tree_method},
      {"max_bin", std::to_string(parameters.max_bin)},
      {"seed", std::to_string(parameters.seed)},
      {"max_depth", std::to_string(parameters.max_depth)},
      {"learning_rate", fmt::format("{}", parameters.learning_rate)},
      {"min_child_weight", fmt::format("{}", parameters.min_child_weight)},
      {"gamma", fmt::format("{}", parameters.gamma)},
      {"reg_lambda", fmt::format("{}", parameters.reg_lambda)},
      {"subsample", fmt::format("{}", parameters.subsample)},
      {"colsample_bytree", fmt::format("{}", parameters.colsample_bytree)},
      {"base_score", fmt::format("{}", parameters.base_score)},
  });
  for (const auto& [name, value] : settings) check(xgboost().booster_set_param(handle, name, value.c_str()));
  for (int round = 0; round < parameters.n_estimators; ++round) {
    check(xgboost().booster_update_one_iteration(handle, round, matrix.get()));
  }
}

double GradientBoostedTrees::predict(std::span<const float> features) const {
  FeatureTable table(columns_);
  table.add(features);
  return predict(table).front();
}

std::vector<float> GradientBoostedTrees::predict(const FeatureTable& features) const {
  const Matrix matrix = matrix_of(features);
  constexpr const char* kConfig =
      R"({"type": 0, "training": false, "iteration_begin": 0, "iteration_end": 0, "strict_shape": false})";
  const bst_ulong* shape = nullptr;
  bst_ulong dimensions = 0;
  const float* result = nullptr;
  check(xgboost().booster_predict(booster_.get(), matrix.get(), kConfig, &shape, &dimensions, &result));
  return {result, result + features.rows()};
}

namespace {

[[noreturn]] void throw_missing() {
  const char* why = dlerror();
  throw Error(
      fmt::format("{}; prediction from sampled operators needs XGBoost: install libxgboost0, or leave the samples out",
                  printable(why != nullptr ? why : "XGBoost cannot be loaded")));
}

template <typename Function>
void find(void* library, const char* symbol, Function& function) {
  function = reinterpret_cast<Function>(dlsym(library, symbol));
  if (function == nullptr) throw_missing();
}

}  // namespace

std::shared_ptr<const XgboostFunctions> load_xgboost(const char* file) {
  void* library = dlopen(file, RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) throw_missing();
  auto functions = std::make_shared<XgboostFunctions>();
  find(library, "XGBGetLastError", functions->last_error);
  find(library, "XGDMatrixCreateFromMat_omp", functions->matrix_create);
  find(library, "XGDMatrixSetFloatInfo", functions->matrix_set_float_info);
  find(library, "XGDMatrixFree", functions->matrix_free);
  find(library, "XGBoosterCreate", functions->booster_create);
  find(library, "XGBoosterSetParam", functions->booster_set_param);
  find(library, "XGBoosterUpdateOneIter", functions->booster_update_one_iteration);
  find(library, "XGBoosterPredictFromDMatrix", functions->booster_predict);
  find(library, "XGBoosterFree", functions->booster_free);
  return functions;
}

const XgboostFunctions& xgboost() {
  static const std::shared_ptr<const XgboostFunctions> functions = load_xgboost("libxgboost.so.0");
  return *functions;
}

}  // namespace lowgear::estimator

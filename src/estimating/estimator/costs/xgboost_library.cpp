#include "estimating/estimator/costs/xgboost_library.h"

#include <dlfcn.h>
#include <fmt/format.h>

#include "base/core/error.h"

namespace lowgear::estimator {
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

XgboostFunctions load_xgboost(const char* file) {
  void* library = dlopen(file, RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) throw_missing();
  XgboostFunctions functions = {};
  find(library, "XGBGetLastError", functions.last_error);
  find(library, "XGDMatrixCreateFromMat_omp", functions.matrix_create);
  find(library, "XGDMatrixSetFloatInfo", functions.matrix_set_float_info);
  find(library, "XGDMatrixFree", functions.matrix_free);
  find(library, "XGBoosterCreate", functions.booster_create);
  find(library, "XGBoosterSetParam", functions.booster_set_param);
  find(library, "XGBoosterUpdateOneIter", functions.booster_update_one_iteration);
  find(library, "XGBoosterPredictFromDMatrix", functions.booster_predict);
  find(library, "XGBoosterFree", functions.booster_free);
  return functions;
}

const XgboostFunctions& xgboost() {
  static const XgboostFunctions functions = load_xgboost("libxgboost.so.0");
  return functions;
}

}  // namespace lowgear::estimator

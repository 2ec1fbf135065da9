#pragma once

#include <xgboost/c_api.h>

namespace lowgear::estimator {

/// Functions of XGBoost's C API (1.6 or newer), by its names without `XG`. They are loaded when regression first needs
/// them: servers, agents and estimates without samples neither need the package nor carry its memory.
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

/// Loads the library. Throws Error that says which package is missing. It stays loaded: its threads outlive what they
/// were started for.
[[nodiscard]] XgboostFunctions load_xgboost(const char* file);

/// Those of the system's library, loaded once. Throws as `load_xgboost`, each time that it is missing.
[[nodiscard]] const XgboostFunctions& xgboost();

}  // namespace lowgear::estimator

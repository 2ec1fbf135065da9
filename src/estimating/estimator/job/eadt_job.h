#pragma once

#include <string>
#include <string_view>

namespace lowgear::estimator {

/// Throws InputError where a job file is a configuration of EADT (model/foreign_config.h): with the command that
/// estimates what it says, of which the GPUs are to be added.
void refuse_eadt_config(std::string_view yaml, const std::string& source);

}  // namespace lowgear::estimator

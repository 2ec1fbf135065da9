#pragma once

#include <string>
#include <string_view>

namespace lowgear {

/// A UUID of a GPU or an instance as NVML writes it, `GPU-` and lower-case hexadecimal digits, whatever the case of
/// `text`, without blanks around it, and with the prefix where 36 characters of a UUID stand alone. Every UUID goes
/// through this where it is read, so that two texts of one GPU are equal. A text that is no such UUID stays as it is.
[[nodiscard]] std::string normal_gpu_uuid(std::string_view text);

}  // namespace lowgear

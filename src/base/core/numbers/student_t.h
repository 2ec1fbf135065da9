#pragma once

namespace lowgear {

/// The probability that a variable with Student's t distribution is at most `t`, by the regularised incomplete beta
/// function. `degrees_of_freedom` is positive and need not be whole.
[[nodiscard]] double student_t_probability(double t, double degrees_of_freedom);

/// The value that such a variable does not exceed with this probability, in (0, 1).
[[nodiscard]] double student_t_quantile(double probability, double degrees_of_freedom);

}  // namespace lowgear

// The rounding law as constants: adding and subtracting these rounds half to even to an integer (docs/numerics.md).
#pragma once

namespace quarkfast {

// 1.5 * 2^23: exact for |x| <= 2^22, because the sum then lies in [2^23, 2^24) where float32 steps by one.
inline constexpr float kRoundF32 = 12582912.0f;
// 1.5 * 2^52: the same in float64, exact for |x| <= 2^51.
inline constexpr double kRoundF64 = 6755399441055744.0;

}  // namespace quarkfast

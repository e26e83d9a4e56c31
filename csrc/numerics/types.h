// Storage types of the 16-bit floats: bit patterns with a type of their own, so that no overload takes one for the
// other.
#pragma once

#include <cstdint>

namespace quarkfast {

struct f16 {
  uint16_t bits;
};
struct bf16 {
  uint16_t bits;
};

}  // namespace quarkfast

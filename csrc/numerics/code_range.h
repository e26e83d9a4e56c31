// The integer range of codes.
#pragma once

#include <cstdint>

namespace quarkfast {

// Codes from qmin to qmax; narrower than their type for symmetric ranges and 3-bit codes in int8_t.
struct CodeRange {
  int64_t qmin;
  int64_t qmax;
};

}  // namespace quarkfast

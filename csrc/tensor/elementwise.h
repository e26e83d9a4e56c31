// Runs a kernel of the form f(x, y, n) over a whole array, spread over a pool. Operators and bindings call this.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "runtime/parallel.h"

namespace quarkfast {

// Elements below which a second thread costs more than it saves: about 10 microseconds of work at memory speed.
inline constexpr size_t kElementwiseGrain = 32768;

// Calls body(begin, end), after a short first call where the wider of the two arrays does not begin with a cache line
// there: vectors of 64 bytes that straddle lines take up to a quarter longer in cache.
template <class In, class Out, class Body>
void from_cache_line(const In* x, const Out* y, size_t begin, size_t end, Body&& body) {
  constexpr size_t kLine = 64;
  const auto past = sizeof(In) > sizeof(Out) ? reinterpret_cast<uintptr_t>(x + begin) % kLine / sizeof(In)
                                             : reinterpret_cast<uintptr_t>(y + begin) % kLine / sizeof(Out);
  const size_t head = past ? kLine / std::max(sizeof(In), sizeof(Out)) - past : 0;
  if (head && head < end - begin) {
    body(begin, begin + head);
    begin += head;
  }
  body(begin, end);
}

template <class In, class Out>
void elementwise(void (*kernel)(const In*, Out*, size_t), const In* x, Out* y, size_t n, const Pool& pool) {
  const auto piece = [&](size_t begin, size_t end) { kernel(x + begin, y + begin, end - begin); };
  parallel_for(pool, n, kElementwiseGrain, [&](size_t begin, size_t end) { from_cache_line(x, y, begin, end, piece); });
}

}  // namespace quarkfast

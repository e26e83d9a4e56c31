// This file contains no code to run: compiling it is the test of what csrc/ort/ort_abi.h declares.
#include <array>
#include <cstddef>
#include <type_traits>

#include "ort/ort_abi.h"

namespace {

struct Row {
  size_t index;
  uint32_t since;
};

#define ORT_SLOT(index_, since_, name_, ...) Row{index_, since_},
constexpr Row kRows[] = {
#include "ort/ort_slots.inc"
};
#undef ORT_SLOT

// Index of the last function of each version of ONNX Runtime's table, which its own source asserts. Version 18 is the
// last one that quarkfast may read.
constexpr std::array<size_t, 19> kLast = {0,   101, 118, 124, 126, 149, 157, 161, 169, 191,
                                          203, 209, 218, 224, 238, 254, 265, 275, 279};

constexpr bool rows_are_sorted() {
  for (size_t row = 1; row < std::size(kRows); ++row) {
    if (kRows[row].index <= kRows[row - 1].index) return false;
  }
  return true;
}

// Version v introduced the functions after the last one of v-1, up to its own last one.
constexpr bool rows_lie_in_their_version() {
  for (const Row& row : kRows) {
    if (row.since < 1 || row.since > kOrtApiVersion || row.index > kLast[row.since]) return false;
    if (row.since > 1 && row.index <= kLast[row.since - 1]) return false;
  }
  return true;
}

static_assert(rows_are_sorted(), "rows of ort_slots.inc are sorted by index and unique");
static_assert(rows_lie_in_their_version(), "every row of ort_slots.inc lies among the functions of its version");

static_assert(sizeof(void*) == 8 && sizeof(size_t) == 8, "ort_abi.h leaves out _stdcall, which means 64-bit");
static_assert(sizeof(ONNXTensorElementDataType) == sizeof(int) && sizeof(OrtErrorCode) == sizeof(int));
static_assert(std::is_standard_layout_v<OrtCustomOp> && std::is_trivial_v<OrtCustomOp>);
static_assert(sizeof(OrtApiBase) == 2 * sizeof(void*));
static_assert(offsetof(OrtApiBase, GetApi) == 0);
static_assert(offsetof(OrtApiBase, GetVersionString) == 8);

// ONNX Runtime's order of fields: `version` fills the first eight bytes, then one pointer each.
static_assert(offsetof(OrtCustomOp, version) == 0);
static_assert(offsetof(OrtCustomOp, CreateKernel) == 1 * 8);
static_assert(offsetof(OrtCustomOp, GetName) == 2 * 8);
static_assert(offsetof(OrtCustomOp, GetExecutionProviderType) == 3 * 8);
static_assert(offsetof(OrtCustomOp, GetInputType) == 4 * 8);
static_assert(offsetof(OrtCustomOp, GetInputTypeCount) == 5 * 8);
static_assert(offsetof(OrtCustomOp, GetOutputType) == 6 * 8);
static_assert(offsetof(OrtCustomOp, GetOutputTypeCount) == 7 * 8);
static_assert(offsetof(OrtCustomOp, KernelCompute) == 8 * 8);
static_assert(offsetof(OrtCustomOp, KernelDestroy) == 9 * 8);
static_assert(offsetof(OrtCustomOp, GetInputCharacteristic) == 10 * 8);
static_assert(offsetof(OrtCustomOp, GetOutputCharacteristic) == 11 * 8);
static_assert(offsetof(OrtCustomOp, GetInputMemoryType) == 12 * 8);
static_assert(offsetof(OrtCustomOp, GetVariadicInputMinArity) == 13 * 8);
static_assert(offsetof(OrtCustomOp, GetVariadicInputHomogeneity) == 14 * 8);
static_assert(offsetof(OrtCustomOp, GetVariadicOutputMinArity) == 15 * 8);
static_assert(offsetof(OrtCustomOp, GetVariadicOutputHomogeneity) == 16 * 8);
static_assert(offsetof(OrtCustomOp, CreateKernelV2) == 17 * 8);
static_assert(offsetof(OrtCustomOp, KernelComputeV2) == 18 * 8);
static_assert(offsetof(OrtCustomOp, InferOutputShapeFn) == 19 * 8);
static_assert(offsetof(OrtCustomOp, GetStartVersion) == 20 * 8);
static_assert(offsetof(OrtCustomOp, GetEndVersion) == 21 * 8);
static_assert(offsetof(OrtCustomOp, GetMayInplace) == 22 * 8);
static_assert(offsetof(OrtCustomOp, ReleaseMayInplace) == 23 * 8);
static_assert(offsetof(OrtCustomOp, GetAliasMap) == 24 * 8);
static_assert(offsetof(OrtCustomOp, ReleaseAliasMap) == 25 * 8);
static_assert(sizeof(OrtCustomOp) == 26 * 8);

}  // namespace

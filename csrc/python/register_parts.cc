// Formats whose codes and scales are arrays of their own: float4 in blocks, and int8 with a scale for each row.
#include <pybind11/pybind11.h>

#include <cmath>
#include <limits>
#include <string>

#include "python/array.h"
#include "runtime/dispatch.h"
#include "tensor/fp4.h"
#include "tensor/rows.h"

namespace quarkfast::python {

namespace {

// Throws unless there are whole blocks of values, two codes to a byte and one scale to a block; returns the blocks.
size_t require_blocks(const char* where, const py::array& values, const py::array& codes, const py::array& scales,
                      size_t block) {
  const auto n = static_cast<size_t>(values.size()), blocks = n / block;
  if (n % block || static_cast<size_t>(codes.size()) != n / 2 || static_cast<size_t>(scales.size()) != blocks) {
    throw py::value_error(std::string(where) + ": codes: expected whole blocks of " + std::to_string(block) +
                          " values, a byte for two of them and a scale for each block, got " + std::to_string(n) +
                          " values, " + std::to_string(codes.size()) + " bytes and " + std::to_string(scales.size()) +
                          " scales");
  }
  return blocks;
}

size_t require_mx_block(const char* where, size_t block) {
  if (block == 16 || block == 32) return block;
  throw py::value_error(std::string(where) + ": block_size: expected 16 or 32, got " + std::to_string(block));
}

float require_tensor_scale(const char* where, float scale) {
  if (std::isfinite(scale) && scale >= std::numeric_limits<float>::min()) return scale;
  throw py::value_error(std::string(where) + ": tensor_scale: expected a normal float32 greater than 0, got " +
                        text(py::float_(static_cast<double>(scale))));
}

struct Coding {
  const float* x;
  uint8_t *codes, *scales;
  size_t blocks;
};

Coding require_coding(const char* where, const py::array& x, py::array& codes, py::array& scales, size_t block) {
  require(x, where, "x", "float32");
  require(codes, where, "codes", "uint8");
  require(scales, where, "scales", "uint8");
  require_writeable(codes, where, "codes");
  require_writeable(scales, where, "scales");
  const size_t blocks = require_blocks(where, x, codes, scales, block);
  require_apart(x, codes, where);
  require_apart(x, scales, where);
  require_apart(codes, scales, where);
  return {static_cast<const float*>(x.data()), static_cast<uint8_t*>(codes.mutable_data()),
          static_cast<uint8_t*>(scales.mutable_data()), blocks};
}

struct Decoding {
  const uint8_t *codes, *scales;
  float* y;
  size_t blocks;
};

Decoding require_decoding(const char* where, const py::array& codes, const py::array& scales, py::array& y,
                          size_t block) {
  require(codes, where, "codes", "uint8");
  require(scales, where, "scales", "uint8");
  require(y, where, "out", "float32");
  require_writeable(y, where, "out");
  const size_t blocks = require_blocks(where, y, codes, scales, block);
  require_apart(codes, y, where);
  require_apart(scales, y, where);
  return {static_cast<const uint8_t*>(codes.data()), static_cast<const uint8_t*>(scales.data()),
          static_cast<float*>(y.mutable_data()), blocks};
}

void quantize_mxfp4_f32(const py::array& x, py::array& codes, py::array& scales, size_t block_size) {
  const char* where = "quantize_mxfp4_f32";
  const size_t block = require_mx_block(where, block_size);
  const Coding c = require_coding(where, x, codes, scales, block);
  const py::gil_scoped_release release;  // only raw memory from here on
  quantize_mxfp4(active(), c.x, c.codes, c.scales, c.blocks, block, shared_pool());
}

void dequantize_mxfp4_f32(const py::array& codes, const py::array& scales, py::array& y, size_t block_size) {
  const char* where = "dequantize_mxfp4_f32";
  const size_t block = require_mx_block(where, block_size);
  const Decoding d = require_decoding(where, codes, scales, y, block);
  const py::gil_scoped_release release;  // only raw memory from here on
  dequantize_mxfp4(active(), d.codes, d.scales, d.y, d.blocks, block, shared_pool());
}

void quantize_nvfp4_f32(const py::array& x, py::array& codes, py::array& scales, float tensor_scale) {
  const char* where = "quantize_nvfp4_f32";
  const float scale = require_tensor_scale(where, tensor_scale);
  const Coding c = require_coding(where, x, codes, scales, kNvFp4Block);
  const py::gil_scoped_release release;  // only raw memory from here on
  quantize_nvfp4(active(), c.x, c.codes, c.scales, c.blocks, scale, shared_pool());
}

void dequantize_nvfp4_f32(const py::array& codes, const py::array& scales, py::array& y, float tensor_scale) {
  const char* where = "dequantize_nvfp4_f32";
  const float scale = require_tensor_scale(where, tensor_scale);
  const Decoding d = require_decoding(where, codes, scales, y, kNvFp4Block);
  const py::gil_scoped_release release;  // only raw memory from here on
  dequantize_nvfp4(active(), d.codes, d.scales, d.y, d.blocks, scale, shared_pool());
}

void quantize_rows_f32_i8(const py::array& x, py::array& y, py::array& scale) {
  const char* where = "quantize_rows_f32_i8";
  require(x, where, "x", "float32");
  require(y, where, "out", "int8");
  require(scale, where, "scale", "float32");
  require_writeable(y, where, "out");
  require_writeable(scale, where, "scale");
  require_size(y, where, "out", x.size());
  const auto rows = static_cast<size_t>(scale.size()), n = rows ? static_cast<size_t>(x.size()) / rows : 0;
  require_size(x, where, "x", static_cast<py::ssize_t>(rows * n));
  require_apart(x, y, where);
  require_apart(x, scale, where);
  require_apart(y, scale, where);
  const auto* from = static_cast<const float*>(x.data());
  auto* to = static_cast<int8_t*>(y.mutable_data());
  auto* scales = static_cast<float*>(scale.mutable_data());
  const py::gil_scoped_release release;  // only raw memory from here on
  quantize_rows(active(), from, to, scales, rows, n, shared_pool());
}

}  // namespace

void register_parts(py::module_& m) {
  m.def("quantize_mxfp4_f32", quantize_mxfp4_f32, py::arg("x"), py::arg("codes"), py::arg("scales"),
        py::arg("block_size"), "Codes and e8m0 scales of blocks of x.");
  m.def("dequantize_mxfp4_f32", dequantize_mxfp4_f32, py::arg("codes"), py::arg("scales"), py::arg("out"),
        py::arg("block_size"), "Values of codes and e8m0 scales.");
  m.def("quantize_nvfp4_f32", quantize_nvfp4_f32, py::arg("x"), py::arg("codes"), py::arg("scales"),
        py::arg("tensor_scale"), "Codes and e4m3 scales of blocks of x.");
  m.def("dequantize_nvfp4_f32", dequantize_nvfp4_f32, py::arg("codes"), py::arg("scales"), py::arg("out"),
        py::arg("tensor_scale"), "Values of codes and e4m3 scales.");
  m.def("quantize_rows_f32_i8", quantize_rows_f32_i8, py::arg("x"), py::arg("out"), py::arg("scale"),
        "Codes of rows of x, and the scale of each.");
}

}  // namespace quarkfast::python

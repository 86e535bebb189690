// Random programs of tensor operations. Bytes choose tensors of random shapes (including sizes of
// 0), layouts and dtypes, a few operations with small and extreme arguments, and a backward pass.
// Whatever they choose, each operation must soon return a result or throw a taper::Error.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "taper.h"

namespace taper::v0::fuzz {

// A program that is decoded from bytes. Operations take their arguments from it. After the last
// byte, all bytes are 0.
class Program {
 public:
  Program(std::string_view bytes, bool prints) : bytes_(bytes), prints_(prints) {}

  // Runs the program. Catches every taper::Error; any other exception propagates.
  void run();

  // --- arguments ---
  Tensor tensor();
  Tensor maybe() { return flag() ? tensor() : Tensor(); }  // may be undefined
  std::vector<Tensor> tensors();
  // Returns a mostly small, sometimes extreme number.
  int64_t integer();
  int64_t dim();  // mostly a valid dimension
  bool flag() { return byte() & 1; }
  double real();
  Scalar number() { return flag() ? Scalar(real()) : Scalar(integer()); }
  DType dtype() { return kAllDTypes[byte() % std::size(kAllDTypes)]; }
  Shape shape();
  Shape dims();
  std::vector<int64_t> list();
  Pair pair() { return flag() ? Pair(integer()) : Pair(integer(), integer()); }
  Triple triple() { return flag() ? Triple(integer()) : Triple(integer(), integer(), integer()); }
  Reduction reduction() { return Reduction::Value(byte() % Reduction::kCount); }
  Interpolation interpolation() { return Interpolation::Value(byte() % Interpolation::kCount); }
  std::string equation();
  std::optional<double> optional_real();
  std::optional<int64_t> optional_integer();
  std::optional<Scalar> optional_number();
  std::optional<DType> optional_dtype();

  // --- results ---
  void give(const Tensor& y);
  void give(const std::vector<Tensor>& results) {
    for (const Tensor& y : results) give(y);
  }
  void give(const Sorted& y) { give({y.values, y.indices}); }
  void give(const Uniques& y) { give({y.output, y.inverse_indices, y.counts}); }
  void give(const LstmState& y) { give({y.h, y.c}); }
  void give(std::initializer_list<Tensor> results) {
    for (const Tensor& y : results) give(y);
  }

 private:
  uint8_t byte();
  Tensor fresh();
  Tensor laid_out(Tensor x);
  Tensor filled(const Shape& shape, DType dtype);
  void differentiate();

  std::string_view bytes_;
  const bool prints_;
  std::vector<Tensor> pool_;    // tensors that operations may use
  std::vector<Tensor> leaves_;  // tensors that require gradients
};

struct ProgramRow {
  const char* text;
  void (*run)(Program& p);
};
std::span<const ProgramRow> program_rows();

// Limits the memory of tensors, so that extreme sizes are refused. Call it before the first tensor
// is created.
void limit_memory();

}  // namespace taper::v0::fuzz

// The operators as data: each has rows with a reference, inputs, dtypes, tolerances and refusals.
// The driver runs every check for every row on every device. An operator without a row is a
// failure.
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "framework/factory/factories.h"
#include "framework/tensor/tensor.h"

namespace taper::v0::test {

// A contiguous array on the host, with which references compute.
struct Array {
  Shape shape;
  std::vector<double> v;
};

using Tensors = std::vector<Tensor>;
using Function = std::function<Tensor(const Tensors&)>;
using Reference = std::function<Array(const std::vector<Array>&)>;

// The distribution of an argument's values: uniform in [low, high], rounded to multiples of `step`
// if it is not 0. An argument with a dtype (an index, a mask) keeps it in every run and has no
// gradient.
struct Domain {
  double low = -2, high = 2, step = 0;
  std::optional<DType> dtype = std::nullopt;
};

// The dtype of the result for arguments of dtype T.
enum class Gives {
  kSame,
  kFloating,  // float32 for integers
  kBoolean,
  kWide,  // int64 for integers
  kInt64,
  kFloat64
};

enum class Derivative {
  kNone,
  kFirst,  // a second derivative is refused with NotImplementedError
  kSecond
};

// A result passes if |error| <= tolerance * (1 + |value|) for its dtype. The error of a gradient
// may be larger by the factor `gradient`.
struct Tolerance {
  double float64 = 1e-12, float32 = 2e-6, float16 = 1e-3, bfloat16 = 8e-3;
  double gradient = 4;
  double of(DType t) const;
};

struct Refusal {
  std::string what;
  std::function<Tensor(Device)> call;
  std::string text;               // the beginning of the message
  std::string text_on_cuda = "";  // if different: a kernel found the error
};

struct Row {
  std::string name;          // as declared in autograd/ops
  std::string variant = "";  // distinguishes the rows of one operator
  Function f = {};
  Reference reference = {};
  // The shapes of the arguments, one vector for each run.
  std::vector<std::vector<Shape>> samples = {};
  // One for each argument. The last one is used for all further arguments.
  std::vector<Domain> domains = {Domain()};
  std::vector<DType> dtypes = {};
  Gives gives = Gives::kSame;
  Derivative derivative = Derivative::kSecond;
  // Whether the row is element-wise and also agrees with its reference at NaN, infinities and zeros
  // of both signs.
  bool specials = false;
  Tolerance tolerance = {};
  std::vector<Refusal> refusals = {};
  // The shapes of the arguments that --bench runs. If empty, each argument has a million elements
  // if some sample has arguments of one shape and the row accepts them. Otherwise the largest
  // sample is timed.
  std::vector<Shape> bench = {};
  // The floating-point operations of one call, for operators that are limited by them and not by
  // memory.
  std::function<double(const std::vector<Shape>&)> flops = {};

  std::string title() const { return variant.empty() ? name : name + " (" + variant + ")"; }
  const Domain& domain(size_t argument) const;
};

std::vector<Row> unary_rows();
std::vector<Row> binary_rows();
std::vector<Row> reduce_rows();
std::vector<Row> matmul_rows();
std::vector<Row> linalg_rows();
std::vector<Row> softmax_rows();
std::vector<Row> loss_rows();
std::vector<Row> distance_rows();
std::vector<Row> random_rows();
std::vector<Row> index_rows();
std::vector<Row> indexing_rows();
std::vector<Row> norm_rows();
std::vector<Row> conv_rows();
std::vector<Row> pool_rows();
std::vector<Row> volume_rows();
std::vector<Row> image_rows();
std::vector<Row> embedding_bag_rows();
std::vector<Row> attention_rows();
std::vector<Row> rnn_rows();
std::vector<Row> shape_rows();
std::vector<Row> order_rows();
std::vector<Row> arrange_rows();
const std::vector<Row>& all_rows();

// Returns the family (the name of its header in autograd/ops) of every public operator.
std::map<std::string, std::string> declared_operators();
// Returns docs/operators.md: operators, dtypes, devices and differentiability.
std::string operators_page();
// Times the rows whose title contains `part` and prints a table. Runs on the device `on`, or on
// every device if it is empty. Measures the processor time of all threads if `of_processor`, which
// other programs disturb less.
void bench_rows(const std::string& part, const std::string& on, bool of_processor = false);

// --- dtypes ---
std::vector<DType> floating();
std::vector<DType> numbers();     // floating-point and integer dtypes
std::vector<DType> everything();  // floating-point, integer and bool dtypes

// Apply f to every element, or to every pair or triple of broadcast elements.
Reference of_each(std::function<double(double)> f);
Reference of_pairs(std::function<double(double, double)> f);
Reference of_triples(std::function<double(double, double, double)> f);
// Applies f to the elements of each slice along dims (all dimensions if empty), in order.
Array reduced(const Array& x, Shape dims, bool keepdim,
              const std::function<double(const std::vector<double>&)>& f);
// Returns an array of `shape` whose element at an index is x's element at source(index).
Array gathered(const Array& x, const Shape& shape,
               const std::function<Shape(const Shape&)>& source);
Array matrix_product(const Array& a, const Array& b);
// Returns exp(x - max) / sum along a dimension, or its logarithm.
Array normalised(const Array& x, int64_t dim, bool log);

int64_t flat_index(const Shape& shape, const Shape& at);
Shape index_of(const Shape& shape, int64_t flat);

// --- inputs ---
// Returns the arguments of one run of a row on a device, contiguous. Before rounding, the values
// are the same for every dtype.
Tensors arguments(const Row& row, size_t sample, DType dtype, Device device);
Tensor filled(const Shape& shape, const Domain& domain, uint64_t seed, DType dtype, Device device);
Array array_of(const Tensor& x);

inline Tensor longs(const TensorData& data, Device d) {
  return tensor(data, {.dtype = kInt64, .device = d});
}

}  // namespace taper::v0::test

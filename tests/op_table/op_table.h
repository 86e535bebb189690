// The operators as data: one row each, with reference, inputs, dtypes, tolerances and refusals. The
// driver runs every check for every row on every device; an operator without a row is a failure.
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "framework/factory/factories.h"
#include "framework/tensor/tensor.h"

namespace taper::v0::test {

// What references compute with: a dense array on the host.
struct Array {
  Shape shape;
  std::vector<double> v;
};

using Tensors = std::vector<Tensor>;
using Function = std::function<Tensor(const Tensors&)>;
using Reference = std::function<Array(const std::vector<Array>&)>;

// Where the values of an argument come from: uniform in [low, high], as multiples of `step` where
// that is given. With a dtype the argument keeps it (an index, a mask) and has no gradient.
struct Domain {
  double low = -2, high = 2, step = 0;
  std::optional<DType> dtype = std::nullopt;
};

// The dtype of the result for arguments of dtype T.
enum class Gives {
  same,
  floating,  // integers give float32
  boolean,
  wide,  // integers give int64
  int64,
  float64
};

enum class Derivative {
  none,
  first,  // a second one is refused with NotImplementedError
  second
};

// |error| <= tolerance * (1 + |value|) of the result in each dtype; that of a gradient may be
// `gradient` times as large.
struct Tolerance {
  double float64 = 1e-12, float32 = 2e-6, float16 = 1e-3, bfloat16 = 8e-3;
  double gradient = 4;
  double of(DType t) const;
};

struct Refusal {
  std::string what;
  std::function<Tensor(Device)> call;
  std::string text;               // how the message begins
  std::string text_on_cuda = "";  // where it differs: a kernel found out
};

struct Row {
  std::string name;          // as declared in autograd/ops
  std::string variant = "";  // tells the rows of one operator apart
  Function f = {};
  Reference reference = {};
  // Shapes of the arguments, one list a run.
  std::vector<std::vector<Shape>> samples = {};
  // One for each argument; the last serves all that follow.
  std::vector<Domain> domains = {Domain()};
  std::vector<DType> dtypes = {};
  Gives gives = Gives::same;
  Derivative derivative = Derivative::second;
  // Element-wise, and agrees with its reference at nan, infinities and zeros of both signs too.
  bool specials = false;
  Tolerance tolerance = {};
  std::vector<Refusal> refusals = {};
  // Shapes of the arguments that --bench runs; none: a million elements each where all arguments of
  // some sample have one shape and the row takes them, else the largest sample.
  std::vector<Shape> bench = {};
  // Floating-point operations of one call, where they and not the bytes are what counts.
  std::function<double(const std::vector<Shape>&)> flops = {};

  std::string title() const { return variant.empty() ? name : name + " (" + variant + ")"; }
  const Domain& domain(size_t argument) const;
};

std::vector<Row> unary_rows();
std::vector<Row> binary_rows();
std::vector<Row> reduce_rows();
std::vector<Row> matmul_rows();
std::vector<Row> softmax_rows();
std::vector<Row> loss_rows();
std::vector<Row> distance_rows();
std::vector<Row> random_rows();
std::vector<Row> index_rows();
std::vector<Row> indexing_rows();
std::vector<Row> norm_rows();
std::vector<Row> conv_rows();
std::vector<Row> pool_rows();
std::vector<Row> image_rows();
std::vector<Row> embedding_bag_rows();
std::vector<Row> attention_rows();
std::vector<Row> rnn_rows();
std::vector<Row> shape_rows();
std::vector<Row> order_rows();
std::vector<Row> arrange_rows();
const std::vector<Row>& all_rows();

// The family (a header of autograd/ops without its ending) of every public operator by its name.
std::map<std::string, std::string> declared_operators();
// docs/operators.md: operators, dtypes, devices and differentiability.
std::string operators_page();
// Times the rows whose title contains `part`, on every device or `on` that one, and prints a table.
void bench_rows(const std::string& part, const std::string& on);

// --- dtypes ---
std::vector<DType> floating();
std::vector<DType> numbers();     // floating and integers
std::vector<DType> everything();  // and bool

// --- references ---
// f of every element; of every pair, of every three, broadcast.
Reference of_each(std::function<double(double)> f);
Reference of_pairs(std::function<double(double, double)> f);
Reference of_triples(std::function<double(double, double, double)> f);
// The elements of each slice of the dims that are reduced (all when empty), in order, through f.
Array reduced(const Array& x, Shape dims, bool keepdim,
              const std::function<double(const std::vector<double>&)>& f);
// An array of `shape` whose element at an index is x's element at source(index).
Array gathered(const Array& x, const Shape& shape,
               const std::function<Shape(const Shape&)>& source);
Array matrix_product(const Array& a, const Array& b);
// exp(x - max) / sum along a dimension, or its logarithm.
Array normalised(const Array& x, int64_t dim, bool log);

int64_t flat_index(const Shape& shape, const Shape& at);
Shape index_of(const Shape& shape, int64_t flat);

// --- inputs ---
// The arguments of one run of a row, dense, on a device; the same values for every dtype before
// rounding.
Tensors arguments(const Row& row, size_t sample, DType dtype, Device device);
Tensor filled(const Shape& shape, const Domain& domain, uint64_t seed, DType dtype, Device device);
Array array_of(const Tensor& x);

inline Tensor longs(const TensorData& data, Device d) {
  return tensor(data, {.dtype = kInt64, .device = d});
}

}  // namespace taper::v0::test

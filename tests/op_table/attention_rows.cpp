#include <cmath>
#include <limits>

#include "autograd/ops/nn/attention_ops.h"
#include "framework/base/philox.h"
#include "framework/factory/factories.h"
#include "tests/op_table/op_table.h"

namespace taper::v0::test {
namespace {

constexpr uint64_t kMaskSeed = 11;
constexpr double kInf = std::numeric_limits<double>::infinity();
constexpr double kDropped = 0.25;

struct Options {
  bool causal = false;
  std::optional<double> scale = std::nullopt;
  double dropout_p = 0;
  // kBool: true means that a key takes part; otherwise added to the scores
  std::optional<DType> mask = std::nullopt;
};

// The flat index into `shape` for the given last two indices. `batch` is an index into the
// broadcast leading dimensions.
int64_t place(const Shape& shape, const Shape& batch, int64_t row, int64_t column) {
  Shape at = batch;
  at.push_back(row);
  at.push_back(column);
  int64_t flat = 0;
  for (int d = 0; d < shape.size(); ++d) {
    flat = flat * shape[d] + (shape[d] == 1 ? 0 : at[at.size() - shape.size() + d]);
  }
  return flat;
}

// Computes the formula directly, one query at a time.
Array attention(const std::vector<Array>& x, const Options& options) {
  const Array &q = x[0], &k = x[1], &v = x[2];
  const auto batch_of = [](const Array& a) { return Shape(a.shape.begin(), a.shape.end() - 2); };
  const Shape batch = broadcast_shapes(broadcast_shapes(batch_of(q), batch_of(k)), batch_of(v));
  const int64_t T = q.shape[q.shape.size() - 2], D = q.shape.back();
  const int64_t S = k.shape[k.shape.size() - 2], Dv = v.shape.back();
  const double scale = options.scale.value_or(1 / std::sqrt(double(D)));
  Array y{batch, {}};
  y.shape.push_back(T);
  y.shape.push_back(Dv);
  for (int64_t b = 0; b < batch.numel(); ++b) {
    const Shape at = index_of(batch, b);
    const auto value = [&](const Array& a, int64_t row, int64_t column) {
      return a.v[size_t(place(a.shape, at, row, column))];
    };
    for (int64_t i = 0; i < T; ++i) {
      std::vector<double> p(size_t(S), -kInf), out(size_t(Dv), 0.0);
      double peak = -kInf, sum = 0;
      for (int64_t j = 0; j < S; ++j) {
        if (options.causal && j > i) continue;
        double s = 0;
        for (int64_t d = 0; d < D; ++d) s += scale * value(q, i, d) * value(k, j, d);
        if (options.mask) {
          const double m = value(x[3], i, j);
          s += *options.mask != kBool ? m : m != 0 ? 0 : -kInf;
        }
        p[size_t(j)] = s;
        peak = std::max(peak, s);
      }
      for (double& s : p) sum += s = peak == -kInf ? 0 : std::exp(s - peak);
      for (int64_t j = 0; j < S && sum > 0; ++j) {
        const uint64_t element = uint64_t((b * T + i) * S + j);
        const uint32_t word = philox({kMaskSeed, 0}, element / 4).word[element % 4];
        if (uniform_float(word) < float(options.dropout_p)) continue;
        const double weight = p[size_t(j)] / sum / (1 - options.dropout_p);
        for (int64_t d = 0; d < Dv; ++d) out[size_t(d)] += weight * value(v, j, d);
      }
      y.v.insert(y.v.end(), out.begin(), out.end());
    }
  }
  return y;
}

Row row(const std::string& variant, const Options& options,
        std::vector<std::vector<Shape>> samples) {
  Row row{.name = "scaled_dot_product_attention",
          .variant = variant,
          .f =
              [options](const Tensors& x) {
                Generator generator(kMaskSeed);
                return scaled_dot_product_attention(x[0], x[1], x[2],
                                                    {.attn_mask = options.mask ? x[3] : Tensor(),
                                                     .dropout_p = options.dropout_p,
                                                     .is_causal = options.causal,
                                                     .scale = options.scale,
                                                     .generator = &generator});
              },
          .reference = [options](const std::vector<Array>& x) { return attention(x, options); },
          .samples = std::move(samples),
          .dtypes = floating(),
          .tolerance = {.float32 = 1e-5, .float16 = 3e-3, .bfloat16 = 2e-2}};
  if (options.mask == kBool) {
    row.domains = {Domain(), Domain(), Domain(), {-1, 1, 0, kBool}};
  }
  return row;
}

// Keys and values [heads, S, D] have fewer heads than the queries. Each head serves several
// consecutive query heads.
Row grouped_row(const std::string& variant, const Options& options,
                std::vector<std::vector<Shape>> samples) {
  Row grouped = row(variant, options, std::move(samples));
  grouped.f = [options](const Tensors& x) {
    Generator generator(kMaskSeed);
    return scaled_dot_product_attention(x[0], x[1], x[2],
                                        {.attn_mask = options.mask ? x[3] : Tensor(),
                                         .dropout_p = options.dropout_p,
                                         .is_causal = options.causal,
                                         .scale = options.scale,
                                         .enable_gqa = true,
                                         .generator = &generator});
  };
  grouped.reference = [options](std::vector<Array> x) {
    const int first = x[0].shape.size() - 3;
    for (Array* a : {&x[1], &x[2]}) {
      Shape shape = a->shape;
      shape[first] = x[0].shape[first];
      const int64_t group = shape[first] / a->shape[first];
      *a = gathered(*a, shape, [&](Shape at) {
        at[first] /= group;
        return at;
      });
    }
    return attention(x, options);
  };
  return grouped;
}

std::vector<Shape> tiny() { return {{1, 2, 3}, {1, 3, 3}, {1, 3, 2}}; }
std::vector<Shape> with_mask(std::vector<Shape> shapes, const Shape& mask) {
  shapes.push_back(mask);
  return shapes;
}

// Splits qkv [B, T, 3 C] into parts of H heads and applies attention.
Array packed(const std::vector<Array>& x, int64_t H, const Options& options) {
  const Shape& shape = x[0].shape;
  const int64_t B = shape[0], T = shape[1], C = shape[2] / 3, D = C / H;
  std::vector<Array> parts(3, Array{{B, H, T, D}, std::vector<double>(size_t(B * T * C))});
  const auto by_head = [&](int64_t i) {  // position of element i of [B, T, C] in [B, H, T, D]
    const int64_t d = i % D, h = i / D % H, t = i / C % T, b = i / (C * T);
    return size_t(((b * H + h) * T + t) * D + d);
  };
  for (int64_t i = 0; i < B * T * C; ++i) {
    for (int64_t p = 0; p < 3; ++p) {
      parts[size_t(p)].v[by_head(i)] = x[0].v[size_t(i / C * 3 * C + p * C + i % C)];
    }
  }
  const Array y = attention(parts, options);
  Array out{{B, T, C}, {}};
  for (int64_t i = 0; i < B * T * C; ++i) out.v.push_back(y.v[by_head(i)]);
  return out;
}

Row packed_row(const std::string& variant, int64_t heads, const Options& options,
               std::vector<std::vector<Shape>> samples) {
  return {.name = "packed_attention",
          .variant = variant,
          .f =
              [=](const Tensors& x) {
                Generator generator(kMaskSeed);
                return packed_attention(x[0], heads,
                                        {.dropout_p = options.dropout_p,
                                         .is_causal = options.causal,
                                         .scale = options.scale,
                                         .generator = &generator});
              },
          .reference = [=](const std::vector<Array>& x) { return packed(x, heads, options); },
          .samples = std::move(samples),
          .dtypes = floating(),
          .tolerance = {.float32 = 1e-5, .float16 = 3e-3, .bfloat16 = 2e-2}};
}

std::vector<Refusal> packed_refusals() {
  const char* sizes = "packed_attention: expected qkv [B, T, 3 * n_head * head_dim], but got ";
  const auto refused = [](const char* what, const Shape& shape, int64_t heads, DType dtype,
                          double dropout_p, const char* text) {
    return Refusal{what,
                   [=](Device d) {
                     return packed_attention(ones(shape, {.dtype = dtype, .device = d}), heads,
                                             {.dropout_p = dropout_p});
                   },
                   text};
  };
  return {
      refused("width", {2, 3, 16}, 2, kFloat32, 0, sizes),
      refused("heads", {2, 3, 12}, 0, kFloat32, 0, sizes),
      refused("two dimensions", {3, 12}, 2, kFloat32, 0, sizes),
      refused("integers", {2, 3, 12}, 2, kInt64, 0, "expected scalar type Float but found Long"),
      refused("probability", {2, 3, 12}, 2, kFloat32, -0.5,
              "dropout probability has to be between 0 and 1, but got -0.5")};
}

std::vector<Refusal> refusals() {
  struct Case {
    const char* what;
    std::vector<Shape> shapes;
    DType dtype, key_dtype;
    std::optional<DType> mask;
    double dropout_p;
    bool causal;
    const char* text;
  };
  const Shape q{2, 3, 4}, k{2, 5, 4}, v{2, 5, 4}, mask{3, 5};
  const std::vector<Case> cases = {
      {"one dimension",
       {{4}, {4}, {4}},
       kFloat32,
       kFloat32,
       {},
       0,
       false,
       "Expected query, key, and value to all be  at least 2 dimensional, but got query.dim: 1 "
       "key.dim: 1 and value.dim: 1 instead."},
      {"two dtypes",
       {q, k, v},
       kFloat16,
       kBFloat16,
       {},
       0,
       false,
       "Expected query, key, and value to have the same dtype, but got query.dtype: c10::Half "
       "key.dtype: c10::BFloat16 and value.dtype: c10::Half instead."},
      {"integers",
       {q, k, v},
       kInt64,
       kInt64,
       {},
       0,
       false,
       "expected scalar type Float but found Long"},
      {"sizes of query and key",
       {q, {2, 5, 6}, v},
       kFloat32,
       kFloat32,
       {},
       0,
       false,
       "Expected size for first two dimensions of batch2 tensor to be: [2, 4] but got: [2, 6]."},
      {"lengths of key and value",
       {q, k, {2, 6, 4}},
       kFloat32,
       kFloat32,
       {},
       0,
       false,
       "Expected size for first two dimensions of batch2 tensor to be: [2, 5] but got: [2, 6]."},
      {"batches",
       {q, {3, 5, 4}, {3, 5, 4}},
       kFloat32,
       kFloat32,
       {},
       0,
       false,
       "The size of tensor a (2) must match the size of tensor b (3) at non-singleton dimension 0"},
      {"mask and causal",
       {q, k, v, mask},
       kFloat32,
       kFloat32,
       kBool,
       0,
       true,
       "scaled_dot_product_attention: Explicit attn_mask should not be set when is_causal is true"},
      {"integer mask",
       {q, k, v, mask},
       kFloat32,
       kFloat32,
       kInt64,
       0,
       false,
       "Expected attn_mask dtype to be bool or float or to match query dtype, but got "
       "attn_mask.dtype: long int and  query.dtype: float instead."},
      {"mask of another size",
       {q, k, v, {3, 4}},
       kFloat32,
       kFloat32,
       kBool,
       0,
       false,
       "The size of tensor a (5) must match the size of tensor b (4) at non-singleton dimension 2"},
      {"mask of a larger batch",
       {{1, 3, 4}, {1, 5, 4}, {1, 5, 4}, {2, 3, 5}},
       kFloat32,
       kFloat32,
       kBool,
       0,
       false,
       "output with shape [1, 3, 5] doesn't match the broadcast shape [2, 3, 5]"},
      {"probability",
       {q, k, v},
       kFloat32,
       kFloat32,
       {},
       1.5,
       false,
       "dropout probability has to be between 0 and 1, but got 1.5"}};
  std::vector<Refusal> out;
  for (const Case& c : cases) {
    out.push_back({c.what,
                   [c](Device d) {
                     const auto made = [&](size_t i, DType t) {
                       return ones(c.shapes[i], {.dtype = t, .device = d});
                     };
                     return scaled_dot_product_attention(
                         made(0, c.dtype), made(1, c.key_dtype), made(2, c.dtype),
                         {.attn_mask = c.mask ? made(3, *c.mask) : Tensor(),
                          .dropout_p = c.dropout_p,
                          .is_causal = c.causal});
                   },
                   c.text});
  }
  return out;
}

}  // namespace

std::vector<Row> attention_rows() {
  const std::vector<Shape> small{{2, 5, 3}, {2, 4, 3}, {2, 4, 5}};
  const std::vector<Shape> beyond_a_tile{{70, 17}, {130, 17}, {130, 3}};
  const std::vector<Shape> wide{{1, 66, 70}, {1, 35, 70}, {1, 35, 130}};
  const std::vector<Shape> heads{{2, 2, 5, 4}, {2, 2, 7, 4}, {2, 2, 7, 4}};
  std::vector<Row> rows = {
      row("", {},
          {tiny(),
           {{3, 2}, {4, 2}, {4, 1}},
           small,
           beyond_a_tile,
           wide,
           heads,
           {{2, 1, 3, 2}, {3, 4, 2}, {1, 1, 4, 2}},
           {{0, 3, 2}, {0, 4, 2}, {0, 4, 2}},
           {{2, 0, 3}, {2, 4, 3}, {2, 4, 3}},
           {{2, 3, 4}, {2, 0, 4}, {2, 0, 5}}}),
      row("causal", {.causal = true},
          {tiny(),
           {{4, 2}, {2, 2}, {2, 3}},
           small,
           beyond_a_tile,
           {{130, 3}, {70, 3}, {70, 5}},
           heads}),
      row("scale", {.scale = 0.3}, {tiny(), small}),
      row("bool mask", {.mask = kBool},
          {with_mask(tiny(), {2, 3}), with_mask(tiny(), {1, 2, 1}), with_mask(small, {2, 5, 4}),
           with_mask(heads, {2, 1, 1, 7}), with_mask(heads, {2, 5, 1}), with_mask(heads, {7}),
           with_mask(beyond_a_tile, {70, 130}), with_mask(small, {})}),
      row("float mask", {.mask = kFloat64},
          {with_mask(tiny(), {2, 3}), with_mask(tiny(), {3}), with_mask(heads, {2, 1, 5, 7}),
           with_mask(beyond_a_tile, {70, 130})}),
      row("dropout", {.dropout_p = kDropped},
          {tiny(), {{2, 3, 2}, {2, 4, 2}, {2, 4, 3}}, small, beyond_a_tile, heads}),
      row("dropout, causal", {.causal = true, .dropout_p = kDropped},
          {tiny(), small, {{2, 36, 24}, {2, 68, 24}, {2, 68, 24}}}),
      packed_row("", 2, {}, {{{1, 2, 6}}, {{2, 5, 12}}, {{2, 0, 12}}, {{1, 70, 48}}}),
      packed_row("causal, scale", 1, {.causal = true, .scale = 0.3}, {{{1, 2, 6}}, {{1, 67, 24}}}),
      packed_row("dropout, causal", 3, {.causal = true, .dropout_p = kDropped},
                 {{{1, 3, 18}}, {{1, 68, 72}}, {{0, 4, 18}}}),
  };
  const std::vector<Shape> two_heads{{2, 4, 3, 2}, {2, 2, 5, 2}, {2, 2, 5, 3}};
  for (const Row& more :
       {grouped_row("groups", {},
                    {{{2, 1, 2}, {1, 2, 2}, {1, 2, 2}},
                     two_heads,
                     {{6, 4, 2}, {2, 3, 2}, {3, 3, 1}},
                     {{1, 8, 70, 16}, {1, 2, 40, 16}, {1, 2, 40, 16}}}),
        grouped_row("groups, causal", {.causal = true},
                    {two_heads, {{2, 6, 70, 16}, {2, 3, 70, 16}, {2, 3, 70, 16}}}),
        grouped_row("groups, mask", {.mask = kFloat64},
                    {with_mask(two_heads, {2, 4, 3, 5}), with_mask(two_heads, {2, 1, 3, 1}),
                     with_mask(two_heads, {3, 5})}),
        grouped_row("groups, dropout", {.dropout_p = kDropped}, {two_heads})}) {
    rows.push_back(more);
  }
  rows[0].refusals = refusals();
  rows[0].refusals.push_back(
      {"heads that do not divide",
       [](Device d) {
         const Tensor q = ones({4, 3, 2}, {.device = d}), k = ones({3, 3, 2}, {.device = d});
         return scaled_dot_product_attention(q, k, k, {.enable_gqa = true});
       },
       "Number of heads in key and value must divide the number of heads in"});
  rows[7].refusals = packed_refusals();
  rows[0].bench = {{48, 256, 64}, {48, 256, 64}, {48, 256, 64}};
  rows[0].flops = [](const std::vector<Shape>& s) {
    return 2.0 * double(s[0].numel() * s[1][1] + s[0][0] * s[0][1] * s[2][1] * s[2][2]);
  };
  return rows;
}

}  // namespace taper::v0::test

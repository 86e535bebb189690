// The methods of Tensor that are operators: x.exp() calls exp(x), whose contract is documented at
// the function. The functions of the headers named below have a method if their first argument is a
// tensor. The method takes the other arguments. Only functions for which PyTorch has no method lack
// one; a test compares both. The method is defined in the source of the function.
//
// framework/tensor/tensor.h includes this file within class Tensor, and no other file may include
// it.
#pragma once

// --- autograd/ops/binary_ops.h ---
[[nodiscard]] Tensor add(const Tensor& b, Scalar alpha = 1) const;
[[nodiscard]] Tensor sub(const Tensor& b, Scalar alpha = 1) const;
[[nodiscard]] Tensor mul(const Tensor& b) const;
[[nodiscard]] Tensor div(const Tensor& b) const;
[[nodiscard]] Tensor div(const Tensor& b, RoundingMode rounding_mode) const;
[[nodiscard]] Tensor floor_divide(const Tensor& b) const;
[[nodiscard]] Tensor remainder(const Tensor& b) const;
[[nodiscard]] Tensor fmod(const Tensor& b) const;
[[nodiscard]] Tensor pow(const Tensor& exponent) const;
[[nodiscard]] Tensor pow(Scalar exponent) const;
[[nodiscard]] Tensor atan2(const Tensor& x) const;
[[nodiscard]] Tensor logaddexp(const Tensor& b) const;
[[nodiscard]] Tensor xlogy(const Tensor& b) const;
[[nodiscard]] Tensor lerp(const Tensor& end, const Tensor& weight) const;
[[nodiscard]] Tensor lerp(const Tensor& end, Scalar weight) const;
[[nodiscard]] Tensor addcmul(const Tensor& a, const Tensor& b, Scalar value = 1) const;
[[nodiscard]] Tensor addcdiv(const Tensor& a, const Tensor& b, Scalar value = 1) const;
[[nodiscard]] Tensor maximum(const Tensor& b) const;
[[nodiscard]] Tensor minimum(const Tensor& b) const;
[[nodiscard]] Tensor eq(const Tensor& b) const;
[[nodiscard]] Tensor ne(const Tensor& b) const;
[[nodiscard]] Tensor lt(const Tensor& b) const;
[[nodiscard]] Tensor le(const Tensor& b) const;
[[nodiscard]] Tensor gt(const Tensor& b) const;
[[nodiscard]] Tensor ge(const Tensor& b) const;
[[nodiscard]] Tensor logical_and(const Tensor& b) const;
[[nodiscard]] Tensor logical_or(const Tensor& b) const;
[[nodiscard]] Tensor logical_xor(const Tensor& b) const;
[[nodiscard]] Tensor bitwise_and(const Tensor& b) const;
[[nodiscard]] Tensor bitwise_or(const Tensor& b) const;
[[nodiscard]] Tensor bitwise_xor(const Tensor& b) const;
[[nodiscard]] Tensor isclose(const Tensor& b, RealArg rtol = 1e-5, RealArg atol = 1e-8,
                             BoolArg equal_nan = false) const;
[[nodiscard]] Tensor isclose(const Tensor& b, const CloseOptions& options) const;
[[nodiscard]] bool allclose(const Tensor& b, RealArg rtol = 1e-5, RealArg atol = 1e-8,
                            BoolArg equal_nan = false) const;
[[nodiscard]] bool allclose(const Tensor& b, const CloseOptions& options) const;
[[nodiscard]] bool equal(const Tensor& b) const;
[[nodiscard]] Tensor add(Scalar b) const;
[[nodiscard]] Tensor sub(Scalar b) const;
[[nodiscard]] Tensor mul(Scalar b) const;
[[nodiscard]] Tensor div(Scalar b) const;
[[nodiscard]] Tensor div(Scalar b, RoundingMode rounding_mode) const;
[[nodiscard]] Tensor floor_divide(Scalar b) const;
[[nodiscard]] Tensor remainder(Scalar b) const;
[[nodiscard]] Tensor fmod(Scalar b) const;
[[nodiscard]] Tensor atan2(Scalar x) const;
[[nodiscard]] Tensor logaddexp(Scalar b) const;
[[nodiscard]] Tensor xlogy(Scalar b) const;
[[nodiscard]] Tensor bitwise_and(Scalar b) const;
[[nodiscard]] Tensor bitwise_or(Scalar b) const;
[[nodiscard]] Tensor bitwise_xor(Scalar b) const;
[[nodiscard]] Tensor maximum(Scalar b) const;
[[nodiscard]] Tensor minimum(Scalar b) const;
[[nodiscard]] Tensor eq(Scalar b) const;
[[nodiscard]] Tensor ne(Scalar b) const;
[[nodiscard]] Tensor lt(Scalar b) const;
[[nodiscard]] Tensor le(Scalar b) const;
[[nodiscard]] Tensor gt(Scalar b) const;
[[nodiscard]] Tensor ge(Scalar b) const;

// --- autograd/ops/index/index_ops.h ---
[[nodiscard]] Tensor index_select(IntArg dim, const Tensor& index) const;
[[nodiscard]] Tensor gather(IntArg dim, const Tensor& index) const;
[[nodiscard]] Tensor masked_fill(const Tensor& mask, Scalar value) const;
[[nodiscard]] Tensor tril(IntArg diagonal = 0) const;
[[nodiscard]] Tensor triu(IntArg diagonal = 0) const;
[[nodiscard]] Tensor flip(const Shape& dims) const;
[[nodiscard]] Tensor pad(const std::vector<int64_t>& padding, Scalar value = 0) const;
[[nodiscard]] struct Sorted sort(IntArg dim = -1, BoolArg descending = false) const;
[[nodiscard]] Tensor argsort(IntArg dim = -1, BoolArg descending = false) const;
[[nodiscard]] struct Sorted topk(IntArg k, IntArg dim = -1, BoolArg largest = true) const;
[[nodiscard]] Tensor cumsum(IntArg dim, std::optional<DType> dtype = std::nullopt) const;
[[nodiscard]] Tensor cumprod(IntArg dim, std::optional<DType> dtype = std::nullopt) const;
[[nodiscard]] Tensor logcumsumexp(IntArg dim) const;
[[nodiscard]] Tensor diff(IntArg n = 1, IntArg dim = -1, const Tensor& prepend = {},
                          const Tensor& append = {}) const;
[[nodiscard]] Tensor diff(const DiffOptions& options) const;

// --- autograd/ops/index/indexing.h ---
[[nodiscard]] Tensor index(const Tensor& index) const;
[[nodiscard]] Tensor index(const std::vector<TensorIndex>& indices) const;
[[nodiscard]] Tensor index(std::initializer_list<TensorIndex> indices) const;
Tensor index_put_(const std::vector<TensorIndex>& indices, const Tensor& value,
                  BoolArg accumulate = false) const;
Tensor index_put_(const std::vector<TensorIndex>& indices, Scalar value) const;
[[nodiscard]] Tensor index_put(const std::vector<TensorIndex>& indices, const Tensor& value,
                               BoolArg accumulate = false) const;
[[nodiscard]] Tensor masked_select(const Tensor& mask) const;
[[nodiscard]] Tensor masked_scatter(const Tensor& mask, const Tensor& source) const;
[[nodiscard]] Tensor nonzero() const;

// --- autograd/ops/index/inplace.h ---
Tensor copy_(const Tensor& source, BoolArg non_blocking = false) const;
Tensor fill_(Scalar value) const;
Tensor uniform_(RealArg low = 0, RealArg high = 1, Generator* generator = nullptr) const;
Tensor normal_(RealArg mean = 0, RealArg std = 1, Generator* generator = nullptr) const;
Tensor bernoulli_(RealArg p = 0.5, Generator* generator = nullptr) const;

// --- autograd/ops/matmul_ops.h ---
[[nodiscard]] Tensor matmul(const Tensor& b) const;
[[nodiscard]] Tensor mm(const Tensor& b) const;
[[nodiscard]] Tensor bmm(const Tensor& b) const;
[[nodiscard]] Tensor addmm(const Tensor& a, const Tensor& b, Scalar beta = 1,
                           Scalar alpha = 1) const;
[[nodiscard]] Tensor baddbmm(const Tensor& a, const Tensor& b, Scalar beta = 1,
                             Scalar alpha = 1) const;
[[nodiscard]] Tensor tensordot(const Tensor& b, IntArg dims = 2) const;
[[nodiscard]] Tensor tensordot(const Tensor& b, const Shape& dims_a, const Shape& dims_b) const;
[[nodiscard]] Tensor outer(const Tensor& b) const;
[[nodiscard]] Tensor dot(const Tensor& b) const;
[[nodiscard]] Tensor cross(const Tensor& b, std::optional<IntArg> dim = std::nullopt) const;

// --- autograd/ops/index/order.h ---
[[nodiscard]] Tensor max() const;
[[nodiscard]] Tensor min() const;
[[nodiscard]] struct Sorted max(IntArg dim, BoolArg keepdim = false) const;
[[nodiscard]] struct Sorted min(IntArg dim, BoolArg keepdim = false) const;
[[nodiscard]] Tensor max(const Tensor& b) const;
[[nodiscard]] Tensor min(const Tensor& b) const;
[[nodiscard]] Tensor median() const;
[[nodiscard]] struct Sorted median(IntArg dim, BoolArg keepdim = false) const;
[[nodiscard]] Tensor quantile(const Tensor& q, std::optional<IntArg> dim = std::nullopt,
                              BoolArg keepdim = false,
                              QuantileMode interpolation = QuantileMode::kLinear) const;
[[nodiscard]] Tensor quantile(RealArg q, std::optional<IntArg> dim = std::nullopt,
                              BoolArg keepdim = false,
                              QuantileMode interpolation = QuantileMode::kLinear) const;
[[nodiscard]] Tensor quantile(const Tensor& q, const QuantileOptions& options) const;
[[nodiscard]] Tensor quantile(RealArg q, const QuantileOptions& options) const;

// --- autograd/ops/reduce_ops.h ---
[[nodiscard]] Tensor sum(std::optional<DType> dtype = std::nullopt) const;
[[nodiscard]] Tensor sum(const Shape& dims, BoolArg keepdim = false,
                         std::optional<DType> dtype = std::nullopt) const;
[[nodiscard]] Tensor mean(std::optional<DType> dtype = std::nullopt) const;
[[nodiscard]] Tensor mean(const Shape& dims, BoolArg keepdim = false,
                          std::optional<DType> dtype = std::nullopt) const;
[[nodiscard]] Tensor prod(std::optional<DType> dtype = std::nullopt) const;
[[nodiscard]] Tensor prod(IntArg dim, BoolArg keepdim = false,
                          std::optional<DType> dtype = std::nullopt) const;
[[nodiscard]] Tensor var(const Shape& dims = {}, RealArg correction = 1,
                         BoolArg keepdim = false) const;
[[nodiscard]] Tensor std(const Shape& dims = {}, RealArg correction = 1,
                         BoolArg keepdim = false) const;
[[nodiscard]] struct VarMean var_mean(const Shape& dims = {}, RealArg correction = 1,
                                      BoolArg keepdim = false) const;
[[nodiscard]] struct StdMean std_mean(const Shape& dims = {}, RealArg correction = 1,
                                      BoolArg keepdim = false) const;
[[nodiscard]] Tensor norm(RealArg p = 2, const Shape& dims = {}, BoolArg keepdim = false,
                          std::optional<DType> dtype = std::nullopt) const;
[[nodiscard]] Tensor norm(const NormOptions& options) const;
[[nodiscard]] Tensor cdist(const Tensor& b, RealArg p = 2) const;
[[nodiscard]] Tensor logsumexp(const Shape& dims, BoolArg keepdim = false) const;
[[nodiscard]] Tensor softmax(IntArg dim, std::optional<DType> dtype = std::nullopt) const;
[[nodiscard]] Tensor log_softmax(IntArg dim, std::optional<DType> dtype = std::nullopt) const;
[[nodiscard]] Tensor amax(const Shape& dims = {}, BoolArg keepdim = false) const;
[[nodiscard]] Tensor amin(const Shape& dims = {}, BoolArg keepdim = false) const;
[[nodiscard]] Tensor argmax() const;
[[nodiscard]] Tensor argmin() const;
[[nodiscard]] Tensor argmax(IntArg dim, BoolArg keepdim = false) const;
[[nodiscard]] Tensor argmin(IntArg dim, BoolArg keepdim = false) const;
[[nodiscard]] Tensor all(const Shape& dims = {}, BoolArg keepdim = false) const;
[[nodiscard]] Tensor any(const Shape& dims = {}, BoolArg keepdim = false) const;

// --- autograd/ops/index/scatter.h ---
[[nodiscard]] Tensor scatter(IntArg dim, const Tensor& index, const Tensor& src) const;
[[nodiscard]] Tensor scatter(IntArg dim, const Tensor& index, Scalar value) const;
[[nodiscard]] Tensor scatter_add(IntArg dim, const Tensor& index, const Tensor& src) const;
[[nodiscard]] Tensor scatter_reduce(IntArg dim, const Tensor& index, const Tensor& src,
                                    ScatterReduce reduce, BoolArg include_self = true) const;
[[nodiscard]] Tensor index_add(IntArg dim, const Tensor& index, const Tensor& source,
                               Scalar alpha = 1) const;
[[nodiscard]] Tensor index_copy(IntArg dim, const Tensor& index, const Tensor& source) const;
[[nodiscard]] Tensor index_fill(IntArg dim, const Tensor& index, Scalar value) const;
Tensor scatter_(IntArg dim, const Tensor& index, const Tensor& src) const;
Tensor scatter_(IntArg dim, const Tensor& index, Scalar value) const;
Tensor scatter_add_(IntArg dim, const Tensor& index, const Tensor& src) const;
Tensor index_add_(IntArg dim, const Tensor& index, const Tensor& source, Scalar alpha = 1) const;
Tensor index_copy_(IntArg dim, const Tensor& index, const Tensor& source) const;
Tensor index_fill_(IntArg dim, const Tensor& index, Scalar value) const;

// --- autograd/ops/index/search.h ---
[[nodiscard]] Tensor count_nonzero(const Shape& dims = {}) const;
[[nodiscard]] Tensor bincount(const Tensor& weights = {}, IntArg minlength = 0) const;
[[nodiscard]] Tensor repeat_interleave(IntArg repeats,
                                       std::optional<IntArg> dim = std::nullopt) const;
[[nodiscard]] Tensor repeat_interleave(const Tensor& repeats,
                                       std::optional<IntArg> dim = std::nullopt,
                                       std::optional<IntArg> output_size = std::nullopt) const;
[[nodiscard]] Tensor take_along_dim(const Tensor& indices,
                                    std::optional<IntArg> dim = std::nullopt) const;
[[nodiscard]] Tensor searchsorted(const Tensor& x, BoolArg right = false) const;
[[nodiscard]] Tensor searchsorted(Scalar value, BoolArg right = false) const;
[[nodiscard]] Tensor bucketize(const Tensor& boundaries, BoolArg right = false) const;
[[nodiscard]] struct Uniques unique(BoolArg sorted = true, BoolArg return_inverse = false,
                                    BoolArg return_counts = false) const;
[[nodiscard]] struct Uniques unique(const UniqueOptions& options) const;

// --- autograd/ops/shape_ops.h ---
[[nodiscard]] Tensor view(const Shape& shape) const;
[[nodiscard]] Tensor reshape(const Shape& shape) const;
[[nodiscard]] Tensor view_as(const Tensor& other) const;
[[nodiscard]] Tensor flatten(IntArg start_dim = 0, IntArg end_dim = -1) const;
[[nodiscard]] Tensor unflatten(IntArg dim, const Shape& sizes) const;
[[nodiscard]] Tensor squeeze() const;
[[nodiscard]] Tensor squeeze(const Shape& dims) const;
[[nodiscard]] Tensor unsqueeze(IntArg dim) const;
[[nodiscard]] Tensor transpose(IntArg dim0, IntArg dim1) const;
[[nodiscard]] Tensor permute(const Shape& order) const;
[[nodiscard]] Tensor movedim(IntArg source, IntArg destination) const;
[[nodiscard]] Tensor expand(const Shape& shape) const;
[[nodiscard]] Tensor expand_as(const Tensor& other) const;
[[nodiscard]] Tensor narrow(IntArg dim, IntArg start, IntArg length) const;
[[nodiscard]] Tensor select(IntArg dim, IntArg index) const;
[[nodiscard]] Tensor diagonal(IntArg offset = 0, IntArg dim1 = 0, IntArg dim2 = 1) const;
[[nodiscard]] Tensor diagonal(const DiagonalOptions& options) const;
[[nodiscard]] Tensor slice(IntArg dim = 0, std::optional<IntArg> start = std::nullopt,
                           std::optional<IntArg> end = std::nullopt, IntArg step = 1) const;
[[nodiscard]] Tensor slice(const SliceOptions& options) const;
[[nodiscard]] std::vector<Tensor> split(IntArg size, IntArg dim = 0) const;
[[nodiscard]] std::vector<Tensor> split(const std::vector<int64_t>& sizes, IntArg dim = 0) const;
[[nodiscard]] std::vector<Tensor> chunk(IntArg chunks, IntArg dim = 0) const;
[[nodiscard]] std::vector<Tensor> tensor_split(IntArg sections, IntArg dim = 0) const;
[[nodiscard]] std::vector<Tensor> tensor_split(const std::vector<int64_t>& indices,
                                               IntArg dim = 0) const;
[[nodiscard]] std::vector<Tensor> unbind(IntArg dim = 0) const;
[[nodiscard]] Tensor roll(const Shape& shifts, const Shape& dims = {}) const;
[[nodiscard]] Tensor diag_embed(IntArg offset = 0, IntArg dim1 = -2, IntArg dim2 = -1) const;
[[nodiscard]] Tensor diag_embed(const DiagEmbedOptions& options) const;
[[nodiscard]] Tensor diag(IntArg diagonal = 0) const;
[[nodiscard]] Tensor repeat(const Shape& repeats) const;
[[nodiscard]] Tensor clone() const;
[[nodiscard]] Tensor contiguous() const;

// --- autograd/ops/unary_ops.h ---
[[nodiscard]] Tensor neg() const;
[[nodiscard]] Tensor abs() const;
[[nodiscard]] Tensor sign() const;
[[nodiscard]] Tensor square() const;
[[nodiscard]] Tensor sqrt() const;
[[nodiscard]] Tensor rsqrt() const;
[[nodiscard]] Tensor reciprocal() const;
[[nodiscard]] Tensor exp() const;
[[nodiscard]] Tensor expm1() const;
[[nodiscard]] Tensor log() const;
[[nodiscard]] Tensor log2() const;
[[nodiscard]] Tensor log10() const;
[[nodiscard]] Tensor exp2() const;
[[nodiscard]] Tensor log1p() const;
[[nodiscard]] Tensor sin() const;
[[nodiscard]] Tensor cos() const;
[[nodiscard]] Tensor tan() const;
[[nodiscard]] Tensor asin() const;
[[nodiscard]] Tensor acos() const;
[[nodiscard]] Tensor atan() const;
[[nodiscard]] Tensor sinh() const;
[[nodiscard]] Tensor cosh() const;
[[nodiscard]] Tensor tanh() const;
[[nodiscard]] Tensor sigmoid() const;
[[nodiscard]] Tensor erf() const;
[[nodiscard]] Tensor erfinv() const;
[[nodiscard]] Tensor lgamma() const;
[[nodiscard]] Tensor digamma() const;
[[nodiscard]] Tensor floor() const;
[[nodiscard]] Tensor ceil() const;
[[nodiscard]] Tensor round() const;
[[nodiscard]] Tensor trunc() const;
[[nodiscard]] Tensor frac() const;
[[nodiscard]] Tensor relu() const;
[[nodiscard]] Tensor leaky_relu(RealArg negative_slope = 0.01) const;
[[nodiscard]] Tensor elu(RealArg alpha = 1) const;
[[nodiscard]] Tensor gelu(GeluApproximate approximate = GeluApproximate::kNone) const;
[[nodiscard]] Tensor silu() const;
[[nodiscard]] Tensor softplus(RealArg beta = 1, RealArg threshold = 20) const;
[[nodiscard]] Tensor selu() const;
[[nodiscard]] Tensor celu(RealArg alpha = 1) const;
[[nodiscard]] Tensor hardsigmoid() const;
[[nodiscard]] Tensor hardswish() const;
[[nodiscard]] Tensor mish() const;
[[nodiscard]] Tensor logsigmoid() const;
[[nodiscard]] Tensor softsign() const;
[[nodiscard]] Tensor tanhshrink() const;
[[nodiscard]] Tensor hardshrink(RealArg lambd = 0.5) const;
[[nodiscard]] Tensor softshrink(RealArg lambd = 0.5) const;
[[nodiscard]] Tensor glu(IntArg dim = -1) const;
[[nodiscard]] Tensor prelu(const Tensor& weight) const;
[[nodiscard]] Tensor clamp(std::optional<Scalar> min,
                           std::optional<Scalar> max = std::nullopt) const;
[[nodiscard]] Tensor clamp(const Tensor& min, const Tensor& max = {}) const;
[[nodiscard]] Tensor clamp_min(Scalar min) const;
[[nodiscard]] Tensor clamp_min(const Tensor& min) const;
[[nodiscard]] Tensor clamp_max(Scalar max) const;
[[nodiscard]] Tensor clamp_max(const Tensor& max) const;
[[nodiscard]] Tensor hardtanh(RealArg min_val = -1, RealArg max_val = 1) const;
[[nodiscard]] Tensor relu6() const;
[[nodiscard]] Tensor nan_to_num(RealArg nan = 0, std::optional<double> posinf = std::nullopt,
                                std::optional<double> neginf = std::nullopt) const;
[[nodiscard]] Tensor nan_to_num(const NanToNumOptions& options) const;
[[nodiscard]] Tensor logical_not() const;
[[nodiscard]] Tensor bitwise_not() const;
[[nodiscard]] Tensor isnan() const;
[[nodiscard]] Tensor isinf() const;
[[nodiscard]] Tensor isfinite() const;

// Made by scripts/methods.sh of the functions declared in autograd/ops/: do not edit.
#include "autograd/ops/binary.h"
#include "autograd/ops/index/index.h"
#include "autograd/ops/index/indexing.h"
#include "autograd/ops/index/order.h"
#include "autograd/ops/index/scatter.h"
#include "autograd/ops/index/search.h"
#include "autograd/ops/inplace.h"
#include "autograd/ops/matmul.h"
#include "autograd/ops/reduce.h"
#include "autograd/ops/shape.h"
#include "autograd/ops/unary.h"

namespace taper::inline v0 {

Tensor Tensor::add(const Tensor& b, Scalar alpha) const { return taper::add(*this, b, alpha); }
Tensor Tensor::sub(const Tensor& b, Scalar alpha) const { return taper::sub(*this, b, alpha); }
Tensor Tensor::mul(const Tensor& b) const { return taper::mul(*this, b); }
Tensor Tensor::div(const Tensor& b) const { return taper::div(*this, b); }
Tensor Tensor::div(const Tensor& b, const std::string& rounding_mode) const {
  return taper::div(*this, b, rounding_mode);
}
Tensor Tensor::floor_divide(const Tensor& b) const { return taper::floor_divide(*this, b); }
Tensor Tensor::remainder(const Tensor& b) const { return taper::remainder(*this, b); }
Tensor Tensor::fmod(const Tensor& b) const { return taper::fmod(*this, b); }
Tensor Tensor::pow(const Tensor& exponent) const { return taper::pow(*this, exponent); }
Tensor Tensor::pow(Scalar exponent) const { return taper::pow(*this, exponent); }
Tensor Tensor::atan2(const Tensor& x) const { return taper::atan2(*this, x); }
Tensor Tensor::logaddexp(const Tensor& b) const { return taper::logaddexp(*this, b); }
Tensor Tensor::xlogy(const Tensor& b) const { return taper::xlogy(*this, b); }
Tensor Tensor::lerp(const Tensor& end, const Tensor& weight) const {
  return taper::lerp(*this, end, weight);
}
Tensor Tensor::lerp(const Tensor& end, Scalar weight) const {
  return taper::lerp(*this, end, weight);
}
Tensor Tensor::addcmul(const Tensor& a, const Tensor& b, Scalar value) const {
  return taper::addcmul(*this, a, b, value);
}
Tensor Tensor::addcdiv(const Tensor& a, const Tensor& b, Scalar value) const {
  return taper::addcdiv(*this, a, b, value);
}
Tensor Tensor::maximum(const Tensor& b) const { return taper::maximum(*this, b); }
Tensor Tensor::minimum(const Tensor& b) const { return taper::minimum(*this, b); }
Tensor Tensor::eq(const Tensor& b) const { return taper::eq(*this, b); }
Tensor Tensor::ne(const Tensor& b) const { return taper::ne(*this, b); }
Tensor Tensor::lt(const Tensor& b) const { return taper::lt(*this, b); }
Tensor Tensor::le(const Tensor& b) const { return taper::le(*this, b); }
Tensor Tensor::gt(const Tensor& b) const { return taper::gt(*this, b); }
Tensor Tensor::ge(const Tensor& b) const { return taper::ge(*this, b); }
Tensor Tensor::logical_and(const Tensor& b) const { return taper::logical_and(*this, b); }
Tensor Tensor::logical_or(const Tensor& b) const { return taper::logical_or(*this, b); }
Tensor Tensor::logical_xor(const Tensor& b) const { return taper::logical_xor(*this, b); }
Tensor Tensor::bitwise_and(const Tensor& b) const { return taper::bitwise_and(*this, b); }
Tensor Tensor::bitwise_or(const Tensor& b) const { return taper::bitwise_or(*this, b); }
Tensor Tensor::bitwise_xor(const Tensor& b) const { return taper::bitwise_xor(*this, b); }
Tensor Tensor::isclose(const Tensor& b, double rtol, double atol, bool equal_nan) const {
  return taper::isclose(*this, b, rtol, atol, equal_nan);
}
bool Tensor::allclose(const Tensor& b, double rtol, double atol, bool equal_nan) const {
  return taper::allclose(*this, b, rtol, atol, equal_nan);
}
bool Tensor::equal(const Tensor& b) const { return taper::equal(*this, b); }
Tensor Tensor::add(Scalar b) const { return taper::add(*this, b); }
Tensor Tensor::sub(Scalar b) const { return taper::sub(*this, b); }
Tensor Tensor::mul(Scalar b) const { return taper::mul(*this, b); }
Tensor Tensor::div(Scalar b) const { return taper::div(*this, b); }
Tensor Tensor::div(Scalar b, const std::string& rounding_mode) const {
  return taper::div(*this, b, rounding_mode);
}
Tensor Tensor::floor_divide(Scalar b) const { return taper::floor_divide(*this, b); }
Tensor Tensor::remainder(Scalar b) const { return taper::remainder(*this, b); }
Tensor Tensor::fmod(Scalar b) const { return taper::fmod(*this, b); }
Tensor Tensor::atan2(Scalar x) const { return taper::atan2(*this, x); }
Tensor Tensor::logaddexp(Scalar b) const { return taper::logaddexp(*this, b); }
Tensor Tensor::xlogy(Scalar b) const { return taper::xlogy(*this, b); }
Tensor Tensor::bitwise_and(Scalar b) const { return taper::bitwise_and(*this, b); }
Tensor Tensor::bitwise_or(Scalar b) const { return taper::bitwise_or(*this, b); }
Tensor Tensor::bitwise_xor(Scalar b) const { return taper::bitwise_xor(*this, b); }
Tensor Tensor::maximum(Scalar b) const { return taper::maximum(*this, b); }
Tensor Tensor::minimum(Scalar b) const { return taper::minimum(*this, b); }
Tensor Tensor::eq(Scalar b) const { return taper::eq(*this, b); }
Tensor Tensor::ne(Scalar b) const { return taper::ne(*this, b); }
Tensor Tensor::lt(Scalar b) const { return taper::lt(*this, b); }
Tensor Tensor::le(Scalar b) const { return taper::le(*this, b); }
Tensor Tensor::gt(Scalar b) const { return taper::gt(*this, b); }
Tensor Tensor::ge(Scalar b) const { return taper::ge(*this, b); }
Tensor Tensor::index_select(int64_t dim, const Tensor& index) const {
  return taper::index_select(*this, dim, index);
}
Tensor Tensor::gather(int64_t dim, const Tensor& index) const {
  return taper::gather(*this, dim, index);
}
Tensor Tensor::masked_fill(const Tensor& mask, Scalar value) const {
  return taper::masked_fill(*this, mask, value);
}
Tensor Tensor::tril(int64_t diagonal) const { return taper::tril(*this, diagonal); }
Tensor Tensor::triu(int64_t diagonal) const { return taper::triu(*this, diagonal); }
Tensor Tensor::flip(const Shape& dims) const { return taper::flip(*this, dims); }
Tensor Tensor::pad(const std::vector<int64_t>& padding, Scalar value) const {
  return taper::pad(*this, padding, value);
}
Sorted Tensor::sort(int64_t dim, bool descending) const {
  return taper::sort(*this, dim, descending);
}
Tensor Tensor::argsort(int64_t dim, bool descending) const {
  return taper::argsort(*this, dim, descending);
}
Sorted Tensor::topk(int64_t k, int64_t dim, bool largest) const {
  return taper::topk(*this, k, dim, largest);
}
Tensor Tensor::cumsum(int64_t dim, std::optional<DType> dtype) const {
  return taper::cumsum(*this, dim, dtype);
}
Tensor Tensor::cumprod(int64_t dim, std::optional<DType> dtype) const {
  return taper::cumprod(*this, dim, dtype);
}
Tensor Tensor::index(const Tensor& index) const { return taper::index(*this, index); }
Tensor Tensor::index(const std::vector<TensorIndex>& indices) const {
  return taper::index(*this, indices);
}
Tensor Tensor::index(std::initializer_list<TensorIndex> indices) const {
  return taper::index(*this, indices);
}
Tensor Tensor::index_put_(const std::vector<TensorIndex>& indices, const Tensor& value,
                          bool accumulate) const {
  return taper::index_put_(*this, indices, value, accumulate);
}
Tensor Tensor::index_put_(const std::vector<TensorIndex>& indices, Scalar value) const {
  return taper::index_put_(*this, indices, value);
}
Tensor Tensor::index_put(const std::vector<TensorIndex>& indices, const Tensor& value,
                         bool accumulate) const {
  return taper::index_put(*this, indices, value, accumulate);
}
Tensor Tensor::masked_select(const Tensor& mask) const { return taper::masked_select(*this, mask); }
Tensor Tensor::masked_scatter(const Tensor& mask, const Tensor& source) const {
  return taper::masked_scatter(*this, mask, source);
}
Tensor Tensor::nonzero() const { return taper::nonzero(*this); }
Tensor Tensor::copy_(const Tensor& source, bool non_blocking) const {
  return taper::copy_(*this, source, non_blocking);
}
Tensor Tensor::fill_(Scalar value) const { return taper::fill_(*this, value); }
Tensor Tensor::uniform_(double low, double high, Generator* generator) const {
  return taper::uniform_(*this, low, high, generator);
}
Tensor Tensor::normal_(double mean, double std, Generator* generator) const {
  return taper::normal_(*this, mean, std, generator);
}
Tensor Tensor::bernoulli_(double p, Generator* generator) const {
  return taper::bernoulli_(*this, p, generator);
}
Tensor Tensor::matmul(const Tensor& b) const { return taper::matmul(*this, b); }
Tensor Tensor::mm(const Tensor& b) const { return taper::mm(*this, b); }
Tensor Tensor::bmm(const Tensor& b) const { return taper::bmm(*this, b); }
Tensor Tensor::addmm(const Tensor& a, const Tensor& b, Scalar beta, Scalar alpha) const {
  return taper::addmm(*this, a, b, beta, alpha);
}
Tensor Tensor::baddbmm(const Tensor& a, const Tensor& b, Scalar beta, Scalar alpha) const {
  return taper::baddbmm(*this, a, b, beta, alpha);
}
Tensor Tensor::tensordot(const Tensor& b, int64_t dims) const {
  return taper::tensordot(*this, b, dims);
}
Tensor Tensor::tensordot(const Tensor& b, const Shape& dims_a, const Shape& dims_b) const {
  return taper::tensordot(*this, b, dims_a, dims_b);
}
Tensor Tensor::outer(const Tensor& b) const { return taper::outer(*this, b); }
Tensor Tensor::max() const { return taper::max(*this); }
Tensor Tensor::min() const { return taper::min(*this); }
Sorted Tensor::max(int64_t dim, bool keepdim) const { return taper::max(*this, dim, keepdim); }
Sorted Tensor::min(int64_t dim, bool keepdim) const { return taper::min(*this, dim, keepdim); }
Tensor Tensor::max(const Tensor& b) const { return taper::max(*this, b); }
Tensor Tensor::min(const Tensor& b) const { return taper::min(*this, b); }
Tensor Tensor::median() const { return taper::median(*this); }
Sorted Tensor::median(int64_t dim, bool keepdim) const {
  return taper::median(*this, dim, keepdim);
}
Tensor Tensor::quantile(const Tensor& q, std::optional<int64_t> dim, bool keepdim) const {
  return taper::quantile(*this, q, dim, keepdim);
}
Tensor Tensor::quantile(const Tensor& q, std::optional<int64_t> dim, bool keepdim,
                        QuantileMode interpolation) const {
  return taper::quantile(*this, q, dim, keepdim, interpolation);
}
Tensor Tensor::quantile(double q, std::optional<int64_t> dim, bool keepdim) const {
  return taper::quantile(*this, q, dim, keepdim);
}
Tensor Tensor::quantile(double q, std::optional<int64_t> dim, bool keepdim,
                        QuantileMode interpolation) const {
  return taper::quantile(*this, q, dim, keepdim, interpolation);
}
Tensor Tensor::sum(std::optional<DType> dtype) const { return taper::sum(*this, dtype); }
Tensor Tensor::sum(const Shape& dims, bool keepdim, std::optional<DType> dtype) const {
  return taper::sum(*this, dims, keepdim, dtype);
}
Tensor Tensor::mean(std::optional<DType> dtype) const { return taper::mean(*this, dtype); }
Tensor Tensor::mean(const Shape& dims, bool keepdim, std::optional<DType> dtype) const {
  return taper::mean(*this, dims, keepdim, dtype);
}
Tensor Tensor::prod(std::optional<DType> dtype) const { return taper::prod(*this, dtype); }
Tensor Tensor::prod(int64_t dim, bool keepdim, std::optional<DType> dtype) const {
  return taper::prod(*this, dim, keepdim, dtype);
}
Tensor Tensor::var(const Shape& dims, double correction, bool keepdim) const {
  return taper::var(*this, dims, correction, keepdim);
}
Tensor Tensor::std(const Shape& dims, double correction, bool keepdim) const {
  return taper::std(*this, dims, correction, keepdim);
}
VarMean Tensor::var_mean(const Shape& dims, double correction, bool keepdim) const {
  return taper::var_mean(*this, dims, correction, keepdim);
}
StdMean Tensor::std_mean(const Shape& dims, double correction, bool keepdim) const {
  return taper::std_mean(*this, dims, correction, keepdim);
}
Tensor Tensor::norm(double p, const Shape& dims, bool keepdim, std::optional<DType> dtype) const {
  return taper::norm(*this, p, dims, keepdim, dtype);
}
Tensor Tensor::cdist(const Tensor& b, double p) const { return taper::cdist(*this, b, p); }
Tensor Tensor::logsumexp(const Shape& dims, bool keepdim) const {
  return taper::logsumexp(*this, dims, keepdim);
}
Tensor Tensor::softmax(int64_t dim, std::optional<DType> dtype) const {
  return taper::softmax(*this, dim, dtype);
}
Tensor Tensor::log_softmax(int64_t dim, std::optional<DType> dtype) const {
  return taper::log_softmax(*this, dim, dtype);
}
Tensor Tensor::amax(const Shape& dims, bool keepdim) const {
  return taper::amax(*this, dims, keepdim);
}
Tensor Tensor::amin(const Shape& dims, bool keepdim) const {
  return taper::amin(*this, dims, keepdim);
}
Tensor Tensor::argmax() const { return taper::argmax(*this); }
Tensor Tensor::argmin() const { return taper::argmin(*this); }
Tensor Tensor::argmax(int64_t dim, bool keepdim) const {
  return taper::argmax(*this, dim, keepdim);
}
Tensor Tensor::argmin(int64_t dim, bool keepdim) const {
  return taper::argmin(*this, dim, keepdim);
}
Tensor Tensor::all(const Shape& dims, bool keepdim) const {
  return taper::all(*this, dims, keepdim);
}
Tensor Tensor::any(const Shape& dims, bool keepdim) const {
  return taper::any(*this, dims, keepdim);
}
Tensor Tensor::scatter(int64_t dim, const Tensor& index, const Tensor& src) const {
  return taper::scatter(*this, dim, index, src);
}
Tensor Tensor::scatter(int64_t dim, const Tensor& index, Scalar value) const {
  return taper::scatter(*this, dim, index, value);
}
Tensor Tensor::scatter_add(int64_t dim, const Tensor& index, const Tensor& src) const {
  return taper::scatter_add(*this, dim, index, src);
}
Tensor Tensor::scatter_reduce(int64_t dim, const Tensor& index, const Tensor& src,
                              const std::string& reduce, bool include_self) const {
  return taper::scatter_reduce(*this, dim, index, src, reduce, include_self);
}
Tensor Tensor::index_add(int64_t dim, const Tensor& index, const Tensor& source,
                         Scalar alpha) const {
  return taper::index_add(*this, dim, index, source, alpha);
}
Tensor Tensor::index_copy(int64_t dim, const Tensor& index, const Tensor& source) const {
  return taper::index_copy(*this, dim, index, source);
}
Tensor Tensor::index_fill(int64_t dim, const Tensor& index, Scalar value) const {
  return taper::index_fill(*this, dim, index, value);
}
Tensor Tensor::scatter_(int64_t dim, const Tensor& index, const Tensor& src) const {
  return taper::scatter_(*this, dim, index, src);
}
Tensor Tensor::scatter_(int64_t dim, const Tensor& index, Scalar value) const {
  return taper::scatter_(*this, dim, index, value);
}
Tensor Tensor::scatter_add_(int64_t dim, const Tensor& index, const Tensor& src) const {
  return taper::scatter_add_(*this, dim, index, src);
}
Tensor Tensor::index_add_(int64_t dim, const Tensor& index, const Tensor& source,
                          Scalar alpha) const {
  return taper::index_add_(*this, dim, index, source, alpha);
}
Tensor Tensor::index_copy_(int64_t dim, const Tensor& index, const Tensor& source) const {
  return taper::index_copy_(*this, dim, index, source);
}
Tensor Tensor::index_fill_(int64_t dim, const Tensor& index, Scalar value) const {
  return taper::index_fill_(*this, dim, index, value);
}
Tensor Tensor::count_nonzero(const Shape& dims) const { return taper::count_nonzero(*this, dims); }
Tensor Tensor::bincount(const Tensor& weights, int64_t minlength) const {
  return taper::bincount(*this, weights, minlength);
}
Tensor Tensor::repeat_interleave(int64_t repeats, std::optional<int64_t> dim) const {
  return taper::repeat_interleave(*this, repeats, dim);
}
Tensor Tensor::repeat_interleave(const Tensor& repeats, std::optional<int64_t> dim,
                                 std::optional<int64_t> output_size) const {
  return taper::repeat_interleave(*this, repeats, dim, output_size);
}
Tensor Tensor::take_along_dim(const Tensor& indices, std::optional<int64_t> dim) const {
  return taper::take_along_dim(*this, indices, dim);
}
Tensor Tensor::searchsorted(const Tensor& x, bool right) const {
  return taper::searchsorted(*this, x, right);
}
Tensor Tensor::searchsorted(Scalar value, bool right) const {
  return taper::searchsorted(*this, value, right);
}
Tensor Tensor::bucketize(const Tensor& boundaries, bool right) const {
  return taper::bucketize(*this, boundaries, right);
}
Uniques Tensor::unique(bool sorted, bool return_inverse, bool return_counts) const {
  return taper::unique(*this, sorted, return_inverse, return_counts);
}
Tensor Tensor::view(const Shape& shape) const { return taper::view(*this, shape); }
Tensor Tensor::reshape(const Shape& shape) const { return taper::reshape(*this, shape); }
Tensor Tensor::view_as(const Tensor& other) const { return taper::view_as(*this, other); }
Tensor Tensor::flatten(int64_t start_dim, int64_t end_dim) const {
  return taper::flatten(*this, start_dim, end_dim);
}
Tensor Tensor::unflatten(int64_t dim, const Shape& sizes) const {
  return taper::unflatten(*this, dim, sizes);
}
Tensor Tensor::squeeze() const { return taper::squeeze(*this); }
Tensor Tensor::squeeze(int64_t dim) const { return taper::squeeze(*this, dim); }
Tensor Tensor::squeeze(const Shape& dims) const { return taper::squeeze(*this, dims); }
Tensor Tensor::unsqueeze(int64_t dim) const { return taper::unsqueeze(*this, dim); }
Tensor Tensor::transpose(int64_t dim0, int64_t dim1) const {
  return taper::transpose(*this, dim0, dim1);
}
Tensor Tensor::permute(const Shape& order) const { return taper::permute(*this, order); }
Tensor Tensor::movedim(int64_t source, int64_t destination) const {
  return taper::movedim(*this, source, destination);
}
Tensor Tensor::expand(const Shape& shape) const { return taper::expand(*this, shape); }
Tensor Tensor::expand_as(const Tensor& other) const { return taper::expand_as(*this, other); }
Tensor Tensor::narrow(int64_t dim, int64_t start, int64_t length) const {
  return taper::narrow(*this, dim, start, length);
}
Tensor Tensor::select(int64_t dim, int64_t index) const { return taper::select(*this, dim, index); }
Tensor Tensor::diagonal(int64_t offset, int64_t dim1, int64_t dim2) const {
  return taper::diagonal(*this, offset, dim1, dim2);
}
Tensor Tensor::slice(int64_t dim, std::optional<int64_t> start, std::optional<int64_t> end,
                     int64_t step) const {
  return taper::slice(*this, dim, start, end, step);
}
std::vector<Tensor> Tensor::split(int64_t size, int64_t dim) const {
  return taper::split(*this, size, dim);
}
std::vector<Tensor> Tensor::split(const std::vector<int64_t>& sizes, int64_t dim) const {
  return taper::split(*this, sizes, dim);
}
std::vector<Tensor> Tensor::chunk(int64_t chunks, int64_t dim) const {
  return taper::chunk(*this, chunks, dim);
}
std::vector<Tensor> Tensor::tensor_split(int64_t sections, int64_t dim) const {
  return taper::tensor_split(*this, sections, dim);
}
std::vector<Tensor> Tensor::tensor_split(const std::vector<int64_t>& indices, int64_t dim) const {
  return taper::tensor_split(*this, indices, dim);
}
std::vector<Tensor> Tensor::unbind(int64_t dim) const { return taper::unbind(*this, dim); }
Tensor Tensor::roll(const Shape& shifts, const Shape& dims) const {
  return taper::roll(*this, shifts, dims);
}
Tensor Tensor::diag_embed(int64_t offset, int64_t dim1, int64_t dim2) const {
  return taper::diag_embed(*this, offset, dim1, dim2);
}
Tensor Tensor::diag(int64_t diagonal) const { return taper::diag(*this, diagonal); }
Tensor Tensor::repeat(const Shape& repeats) const { return taper::repeat(*this, repeats); }
Tensor Tensor::clone() const { return taper::clone(*this); }
Tensor Tensor::contiguous() const { return taper::contiguous(*this); }
Tensor Tensor::neg() const { return taper::neg(*this); }
Tensor Tensor::abs() const { return taper::abs(*this); }
Tensor Tensor::sign() const { return taper::sign(*this); }
Tensor Tensor::square() const { return taper::square(*this); }
Tensor Tensor::sqrt() const { return taper::sqrt(*this); }
Tensor Tensor::rsqrt() const { return taper::rsqrt(*this); }
Tensor Tensor::reciprocal() const { return taper::reciprocal(*this); }
Tensor Tensor::exp() const { return taper::exp(*this); }
Tensor Tensor::expm1() const { return taper::expm1(*this); }
Tensor Tensor::log() const { return taper::log(*this); }
Tensor Tensor::log2() const { return taper::log2(*this); }
Tensor Tensor::log10() const { return taper::log10(*this); }
Tensor Tensor::exp2() const { return taper::exp2(*this); }
Tensor Tensor::log1p() const { return taper::log1p(*this); }
Tensor Tensor::sin() const { return taper::sin(*this); }
Tensor Tensor::cos() const { return taper::cos(*this); }
Tensor Tensor::tan() const { return taper::tan(*this); }
Tensor Tensor::asin() const { return taper::asin(*this); }
Tensor Tensor::acos() const { return taper::acos(*this); }
Tensor Tensor::atan() const { return taper::atan(*this); }
Tensor Tensor::sinh() const { return taper::sinh(*this); }
Tensor Tensor::cosh() const { return taper::cosh(*this); }
Tensor Tensor::tanh() const { return taper::tanh(*this); }
Tensor Tensor::sigmoid() const { return taper::sigmoid(*this); }
Tensor Tensor::erf() const { return taper::erf(*this); }
Tensor Tensor::lgamma() const { return taper::lgamma(*this); }
Tensor Tensor::digamma() const { return taper::digamma(*this); }
Tensor Tensor::floor() const { return taper::floor(*this); }
Tensor Tensor::ceil() const { return taper::ceil(*this); }
Tensor Tensor::round() const { return taper::round(*this); }
Tensor Tensor::trunc() const { return taper::trunc(*this); }
Tensor Tensor::frac() const { return taper::frac(*this); }
Tensor Tensor::relu() const { return taper::relu(*this); }
Tensor Tensor::leaky_relu(double negative_slope) const {
  return taper::leaky_relu(*this, negative_slope);
}
Tensor Tensor::elu(double alpha) const { return taper::elu(*this, alpha); }
Tensor Tensor::gelu(bool tanh_form) const { return taper::gelu(*this, tanh_form); }
Tensor Tensor::silu() const { return taper::silu(*this); }
Tensor Tensor::softplus(double beta, double threshold) const {
  return taper::softplus(*this, beta, threshold);
}
Tensor Tensor::selu() const { return taper::selu(*this); }
Tensor Tensor::celu(double alpha) const { return taper::celu(*this, alpha); }
Tensor Tensor::hardsigmoid() const { return taper::hardsigmoid(*this); }
Tensor Tensor::hardswish() const { return taper::hardswish(*this); }
Tensor Tensor::mish() const { return taper::mish(*this); }
Tensor Tensor::logsigmoid() const { return taper::logsigmoid(*this); }
Tensor Tensor::softsign() const { return taper::softsign(*this); }
Tensor Tensor::tanhshrink() const { return taper::tanhshrink(*this); }
Tensor Tensor::hardshrink(double lambd) const { return taper::hardshrink(*this, lambd); }
Tensor Tensor::softshrink(double lambd) const { return taper::softshrink(*this, lambd); }
Tensor Tensor::glu(int64_t dim) const { return taper::glu(*this, dim); }
Tensor Tensor::prelu(const Tensor& weight) const { return taper::prelu(*this, weight); }
Tensor Tensor::clamp(std::optional<Scalar> min, std::optional<Scalar> max) const {
  return taper::clamp(*this, min, max);
}
Tensor Tensor::clamp(const Tensor& min, const Tensor& max) const {
  return taper::clamp(*this, min, max);
}
Tensor Tensor::hardtanh(double min_val, double max_val) const {
  return taper::hardtanh(*this, min_val, max_val);
}
Tensor Tensor::relu6() const { return taper::relu6(*this); }
Tensor Tensor::nan_to_num(double nan, std::optional<double> posinf,
                          std::optional<double> neginf) const {
  return taper::nan_to_num(*this, nan, posinf, neginf);
}
Tensor Tensor::logical_not() const { return taper::logical_not(*this); }
Tensor Tensor::bitwise_not() const { return taper::bitwise_not(*this); }
Tensor Tensor::isnan() const { return taper::isnan(*this); }
Tensor Tensor::isinf() const { return taper::isinf(*this); }
Tensor Tensor::isfinite() const { return taper::isfinite(*this); }

}  // namespace taper::inline v0

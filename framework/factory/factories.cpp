#include "framework/factory/factories.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <memory>

#include "framework/cuda/cuda.h"
#include "framework/kernels/elementwise/copy.h"
#include "framework/kernels/random/random.h"

namespace taper::v0 {
namespace {

Tensor finish(Tensor t, const TensorOptions& options) {
  if (options.requires_grad) t.requires_grad_();
  return t;
}

Tensor make(const Shape& shape, const TensorOptions& options, DType natural = kFloat32) {
  return Tensor::make(shape, options.dtype.value_or(natural), cuda::resolve(options.device));
}

Tensor filled(const Shape& shape, Scalar value, const TensorOptions& options, DType natural) {
  Tensor t = make(shape, options, natural);
  kernels::fill(t, value);
  return finish(t, options);
}

Tensor copied(const Tensor& from, const TensorOptions& options, DType natural = kFloat32) {
  Tensor t = make(from.shape(), options, natural);
  kernels::copy_into(t, from);
  return finish(t, options);
}

DType natural_dtype(Scalar value) { return value.dtype() == kFloat64 ? kFloat32 : value.dtype(); }

void require_memory(const void* data, const Shape& shape) {
  require<ValueError>(data || shape.numel() == 0, "the memory of a tensor of shape ", shape,
                      " is null");
}

// Returns the indices of the elements of a matrix on one side of a diagonal.
Tensor triangle_indices(const char* op, int64_t rows, int64_t cols, int64_t offset, bool lower,
                        TensorOptions options) {
  require(rows >= 0, "row must be non-negative, got ", rows);
  require(cols >= 0, "col must be non-negative, got ", cols);
  options.dtype = options.dtype.value_or(kInt64);
  require<NotImplementedError>(*options.dtype == kInt64 || *options.dtype == kInt32, "\"", op,
                               "\" not implemented for '", scalar_type_name(*options.dtype), "'");
  offset = std::clamp(offset, -rows, cols);
  // The rows that have elements.
  const int64_t begin = lower ? std::max<int64_t>(0, -offset) : 0;
  const int64_t end = cols == 0 ? begin : lower ? rows : std::min(rows, cols - offset);
  const auto first_column = [&](int64_t i) { return lower ? 0 : std::max<int64_t>(0, i + offset); };
  const auto end_column = [&](int64_t i) { return lower ? std::min(cols, i + offset + 1) : cols; };
  int64_t count = 0;
  if (const int64_t n = end - begin; n > 0) {
    // From the shortest row on, each row is longer by one, up to cols.
    const int64_t i = lower ? begin : end - 1, shortest = end_column(i) - first_column(i);
    const int64_t growing = std::min(n, cols - shortest + 1);
    const int64_t added = checked_mul(growing, growing - 1) / 2;
    count = checked_add(checked_add(checked_mul(growing, shortest), added),
                        checked_mul(n - growing, cols));
  }
  const Tensor host = Tensor::make({2, count}, kInt64, Device());
  int64_t *row = host.data<int64_t>(), *col = row + count;
  for (int64_t i = begin; i < end; ++i) {
    for (int64_t j = first_column(i); j < end_column(i); ++j) {
      *row++ = i;
      *col++ = j;
    }
  }
  return copied(host, options);
}

}  // namespace

TensorData::TensorData(Scalar value) : values_{value} {}

TensorData::TensorData(std::initializer_list<TensorData> parts) {
  for (const TensorData& part : parts) {
    require<ValueError>(part.shape_ == parts.begin()->shape_,
                        "expected sequences of equal length: got parts of shape ",
                        parts.begin()->shape_, " and ", part.shape_);
    values_.insert(values_.end(), part.values_.begin(), part.values_.end());
  }
  shape_ = parts.size() ? parts.begin()->shape_ : Shape();
  shape_.insert(0, int64_t(parts.size()));
}

DType TensorData::widest() const {
  DType widest = kBool;
  for (const Scalar& v : values_) widest = promote_types(widest, v.dtype());
  return widest;
}

Tensor tensor(const TensorData& data, TensorOptions options) {
  const DType wide = data.dtype();
  const DType out_dtype = options.dtype.value_or(wide == kFloat64 ? kFloat32 : wide);
  Tensor t = Tensor::make(data.shape(), wide == kFloat64 ? kFloat64 : kInt64, Device());
  for (size_t i = 0; i < data.values().size(); ++i) {
    const Scalar& v = data.values()[i];
    // Floating-point values that are too large become infinite, as in PyTorch.
    if (!is_floating_point(out_dtype)) v.check_holds(out_dtype);
    if (wide == kFloat64) {
      static_cast<double*>(t.data_ptr())[i] = v.to_double();
    } else {
      static_cast<int64_t*>(t.data_ptr())[i] = v.to_int();
    }
  }
  return copied(t, options, out_dtype);
}

Tensor tensor_from_bytes(const void* data, DType dtype, const Shape& shape, TensorOptions options) {
  const Tensor host = Tensor::make(shape, dtype, Device());
  require_memory(data, shape);
  if (host.nbytes() > 0) std::memcpy(host.data_ptr(), data, host.nbytes());
  return copied(host, options, dtype);
}

Tensor from_blob(void* data, const Shape& sizes, const Shape& strides, BlobDeleter deleter,
                 TensorOptions options) {
  require<ValueError>(strides.size() == sizes.size(), "sizes ", sizes, " and strides ", strides,
                      " of given memory must have the same length");
  int64_t last = 0;
  for (int i = 0; i < sizes.size(); ++i) {
    require<ValueError>(sizes[i] >= 0 && strides[i] >= 0, "sizes ", sizes, " and strides ", strides,
                        " of given memory must not be negative");
    last = checked_add(last, checked_mul(std::max<int64_t>(sizes[i] - 1, 0), strides[i]));
  }
  const DType dtype = options.dtype.value_or(kFloat32);
  require_memory(data, sizes);
  const int64_t count = sizes.numel() ? checked_add(last, 1) : 0;
  struct Owner {
    void* data;
    BlobDeleter deleter;
  };
  const auto free = [](Storage& storage) noexcept {
    const std::unique_ptr<Owner> owner(static_cast<Owner*>(storage.context));
    owner->deleter(owner->data);
  };
  auto owner = deleter ? std::make_unique<Owner>(data, std::move(deleter)) : nullptr;
  StoragePtr storage = borrow(data, size_t(checked_mul(count, int64_t(size_of(dtype)))),
                              cuda::resolve(options.device), owner ? +free : nullptr, owner.get());
  owner.release();
  return finish(Tensor::make(std::move(storage), sizes, strides, 0, dtype), options);
}
Tensor from_blob(void* data, const Shape& sizes, BlobDeleter deleter, TensorOptions options) {
  return from_blob(data, sizes, contiguous_strides(sizes), std::move(deleter), options);
}
Tensor from_blob(void* data, const Shape& sizes, const Shape& strides, TensorOptions options) {
  return from_blob(data, sizes, strides, BlobDeleter(), options);
}
Tensor from_blob(void* data, const Shape& sizes, TensorOptions options) {
  return from_blob(data, sizes, BlobDeleter(), options);
}

Tensor empty(const Shape& shape, TensorOptions options) {
  return finish(make(shape, options), options);
}
Tensor zeros(const Shape& shape, TensorOptions options) {
  return filled(shape, 0, options, kFloat32);
}
Tensor ones(const Shape& shape, TensorOptions options) {
  return filled(shape, 1, options, kFloat32);
}
Tensor full(const Shape& shape, Scalar value, TensorOptions options) {
  return filled(shape, value, options, natural_dtype(value));
}

Tensor arange(Scalar end, TensorOptions options) { return arange(0, end, 1, options); }

Tensor arange(Scalar start, Scalar end, Scalar step, TensorOptions options) {
  const bool whole =
      start.dtype() != kFloat64 && end.dtype() != kFloat64 && step.dtype() != kFloat64;
  const DType natural = whole ? kInt64 : kFloat32, type = options.dtype.value_or(natural);
  // If the result is integer, start and step are truncated to integers. int64 is computed in
  // integers too, as in PyTorch.
  const double written = std::ceil((end.to_double() - start.to_double()) / step.to_double());
  const bool cut = !whole && !taper::is_floating_point(type), integers = whole || cut;
  if (cut) {
    start = start.to_int();
    end = end.to_int();
    step = step.to_int();
  }
  if (step.to_double() == 0) throw Error("step must be nonzero");
  // Neighboring integers beyond 2^53 are the same double. Integers are therefore compared and
  // counted as integers.
  const bool up = step.to_double() > 0;
  const auto below = [&](const Scalar& a, const Scalar& b) {
    return integers ? a.to_int() < b.to_int() : a.to_double() < b.to_double();
  };
  require(!(up ? below(end, start) : below(start, end)),
          "upper bound and lower bound inconsistent with step sign (arange from ",
          start.to_double(), " to ", end.to_double(), " by ", step.to_double(), ")");
  double count = std::ceil((end.to_double() - start.to_double()) / step.to_double());
  if (integers && start.to_int() != end.to_int()) {
    const auto from = uint64_t(start.to_int()), to = uint64_t(end.to_int());
    const uint64_t stride = up ? uint64_t(step.to_int()) : -uint64_t(step.to_int());
    count = double(((up ? to - from : from - to) - 1) / stride + 1);
  }
  if (cut && type != kInt64) count = written;
  require(std::abs(count) < 9e18, "unsupported range: ", start.to_double(), " -> ",
          end.to_double());
  Tensor t = make({int64_t(count)}, options, natural);
  kernels::arange_into(t, start, step);
  return finish(t, options);
}

Tensor linspace(RealArg start, RealArg end, IntArg steps, TensorOptions options) {
  if (steps < 0) throw Error("number of steps must be non-negative");
  for (const double bound : {start, end}) {
    Scalar(bound).check_holds(options.dtype.value_or(kFloat32));
  }
  if (!taper::is_floating_point(options.dtype.value_or(kFloat32))) {
    start = std::trunc(start);
    end = std::trunc(end);
  }
  const Tensor host = Tensor::make({steps}, kFloat64, Device());
  double* x = host.data<double>();
  // Computed from both ends, so that the last value is exactly `end`.
  const double step = steps > 1 ? (end - start) / double(steps - 1) : 0;
  for (int64_t i = 0; i < steps; ++i) {
    x[i] =
        i < steps / 2 || steps == 1 ? start + step * double(i) : end - step * double(steps - 1 - i);
  }
  return copied(host, options);
}

Tensor eye(IntArg n, TensorOptions options) { return eye(n, n, options); }
Tensor eye(IntArg n, IntArg m, TensorOptions options) {
  require(n >= 0, "n must be greater or equal to 0, got ", n);
  require(m >= 0, "m must be greater or equal to 0, got ", m);
  Tensor t = make({n, m}, options);
  kernels::fill(t, 0);
  if (t.numel() > 0) kernels::fill(view_as(t, {std::min<int64_t>(n, m)}, {m + 1}, 0), 1);
  return finish(t, options);
}

Tensor tril_indices(IntArg row, IntArg col, IntArg offset, TensorOptions options) {
  return triangle_indices("tril_indices", row, col, offset, true, options);
}
Tensor triu_indices(IntArg row, IntArg col, IntArg offset, TensorOptions options) {
  return triangle_indices("triu_indices", row, col, offset, false, options);
}

Tensor rand(const Shape& shape, TensorOptions options, Generator* generator) {
  Tensor t = make(shape, options);
  kernels::uniform_into(t, next_key(generator), 0, 1);
  return finish(t, options);
}

Tensor normal(RealArg mean, RealArg std, const Shape& shape, TensorOptions options,
              Generator* generator) {
  Tensor t = make(shape, options);
  kernels::normal_into(t, next_key(generator), mean, std);
  return finish(t, options);
}
Tensor randn(const Shape& shape, TensorOptions options, Generator* generator) {
  return normal(0, 1, shape, options, generator);
}

Tensor randint(IntArg low, IntArg high, const Shape& shape, TensorOptions options,
               Generator* generator) {
  Tensor t = make(shape, options, kInt64);
  kernels::randint_into(t, next_key(generator), low, high);
  return finish(t, options);
}

Tensor randperm(IntArg n, TensorOptions options, Generator* generator) {
  Tensor t = make({n}, {.dtype = kInt64, .device = options.device});
  kernels::randperm_into(t, next_key(generator));
  return !options.dtype || *options.dtype == kInt64 ? t : copied(t, options);
}

Tensor empty_like(const Tensor& x) { return empty_like_layout(x, x.dtype()); }
Tensor zeros_like(const Tensor& x) { return full_like(x, 0); }
Tensor ones_like(const Tensor& x) { return full_like(x, 1); }

Tensor full_like(const Tensor& x, Scalar value) {
  Tensor t = empty_like(x);
  kernels::fill(t, value);
  return t;
}

Tensor rand_like(const Tensor& x, Generator* generator) {
  return rand(x.shape(), {.dtype = x.dtype(), .device = x.device()}, generator);
}
Tensor randn_like(const Tensor& x, Generator* generator) {
  return randn(x.shape(), {.dtype = x.dtype(), .device = x.device()}, generator);
}

Tensor wrap_scalar(Scalar value) {
  Tensor t = Tensor::make({}, value.dtype(), Device());
  void* p = t.data_ptr();
  if (value.dtype() == kFloat64) {
    *static_cast<double*>(p) = value.to_double();
  } else if (value.dtype() == kInt64) {
    *static_cast<int64_t*>(p) = value.to_int();
  } else {
    *static_cast<bool*>(p) = value.to_int() != 0;
  }
  t.impl()->wrapped_number = true;
  return t;
}

}  // namespace taper::v0

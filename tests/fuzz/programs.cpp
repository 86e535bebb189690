#include "tests/fuzz/programs.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <limits>

namespace taper::v0::fuzz {
namespace {

constexpr int kMostOps = 8;
constexpr int64_t kMostElements = 1 << 12;   // of a tensor that later operations may use
constexpr std::size_t kMostBytes = 1 << 22;  // of any tensor

constexpr int64_t kExtremes[] = {std::numeric_limits<int64_t>::min(),
                                 std::numeric_limits<int64_t>::min() + 1,
                                 -(int64_t(1) << 62),
                                 -(int64_t(1) << 31),
                                 -1000,
                                 1000,
                                 int64_t(1) << 31,
                                 (int64_t(1) << 32) + 1,
                                 int64_t(1) << 62,
                                 std::numeric_limits<int64_t>::max() - 1,
                                 std::numeric_limits<int64_t>::max()};
constexpr double kInf = std::numeric_limits<double>::infinity();
constexpr double kReals[] = {
    0,    1,     0.5,  -1,    2,    -0.0,   0.1,
    1e-8, 1e300, kInf, -kInf, 1e20, -1e-40, std::numeric_limits<double>::quiet_NaN()};
constexpr int64_t kSizes[] = {0, 1, 1, 2, 2, 3, 3, 4, 4, 5, 6, 7, 8, 9, 12, 17};

template <class T, std::size_t n> T chosen(const T (&values)[n], uint8_t byte) {
  return values[byte % n];
}

void* allocate(std::size_t nbytes, std::size_t align) noexcept {
  if (nbytes > kMostBytes) return nullptr;
  return std::aligned_alloc(align, (nbytes + align - 1) / align * align);
}
void release(void* block, std::size_t) noexcept { std::free(block); }

}  // namespace

void limit_memory() { set_cpu_allocator({allocate, release}); }

uint8_t Program::byte() {
  if (bytes_.empty()) return 0;
  const auto first = static_cast<uint8_t>(bytes_.front());
  bytes_.remove_prefix(1);
  return first;
}

// --- arguments ---

int64_t Program::integer() {
  const uint8_t b = byte();
  return b < 232 ? b % 12 - 3 : chosen(kExtremes, byte());
}

int64_t Program::dim() {
  const uint8_t b = byte();
  return b < 240 ? b % 8 - 4 : integer();
}

double Program::real() { return chosen(kReals, byte()); }

Shape Program::shape() {
  Shape out;
  for (int n = byte() % 5; n > 0; --n) {
    const uint8_t b = byte();
    out.push_back(b < 232 ? chosen(kSizes, b) : integer());
  }
  return out;
}

Shape Program::dims() {
  Shape out;
  for (int n = byte() % 4; n > 0; --n) out.push_back(dim());
  return out;
}

std::vector<int64_t> Program::list() {
  std::vector<int64_t> out;
  for (int n = byte() % 5; n > 0; --n) out.push_back(integer());
  return out;
}

std::string Program::equation() {
  constexpr const char* kEquations[] = {"ij,jk->ik", "bij,bjk->bik", "i,i->", "...i,...i->...",
                                        "ii,jj->ij", "abc,cd->dba",  "ij",    "->i"};
  return chosen(kEquations, byte());
}

std::optional<double> Program::optional_real() {
  return flag() ? std::optional(real()) : std::nullopt;
}
std::optional<int64_t> Program::optional_integer() {
  return flag() ? std::optional(integer()) : std::nullopt;
}
std::optional<Scalar> Program::optional_number() {
  return flag() ? std::optional(number()) : std::nullopt;
}
std::optional<DType> Program::optional_dtype() {
  return flag() ? std::optional(dtype()) : std::nullopt;
}

Tensor Program::tensor() {
  const uint8_t b = byte();
  if (pool_.empty() || b >= 224) return fresh();
  return pool_[pool_.size() - 1 - b % pool_.size()];
}

std::vector<Tensor> Program::tensors() {
  std::vector<Tensor> out;
  for (int n = byte() % 4; n > 0; --n) out.push_back(tensor());
  return out;
}

// --- tensors ---

// Fills a tensor with small whole numbers, usable as indices, or with fractions. The first element
// is sometimes extreme.
Tensor Program::filled(const Shape& shape, DType dtype) {
  const uint8_t kind = byte();
  Tensor x = remainder(arange(shape.numel()) * int64_t(kind | 1), kind % 7 + 1).reshape(shape);
  if (kind % 4 == 0) x = x - 2;
  x = x.to(dtype);
  if (is_floating_point(dtype) && kind % 2 == 0) x = x * 0.37 - 0.5;
  if (kind >= 208 && x.numel() > 0) {
    const Tensor first = x.reshape({-1}).narrow(0, 0, 1);
    is_floating_point(dtype) ? first.fill_(real()) : first.fill_(chosen(kExtremes, byte()));
  }
  return x;
}

Tensor Program::laid_out(Tensor x) {
  switch (byte() % 8) {
    case 0: return x.dim() >= 2 ? x.transpose(0, -1).contiguous().transpose(0, -1) : x;
    case 1: return x.dim() >= 1 && x.size(0) > 1 ? x.narrow(0, 1, x.size(0) - 1) : x;
    case 2: return x.dim() >= 1 ? x.slice(-1, 0, std::nullopt, 2) : x;
    case 3: {
      Shape shape = x.shape();
      shape.insert(0, 3);
      return x.unsqueeze(0).expand(shape);
    }
    case 4: return x.dim() == 4 ? x.permute({0, 2, 3, 1}).contiguous().permute({0, 3, 1, 2}) : x;
    default: return x;
  }
}

Tensor Program::fresh() {
  Shape shape;
  for (int n = byte() % 6; n > 0 && shape.numel() <= kMostElements / 17; --n) {
    shape.push_back(chosen(kSizes, byte()));
  }
  const uint8_t kind = byte();
  const DType dtype = kind < 128 ? kFloat32 : kind < 176 ? kInt64 : this->dtype();
  Tensor x = filled(shape, dtype);
  if (x.is_floating_point() && flag()) {
    x.requires_grad_();
    leaves_.push_back(x);
  }
  return laid_out(x);
}

// --- the program ---

void Program::give(const Tensor& y) {
  if (!y.defined()) return;
  if (prints_) {
    std::printf("    -> %s %s\n", to_string(y.shape()).c_str(), to_string(y.dtype()).c_str());
  }
  // An expanded tensor may have more elements than memory, and a loop over all of them would take
  // too long.
  if (y.numel() > kMostElements) return;
  (void)y.detach().to_vector<double>();
  pool_.push_back(y);
}

void Program::differentiate() {
  Tensor total;
  for (const Tensor& y : pool_) {
    if (!y.is_floating_point() || !y.requires_grad()) continue;
    const Tensor sum = y.sum(kFloat64);
    total = total.defined() ? total + sum : sum;
  }
  if (!total.defined()) return;
  const bool twice = flag();
  const std::vector<Tensor> dx =
      grad({total}, leaves_, {.create_graph = twice, .allow_unused = true});
  give(dx);
  Tensor again;
  for (const Tensor& d : dx) {
    if (!twice || !d.defined() || !d.requires_grad()) continue;
    const Tensor sum = (d * d).sum(kFloat64);
    again = again.defined() ? again + sum : sum;
  }
  if (again.defined()) give(grad({again}, leaves_, {.allow_unused = true}));
}

void Program::run() {
  manual_seed(1);
  const auto attempt = [&](const char* text, auto step) {
    if (prints_) std::printf("  %s\n", text), std::fflush(stdout);
    try {
      step();
    } catch (const Error& e) {
      if (prints_) std::printf("    %s\n", e.what());
    }
  };
  const std::span<const ProgramRow> rows = program_rows();
  for (int n = byte() % 3; n >= 0; --n) attempt("fresh", [&] { pool_.push_back(fresh()); });
  for (int n = byte() % kMostOps; n >= 0; --n) {
    const std::size_t op = std::size_t(byte()) << 8 | byte();
    const ProgramRow& row = rows[op % rows.size()];
    attempt(row.text, [&] { row.run(*this); });
  }
  attempt("differentiate", [&] { differentiate(); });
}

}  // namespace taper::v0::fuzz

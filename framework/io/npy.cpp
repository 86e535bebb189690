#include "framework/io/npy.h"

#include <algorithm>
#include <bit>
#include <charconv>
#include <optional>
#include <system_error>

#include "framework/io/atomic_file.h"
#include "framework/io/input_file.h"
#include "framework/io/tensor_file.h"
#include "framework/kernels/elementwise/copy.h"

namespace taper::inline v0 {
namespace {

static_assert(std::endian::native == std::endian::little, "files are written little-endian");

// Two bytes of version follow it, then the length of the header.
constexpr std::string_view kMagic = "\x93NUMPY";
constexpr size_t kAlign = 64;
// A header of an array of numbers takes about 100 bytes; NumPy itself refuses above 10,000.
constexpr size_t kMaxHeader = 65536;

constexpr std::string_view kByteOrders = "<>|=";
// "f4"; of a type that NumPy has.
std::string code_of(DType t) {
  const char kind = is_floating_point(t) ? 'f' : t == kUInt8 ? 'u' : t == kBool ? 'b' : 'i';
  return cat(kind, size_of(t));
}

[[noreturn]] void refuse(const std::string& path, const std::string& what) {
  throw Error(path, ": not a NumPy array file that can be read: ", what);
}
template <class... Text> void check(bool fits, const std::string& path, const Text&... what) {
  if (!fits) refuse(path, cat(what...));
}

// --- writing ---

void check_savable(const Tensor& x) {
  if (!x.defined()) throw ValueError("save_npy: the tensor is undefined");
  require<TypeError>(!x.is_cuda(), "can't convert ", x.device(), " device type tensor to numpy. ",
                     "Use Tensor.cpu() to copy the tensor to host memory first.");
  require(!x.requires_grad(),
          "Can't call numpy() on Tensor that requires grad. Use save_npy(path, tensor.detach()) "
          "instead.");
  require<TypeError>(
      x.dtype() != kBFloat16,
      "Got unsupported ScalarType BFloat16. Use tensor.to(kFloat32) first, which keeps every "
      "value.");
}

// Magic, version 1.0, length and a Python dict, padded so that the data is aligned.
std::string header_of(const Tensor& x) {
  std::string text = cat("{'descr': '", size_of(x.dtype()) == 1 ? '|' : '<', code_of(x.dtype()),
                         "', 'fortran_order': False, 'shape': (");
  for (const int64_t n : x.shape()) text += cat(n, ", ");
  text += "), }";
  const size_t before = kMagic.size() + 4;
  const size_t total = (before + text.size() + 1 + kAlign - 1) / kAlign * kAlign;
  text.append(total - before - text.size() - 1, ' ');
  text += '\n';
  const char low = char(text.size() & 0xff), high = char(text.size() >> 8);
  return cat(kMagic, '\x01', '\x00', low, high, text);
}

// --- reading ---

struct Header {
  DType dtype = kFloat32;
  bool column_major = false;
  Shape shape;
};

// Reads a Python dict of the three keys, in any order. Its functions consume what they return.
class HeaderReader {
 public:
  HeaderReader(const std::string& path, std::string_view text) : path_(path), rest_(text) {}

  Header read() {
    std::optional<DType> dtype;
    std::optional<bool> column_major;
    std::optional<Shape> shape;
    expect('{');
    while (!accept('}')) {
      const std::string_view key = string();
      expect(':');
      if (key == "descr" && !dtype) {
        dtype = read_dtype();
      } else if (key == "fortran_order" && !column_major) {
        column_major = read_bool();
      } else if (key == "shape" && !shape) {
        shape = read_shape();
      } else {
        refuse(path_, cat("unknown or repeated key '", key, "' in the header"));
      }
      if (!accept(',') && next() != '}') unexpected("',' or '}'");
    }
    if (next() != '\0' || !rest_.empty()) unexpected("the end");
    check(dtype && column_major && shape, path_,
          "the header lacks one of descr, fortran_order and shape");
    return {*dtype, *column_major, *shape};
  }

 private:
  // The next character that is not a blank, or 0 at the end.
  char next() {
    rest_.remove_prefix(std::min(rest_.find_first_not_of(" \t\n"), rest_.size()));
    return rest_.empty() ? '\0' : rest_.front();
  }
  bool accept(char c) {
    if (next() != c || rest_.empty()) return false;
    rest_.remove_prefix(1);
    return true;
  }
  void expect(char c) {
    if (!accept(c)) unexpected(cat("'", c, "'"));
  }
  std::string_view string() {
    const char quote = next();
    const size_t end = quote == '\'' || quote == '"' ? rest_.find(quote, 1) : rest_.npos;
    if (end == rest_.npos) unexpected("a string");
    const std::string_view text = rest_.substr(1, end - 1);
    rest_.remove_prefix(end + 1);
    return text;
  }
  bool accept_word(std::string_view word) {
    if (next() == '\0' || !rest_.starts_with(word)) return false;
    rest_.remove_prefix(word.size());
    return true;
  }
  bool read_bool() {
    if (accept_word("True")) return true;
    if (!accept_word("False")) unexpected("True or False");
    return false;
  }
  int64_t read_size() {
    int64_t n = -1;
    (void)next();
    const auto [end, error] = std::from_chars(rest_.data(), rest_.data() + rest_.size(), n);
    if (error != std::errc() || n < 0) unexpected("a size");
    rest_.remove_prefix(size_t(end - rest_.data()));
    return n;
  }
  Shape read_shape() {
    Shape shape;
    expect('(');
    while (!accept(')')) {
      if (shape.size() == kMaxDims) refuse(path_, cat("more than ", kMaxDims, " dimensions"));
      shape.push_back(read_size());
      if (!accept(',') && next() != ')') unexpected("',' or ')'");
    }
    return shape;
  }
  DType read_dtype() {
    if (next() == '[') refuse(path_, "structured arrays (a list as descr) are not supported");
    const std::string_view descr = string();
    const char first = descr.empty() ? '\0' : descr.front();
    const std::string_view code =
        kByteOrders.find(first) != kByteOrders.npos ? descr.substr(1) : descr;
    // float16 stands before bfloat16, which NumPy lacks.
    const auto known = std::ranges::find(kAllDTypes, code, code_of);
    check(known != std::end(kAllDTypes), path_, "dtype '", descr, "' is not supported; ",
          "expected f2 f4 f8 i8 i4 i2 i1 u1 or b1, little-endian");
    check(first != '>' || size_of(*known) <= 1, path_, "dtype '", descr,
          "' is big-endian; in Python, save ",
          "array.astype(array.dtype.newbyteorder('<')) instead");
    return *known;
  }
  [[noreturn]] void unexpected(const std::string& wanted) {
    const std::string got(rest_.substr(0, 20));
    refuse(path_, cat("in the header, expected ", wanted, ", got ",
                      got.empty() ? "its end" : "'" + got + "'"));
  }

  const std::string& path_;
  std::string_view rest_;
};

class Reader {
 public:
  explicit Reader(const std::string& path) : path_(path), file_(path, "") {}

  size_t left() const { return file_.size() - at_; }
  void read(void* out, size_t nbytes, const char* what) {
    check(nbytes <= left(), path_, "expected ", nbytes, " bytes of ", what, ", got ", left(),
          " (is the file truncated?)");
    if (file_.read(out, nbytes) < nbytes) refuse(path_, cat("it was shortened while it was read"));
    at_ += nbytes;
  }

 private:
  const std::string& path_;
  InputFile file_;
  size_t at_ = 0;
};

std::string read_header_text(const std::string& path, Reader& file) {
  char start[8];
  file.read(start, sizeof start, "magic and version");
  check(std::string_view(start, sizeof start).starts_with(kMagic), path,
        "it does not begin with \"\\x93NUMPY\"");
  const int major = uint8_t(start[6]), minor = uint8_t(start[7]);
  check(major >= 1 && major <= 3 && minor == 0, path, "expected format 1.0, 2.0 or 3.0, got ",
        major, ".", minor);
  uint32_t length = 0;
  file.read(&length, major == 1 ? 2 : 4, "header length");
  check(length <= kMaxHeader, path, "expected a header of at most ", kMaxHeader, " bytes, got ",
        length);
  std::string text(length, '\0');
  file.read(text.data(), length, "header");
  return text;
}

// Throws unless the rest of the file is exactly the data.
void check_data_size(const std::string& path, const Header& header, size_t left) {
  const std::optional<int64_t> nbytes = header.shape.counted_bytes(size_of(header.dtype));
  if (!nbytes) refuse(path, cat("shape ", header.shape, " has more bytes than can be counted"));
  if (left == size_t(*nbytes)) return;
  refuse(path, cat("expected ", *nbytes, " bytes for shape ", header.shape, " of ", header.dtype,
                   ", got ", left, left < size_t(*nbytes) ? " (is the file truncated?)" : ""));
}

Shape column_major_strides(Shape shape) {
  std::ranges::reverse(shape);
  Shape strides = contiguous_strides(shape);
  std::ranges::reverse(strides);
  return strides;
}

}  // namespace

void save_npy(const std::string& path, const Tensor& x) {
  check_savable(x);
  const std::string header = header_of(x);
  const Tensor dense = kernels::dense(x);
  AtomicFile file(path, header.size() + dense.nbytes());
  file.write(header.data(), header.size());
  file.write(dense.data_ptr(), dense.nbytes());
  file.finish();
}

Tensor load_npy(const std::string& path) {
  Reader file(path);
  const std::string text = read_header_text(path, file);
  const Header header = HeaderReader(path, text).read();
  check_data_size(path, header, file.left());
  Tensor x = Tensor::make(header.shape, header.dtype, Device());
  if (x.numel() == 0) return x;
  file.read(x.data_ptr(), x.nbytes(), "data");
  detail::tidy_bools(x.data_ptr(), x.nbytes(), header.dtype);
  if (!header.column_major) return x;
  return kernels::dense(view_as(x, header.shape, column_major_strides(header.shape), 0));
}

}  // namespace taper::inline v0

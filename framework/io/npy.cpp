#include "framework/io/npy.h"

#include <algorithm>
#include <bit>
#include <charconv>
#include <optional>
#include <system_error>

#include "framework/host/atomic_file.h"
#include "framework/io/input_file.h"
#include "framework/io/tensor_file.h"
#include "framework/kernels/elementwise/copy.h"

namespace taper::v0 {
namespace {

static_assert(std::endian::native == std::endian::little, "files are written little-endian");

// The magic bytes. They are followed by two bytes of version and the length of the header.
constexpr std::string_view kMagic = "\x93NUMPY";
constexpr size_t kAlign = 64;
// The maximum length of a header. One for an array of numbers takes about 100 bytes; NumPy itself
// rejects headers above 10,000.
constexpr size_t kMaxNpyHeader = 65536;

constexpr std::string_view kByteOrders = "<>|=";
// Returns NumPy's code of a dtype that NumPy has, such as "f4".
std::string code_of(DType t) {
  const char kind = is_floating_point(t) ? 'f' : t == kUInt8 ? 'u' : t == kBool ? 'b' : 'i';
  return concat_to_string(kind, size_of(t));
}

// --- writing ---

void check_savable(const Tensor& x) {
  if (!x.defined()) throw ValueError("save_npy: the tensor is undefined");
  require<TypeError>(!x.is_cuda(), "can't convert ", x.device(), " device type tensor to numpy. ",
                     "Use Tensor.cpu() to copy the tensor to host memory first.");
  require(!x.requires_grad(),
          "Can't call numpy() on Tensor that requires grad. Use save_npy(path, tensor.detach()) "
          "instead.");
  require<TypeError>(x.dtype() != kBFloat16,
                     "Got unsupported ScalarType BFloat16. Use tensor.to(kFloat32) first, which "
                     "keeps every value.");
}

// Returns the header: magic, version 1.0, length, and a Python dict, padded to align the data.
std::string header_of(const Tensor& x) {
  std::string text = concat_to_string("{'descr': '", size_of(x.dtype()) == 1 ? '|' : '<',
                                      code_of(x.dtype()), "', 'fortran_order': False, 'shape': (");
  for (const int64_t n : x.shape()) text += concat_to_string(n, ", ");
  text += "), }";
  const size_t before = kMagic.size() + 4;
  const size_t total = (before + text.size() + 1 + kAlign - 1) / kAlign * kAlign;
  text.append(total - before - text.size() - 1, ' ');
  text += '\n';
  const char low = char(text.size() & 0xff), high = char(text.size() >> 8);
  return concat_to_string(kMagic, '\x01', '\x00', low, high, text);
}

// --- reading ---

struct NpyHeader {
  DType dtype = kFloat32;
  bool column_major = false;
  Shape shape;
};

// Parses a Python dict with the three keys in any order. Each function removes what it returns from
// the rest of the text.
class HeaderReader {
 public:
  HeaderReader(const FileCheck<>& check, std::string_view text) : check_(check), rest_(text) {}

  NpyHeader read() {
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
        check_.refuse("unknown or repeated key '", key, "' in the header");
      }
      if (!accept(',') && next() != '}') unexpected("',' or '}'");
    }
    if (next() != '\0' || !rest_.empty()) unexpected("the end");
    check_(dtype && column_major && shape,
           "the header lacks one of descr, fortran_order and shape");
    return {*dtype, *column_major, *shape};
  }

 private:
  // Returns the next character that is not a blank, or 0 at the end.
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
    if (!accept(c)) unexpected(concat_to_string("'", c, "'"));
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
    // Python 2 writes a long integer as "3L".
    if (rest_.starts_with('L')) rest_.remove_prefix(1);
    return n;
  }
  Shape read_shape() {
    Shape shape;
    expect('(');
    while (!accept(')')) {
      if (shape.size() == kMaxDims) check_.refuse("more than ", kMaxDims, " dimensions");
      shape.push_back(read_size());
      if (!accept(',') && next() != ')') unexpected("',' or ')'");
    }
    return shape;
  }
  DType read_dtype() {
    if (next() == '[') check_.refuse("structured arrays (a list as descr) are not supported");
    const std::string_view descr = string();
    const char first = descr.empty() ? '\0' : descr.front();
    const std::string_view code =
        kByteOrders.find(first) != kByteOrders.npos ? descr.substr(1) : descr;
    // Finds float16 before bfloat16: code_of() gives both the same code, but NumPy has no bfloat16.
    const auto known = std::ranges::find(kAllDTypes, code, code_of);
    check_(known != std::end(kAllDTypes), "dtype '", descr, "' is not supported; ",
           "expected f2 f4 f8 i8 i4 i2 i1 u1 or b1, little-endian");
    check_(first != '>' || size_of(*known) <= 1, "dtype '", descr,
           "' is big-endian; in Python, save ",
           "array.astype(array.dtype.newbyteorder('<')) instead");
    return *known;
  }
  [[noreturn]] void unexpected(const std::string& wanted) {
    const std::string got(rest_.substr(0, 20));
    check_.refuse("in the header, expected ", wanted, ", got ",
                  got.empty() ? "its end" : "'" + got + "'");
  }

  const FileCheck<>& check_;
  std::string_view rest_;
};

struct Reader {
  explicit Reader(const std::string& path)
      : check{path, "not a NumPy array file that can be read"}, file(path, "") {}

  size_t left() const { return file.size() - at; }
  void read(void* out, size_t nbytes, const char* what) {
    check(nbytes <= left(), "expected ", nbytes, " bytes of ", what, ", got ", left(),
          " (is the file truncated?)");
    check(file.read(out, nbytes) == nbytes, "it was shortened while it was read");
    at += nbytes;
  }

  const FileCheck<> check;
  InputFile file;
  size_t at = 0;
};

std::string read_header_text(Reader& file) {
  char start[8];
  file.read(start, sizeof start, "magic and version");
  file.check(std::string_view(start, sizeof start).starts_with(kMagic),
             "it does not begin with \"\\x93NUMPY\"");
  const int major = uint8_t(start[6]), minor = uint8_t(start[7]);
  file.check(major >= 1 && major <= 3 && minor == 0, "expected format 1.0, 2.0 or 3.0, got ", major,
             ".", minor);
  uint32_t length = 0;
  file.read(&length, major == 1 ? 2 : 4, "header length");
  file.check(length <= kMaxNpyHeader, "expected a header of at most ", kMaxNpyHeader,
             " bytes, got ", length);
  std::string text(length, '\0');
  file.read(text.data(), length, "header");
  return text;
}

// Throws unless the rest of the file is exactly the data.
void check_data_size(const Reader& file, const NpyHeader& header) {
  const size_t left = file.left();
  const std::optional<int64_t> nbytes = header.shape.try_nbytes(size_of(header.dtype));
  if (!nbytes) file.check.refuse("shape ", header.shape, " has more bytes than can be counted");
  if (left == size_t(*nbytes)) return;
  file.check.refuse("expected ", *nbytes, " bytes for shape ", header.shape, " of ", header.dtype,
                    ", got ", left, left < size_t(*nbytes) ? " (is the file truncated?)" : "");
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
  const std::string text = read_header_text(file);
  const NpyHeader header = HeaderReader(file.check, text).read();
  check_data_size(file, header);
  Tensor x = Tensor::make(header.shape, header.dtype, Device());
  if (x.numel() == 0) return x;
  file.read(x.data_ptr(), x.nbytes(), "data");
  detail::tidy_bools(x.data_ptr(), x.nbytes(), header.dtype);
  if (!header.column_major) return x;
  return kernels::dense(view_as(x, header.shape, column_major_strides(header.shape), 0));
}

}  // namespace taper::v0

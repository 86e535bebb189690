#include "framework/io/safetensors.h"

#include <algorithm>
#include <bit>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <optional>
#include <set>
#include <system_error>
#include <utility>

#include <fcntl.h>
#include <nlohmann/json.hpp>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "framework/kernels/copy.h"

namespace taper {
namespace {

using Json = nlohmann::ordered_json;
using Metadata = std::map<std::string, std::string>;

static_assert(std::endian::native == std::endian::little, "the format is little-endian");

constexpr uint64_t kMaxHeader = 100'000'000;
constexpr uint64_t kLengthBytes = sizeof(uint64_t);
constexpr const char* kMetadataKey = "__metadata__";

struct DTypeName {
  DType dtype;
  const char* name;
};
// In the order in which the Python library lays tensors out: no wider type follows a narrower one,
// so that every tensor is aligned.
constexpr DTypeName kDTypeNames[] = {
    {kInt64, "I64"},   {kFloat64, "F64"}, {kFloat32, "F32"}, {kInt32, "I32"}, {kBFloat16, "BF16"},
    {kFloat16, "F16"}, {kInt16, "I16"},   {kInt8, "I8"},     {kUInt8, "U8"},  {kBool, "BOOL"}};

int rank_of(DType dtype) {
  int i = 0;
  while (kDTypeNames[i].dtype != dtype) ++i;
  return i;
}

std::string system_reason(int error) { return std::generic_category().message(error); }

// A name or value of the file in a message: quoted, and cut when it is long.
std::string in_quotes(const std::string& text) {
  constexpr size_t kMost = 100;
  return text.size() <= kMost ? "'" + text + "'" : "'" + text.substr(0, kMost) + "...'";
}

class FileHandle {
 public:
  FileHandle(const std::string& path, int flags) : fd_(::open(path.c_str(), flags, 0666)) {}
  FileHandle(const FileHandle&) = delete;
  ~FileHandle() {
    if (fd_ >= 0) ::close(fd_);
  }
  int get() const { return fd_; }
  // False, with the reason in errno, when closing shows that a write has failed.
  bool close() { return ::close(std::exchange(fd_, -1)) == 0; }

 private:
  int fd_;
};

// --- writing ---

// The new content of a file: takes the place of the old one in finish(), or goes.
class Replacement {
 public:
  Replacement(const std::string& path, uint64_t nbytes)
      : path_(path),
        temporary_(cat(path, ".tmp-", ::getpid())),
        nbytes_(nbytes),
        file_(temporary_, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC) {
    if (file_.get() < 0) fail("cannot create the file");
  }
  Replacement(const Replacement&) = delete;
  ~Replacement() {
    if (!finished_) ::unlink(temporary_.c_str());
  }

  void write(const void* data, uint64_t nbytes) {
    const char* from = static_cast<const char*>(data);
    while (nbytes > 0) {
      const ssize_t n = ::write(file_.get(), from, nbytes);
      if (n < 0 && errno == EINTR) continue;
      if (n < 0) fail("cannot write");
      from += n;
      nbytes -= uint64_t(n);
    }
  }

  // On return the new content is on the disk under its name.
  void finish() {
    if (::fsync(file_.get()) != 0 || !file_.close()) fail("cannot write");
    if (::rename(temporary_.c_str(), path_.c_str()) != 0) fail("cannot rename the finished file");
    finished_ = true;
    const FileHandle directory(directory_of_path(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    // Not every directory may be opened, and not every file system can do this (EINVAL).
    const bool synced = directory.get() < 0 || ::fsync(directory.get()) == 0 || errno == EINVAL;
    if (!synced) fail("cannot make the new name permanent");
  }

 private:
  std::string directory_of_path() const {
    const std::string directory = std::filesystem::path(path_).parent_path();
    return directory.empty() ? "." : directory;
  }

  [[noreturn]] void fail(const char* what) const {
    const int reason = errno;
    std::string text = cat(path_, ": ", what, ": ", system_reason(reason));
    if (reason == ENOSPC || reason == EDQUOT || reason == EFBIG) {
      std::error_code ignored;
      const auto space = std::filesystem::space(directory_of_path(), ignored);
      text += cat("; the file needs ", nbytes_, " bytes");
      if (!ignored) text += cat(", ", space.available + written(), " were available");
    }
    throw Error(text);
  }
  uint64_t written() const {
    struct stat info;
    return ::fstat(file_.get(), &info) == 0 ? uint64_t(info.st_blocks) * 512 : 0;
  }

  std::string path_, temporary_;
  uint64_t nbytes_;
  FileHandle file_;
  bool finished_ = false;
};

void check_names(const std::string& path, const std::vector<NamedTensor>& tensors) {
  std::set<std::string> seen;
  for (const NamedTensor& t : tensors) {
    const char* wrong = !t.tensor.defined()           ? "is undefined"
                        : t.name == kMetadataKey      ? "has a reserved name"
                        : !seen.insert(t.name).second ? "is given twice"
                                                      : nullptr;
    if (wrong) throw ValueError(cat(path, ": cannot save: tensor ", in_quotes(t.name), " ", wrong));
  }
}

std::vector<NamedTensor> in_file_order(std::vector<NamedTensor> tensors) {
  std::sort(tensors.begin(), tensors.end(), [](const NamedTensor& a, const NamedTensor& b) {
    const int rank = rank_of(a.tensor.dtype()), other = rank_of(b.tensor.dtype());
    return rank != other ? rank < other : a.name < b.name;
  });
  return tensors;
}

std::string header_text(const std::string& path, const std::vector<NamedTensor>& tensors,
                        const Metadata& metadata) try {
  Json header = Json::object();
  if (!metadata.empty()) header[kMetadataKey] = metadata;
  uint64_t end = 0;
  for (const NamedTensor& t : tensors) {
    const Shape& shape = t.tensor.shape();
    const uint64_t begin = std::exchange(end, end + t.tensor.nbytes());
    Json entry;
    entry["dtype"] = kDTypeNames[rank_of(t.tensor.dtype())].name;
    entry["shape"] = std::vector<int64_t>(shape.begin(), shape.end());
    entry["data_offsets"] = {begin, end};
    // Not header[name], which searches the whole list each time.
    header.get_ref<Json::object_t&>().emplace_back(t.name, std::move(entry));
  }
  std::string text = header.dump();
  text.resize((text.size() + 7) / 8 * 8, ' ');
  if (text.size() > kMaxHeader) {
    throw ValueError(cat(path, ": cannot save: the names and shapes take ", text.size(),
                         " bytes, the format allows ", kMaxHeader));
  }
  return text;
} catch (const Json::exception& e) {
  throw ValueError(cat(path, ": cannot save: a name or metadata is not UTF-8: ", e.what()));
}

Tensor on_host(const Tensor& x) {
  if (x.is_cpu()) return kernels::dense(x);
  Tensor host = Tensor::make(x.shape(), x.dtype(), Device());
  kernels::copy_into(host, x);
  return host;
}

// --- reading the header ---

struct Entry {
  std::string name;
  std::optional<DType> dtype;
  std::optional<std::vector<uint64_t>> shape, offsets;
};

[[noreturn]] void refuse(const std::string& path, const std::string& what) {
  throw Error(cat(path, ": not a valid safetensors file: ", what));
}

// Receives the parts of the header in order, so that duplicate keys and wrapped numbers, which a
// JSON value no longer shows, are seen. The names of its functions are the parser's.
class HeaderReader {
 public:
  explicit HeaderReader(const std::string& path) : path_(path) {}

  std::vector<Entry> entries;
  Metadata metadata;

  bool null() { unexpected("null"); }
  bool boolean(bool value) { unexpected(value ? "true" : "false"); }
  bool number_integer(int64_t value) { unexpected(cat(value)); }
  bool number_float(double, const std::string& text) { unexpected(text); }
  bool binary(Json::binary_t&) { unexpected("bytes"); }
  bool number_unsigned(uint64_t value) {
    if (place_ != Place::list) unexpected(cat(value));
    std::vector<uint64_t>& list = *list_of_key();
    list.push_back(value);
    if (list.size() > (key_ == "shape" ? size_t(kMaxDims) : 2)) unexpected("a longer list");
    return true;
  }
  bool string(std::string& value) {
    if (place_ == Place::metadata) {
      metadata[key_] = value;
      return true;
    }
    if (place_ != Place::entry || key_ != "dtype") unexpected(in_quotes(value));
    const auto known = std::find_if(std::begin(kDTypeNames), std::end(kDTypeNames),
                                    [&](const DTypeName& d) { return d.name == value; });
    if (known == std::end(kDTypeNames)) unexpected(in_quotes(value));
    entries.back().dtype = known->dtype;
    return true;
  }
  bool key(std::string& key) {
    std::set<std::string>& seen = place_ == Place::top ? names_ : keys_;
    if (!seen.insert(key).second)
      refuse(path_, cat(where(), "key ", in_quotes(key), " comes twice"));
    key_ = key;
    const bool known = key == "dtype" || key == "shape" || key == "data_offsets";
    if (place_ == Place::entry && !known) {
      refuse(path_, cat(where(), "expected dtype, shape and data_offsets, got ", in_quotes(key)));
    }
    return true;
  }
  bool start_object(size_t) {
    if (place_ != Place::before && place_ != Place::top) unexpected("an object");
    if (place_ == Place::before) {
      place_ = Place::top;
      return true;
    }
    keys_.clear();
    place_ = key_ == kMetadataKey ? Place::metadata : Place::entry;
    if (place_ == Place::entry) entries.push_back({key_, {}, {}, {}});
    return true;
  }
  bool end_object() {
    place_ = Place::top;
    return true;
  }
  bool start_array(size_t) {
    if (place_ != Place::entry || key_ == "dtype") unexpected("an array");
    list_of_key().emplace();
    place_ = Place::list;
    return true;
  }
  bool end_array() {
    place_ = Place::entry;
    return true;
  }
  bool parse_error(size_t at, const std::string&, const Json::exception& e) {
    // Only the reason: the parser's text goes on with bytes of the file, which may be any.
    std::string reason = e.what();
    reason = reason.substr(0, reason.find("; last read"));
    reason.erase(0, std::min(reason.find("syntax error"), reason.size()));
    refuse(path_, cat("the header is not valid JSON at byte ", at, ": ", reason));
  }

 private:
  enum class Place { before, top, entry, list, metadata };

  std::optional<std::vector<uint64_t>>& list_of_key() {
    return key_ == "shape" ? entries.back().shape : entries.back().offsets;
  }
  std::string where() const {
    if (place_ == Place::metadata) return cat(kMetadataKey, ": ");
    if (place_ == Place::before || place_ == Place::top) return "";
    return cat("tensor ", in_quotes(entries.back().name), ": ");
  }
  std::string expected() const {
    if (place_ == Place::before) return "a JSON object as header";
    if (place_ == Place::top && key_ == kMetadataKey) return cat("an object as ", key_);
    if (place_ == Place::top) return cat("an object as description of tensor ", in_quotes(key_));
    if (place_ == Place::metadata) return cat("a string for ", in_quotes(key_));
    if (key_ == "dtype") return "dtype I64 F64 F32 I32 BF16 F16 I16 I8 U8 or BOOL";
    if (key_ == "shape") return cat("shape to be a list of at most ", kMaxDims, " sizes");
    return "data_offsets to be a list of begin and end";
  }
  [[noreturn]] void unexpected(const std::string& got) const {
    refuse(path_, cat(where(), "expected ", expected(), ", got ", got));
  }

  const std::string& path_;
  Place place_ = Place::before;
  std::string key_;
  std::set<std::string> names_, keys_;
};

HeaderReader read_header(const std::string& path, std::string_view text) {
  HeaderReader reader(path);
  if (!text.starts_with('{')) {
    refuse(path, cat("expected the header to begin with '{', got ",
                     text.empty() ? "an empty header" : cat("byte ", int(uint8_t(text[0])))));
  }
  // The parser would stop there in silence.
  if (const size_t nul = text.find('\0'); nul != text.npos) {
    refuse(path, cat("the header is not valid JSON: a zero byte at ", nul));
  }
  Json::sax_parse(text.begin(), text.end(), &reader);
  return reader;
}

// --- reading the tensors ---

// The sizes of a complete entry, whose bytes are known to be as many as its span has.
Shape checked_shape(const std::string& path, const Entry& e, uint64_t data_size) {
  const std::string tensor = cat("tensor ", in_quotes(e.name), ": ");
  if (!e.dtype) refuse(path, cat(tensor, "has no dtype"));
  if (!e.shape) refuse(path, cat(tensor, "has no shape"));
  if (!e.offsets || e.offsets->size() != 2) {
    refuse(path, cat(tensor, "expected data_offsets [begin, end], got ",
                     e.offsets ? cat(e.offsets->size(), " numbers") : "none"));
  }
  Shape shape;
  // Also with the zeros left out the size must be countable: strides are products of some sizes.
  int64_t nbytes = int64_t(size_of(*e.dtype));
  bool countable = true, empty = false;
  for (const uint64_t n : *e.shape) {
    shape.push_back(int64_t(n));
    empty = empty || n == 0;
    countable = countable && !__builtin_mul_overflow(nbytes, std::max<uint64_t>(n, 1), &nbytes);
  }
  const std::string list = nlohmann::json(*e.shape).dump();
  if (!countable) refuse(path, cat(tensor, "shape ", list, " has more bytes than can be counted"));
  const uint64_t begin = (*e.offsets)[0], end = (*e.offsets)[1];
  if (begin > end || end > data_size) {
    refuse(path, cat(tensor, "data_offsets [", begin, ", ", end, "] do not lie within the ",
                     data_size, " bytes of data (is the file truncated?)"));
  }
  if (end - begin != (empty ? 0 : uint64_t(nbytes))) {
    refuse(path,
           cat(tensor, "expected ", empty ? 0 : nbytes, " bytes for shape ", list, " of ", *e.dtype,
               ", got data_offsets [", begin, ", ", end, "], ", end - begin, " bytes"));
  }
  return shape;
}

// Spans in order of their begin must follow each other from the first byte of data to the last.
void check_coverage(const std::string& path, const std::vector<Entry>& entries,
                    uint64_t data_size) {
  std::vector<const Entry*> order;
  for (const Entry& e : entries) order.push_back(&e);
  std::sort(order.begin(), order.end(),
            [](const Entry* a, const Entry* b) { return *a->offsets < *b->offsets; });
  uint64_t end = 0;
  for (const Entry* e : order) {
    const uint64_t begin = (*e->offsets)[0];
    if (begin != end) {
      refuse(path, cat("tensor ", in_quotes(e->name), ": expected its data to begin at ", end,
                       ", where the previous ends, got ", begin,
                       begin < end ? " (an overlap)" : " (a hole)"));
    }
    end = (*e->offsets)[1];
  }
  if (end != data_size) {
    refuse(path, cat("expected ", end, " bytes of data after the header, got ", data_size));
  }
}

// The whole file as memory; writing to it changes private copies of pages.
StoragePtr map_file(const std::string& path) {
  const FileHandle file(path, O_RDONLY | O_CLOEXEC);
  struct stat info;
  if (file.get() < 0 || ::fstat(file.get(), &info) != 0) {
    throw Error(cat(path, ": cannot read: ", system_reason(errno)));
  }
  if (!S_ISREG(info.st_mode)) throw Error(cat(path, ": cannot read: not a regular file"));
  const size_t size = size_t(info.st_size);
  if (size < kLengthBytes) {
    refuse(path, cat("expected at least ", kLengthBytes, " bytes, got ", size));
  }
  void* data =
      ::mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_NORESERVE, file.get(), 0);
  if (data == MAP_FAILED) throw Error(cat(path, ": cannot map: ", system_reason(errno)));
  return borrow(data, size, Device(), [](Storage& s) noexcept { ::munmap(s.data, s.nbytes); });
}

// A tensor over `nbytes` of the mapping, which it keeps alive.
Tensor mapped_tensor(StoragePtr mapping, char* data, size_t nbytes, const Shape& shape,
                     DType dtype) {
  // Any byte but 0 counts as true; C++ knows only 1.
  for (size_t i = 0; dtype == kBool && i < nbytes; ++i) {
    if (uint8_t(data[i]) > 1) data[i] = 1;
  }
  // Files of others need not align their data.
  if (nbytes == 0 || reinterpret_cast<uintptr_t>(data) % size_of(dtype) != 0) {
    Tensor copy = Tensor::make(shape, dtype, Device());
    if (nbytes > 0) std::memcpy(copy.data_ptr(), data, nbytes);
    return copy;
  }
  // Each tensor has a storage of its own, so that in-place changes are counted for it alone.
  const auto free = [](Storage& s) noexcept {
    StoragePtr::adopt(static_cast<Storage*>(s.context)).reset();
  };
  StoragePtr storage = borrow(data, nbytes, Device(), free, mapping.get());
  mapping.release();
  return Tensor::make(std::move(storage), shape, contiguous_strides(shape), 0, dtype);
}

}  // namespace

void save_safetensors(const std::string& path, const std::vector<NamedTensor>& tensors,
                      const Metadata& metadata) {
  check_names(path, tensors);
  const std::vector<NamedTensor> sorted = in_file_order(tensors);
  const std::string header = header_text(path, sorted, metadata);
  const uint64_t length = header.size();
  uint64_t total = kLengthBytes + length;
  for (const NamedTensor& t : sorted) total += t.tensor.nbytes();
  Replacement file(path, total);
  file.write(&length, sizeof length);
  file.write(header.data(), length);
  for (const NamedTensor& t : sorted) file.write(on_host(t.tensor).data_ptr(), t.tensor.nbytes());
  file.finish();
}

SafeTensors load_safetensors(const std::string& path) {
  const StoragePtr mapping = map_file(path);
  char* base = static_cast<char*>(mapping->data);
  uint64_t length;
  std::memcpy(&length, base, sizeof length);
  const uint64_t room = mapping->nbytes - kLengthBytes;
  if (length > std::min(kMaxHeader, room)) {
    refuse(path, cat("expected a header of at most ", std::min(kMaxHeader, room), " bytes, got ",
                     length, length > kMaxHeader ? "" : " (is the file truncated?)"));
  }
  HeaderReader header = read_header(path, {base + kLengthBytes, length});
  std::vector<Shape> shapes;
  for (const Entry& e : header.entries) shapes.push_back(checked_shape(path, e, room - length));
  check_coverage(path, header.entries, room - length);
  SafeTensors out{{}, std::move(header.metadata)};
  for (size_t i = 0; i < shapes.size(); ++i) {
    Entry& e = header.entries[i];
    const uint64_t begin = (*e.offsets)[0], end = (*e.offsets)[1];
    char* data = base + kLengthBytes + length + begin;
    out.tensors.push_back(
        {std::move(e.name), mapped_tensor(mapping, data, end - begin, shapes[i], *e.dtype)});
  }
  return out;
}

}  // namespace taper

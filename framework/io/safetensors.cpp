#include "framework/io/safetensors.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cerrno>
#include <cstring>
#include <functional>
#include <optional>
#include <set>
#include <system_error>
#include <tuple>
#include <utility>

#include <nlohmann/json.hpp>
#include <sys/mman.h>

#include "framework/host/atomic_file.h"
#include "framework/io/input_file.h"
#include "framework/io/json_scanner.h"
#include "framework/io/tensor_file.h"
#include "framework/io/text_utils.h"

namespace taper::v0 {
namespace {

using Json = nlohmann::json;
using Metadata = std::map<std::string, std::string>;

static_assert(std::endian::native == std::endian::little, "the format is little-endian");

constexpr uint64_t kMaxHeader = 100'000'000;
constexpr uint64_t kLengthBytes = sizeof(uint64_t);
constexpr const char* kMetadataKey = "__metadata__";

struct DTypeName {
  DType dtype;
  const char* name;
};
// The order in which the Python library stores the types of tensors. No wider type follows a
// narrower one, so that every tensor is aligned.
constexpr DTypeName kDTypeNames[] = {
    {kInt64, "I64"},   {kFloat64, "F64"}, {kFloat32, "F32"}, {kInt32, "I32"}, {kBFloat16, "BF16"},
    {kFloat16, "F16"}, {kInt16, "I16"},   {kInt8, "I8"},     {kUInt8, "U8"},  {kBool, "BOOL"}};

int rank_of(DType dtype) {
  int i = 0;
  while (kDTypeNames[i].dtype != dtype) ++i;
  return i;
}

// Returns a JSON value of the file, formatted for a message.
std::string shown(const Json& value) { return detail::escaped_for_display(value.dump(), 100); }
std::string in_quotes(const std::string& text) {
  return concat_to_string("'", detail::escaped_for_display(text, 100), "'");
}

// --- writing ---

std::vector<NamedTensor> in_file_order(std::vector<NamedTensor> tensors) {
  std::ranges::sort(tensors, {}, [](const NamedTensor& t) {
    return std::pair(rank_of(t.tensor.dtype()), std::string_view(t.name));
  });
  return tensors;
}

std::string header_text(const std::string& path, const std::vector<NamedTensor>& tensors,
                        const Metadata& metadata) try {
  std::string text = "{";
  if (!metadata.empty()) text += concat_to_string('"', kMetadataKey, "\":", Json(metadata).dump());
  uint64_t end = 0;
  for (const NamedTensor& t : tensors) {
    const Shape& shape = t.tensor.shape();
    const uint64_t begin = std::exchange(end, end + t.tensor.nbytes());
    text += concat_to_string(text.size() > 1 ? "," : "", Json(t.name).dump(), ":{\"dtype\":\"",
                             kDTypeNames[rank_of(t.tensor.dtype())].name, "\",\"shape\":",
                             Json(std::vector<int64_t>(shape.begin(), shape.end())).dump(),
                             ",\"data_offsets\":[", begin, ",", end, "]}");
  }
  text += '}';
  text.resize((text.size() + 7) / 8 * 8, ' ');
  require<ValueError>(text.size() <= kMaxHeader, path, ": cannot save: the names and shapes take ",
                      text.size(), " bytes, the format allows ", kMaxHeader);
  return text;
} catch (const Json::exception& e) {
  throw ValueError(path, ": cannot save: a name or metadata is not UTF-8: ", e.what());
}

// --- reading the header ---

// A tensor's description in the header. Its bytes are [begin, end) of the data.
struct Entry {
  std::string name;
  uint64_t begin, end;
  DType dtype = kFloat32;
  Shape shape = {};
  std::string unsupported = {};  // why Taper cannot represent it; empty if it can
};
struct Header {
  std::vector<Entry> entries;
  Metadata metadata;
};

struct Check : FileCheck<Error> {
  // `name` is a tensor's name or the metadata key.
  template <class... Text>
  [[noreturn]] void refuse_entry(const std::string& name, const Text&... what) const {
    refuse(name == kMetadataKey ? name : "tensor " + in_quotes(name), ": ", what...);
  }
};

[[noreturn]] void refuse_json(const Check& check, std::string_view header) {
  const std::optional<JsonFault> fault = scan_json(header, [](const JsonEvent&) {});
  check.refuse(fault ? concat_to_string("the header is not valid JSON: ", fault->what, " at byte ",
                                        fault->at)
                     : "the header is not valid JSON");
}

std::string readable_dtype_names() {
  std::string names;
  for (const DTypeName& d : kDTypeNames)
    names += concat_to_string(names.empty() ? "" : ", ", d.name);
  return names;
}

// Sets the shape. Throws if it does not match the number of bytes of the entry.
void set_shape(const Check& check, Entry& entry, const std::vector<uint64_t>& sizes) {
  for (const uint64_t n : sizes) entry.shape.push_back(int64_t(n));
  const std::optional<int64_t> nbytes = entry.shape.try_nbytes(size_of(entry.dtype));
  const std::string shape = shown(sizes);
  if (!nbytes) {
    check.refuse_entry(entry.name, "shape ", shape, " has more bytes than can be counted");
  }
  if (entry.end - entry.begin == uint64_t(*nbytes)) return;
  check.refuse_entry(entry.name, "expected ", *nbytes, " bytes for shape ", shape, " of ",
                     entry.dtype, ", got data_offsets [", entry.begin, ", ", entry.end, "], ",
                     entry.end - entry.begin, " bytes");
}

Entry entry_of(const Check& check, const std::string& name, const Json& description,
               uint64_t data_size) {
  const auto fail = [&](const auto&... what) { check.refuse_entry(name, what...); };
  for (const auto& [key, value] : description.items()) {
    if (key != "dtype" && key != "shape" && key != "data_offsets") {
      fail("expected dtype, shape and data_offsets, got ", in_quotes(key));
    }
  }
  const auto part = [&](const char* key) -> const Json& {
    if (!description.contains(key)) fail("has no ", key);
    return description[key];
  };
  // nlohmann-json parses integers beyond 64 bits as floating-point numbers.
  const auto numbers = [&](const char* key, const char* expected) {
    const Json& list = part(key);
    bool valid = list.is_array();
    for (const Json& n : list) valid = valid && n.is_number_unsigned();
    if (!valid) fail("expected ", key, " to be a list of ", expected, ", got ", shown(list));
    return list.get<std::vector<uint64_t>>();
  };

  const Json& type = part("dtype");
  if (!type.is_string()) fail("expected dtype to be a name, got ", shown(type));
  const std::vector<uint64_t> sizes = numbers("shape", "sizes");
  const std::vector<uint64_t> offsets = numbers("data_offsets", "begin and end");
  if (offsets.size() != 2) {
    fail("expected data_offsets [begin, end], got ", offsets.size(), " numbers");
  }
  Entry entry{name, offsets[0], offsets[1]};
  if (entry.begin > entry.end || entry.end > data_size) {
    fail("data_offsets [", entry.begin, ", ", entry.end, "] do not lie within the ", data_size,
         " bytes of data (is the file truncated?)");
  }
  const auto known = std::ranges::find_if(kDTypeNames, [&](auto& d) { return type == d.name; });
  if (known == std::end(kDTypeNames)) {
    entry.unsupported = concat_to_string(
        "dtype ", detail::escaped_for_display(type.get_ref<const std::string&>(), 40),
        " is not supported; Taper reads ", readable_dtype_names());
  } else if (sizes.size() > kMaxDims) {
    entry.unsupported = concat_to_string("it has more than ", kMaxDims, " dimensions");
  } else {
    entry.dtype = known->dtype;
    set_shape(check, entry, sizes);
  }
  return entry;
}

Metadata metadata_of(const Check& check, const Json& texts) {
  for (const auto& [key, text] : texts.items()) {
    if (text.is_string()) continue;
    check.refuse_entry(kMetadataKey, "expected a string for ", in_quotes(key), ", got ",
                       shown(text));
  }
  return texts.get<Metadata>();
}

// Parser callback that consumes each description of a tensor when it ends, so that the parser keeps
// none of them. It also detects repeated keys, which the parsed value no longer shows. At depth 1
// are values of the header, at depth 2 values of a description, and at depth 3 elements of a list
// in it.
struct HeaderWatch {
  const Check& check;
  uint64_t data_size;
  Header header = {};
  std::string name = {};  // the last key of the header
  // the keys so far, of the header and of a description
  std::array<std::set<std::string>, 2> keys = {};
  int list_size = 0;

  // Returns whether the parser should keep the value.
  bool operator()(int depth, Json::parse_event_t event, const Json& value) {
    using Event = Json::parse_event_t;
    const bool list = event == Event::array_start, object = event == Event::object_start;
    if (event == Event::key) {
      const auto& key = value.get_ref<const std::string&>();
      if (depth == 1) name = key;
      if (!keys[depth - 1].insert(key).second) {
        check.refuse_entry(name, depth == 1 ? "" : concat_to_string("key ", in_quotes(key), " "),
                           "comes twice");
      }
      list_size = 0;
    }
    const bool is_empty = name == kMetadataKey && event == Event::value && value.is_null();
    if (depth == 1 && (list || event == Event::value) && !is_empty) {
      check.refuse_entry(name, "expected an object, got ", list ? "a list" : shown(value));
    }
    if (object && depth > 1) check.refuse_entry(name, "expected no object within this one");
    if (object) keys[depth].clear();
    if (depth == 3 && list) check.refuse_entry(name, "expected no list within a list");
    // Keeps one size more than a shape can have, so that an excess is detected.
    if (depth == 3 && event == Event::value && ++list_size > kMaxDims + 1) return false;
    if (depth != 1 || event != Event::object_end) return true;
    if (name == kMetadataKey) {
      header.metadata = metadata_of(check, value);
    } else {
      header.entries.push_back(entry_of(check, name, value, data_size));
    }
    return false;
  }
};

Header read_header(const Check& check, std::string_view text, uint64_t data_size) try {
  if (!text.starts_with('{')) {
    check.refuse(
        "expected the header to begin with '{', got ",
        text.empty() ? "an empty header" : concat_to_string("byte ", int(uint8_t(text[0]))));
  }
  // At a zero byte the parser would stop without an error.
  if (text.find('\0') != text.npos) refuse_json(check, text);
  HeaderWatch watch{check, data_size};
  std::ignore = Json::parse(text.begin(), text.end(), std::ref(watch));
  return std::move(watch.header);
} catch (const Json::exception&) {
  refuse_json(check, text);
}

// --- reading the tensors ---

// Throws unless the entries, sorted by their begin, cover the data without gaps or overlaps.
void check_coverage(const Check& check, const std::vector<Entry>& entries, uint64_t data_size) {
  std::vector<const Entry*> order;
  for (const Entry& e : entries) order.push_back(&e);
  std::ranges::sort(order, {}, [](const Entry* e) { return std::pair(e->begin, e->end); });
  uint64_t end = 0;
  for (const Entry* e : order) {
    if (e->begin != end) {
      check.refuse_entry(e->name, "expected its data to begin at ", end,
                         ", where the previous ends, got ", e->begin,
                         e->begin < end ? " (an overlap)" : " (a hole)");
    }
    end = e->end;
  }
  check(end == data_size, "expected ", end, " bytes of data after the header, got ", data_size);
}

// Maps the whole file. Writes go to private copies of pages.
StoragePtr map_file(const Check& check) {
  const InputFile file(check.path, "");
  const size_t size = file.size();
  check(size >= kLengthBytes, "expected at least ", kLengthBytes, " bytes, got ", size);
  void* data = ::mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_NORESERVE,
                      file.descriptor(), 0);
  if (data == MAP_FAILED)
    throw Error(check.path, ": cannot map: ", std::generic_category().message(errno));
  return borrow(data, size, Device(), [](Storage& s) noexcept { ::munmap(s.data, s.nbytes); });
}

// Returns a tensor over `nbytes` of the mapping. The tensor keeps the mapping alive.
Tensor mapped_tensor(StoragePtr mapping, char* data, size_t nbytes, const Shape& shape,
                     DType dtype) {
  detail::tidy_bools(data, nbytes, dtype);
  // Files of other programs may have data that are not aligned.
  if (nbytes == 0 || reinterpret_cast<uintptr_t>(data) % size_of(dtype) != 0) {
    Tensor copy = Tensor::make(shape, dtype, Device());
    if (nbytes > 0) std::memcpy(copy.data_ptr(), data, nbytes);
    return copy;
  }
  // Each tensor has its own storage, so that each has its own version counter for in-place changes.
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
  detail::check_savable(path, tensors, kMetadataKey);
  const std::vector<NamedTensor> sorted = in_file_order(tensors);
  const std::string header = header_text(path, sorted, metadata);
  const uint64_t length = header.size();
  uint64_t total = kLengthBytes + length;
  for (const NamedTensor& t : sorted) total += t.tensor.nbytes();
  AtomicFile file(path, total);
  file.write(&length, sizeof length);
  file.write(header.data(), length);
  for (const NamedTensor& t : sorted)
    file.write(detail::on_host(t.tensor).data_ptr(), t.tensor.nbytes());
  file.finish();
}

SafeTensors load_safetensors(const std::string& path, const SafeTensorsOptions& options) {
  const Check check{{path, "not a valid safetensors file"}};
  const StoragePtr mapping = map_file(check);
  char* base = static_cast<char*>(mapping->data);
  uint64_t length;
  std::memcpy(&length, base, sizeof length);
  const uint64_t room = mapping->nbytes - kLengthBytes;
  check(length <= std::min(kMaxHeader, room), "expected a header of at most ",
        std::min(kMaxHeader, room), " bytes, got ", length,
        length > kMaxHeader ? " (is it a file of another format?)" : " (is the file truncated?)");
  Header header = read_header(check, {base + kLengthBytes, length}, room - length);
  check_coverage(check, header.entries, room - length);
  SafeTensors out{LoadedTensors(path), std::move(header.metadata)};
  for (Entry& e : header.entries) {
    if (!e.unsupported.empty()) {
      out.tensors.unreadable.emplace(
          e.name, concat_to_string(path, ": tensor ", in_quotes(e.name), ": ", e.unsupported));
      continue;
    }
    char* data = base + kLengthBytes + length + e.begin;
    out.tensors.push_back(
        {std::move(e.name), mapped_tensor(mapping, data, e.end - e.begin, e.shape, e.dtype)});
  }
  out.tensors.keep_prefix(options.prefix);
  return out;
}

}  // namespace taper::v0

#include "framework/io/pt.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <map>
#include <memory>
#include <optional>
#include <set>

#include "framework/io/archive.h"
#include "framework/io/input_file.h"
#include "framework/io/pickle.h"
#include "framework/io/safetensors.h"
#include "framework/io/tensor_file.h"
#include "framework/io/text_utils.h"

namespace taper::v0 {
namespace {

using ValueKind = PickleValue::ValueKind;
using detail::in_quotes;

static_assert(std::endian::native == std::endian::little, "files say that they are little-endian");

constexpr uint64_t kMaxPickle = 100'000'000;
constexpr int kMaxDepth = 64;
constexpr int kMaxValues = 1 << 22;
// Limits of the names of all values, in bytes, and of the names of tensors. A pickle can repeat a
// text by a few bytes, so the size of the file bounds neither.
constexpr uint64_t kMaxNameBytes = 1 << 28;
constexpr size_t kMaxNames = 1 << 20;
// torch.save does not compress, but archives may be compressed. Their tensors may have this many
// times the size of the file, or 1 GiB, if that is more.
constexpr uint64_t kMostRatio = 16, kAlwaysAllowed = uint64_t(1) << 30;
constexpr std::string_view kZipMagic = "PK\x03\x04";
constexpr std::string_view kLegacyMagic = "\x80\x02\x8a\x0al\xfc\x9c\x46\xf9\x20\x6a\xa8\x50\x19";

constexpr std::string_view kRebuildTensor = "torch._utils._rebuild_tensor_v2";
constexpr std::string_view kRebuildAsDtype = "torch._utils._rebuild_tensor_v3";
constexpr std::string_view kRebuildParameter = "torch._utils._rebuild_parameter";
// Calls in checkpoints that are skipped, because their results are not tensors.
constexpr std::string_view kPassedOver[] = {"torch.Size", "torch.device", "_codecs.encode"};

// Returns the name of a storage class in the module torch, as "FloatStorage".
std::string storage_class(DType dtype) {
  return concat_to_string(scalar_type_name(dtype), "Storage");
}

// Returns the dtype of a storage class, or std::nullopt for a type that Taper lacks.
std::optional<DType> storage_dtype(const PickleValue& type) {
  for (const DType t : kAllDTypes) {
    if (type.is(ValueKind::kGlobal) && type.text == concat_to_string("torch.", storage_class(t)))
      return t;
  }
  return std::nullopt;
}

// Returns the size of an element in bytes, also for types that Taper lacks.
std::optional<size_t> storage_element_size(const PickleValue& type) {
  if (const std::optional<DType> dtype = storage_dtype(type)) return size_of(*dtype);
  constexpr std::pair<std::string_view, size_t> kOthers[] = {
      {"torch.storage.UntypedStorage", 1}, {"torch.UntypedStorage", 1},
      {"torch.ComplexHalfStorage", 4},     {"torch.ComplexFloatStorage", 8},
      {"torch.ComplexDoubleStorage", 16},  {"torch.QInt8Storage", 1},
      {"torch.QUInt8Storage", 1},          {"torch.QInt32Storage", 4}};
  for (const auto& [name, size] : kOthers) {
    if (type.is(ValueKind::kGlobal) && type.text == name) return size;
  }
  return std::nullopt;
}

std::string names_of_dtypes() {
  std::string names;
  for (const DType t : kAllDTypes) names += concat_to_string(names.empty() ? "" : ", ", t);
  return names;
}

// Returns a dict key as Python prints it, and a string as it is; std::nullopt for any other kind.
std::optional<std::string> name_of_key(const PickleValue& key, bool in_tuple = false) {
  switch (key.kind) {
    case ValueKind::kText: return in_tuple ? in_quotes(key.text) : std::string(key.text);
    case ValueKind::kGlobal: return std::string(key.text);
    case ValueKind::kInteger: return concat_to_string(key.integer);
    case ValueKind::kBoolean: return key.integer ? "True" : "False";
    case ValueKind::kNone: return "None";
    case ValueKind::kReal: {
      const std::string digits = concat_to_string(key.real);
      return digits.find_first_not_of("-0123456789") == digits.npos ? digits + ".0" : digits;
    }
    case ValueKind::kTuple: break;
    default: return std::nullopt;
  }
  std::string text;
  for (const PickleValue* item : key.items) {
    const auto name = in_tuple ? std::nullopt : name_of_key(*item, true);
    if (!name) return std::nullopt;
    text += concat_to_string(text.empty() ? "" : ", ", *name);
  }
  return concat_to_string("(", text, key.items.size() == 1 ? ",)" : ")");
}

constexpr const char* kIsNot = "not a valid file of torch.save";

// Presents a file from before PyTorch 1.6 like an archive of later versions. It is a sequence of
// pickles (a magic number, a version, properties of the machine, the tensors, the storages' keys),
// followed by the length and the bytes of each storage.
class OldFile final : public Archive {
 public:
  explicit OldFile(const std::string& path) : check_{path, kIsNot}, bytes_(read_file(path, "")) {
    at_ = kLegacyMagic.size() + 1;
    (void)next_pickle();
    const Pickle facts = next_pickle();
    for (size_t i = 0; i + 1 < facts.root().items.size(); i += 2) {
      const PickleValue &key = *facts.root().items[i], &value = *facts.root().items[i + 1];
      if (key.text == "little_endian" && !value.integer) check_.refuse("it is not little-endian");
    }
    add("old/data.pkl", at_, 0);
    const Pickle tensors = next_pickle();
    entries_[0].nbytes = tensors.size();
    std::map<std::string_view, size_t> sizes;  // element size of each storage
    for (const PickleValue* p : tensors.all(ValueKind::kPersistent)) {
      const auto& id = p->items[0]->items;
      const auto size = id.size() > 2 ? storage_element_size(*id[1]) : std::nullopt;
      if (size) sizes.emplace(id[2]->text, *size);
    }
    const Pickle keys = next_pickle();
    for (const PickleValue* key : keys.root().items) add_storage(std::string(key->text), sizes);
  }

  StoragePtr read(size_t index) override {
    StoragePtr storage = allocate(entries_[index].nbytes, Device());
    if (storage->nbytes > 0) {
      std::memcpy(storage->data, bytes_.data() + places_[index], storage->nbytes);
    }
    return storage;
  }

 private:
  void add(const std::string& name, size_t at, uint64_t nbytes) {
    entries_.push_back({name, nbytes});
    places_.push_back(at);
  }
  void add_storage(const std::string& key, const std::map<std::string_view, size_t>& sizes) {
    const auto size = sizes.find(key);
    uint64_t count = 0, nbytes = 0;
    check_(size != sizes.end() && bytes_.size() - at_ >= sizeof count, "storage ", in_quotes(key),
           " is cut off or of no known type");
    std::memcpy(&count, bytes_.data() + at_, sizeof count);
    at_ += sizeof count;
    check_(!__builtin_mul_overflow(count, size->second, &nbytes) && nbytes <= bytes_.size() - at_,
           "storage ", in_quotes(key), " of ", count,
           " elements does not lie in the file (is it truncated?)");
    add("old/data/" + key, at_, nbytes);
    at_ += nbytes;
  }
  Pickle next_pickle() {
    const std::string_view rest = std::string_view(bytes_).substr(std::min(at_, bytes_.size()));
    Pickle pickle(rest, concat_to_string(check_.path, ": in the pickle from byte ", at_), false);
    at_ += pickle.size();
    return pickle;
  }

  const FileCheck<> check_;
  const std::string bytes_;
  size_t at_ = 0;
  std::vector<size_t> places_;
};

class PtReader {
 public:
  PtReader(const std::string& path, std::unique_ptr<Archive> archive)
      : check_{path, kIsNot},
        archive_(std::move(archive)),
        pickle_bytes_(archive_->read(find_pickle())),
        pickle_(read_pickle()),
        file_bytes_(InputFile(path, "").size()) {}

  LoadedTensors tensors(const std::string& entry) {
    entry_ = entry;
    collect("", pickle_.root(), 0);
    std::erase_if(out_, [&](const NamedTensor& t) { return out_.unreadable.contains(t.name); });
    std::string keys;
    const PickleValue& root = pickle_.root();
    for (size_t i = 0; root.is(ValueKind::kDict) && i < std::min<size_t>(40, root.items.size());
         i += 2) {
      keys += concat_to_string(keys.empty() ? "" : ", ", name_of_key(*root.items[i]).value_or("?"));
    }
    out_.keep_below(entry, keys);
    return std::move(out_);
  }

 private:
  std::optional<size_t> find(const std::string& name) const {
    const auto found = places_.find(name);
    return found == places_.end() ? std::nullopt : std::optional(found->second);
  }

  // Returns the index of "FOLDER/data.pkl". The folder may have any name and contains all other
  // entries.
  size_t find_pickle() {
    constexpr std::string_view kName = "/data.pkl";
    const auto& entries = archive_->entries();
    for (size_t i = 0; i < entries.size(); ++i) places_.emplace(entries[i].name, i);
    for (const auto& [name, place] : places_) {
      if (!name.ends_with(kName) || name.find('/') != name.size() - kName.size()) continue;
      folder_ = name.substr(0, name.size() - kName.size() + 1);
      const uint64_t nbytes = entries[place].nbytes;
      check_(nbytes <= kMaxPickle, name, " has ", nbytes, " bytes, more than ", kMaxPickle);
      return place;
    }
    check_.refuse("the archive has no data.pkl");
  }

  Pickle read_pickle() {
    if (const auto order = find(folder_ + "byteorder")) {
      const StoragePtr text = archive_->read(*order);
      check_(std::string_view(static_cast<const char*>(text->data), text->nbytes) == "little",
             "its bytes are not little-endian");
    }
    return Pickle({static_cast<const char*>(pickle_bytes_->data), pickle_bytes_->nbytes},
                  concat_to_string(check_.path, ": ", folder_, "data.pkl"));
  }

  void refuse_entry(const std::string& name, size_t at, const std::string& why) {
    const std::string what = name.empty() ? why : concat_to_string(in_quotes(name), ": ", why);
    out_.unreadable.emplace(name, pickle_.message(at, what));
  }

  void collect(const std::string& name, const PickleValue& value, int depth) {
    pickle_.check(depth <= kMaxDepth && ++values_ <= kMaxValues, value.at,
                  "containers within one another without an end");
    name_bytes_ += name.size();
    pickle_.check(name_bytes_ <= kMaxNameBytes, value.at, "the names of its values take more than ",
                  kMaxNameBytes, " bytes");
    const auto below = [&](const std::string& key) {
      return name.empty() ? key : concat_to_string(name, ".", key);
    };
    if (value.is(ValueKind::kCall)) {
      collect_call(name, value);
    } else if (value.is(ValueKind::kDict)) {
      for (size_t i = 0; i < value.items.size(); i += 2) {
        const auto key = name_of_key(*value.items[i]);
        const size_t at = value.items[i]->at;
        collect(below(key.value_or(concat_to_string("<key at byte ", at, ">"))),
                *value.items[i + 1], depth + 1);
      }
    } else if (value.is(ValueKind::kList) || value.is(ValueKind::kTuple)) {
      for (size_t i = 0; i < value.items.size(); ++i) {
        collect(below(concat_to_string(i)), *value.items[i], depth + 1);
      }
    }
  }

  // Collects a call that constructs a tensor, or records why it cannot be read.
  void collect_call(const std::string& name, const PickleValue& call) {
    const PickleValue& callable = *call.items[0];
    if (std::ranges::count(kPassedOver, callable.text) > 0) return;
    pickle_.check(names_.size() + out_.unreadable.size() < kMaxNames, call.at, "it has more than ",
                  kMaxNames, " tensors");
    const PickleValue& tensor = call.calls(kRebuildParameter) ? data_of(call) : call;
    if (const std::string why = unsupported(tensor); !why.empty()) {
      return refuse_entry(name, callable.at, why);
    }
    if (!names_.insert(name).second) {
      return refuse_entry(name, callable.at, "two values of the file have this name");
    }
    if (is_below(name, entry_)) out_.push_back({name, tensor_of(tensor)});
  }

  // --- tensors ---

  // Returns the tensor argument of _rebuild_parameter(tensor, ...).
  const PickleValue& data_of(const PickleValue& parameter) const {
    return argument(parameter, 0, ValueKind::kCall, "a tensor");
  }

  // Returns why Taper cannot represent the call's result, or an empty string if it can.
  std::string unsupported(const PickleValue& call) const {
    if (call.calls(kRebuildAsDtype)) {
      const PickleValue& dtype = argument(call, 6, ValueKind::kGlobal, "a dtype");
      const std::string_view name = dtype.text.substr(dtype.text.rfind('.') + 1);
      return concat_to_string("dtype ", name, " is not supported; Taper has ", names_of_dtypes());
    }
    if (!call.calls(kRebuildTensor)) {
      return concat_to_string("it needs Python's ", in_quotes(call.items[0]->text),
                              ", which is not run; in Python, save the tensors alone, as "
                              "torch.save(model.state_dict(), path) does");
    }
    const PickleValue& storage = argument(call, 0, ValueKind::kPersistent, "a storage");
    const PickleValue& id = argument(storage, 0, ValueKind::kTuple, "a storage's id");
    const PickleValue& type = argument(id, 1, ValueKind::kGlobal, "a storage's type");
    if (!storage_dtype(type)) {
      return concat_to_string("storage type ", in_quotes(type.text),
                              " is not supported; Taper has the dtypes ", names_of_dtypes());
    }
    const auto& arguments = call.items[1]->items;
    if (argument(call, 2, ValueKind::kTuple, "sizes").items.size() > kMaxDims) {
      return concat_to_string("it has more than ", kMaxDims, " dimensions");
    }
    const bool is_lazy = arguments.size() > 6 && !arguments[6]->items.empty();
    return is_lazy ? "it is conjugated or negated lazily; in Python, save its clone()" : "";
  }

  const PickleValue& argument(const PickleValue& of, size_t i, ValueKind kind,
                              const char* what) const {
    const auto& items = of.is(ValueKind::kCall) ? of.items[1]->items : of.items;
    pickle_.check(i < items.size() && items[i]->is(kind), of.at, "expected ", what, " as value ", i,
                  " of a tensor");
    return *items[i];
  }

  Shape numbers(const PickleValue& call, size_t i, const char* what) const {
    Shape out;
    for (const PickleValue* n : argument(call, i, ValueKind::kTuple, what).items) {
      pickle_.check(n->is(ValueKind::kInteger) && n->integer >= 0 && out.size() != kMaxDims,
                    call.at, "expected at most ", kMaxDims, " ", what, " of 0 or more");
      out.push_back(n->integer);
    }
    return out;
  }

  struct Bytes {
    DType dtype;
    StoragePtr storage;
  };

  // Returns the bytes of "FOLDER/data/KEY" for ("storage", type, key, device, elements).
  const Bytes& storage_of(const PickleValue& persistent) {
    const PickleValue& id = argument(persistent, 0, ValueKind::kTuple, "a storage's id");
    const PickleValue& type = argument(id, 1, ValueKind::kGlobal, "a storage's type");
    const std::string key(argument(id, 2, ValueKind::kText, "a storage's key").text);
    const int64_t elements = argument(id, 4, ValueKind::kInteger, "a storage's size").integer;
    const std::optional<DType> dtype = storage_dtype(type);
    const auto [found, is_new] = storages_.try_emplace(key, Bytes{*dtype, {}});
    if (!is_new) {
      if (found->second.dtype == *dtype) return found->second;
      pickle_.refuse(persistent.at, concat_to_string("storage ", in_quotes(key), " has two types"));
    }
    const std::optional<size_t> index = find(concat_to_string(folder_, "data/", key));
    if (!index) pickle_.refuse(persistent.at, concat_to_string("the archive has no data/", key));
    const uint64_t nbytes = archive_->entries()[*index].nbytes;
    const size_t size = size_of(*dtype);
    pickle_.check(elements >= 0 && uint64_t(elements) == nbytes / size && nbytes % size == 0,
                  persistent.at, "storage ", in_quotes(key), " of ", elements, " x ", *dtype,
                  " has ", nbytes, " bytes");
    unpacked_ += nbytes;
    pickle_.check(unpacked_ <= std::max(kAlwaysAllowed, file_bytes_ * kMostRatio), persistent.at,
                  "its tensors take at least ", unpacked_, " bytes, the compressed file only ",
                  file_bytes_, "; expected at most ", kMostRatio, " times as many");
    found->second.storage = archive_->read(*index);
    detail::tidy_bools(found->second.storage->data, nbytes, *dtype);
    return found->second;
  }

  // Builds the tensor of _rebuild_tensor_v2(storage, offset, size, stride, ...).
  Tensor tensor_of(const PickleValue& call) {
    const Bytes& bytes = storage_of(argument(call, 0, ValueKind::kPersistent, "a storage"));
    const int64_t offset = argument(call, 1, ValueKind::kInteger, "an offset").integer;
    const Shape shape = numbers(call, 2, "sizes"), strides = numbers(call, 3, "strides");
    int64_t last = offset;  // offset of the last element
    bool fits =
        offset >= 0 && shape.size() == strides.size() && shape.try_nbytes(size_of(bytes.dtype));
    for (int d = 0; fits && d < shape.size(); ++d) {
      int64_t step;
      fits = !__builtin_mul_overflow(std::max<int64_t>(shape[d], 1) - 1, strides[d], &step) &&
             !__builtin_add_overflow(last, step, &last);
    }
    const auto elements = int64_t(bytes.storage->nbytes / size_of(bytes.dtype));
    fits = fits && (shape.numel() == 0 ? offset <= elements : last < elements);
    pickle_.check(fits, call.at, "shape ", shape, " with strides ", strides, " from ", offset,
                  " does not lie in a storage of ", elements);
    return Tensor::make(bytes.storage, shape, strides, offset, bytes.dtype);
  }

  const FileCheck<> check_;
  const std::unique_ptr<Archive> archive_;
  std::map<std::string, size_t> places_;  // index of each entry of the archive
  std::string folder_;
  StoragePtr pickle_bytes_;
  Pickle pickle_;
  std::string entry_;
  int values_ = 0;
  uint64_t name_bytes_ = 0;
  uint64_t file_bytes_, unpacked_ = 0;  // unpacked: of the storages that were read
  std::set<std::string> names_;         // names of all tensors, also of those below other entries
  std::map<std::string, Bytes> storages_;
  LoadedTensors out_{check_.path};
};

}  // namespace

LoadedTensors load_pt(const std::string& path, const std::string& entry) {
  std::unique_ptr<Archive> archive;
  if (read_file(path, "", kLegacyMagic.size()) == kLegacyMagic) {
    archive = std::make_unique<OldFile>(path);
  } else {
    archive = std::make_unique<ZipReader>(path);
  }
  return PtReader(path, std::move(archive)).tensors(entry);
}

void save_pt(const std::string& path, const std::vector<NamedTensor>& tensors) {
  detail::check_savable(path, tensors);
  PickleWriter pickle;
  std::vector<Tensor> storages;
  std::vector<ZipContent> contents(1);
  std::map<std::pair<const void*, DType>, std::vector<std::pair<Tensor, size_t>>> known;
  for (const NamedTensor& named : tensors) {
    const Tensor& x = named.tensor;
    auto& here = known[{x.numel() > 0 ? x.data_ptr() : nullptr, x.dtype()}];
    auto same = std::ranges::find_if(here, [&](const auto& k) {
      return x.numel() > 0 && k.first.shape() == x.shape() && k.first.strides() == x.strides();
    });
    if (same == here.end()) {
      same = here.insert(here.end(), {x, storages.size()});
      storages.push_back(detail::on_host(x));
    }
    pickle.text(named.name).global("torch._utils", "_rebuild_tensor_v2").op("((").text("storage");
    pickle.global("torch", storage_class(x.dtype()))
        .text(concat_to_string(same->second))
        .text("cpu");
    pickle.integer(x.numel()).op("tQ").integer(0).tuple(x.shape());
    pickle.tuple(contiguous_strides(x.shape())).op("\x89");
    pickle.global("collections", "OrderedDict").op(")RtR");
  }
  pickle.op("u.");
  // PyTorch's reader expects the entries under these names, in this order.
  contents[0] = {"archive/data.pkl", pickle.bytes()};
  contents.push_back({"archive/byteorder", "little"});
  for (size_t i = 0; i < storages.size(); ++i) {
    contents.push_back({concat_to_string("archive/data/", i),
                        {static_cast<const char*>(storages[i].data_ptr()), storages[i].nbytes()}});
  }
  contents.push_back({"archive/version", "3\n"});
  write_zip(path, contents);
}

LoadedTensors load_weights(const std::string& path, const std::string& entry) {
  const std::string start = read_file(path, "", kLegacyMagic.size());
  if (start.starts_with(kZipMagic) || start == kLegacyMagic) return load_pt(path, entry);
  LoadedTensors tensors = load_safetensors(path).tensors;
  std::string names;
  for (size_t i = 0; i < std::min<size_t>(40, tensors.size()); ++i) {
    names += concat_to_string(i == 0 ? "" : ", ", tensors[i].name);
  }
  tensors.keep_below(entry, names);
  return tensors;
}

}  // namespace taper::v0

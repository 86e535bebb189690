#include "data/images/cifar.h"

#include <cstring>
#include <sstream>

#include "autograd/ops/shape_ops.h"
#include "framework/base/cancel.h"
#include "framework/factory/factories.h"
#include "framework/io/input_file.h"

namespace taper::v0::data {
namespace {

namespace fs = std::filesystem;

constexpr int64_t kCifarPixels = 3 * 32 * 32;

// Returns the class names from the set's list of names, or numbers if there is no list.
std::vector<std::string> names_of(const fs::path& root, CifarLabels labels) {
  static constexpr const char* kLists[] = {"batches.meta.txt", "fine_label_names.txt",
                                           "coarse_label_names.txt"};
  const fs::path list = root / kLists[size_t(labels)];
  std::error_code ignored;
  std::vector<std::string> out;
  if (fs::exists(list, ignored)) {
    std::istringstream lines(read_file(list.string(), "list of classes"));
    for (std::string line; std::getline(lines, line);) {
      if (line.ends_with('\r')) line.pop_back();
      if (!line.empty()) out.push_back(line);
    }
  }
  return std::ssize(out) == classes_of(labels) ? out : numbers_below(classes_of(labels));
}

}  // namespace

Batch read_cifar(const fs::path& file, CifarLabels labels) {
  const std::string name = file.string(), bytes = read_file(name, "CIFAR file");
  const int64_t before = labels == CifarLabels::kTen ? 1 : 2, record = before + kCifarPixels;
  const int64_t count = std::ssize(bytes) / record;
  require<InputError>(count != 0 && std::ssize(bytes) % record == 0, name, ": expected records of ",
                      record, " bytes, got ", bytes.size(), " bytes: not this set, or cut off");
  const Batch out{empty({count, 3, 32, 32}, {.dtype = kUInt8}), empty({count}, {.dtype = kInt64})};
  for (int64_t i = 0; i < count; ++i) {
    const char* from = bytes.data() + i * record;
    // The coarse label precedes the fine one.
    out.targets.data<int64_t>()[i] = uint8_t(from[labels == CifarLabels::kFine ? 1 : 0]);
    std::memcpy(out.inputs.data<uint8_t>() + i * kCifarPixels, from + before, kCifarPixels);
  }
  require_classes(out.targets.span<int64_t>(), classes_of(labels), name);
  return out;
}

Batch load_cifar(const fs::path& root, BoolArg train, CifarLabels labels) {
  if (labels != CifarLabels::kTen) {
    return read_cifar(root / (train ? "train.bin" : "test.bin"), labels);
  }
  if (!train) return read_cifar(root / "test_batch.bin", labels);
  std::vector<Batch> parts;
  for (int part = 1; part <= 5; ++part) {
    check_stop();
    parts.push_back(read_cifar(root / concat_to_string("data_batch_", part, ".bin"), labels));
  }
  return joined(parts, [](const auto& tensors) { return cat(tensors); });
}

Splits Cifar::load(uint64_t) const {
  const Batch train = load_cifar(root, true, labels);
  Splits out = splits_of_images(train, load_cifar(root, false, labels), classes_of(labels));
  out.class_names = names_of(root, labels);
  return out;
}

DatasetPtr Cifar::more(const DataInfo&, const fs::path& file) const {
  return dataset_of(read_cifar(file, labels));
}

}  // namespace taper::v0::data

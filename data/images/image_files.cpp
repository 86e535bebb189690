#include "data/images/image_files.h"

#include <algorithm>
#include <cctype>
#include <memory>
#include <optional>

#include "autograd/ops/binary_ops.h"
#include "autograd/ops/nn/pool_ops.h"
#include "data/images/codecs.h"
#include "data/split.h"
#include "framework/base/log.h"
#include "framework/factory/factories.h"
#include "framework/host/atomic_file.h"
#include "framework/io/input_file.h"
#include "framework/io/text_utils.h"

namespace taper::v0::data {
namespace {

namespace fs = std::filesystem;

bool is_image(const fs::path& file) {
  std::string end = file.extension();
  std::ranges::transform(end, end.begin(), [](unsigned char c) { return char(std::tolower(c)); });
  return end == ".png" || end == ".jpg" || end == ".jpeg";
}

Tensor read_sample(const fs::path& file, const ImageFolderOptions& o) {
  const Tensor x = pixels_of(read_image(file, o.mode));
  return o.size ? resize(x, *o.size, *o.size) : x;
}

struct Unlabelled : MapDataset {
  Unlabelled(std::vector<fs::path> images, const ImageFolderOptions& reading)
      : files(std::move(images)), options(reading) {}
  int64_t size() const override { return std::ssize(files); }
  Batch sample(int64_t i) const override { return {read_sample(files[size_t(i)], options)}; }
  std::vector<std::string> fields() const override { return {"inputs"}; }

  std::vector<fs::path> files;
  ImageFolderOptions options;
};

std::shared_ptr<const ImageFolder> same_classes(const fs::path& root,
                                                const ImageFolderOptions& reading,
                                                const std::vector<std::string>& classes) {
  auto out = std::make_shared<const ImageFolder>(root, reading);
  if (out->classes() == classes) return out;
  throw InputError(name_of(root), ": its folders are not the ", classes.size(),
                   " classes of the training images");
}

// The folders with the parts of a data set. If there is no test folder, a share of each class is
// the test set.
struct Parts {
  fs::path train;
  std::optional<fs::path> test{};
  std::string note{};  // for the log
};

// Finds the parts of an image folder. If it contains train/ and test/ (or instead of test/ one of
// val/, valid/ and validation/), these are parts and not classes, and other folders on that level
// are left out. test_root replaces the test folder of the root.
Parts parts_of(const fs::path& root, const std::optional<std::string>& test_root = {}) {
  const std::vector<fs::path> folders = folders_in(root).folders;
  const auto is_there = [&](const char* name) {
    return std::ranges::count(folders, name, [](const fs::path& p) { return p.filename(); }) > 0;
  };
  constexpr const char* kTests[] = {"test", "val", "valid", "validation"};
  const auto* const test = std::ranges::find_if(kTests, is_there);
  const bool has_parts = is_there("train") && test != std::end(kTests);
  if (test_root) return {has_parts ? root / "train" : root, *test_root};
  if (!has_parts) return {root};
  std::string others;
  for (const fs::path& folder : folders) {
    const std::string name = name_of(folder.filename());
    if (name != "train" && name != *test)
      others += concat_to_string(others.empty() ? "" : ", ", name, "/");
  }
  return {root / "train", root / *test,
          concat_to_string("train/ to train, ", *test, "/ to test",
                           others.empty() ? "" : concat_to_string(", not used: ", others))};
}

void add_note(std::string& note, const std::string& more) {
  if (!more.empty()) note += (note.empty() ? "" : "; ") + more;
}

}  // namespace

Tensor read_image(const fs::path& file, ImageMode mode) {
  const std::string name = file.string(), bytes = read_file(name, "image");
  Pixels pixels;
  if (bytes.starts_with("\x89PNG\r\n\x1a\n")) {
    pixels = decode_png(bytes, mode, name);
  } else if (bytes.starts_with("\xff\xd8\xff")) {
    pixels = decode_jpeg(bytes, mode, name);
  } else {
    throw InputError(name, bytes.empty() ? ": the file is empty" : ": neither PNG nor JPEG");
  }
  const auto [height, width, channels, from] = pixels;
  const Tensor out = empty({channels, height, width}, {.dtype = kUInt8});
  uint8_t* to = out.data<uint8_t>();
  for (size_t c = 0; c < size_t(channels); ++c) {
    for (size_t i = c; i < from.size(); i += size_t(channels)) *to++ = from[i];
  }
  return out;
}

void write_png(const Tensor& image, const fs::path& file) {
  require<ValueError>(image.dim() == 3 && image.dtype() == kUInt8 && image.size(0) >= 1 &&
                          image.size(0) <= 4 && image.numel() != 0,
                      "write_png: expected uint8 [C, H, W] of 1 to 4 channels, got ", image.dtype(),
                      " ", image.shape());
  const Tensor rows = image.cpu().permute({1, 2, 0}).contiguous();
  const std::span<const uint8_t> bytes = rows.span<uint8_t>();
  write_atomically(
      file.string(),
      encode_png({rows.size(0), rows.size(1), rows.size(2), {bytes.begin(), bytes.end()}}));
}

Tensor resize(const Tensor& images, int64_t height, int64_t width) {
  Tensor x = images.dim() == 3 ? images.unsqueeze(0) : images;
  // Dimensions that shrink are resized first, then those that grow.
  x = adaptive_avg_pool2d(x, {std::min(height, x.size(-2)), std::min(width, x.size(-1))});
  if (x.size(-2) != height || x.size(-1) != width) {
    x = interpolate(x, {.size = Pair{height, width}, .mode = Interpolation::kBilinear});
  }
  return images.dim() == 3 ? x.squeeze(0) : x;
}

ImageFolder::ImageFolder(const fs::path& root, const ImageFolderOptions& options)
    : options_(options) {
  SubfolderListing found = folders_in(root);
  left_out_ = std::move(found.left_out);
  require<InputError>(!found.folders.empty(), "Couldn't find any class folder in ", name_of(root),
                      ".");
  std::vector<int64_t> targets;
  for (const fs::path& folder : found.folders) {
    const std::string name = name_of(folder.filename());
    const FolderListing images = files_below(folder, is_image);
    require<InputError>(!images.files.empty(), "Found no valid file for the classes ", name,
                        ". Supported extensions ", "are: .jpg, .jpeg, .png (in ", name_of(root),
                        ")", images.left_out.to_text().empty() ? "" : "; ",
                        images.left_out.to_text());
    require<InputError>(std::ranges::count(classes_, name) == 0, name_of(root),
                        ": two class folders are shown as ", detail::in_quotes(name),
                        ", for the name of one is not UTF-8: rename it");
    targets.insert(targets.end(), images.files.size(), std::ssize(classes_));
    classes_.push_back(name);
    files_.insert(files_.end(), images.files.begin(), images.files.end());
    left_out_.add_all(images.left_out);
  }
  targets_ = tensor_of(targets.data(), {std::ssize(targets)});
}

Batch ImageFolder::sample(int64_t i) const {
  return {read_sample(files_[size_t(i)], options_), targets_[i]};
}

Splits Images::load(uint64_t seed) const {
  const Parts parts = parts_of(root, test_root);
  const auto all = std::make_shared<const ImageFolder>(parts.train, reading());
  const std::vector<std::string>& classes = all->classes();
  if (classes.size() < 2) {
    throw DataError(parts.train.string(), ": there is one class, and nothing to learn");
  }
  const DataInfo info{.input_shape = {grey ? 1 : 3, size, size},
                      .outputs = std::ssize(classes),
                      .class_names = classes};
  std::string note = parts.note;
  SkippedFiles left_out = all->left_out();
  if (parts.test) {
    const auto test = same_classes(*parts.test, reading(), classes);
    left_out.add_all(test->left_out());
    add_note(note, left_out.to_text());
    return {info, all, test, note};
  }
  const auto halves = random_split(all, {1 - test_fraction, test_fraction}, seed, all->targets());
  require<InputError>(halves[0]->size() != 0 && halves[1]->size() != 0, "data.test_fraction ",
                      test_fraction, " of ", all->size(), " images leaves ", halves[0]->size(),
                      " to train and ", halves[1]->size(), " to test");
  add_note(note, left_out.to_text());
  return {info, halves[0], halves[1], note};
}

std::vector<DataFile> Images::files() const {
  const Parts parts = parts_of(root, test_root);
  std::vector<DataFile> out{{name_of(parts.train), files_below(parts.train, is_image).files}};
  if (parts.test) out.push_back({name_of(*parts.test), files_below(*parts.test, is_image).files});
  return out;
}

DatasetPtr Images::more(const DataInfo& info, const fs::path& file) const {
  std::error_code ignored;
  if (!fs::is_directory(file, ignored)) {
    return std::make_shared<Unlabelled>(std::vector<fs::path>{file}, reading());
  }
  const Parts parts = parts_of(file);
  const auto is_class = [&](const fs::path& folder) {
    return name_of(folder.filename()) == info.class_names[0];
  };
  std::string note = parts.note;
  const fs::path part = parts.test.value_or(file);
  if (std::ranges::any_of(folders_in(part).folders, is_class)) {
    auto out = same_classes(part, reading(), info.class_names);
    add_note(note, out->left_out().to_text());
    if (!note.empty()) log_info(concat_to_string(name_of(file), ": ", note));
    return out;
  }
  FolderListing images = files_below(file, is_image);
  add_note(note = "", images.left_out.to_text());
  if (images.files.empty()) {
    throw InputError(name_of(file), ": no PNG and JPEG files", note.empty() ? "" : "; ", note);
  }
  if (!note.empty()) log_info(concat_to_string(name_of(file), ": ", note));
  return std::make_shared<Unlabelled>(std::move(images.files), reading());
}

}  // namespace taper::v0::data

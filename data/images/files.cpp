#include "data/images/files.h"

#include <algorithm>
#include <cctype>
#include <memory>

#include "autograd/ops/binary.h"
#include "autograd/ops/nn/pool.h"
#include "data/images/codecs.h"
#include "data/split.h"
#include "framework/factories.h"
#include "framework/io/atomic_file.h"
#include "framework/io/input_file.h"

namespace taper::v0::data {
namespace {

namespace fs = std::filesystem;

bool is_image(const fs::path& file) {
  std::string end = file.extension();
  std::ranges::transform(end, end.begin(), [](unsigned char c) { return char(std::tolower(c)); });
  return end == ".png" || end == ".jpg" || end == ".jpeg";
}

// Those in a directory and below it, in the order of their names.
std::vector<fs::path> images_below(const fs::path& directory) {
  std::vector<fs::path> out;
  std::error_code error;
  for (fs::recursive_directory_iterator at(directory, error), end; !error && at != end;
       at.increment(error)) {
    std::error_code ignored;
    if (at->is_regular_file(ignored) && is_image(at->path())) out.push_back(at->path());
  }
  if (error) throw InputError(directory.string(), ": ", error.message());
  std::ranges::sort(out);
  return out;
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

DatasetPtr same_classes(const fs::path& root, const ImageFolderOptions& reading,
                        const std::vector<std::string>& classes) {
  auto out = std::make_shared<const ImageFolder>(root, reading);
  if (out->classes() == classes) return out;
  throw InputError(root.string(), ": its folders are not the ", classes.size(),
                   " classes of the training images");
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
  // First the directions that shrink, then those that grow.
  x = adaptive_avg_pool2d(x, {std::min(height, x.size(-2)), std::min(width, x.size(-1))});
  if (x.size(-2) != height || x.size(-1) != width) {
    x = interpolate(x, {.size = Pair{height, width}, .mode = Interpolation::bilinear});
  }
  return images.dim() == 3 ? x.squeeze(0) : x;
}

ImageFolder::ImageFolder(const fs::path& root, const ImageFolderOptions& options)
    : options_(options) {
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(root, error)) {
    std::error_code ignored;
    if (entry.is_directory(ignored)) classes_.push_back(entry.path().filename());
  }
  if (error) throw InputError(root.string(), ": ", error.message());
  std::ranges::sort(classes_);
  require<InputError>(!classes_.empty(), "Couldn't find any class folder in ", root.string(), ".");
  std::vector<int64_t> targets;
  for (size_t c = 0; c < classes_.size(); ++c) {
    const std::string& name = classes_[c];
    const std::vector<fs::path> images = images_below(root / name);
    require<InputError>(!images.empty(), "Found no valid file for the classes ", name,
                        ". Supported extensions ", "are: .jpg, .jpeg, .png (in ", root.string(),
                        ")");
    targets.insert(targets.end(), images.size(), int64_t(c));
    files_.insert(files_.end(), images.begin(), images.end());
  }
  targets_ = tensor_of(targets.data(), {std::ssize(targets)});
}

Batch ImageFolder::sample(int64_t i) const {
  return {read_sample(files_[size_t(i)], options_), targets_[i]};
}

Splits Images::load(uint64_t seed) const {
  const auto all = std::make_shared<const ImageFolder>(root, reading());
  const std::vector<std::string>& classes = all->classes();
  if (classes.size() < 2) throw DataError(root, ": there is one class, and nothing to learn");
  DataInfo info{.input_shape = {grey ? 1 : 3, size, size},
                .outputs = std::ssize(classes),
                .class_names = classes};
  if (test_root) return {std::move(info), all, same_classes(*test_root, reading(), classes)};
  const auto parts = random_split(all, {1 - test_fraction, test_fraction}, seed, all->targets());
  require<InputError>(parts[0]->size() != 0 && parts[1]->size() != 0, "data.test_fraction ",
                      test_fraction, " of ", all->size(), " images leaves ", parts[0]->size(),
                      " to train and ", parts[1]->size(), " to test");
  return {std::move(info), parts[0], parts[1]};
}

std::vector<DataFile> Images::files() const {
  std::vector<DataFile> out{{root, images_below(root)}};
  if (test_root) out.push_back({*test_root, images_below(*test_root)});
  return out;
}

DatasetPtr Images::more(const DataInfo& info, const fs::path& file) const {
  std::error_code ignored;
  if (!fs::is_directory(file, ignored)) {
    return std::make_shared<Unlabelled>(std::vector<fs::path>{file}, reading());
  }
  if (fs::is_directory(file / info.class_names[0], ignored)) {
    return same_classes(file, reading(), info.class_names);
  }
  std::vector<fs::path> images = images_below(file);
  if (images.empty()) throw InputError(file.string(), ": no PNG and JPEG files");
  return std::make_shared<Unlabelled>(std::move(images), reading());
}

}  // namespace taper::v0::data

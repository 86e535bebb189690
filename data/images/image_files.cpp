#include "data/images/image_files.h"

#include <algorithm>
#include <cctype>
#include <memory>
#include <optional>

#include "autograd/ops/binary_ops.h"
#include "autograd/ops/nn/pool_ops.h"
#include "data/images/codecs.h"
#include "data/images/image_header.h"
#include "data/images/images.h"
#include "framework/factory/factories.h"
#include "framework/host/atomic_file.h"
#include "framework/io/input_file.h"
#include "framework/io/text_utils.h"

namespace taper::v0::data {
namespace {

namespace fs = std::filesystem;

Tensor read_sample(const fs::path& file, const ImageFolderOptions& o) {
  const Tensor x = pixels_of(read_image(file, o.mode));
  return o.size ? resize(x, *o.size, *o.size) : x;
}

}  // namespace

bool has_image_name(const fs::path& file) {
  std::string end = file.extension();
  std::ranges::transform(end, end.begin(), [](unsigned char c) { return char(std::tolower(c)); });
  return end == ".png" || end == ".jpg" || end == ".jpeg";
}

Tensor read_image(const fs::path& file, ImageMode mode) {
  const std::string name = file.string(), bytes = read_file(name, "image");
  Pixels pixels;
  if (bytes.starts_with("\x89PNG\r\n\x1a\n")) {
    pixels = decode_png(bytes, mode, name);
  } else if (bytes.starts_with("\xff\xd8\xff")) {
    pixels = decode_jpeg(bytes, mode, name);
  } else {
    refuse_image_format(bytes, name);
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
  SubfolderListing found = folders_in(root, has_image_name, "unlabeled image");
  left_out_ = std::move(found.left_out);
  require<InputError>(!found.folders.empty(), "Couldn't find any class folder in ", name_of(root),
                      ".");
  std::vector<int64_t> targets;
  for (const fs::path& folder : found.folders) {
    const std::string name = name_of(folder.filename());
    const FolderListing images = files_below(folder, has_image_name);
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

}  // namespace taper::v0::data

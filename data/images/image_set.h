// The samples of image files, decoded when they are requested or kept in memory.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "data/dataset.h"
#include "data/images/image_encoding.h"

namespace taper::v0::data {

// What decoding every file once has found.
struct DecodedImages {
  Tensor pixels{};                 // uint8 [n, C, H, W] of all files, or undefined
  std::vector<std::string> why{};  // for each file why it is broken; empty if it is not
  std::vector<int64_t> sums{};     // [n, C]: sums of the pixels of each file
  std::vector<double> squares{};   // [n, C]: sums of their squares
};

// How many images of a set have been decoded.
struct DecodingProgress {
  int64_t done = 0, total = 0;
};
// Sets the function that is called now and then while images are decoded, from the thread that
// reads them: first with none of them done, and at last with all. nullptr: none.
using ShowDecodingProgress = void (*)(const DecodingProgress& now);
void set_decoding_progress(ShowDecodingProgress show);

// Decodes the files on all threads. keeps: whether the pixels are returned. so_far: how many images
// of the set were decoded before, and the number of all of them. Calls check_stop().
DecodedImages decode_images(const std::vector<std::filesystem::path>& files,
                            const ImageEncoding& encoding, bool keeps, DecodingProgress so_far);

// Removes the broken files from what was decoded, and appends the reasons to `why`. Returns the
// indices of the whole files, in order.
std::vector<int64_t> remove_broken(DecodedImages& decoded, std::vector<std::string>& why);

// A data set of image files. Samples are float32 [C, H, W].
class ImageSet : public Dataset {
 public:
  // pixels: uint8 [n, C, H, W] of the files, or undefined to decode them at each request.
  // targets: [n, ...], or undefined. broken: the files that are not among them.
  ImageSet(std::vector<std::filesystem::path> files, Tensor pixels, Tensor targets,
           std::shared_ptr<const ImageEncoding> encoding, BrokenSamples broken = {});

  int64_t size() const override { return std::ssize(files_); }
  Batch get(const Tensor& rows, bool pinned = false) const override;
  std::vector<std::string> fields() const override;
  Device device() const override { return pixels_.defined() ? pixels_.device() : Device(); }
  DatasetPtr to(Device device) const override;
  size_t nbytes() const override;
  BrokenSamples broken() const override { return broken_; }

 private:
  std::vector<std::filesystem::path> files_;
  Tensor pixels_, targets_;
  std::shared_ptr<const ImageEncoding> encoding_;
  BrokenSamples broken_;
};

}  // namespace taper::v0::data

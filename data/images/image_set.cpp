#include "data/images/image_set.h"

#include <algorithm>
#include <utility>

#include "autograd/ops/shape_ops.h"
#include "framework/base/cancel.h"
#include "framework/factory/factories.h"
#include "framework/host/parallel.h"
#include "framework/host/thread_pool.h"

namespace taper::v0::data {
namespace {

namespace fs = std::filesystem;

// The files of each thread between two calls of check_stop(). Several, because they differ in size.
constexpr int64_t kFilesOfThread = 16;

ShowDecodingProgress shown_progress = nullptr;

void show(const DecodingProgress& now) {
  if (shown_progress != nullptr) shown_progress(now);
}

void add_sums(DecodedImages& out, int64_t i, const Tensor& image) {
  const int64_t channels = image.size(0), area = image.numel() / channels;
  const uint8_t* at = image.data<uint8_t>();
  for (int64_t c = 0; c < channels; ++c) {
    int64_t sum = 0, squares = 0;
    for (int64_t k = 0; k < area; ++k, ++at) {
      sum += *at;
      squares += int64_t(*at) * *at;
    }
    out.sums[size_t(i * channels + c)] = sum;
    out.squares[size_t(i * channels + c)] = double(squares);
  }
}

}  // namespace

void set_decoding_progress(ShowDecodingProgress show) { shown_progress = show; }

DecodedImages decode_images(const std::vector<fs::path>& files, const ImageEncoding& encoding,
                            bool keeps, DecodingProgress so_far) {
  const auto n = std::ssize(files);
  DecodedImages out;
  out.why.resize(size_t(n));
  out.sums.resize(size_t(n * encoding.channels));
  out.squares.resize(size_t(n * encoding.channels));
  if (keeps) {
    out.pixels = empty({n, encoding.channels, encoding.height, encoding.width}, {.dtype = kUInt8});
  }
  const auto decode = [&](int64_t i) {
    try {
      const Tensor image = read_sample_image(files[size_t(i)], encoding);
      add_sums(out, i, image);
      if (!keeps) return;
      const std::span<const uint8_t> from = image.span<uint8_t>();
      std::ranges::copy(from, out.pixels.data<uint8_t>() + i * encoding.pixels());
    } catch (const InputError& error) {
      out.why[size_t(i)] = error.what();
    }
  };
  const int64_t at_once = kFilesOfThread * get_num_threads();
  show(so_far);
  for (int64_t first = 0; first < n; first += at_once) {
    check_stop();
    const int64_t count = std::min(at_once, n - first);
    host::parallel_tasks(count, host::threads_for(count, 1), [&](int64_t i) { decode(first + i); });
    so_far.done += count;
    show(so_far);
  }
  return out;
}

std::vector<int64_t> remove_broken(DecodedImages& decoded, std::vector<std::string>& why) {
  const size_t channels = decoded.why.empty() ? 0 : decoded.sums.size() / decoded.why.size();
  std::vector<int64_t> whole;
  DecodedImages out;
  for (size_t i = 0; i < decoded.why.size(); ++i) {
    if (!decoded.why[i].empty()) {
      why.push_back(decoded.why[i]);
      continue;
    }
    whole.push_back(int64_t(i));
    for (size_t c = 0; c < channels; ++c) {
      out.sums.push_back(decoded.sums[i * channels + c]);
      out.squares.push_back(decoded.squares[i * channels + c]);
    }
  }
  if (whole.size() == decoded.why.size()) return whole;
  out.why.resize(whole.size());
  if (decoded.pixels.defined()) {
    out.pixels =
        TensorDataset({decoded.pixels}).get(tensor_of(whole.data(), {std::ssize(whole)})).inputs;
  }
  decoded = std::move(out);
  return whole;
}

ImageSet::ImageSet(std::vector<fs::path> files, Tensor pixels, Tensor targets,
                   std::shared_ptr<const ImageEncoding> encoding, BrokenSamples broken)
    : files_(std::move(files)),
      pixels_(std::move(pixels)),
      targets_(std::move(targets)),
      encoding_(std::move(encoding)),
      broken_(std::move(broken)) {
  const auto fits = [&](const Tensor& x) { return !x.defined() || x.size(0) == size(); };
  require<ValueError>(fits(pixels_) && fits(targets_), "ImageSet: expected pixels and targets of ",
                      size(), " files");
}

Batch ImageSet::get(const Tensor& rows, bool pinned) const {
  if (pixels_.defined()) {
    Batch out = TensorDataset({pixels_, targets_}).get(rows, pinned);
    out.inputs = normalized_pixels(out.inputs, *encoding_);
    return out;
  }
  const std::vector<int64_t> wanted = rows.to_vector<int64_t>();
  const auto n = std::ssize(wanted);
  for (const int64_t row : wanted) {
    require<IndexError>(row >= 0 && row < size(), "index ", row, " is out of range for ", size(),
                        " images");
  }
  const Tensor raw =
      empty({n, encoding_->channels, encoding_->height, encoding_->width}, {.dtype = kUInt8});
  const auto read = [&](int64_t i) {
    try {
      const Tensor image = read_sample_image(files_[size_t(wanted[size_t(i)])], *encoding_);
      std::ranges::copy(image.span<uint8_t>(), raw.data<uint8_t>() + i * encoding_->pixels());
    } catch (...) {
      rethrow_for_sample(wanted[size_t(i)]);
    }
  };
  host::parallel_tasks(n, host::threads_for(n, 1), read);
  Batch out{normalized_pixels(raw, *encoding_)};
  if (targets_.defined()) out.targets = TensorDataset({targets_}).get(rows).inputs;
  return out;
}

std::vector<std::string> ImageSet::fields() const {
  return targets_.defined() ? std::vector<std::string>{"inputs", "targets"}
                            : std::vector<std::string>{"inputs"};
}

DatasetPtr ImageSet::to(Device device) const {
  if (!pixels_.defined()) return nullptr;
  return std::make_shared<ImageSet>(files_, pixels_.to(device),
                                    targets_.defined() ? targets_.to(device) : Tensor(), encoding_,
                                    broken_);
}

size_t ImageSet::nbytes() const {
  return pixels_.defined() ? pixels_.nbytes() + (targets_.defined() ? targets_.nbytes() : 0) : 0;
}

}  // namespace taper::v0::data

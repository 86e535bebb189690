#include "data/images/image_encoding.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "autograd/ops/binary_ops.h"
#include "autograd/ops/index/index_ops.h"
#include "autograd/ops/shape_ops.h"
#include "autograd/ops/unary_ops.h"
#include "data/images/codecs.h"
#include "data/images/image_files.h"
#include "data/images/image_header.h"
#include "framework/factory/factories.h"
#include "framework/io/input_file.h"

namespace taper::v0::data {
namespace {

namespace fs = std::filesystem;

struct Extent {
  int64_t height, width;
  Extent swapped() const { return {width, height}; }
};

// A part of an image, and the size to which it is scaled.
struct Placement {
  int64_t top, left, height, width;  // of the part
  Extent to;                         // at most the size of the sample; smaller with kPad
};

int64_t scaled(int64_t size, double factor) {
  return std::max<int64_t>(1, std::llround(double(size) * factor));
}

Placement placement_of(const Extent& image, const Extent& sample, ImageFit fit) {
  const double by_height = double(sample.height) / double(image.height),
               by_width = double(sample.width) / double(image.width);
  Placement out{0, 0, image.height, image.width, sample};
  if (fit == ImageFit::kPad) {
    const double factor = std::min(by_height, by_width);
    out.to = {std::min(sample.height, scaled(image.height, factor)),
              std::min(sample.width, scaled(image.width, factor))};
  } else if (fit == ImageFit::kCrop) {
    const double factor = std::max(by_height, by_width);
    out.height = std::min(image.height, scaled(sample.height, 1 / factor));
    out.width = std::min(image.width, scaled(sample.width, 1 / factor));
    out.top = (image.height - out.height) / 2;
    out.left = (image.width - out.width) / 2;
  }
  return out;
}

// Returns the largest denominator with which the part that is used is still as large as needed.
int denominator_for(const Extent& image, const Extent& sample, ImageFit fit) {
  for (const int out : {8, 4, 2}) {
    const Extent decoded{(image.height + out - 1) / out, (image.width + out - 1) / out};
    const Placement p = placement_of(decoded, sample, fit);
    if (p.height >= p.to.height && p.width >= p.to.width) return out;
  }
  return 1;
}

// The source rows or columns of each row or column of a smaller image. Neighbors may share one.
struct Span {
  int64_t begin, end;
};
std::vector<Span> spans_of(int64_t from, int64_t to) {
  std::vector<Span> out;
  for (int64_t i = 0; i < to; ++i) {
    out.push_back({i * from / to, ((i + 1) * from + to - 1) / to});
  }
  return out;
}

// Adds the sums of the spans of one row of pixels. kChannels: a constant, for speed.
template <int64_t kChannels>
void add_row(const uint8_t* row, const std::vector<Span>& columns, uint64_t* sums) {
  for (const Span& span : columns) {
    std::array<uint64_t, kChannels> sum{};
    for (const uint8_t* at = row + span.begin * kChannels; at != row + span.end * kChannels;) {
      for (uint64_t& each : sum) each += *at++;
    }
    for (const uint64_t each : sum) *sums++ += each;
  }
}

// Averages each channel of the part over areas. A dimension that does not shrink stays as it is.
template <int64_t kChannels> Pixels shrunk(const Pixels& in, const Placement& p) {
  Pixels out{std::min(p.height, p.to.height), std::min(p.width, p.to.width), kChannels};
  const std::vector<Span> rows = spans_of(p.height, out.height),
                          columns = spans_of(p.width, out.width);
  std::vector<uint64_t> sums(size_t(out.width * kChannels));
  out.bytes.reserve(sums.size() * rows.size());
  for (const Span& span : rows) {
    std::ranges::fill(sums, 0);
    for (int64_t y = p.top + span.begin; y < p.top + span.end; ++y) {
      add_row<kChannels>(&in.bytes[size_t((y * in.width + p.left) * kChannels)], columns,
                         sums.data());
    }
    for (size_t i = 0; i < sums.size(); ++i) {
      const Span& column = columns[i / kChannels];
      const auto area = uint64_t((span.end - span.begin) * (column.end - column.begin));
      out.bytes.push_back(uint8_t((sums[i] + area / 2) / area));
    }
  }
  return out;
}

// Returns uint8 [C, H, W].
Tensor planes_of(const Pixels& in) {
  const Tensor out = empty({in.channels, in.height, in.width}, {.dtype = kUInt8});
  uint8_t* to = out.data<uint8_t>();
  for (int64_t c = 0; c < in.channels; ++c) {
    for (size_t i = size_t(c); i < in.bytes.size(); i += size_t(in.channels)) *to++ = in.bytes[i];
  }
  return out;
}

Tensor grown(const Tensor& image, const Extent& to) {
  if (image.size(1) == to.height && image.size(2) == to.width) return image;
  return round(resize(image.to(kFloat32), to.height, to.width)).to(kUInt8);
}

// Puts the image into the middle of black pixels.
Tensor padded(const Tensor& image, const Extent& to) {
  if (image.size(1) == to.height && image.size(2) == to.width) return image;
  const Tensor out = zeros({image.size(0), to.height, to.width}, {.dtype = kUInt8});
  const int64_t top = (to.height - image.size(1)) / 2, left = (to.width - image.size(2)) / 2;
  out.narrow(1, top, image.size(1)).narrow(2, left, image.size(2)).copy_(image);
  return out;
}

// Turns and mirrors a stored image [C, H, W] so that it is shown upright.
Tensor upright(const Tensor& image, int orientation) {
  Tensor out = orientation >= 5 ? image.transpose(1, 2) : image;
  const bool flips_rows =
      orientation == 3 || orientation == 4 || orientation == 7 || orientation == 8;
  const bool flips_columns =
      orientation == 2 || orientation == 3 || orientation == 6 || orientation == 7;
  if (flips_rows) out = flip(out, {1});
  if (flips_columns) out = flip(out, {2});
  return out.contiguous();
}

}  // namespace

Tensor read_sample_image(const fs::path& file, const ImageEncoding& encoding) {
  const std::string name = file.string(), bytes = read_file(name, "image");
  const ImageMode mode = encoding.channels == 1 ? ImageMode::kGray : ImageMode::kRgb;
  // A damaged header is refused by the decoder, which knows why.
  const ImageHeader header = image_header(bytes).value_or(ImageHeader{});
  Extent sample{encoding.height, encoding.width};
  if (header.orientation >= 5) sample = sample.swapped();
  Pixels pixels;
  if (bytes.starts_with("\x89PNG\r\n\x1a\n")) {
    pixels = decode_png(bytes, mode, name);
  } else if (bytes.starts_with("\xff\xd8\xff")) {
    const bool has_size = header.height > 0 && header.width > 0;
    const Extent image{header.height, header.width};
    pixels =
        decode_jpeg(bytes, mode, name, has_size ? denominator_for(image, sample, encoding.fit) : 1);
  } else {
    refuse_image_format(bytes, name);
  }
  const Placement place = placement_of({pixels.height, pixels.width}, sample, encoding.fit);
  const Pixels small = pixels.channels == 1 ? shrunk<1>(pixels, place) : shrunk<3>(pixels, place);
  const Tensor image = grown(planes_of(small), place.to);
  return upright(padded(image, sample), header.orientation);
}

Tensor normalized_pixels(const Tensor& raw, const ImageEncoding& encoding) {
  const Tensor x = raw.to(kFloat32) / 255;
  if (encoding.mean.empty()) return x;
  const auto of_channels = [&](const std::vector<double>& values) {
    return tensor_of(values.data(), {1, std::ssize(values), 1, 1}).to(x.device(), kFloat32);
  };
  return (x - of_channels(encoding.mean)) / of_channels(encoding.std);
}

}  // namespace taper::v0::data

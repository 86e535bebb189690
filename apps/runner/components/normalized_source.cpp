#include "apps/runner/components/normalized_source.h"

#include <algorithm>
#include <utility>

#include "apps/runner/base/errors.h"
#include "data/images/image_transforms.h"

namespace taper::v0::runner {
namespace {

namespace fs = std::filesystem;

class NormalizedSource final : public data::Source {
 public:
  NormalizedSource(std::unique_ptr<data::Source> source, data::NormalizeOptions by, Place place)
      : source_(std::move(source)), by_(std::move(by)), place_(std::move(place)) {}

  data::Splits load(uint64_t seed) const override { return normalized(source_->load(seed)); }
  std::optional<data::Task> learns() const override { return source_->learns(); }
  data::Outline outline(uint64_t seed) const override { return normalized(source_->outline(seed)); }
  std::vector<data::DataFile> files() const override { return source_->files(); }
  data::DatasetPtr more(const data::DataInfo& info, const fs::path& file) const override {
    return data::normalized_dataset(source_->more(info, file), by_);
  }
  data::DatasetPtr unlabeled(const data::DataInfo& info, const fs::path& file) const override {
    return data::normalized_dataset(source_->unlabeled(info, file), by_);
  }
  data::KeptColumns kept(const data::DataInfo& info, const fs::path& file) const override {
    return source_->kept(info, file);
  }
  DType raw_dtype(const data::DataInfo& info) const override { return source_->raw_dtype(info); }
  Tensor prepared(const data::DataInfo& info, const Tensor& raw) const override {
    return data::normalize_channels(source_->prepared(info, raw), by_);
  }

 private:
  template <class Parts> Parts normalized(Parts parts) const {
    const Shape& shape = parts.input_shape;
    const auto channels = std::ssize(by_.mean);
    if (parts.images) {
      throw ConfigError(located(place_,
                                "data.transforms: normalize: data.normalize normalizes image "
                                "files; remove this entry"));
    }
    if (shape.size() != 3 || shape[0] != channels) {
      throw ConfigError(located(
          place_, concat_to_string("data.transforms: normalize: ", channels,
                                   " numbers are given, but samples have the shape ", shape,
                                   "; expected images [C, H, W] with a number for each channel")));
    }
    for (data::DatasetPtr* part : {&parts.train, &parts.validation, &parts.test}) {
      *part = data::normalized_dataset(std::move(*part), by_);
    }
    return parts;
  }

  const std::unique_ptr<data::Source> source_;
  const data::NormalizeOptions by_;
  const Place place_;
};

}  // namespace

size_t find_normalize(const std::vector<Component>& transforms) {
  const auto is_normalize = [](const Component& row) {
    return row.get_if<data::NormalizeOptions>() != nullptr;
  };
  return size_t(std::ranges::find_if(transforms, is_normalize) - transforms.begin());
}

std::unique_ptr<data::Source> with_normalization(std::unique_ptr<data::Source> source,
                                                 const std::vector<Component>& transforms) {
  const size_t at = find_normalize(transforms);
  if (at == transforms.size()) return source;
  const Component& row = transforms[at];
  return std::make_unique<NormalizedSource>(std::move(source),
                                            *row.get_if<data::NormalizeOptions>(), row.place);
}

}  // namespace taper::v0::runner

// The registry of data types, and the resolution of their relative paths.
#include <memory>

#include "apps/runner/base/errors.h"
#include "apps/runner/components/components.h"
#include "data/images/cifar.h"
#include "data/images/digits.h"
#include "data/images/image_source.h"
#include "data/images/image_transforms.h"
#include "data/images/images.h"
#include "data/series/series.h"
#include "data/tables/csv.h"
#include "data/tables/npy_dataset.h"
#include "data/tables/table.h"
#include "data/text/labeled_text.h"
#include "data/text/text_dataset.h"
#include "data/transforms.h"

namespace taper::v0::runner {
namespace {

namespace fs = std::filesystem;

template <class Options> constexpr auto data_type = DataTypes::of<Options, make_source<Options>>;

constexpr DataTypes::Entry kDataTypes[] = {{"digits", data_type<data::Digits>},
                                           {"mnist", data_type<data::Mnist>},
                                           {"idx", data_type<data::Idx>},
                                           {"cifar", data_type<data::Cifar>},
                                           {"images", data_type<data::Images>},
                                           {"table", data_type<data::Table>},
                                           {"csv", data_type<data::Csv>},
                                           {"text", data_type<data::Text>},
                                           {"npy", data_type<data::Npy>},
                                           {"series", data_type<data::Series>},
                                           {"labeled_text", data_type<data::LabeledText>}};

template <class Options>
constexpr auto transform = ImageTransforms::of<Options, make_transform<Options>>;

// Entries that no function of images alone can compute. Batches applies `mixup`, which changes
// targets, too. The source applies `normalize` to all images (normalized_source.h).
template <class Options> ImageTransform make_nothing(const Options&) { return {}; }
template <class Options>
constexpr auto special = ImageTransforms::of<Options, make_nothing<Options>>;

constexpr ImageTransforms::Entry kTransforms[] = {
    {"auto", transform<data::AutoTransform>},
    {"random_crop", transform<data::RandomCrop>},
    {"random_horizontal_flip", transform<data::RandomHorizontalFlip>},
    {"random_affine", transform<data::RandomAffine>},
    {"random_rotation", transform<data::RandomRotation>},
    {"random_resized_crop", transform<data::RandomResizedCrop>},
    {"color_jitter", transform<data::ColorJitter>},
    {"cutout", transform<data::Cutout>},
    {"mixup", special<data::MixupOptions>},
    {"normalize", special<data::NormalizeOptions>}};

void find_below(const fs::path& base, std::string& path) {
  if (path.empty()) return;
  // For a glob pattern, only the directory before the first wildcard can be checked.
  const size_t wild = path.find_first_of("*?[{");
  const fs::path there = base / path, folder = base / path.substr(0, wild);
  const bool is_pattern = wild != std::string::npos;
  std::error_code none;
  if (fs::exists(there, none) || (is_pattern && fs::exists(folder.parent_path(), none))) {
    path = there.lexically_normal();
  }
}

template <class F> auto located_at(const Place& place, F f) try {
  return f();
} catch (const data::OptionError& error) {
  // If a file of data is the config, the place is that file, which the error may name itself.
  const std::string what = error.what(), where = to_string(place), line = "command line: ";
  const bool names_file = where.starts_with(line) && what.starts_with(where.substr(line.size()));
  throw ConfigError(names_file ? line + what : located(place, what));
}

// A data source whose options come from a config. Its OptionError is converted to a ConfigError
// with the position of the option in the config.
class ConfiguredSource final : public data::Source {
 public:
  ConfiguredSource(std::unique_ptr<data::Source> source, Place place)
      : source_(std::move(source)), place_(std::move(place)) {}
  data::Splits load(uint64_t seed) const override {
    return located_at(place_, [&] { return source_->load(seed); });
  }
  std::optional<Task> learns() const override { return source_->learns(); }
  data::Outline outline(uint64_t seed) const override {
    return located_at(place_, [&] { return source_->outline(seed); });
  }
  std::vector<data::DataFile> files() const override { return source_->files(); }
  data::DatasetPtr more(const DataInfo& info, const fs::path& file) const override {
    return source_->more(info, file);
  }
  data::DatasetPtr unlabeled(const DataInfo& info, const fs::path& file) const override {
    return source_->unlabeled(info, file);
  }
  data::KeptColumns kept(const DataInfo& info, const fs::path& file) const override {
    return source_->kept(info, file);
  }
  DType raw_dtype(const DataInfo& info) const override { return source_->raw_dtype(info); }
  Tensor prepared(const DataInfo& info, const Tensor& raw) const override {
    return source_->prepared(info, raw);
  }

 private:
  const std::unique_ptr<data::Source> source_;
  const Place place_;
};

}  // namespace

DataTypes& data_types() { return DataTypes::registry("data type", {kDataTypes}); }

ImageTransforms& image_transforms() {
  return ImageTransforms::registry("transform", {kTransforms});
}

// Resolves the paths in the fields of a schema and of its sections. A part of a table may be a path
// or a fraction.
static void find_paths_below(const fs::path& base, const Schema& schema) {
  for (const Field& field : schema.fields) {
    if (const auto* section = std::get_if<Section>(&field.target)) {
      if (!section->is_given || section->is_given()) find_paths_below(base, section->open());
      continue;
    }
    const bool is_part = field.form == data::TableSplit::kPartForm;
    if (!is_part && field.form != kPathWords) continue;
    const Value& value = std::get<Value>(field.target);
    if (value.is_given && !value.is_given()) continue;
    for (const Scalar& path : value.scalars({})) {
      std::string& text = *std::get<std::string*>(path);
      if (!is_part || !data::TableSplit::fraction_of(text)) find_below(base, text);
    }
  }
}

std::unique_ptr<data::Source> build_source(const Component& config, const fs::path& base) {
  Component chosen = config;
  if (!base.empty()) find_paths_below(base, chosen.schema());
  return std::make_unique<ConfiguredSource>(data_types().make(chosen), config.place);
}

}  // namespace taper::v0::runner

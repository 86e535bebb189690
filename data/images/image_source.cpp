#include "data/images/image_source.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <cmath>
#include <memory>
#include <utility>

#include "data/images/image_files.h"
#include "data/images/image_header.h"
#include "data/images/image_listing.h"
#include "data/images/image_report.h"
#include "data/images/image_set.h"
#include "data/split.h"
#include "data/tables/table_targets.h"
#include "framework/base/log.h"
#include "framework/factory/factories.h"
#include "framework/io/text_utils.h"

namespace taper::v0::data {
namespace {

namespace fs = std::filesystem;

constexpr int64_t kFewImages = 200;               // of a set without a validation part
constexpr int64_t kKeptBytes = int64_t(2) << 30;  // of pixels with InMemory::kAuto
constexpr int64_t kMostSide = 128;                // of the samples with `size: auto`

struct SampleSize {
  int64_t height, width;
};

// Returns the size in "64" or "48x64"; std::nullopt for another text.
std::optional<SampleSize> size_in(const std::string& text) {
  constexpr int64_t kMost = 1 << 14;
  const size_t cross = text.find('x');
  const auto side = [](const std::string& digits) {
    int64_t value = 0;
    const bool is_number = detail::parse_number(digits, value) == std::errc();
    return is_number && value >= 1 && value <= kMost ? value : 0;
  };
  const int64_t height = side(text.substr(0, cross));
  const int64_t width = cross == std::string::npos ? height : side(text.substr(cross + 1));
  if (height == 0 || width == 0) return std::nullopt;
  return SampleSize{height, width};
}

// Returns the number of images of `all` that may be broken; std::nullopt for a text of another
// form.
std::optional<int64_t> limit_in(const std::string& text, int64_t all) {
  const bool is_share = text.ends_with('%');
  double value = 0;
  const std::string digits = text.substr(0, text.size() - is_share);
  if (detail::parse_number(digits, value) != std::errc() || !(value >= 0)) return std::nullopt;
  if (is_share)
    return value <= 100 ? std::optional(int64_t(double(all) * value / 100)) : std::nullopt;
  return value <= 1e9 && value == std::floor(value) ? std::optional(int64_t(value)) : std::nullopt;
}

// The headers of some of the images.
struct HeaderSample {
  std::vector<ImageHeader> headers;  // upright
  ImageSizes sizes;
  bool are_gray = true, are_equal = true;
};

// Reads at most 1000 headers, evenly distributed. Broken ones are left out here.
HeaderSample sample_headers(const std::vector<ListedImage>& images) {
  constexpr size_t kMost = 1000;
  HeaderSample out;
  const size_t count = std::min(images.size(), kMost);
  for (size_t i = 0; i < count; ++i) try {
      ImageHeader h = read_image_header(images[i * images.size() / count].file);
      if (h.orientation >= 5) std::swap(h.height, h.width);
      out.are_gray = out.are_gray && h.is_gray;
      out.headers.push_back(h);
    } catch (const InputError&) {
    }
  if (out.headers.empty()) return out;
  const auto area = [](const ImageHeader& h) { return h.height * h.width; };
  const auto [least, most] = std::ranges::minmax_element(out.headers, {}, area);
  out.sizes = {least->height, least->width, most->height, most->width};
  out.are_equal = std::ranges::all_of(out.headers, [&](const ImageHeader& h) {
    return h.height == least->height && h.width == least->width;
  });
  return out;
}

// Returns the size of the samples with `size: auto`.
SampleSize usual_size(const HeaderSample& found) {
  const ImageSizes& s = found.sizes;
  if (found.are_equal && s.most_height <= kMostSide && s.most_width <= kMostSide) {
    return {s.most_height, s.most_width};
  }
  std::vector<int64_t> sides;
  for (const ImageHeader& h : found.headers) sides.push_back(std::min(h.height, h.width));
  std::ranges::nth_element(sides, sides.begin() + std::ssize(sides) / 2);
  const int64_t median = sides[sides.size() / 2];
  int64_t out = std::min<int64_t>(median, 16);
  for (const int64_t side : {24, 32, 48, 64, 96, int(kMostSide)}) out = side <= median ? side : out;
  return {out, out};
}

// Returns whether the pixels of that many samples are kept in memory.
bool keeps_pixels(const Images& options, const ImageEncoding& encoding, int64_t samples) {
  return options.in_memory == Images::InMemory::kAlways ||
         (options.in_memory == Images::InMemory::kAuto &&
          encoding.pixels() * samples <= kKeptBytes);
}

class ImageLoader {
 public:
  explicit ImageLoader(const Images& options) : o_(options) {}

  // decodes: whether the images are read, or only their headers.
  Splits load(bool decodes) {
    const auto start = std::chrono::steady_clock::now();
    listing_ = list_images(o_);
    require<InputError>(!listing_.images.empty(), o_.labels ? o_.labels->file : o_.path,
                        ": no image", o_.labels ? " that it names exists" : "", missing_text());
    find_task();
    divide();
    choose_samples();
    if (decodes) decode();
    fit();
    view_seconds_ = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    return finish();
  }
  Task task() {
    listing_ = list_images(o_);
    find_task();
    return task_;
  }

 private:
  void find_task();
  void divide();
  std::vector<int64_t> strata() const;
  void choose_samples();
  void decode();
  void check_limit() const;
  std::string missing_text() const;
  std::vector<TargetColumn> fit_targets(const std::vector<size_t>& training,
                                        const std::vector<size_t>& all) const;
  void fit();
  void normalize();
  Tensor targets_of(const std::vector<size_t>& images) const;
  DatasetPtr dataset_of(size_t part) const;
  Splits finish() const;

  std::vector<int64_t> rows_of(const std::vector<size_t>& images) const {
    std::vector<int64_t> out;
    for (const size_t i : images) out.push_back(listing_.images[i].label);
    return out;
  }
  std::vector<fs::path> files_of(const std::vector<size_t>& images) const {
    std::vector<fs::path> out;
    for (const size_t i : images) out.push_back(listing_.images[i].file);
    return out;
  }
  const ColumnSummary& summary_of(const std::string& name) const {
    return listing_.columns[size_t(find_column(listing_.table, name))];
  }
  TableEncoding target_encoding() const {
    return {.delimiter = {}, .decimal = {}, .encoding = {}, .targets = encoding_.targets};
  }

  const Images& o_;
  ImageListing listing_;
  Task task_ = Task::kClassification;
  std::array<std::vector<size_t>, kParts> parts_;  // indices of listing_.images
  std::array<DecodedImages, kParts> decoded_;
  std::string how_;
  ImageEncoding encoding_;
  ImageSizes sizes_;
  std::vector<std::string> broken_;  // why
  double view_seconds_ = 0;
};

void ImageLoader::find_task() {
  if (!o_.labels) return;
  const ImageLabels& labels = *o_.labels;
  if (labels.task == Table::Task::kClassification) return;
  if (labels.task == Table::Task::kRegression) {
    task_ = Task::kRegression;
  } else if (labels.target.size() > 1) {
    std::vector<const ColumnSummary*> targets;
    for (const std::string& name : labels.target) targets.push_back(&summary_of(name));
    task_ = task_for_several(listing_.table, targets);
  } else {
    const std::string& name = labels.target[0];
    task_ = task_for(listing_.table.columns[size_t(find_column(listing_.table, name))],
                     summary_of(name).missing_cells);
  }
}

// Returns the class of each image that no folder assigns to a part; empty for values.
std::vector<int64_t> ImageLoader::strata() const {
  if (task_ == Task::kRegression || o_.split.by == ImageSplit::By::kRandom) return {};
  const std::vector<size_t>& images = parts_[size_t(Part::kTrain)];
  if (!o_.labels) return rows_of(images);
  const TableEncoding only_targets{
      .delimiter = {}, .decimal = {}, .encoding = {}, .targets = fit_targets(images, images)};
  return strata_of(only_targets, listing_.table, rows_of(images));
}

void ImageLoader::divide() {
  for (size_t i = 0; i < listing_.images.size(); ++i) {
    parts_[size_t(listing_.images[i].part)].push_back(i);
  }
  std::vector<size_t>& training = parts_[size_t(Part::kTrain)];
  const auto fraction = [](const std::optional<std::string>& part, bool has_folder, double usual) {
    if (has_folder) return 0.0;
    return part ? TableSplit::fraction_of(*part).value_or(usual) : usual;
  };
  const double validation = fraction(o_.split.validation, listing_.has_validation,
                                     std::ssize(training) > kFewImages ? 0.1 : 0),
               test = fraction(o_.split.test, listing_.has_test, 0.2);
  if (validation + test >= 1) {
    throw OptionError("split", concat_to_string("split: validation ", validation, " and test ",
                                                test, " leave nothing to train"));
  }
  const std::vector<int64_t> classes = strata();
  const auto rows = divide_rows(std::ssize(training), {1 - validation - test, validation, test},
                                classes, o_.split.seed);
  const std::vector<size_t> all = std::exchange(training, {});
  for (size_t part = 0; part < kParts; ++part) {
    for (const int64_t i : rows[part]) parts_[part].push_back(all[size_t(i)]);
  }
  if (validation > 0 || test > 0) {
    const std::string by = o_.labels ? detail::joined(o_.labels->target) : "class";
    how_ = concat_to_string(classes.empty() ? "at random" : "stratified by " + by, ", seed ",
                            o_.split.seed);
  }
  if (parts_[0].empty() || parts_[2].empty()) {
    throw OptionError("split",
                      concat_to_string("split: ", parts_[0].size(), " images to train and ",
                                       parts_[2].size(), " to test; both must be at least 1"));
  }
}

void ImageLoader::choose_samples() {
  const HeaderSample found = sample_headers(listing_.images);
  sizes_ = found.sizes;
  require<InputError>(!found.headers.empty(), listing_.images[0].file.string(),
                      ": neither this image nor the others that were tried can be read");
  encoding_.fit = o_.fit;
  encoding_.channels = o_.grey.value_or(found.are_gray) ? 1 : 3;
  const SampleSize size = size_in(o_.size).value_or(usual_size(found));
  encoding_.height = size.height;
  encoding_.width = size.width;
}

void ImageLoader::decode() {
  const bool keeps = keeps_pixels(o_, encoding_, std::ssize(listing_.images));
  DecodingProgress progress{.done = 0, .total = std::ssize(listing_.images)};
  for (size_t part = 0; part < kParts; ++part) {
    const std::vector<fs::path> files = files_of(parts_[part]);
    decoded_[part] = decode_images(files, encoding_, keeps, progress);
    progress.done += std::ssize(files);
    const std::vector<size_t> all = std::exchange(parts_[part], {});
    for (const int64_t i : remove_broken(decoded_[part], broken_)) {
      parts_[part].push_back(all[size_t(i)]);
    }
  }
  check_limit();
}

std::string ImageLoader::missing_text() const {
  if (listing_.missing.empty()) return "";
  return concat_to_string("; the first that is missing is ", listing_.missing[0].string());
}

void ImageLoader::check_limit() const {
  const auto all = std::ssize(listing_.images) + std::ssize(listing_.missing);
  const auto bad = std::ssize(broken_) + std::ssize(listing_.missing);
  const std::string first =
      broken_.empty() ? missing_text().substr(bad > 0 ? 2 : 0) : "the first: " + broken_[0];
  require<InputError>(bad <= limit_in(o_.broken, all).value_or(0), o_.path, ": ", bad, " of ", all,
                      " images are broken or missing, more than `broken: ", o_.broken, "` allows; ",
                      first);
  require<InputError>(!parts_[0].empty() && !parts_[2].empty(), o_.path,
                      ": all images of a part are broken; ", first);
}

std::vector<TargetColumn> ImageLoader::fit_targets(const std::vector<size_t>& training,
                                                   const std::vector<size_t>& all) const {
  std::vector<TargetColumn> out;
  for (const std::string& name : o_.labels->target) {
    out.push_back(fit_target(listing_.table, summary_of(name), task_, false, true,
                             rows_of(training), rows_of(all)));
  }
  return out;
}

void ImageLoader::fit() {
  if (o_.labels) {
    std::vector<size_t> all = parts_[0];
    for (const size_t part : {1, 2}) {
      all.insert(all.end(), parts_[part].begin(), parts_[part].end());
    }
    encoding_.path_column = listing_.path_column;
    encoding_.suffix = o_.labels->suffix;
    encoding_.targets = fit_targets(parts_[0], all);
    require_learnable(target_encoding(), o_.labels->file);
  }
  normalize();
}

// Computes the mean and standard deviation of each channel of the training images. Sums are exact,
// or added in the order of the images.
void ImageLoader::normalize() {
  if (o_.normalize == Images::Normalize::kNone) return;
  const auto channels = size_t(encoding_.channels);
  if (o_.normalize == Images::Normalize::kImagenet) {
    encoding_.mean = {0.485, 0.456, 0.406};
    encoding_.std = {0.229, 0.224, 0.225};
    if (channels == 1) {
      encoding_.mean = {0.449};
      encoding_.std = {0.226};
    }
    return;
  }
  encoding_.mean.assign(channels, 0);
  encoding_.std.assign(channels, 1);
  const DecodedImages& training = decoded_[0];
  if (training.sums.empty()) return;
  const double count =
      double(training.sums.size() / channels) * double(encoding_.height * encoding_.width);
  for (size_t c = 0; c < channels; ++c) {
    double sum = 0, squares = 0;
    for (size_t i = c; i < training.sums.size(); i += channels) {
      sum += double(training.sums[i]);
      squares += training.squares[i];
    }
    const double mean = sum / count, variance = squares / count - mean * mean;
    encoding_.mean[c] = mean / 255;
    encoding_.std[c] = variance > 0 ? std::sqrt(variance) / 255 : 1;
  }
}

Tensor ImageLoader::targets_of(const std::vector<size_t>& images) const {
  const std::vector<int64_t> rows = rows_of(images);
  if (o_.labels) return encode_targets(target_encoding(), listing_.table, rows);
  return tensor_of(rows.data(), {std::ssize(rows)});
}

DatasetPtr ImageLoader::dataset_of(size_t part) const {
  return std::make_shared<ImageSet>(files_of(parts_[part]), decoded_[part].pixels,
                                    targets_of(parts_[part]),
                                    std::make_shared<const ImageEncoding>(encoding_));
}

Splits ImageLoader::finish() const {
  Splits out;
  std::vector<std::string> broken = broken_;
  for (const fs::path& file : listing_.missing) {
    broken.push_back(concat_to_string(file.string(), ": the file is missing"));
  }
  out.report =
      report_of({o_, listing_, encoding_, parts_, sizes_, std::move(broken), view_seconds_, how_});
  out.input_shape = {encoding_.channels, encoding_.height, encoding_.width};
  if (o_.labels) {
    describe_targets(out, task_, target_encoding());
  } else {
    out.class_names = listing_.class_names;
    out.outputs = std::ssize(listing_.class_names);
  }
  out.train = dataset_of(size_t(Part::kTrain));
  out.test = dataset_of(size_t(Part::kTest));
  if (!parts_[size_t(Part::kValidation)].empty()) {
    out.validation = dataset_of(size_t(Part::kValidation));
  }
  out.images = std::make_shared<const ImageEncoding>(encoding_);
  return out;
}

// Describes the broken images among those of `name`. Throws InputError if none is whole.
BrokenSamples broken_among(const DecodedImages& decoded, const Images& options,
                           const std::string& name) {
  constexpr size_t kShown = 5;
  BrokenSamples out;
  std::string reasons;
  for (size_t i = 0; i < decoded.why.size(); ++i) {
    if (decoded.why[i].empty()) continue;
    out.rows.push_back(int64_t(i));
    if (out.rows.size() <= kShown) {
      reasons += concat_to_string(reasons.empty() ? "" : "; ", decoded.why[i]);
    }
  }
  if (out.rows.empty()) return out;
  const auto bad = std::ssize(out.rows), all = std::ssize(decoded.why);
  require<InputError>(all > 1, reasons);
  out.is_allowed = bad <= limit_in(options.broken, all).value_or(0);
  out.text = concat_to_string(
      name, ": ", bad, " of ", all, " images ", bad == 1 ? "is" : "are", " broken or missing",
      out.is_allowed ? "" : ", more than `broken: " + options.broken + "` allows", ": ", reasons,
      out.rows.size() > kShown ? "; ..." : "");
  require<InputError>(bad < all, out.text);
  return out;
}

// Decodes the images that were found.
DatasetPtr decoded_images(FurtherImages found, const DataInfo& info, const fs::path& file,
                          const Images& options) {
  if (!found.note.empty()) log_info(concat_to_string(name_of(file), ": ", found.note));
  const auto all = std::ssize(found.files);
  DecodedImages decoded =
      decode_images(found.files, *info.images, keeps_pixels(options, *info.images, all), {0, all});
  BrokenSamples broken_ones = broken_among(decoded, options, name_of(file));
  std::vector<std::string> why;
  const std::vector<int64_t> whole = remove_broken(decoded, why);
  const Tensor rows = tensor_of(whole.data(), {std::ssize(whole)});
  std::vector<fs::path> files;
  for (const int64_t i : whole) files.push_back(std::move(found.files[size_t(i)]));
  if (found.targets.defined()) found.targets = TensorDataset({found.targets}).get(rows).inputs;
  return std::make_shared<ImageSet>(std::move(files), std::move(decoded.pixels),
                                    std::move(found.targets), info.images, std::move(broken_ones));
}

}  // namespace

bool Images::is_size(const std::string& text) { return text == "auto" || size_in(text); }

bool Images::is_limit(const std::string& text) { return limit_in(text, 0).has_value(); }

std::optional<Task> Images::learns() const {
  if (!labels || labels->task == Table::Task::kClassification) return Task::kClassification;
  if (labels->task == Table::Task::kRegression) return Task::kRegression;
  return std::nullopt;
}

Splits Images::load(uint64_t) const { return ImageLoader(*this).load(true); }

Outline Images::outline(uint64_t) const {
  return {ImageLoader(*this).load(false), "the pixels of the images"};
}

std::vector<DataFile> Images::files() const {
  if (labels) {
    std::vector<DataFile> out{{labels->file, {labels->file}}, {path, {}}};
    for (const ListedImage& image : list_images(*this).images) out[1].parts.push_back(image.file);
    return out;
  }
  const PartFolders folders = part_folders(path, split);
  std::vector<DataFile> out;
  for (const auto& folder : {std::optional(folders.train), folders.validation, folders.test}) {
    if (folder) out.push_back({name_of(*folder), files_below(*folder, has_image_name).files});
  }
  return out;
}

DatasetPtr Images::more(const DataInfo& info, const fs::path& file) const {
  return decoded_images(further_images(info, file, *this, true), info, file, *this);
}

DatasetPtr Images::unlabeled(const DataInfo& info, const fs::path& file) const {
  return decoded_images(further_images(info, file, *this, false), info, file, *this);
}

KeptColumns Images::kept(const DataInfo& info, const fs::path& file) const {
  KeptColumns out{.names = {"file"}};
  for (std::string& name : further_images(info, file, *this, false).names) {
    out.rows.push_back({std::move(name)});
  }
  return out;
}

Tensor Images::prepared(const DataInfo& info, const Tensor& raw) const {
  return normalized_pixels(raw, image_encoding_of(info, path));
}

}  // namespace taper::v0::data

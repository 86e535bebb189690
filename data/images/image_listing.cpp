#include "data/images/image_listing.h"

#include <algorithm>
#include <cctype>
#include <span>
#include <string_view>
#include <system_error>
#include <unordered_map>

#include "data/images/image_files.h"
#include "data/tables/reading/csv_cells.h"
#include "framework/io/text_utils.h"

namespace taper::v0::data {
namespace {

namespace fs = std::filesystem;
using detail::in_quotes;

// Returns the folder of a part that is given as a path.
std::optional<fs::path> folder_of(const std::optional<std::string>& part) {
  if (!part || TableSplit::fraction_of(*part)) return std::nullopt;
  return *part;
}

// The folders of a root by which parts are recognized.
struct FoundParts {
  std::optional<std::string> train{}, validation{}, test{};
  std::vector<std::string> all{}, unlabeled{};  // unlabeled: parts without class folders
};

// The names of the parts, in lower case. A folder of the name in lower case comes first.
constexpr std::string_view kTrainNames[] = {"train", "training"},
                           kValidationNames[] = {"val", "valid", "validation"},
                           kTestNames[] = {"test", "testing"};

std::string lower(std::string text) {
  std::ranges::transform(text, text.begin(), [](unsigned char c) { return char(std::tolower(c)); });
  return text;
}

std::optional<std::string> find_part(const std::vector<std::string>& folders,
                                     std::span<const std::string_view> names) {
  for (const std::string_view name : names) {
    if (std::ranges::count(folders, name) > 0) return std::string(name);
  }
  for (const std::string& folder : folders) {
    if (std::ranges::count(names, std::string_view(lower(folder))) > 0) return folder;
  }
  return std::nullopt;
}

// A folder of images without class folders is no part: the test images of a competition, whose
// classes nobody knows.
FoundParts found_parts(const fs::path& root) {
  FoundParts out;
  for (const fs::path& folder : folders_in(root).folders) {
    out.all.push_back(name_of(folder.filename()));
  }
  out.train = find_part(out.all, kTrainNames);
  out.validation = find_part(out.all, kValidationNames);
  out.test = find_part(out.all, kTestNames);
  if (!out.train || folders_in(root / *out.train).folders.empty()) {
    out.train.reset();
    return out;
  }
  for (std::optional<std::string>* part : {&out.validation, &out.test}) {
    if (!*part || !folders_in(root / **part).folders.empty()) continue;
    out.unlabeled.push_back(**part);
    part->reset();
  }
  return out;
}

// Adds the images of class folders. Without names, their classes become those of the listing.
void add_class_folders(ImageListing& out, const fs::path& root, Part part) {
  const ImageFolder found(root);
  if (part == Part::kTrain) out.class_names = found.classes();
  std::vector<int64_t> classes;
  for (const std::string& name : found.classes()) {
    const auto at = std::ranges::find(out.class_names, name);
    require<InputError>(at != out.class_names.end(), name_of(root), ": class ", in_quotes(name),
                        " is not one of the ", out.class_names.size(),
                        " classes of the training images; the nearest are ",
                        csv::nearest_names(out.class_names, name));
    classes.push_back(at - out.class_names.begin());
  }
  const std::span<const int64_t> targets = found.targets().span<int64_t>();
  for (size_t i = 0; i < found.files().size(); ++i) {
    out.images.push_back({found.files()[i], classes[size_t(targets[i])], part});
  }
  out.left_out.add_all(found.left_out());
}

// Throws DataError for a folder with one class folder, which may be a folder around the data.
[[noreturn]] void refuse_one_class(const fs::path& root) {
  const fs::path only = folders_in(root).folders[0];
  const auto below = folders_in(only).folders.size();
  throw DataError(
      name_of(root), ": there is one class, ", in_quotes(name_of(only.filename())),
      ", and nothing to learn; ",
      below > 1 ? concat_to_string("did you mean the ", below, " folders in ", name_of(only), "?")
                : "`labels` names a table with classes or values");
}

// Throws InputError for a folder without class folders that has images itself.
void refuse_images_alone(const fs::path& root) {
  if (!folders_in(root).folders.empty()) return;
  const auto images = files_below(root, has_image_name).files.size();
  require<InputError>(images == 0, name_of(root), ": has ", images,
                      " images and no folder for each class; put them in such folders, or name a "
                      "table of their labels: labels={file: TABLE, target: COLUMN}");
}

ImageListing list_class_folders(const Images& options) {
  const PartFolders folders = part_folders(options.path, options.split);
  ImageListing out{.has_validation = folders.validation.has_value(),
                   .has_test = folders.test.has_value(),
                   .note = folders.note};
  refuse_images_alone(folders.train);
  add_class_folders(out, folders.train, Part::kTrain);
  if (out.class_names.size() < 2) refuse_one_class(folders.train);
  if (folders.validation) add_class_folders(out, *folders.validation, Part::kValidation);
  if (folders.test) add_class_folders(out, *folders.test, Part::kTest);
  return out;
}

// Returns the summaries of the columns. All but the targets are ignored.
std::vector<ColumnSummary> understand_labels(const RawTable& table, const ImageLabels& options) {
  TableRequest request{.targets = options.target, .columns = {}, .missing = {}, .group = {}};
  request.missing = usual_missing_words();
  std::vector<int64_t> targets;
  for (const std::string& name : options.target) targets.push_back(find_column(table, name));
  for (int64_t i = 0; i < std::ssize(table.columns); ++i) {
    if (std::ranges::count(targets, i) > 0) continue;
    request.columns[table.columns[size_t(i)].name] = ColumnKind::kIgnore;
  }
  return understand_columns(table, request);
}

// Counts a row that names the file of an earlier row. The same image in two parts would let a model
// be tested on what it was trained on. Throws DataError if the rows have different targets.
void note_repeated(ImageListing& out, const ImageLabels& labels, const fs::path& file,
                   int64_t first, int64_t row) {
  ++out.repeated;
  for (const std::string& name : labels.target) {
    const RawColumn& target = out.table.columns[size_t(find_column(out.table, name))];
    const std::string a(target.text(first)), b(target.text(row));
    require<DataError>(a == b, labels.file, ": two rows name ", name_of(file), ", with ",
                       in_quotes(a), " and ", in_quotes(b), " in column ", in_quotes(name),
                       "; remove one of them");
  }
}

ImageListing list_table(const Images& options) {
  const ImageLabels& labels = *options.labels;
  LabelTable read = read_label_table(labels, options.path);
  ImageListing out;
  out.table = std::move(read.table);
  out.path_column = read.path_column;
  out.columns = understand_labels(out.table, labels);
  std::unordered_map<std::string, int64_t> rows_of;  // by file
  std::vector<CellReader> targets;
  for (const std::string& name : labels.target) {
    const auto at = size_t(find_column(out.table, name));
    targets.emplace_back(out.table.columns[at], out.columns[at].missing_cells);
  }
  const RawColumn& paths = out.table.columns[size_t(find_column(out.table, out.path_column))];
  for (int64_t row = 0; row < out.table.rows; ++row) {
    if (std::ranges::any_of(targets, [&](const CellReader& t) { return t.is_missing(row); })) {
      ++out.without_target;
      continue;
    }
    const fs::path file = labelled_file(options.path, paths.text(row), labels.suffix);
    const auto [first, is_new] = rows_of.try_emplace(file.lexically_normal().string(), row);
    std::error_code none;
    if (!is_new) {
      note_repeated(out, labels, file, first->second, row);
    } else if (fs::is_regular_file(file, none)) {
      out.images.push_back({file, row});
    } else {
      out.missing.push_back(file);
    }
  }
  return out;
}

}  // namespace

PartFolders part_folders(const fs::path& root, const ImageSplit& split) {
  const FoundParts found = found_parts(root);
  PartFolders out{
      .train = root, .validation = folder_of(split.validation), .test = folder_of(split.test)};
  const bool is_alone = found.train && found.all.size() == found.unlabeled.size() + 1;
  if (!found.train || (!found.validation && !found.test && !is_alone)) return out;
  out.train = root / *found.train;
  std::vector<std::string> used = {*found.train};
  std::string note = *found.train + "/ to train";
  const auto use = [&](const std::string& name, const char* what) {
    used.push_back(name);
    note += concat_to_string(", ", name, "/ to ", what);
    return root / name;
  };
  const bool has_both = found.validation && found.test;
  if (has_both && !split.validation) out.validation = use(*found.validation, "validate");
  const std::optional<std::string>& test = found.test ? found.test : found.validation;
  if (!split.test && test) out.test = use(*test, "test");
  std::string others;
  for (const std::string& name : found.all) {
    if (std::ranges::count(used, name) > 0) continue;
    const bool has_no_classes = std::ranges::count(found.unlabeled, name) > 0;
    others += concat_to_string(others.empty() ? "" : ", ", name, "/",
                               has_no_classes ? " (without class folders)" : "");
  }
  out.note = note + (others.empty() ? "" : ", not used: " + others);
  return out;
}

fs::path labelled_file(const fs::path& root, const std::string& cell, const std::string& suffix) {
  const fs::path plain = root / (cell + suffix);
  std::error_code none;
  if (!suffix.empty() || fs::exists(plain, none)) return plain;
  for (const char* end : {".jpg", ".jpeg", ".png", ".JPG", ".JPEG", ".PNG"}) {
    const fs::path longer = root / (cell + end);
    if (fs::exists(longer, none)) return longer;
  }
  return plain;
}

LabelTable read_label_table(const ImageLabels& options, const fs::path& root) {
  TableReadOptions reading;
  reading.expected_columns = options.target;
  std::vector<std::string> texts;
  if (!options.path.empty()) texts.push_back(options.path);
  LabelTable out{read_table({options.file}, reading, texts), options.path};
  if (!out.path_column.empty()) {
    out.path_column = out.table.columns[size_t(find_column(out.table, options.path))].name;
    return out;
  }
  std::error_code none;
  for (const RawColumn& column : out.table.columns) {
    if (out.table.rows == 0 || !out.path_column.empty()) break;
    const std::string cell = column.text(0);
    if (cell.empty()) continue;
    if (fs::is_regular_file(labelled_file(root, cell, options.suffix), none)) {
      out.path_column = column.name;
    }
  }
  if (out.path_column.empty()) {
    throw OptionError("labels",
                      concat_to_string(options.file, ": no column names files in ", root.string(),
                                       "; `labels: {path: COLUMN}` says which one does, and "
                                       "`suffix: .jpg` what the names lack"));
  }
  out.table = read_table({options.file}, reading, {out.path_column});
  return out;
}

ImageListing list_images(const Images& options) {
  return options.labels ? list_table(options) : list_class_folders(options);
}

}  // namespace taper::v0::data

#include "data/images/image_listing.h"

#include <algorithm>
#include <system_error>

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
  std::vector<std::string> all{};
};

FoundParts found_parts(const fs::path& root) {
  FoundParts out;
  for (const fs::path& folder : folders_in(root).folders) {
    out.all.push_back(name_of(folder.filename()));
  }
  const auto is_there = [&](const char* name) { return std::ranges::count(out.all, name) > 0; };
  if (is_there("train")) out.train = "train";
  if (is_there("test")) out.test = "test";
  for (const char* name : {"val", "valid", "validation"}) {
    if (is_there(name) && !out.validation) out.validation = name;
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

ImageListing list_class_folders(const Images& options) {
  const PartFolders folders = part_folders(options.path, options.split);
  ImageListing out{.has_validation = folders.validation.has_value(),
                   .has_test = folders.test.has_value(),
                   .note = folders.note};
  add_class_folders(out, folders.train, Part::kTrain);
  require<DataError>(out.class_names.size() > 1, folders.train.string(),
                     ": there is one class, and nothing to learn; `labels` names a table with "
                     "classes or values");
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

ImageListing list_table(const Images& options) {
  const ImageLabels& labels = *options.labels;
  LabelTable read = read_label_table(labels, options.path);
  ImageListing out;
  out.table = std::move(read.table);
  out.path_column = read.path_column;
  out.columns = understand_labels(out.table, labels);
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
    std::error_code none;
    if (fs::is_regular_file(file, none)) {
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
  if (!found.train || (!found.validation && !found.test)) return out;
  out.train = root / *found.train;
  std::vector<std::string> used = {*found.train};
  std::string note = "train/ to train";
  const auto use = [&](const std::string& name, const char* what) {
    used.push_back(name);
    note += concat_to_string(", ", name, "/ to ", what);
    return root / name;
  };
  const bool has_both = found.validation && found.test;
  if (has_both && !split.validation) out.validation = use(*found.validation, "validate");
  if (!split.test) out.test = use(found.test ? *found.test : *found.validation, "test");
  std::string others;
  for (const std::string& name : found.all) {
    if (std::ranges::count(used, name) > 0) continue;
    others += concat_to_string(others.empty() ? "" : ", ", name, "/");
  }
  if (used.size() == 1) return out;
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

// Images that a run did not train on: to predict, or to evaluate if they have labels.

#include <algorithm>
#include <system_error>
#include <utility>

#include "data/images/image_files.h"
#include "data/images/image_listing.h"
#include "data/tables/raw_table.h"
#include "data/tables/table_targets.h"
#include "framework/factory/factories.h"
#include "framework/io/text_utils.h"

namespace taper::v0::data {
namespace {

namespace fs = std::filesystem;
using detail::in_quotes;

// Returns the images that a table names, with their targets if it has the columns. Leaves out and
// notes rows whose target is missing.
FurtherImages further_table(const ImageEncoding& encoding, const fs::path& file,
                            const fs::path& root, bool with_targets) {
  const RawTable table = read_table({file}, {}, {encoding.path_column});
  const int64_t at = table.find(encoding.path_column);
  require<InputError>(at >= 0, file.string(), ": there is no column ",
                      in_quotes(encoding.path_column), " of file names");
  FurtherImages out;
  std::vector<int64_t> rows = table.all_rows();
  const TableEncoding targets{
      .delimiter = {}, .decimal = {}, .encoding = {}, .targets = encoding.targets};
  if (with_targets && std::ranges::all_of(encoding.targets, [&](const TargetColumn& t) {
        return table.find(t.name) >= 0;
      })) {
    const Tensor all = encode_targets(targets, table, rows, true);
    rows = rows_with_targets(targets, all);
    require<InputError>(!rows.empty(), file.string(), ": the target is missing in all of its ",
                        table.rows, " rows; `taper predict` works without it");
    out.targets = TensorDataset({all}).get(tensor_of(rows.data(), {std::ssize(rows)})).inputs;
    const int64_t missing = table.rows - std::ssize(rows);
    if (missing > 0) {
      out.note =
          concat_to_string(missing, missing == 1 ? " row" : " rows", " without a target left out");
    }
  }
  for (const int64_t row : rows) {
    out.names.push_back(table.columns[size_t(at)].text(row));
    out.files.push_back(labelled_file(root, out.names.back(), encoding.suffix));
  }
  return out;
}

// Returns the images in the folders of the classes, with their classes.
FurtherImages further_classes(const DataInfo& info, const fs::path& root) {
  const ImageFolder found(root);
  FurtherImages out;
  std::vector<int64_t> classes, targets;
  for (const std::string& name : found.classes()) {
    const auto at = std::ranges::find(info.class_names, name);
    require<InputError>(at != info.class_names.end(), name_of(root), ": class ", in_quotes(name),
                        " is not one of the ", info.class_names.size(),
                        " classes of the training images");
    classes.push_back(at - info.class_names.begin());
  }
  for (const int64_t target : found.targets().span<int64_t>()) {
    targets.push_back(classes[size_t(target)]);
  }
  out.files = found.files();
  out.targets = tensor_of(targets.data(), {std::ssize(targets)});
  out.note = found.left_out().to_text();
  return out;
}

FurtherImages further_folder(const DataInfo& info, const fs::path& folder, bool with_targets) {
  const PartFolders parts = part_folders(folder, {});
  const fs::path root = parts.test.value_or(folder);
  const bool has_classes =
      info.images->targets.empty() &&
      std::ranges::any_of(folders_in(root).folders, [&](const fs::path& each) {
        return std::ranges::count(info.class_names, name_of(each.filename())) > 0;
      });
  FurtherImages out;
  if (has_classes && with_targets) {
    out = further_classes(info, root);
  } else {
    FolderListing listing = files_below(has_classes ? root : folder, has_image_name);
    out.note = listing.left_out.to_text();
    out.files = std::move(listing.files);
    require<InputError>(!out.files.empty(), name_of(folder), ": no PNG and JPEG files",
                        out.note.empty() ? "" : "; ", out.note);
  }
  if (has_classes && !parts.note.empty()) {
    out.note = parts.note + (out.note.empty() ? "" : "; " + out.note);
  }
  for (const fs::path& file : out.files) {
    out.names.push_back(name_of(file.lexically_relative(folder)));
  }
  return out;
}

}  // namespace

const ImageEncoding& image_encoding_of(const DataInfo& info, const fs::path& file) {
  if (!info.images) throw InputError(file.string(), ": the training data were no images");
  return *info.images;
}

FurtherImages further_images(const DataInfo& info, const fs::path& file, const Images& options,
                             bool with_targets) {
  const ImageEncoding& encoding = image_encoding_of(info, file);
  std::error_code none;
  if (fs::is_directory(file, none)) return further_folder(info, file, with_targets);
  const bool is_table = !encoding.path_column.empty() && !has_image_name(file);
  if (is_table) return further_table(encoding, file, options.path, with_targets);
  return {{file}, {name_of(file)}};
}

}  // namespace taper::v0::data

// Finds the images of a data set, their labels and their parts. Does not read the images.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "data/folders.h"
#include "data/images/image_source.h"
#include "data/tables/columns.h"
#include "data/tables/raw_table.h"

namespace taper::v0::data {

enum class Part : uint8_t { kTrain, kValidation, kTest };
inline constexpr size_t kParts = 3;

struct ListedImage {
  std::filesystem::path file;
  int64_t label = 0;         // the index of its class, or its row of the table of labels
  Part part = Part::kTrain;  // kTrain if no folder says the part
};

struct ImageListing {
  std::vector<ListedImage> images{};
  std::vector<std::string> class_names{};         // empty with a table of labels
  bool has_validation = false, has_test = false;  // a folder has the part
  SkippedFiles left_out{};
  std::string note{};  // which folder has which part; empty if no folder does
  // With a table of labels:
  RawTable table{};
  std::vector<ColumnSummary> columns{};
  std::string path_column{};
  int64_t without_target = 0, repeated = 0;      // rows that are left out
  std::vector<std::filesystem::path> missing{};  // files that the table names
};

// Lists the class folders, or the rows of the table of labels. Throws the errors of ImageFolder and
// read_table(). Throws InputError if a part has a class that the training part lacks, and
// OptionError for a column that the table lacks.
ImageListing list_images(const Images& options);

// The folders of the parts. A part that is a fraction has none.
struct PartFolders {
  std::filesystem::path train;
  std::optional<std::filesystem::path> validation{}, test{};
  std::string note{};
};
PartFolders part_folders(const std::filesystem::path& root, const ImageSplit& split);

// Returns the table with the labels, with all columns but the targets left out of consideration.
// Finds the column of paths if `options.path` is empty.
struct LabelTable {
  RawTable table;
  std::string path_column;
};
LabelTable read_label_table(const ImageLabels& options, const std::filesystem::path& root);

// Returns the file that a cell of the column of paths names, whether it exists or not.
std::filesystem::path labelled_file(const std::filesystem::path& root, const std::string& cell,
                                    const std::string& suffix);

// --- images that a run did not train on ---

struct FurtherImages {
  std::vector<std::filesystem::path> files{};
  std::vector<std::string> names{};  // as predictions show them
  Tensor targets{};
  std::string note{};
};

// Finds the images in a file, a folder, or a table like that of the labels. with_targets: reads
// the classes or values, too, and leaves out what has none. Throws the errors of Images::more().
FurtherImages further_images(const DataInfo& info, const std::filesystem::path& file,
                             const Images& options, bool with_targets);

// Returns how the images of the run become samples. Throws InputError, with `file`, if the data of
// the run were no images.
const ImageEncoding& image_encoding_of(const DataInfo& info, const std::filesystem::path& file);

}  // namespace taper::v0::data

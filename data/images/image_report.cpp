#include "data/images/image_report.h"

#include <algorithm>
#include <cstdio>
#include <limits>
#include <map>

#include "data/images/image_header.h"
#include "data/tables/table_report.h"
#include "framework/io/text_utils.h"

namespace taper::v0::data {
namespace {

constexpr size_t kShownClasses = 20, kShownBroken = 3, kShownName = 40;

using Cells = std::vector<std::string>;

// Returns lines of aligned columns. The first column is aligned to the left, the others to the
// right.
std::string aligned(const std::vector<Cells>& rows) {
  std::vector<size_t> widths(rows[0].size());
  for (const Cells& row : rows) {
    for (size_t i = 0; i < row.size(); ++i) widths[i] = std::max(widths[i], num_characters(row[i]));
  }
  std::string out;
  for (const Cells& row : rows) {
    out += "  " + row[0] + std::string(widths[0] - num_characters(row[0]), ' ');
    for (size_t i = 1; i < row.size(); ++i) {
      out += "  " + std::string(widths[i] - num_characters(row[i]), ' ') + row[i];
    }
    out += "\n";
  }
  return out;
}

std::string first_line(const ImageView& view) {
  char seconds[32];
  std::snprintf(seconds, sizeof seconds, "%.2f", view.seconds);
  const ImageSizes& s = view.sizes;
  const std::string least = concat_to_string(s.least_width, "x", s.least_height),
                    most = concat_to_string(s.most_width, "x", s.most_height);
  const auto classes = view.listing.class_names.size();
  return concat_to_string(
      view.options.path, ": ", with_separators(std::ssize(view.listing.images)), " images, ",
      classes > 0 ? concat_to_string(with_separators(int64_t(classes)), " classes, ") : "", least,
      least == most ? "" : concat_to_string(" to ", most), ", read in ", seconds, " s\n");
}

// Returns a row for each class with its number of images in each part that has any.
std::string classes_text(const ImageView& view, const std::vector<std::string>& names,
                         const std::vector<int64_t>& class_of) {
  std::vector<std::array<int64_t, kParts>> counts(names.size());
  for (size_t part = 0; part < kParts; ++part) {
    for (const size_t i : view.parts[part]) ++counts[size_t(class_of[i])][part];
  }
  const bool has_validation = !view.parts[size_t(Part::kValidation)].empty();
  const auto cells = [&](const std::string& name, const auto& of_part) {
    Cells out = {name, of_part(0)};
    if (has_validation) out.push_back(of_part(1));
    out.push_back(of_part(2));
    return out;
  };
  constexpr std::array kTitles = {"training", "validation", "test"};
  std::vector<Cells> rows = {
      cells("class", [&](size_t part) { return std::string(kTitles[part]); })};
  for (size_t k = 0; k < std::min(names.size(), kShownClasses); ++k) {
    rows.push_back(cells(detail::escaped_for_display(names[k], kShownName),
                         [&](size_t part) { return with_separators(counts[k][part]); }));
  }
  std::string out = aligned(rows);
  if (names.size() > kShownClasses) {
    int64_t least = std::numeric_limits<int64_t>::max(), most = 0;
    for (size_t k = kShownClasses; k < names.size(); ++k) {
      const int64_t all = counts[k][0] + counts[k][1] + counts[k][2];
      least = std::min(least, all);
      most = std::max(most, all);
    }
    out += concat_to_string("  and ", names.size() - kShownClasses, " more classes with ", least,
                            " to ", most, " images each\n");
  }
  return out;
}

// Returns the class of each listed image by the table of labels.
std::vector<int64_t> classes_by_table(const ImageView& view, const TargetColumn& target) {
  const RawTable& table = view.listing.table;
  const RawColumn& column = table.columns[size_t(find_column(table, target.name))];
  std::map<std::string, int64_t> index;
  for (size_t k = 0; k < target.classes.size(); ++k) index[target.classes[k]] = int64_t(k);
  std::vector<int64_t> out;
  for (const ListedImage& image : view.listing.images) {
    out.push_back(index.at(column.text(image.label)));
  }
  return out;
}

// Returns "price: values 3 to 99", or the shares of a label's two classes.
std::string target_text(const ImageView& view, const TargetColumn& target) {
  const RawTable& table = view.listing.table;
  const RawColumn& column = table.columns[size_t(find_column(table, target.name))];
  if (!target.classes.empty()) {
    const std::vector<int64_t> classes = classes_by_table(view, target);
    std::string out = concat_to_string("  ", target.name, ": label");
    for (size_t k = 0; k < target.classes.size(); ++k) {
      out += concat_to_string(", ", target.classes[k], ": ",
                              with_separators(std::ranges::count(classes, int64_t(k))));
    }
    return out + "\n";
  }
  double low = std::numeric_limits<double>::infinity(), high = -low;
  for (const ListedImage& image : view.listing.images) {
    low = std::min(low, column.number(image.label));
    high = std::max(high, column.number(image.label));
  }
  return concat_to_string("  ", target.name, ": values, ", float(low), " to ", float(high), "\n");
}

std::string labels_text(const ImageView& view) {
  const std::vector<TargetColumn>& targets = view.encoding.targets;
  if (targets.empty()) {
    std::vector<int64_t> classes;
    for (const ListedImage& image : view.listing.images) classes.push_back(image.label);
    return classes_text(view, view.listing.class_names, classes);
  }
  if (targets.size() == 1 && !targets[0].classes.empty()) {
    return classes_text(view, targets[0].classes, classes_by_table(view, targets[0]));
  }
  std::string out;
  for (const TargetColumn& target : targets) out += target_text(view, target);
  return out;
}

// Returns what was left out by kind, with commands that convert other formats. A command that
// converts several of them is shown once.
std::string left_out_text(const SkippedFiles& files) {
  std::map<std::string, std::vector<std::string>> kinds_of;  // by the command before "*.webp"
  for (const auto& [kind, count] : files.counts()) {
    const std::string command = conversion_command(kind);
    if (!command.empty()) kinds_of[command.substr(0, command.find('*'))].push_back(kind);
  }
  std::string out = files.to_text();
  for (const auto& [start, kinds] : kinds_of) {
    out += concat_to_string("; ", conversion_command(kinds[0]), " converts ", kinds[0]);
    for (size_t i = 1; i < kinds.size(); ++i) {
      out += concat_to_string(i == 1 ? ", and in the same way " : ", ", kinds[i]);
    }
  }
  return out.empty() ? out : out + "\n";
}

// Returns a line about rows of the table of labels that are left out; "" if there are none.
std::string dropped_text(int64_t rows, const char* why) {
  if (rows == 0) return "";
  return concat_to_string("dropped: ", with_separators(rows), rows == 1 ? " row" : " rows", why,
                          "\n");
}

std::string broken_text(const ImageView& view) {
  if (view.broken.empty()) return "";
  std::string out = concat_to_string("broken: ", view.broken.size(), " left out: ");
  for (size_t i = 0; i < std::min(view.broken.size(), kShownBroken); ++i) {
    out += concat_to_string(i == 0 ? "" : "; ", view.broken[i]);
  }
  return out + (view.broken.size() > kShownBroken ? "; ...\n" : "\n");
}

std::string samples_text(const ImageView& view) {
  const ImageEncoding& e = view.encoding;
  constexpr std::array kFits = {"cut to the middle", "padded with black", "stretched to fit"};
  std::string out = concat_to_string("samples: ", e.width, "x", e.height, " ",
                                     e.channels == 1 ? "gray" : "RGB", ", ", kFits[e.fit.index()]);
  if (view.options.normalize == Images::Normalize::kAuto) {
    out += ", normalized by the training images";
  } else if (view.options.normalize == Images::Normalize::kImagenet) {
    out += ", normalized by ImageNet's mean and standard deviation";
  }
  return out + "\n";
}

}  // namespace

std::string report_of(const ImageView& view) {
  std::string out = first_line(view) + labels_text(view);
  if (!view.listing.note.empty()) out += concat_to_string("parts: ", view.listing.note, "\n");
  out += left_out_text(view.listing.left_out);
  out += dropped_text(view.listing.without_target, " without a target");
  out += dropped_text(view.listing.repeated, " with the file of an earlier row");
  out += broken_text(view) + samples_text(view) + "split: ";
  const auto count = [&](Part part) {
    return with_separators(std::ssize(view.parts[size_t(part)]));
  };
  out += concat_to_string(count(Part::kTrain), " training, ");
  if (!view.parts[size_t(Part::kValidation)].empty()) {
    out += concat_to_string(count(Part::kValidation), " validation, ");
  }
  return out +
         concat_to_string(count(Part::kTest), " test", view.how.empty() ? "" : ", ", view.how);
}

}  // namespace taper::v0::data

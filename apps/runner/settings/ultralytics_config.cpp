#include "apps/runner/settings/ultralytics_config.h"

#include <algorithm>
#include <filesystem>
#include <string_view>
#include <system_error>
#include <utility>

#include "apps/runner/base/string_utils.h"
#include "apps/runner/settings/placed_node.h"
#include "data/folders.h"
#include "framework/base/error.h"

namespace taper::v0::runner {
namespace {

namespace fs = std::filesystem;
using Kind = Node::Kind;

constexpr std::string_view kKnown[] = {"path", "train", "val", "test", "names", "nc"};

bool has_text(const Node* node) {
  return node != nullptr && node->kind == Kind::kScalar && !node->text.empty();
}

class UltralyticsConverter {
 public:
  UltralyticsConverter(const Node& root, std::vector<Problem>& problems)
      : root_(root), problems_(problems) {}

  Node converted() {
    refuse_other_keys();
    const Node *const train = root_.find("train"), *const val = root_.find("val"),
                      *const test = root_.find("test");
    if (train == nullptr)
      problem(root_, "Ultralytics' file has no 'train', the folder to train on");
    const fs::path folder = train == nullptr ? fs::path() : folder_of(*train);
    if (!folder.empty()) check_classes(*train, folder);
    std::vector<Node> data, split;
    if (train != nullptr) {
      data.push_back(word_at("type", "images", *train));
      data.push_back(quoted_at("path", folder.string(), *train));
    }
    // Without a test part, the weights are chosen on a share of the training part, and `val` is
    // the test.
    const bool has_test = is_given(test);
    if (is_given(val)) add_part(*val, has_test ? "validation" : "test", split);
    if (has_test) add_part(*test, "test", split);
    if (!split.empty()) data.push_back(map_at("split", std::move(split), root_));
    return map_at("", {map_at("data", std::move(data), train == nullptr ? root_ : *train)}, root_);
  }

 private:
  void problem(const Node& at, std::string message) {
    problems_.push_back({at.place, std::move(message)});
  }
  static bool is_given(const Node* node) { return node != nullptr && node->kind != Kind::kNull; }

  void refuse_other_keys() {
    for (const Node& child : root_.children) {
      if (std::ranges::count(kKnown, std::string_view(child.key)) > 0) continue;
      const bool is_download = child.key == "download";
      problems_.push_back(
          {child.key_place,
           concat_to_string("Ultralytics' key '", child.key, "' is not converted",
                            is_download ? "; Taper loads nothing from the network" : "",
                            "; remove it (converted are ", joined(kKnown), ")")});
    }
  }

  // Returns the folder of a part, relative to `path`. Reports files and lists of folders.
  fs::path folder_of(const Node& part) {
    if (!has_text(&part) || part.text.ends_with(".txt")) {
      problem(part, concat_to_string(part.key,
                                     ": Taper reads one folder with a folder for each "
                                     "class, got ",
                                     describe_node(part)));
      return {};
    }
    const Node* const root = root_.find("path");
    if (root != nullptr && !has_text(root)) {
      problem(*root, concat_to_string("path: expected a folder, got ", describe_node(*root)));
    }
    const fs::path base = has_text(root) ? fs::path(root->text) : fs::path();
    return (base / part.text).lexically_normal();
  }

  void add_part(const Node& part, const char* key, std::vector<Node>& split) {
    const fs::path folder = folder_of(part);
    if (!folder.empty()) split.push_back(quoted_at(key, folder.string(), part));
  }

  // Returns the names of a list, or of a map from numbers.
  std::vector<std::string> names_of(const Node& names) {
    std::vector<std::string> out;
    for (const Node& each : names.children) {
      if (each.kind == Kind::kScalar) out.push_back(each.text);
    }
    if (names.children.empty() || out.size() < names.children.size()) {
      problem(names, concat_to_string("names: expected a list of names, or a map from numbers to ",
                                      "names, got ", describe_node(names)));
    }
    return out;
  }

  // Checks `names` and `nc` against the class folders, if the folder exists. A missing folder is
  // reported when the data are read.
  void check_classes(const Node& train, const fs::path& folder) {
    const Node *const names = root_.find("names"), *const count = root_.find("nc");
    std::vector<std::string> given =
        names == nullptr ? std::vector<std::string>() : names_of(*names);
    const std::optional<int64_t> number = count ? read_scalar<int64_t>(*count).value : std::nullopt;
    if (count != nullptr && names != nullptr && number != std::optional(std::ssize(given))) {
      problem(*count, concat_to_string("nc: expected the number of names, ", given.size()));
    }
    std::error_code none;
    if (!fs::is_directory(folder, none)) return;
    std::vector<std::string> found;
    for (const fs::path& each : data::folders_in(folder).folders) {
      found.push_back(data::name_of(each.filename()));
    }
    if (found.empty()) {
      return problem(
          train,
          concat_to_string("train: '", folder.string(), "' has no class folders; Taper trains ",
                           "classification, and not the detection of objects in images"));
    }
    if (count != nullptr && names == nullptr && number != std::optional(std::ssize(found))) {
      problem(*count, concat_to_string("nc: expected the number of class folders in '",
                                       folder.string(), "', ", found.size()));
    }
    std::ranges::sort(given);
    std::ranges::sort(found);
    if (names == nullptr || given.empty() || given == found) return;
    problem(*names,
            concat_to_string("names: Taper takes the names of the classes from the folders ",
                             "in '", folder.string(), "', which are ", shortened(found),
                             "; rename the folders, or remove 'names'"));
  }

  static std::string shortened(const std::vector<std::string>& names) {
    constexpr size_t kShown = 8;
    std::string out;
    for (size_t i = 0; i < std::min(kShown, names.size()); ++i) {
      out += concat_to_string(i == 0 ? "" : ", ", names[i]);
    }
    return names.size() > kShown ? out + ", ..." : out;
  }

  const Node& root_;
  std::vector<Problem>& problems_;
};

}  // namespace

const char* sign_of_ultralytics(const Node& root) {
  const Node *const train = root.find("train"), *const names = root.find("names");
  const bool has_folder = train != nullptr && train->kind != Kind::kMap;
  if (has_folder && root.find("val") != nullptr) return "val";
  if (has_folder && root.find("path") != nullptr) return "path";
  const bool has_names = names != nullptr && names->kind != Kind::kScalar;
  return has_names ? "names" : nullptr;
}

Node converted_ultralytics(const Node& root, std::vector<Problem>& problems) {
  return UltralyticsConverter(root, problems).converted();
}

}  // namespace taper::v0::runner

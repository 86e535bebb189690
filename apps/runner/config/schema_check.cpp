// Checks the values of a config that a program built or changed.
#include <algorithm>
#include <ranges>

#include "apps/runner/base/string_utils.h"
#include "apps/runner/config/table.h"

namespace taper::v0::runner {
namespace {

// Finds what cannot be written as YAML: unknown types, options of another type, and enums that are
// out of range. Everything else is checked by reading the written text.
struct UnwritableValues {
  std::vector<Problem> problems{};

  void refuse(const std::string& path, const auto&... message) {
    problems.push_back({{}, concat_to_string(path, ": ", message...)});
  }

  void visit(const Schema& schema, const std::string& path) {
    for (const Field& field : schema.fields) {
      const std::string here = join_path(path, field.name);
      std::visit([&](const auto& target) { visit_target(field, target, here); }, field.target);
    }
  }

  void visit_target(const Field& field, const Value& value, const std::string& path) {
    if (value.is_given && !value.is_given()) return;
    for (const Scalar& each : value.scalars({})) {
      const auto* choice = std::get_if<Choice>(&each);
      if (!choice || choice->get() < field.names.size()) continue;
      refuse(path, "expected ", expected_of_one(field), ", got the enumerator with the value ",
             choice->get());
    }
  }
  void visit_target(const Field&, const Section& section, const std::string& path) {
    if (!section.is_given || section.is_given()) visit(section.open(), path);
  }
  void visit_target(const Field&, const TypedSection& section, const std::string& path) {
    if (has_options(section, path)) visit(section.schema(), path);
  }
  void visit_target(const Field&, const TypedSectionList& entries, const std::string& path) {
    for (std::size_t i = 0; i < entries.list->size(); ++i) {
      visit_target({}, entries.item(i), join_path(path, concat_to_string(i)));
    }
  }
  void visit_target(const Field&, const WordMap&, const std::string&) {}
  void visit_target(const Field&, const Custom&, const std::string&) {}

  // Returns whether the component has a known type and this type's options.
  bool has_options(const TypedSection& section, const std::string& path) {
    const Component& chosen = *section.chosen;
    const std::vector<std::string> types = section.kind->names();
    if (std::ranges::count(types, chosen.type) == 0) {
      refuse(join_path(path, "type"), "expected one of ", joined(types), ", got ",
             in_quotes(chosen.type), did_you_mean(nearest(chosen.type, types)));
      return false;
    }
    const Component own = section.kind->component(chosen.type);
    if (chosen.bind && chosen.options.type() == own.options.type()) return true;
    refuse(path, "the options do not belong to the type ", in_quotes(chosen.type),
           "; create the component with the registry's component(\"", chosen.type,
           "\"), which sets both");
    return false;
  }
};

}  // namespace

std::vector<Problem> problems_of(const Schema& schema, const Schema& copy) {
  UnwritableValues unwritable;
  unwritable.visit(schema, "");
  if (!unwritable.problems.empty()) return unwritable.problems;
  const Document written = parse_yaml(write(schema), {});
  std::vector<Problem> problems = written.problems;
  if (written.root)
    std::ranges::copy(read(copy, *written.root).problems, std::back_inserter(problems));
  for (Problem& problem : problems) problem.place = {};
  return problems;
}

}  // namespace taper::v0::runner

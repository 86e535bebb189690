#include "apps/runner/config/table.h"

#include <algorithm>
#include <exception>
#include <memory>
#include <set>

#include "apps/runner/base/errors.h"

namespace taper::v0::runner {

std::vector<std::string> ComponentRegistry::names() const {
  std::vector<std::string> names;
  for (const Row& row : rows_) names.push_back(row.component.type);
  return names;
}

const ComponentRegistry::Row& ComponentRegistry::row(const std::string& name) const {
  for (const Row& row : rows_) {
    if (row.component.type == name) return row;
  }
  throw ValueError(concat_to_string("unknown ", what_, " '", name, "'"));
}

void ComponentRegistry::refuse(const Component& c, const std::exception& error,
                               const std::string& where) const {
  if (is_any<Error>(error) || exit_code_of(error) != kExitBug) return;
  const std::string part = concat_to_string(what_, " '", c.type, "'");
  if (is_added(c.type)) {
    throw ForeignError(located(c.place, foreign_message(error, part) + where));
  }
  throw RunError(kExitBug, located(c.place, concat_to_string("a bug in Taper: ", part, ": ",
                                                             error.what(), where)));
}

void ComponentRegistry::refuse_call(const Component& c, const std::exception& error,
                                    const std::string& where) const {
  if (!is_refusal(error)) return refuse(c, error, where);
  const std::string part = concat_to_string(what_, " '", c.type, "'");
  if (is_added(c.type)) throw ForeignError(located(c.place, foreign_message(error, part)));
  throw ConfigError(located(c.place, concat_to_string(part, ": ", error.what())));
}

void ComponentRegistry::refuse_nothing(const Component& c) const {
  throw RunError(kExitBug,
                 located(c.place, concat_to_string(
                                      what_, " '", c.type,
                                      "', which is not part of Taper: its factory returned null")));
}

bool ComponentRegistry::is_added(const std::string& name) const {
  return &row(name) - rows_.data() >= std::ptrdiff_t(built_in_);
}

void ComponentRegistry::add_row(const std::string& name, Row row) {
  require<ValueError>(!name.empty() && yaml_text(name) == name, "'", name,
                      "' cannot be the name of a ", what_, ": it must be a plain word");
  const std::vector<std::string> taken = names();
  require<ValueError>(std::ranges::find(taken, name) == taken.end(), "the ", what_, " '", name,
                      "' is already registered; use another name");
  row.component.type = name;
  rows_.push_back(std::move(row));
}

static bool is_allowed(const Field& field, const Scalar& value) {
  const auto& names = field.names;
  const auto is_name = [&](const std::string* text) {
    return names.empty() || std::ranges::count(names, *text) > 0;
  };
  const auto is_in_range = [&](const auto* x) { return field.range.contains(double(*x)); };
  const auto is_choice = [&](const Choice& c) { return c.get() < names.size(); };
  return std::visit(Overloaded{is_choice, is_name, is_in_range}, value);
}

void ComponentRegistry::check_options(const std::string& name, const Schema& options) const {
  std::set<std::string> keys = {"type"};
  for (const Field& f : options.fields) {
    require<ValueError>(keys.insert(f.name).second, what_, " '", name, "': the key '", f.name,
                        "' is reserved or used twice");
    const auto* v = std::get_if<Value>(&f.target);
    if (!v || f.is_required || (v->is_given && !v->is_given())) continue;
    for (const Scalar& each : v->scalars({})) {
      require<ValueError>(is_allowed(f, each), what_, " '", name, "': the default of '", f.name,
                          "' must be ", expected_of_one(f));
    }
  }
}

// Returns the keys of the type and those common to all types. A component that the user's program
// registered may have an option with the name of a common key, which it then replaces.
static Schema schema_with(const TypedSection& tagged, Component& options) {
  Schema out = options.schema();
  if (!tagged.common) return out;
  for (Field& field : tagged.common().fields) {
    const bool is_own = std::ranges::count(out.fields, field.name, &Field::name) > 0;
    const auto shorter = std::ranges::find(out.fields, field.short_form, &Field::name);
    if (shorter != out.fields.end()) shorter->takes_map = true;
    if (!is_own) out.fields.push_back(std::move(field));
  }
  return out;
}

Schema TypedSection::schema() const { return schema_with(*this, *chosen); }

TypedSection TypedSectionList::item(std::size_t i) const { return {kind, &(*list)[i]}; }

std::vector<Alternative> TypedSection::alternatives() const {
  std::vector<Alternative> out;
  for (const ComponentRegistry::Row& row : kind->rows()) {
    const auto defaults = std::make_shared<Component>(row.component);
    out.push_back({schema_with(*this, *defaults), row.component.type, defaults});
  }
  return out;
}

}  // namespace taper::v0::runner

#include "apps/runner/config/table.h"

#include <algorithm>
#include <memory>

#include "apps/runner/config/yaml.h"
#include "framework/error.h"

namespace taper::runner {

std::vector<std::string> Kind::names() const {
  std::vector<std::string> names;
  for (const Row& row : rows_) names.push_back(row.name);
  return names;
}

const Kind::Row& Kind::row(const std::string& name) const {
  const auto found = std::ranges::find(rows_, name, &Row::name);
  if (found != rows_.end()) return *found;
  throw ValueError(cat("there is no ", what_, " '", name, "'"));
}

Component Kind::component(const std::string& name) const {
  return {.type = name, .options = row(name).options};
}

bool Kind::is_added(const std::string& name) const {
  return &row(name) - rows_.data() >= std::ptrdiff_t(built_in_);
}

void Kind::add_row(Row row) {
  if (row.name.empty() || yaml_text(row.name) != row.name) {
    throw ValueError(cat("'", row.name, "' is no name for a ", what_, ": it must be a plain word"));
  }
  if (std::ranges::count(rows_, row.name, &Row::name) > 0) {
    throw ValueError(cat("there is a ", what_, " '", row.name, "' already"));
  }
  rows_.push_back(std::move(row));
}

Union union_of(const Kind& kind, Component& chosen, const Schema& common) {
  const auto with_common = [common](Schema s) {
    s.fields.insert(s.fields.end(), common.fields.begin(), common.fields.end());
    return s;
  };
  Union out{.tag = {.names = kind.names(),
                    .get =
                        [&kind, &chosen] {
                          const auto is_it = [&](const Kind::Row& r) {
                            return r.name == chosen.type;
                          };
                          return std::size_t(std::ranges::find_if(kind.rows(), is_it) -
                                             kind.rows().begin());
                        },
                    .set =
                        [&kind, &chosen](std::size_t i) {
                          chosen.type = kind.rows()[i].name;
                          chosen.options = kind.rows()[i].options;
                        }},
            .alternatives = {},
            .place = &chosen.place,
            .live = [&chosen, with_common] { return with_common(chosen.options.schema()); }};
  for (const Kind::Row& row : kind.rows()) {
    const auto defaults = std::make_shared<Described>(row.options);
    out.alternatives.push_back(with_common(defaults->schema()));
    out.alternatives.back().owner = defaults;
  }
  return out;
}

Field& FieldMaker::operator()(const char* name, std::vector<Component>& list, const Kind& kind,
                              const char* doc) {
  const UnionList entries{.resize = [&](std::size_t n) { list.assign(n, kind.first()); },
                          .size = [&] { return list.size(); },
                          .item = [&](std::size_t i) { return union_of(kind, list[i]); }};
  return schema_.field(name, entries, doc);
}

}  // namespace taper::runner

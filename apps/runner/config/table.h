// The registries of components that a config names: layers, models, losses, optimizers, schedules.
// Each registry is one table. An entry consists of a name and a struct of options, which has
// describe() (framework/base/describe.h) and creates the component:
//
//   struct Scale {
//     double by = 2;
//     template <class V> void describe(V& v) { v("by", by, kPositive, "factor"); }
//     std::unique_ptr<Module> make(const LayerSite&) const { return ...; }
//   };
//   constexpr Layers::Entry kLayers[] = {{"scale", Layers::of<Scale>}, ...};
//
// All else follows from describe(): reading with checks, defaults, the written config, JSON Schema
// and the reference page.
#pragma once

#include <any>
#include <functional>
#include <initializer_list>
#include <span>
#include <string>
#include <type_traits>
#include <vector>

#include "apps/runner/config/schema.h"

namespace taper::v0::runner {

// The choice of a component in a config: its type and its options.
struct Component {
  std::string type;
  std::any options{};  // a struct that describes itself
  Schema (*bind)(std::any& options) = nullptr;
  Place place{};  // where it is written, for errors that show only when the component is created

  template <class Options> const Options& as() const {
    return std::any_cast<const Options&>(options);
  }
  template <class Options> const Options* get_if() const {
    return std::any_cast<Options>(&options);
  }
  // Returns the schema of the options, bound to this object.
  Schema schema() { return bind(options); }
};

// The part of a Table that does not depend on the type of its components.
class ComponentRegistry {
 public:
  struct Row {
    Component component{};  // with default options
    std::any make{};
  };

  const std::vector<Row>& rows() const { return rows_; }
  std::vector<std::string> names() const;
  // Throws ValueError if no component has that name.
  const Row& row(const std::string& name) const;
  Component component(const std::string& name) const { return row(name).component; }
  Component first() const { return rows_.at(0).component; }
  // Call this in a catch block for an exception that a component threw. Handles only exceptions
  // that are not derived from Error: throws ForeignError with the position of the component if the
  // user's program registered it, and otherwise RunError that reports a bug. Appends `where` to the
  // message. Returns for all other errors, and for those that are never the component's fault, such
  // as std::bad_alloc.
  void refuse(const Component& c, const std::exception& error, const std::string& where = "") const;
  // Like refuse(), for an exception thrown while the component is called. Handles the rejection of
  // arguments by an op, too (is_refusal). Then throws ConfigError for a built-in component, whose
  // options do not fit, and ForeignError for one that the user's program registered.
  void refuse_call(const Component& c, const std::exception& error,
                   const std::string& where = "") const;
  // Throws RunError for a component whose factory returned null.
  [[noreturn]] void refuse_nothing(const Component& c) const;
  // Returns whether the user's program registered this component.
  bool is_added(const std::string& name) const;

 protected:
  explicit ComponentRegistry(const char* what) : what_(what) {}
  // Throws ValueError if the name is taken or is not a plain word.
  void add_row(const std::string& name, Row row);
  // Throws ValueError if a key is listed twice or named `type`, or if a default is out of range.
  void check_options(const std::string& name, const Schema& options) const;

  std::size_t built_in_ = 0;

 private:
  const char* what_;  // the kind of component in messages, such as "layer"
  std::vector<Row> rows_;
};

template <class Signature> class Table;
template <class Made, class... Args> class Table<Made(Args...)> : public ComponentRegistry {
 public:
  struct Entry {
    const char* name;
    Row (*row)();
  };

  using Lists = std::initializer_list<std::span<const Entry>>;

  // Returns the only instance of this type. The first call creates it.
  static Table& registry(const char* what, Lists lists = {}) {
    static Table table(what, lists);
    return table;
  }

  // Returns the row of a component with these options. It is created by kMake(options, args...) if
  // kMake is given, and otherwise by options.make(args...). The row stores a function pointer, so
  // that the compiler instantiates one Maker type per table.
  template <class Options, auto kMake = nullptr> static Row of() {
    return row_of<Options>(+[](const Component& c, Args... args) -> Made {
      // Under the undefined behavior sanitizer, GCC 13 does not accept kMake == nullptr as a
      // constant.
      if constexpr (std::is_null_pointer_v<decltype(kMake)>) {
        return c.as<Options>().make(args...);
      } else {
        return kMake(c.as<Options>(), args...);
      }
    });
  }

  // Registers a component that make(options, args...) creates. Throws ValueError for a name or
  // options that no config could contain.
  template <class Options, class Make> void add(const std::string& name, Make maker) {
    Row row = row_of<Options>([maker](const Component& c, Args... args) -> Made {
      return maker(c.as<Options>(), args...);
    });
    check_options(name, row.component.schema());
    add_row(name, std::move(row));
  }

  // Creates the component. If a factory of the user's program returns null or throws an exception
  // that is not Taper's, throws RunError with kExitBug and the position of the component.
  Made make(const Component& c, Args... args) const try {
    Made made = std::any_cast<const Maker&>(row(c.type).make)(c, args...);
    if constexpr (requires { made == nullptr; }) {
      if (made == nullptr) refuse_nothing(c);
    }
    return made;
  } catch (const std::exception& error) {
    refuse(c, error);
    throw;
  }

 private:
  using Maker = std::function<Made(const Component&, Args...)>;

  Table(const char* what, Lists lists) : ComponentRegistry(what) {
    for (const std::span<const Entry> list : lists) {
      for (const Entry& entry : list) add_row(entry.name, entry.row());
    }
    built_in_ = rows().size();
  }

  template <class Options> static Row row_of(const Maker& maker) {
    const auto bind = [](std::any& o) { return schema_of(*std::any_cast<Options>(&o)); };
    return {.component = {.type = "", .options = Options{}, .bind = bind}, .make = maker};
  }
};

}  // namespace taper::v0::runner

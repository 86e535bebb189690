// Kinds of components as a config names them: layers, models, losses, optimizers, schedules. Each
// kind is one table, whose rows are a name and a struct of options that describes itself
// (framework/base/describe.h) and makes the thing:
//
//   struct Scale {
//     double by = 2;
//     template <class V> void describe(V& v) { v("by", by, kPositive, "the factor"); }
//     std::unique_ptr<Module> make(const LayerSite&) const { return ...; }
//   };
//   constexpr Layers::Entry kLayers[] = {{"scale", Layers::of<Scale>}, ...};
//
// Reading, checks, defaults, the written file, JSON Schema and the reference page follow from that.
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

// What a config says where one of a kind is asked for.
struct Component {
  std::string type;
  std::any options{};  // a struct that describes itself
  Schema (*bind)(std::any& options) = nullptr;
  Place place{};  // where it is written; what does not fit may show only when the thing is made

  template <class Options> const Options& as() const {
    return std::any_cast<const Options&>(options);
  }
  template <class Options> const Options* get_if() const {
    return std::any_cast<Options>(&options);
  }
  // Bound to this object.
  Schema schema() { return bind(options); }
};

// The rows of a table but for what they make.
class ComponentRegistry {
 public:
  struct Row {
    Component component{};  // with default options
    std::any make{};
  };

  const std::vector<Row>& rows() const { return rows_; }
  std::vector<std::string> names() const;
  // ValueError for a name that there is not.
  const Row& row(const std::string& name) const;
  Component component(const std::string& name) const { return row(name).component; }
  Component first() const { return rows_.at(0).component; }
  // Called in a catch block for an exception out of a component. Throws ForeignError, at the
  // component's place, for one that is no Error and came out of a component that the user's program
  // has added. `where` is appended to the message. Returns for other errors.
  void refuse(const Component& c, const std::exception& error, const std::string& where = "") const;
  // The same for a call of the component. Also an Error with which an op refuses its arguments
  // becomes ForeignError or, out of a component of Taper's own, ConfigError: its options do not
  // fit.
  void refuse_call(const Component& c, const std::exception& error,
                   const std::string& where = "") const;
  // Throws RunError for a component whose factory has returned null.
  [[noreturn]] void refuse_nothing(const Component& c) const;
  // Whether the user's program has added it.
  bool is_added(const std::string& name) const;

 protected:
  explicit ComponentRegistry(const char* what) : what_(what) {}
  // ValueError for a name that is taken, or that is not a plain word.
  void add_row(const std::string& name, Row row);
  // ValueError for a key that is there twice, or is `type`; or for a default that is not allowed.
  void check_options(const std::string& name, const Schema& options) const;

  std::size_t built_in_ = 0;

 private:
  const char* what_;  // "layer"
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

  // The one that there is of this type, so of a kind; made by the first call.
  static Table& registry(const char* what, Lists lists = {}) {
    static Table table(what, lists);
    return table;
  }

  // The row of options that have make(args...), or from which kMake makes the thing: by a function,
  // so that all of a table are one Maker to the compiler.
  template <class Options, auto kMake = nullptr> static Row of() {
    return row_of<Options>(+[](const Component& c, Args... args) -> Made {
      // GCC 13 does not take kMake == nullptr for a constant under the undefined behavior
      // sanitizer.
      if constexpr (std::is_null_pointer_v<decltype(kMake)>) {
        return c.as<Options>().make(args...);
      } else {
        return kMake(c.as<Options>(), args...);
      }
    });
  }

  // make(options, args...) gives the thing. ValueError: a name or options that no config can have.
  template <class Options, class Make> void add(const std::string& name, Make maker) {
    Row row = row_of<Options>([maker](const Component& c, Args... args) -> Made {
      return maker(c.as<Options>(), args...);
    });
    check_options(name, row.component.schema());
    add_row(name, std::move(row));
  }

  // Throws RunError with kExitBug, at the component's place, where a factory of the user's program
  // returns null or throws an exception that is not Taper's.
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

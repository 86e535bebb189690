// Kinds of components as a config names them: layers, models, losses, optimizers, schedules. Each
// kind is one table, whose rows are a name and a struct of options that describes itself
// (framework/describe.h) and makes the thing:
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
#include <vector>

#include "apps/runner/config/schema.h"

namespace taper::runner {

class Kind;

// A struct of any type that describes itself, as a value.
class Described {
 public:
  Described() = default;
  template <class Options> static Described of(Options options) {
    Described out;
    out.value_ = std::move(options);
    out.describe_ = [](std::any& value) { return schema_of(*std::any_cast<Options>(&value)); };
    return out;
  }

  template <class Options> const Options& as() const {
    return std::any_cast<const Options&>(value_);
  }
  template <class Options> const Options* get_if() const { return std::any_cast<Options>(&value_); }
  // Bound to this object.
  Schema schema() { return describe_ ? describe_(value_) : Schema(); }

 private:
  std::any value_;
  Schema (*describe_)(std::any&) = nullptr;
};

// What a config says where one of a kind is asked for.
struct Component {
  std::string type;
  Described options{};
  Place place{};  // where it is written; what does not fit may show only when the thing is made
};

// The rows of a table but for what they make.
class Kind {
 public:
  struct Row {
    std::string name;
    Described options{};  // with their defaults
    std::any make{};
  };

  const std::vector<Row>& rows() const { return rows_; }
  std::vector<std::string> names() const;
  // With default options. ValueError for a name that there is not.
  Component component(const std::string& name) const;
  Component first() const { return component(rows_.at(0).name); }
  // Whether the user's program has added it.
  bool is_added(const std::string& name) const;

 protected:
  explicit Kind(const char* what) : what_(what) {}
  const Row& row(const std::string& name) const;
  // ValueError for a name that is taken, or that is not a plain word.
  void add_row(Row row);

  std::size_t built_in_ = 0;

 private:
  const char* what_;  // "layer"
  std::vector<Row> rows_;
};

// Which of a kind: a map with the key `type`, or an entry of a list. `common` are further keys,
// which all have.
Union union_of(const Kind& kind, Component& chosen, const Schema& common = {});

template <class Signature> class Table;
template <class Made, class... Args> class Table<Made(Args...)> : public Kind {
 public:
  struct Entry {
    const char* name;
    Row (*row)();
  };

  Table(const char* what, std::initializer_list<std::span<const Entry>> lists) : Kind(what) {
    for (const std::span<const Entry> list : lists) {
      for (const Entry& entry : list) {
        Row row = entry.row();
        row.name = entry.name;
        add_row(std::move(row));
      }
    }
    built_in_ = rows().size();
  }

  // The row of options that have make(args...).
  template <class Options> static Row of() {
    return row_of<Options>([](const Options& o, Args... args) -> Made { return o.make(args...); });
  }

  // The same of options from which kMake makes the thing.
  template <class Options, auto kMake> static Row of() { return row_of<Options>(kMake); }

  // make(options, args...) gives the thing.
  template <class Options, class Make> void add(const std::string& name, Make maker) {
    Row row = row_of<Options>(std::move(maker));
    row.name = name;
    add_row(std::move(row));
  }

  Made make(const Component& c, Args... args) const {
    return std::any_cast<const Maker&>(row(c.type).make)(c.options, args...);
  }

 private:
  using Maker = std::function<Made(const Described&, Args...)>;

  template <class Options, class Make> static Row row_of(Make maker) {
    const auto typed = [maker](const Described& options, Args... args) -> Made {
      return maker(options.as<Options>(), args...);
    };
    return {.name = "", .options = Described::of(Options{}), .make = Maker(typed)};
  }
};

}  // namespace taper::runner

// A fixture for tests that write tables to files and read them.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "data/tables/raw_table.h"
#include "tests/data_files.h"

namespace taper::v0::data {

class TableFixture : public DataFiles {
 protected:
  std::filesystem::path write(const std::string& text, const std::string& name = "t.csv") const {
    return DataFiles::write(name, text);
  }
  RawTable read(const std::string& text, const TableReadOptions& options = {},
                const std::vector<std::string>& text_columns = {}) const {
    return read_table({write(text)}, options, text_columns);
  }
  // Returns the message of the error that reading throws, without the directory.
  template <class E = InputError>
  std::string error_of(const std::string& text, const std::string& name,
                       const TableReadOptions& options = {}) const {
    std::string out = refusal_of<E>([&] { (void)read_table({write(text, name)}, options); });
    const std::string start = directory_.string() + "/";
    for (size_t at; (at = out.find(start)) != std::string::npos;) out.erase(at, start.size());
    return out == "accepted" ? "no error" : out;
  }
  template <class E = InputError>
  std::string error_of(const std::string& text, const TableReadOptions& options = {}) const {
    return error_of<E>(text, "t.csv", options);
  }
};

}  // namespace taper::v0::data

// `taper report`.
#include "apps/runner/commands/commands.h"
#include "apps/runner/report/report.h"

namespace taper::v0::runner {

Command report_command() {
  struct Report {
    std::vector<std::string> runs;
    std::string page = "report.html";
    void describe(Schema& v) {
      v("runs", runs, "directories of runs, or folders of runs").required();
      v("-o,--to", page, "HTML file to write; default: report.html");
    }
    int operator()() const {
      write_report({runs.begin(), runs.end()}, page);
      return print(page + "\n");
    }
  };
  return command_of<Report>("report", "Write a report of runs as one HTML file",
                            "taper report runs/a runs/b --to report.html");
}

}  // namespace taper::v0::runner

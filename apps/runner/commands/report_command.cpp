// `taper report`.
#include "apps/runner/commands/commands.h"
#include "apps/runner/report/report.h"
#include "apps/runner/report/serve.h"
#include "apps/runner/run/log_sink.h"
#include "framework/base/log.h"

namespace taper::v0::runner {

Command report_command() {
  struct Report {
    std::vector<std::string> runs;
    std::string page = "report.html", address;
    bool is_served = false;
    void describe(Schema& v) {
      v("runs", runs, "directories of runs, or folders of runs").required();
      v("-o,--to", page, "HTML file to write; default: report.html");
      v("--serve", is_served,
        "serve the report to a browser on this machine, and refresh it while runs train");
      v("--address", address,
        "[HOST:]PORT at which to serve; default: a free port that only this machine can reach");
    }
    int operator()() const {
      const std::vector<fs::path> paths(runs.begin(), runs.end());
      require<ConfigError>(is_served || address.empty(), "--address is of use with --serve only");
      if (is_served) return serve(paths);
      with_status("reading the runs", [&] { write_report(paths, page); });
      return print(page + "\n");
    }
    int serve(const std::vector<fs::path>& paths) const {
      const ServeAddress at = serve_address(address);
      if (!at.is_loopback()) {
        warn("whoever can reach this machine at that address can read the report");
      }
      serve_report(paths, at, [](const std::string& url) {
        print(concat_to_string("the report is at ", url, "\nCtrl-C ends the server\n"));
      });
      return kExitOk;
    }
  };
  return command_of<Report>("report", "Write a report of runs as one HTML file, or serve it",
                            "taper report runs/a runs/b --to report.html\n"
                            "taper report runs --serve");
}

}  // namespace taper::v0::runner

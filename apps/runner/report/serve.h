// Serves the report to browsers while runs train.
#pragma once

#include <functional>
#include <map>
#include <mutex>
#include <string>
#include <vector>

#include "apps/runner/base/errors.h"
#include "apps/runner/report/http_plugin.h"
#include "apps/runner/report/progress.h"

namespace taper::v0::runner {

// Where to serve the report.
struct ServeAddress {
  std::string host = "127.0.0.1";
  int port = 0;  // 0: a free one

  // Returns whether only programs on this machine can reach the address.
  bool is_loopback() const;
  // Returns the URL of a page at that port.
  std::string url(int bound_port) const;
};
// Reads [HOST:]PORT, such as "8000", "0.0.0.0:8000" and "[::1]:8000". Without a host, the address
// is that of the loopback interface. Throws ConfigError.
ServeAddress serve_address(const std::string& text);

// The data of a report that change while runs train. Several threads may call it at a time. Files
// are read again at most once a second and for at most a tenth of the time, and only those of runs
// that have changed. A run that cannot be read is listed with the reason.
class LiveReport {
 public:
  explicit LiveReport(std::vector<fs::path> paths) : paths_(std::move(paths)) {}

  // Answers "/" with the page and "/data.json" with its data, and other paths with 404. Does not
  // throw.
  HttpAnswer answer(const HttpRequest& request);

 private:
  struct Known {
    std::string state, data;  // of the files, and of run_data()
  };
  void refresh();
  std::string data_of(const fs::path& dir, size_t points);

  const std::vector<fs::path> paths_;
  std::mutex mutex_;
  std::map<fs::path, Known> known_;
  std::string data_, tag_;
  size_t points_ = 0;
  Clock::time_point read_{};
  double reading_seconds_ = 0;  // of the last reading
};

// Serves the report of these runs, and of the runs below paths that are folders, until SIGINT or
// SIGTERM. Runs may appear and disappear. Calls `announce` with the URL before the first request is
// answered. Throws InputError for a path that does not exist, and ConfigError if the program has no
// HTTP server or the address cannot be used.
void serve_report(const std::vector<fs::path>& paths, const ServeAddress& address,
                  const std::function<void(const std::string& url)>& announce);

}  // namespace taper::v0::runner

#include "apps/runner/report/serve.h"

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <string_view>
#include <system_error>
#include <thread>

#include <dlfcn.h>
#include <netdb.h>
#include <sys/stat.h>

#include "apps/runner/base/files.h"
#include "apps/runner/base/string_utils.h"
#include "apps/runner/report/report.h"
#include "apps/runner/report/run_data.h"
#include "apps/runner/run/run_directory.h"
#include "apps/runner/run/signals.h"
#include "framework/base/log.h"

namespace taper::v0::runner {
namespace {

// --- the plugin ---

// Returns the paths where the plugin may be: the path in the environment, and the folder of the
// program and the library folders beside it.
std::vector<fs::path> places_of_plugin() {
  if (const char* named = std::getenv("TAPER_HTTP_PLUGIN")) return {named};
  std::error_code ignored;
  const fs::path program = fs::read_symlink("/proc/self/exe", ignored).parent_path();
  std::vector<fs::path> out;
  for (const char* folder : {".", "..", "../lib", "../" TAPER_LIBDIR}) {
    out.push_back((program / folder / "taper_http.so").lexically_normal());
  }
  return out;
}

// Returns what to do about a plugin that is in none of these places.
std::string advice_for_missing_plugin(const std::vector<fs::path>& places) {
#ifdef TAPER_WITH_HTTP
  constexpr const char* kAdvice = "`ninja taper_http` in the build folder builds it";
#else
  constexpr const char* kAdvice =
      "this program was built without cpp-httplib, so install libcpp-httplib-dev (Debian) and "
      "build again";
#endif
  return concat_to_string("--serve needs the plugin taper_http.so, and there is none at ",
                          places.front().string(), ": ", kAdvice,
                          ", or write the report to a file without --serve");
}

const HttpPlugin& http_plugin() {
  const std::vector<fs::path> places = places_of_plugin();
  const auto found = std::ranges::find_if(places, [](const fs::path& p) { return fs::exists(p); });
  if (found == places.end()) throw ConfigError(advice_for_missing_plugin(places));
  void* library = ::dlopen(found->c_str(), RTLD_NOW | RTLD_LOCAL);
  require<ConfigError>(library != nullptr, "cannot load ", found->string(), ": ",
                       library ? "" : ::dlerror(),
                       "; --serve needs libcpp-httplib (Debian: libcpp-httplib0.11)");
  const auto get = reinterpret_cast<const HttpPlugin* (*)()>(::dlsym(library, HttpPlugin::kSymbol));
  require<ConfigError>(get != nullptr && get()->version == HttpPlugin::kVersion, found->string(),
                       " is of another version of Taper: build it again");
  return *get();
}

// --- addresses ---

// Returns whether the host is "localhost" or an address of the loopback interface.
bool is_loopback_name(std::string_view host) {
  const bool is_number = host.find_first_not_of("0123456789.") == std::string_view::npos;
  return host == "localhost" || host == "::1" || (is_number && host.starts_with("127."));
}

// Returns "HOST" of "HOST:PORT" or "[HOST]:PORT".
std::string_view host_of(std::string_view header) {
  if (header.starts_with('[')) return header.substr(1, header.find(']') - 1);
  return header.substr(0, header.find(':'));
}

// --- the state of runs ---

// Returns a text that changes when a file of the run does that the report shows.
std::string state_of_files(const fs::path& dir) {
  std::string out = is_locked(dir) ? "locked" : "free";
  for (const char* name : {"metrics.jsonl", "timing.jsonl", "exit.json", "evaluation.json",
                           "config.yaml", "data.json", "env.json", "lr_find.json", "samples.txt"}) {
    struct stat about {};
    if (::stat((dir / name).c_str(), &about) != 0) continue;
    out += concat_to_string(" ", name, " ", about.st_ino, " ", about.st_size, " ",
                            about.st_mtim.tv_sec, ".", about.st_mtim.tv_nsec);
  }
  return out;
}

}  // namespace

bool ServeAddress::is_loopback() const { return is_loopback_name(host); }

std::string ServeAddress::url(int bound_port) const {
  const bool is_ipv6 = host.find(':') != std::string::npos;
  return concat_to_string("http://", is_ipv6 ? "[" : "", host, is_ipv6 ? "]" : "", ":", bound_port,
                          "/");
}

ServeAddress serve_address(const std::string& text) {
  ServeAddress out;
  if (text.empty()) return out;
  const size_t colon = text.rfind(':');
  const std::string port = colon == std::string::npos ? text : text.substr(colon + 1);
  int64_t number = 0;
  const bool has_port = parse_number(port, number) == std::errc() && number >= 0 && number < 65536;
  const std::string host = colon == std::string::npos ? "" : text.substr(0, colon);
  const bool is_bracketed = host.size() > 2 && host.starts_with('[') && host.ends_with(']');
  const bool has_host = is_bracketed || host.find_first_of("[]: /") == std::string::npos;
  require<ConfigError>(has_port && has_host, "--address '", text,
                       "': expected [HOST:]PORT, such as 8000, 0.0.0.0:8000 or [::1]:8000");
  out.port = int(number);
  if (!host.empty()) out.host = is_bracketed ? host.substr(1, host.size() - 2) : host;
  return out;
}

// --- the report ---

std::string LiveReport::data_of(const fs::path& dir, size_t points) try {
  const std::string state = state_of_files(dir);
  const auto found = known_.find(dir);
  if (found != known_.end() && found->second.state == state) return found->second.data;
  std::string data = run_data(dir, points);
  known_[dir] = {state, data};
  return data;
} catch (const std::exception& error) {
  known_.erase(dir);  // it is tried again
  return unreadable_run_data(dir, error.what());
}

void LiveReport::refresh() {
  constexpr double kPause = 1,
                   kShare = 0.1;  // seconds; the share of the time that reading may take
  if (!data_.empty() && seconds_since(read_) < std::max(kPause, reading_seconds_ / kShare)) return;
  const Clock::time_point start = Clock::now();
  std::vector<fs::path> dirs = runs_among(paths_);
  // A folder without runs, whose first run has not begun yet, is none itself.
  std::erase_if(dirs, [](const fs::path& dir) { return !fs::exists(dir / "metrics.jsonl"); });
  if (points_of_curves(dirs.size()) != points_) known_.clear();
  points_ = points_of_curves(dirs.size());
  std::erase_if(known_, [&](const auto& one) { return std::ranges::count(dirs, one.first) == 0; });
  std::vector<std::string> runs;
  for (const fs::path& dir : dirs) runs.push_back(data_of(dir, points_));
  data_ = report_data(runs, true);
  tag_ = concat_to_string('"', std::hash<std::string>()(data_), '"');
  read_ = Clock::now();
  reading_seconds_ = seconds_since(start);
}

HttpAnswer LiveReport::answer(const HttpRequest& request) try {
  const bool is_page = request.path == "/";
  if (!is_page && request.path != "/data.json") return {404, "text/plain", "not found\n"};
  std::string data, tag;
  {
    const std::lock_guard lock(mutex_);
    refresh();
    tag = tag_;
    if (is_page || request.known_tag != tag) data = data_;
  }
  if (is_page) return {200, "text/html; charset=utf-8", report_page(data)};
  if (data.empty()) return {304, "", "", tag};
  return {200, "application/json", std::move(data), tag};
} catch (const std::exception& error) {
  return {500, "text/plain", concat_to_string(error.what(), "\n")};
}

// Returns why the system does not know the host; "" if it knows it.
static std::string why_unknown(const std::string& host) {
  addrinfo* found = nullptr;
  const int error = ::getaddrinfo(host.c_str(), nullptr, nullptr, &found);
  if (error != 0) return concat_to_string("host '", host, "': ", ::gai_strerror(error));
  ::freeaddrinfo(found);
  return "";
}

void serve_report(const std::vector<fs::path>& paths, const ServeAddress& address,
                  const std::function<void(const std::string& url)>& announce) {
  for (const fs::path& path : paths) {
    require<InputError>(fs::is_directory(path), "there is no folder '", path.string(), "'");
  }
  const std::unique_ptr<HttpServer> server(http_plugin().create());
  const int port = server->bind(address.host, address.port);
  if (port <= 0) {
    const std::string reason = std::strerror(errno), unknown = why_unknown(address.host);
    throw ConfigError(concat_to_string("cannot listen at ", address.url(address.port), ": ",
                                       unknown.empty() ? reason : unknown,
                                       "; choose another address with --address [HOST:]PORT"));
  }
  SignalGuard signals;
  SignalGuard::set_plan("ending the server");
  LiveReport report(paths);
  // A page of another site must not read the report by a name that it resolves to this machine.
  const auto answer = [&](const HttpRequest& request) -> HttpAnswer {
    if (address.is_loopback() && !is_loopback_name(host_of(request.host))) {
      return {403, "text/plain", "the report is served to this machine only\n"};
    }
    return report.answer(request);
  };
  announce(address.url(port));
  std::atomic<bool> has_ended = false;
  const std::jthread thread([&] {
    server->run(answer);
    has_ended = true;
  });
  constexpr std::chrono::milliseconds kPoll(50);
  // The server ignores stop() before it listens, so that this is repeated.
  while (!has_ended) {
    if (!SignalGuard::received().empty()) server->stop();
    std::this_thread::sleep_for(kPoll);
  }
}

}  // namespace taper::v0::runner

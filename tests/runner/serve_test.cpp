// `taper report --serve`: what it answers, and how it begins and ends.
#include "apps/runner/report/serve.h"

#include <atomic>
#include <csignal>
#include <filesystem>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <nlohmann/json.hpp>
#include <sys/socket.h>

#include "apps/runner/base/errors.h"
#include "apps/runner/base/files.h"
#include "apps/runner/commands/commands.h"
#include "tests/runner/browser.h"
#include "tests/runner/run_process.h"
#include "tests/testing.h"
#include "tests/text.h"

namespace taper::v0::runner {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::json;

TEST(ServeAddress, IsOfThisMachineUnlessAHostIsNamed) {
  struct Row {
    const char *text, *host;
    int port;
    bool is_loopback;
    const char* url;
  };
  const Row rows[] = {
      {"", "127.0.0.1", 0, true, "http://127.0.0.1:5/"},
      {"8000", "127.0.0.1", 8000, true, "http://127.0.0.1:5/"},
      {":8000", "127.0.0.1", 8000, true, "http://127.0.0.1:5/"},
      {"localhost:0", "localhost", 0, true, "http://localhost:5/"},
      {"127.0.0.2:65535", "127.0.0.2", 65535, true, "http://127.0.0.2:5/"},
      {"[::1]:8000", "::1", 8000, true, "http://[::1]:5/"},
      {"0.0.0.0:8000", "0.0.0.0", 8000, false, "http://0.0.0.0:5/"},
      {"[::]:8000", "::", 8000, false, "http://[::]:5/"},
      {"127.evil.org:80", "127.evil.org", 80, false, "http://127.evil.org:5/"},
      {"gpu7:8000", "gpu7", 8000, false, "http://gpu7:5/"},
  };
  for (const Row& row : rows) {
    SCOPED_TRACE(row.text);
    const ServeAddress address = serve_address(row.text);
    EXPECT_EQ(address.host, row.host);
    EXPECT_EQ(address.port, row.port);
    EXPECT_EQ(address.is_loopback(), row.is_loopback);
    EXPECT_EQ(address.url(5), row.url);
  }
  for (const char* wrong : {"x", "-1", "65536", "8000x", "host", "host:", "a b:80", "::1", "::1:80",
                            "[::1:80", "http://x:80", "1e3", "0x50", "[]:80"}) {
    EXPECT_TRUE(test::refuses<ConfigError>(
        [&] { (void)serve_address(wrong); },
        concat_to_string("--address '", wrong, "': expected [HOST:]PORT")));
  }
}

// A folder to which runs are written by hand.
class LiveRuns : public ::testing::Test {
 protected:
  void write_run(const std::string& name, int steps) const {
    fs::create_directories(at_ / ("runs/" + name));
    std::string lines;
    for (int i = 1; i <= steps; ++i) {
      lines += concat_to_string(R"({"kind":"train","step":)", i, R"(,"loss":)", 1. / i, "}\n");
    }
    write_bytes(at_ / ("runs/" + name + "/metrics.jsonl"), lines);
  }
  // Waits until the next request reads the files again.
  static void pause() { std::this_thread::sleep_for(std::chrono::milliseconds(1100)); }

  RunDirectory at_;
};

TEST_F(LiveRuns, AppearChangeAndDisappear) {
  fs::create_directories(at_ / "runs");
  LiveReport report({at_ / "runs"});
  const auto names = [&] {
    std::vector<std::string> out;
    const Json data = Json::parse(report.answer({"/data.json", "", ""}).body);
    for (const Json& run : data["runs"]) {
      out.push_back(concat_to_string(
          fs::path(run["name"].get<std::string>()).filename().string(), ":",
          run.contains("step") ? run["step"].dump() : run["state"].get<std::string>()));
    }
    return out;
  };
  using Names = std::vector<std::string>;
  EXPECT_EQ(names(), Names());
  write_run("a", 3);
  EXPECT_EQ(names(), Names()) << "files are read once a second";
  pause();
  EXPECT_EQ(names(), Names({"a:3"}));
  write_run("a", 5);
  write_run("b", 1);
  write_bytes(at_ / "runs/b/metrics.jsonl", "{\"step\":1\n");
  pause();
  EXPECT_EQ(names(), Names({"a:5", "b:unreadable"}));
  write_run("b", 2);
  fs::remove_all(at_ / "runs/a");
  pause();
  EXPECT_EQ(names(), Names({"b:2"}));
}

TEST_F(LiveRuns, AnswersNothingElse) {
  write_run("a", 3);
  LiveReport report({at_ / "runs"});
  const HttpAnswer page = report.answer({"/", "", ""}),
                   data = report.answer({"/data.json", "", ""});
  EXPECT_EQ(page.status, 200);
  EXPECT_TRUE(page.body.starts_with("<!DOCTYPE html>") && contains(page.type, "text/html"));
  EXPECT_TRUE(contains(page.body, "\"is_live\":true"));
  EXPECT_EQ(data.status, 200);
  EXPECT_EQ(report.answer({"/data.json", "", data.tag}).status, 304);
  EXPECT_EQ(report.answer({"/data.json", "", "\"1\""}).status, 200);
  for (const char* path : {"", "//", "/x", "/data.json/", "/runs/a/metrics.jsonl", "/etc/passwd",
                           "/../etc/passwd", "/%2e%2e/etc/passwd", "/report.html"}) {
    EXPECT_EQ(report.answer({path, "", ""}).status, 404) << path;
  }
}

// --- the program ---

class Serve : public LiveRuns {
 protected:
  // Starts the server and waits until it has printed its URL. Returns its port.
  int start(const std::vector<std::string>& more = {}) {
    std::vector<std::string> words = {"report", "runs", "--serve"};
    words.insert(words.end(), more.begin(), more.end());
    write_bytes(at_ / "stdout", "");
    child_ = at_.start(words);
    for (int i = 0; i < 200; ++i) {
      const std::string out = read_bytes(at_ / "stdout");
      if (contains(out, "Ctrl-C")) return std::stoi(out.substr(out.rfind(':') + 1));
      std::this_thread::sleep_for(std::chrono::milliseconds(25));
    }
    ADD_FAILURE() << read_bytes(at_ / "stderr");
    return -1;
  }
  RunDirectory::Outcome stop(int signal = SIGINT) {
    ::kill(child_, signal);
    return at_.wait(std::exchange(child_, -1));
  }
  void TearDown() override {
    if (child_ > 0) ::kill(child_, SIGKILL);
  }
  // Sends a request and returns all of the answer.
  static std::string ask(int port, const std::string& request) {
    const Descriptor socket(::socket(AF_INET, SOCK_STREAM, 0));
    sockaddr_in to{};
    to.sin_family = AF_INET;
    to.sin_port = htons(uint16_t(port));
    to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    if (::connect(socket, reinterpret_cast<const sockaddr*>(&to), sizeof to) != 0) return "";
    (void)!::write(socket, request.data(), request.size());
    std::string out;
    char bytes[4096];
    for (ssize_t n = 0; (n = ::read(socket, bytes, sizeof bytes)) > 0;)
      out.append(bytes, size_t(n));
    return out;
  }
  static std::string get(int port, const std::string& path, const std::string& more = "") {
    return ask(port, "GET " + path + " HTTP/1.1\r\nHost: localhost\r\n" + more + "\r\n");
  }

  pid_t child_ = -1;
};

bool has_server() {
  return fs::exists(fs::path(TAPER_PROGRAM).parent_path().parent_path() / "taper_http.so");
}
#define REQUIRE_SERVER() \
  if (!has_server()) GTEST_SKIP() << "this build has no cpp-httplib (libcpp-httplib-dev)"

TEST_F(Serve, AnswersBrowsersUntilASignal) {
  REQUIRE_SERVER();
  write_run("a", 3);
  const int port = start();
  EXPECT_TRUE(contains(get(port, "/"), "HTTP/1.1 200 OK"));
  const std::string data = get(port, "/data.json");
  EXPECT_TRUE(contains(data, "\"step\":3")) << data;
  const std::string tag = data.substr(
      data.find("ETag: ") + 6, data.find("\r\n", data.find("ETag")) - data.find("ETag: ") - 6);
  const std::string known = get(port, "/data.json", "If-None-Match: " + tag + "\r\n");
  EXPECT_TRUE(contains(known, "HTTP/1.1 304") && !contains(known, "step")) << known;
  for (const char* path :
       {"/etc/passwd", "/../../etc/passwd", "/%2e%2e/%2e%2e/etc/passwd", "/runs/a/metrics.jsonl"}) {
    EXPECT_TRUE(contains(get(port, path), "HTTP/1.1 404")) << path;
  }
  const std::string head = ask(port, "HEAD / HTTP/1.1\r\nHost: localhost\r\n\r\n");
  EXPECT_TRUE(contains(head, "HTTP/1.1 200") && contains(head, "Content-Length: ") &&
              !contains(head, "<html"))
      << head;
  EXPECT_TRUE(contains(ask(port, "HEAD /x HTTP/1.1\r\nHost: localhost\r\n\r\n"), "HTTP/1.1 404"));
  EXPECT_TRUE(contains(ask(port, "POST / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 0\r\n\r\n"),
                       "HTTP/1.1 405"));
  EXPECT_TRUE(
      contains(ask(port, "GET / HTTP/1.1\r\nHost: evil.example:80\r\n\r\n"), "HTTP/1.1 403"))
      << "a page of another site must not read the report";
  EXPECT_TRUE(contains(ask(port, "nonsense\r\n\r\n"), "HTTP/1.1 400"));
  const RunDirectory::Outcome end = stop();
  EXPECT_EQ(end.code, 0) << end.err;
  EXPECT_EQ(get(port, "/"), "") << "nothing listens any more";
}

TEST_F(Serve, ManyClientsAndSlowOnesAreAnswered) {
  REQUIRE_SERVER();
  write_run("a", 200);
  const int port = start();
  std::vector<std::jthread> clients;
  std::atomic<int> answers = 0;
  for (int i = 0; i < 16; ++i) {
    clients.emplace_back([&] {
      for (int k = 0; k < 5; ++k) answers += contains(get(port, "/data.json"), "\"step\":200");
    });
  }
  clients.clear();
  EXPECT_EQ(answers, 80);
  EXPECT_EQ(stop(SIGTERM).code, 0);
}

TEST_F(Serve, RefusesWhatItCannotServe) {
  fs::create_directories(at_ / "runs");
  struct Row {
    std::vector<std::string> words;
    const char* says;
    int code;
  };
  std::vector<Row> rows = {
      {{"report", "missing", "--serve"}, "there is no folder 'missing'", kExitInput},
      {{"report", "runs", "--serve", "--address", "nonsense"}, "[HOST:]PORT", kExitConfig},
      {{"report", "runs", "--address", "8000"}, "--serve", kExitConfig},
  };
  if (has_server()) {
    rows.push_back({{"report", "runs", "--serve", "--address", "no..host:8000"},
                    "host 'no..host': Name or service not known; choose another address",
                    kExitConfig});
  }
  for (const Row& row : rows) {
    const RunDirectory::Outcome end = at_.taper(row.words);
    EXPECT_EQ(end.code, row.code) << row.says;
    EXPECT_TRUE(contains(end.err, row.says)) << end.err;
  }
  const RunDirectory::Outcome end =
      at_.taper({"report", "runs", "--serve"}, "export TAPER_HTTP_PLUGIN=/nowhere;");
  EXPECT_EQ(end.code, kExitConfig);
  EXPECT_TRUE(contains(end.err, "there is none at /nowhere")) << end.err;
  EXPECT_TRUE(contains(end.err, has_server() ? "`ninja taper_http`" : "libcpp-httplib-dev"))
      << end.err;
}

TEST_F(Serve, APortThatIsInUseIsNamed) {
  REQUIRE_SERVER();
  fs::create_directories(at_ / "runs");
  const int port = start();
  const RunDirectory second;
  fs::create_directories(second / "runs");
  const RunDirectory::Outcome end =
      second.taper({"report", "runs", "--serve", "--address", concat_to_string(port)});
  EXPECT_EQ(end.code, kExitConfig);
  EXPECT_TRUE(contains(end.err, concat_to_string("cannot listen at http://127.0.0.1:", port)) &&
              contains(end.err, "in use"))
      << end.err;
  EXPECT_EQ(stop().code, 0);
}

TEST_F(Serve, ABrowserFollowsARunAndStaysWhereItIs) {
  REQUIRE_SERVER();
  if (Browser::program().empty()) {
    GTEST_SKIP() << "there is no Chromium: scripts/install.sh browser";
  }
  for (const char* name : {"a", "b", "c"}) write_run(name, 3);
  const int port = start();
  Browser browser(at_ / "profile");
  browser.open(concat_to_string("http://127.0.0.1:", port, "/"), 600, 500);
  browser.evaluate("document.querySelector('#runs tbody input').click(); window.scrollTo(0, 300)");
  const Json selected = browser.evaluate("[...state.selected].join()");
  EXPECT_EQ(browser.evaluate("state.selected.size"), 2);
  write_run("b", 9);
  EXPECT_TRUE(browser.becomes_true("state.runs[1].step === 9"));
  EXPECT_EQ(browser.evaluate("[...state.selected].join()"), selected);
  EXPECT_EQ(browser.evaluate("window.scrollY"), 300);
  fs::remove_all(at_ / "runs/c");
  write_run("d", 4);
  EXPECT_TRUE(browser.becomes_true("state.runs.map(run => run.label).join() === 'a,b,d'"));
  EXPECT_EQ(stop().code, 0);
  EXPECT_TRUE(browser.becomes_true("document.getElementById('live').className === 'is-lost'"));
  EXPECT_EQ(browser.exceptions(), std::vector<std::string>());
}

}  // namespace
}  // namespace taper::v0::runner

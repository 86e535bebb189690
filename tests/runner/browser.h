// A real browser, which tests control through Chrome's DevTools protocol over pipes
// (https://chromedevtools.github.io/devtools-protocol/).
#pragma once

#include <array>
#include <chrono>
#include <csignal>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <stdexcept>
#include <string>
#include <vector>

#include <fcntl.h>
#include <nlohmann/json.hpp>
#include <poll.h>
#include <sys/wait.h>
#include <unistd.h>

namespace taper::v0::runner {

class Browser {
 public:
  using Json = nlohmann::json;

  // Returns the path of an installed browser, or "" if there is none.
  static std::string program() {
    const char* path = std::getenv("PATH");
    for (const char* name : {"chromium", "chromium-browser", "google-chrome"}) {
      std::string rest = path ? path : "";
      while (!rest.empty()) {
        const size_t end = std::min(rest.find(':'), rest.size());
        const std::string file = rest.substr(0, end) + "/" + name;
        if (::access(file.c_str(), X_OK) == 0) return file;
        rest = rest.substr(std::min(end + 1, rest.size()));
      }
    }
    return "";
  }

  // Starts the browser, which keeps its files in `profile`.
  explicit Browser(const std::filesystem::path& profile) {
    int to[2], from[2];
    if (::pipe(to) != 0 || ::pipe(from) != 0) throw std::runtime_error("no pipe");
    child_ = ::fork();
    if (child_ == 0) become_browser(to[0], from[1], profile);
    ::close(to[0]);
    ::close(from[1]);
    to_ = to[1];
    from_ = from[0];
    const Json target = call("Target.createTarget", {{"url", "about:blank"}});
    const Json attached =
        call("Target.attachToTarget", {{"targetId", target["targetId"]}, {"flatten", true}});
    session_ = attached["sessionId"];
    for (const char* domain : {"Page.enable", "Runtime.enable"}) call(domain, Json::object());
  }
  ~Browser() {
    ::kill(-child_, SIGKILL);
    ::waitpid(child_, nullptr, 0);
    ::close(to_);
    ::close(from_);
  }
  Browser& operator=(Browser&&) = delete;

  // Opens a page in a window of that size and waits until it is loaded. scheme: "light" or "dark".
  void open(const std::string& url, int width, int height, const std::string& scheme = "light") {
    call("Emulation.setDeviceMetricsOverride",
         {{"width", width}, {"height", height}, {"deviceScaleFactor", 1}, {"mobile", width < 600}});
    const Json feature = {{"name", "prefers-color-scheme"}, {"value", scheme}};
    call("Emulation.setEmulatedMedia", {{"features", Json::array({feature})}});
    is_loaded_ = false;
    call("Page.navigate", {{"url", url}});
    while (!is_loaded_) take(receive());
  }

  // Returns the value of a JavaScript expression.
  Json evaluate(const std::string& expression) {
    const Json out =
        call("Runtime.evaluate",
             {{"expression", expression}, {"returnByValue", true}, {"awaitPromise", true}});
    if (out.contains("exceptionDetails")) throw std::runtime_error(out.dump());
    return out["result"].value("value", Json());
  }
  // Waits up to ten seconds until the expression is true.
  bool becomes_true(const std::string& expression) {
    const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(10);
    while (std::chrono::steady_clock::now() < end) {
      if (evaluate(expression) == true) return true;
      ::usleep(50'000);
    }
    return false;
  }

  // Moves the pointer to a place in the element, from (0, 0) at its top left to (1, 1).
  void point_at(const std::string& selector, double across, double down) {
    const Json box = evaluate("(() => { const e = document.querySelector('" + selector +
                              "'); e.scrollIntoView({block: 'center'});"
                              " const b = e.getBoundingClientRect();"
                              " return [b.left, b.top, b.width, b.height]; })()");
    call("Input.dispatchMouseEvent", {{"type", "mouseMoved"},
                                      {"x", box[0].get<double>() + across * box[2].get<double>()},
                                      {"y", box[1].get<double>() + down * box[3].get<double>()}});
  }

  // Returns a picture of the window as PNG.
  std::string screenshot() {
    return from_base64(call("Page.captureScreenshot", {{"format", "png"}})["data"]);
  }

  // The exceptions of scripts since the start.
  const std::vector<std::string>& exceptions() const { return exceptions_; }

 private:
  [[noreturn]] static void become_browser(int in, int out, const std::filesystem::path& profile) {
    ::setpgid(0, 0);  // the browser starts processes of its own
    // The browser reads commands from 3 and writes answers to 4.
    const int read = ::fcntl(in, F_DUPFD, 10), write = ::fcntl(out, F_DUPFD, 10);
    ::dup2(read, 3);
    ::dup2(write, 4);
    const int nothing = ::open("/dev/null", O_RDWR);
    for (const int fd : {0, 1, 2}) ::dup2(nothing, fd);
    for (int fd = 5; fd < 64; ++fd) ::close(fd);
    const std::string file = program(), folder = "--user-data-dir=" + profile.string();
    ::execl(file.c_str(), file.c_str(), "--headless=new", "--no-sandbox", "--disable-gpu",
            "--hide-scrollbars", "--no-first-run", "--disable-extensions",
            "--disable-background-networking", "--remote-debugging-pipe", folder.c_str(),
            "about:blank", nullptr);
    ::_exit(127);
  }

  Json call(const std::string& method, const Json& params) {
    Json message = {{"id", ++last_id_}, {"method", method}, {"params", params}};
    if (!session_.empty()) message["sessionId"] = session_;
    const std::string text = message.dump();
    for (size_t sent = 0; sent <= text.size();) {  // with the zero byte at the end
      const ssize_t n = ::write(to_, text.c_str() + sent, text.size() + 1 - sent);
      if (n <= 0) throw std::runtime_error("the browser has ended");
      sent += size_t(n);
    }
    for (;;) {
      const Json answer = receive();
      if (answer.value("id", 0) != last_id_) {
        take(answer);
        continue;
      }
      if (answer.contains("error")) throw std::runtime_error(method + ": " + answer.dump());
      return answer["result"];
    }
  }

  void take(const Json& event) {
    const std::string method = event.value("method", "");
    if (method == "Page.loadEventFired") is_loaded_ = true;
    if (method == "Runtime.exceptionThrown") exceptions_.push_back(event["params"].dump());
  }

  // Returns the next message, for which it waits up to a minute.
  Json receive() {
    size_t end = 0;
    while ((end = buffer_.find('\0')) == std::string::npos) {
      constexpr int kMinute = 60'000;
      pollfd ready{from_, POLLIN, 0};
      std::array<char, 1 << 16> bytes;
      const ssize_t n =
          ::poll(&ready, 1, kMinute) > 0 ? ::read(from_, bytes.data(), bytes.size()) : -1;
      if (n <= 0) throw std::runtime_error("the browser does not answer");
      buffer_.append(bytes.data(), size_t(n));
    }
    Json message = Json::parse(buffer_.substr(0, end));
    buffer_.erase(0, end + 1);
    return message;
  }

  static std::string from_base64(const std::string& text) {
    const std::string letters = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    std::string out;
    uint32_t bits = 0;
    int count = 0;
    for (const char c : text) {
      if (c == '=') break;
      bits = bits << 6 | uint32_t(letters.find(c));
      count += 6;
      if (count < 8) continue;
      count -= 8;
      out += char(bits >> count & 255);
    }
    return out;
  }

  pid_t child_ = -1;
  int to_ = -1, from_ = -1, last_id_ = 0;
  bool is_loaded_ = false;
  std::string session_, buffer_;
  std::vector<std::string> exceptions_;
};

}  // namespace taper::v0::runner

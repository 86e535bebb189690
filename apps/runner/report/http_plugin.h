// The interface of taper_http.so, the only part that is compiled against cpp-httplib, so that the
// program needs neither that library nor OpenSSL until a report is served. It needs no symbol of
// Taper's library.
#pragma once

#include <functional>
#include <string>

#include "framework/base/namespace.h"

namespace taper::v0::runner {

struct HttpRequest {
  std::string path;       // without the query
  std::string host;       // the header Host, with its port
  std::string known_tag;  // the header If-None-Match
};

struct HttpAnswer {
  int status = 200;
  std::string type, body;
  std::string tag{};  // the header ETag; empty: none
};

// A server for GET and HEAD. Requests with other methods, and with a body, are refused.
class HttpServer {
 public:
  virtual ~HttpServer() = default;
  // Binds the server to an address. port 0 chooses a free one. Returns the port, or -1 with errno
  // set.
  virtual int bind(const std::string& host, int port) = 0;
  // Answers requests by `answer`, which several threads call at a time and which does not throw,
  // until stop() is called.
  virtual void run(const std::function<HttpAnswer(const HttpRequest&)>& answer) = 0;
  virtual void stop() = 0;
};

struct HttpPlugin {
  static constexpr int kVersion = 1;
  static constexpr const char* kSymbol = "taper_http_plugin";

  int version;
  HttpServer* (*create)();  // the caller deletes the server
};

}  // namespace taper::v0::runner

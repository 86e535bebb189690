// taper_http.so: wraps cpp-httplib's server (https://github.com/yhirose/cpp-httplib).
#include "apps/runner/report/http_plugin.h"

#include <httplib.h>
#include <sys/socket.h>

namespace taper::v0::runner {
namespace {

// Threads answer clients. A client closes its connection after each answer, so that clients that
// wait do not hold threads.
constexpr size_t kThreads = 4, kMaxBody = 1024;
constexpr time_t kSeconds = 5;

void fill(const HttpAnswer& answer, httplib::Response& response) {
  response.status = answer.status;
  if (!answer.tag.empty()) response.set_header("ETag", answer.tag);
  if (answer.status != 304) response.set_content(answer.body, answer.type);
}

class HttplibServer final : public HttpServer {
 public:
  HttplibServer() {
    // By default, the library lets several processes listen at one port.
    server_.set_socket_options([](socket_t socket) {
      const int yes = 1;
      (void)::setsockopt(socket, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes);
    });
    server_.new_task_queue = [] { return new httplib::ThreadPool(kThreads); };
    server_.set_keep_alive_max_count(1);
    server_.set_read_timeout(kSeconds).set_write_timeout(kSeconds);
    server_.set_payload_max_length(kMaxBody);
    server_.set_default_headers({{"Cache-Control", "no-store"},
                                 {"X-Content-Type-Options", "nosniff"},
                                 {"X-Frame-Options", "DENY"},
                                 {"Referrer-Policy", "no-referrer"}});
  }

  int bind(const std::string& host, int port) override {
    if (port == 0) return server_.bind_to_any_port(host);
    return server_.bind_to_port(host, port) ? port : -1;
  }

  void run(const std::function<HttpAnswer(const HttpRequest&)>& answer) override {
    server_.set_pre_routing_handler(
        [&](const httplib::Request& request, httplib::Response& response) {
          const bool is_read = request.method == "GET" || request.method == "HEAD";
          fill(is_read ? answer({request.path, request.get_header_value("Host"),
                                 request.get_header_value("If-None-Match")})
                       : HttpAnswer{405, "text/plain", "only GET and HEAD are answered\n"},
               response);
          if (!is_read) response.set_header("Allow", "GET, HEAD");
          return httplib::Server::HandlerResponse::Handled;
        });
    server_.listen_after_bind();
  }

  void stop() override { server_.stop(); }

 private:
  httplib::Server server_;
};

}  // namespace
}  // namespace taper::v0::runner

extern "C" const taper::runner::HttpPlugin* taper_http_plugin() {
  using namespace taper::runner;
  static constexpr HttpPlugin plugin{HttpPlugin::kVersion,
                                     []() -> HttpServer* { return new HttplibServer(); }};
  return &plugin;
}

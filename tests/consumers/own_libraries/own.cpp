// Another yaml-cpp and another CLI11, as the linker sees them: the same names with other
// definitions.
#include <cstdlib>
#include <istream>
#include <string>

namespace YAML {
class EventHandler;
class Parser {
 public:
  explicit Parser(std::istream&);
  ~Parser();
  bool HandleNextDocument(EventHandler&);
};
Parser::Parser(std::istream&) { std::abort(); }
Parser::~Parser() { std::abort(); }
bool Parser::HandleNextDocument(EventHandler&) { std::abort(); }
std::string Load(const std::string& text) { return "own " + text; }
}  // namespace YAML

namespace CLI {
class App {
 public:
  explicit App(std::string description = "", std::string name = "");
  virtual ~App();
  virtual App* add_subcommand(std::string name, std::string description);
};
App::App(std::string, std::string) { std::abort(); }
App::~App() { std::abort(); }
App* App::add_subcommand(std::string, std::string) { std::abort(); }
}  // namespace CLI

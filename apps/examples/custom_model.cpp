// The program `taper` with a model of one's own, which configs name:
//
//   model: {type: custom, name: mixer, options: {width: 64, activation: tanh}}
#include "apps/runner/program.h"
#include "apps/runner/train/model.h"
#include "taper.h"

using namespace taper;

// Two linear layers with a shortcut over both.
struct Mixer : Module {
  Mixer(int64_t in, int64_t width, int64_t out, bool smooth, Device device)
      : is_smooth(smooth),
        first(*this, "first", in, width, LinearOptions{.device = device}),
        second(*this, "second", width, width, LinearOptions{.device = device}),
        head(*this, "head", width, out, LinearOptions{.device = device}) {}

  Tensor forward(const Tensor& x) override {
    const Tensor y = first(x.flatten(1));
    return head(y + second(is_smooth ? tanh(y) : relu(y)));
  }
  std::string type_name() const override { return "Mixer"; }

  const bool is_smooth;
  Child<Linear> first, second, head;
};

int main(int argc, char** argv) {
  runner::register_model("mixer", [](const auto& options, const auto& data, Device device) {
    const auto text = [&](const std::string& name, const std::string& otherwise) {
      const auto found = options.find(name);
      return found == options.end() ? otherwise : found->second;
    };
    return std::make_unique<Mixer>(data.input_shape.numel(), std::stoll(text("width", "32")),
                                   data.outputs, text("activation", "relu") == "tanh", device);
  });
  return runner::run_program(argc, argv);
}

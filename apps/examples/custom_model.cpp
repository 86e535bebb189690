// The program `taper` with a user-defined model that configs can name:
//
//   model: {type: mixer, width: 64, activation: tanh}
#include <memory>

#include <taper/runner.h>
#include <taper/taper.h>

using namespace taper;

struct MixerOptions {
  int64_t width = 32;
  std::string activation = "relu";

  template <class V> void describe(V& v) {
    v("width", width, kWidth, "of both layers");
    v("activation", activation, "relu or tanh");
  }
};

// Two linear layers with a skip connection around both.
struct Mixer : Module {
  Mixer(int64_t in, int64_t out, const MixerOptions& o, Device device)
      : activate(functions().at(o.activation)),
        first(*this, "first", in, o.width, LinearOptions{.device = device}),
        second(*this, "second", o.width, o.width, LinearOptions{.device = device}),
        head(*this, "head", o.width, out, LinearOptions{.device = device}) {}

  Tensor forward(const Tensor& x) override {
    const Tensor y = first(x.flatten(1));
    return head(y + second(activate(y)));
  }
  std::string type_name() const override { return "Mixer"; }

  using Function = Tensor (*)(const Tensor&);
  static std::map<std::string, Function> functions() { return {{"relu", relu}, {"tanh", tanh}}; }

  const Function activate;
  Child<Linear> first, second, head;
};

int main(int argc, char** argv) {
  runner::register_model<MixerOptions>(
      "mixer", [](const MixerOptions& o, const runner::ModelSite& at) {
        return std::make_unique<Mixer>(at.data.input_shape.numel(), at.data.outputs, o, at.device);
      });
  return runner::main(argc, argv);
}

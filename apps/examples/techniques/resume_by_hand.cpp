// A training loop that continues after it was killed, with the same bits as if it had not been:
//
//   resume_by_hand 100 run.ckpt 42   # kills itself before step 42, as a machine that fails would
//   resume_by_hand 100 run.ckpt      # continues after the last step that was saved
//
// Arguments: steps, the file, the step before which the process kills itself.
#include <algorithm>
#include <csignal>
#include <iomanip>
#include <iostream>

#include <taper/data/images/digits.h>
#include <taper/data/loader.h>
#include <taper/taper.h>

using namespace taper;

struct Training {
  Device device = cuda::is_available() ? "cuda" : "cpu";
  int64_t steps;
  data::DataLoader loader{data::Digits{.train_size = 1000}.load(1).train,
                          {.batch_size = 32, .shuffle = true, .workers = 2},
                          device,
                          1};
  Sequential net{Conv2d(1, 8, 3, {.padding = 1}),
                 BatchNorm2d(8),
                 ReLU(),
                 MaxPool2d(4),
                 Flatten(),
                 Dropout(0.2),
                 Linear(8 * 49, 10)};
  optim::AdamW optimizer{net.to(device).parameters(), {.lr = 3e-3}};
  optim::LRScheduler schedule{optimizer, optim::schedule::cosine_annealing(steps)};
  optim::EMA average{net.named_parameters(), {.decay = 0.98}};
  int64_t step = 0;
  double best = 1e9;

  // Everything that changes during the training. The data set and the options, which the program
  // creates at each start, are not part of it.
  TrainingCheckpoint checkpoint() {
    return {{"net", net},
            {"optimizer", optimizer},
            {"schedule", schedule},
            {"average", average},
            {"rng", default_generator()},
            {"loader", loader},
            {"step", step},
            {"best", best}};
  }
  void train_on(const data::Batch& batch) {
    const Tensor loss = cross_entropy(net(batch.inputs), batch.targets);
    optimizer.zero_grad();
    loss.backward();
    optimizer.step();
    schedule.step();
    average.update();
    best = std::min(best, loss.item<double>());
    if (step % 10 == 0) std::cout << "step " << step << ": loss " << loss.item<double>() << "\n";
    ++step;
  }
};

int main(int argc, char** argv) {
  const int64_t steps = argc > 1 ? std::stoll(argv[1]) : 200;
  const std::string path = argc > 2 ? argv[2] : "resume_by_hand.ckpt";
  const int64_t killed_at = argc > 3 ? std::stoll(argv[3]) : -1;
  manual_seed(1);
  Training t{.steps = steps};
  const TrainingCheckpoint checkpoint = t.checkpoint();
  if (checkpoint.load_if_exists(path)) std::cout << "continues at step " << t.step << "\n";

  std::cout << std::setprecision(17);
  for (int64_t epoch = t.loader.current_epoch(); t.step < steps; ++epoch) {
    for (const data::Batch& batch : t.loader.epoch(epoch)) {
      if (t.step == killed_at) (void)std::raise(SIGKILL);
      t.train_on(batch);
      if (t.step % 25 == 0 || t.step == steps) checkpoint.save(path);
      if (t.step == steps) break;
    }
  }
  const optim::EMA::Guard averaged(t.average);
  std::cout << "best " << t.best << ", weights " << t.net.parameters()[4].sum().item<double>()
            << "\n";
}

// One file for a whole training: continuing gives the same bits, and a load that fails changes
// nothing.
#include "framework/io/training_checkpoint.h"

#include <csignal>
#include <filesystem>
#include <fstream>
#include <functional>
#include <memory>

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include "autograd/node.h"
#include "autograd/ops/nn/loss_ops.h"
#include "autograd/ops/random_ops.h"
#include "autograd/ops/unary_ops.h"
#include "data/loader.h"
#include "framework/factory/factories.h"
#include "framework/factory/generator.h"
#include "framework/io/safetensors.h"
#include "modules/layers/containers.h"
#include "modules/layers/linear.h"
#include "modules/layers/norm_layers.h"
#include "modules/layers/stateless.h"
#include "optim/algorithms/adam.h"
#include "optim/algorithms/sgd.h"
#include "optim/ema.h"
#include "optim/grad_scaler.h"
#include "optim/schedule.h"
#include "tests/testing.h"

namespace taper::v0 {
namespace {

namespace fs = std::filesystem;
using test::refuses;

// A training with everything that has state, on one device.
struct WholeTraining {
  Generator rng{11};
  DrawGuard draws{rng};
  Device device;
  Sequential net{Linear(4, 8), BatchNorm1d(8), ReLU(), Dropout(0.25), Linear(8, 1)};
  std::unique_ptr<optim::AdamW> opt;
  std::unique_ptr<optim::LRScheduler> schedule;
  std::unique_ptr<optim::EMA> ema;
  optim::GradScaler scaler{{.init_scale = 1024}};
  std::unique_ptr<data::DataLoader> loader;
  int64_t step = 0;
  double best = 1e9;
  bool is_done = false;
  Tensor total = zeros({1});

  explicit WholeTraining(Device where = Device()) : device(where) {
    net.to(device);
    total = total.to(device);
    opt = std::make_unique<optim::AdamW>(net.parameters(), optim::AdamWOptions{.lr = 0.01});
    schedule = std::make_unique<optim::LRScheduler>(*opt, optim::schedule::step(3, 0.5));
    ema = std::make_unique<optim::EMA>(net.named_parameters());
    const Tensor x = arange(80, {.dtype = kFloat32}).view({20, 4}) / 80;
    loader = std::make_unique<data::DataLoader>(
        data::TensorDataset(data::Batch{x, x.sum(1, true)}),
        data::DataLoaderOptions{.batch_size = 6, .shuffle = true}, device, 5);
  }
  TrainingCheckpoint checkpoint() {
    return {{"net", net},       {"opt", *opt},        {"schedule", *schedule}, {"ema", *ema},
            {"scaler", scaler}, {"rng", rng},         {"loader", *loader},     {"step", step},
            {"best", best},     {"is_done", is_done}, {"total", total}};
  }
  void train_on(const data::Batch& batch) {
    const Tensor loss = mse_loss(net(batch.inputs), batch.targets);
    opt->zero_grad();
    scaler.scale(loss).backward();
    scaler.step(*opt);
    scaler.update();
    schedule->step();
    ema->update();
    total.add_(loss.detach());
    best = std::min(best, loss.item<double>());
    is_done = ++step >= 14;
  }
  // Trains up to that step. Calls `each` after each step.
  void run(
      int64_t steps, const std::function<void()>& each = [] {}) {
    for (int64_t e = loader->current_epoch(); step < steps; ++e) {
      for (const data::Batch& batch : loader->epoch(e)) {
        train_on(batch);
        each();
        if (step == steps) return;
      }
    }
  }
};

std::string bytes_in(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

class CheckpointTest : public testing::Test {
 protected:
  void SetUp() override {
    directory_ = fs::temp_directory_path() / concat_to_string("taper_checkpoint_", ::getpid());
    fs::create_directories(directory_);
    path_ = directory_ / "run.ckpt";
  }
  void TearDown() override { fs::remove_all(directory_); }
  // Returns the bytes of a file with the whole state.
  std::string state_of(WholeTraining& t) const {
    const std::string path = directory_ / "state";
    t.checkpoint().save(path);
    return bytes_in(path);
  }

  fs::path directory_;
  std::string path_;
};

TEST_F(CheckpointTest, ContinuesWithTheSameBitsAfterAnyStep) {
  for (const Device device : test::all_devices()) {
    WholeTraining whole(device);
    whole.run(14);
    const std::string want = state_of(whole);
    for (const int64_t steps : {0, 1, 3, 4, 7, 8, 13, 14}) {
      WholeTraining first(device);
      first.run(steps);
      first.checkpoint().save(path_);
      WholeTraining second(device);
      second.run(2);  // leaves state of its own behind
      second.checkpoint().load(path_);
      EXPECT_EQ(second.step, steps);
      second.run(14);
      EXPECT_TRUE(state_of(second) == want) << "after step " << steps;
      EXPECT_TRUE(second.is_done);
    }
  }
}

TEST_F(CheckpointTest, AProcessThatIsKilledWhileItSavesContinuesWithTheSameBits) {
  WholeTraining whole;
  whole.run(14);
  const std::string want = state_of(whole);
  for (const int microseconds : {20'000, 60'000, 120'000}) {
    fs::remove(path_);
    const pid_t child = ::fork();
    if (child == 0) {
      WholeTraining killed;
      const TrainingCheckpoint checkpoint = killed.checkpoint();
      killed.run(14, [&] {
        for (int i = 0; i < 20; ++i) checkpoint.save(path_);
      });
      ::_exit(0);
    }
    ::usleep(useconds_t(microseconds));
    ::kill(child, SIGKILL);
    ::waitpid(child, nullptr, 0);
    WholeTraining second;
    const bool was_saved = second.checkpoint().load_if_exists(path_);
    EXPECT_EQ(was_saved, second.step > 0);
    second.run(14);
    EXPECT_TRUE(state_of(second) == want);
  }
}

TEST_F(CheckpointTest, AnEntryIsReadAloneByItsPrefix) {
  WholeTraining t;
  t.run(3);
  t.checkpoint().save(path_);
  WholeTraining other;
  other.net.load_state_dict(load_safetensors(path_, {.prefix = "net."}).tensors);
  for (size_t i = 0; i < t.net.state_dict().size(); ++i) {
    EXPECT_TRUE(test::close(other.net.state_dict()[i].tensor, t.net.state_dict()[i].tensor, 0));
  }
  EXPECT_EQ(load_safetensors(path_).tensors.at("step").item<int64_t>(), 3);
}

TEST_F(CheckpointTest, ALoadThatFailsChangesNothingAndNamesTheEntry) {
  WholeTraining saved;
  saved.run(5);
  saved.checkpoint().save(path_);

  WholeTraining t;
  t.run(2);
  const std::string before = state_of(t);
  const std::string start = path_ + ": entry 'loader': DataLoader: the position cannot be restored";
  data::DataLoader other(data::TensorDataset(data::Batch{ones({20, 4}), ones({20, 1})}),
                         {.batch_size = 6, .shuffle = true}, Device(), 6);
  const TrainingCheckpoint checkpoint{
      {"net", t.net},       {"opt", *t.opt},        {"schedule", *t.schedule}, {"ema", *t.ema},
      {"scaler", t.scaler}, {"rng", t.rng},         {"loader", other},         {"step", t.step},
      {"best", t.best},     {"is_done", t.is_done}, {"total", t.total}};
  EXPECT_TRUE(refuses<ValueError>([&] { return checkpoint.load(path_), 0; }, start));
  EXPECT_TRUE(state_of(t) == before);
  t.checkpoint().load(directory_ / "state");
  t.run(14);
  WholeTraining whole;
  whole.run(14);
  EXPECT_TRUE(state_of(t) == state_of(whole));
}

TEST_F(CheckpointTest, OtherShapesAndTypesAreRefusedByName) {
  Linear small(2, 2), large(3, 2);
  int64_t step = 4;
  double rate = 0.5;
  Tensor vector = ones({3}), undefined;
  TrainingCheckpoint{{"net", small}, {"n", step}, {"x", vector}}.save(path_);
  const auto load = [&](const TrainingCheckpoint& c) { return [&] { return c.load(path_), 0; }; };
  Tensor matrix = ones({3, 1});
  struct Row {
    TrainingCheckpoint checkpoint;
    const char* message;
  };
  const Row rows[] = {
      {{{"net", large}, {"n", step}, {"x", vector}},
       ": entry 'net': Error(s) in loading state_dict for Linear:\n\tsize mismatch for weight: "
       "copying a param with shape [2, 2] from checkpoint, the shape in current model is [2, 3]."},
      {{{"net", small}, {"n", rate}, {"x", vector}},
       ": entry 'n': expected a number of dtype float64, the file has a tensor of shape [] and "
       "dtype int64"},
      {{{"net", small}, {"n", step}, {"x", step}},
       ": entry 'x': expected a number of dtype int64, the file has a tensor of shape [3] and "
       "dtype float32"},
      {{{"net", small}, {"n", step}, {"x", matrix}},
       ": entry 'x': expected a tensor of shape [3, 1], the file has one of shape [3]"},
      {{{"net", step}, {"n", step}, {"x", vector}},
       ": entry 'net': expected a number of dtype int64, the file has 2 tensors"},
      {{{"net", small}, {"n", step}, {"x", small}},
       ": entry 'x': Error(s) in loading state_dict for Linear"},
  };
  for (const Row& row : rows) {
    step = 9;
    EXPECT_TRUE(refuses<Error>(load(row.checkpoint), path_ + row.message));
    EXPECT_EQ(step, 9);
  }
  const TrainingCheckpoint without{{"net", small}, {"n", step}, {"x", undefined}};
  EXPECT_TRUE(refuses<ValueError>([&] { return without.save(path_ + "2"), 0; },
                                  path_ + "2: cannot save: tensor 'x' is undefined"));
}

TEST_F(CheckpointTest, MissingAndExtraEntriesAreListed) {
  Linear net(2, 2);
  optim::SGD opt(net.parameters(), {.lr = 0.5});
  int64_t step = 1;
  TrainingCheckpoint{{"net", net}, {"opt", opt}}.save(path_);
  opt.set_lr(0.25);
  const TrainingCheckpoint other{{"net", net}, {"step", step}};
  EXPECT_TRUE(refuses<InputError>(
      [&] { return other.load(path_), 0; },
      path_ + ": does not have the entries of this TrainingCheckpoint. Missing in the file: "
              "'step'. Only in the file: 'opt'. Nothing was loaded."));
  EXPECT_EQ(opt.lr(), 0.25);
  (TrainingCheckpoint{{"opt", opt}, {"net", net}}.load(path_));  // in any order
  EXPECT_EQ(opt.lr(), 0.5);
}

TEST_F(CheckpointTest, EntriesWithoutTensorsAreEntries) {
  Linear net(2, 2);
  optim::GradScaler off({.enabled = false});
  Sequential nothing;
  const TrainingCheckpoint checkpoint{{"net", net}, {"scaler", off}, {"nothing", nothing}};
  checkpoint.save(path_);
  EXPECT_NO_THROW(checkpoint.load(path_));
  EXPECT_TRUE(refuses<InputError>(
      [&] {
        return TrainingCheckpoint{{"net", net}}.load(path_), 0;
      },
      path_ + ": does not have the entries"));
  const TrainingCheckpoint none{};
  none.save(path_);
  EXPECT_NO_THROW(none.load(path_));
}

TEST_F(CheckpointTest, AClassMayReadItsStateByPosition) {
  struct Positions {
    std::vector<NamedTensor> state = {{"z", ones({1})},
                                      {"n", tensor(int64_t(3))},
                                      {"half", ones({2}, {.dtype = kFloat16})},
                                      {"a", ones({3})}};
    [[nodiscard]] std::vector<NamedTensor> state_dict() const { return state; }
    void load_state_dict(const std::vector<NamedTensor>& given) { state = given; }
  } object;
  TrainingCheckpoint{{"object", object}}.save(path_);
  object.state.pop_back();
  TrainingCheckpoint{{"object", object}}.load(path_);
  std::string order;
  for (const NamedTensor& t : object.state) order += t.name + " ";
  EXPECT_EQ(order, "z n half a ");
}

TEST_F(CheckpointTest, DamagedAndForeignFilesAreRefused) {
  WholeTraining t;
  t.run(2);
  const TrainingCheckpoint checkpoint = t.checkpoint();
  checkpoint.save(path_);
  const std::string whole = bytes_in(path_), before = state_of(t);
  for (size_t size = 0; size < whole.size(); size += 1 + whole.size() / 97) {
    std::ofstream(path_, std::ios::binary | std::ios::trunc) << whole.substr(0, size);
    EXPECT_TRUE(refuses<Error>([&] { return checkpoint.load(path_), 0; }, path_ + ": "));
  }
  save_safetensors(path_, t.net.state_dict());
  EXPECT_TRUE(refuses<InputError>([&] { return checkpoint.load(path_), 0; },
                                  path_ + ": is a safetensors file, but not one of "
                                          "TrainingCheckpoint::save()"));
  save_safetensors(path_, {}, {{"taper_training_checkpoint", "2"}});
  EXPECT_TRUE(refuses<InputError>([&] { return checkpoint.load(path_), 0; },
                                  path_ + ": has version 2 of the format"));
  fs::remove(path_);
  EXPECT_TRUE(refuses<InputError>([&] { return checkpoint.load(path_), 0; }, path_));
  EXPECT_FALSE(checkpoint.load_if_exists(path_));
  EXPECT_TRUE(state_of(t) == before);
}

TEST_F(CheckpointTest, AFailedSaveLeavesTheOldFile) {
  int64_t step = 1;
  Tensor value;
  TrainingCheckpoint{{"step", step}}.save(path_);
  const std::string before = bytes_in(path_);
  EXPECT_TRUE(refuses<ValueError>(
      [&] {
        return TrainingCheckpoint{{"value", value}}.save(path_), 0;
      },
      path_));
  EXPECT_EQ(bytes_in(path_), before);
  EXPECT_TRUE(refuses<OutputError>(
      [&] {
        return TrainingCheckpoint{{"step", step}}.save(directory_ / "no" / "file"), 0;
      },
      (directory_ / "no" / "file").string()));
}

TEST_F(CheckpointTest, ForeignExceptionsKeepTheirTypeAndUndoToo) {
  struct Stubborn {
    [[nodiscard]] std::vector<NamedTensor> state_dict() const { return {{"a", ones({1})}}; }
    void load_state_dict(const std::vector<NamedTensor>&) const { throw std::range_error("no"); }
  } object;
  int64_t step = 1;
  const TrainingCheckpoint checkpoint{{"step", step}, {"object", object}};
  checkpoint.save(path_);
  step = 2;
  EXPECT_THROW(checkpoint.load(path_), std::range_error);
  EXPECT_EQ(step, 2);
}

TEST(TrainingCheckpoint, NamesAreNotEmptyHaveNoDotAndDiffer) {
  int64_t a = 1, b = 2;
  EXPECT_TRUE(refuses<ValueError>(
      [&] {
        return TrainingCheckpoint{{"", a}}, 0;
      },
      "TrainingCheckpoint: the name of an entry must not be empty"));
  EXPECT_TRUE(refuses<ValueError>(
      [&] {
        return TrainingCheckpoint{{"a.b", a}}, 0;
      },
      "TrainingCheckpoint: the name of an entry must not contain a dot "
      "(got 'a.b')"));
  EXPECT_TRUE(refuses<ValueError>(
      [&] {
        return TrainingCheckpoint{{"a", a}, {"a", b}}, 0;
      },
      "TrainingCheckpoint: two entries are named 'a'"));
}

TEST(GeneratorState, GivesTheDrawsThatFollowed) {
  Generator first(uint64_t(1) << 63 | 7), second;
  (void)randn({3}, {}, &first);
  second.load_state_dict(first.state_dict());
  EXPECT_EQ(second.initial_seed(), uint64_t(1) << 63 | 7);
  EXPECT_TRUE(test::close(randn({5}, {}, &second), randn({5}, {}, &first), 0));
}

TEST(GeneratorState, OtherStatesAreRefusedAndChangeNothing) {
  Generator generator(4);
  const std::vector<NamedTensor> good = generator.state_dict();
  struct Row {
    std::vector<NamedTensor> state;
    const char* message;
  };
  const Row rows[] = {
      {{}, "Generator: the state has no \"seed\""},
      {{good[0]}, "Generator: the state has no \"stream\""},
      {{good[0], good[1], {"more", ones({})}},
       "Generator: expected a state with the int64 numbers \"seed\" and \"stream\", and \"more\" "
       "is "
       "not one of them"},
      {{good[0], good[0]},
       "Generator: expected a state with the int64 numbers \"seed\" and "
       "\"stream\", and \"seed\" is given twice"},
      {{good[0], {"stream", ones({})}},
       "Generator: expected a state with the int64 numbers \"seed\" and \"stream\", and \"stream\" "
       "is no such number"},
  };
  for (const Row& row : rows) {
    EXPECT_TRUE(refuses<ValueError>(
        [&] {
          generator.load_state_dict(row.state);
          return 0;
        },
        row.message));
  }
  EXPECT_EQ(generator.initial_seed(), 4U);
}

}  // namespace
}  // namespace taper::v0

// Runs on tables: from a file alone to predictions.
#include <cmath>
#include <csignal>
#include <cstdlib>
#include <string>
#include <vector>

#include <fcntl.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>
#include <poll.h>
#include <unistd.h>

#include "apps/runner/base/string_utils.h"
#include "apps/runner/commands/commands.h"
#include "apps/runner/run/data_info.h"
#include "apps/runner/train/train.h"
#include "data/tables/table_encoding.h"
#include "framework/base/log.h"
#include "tests/runner/run_process.h"
#include "tests/text.h"

namespace taper::v0::runner {
namespace {

class TableRun : public ::testing::Test {
 protected:
  TableRun() {
    std::string text = "id,x,kind,price,days\n";
    for (int i = 0; i < 300; ++i) {
      const double x = i * 37 % 100 / 10.0;
      text += concat_to_string("r", i, ",", i % 11 == 0 ? "" : concat_to_string(x), ",",
                               i % 3 ? "a" : "b", ",", 100 + 20 * x + (i % 3 ? 0 : 50), ",",
                               1 + i % 3, "\n");
    }
    write_bytes(at_ / "t.csv", text);
  }
  RunDirectory::Outcome taper(std::vector<std::string> words) const { return at_.taper(words); }

  RunDirectory at_;
};

TEST_F(TableRun, OneLineTrainsEvaluatesAndPredicts) {
  const auto trained = taper({"train", "t.csv", "target=kind", "train.epochs=4", "--out", "r",
                              "columns={id: keep}", "metrics=[accuracy, auc]"});
  ASSERT_EQ(trained.code, 0) << trained.err;
  EXPECT_TRUE(contains(trained.err, "t.csv: 300 rows, 5 columns, read in ")) << trained.err;
  EXPECT_TRUE(contains(trained.err, "kind    target, 2 classes")) << trained.err;
  EXPECT_TRUE(contains(trained.out, "validation auc:")) << trained.out;
  const auto evaluated = taper({"eval", "r"});
  EXPECT_EQ(evaluated.code, 0) << evaluated.err;
  EXPECT_TRUE(contains(evaluated.out, "samples:         60\n")) << evaluated.out;
  // The numbers of the saved weights on the test part are the same in both.
  const auto line = [](const std::string& text) {
    return text.substr(text.find("test auc:"),
                       text.find('\n', text.find("test auc:")) - text.find("test auc:"));
  };
  EXPECT_EQ(line(trained.out), line(evaluated.out));
  write_bytes(at_ / "new.csv", "days,price,x,id\n1,150,2.5,first\n3,170,,second\n");
  const auto predicted = taper({"predict", "r", "new.csv"});
  EXPECT_EQ(predicted.code, 0) << predicted.err;
  EXPECT_TRUE(contains(predicted.out, "id,prediction,p_a,p_b\nfirst,")) << predicted.out;
  EXPECT_TRUE(contains(predicted.out, "\nsecond,")) << predicted.out;
}

TEST_F(TableRun, ItsDescriptionRestoresTheEncoding) {
  const RunConfig config = load_config(at_ / "t.csv", {"target=price", "train.epochs=1"});
  train(config, at_ / "r");
  const std::string text = read_bytes(at_ / "r/data.json");
  EXPECT_EQ(to_json(data_info_from_json(text, "data.json")), text);
  ASSERT_TRUE(contains(text, "\"std\":["));
  std::string broken = text;
  broken.replace(broken.find("\"std\":["), 7, "\"std\":[-");
  EXPECT_THROW((void)data_info_from_json(broken, "data.json"), InputError);
}

// The mean of a target in a logarithm would be the geometric one; all numbers are in the data's
// unit.
TEST_F(TableRun, ALogarithmIsReportedInTheUnitOfTheData) {
  const RunConfig config =
      load_config(at_ / "t.csv", {"target=price", "log_target=true", "train.epochs=30",
                                  "train.early_stopping=null", "columns={id: ignore}"});
  const TrainResult result = train(config, at_ / "r");
  EXPECT_GT(result.test_metrics["r2"], 0.8);
  EXPECT_GT(result.test_metrics["mae"], 0.1);
  EXPECT_LT(result.test_metrics["mae"], 60);
  const std::string rows = predict(open_run(at_ / "r", {}), at_ / "t.csv");
  double sum = 0;
  for (const std::string& line : lines_of(rows)) {
    if (line != "prediction") sum += std::stod(line) / 300;
  }
  EXPECT_NEAR(sum, 217, 25);
}

TEST_F(TableRun, SeveralTargetsHaveTheirOwnUnits) {
  const RunConfig config =
      load_config(at_ / "t.csv", {"target=[price, days]", "train.epochs=40", "metrics=[mae, r2]",
                                  "train.early_stopping=null"});
  const TrainResult result = train(config, at_ / "r");
  EXPECT_GT(result.test_metrics["price.r2"], 0.8);
  EXPECT_LT(result.test_metrics["days.mae"], 1.2);
  EXPECT_GT(result.test_metrics["price.mae"], 2 * result.test_metrics["days.mae"]);
  const std::vector<std::string> lines = lines_of(predict(open_run(at_ / "r", {}), at_ / "t.csv"));
  EXPECT_EQ(lines[0], "price,days");
  EXPECT_EQ(lines.size(), 301u);
}

TEST_F(TableRun, AnyModelOfNumbersTakesTheCategories) {
  const RunConfig config = load_config(
      at_ / "t.csv", {"target=price", "model={type: mlp, hidden: 8}", "train.epochs=1"});
  EXPECT_FALSE(train(config, at_ / "r").test_metrics.values.empty());
  EXPECT_NE(predict(open_run(at_ / "r", {}), at_ / "t.csv"), "");
}

TEST_F(TableRun, WithoutAValidationPartNoEarlyStoppingIsTheDefault) {
  std::string said;
  const LogGuard guard([&](LogLevel, const std::string& text) {
    said += text;
    return false;
  });
  const auto config = [&](const char* validation) {
    return load_config(at_ / "t.csv",
                       {"target=price", concat_to_string("split.validation=", validation)});
  };
  EXPECT_TRUE(config("0.2").train.early_stopping);
  EXPECT_FALSE(config("0").train.early_stopping);
  train(load_config(at_ / "t.csv", {"target=price", "split.validation=0", "train.epochs=2"}),
        at_ / "none");
  EXPECT_FALSE(contains(said, "validation part, which")) << said;
}

TEST_F(TableRun, WithoutAValidationPartTheLastWeightsAreSaved) {
  std::string said;
  const LogGuard guard([&](LogLevel, const std::string& text) {
    said += text;
    return false;
  });
  const RunConfig config = load_config(at_ / "t.csv", {"target=price", "split.validation=0",
                                                       "train={epochs: 6, early_stopping: "
                                                       "{patience: 1}}"});
  const TrainResult result = train(config, at_ / "r");
  EXPECT_EQ(result.saved_step, result.steps);
  EXPECT_EQ(result.reason, "");
  EXPECT_TRUE(contains(said, "the table has no validation part")) << said;
  EXPECT_FALSE(result.may_decide);
  // The run keeps the config that was asked for, so that it can be resumed with it.
  train(config, at_ / "parts", {.stop_at = result.steps / 2});
  train(config, at_ / "parts", {.resume = "auto"});
  EXPECT_EQ(read_bytes(at_ / "parts/model.safetensors"), read_bytes(at_ / "r/model.safetensors"));
}

TEST_F(TableRun, ClassesAreWeightedInTrainingOnly) {
  const std::vector<std::string> words = {"target=kind", "train.epochs=1", "columns={id: ignore}"};
  const auto loss_of = [&](const std::string& balance, const std::string& run) {
    std::vector<std::string> all = words;
    all.push_back(balance);
    train(load_config(at_ / "t.csv", all), at_ / run);
    const auto row = nlohmann::json::parse(lines_of(read_bytes(at_ / run / "metrics.jsonl"))[0]);
    return row["loss"].get<double>();
  };
  const double plain = loss_of("balance=none", "a"), weighted = loss_of("balance=weights", "b");
  EXPECT_NE(plain, weighted);
  EXPECT_NEAR(loss_of("class_weights={a: 0.75, b: 1.5}", "c"), weighted, 0.02);
  EXPECT_EQ(loss_of("class_weights={a: 1, b: 1}", "d"), plain);
  const RunConfig wrong =
      load_config(at_ / "t.csv", {"target=kind", "class_weights={z: 2}", "train.epochs=1"});
  EXPECT_THROW(train(wrong, at_ / "e"), ConfigError);
  const RunConfig bce = load_config(
      at_ / "t.csv", {"target=kind", "balance=weights", "loss=bce_with_logits", "train.epochs=1"});
  EXPECT_THROW(train(bce, at_ / "f"), ConfigError);
}

TEST_F(TableRun, RareClassesCanBeRepeated) {
  const RunConfig config =
      load_config(at_ / "t.csv", {"target=kind", "balance=oversample", "train.epochs=1"});
  const auto data = source_of(config.data)->load(0);
  EXPECT_EQ(data.train->size(), 280);  // 140 of each
  EXPECT_EQ(data.test->size(), 60);
  EXPECT_TRUE(contains(data.report, "280 training, 30 validation, 60 test")) << data.report;
  EXPECT_TRUE(contains(data.report, "rare classes repeated")) << data.report;
}

// Returns the value of a line such as "test f1:   0.5".
static double number_after(const std::string& text, const std::string& key) {
  const size_t at = text.find(key);
  return at == std::string::npos ? -1 : std::stod(text.substr(at + key.size()));
}

// Rows with a weight of 0, 1 or 2, and the same rows repeated as often.
static void write_weighted(const RunDirectory& at) {
  std::string text = "x,z,w,kind,price\n", repeated = text;
  for (int i = 0; i < 240; ++i) {
    const int w = i % 3;
    const auto row = [&](int weight) {
      return concat_to_string(i * 37 % 100 / 10.0, ",", i * 7 % 11, ",", weight, ",",
                              i * 37 % 100 > 40 ? "yes" : "no", ",", i * 37 % 100 + i % 7, "\n");
    };
    text += row(w);
    for (int k = 0; k < w; ++k) repeated += row(1);
  }
  write_bytes(at / "w.csv", text);
  write_bytes(at / "repeated.csv", repeated);
}

static double first_loss(const fs::path& run) {
  const auto row = nlohmann::json::parse(lines_of(read_bytes(run / "metrics.jsonl"))[0]);
  return row["loss"].get<double>();
}

// The first step has the whole training part as its batch, so that its loss is sum(w * l) / sum(w).
TEST_F(TableRun, SamplesAreWeightedInLossAndMetrics) {
  write_weighted(at_);
  for (const auto& [target, other] : {std::pair("kind", "price"), {"price", "kind"}}) {
    const auto run = [&, target = target, other = other](const std::string& out,
                                                         std::vector<std::string> words) {
      words.insert(words.end(), {concat_to_string("target=", target),
                                 concat_to_string("columns={w: weight, ", other, ": ignore}"),
                                 "train.epochs=3", "train.early_stopping=null",
                                 "model={type: mlp, hidden: 8}", "train.shuffle=false"});
      train(load_config(at_ / "w.csv", words), at_ / out);
    };
    const std::string name = target;
    run(name + "1", {"train.batch_size=168"});
    // Parts of a batch add up to the same mean.
    run(name + "2", {"train.batch_size=42", "train.accumulate=4"});
    run(name + "3", {"train.batch_size=168", "train.shards=4"});
    EXPECT_NEAR(first_loss(at_ / (name + "2")), first_loss(at_ / (name + "1")), 1e-5);
    EXPECT_NEAR(first_loss(at_ / (name + "3")), first_loss(at_ / (name + "1")), 1e-5);
    // An evaluation of the weighted rows is one of the repeated rows.
    const SavedRun saved = open_run(at_ / (name + "1"), {});
    const std::string weighted = evaluate_run(saved, at_ / "w.csv");
    const std::string plain = evaluate_run(saved, at_ / "repeated.csv");
    EXPECT_NEAR(number_after(weighted, "test loss:"), number_after(plain, "test loss:"), 1e-4);
    const char* metric = name == "kind" ? "test accuracy:" : "test mae:";
    EXPECT_NEAR(number_after(weighted, metric), number_after(plain, metric), 1e-2);
    // Predictions need no weights.
    write_bytes(at_ / "bare.csv", "z,x\n1,2\n3,4\n");
    EXPECT_EQ(lines_of(predict(saved, at_ / "bare.csv")).size(), 3u);
  }
}

TEST_F(TableRun, SeveralLabelsArePredictedEach) {
  std::string text = "x,z,red,round\n";
  for (int i = 0; i < 400; ++i) {
    const int x = i * 37 % 100, z = i * 53 % 90;
    text += concat_to_string(x, ",", z, ",", x > 60 ? 1 : 0, ",", z > 30 ? "yes" : "no", "\n");
  }
  write_bytes(at_ / "l.csv", text);
  const auto trained = taper({"train", "l.csv", "target=[red, round]", "train.epochs=40",
                              "threshold=f1", "metrics=[f1, auc, log_loss]", "--out", "l"});
  ASSERT_EQ(trained.code, 0) << trained.err;
  EXPECT_TRUE(contains(trained.err, "red     target, label")) << trained.err;
  EXPECT_TRUE(contains(trained.out, " for 'red', ")) << trained.out;
  EXPECT_TRUE(contains(trained.out, " for 'round', the best f1 on the validation part"));
  for (const char* key : {"test f1:", "test red.f1:", "test round.f1:"}) {
    EXPECT_GT(number_after(trained.out, key), 0.9) << key;
  }
  const auto evaluated = taper({"eval", "l"});
  for (const char* key : {"test f1:", "test red.f1:", "test round.auc:", "test log_loss:"}) {
    EXPECT_EQ(number_after(evaluated.out, key), number_after(trained.out, key)) << key;
  }
  write_bytes(at_ / "new.csv", "z,x\n80,10\n5,90\n");
  const std::vector<std::string> rows = lines_of(taper({"predict", "l", "new.csv"}).out);
  ASSERT_EQ(rows.size(), 3u);
  EXPECT_EQ(rows[0], "red,round,p_red,p_round");
  EXPECT_TRUE(rows[1].starts_with("0,yes,")) << rows[1];
  EXPECT_TRUE(rows[2].starts_with("1,no,0.9")) << rows[2];
  const std::string json = read_bytes(at_ / "l/data.json");
  const DataInfo read = data_info_from_json(json, "data.json");
  EXPECT_EQ(to_json(read), json);
  std::string older = json;  // of a version without weights
  ASSERT_TRUE(contains(older, "\"weight\":\"\""));
  older.erase(older.find(",\"weight\":\"\""), std::string(",\"weight\":\"\"").size());
  EXPECT_EQ(to_json(data_info_from_json(older, "data.json")), json);
  ASSERT_EQ(read.labels.size(), 2u);
  EXPECT_EQ(read.labels[1].classes, (std::vector<std::string>{"no", "yes"}));
  struct Row {
    const char *word, *says;
  };
  constexpr Row kRows[] = {
      {"metrics=[confusion]", "metrics: confusion is for one target"},
      {"metrics=[mae]", "metrics: not all fit the data"},
      {"loss=cross_entropy", "loss.type: cross_entropy is for one target; several labels take"},
      {"loss=mse", "loss.type: mse is for one target"},
      {"balance=weights", "data.balance: is for one target"},
      {"target=[red, z]", "accepted"}};
  for (const Row& row : kRows) {
    const auto outcome = taper({"train", "l.csv", "target=[red, round]", row.word, "--validate"});
    if (std::string(row.says) == "accepted") {
      EXPECT_EQ(outcome.code, 0) << outcome.err;
    } else {
      EXPECT_EQ(outcome.code, 2) << row.word;
      EXPECT_TRUE(contains(outcome.err, row.says)) << outcome.err;
    }
  }
}

// A class that a tenth of the rows have, so that 0.5 is a bad threshold.
static std::string rows_of_a_rare_class() {
  std::string text = "x,z,rare\n";
  for (int i = 0; i < 400; ++i) {
    const int x = i * 37 % 100;
    const bool is_rare = x > 75 && i * 7 % 10 < 5;
    text += concat_to_string(x, ",", i * 13 % 17, ",", is_rare ? "yes" : "no", "\n");
  }
  return text;
}

TEST_F(TableRun, AThresholdIsChosenOnTheValidationPart) {
  write_bytes(at_ / "rare.csv", rows_of_a_rare_class());
  const auto run = [&](const std::string& threshold, const std::string& out) {
    return taper({"train", "rare.csv", "target=rare", "train.epochs=30", "--out", out,
                  "metrics=[balanced_accuracy, auc, log_loss, accuracy]",
                  concat_to_string("threshold=", threshold)});
  };
  const auto plain = run("0.5", "plain"), chosen = run("balanced_accuracy", "chosen");
  ASSERT_EQ(plain.code, 0) << plain.err;
  ASSERT_EQ(chosen.code, 0) << chosen.err;
  const double threshold = number_after(chosen.out, "threshold:");
  EXPECT_TRUE(contains(chosen.out, " for 'yes', the best balanced_accuracy on the validation part"))
      << chosen.out;
  EXPECT_TRUE(contains(plain.out, "threshold:       0.5 for 'yes'\n")) << plain.out;
  EXPECT_LT(threshold, 0.5);
  const std::string key = "validation balanced_accuracy:";
  EXPECT_GT(number_after(chosen.out, key), number_after(plain.out, key));
  // What does not depend on decisions is the same.
  for (const char* same : {"test auc:", "test log_loss:", "validation auc:", "test loss:"}) {
    EXPECT_EQ(number_after(chosen.out, same), number_after(plain.out, same)) << same;
  }
  // All commands agree.
  const auto evaluated = taper({"eval", "chosen"});
  EXPECT_TRUE(contains(evaluated.out, " for 'yes', the best balanced_accuracy")) << evaluated.out;
  EXPECT_EQ(number_after(evaluated.out, "test balanced_accuracy:"),
            number_after(chosen.out, "test balanced_accuracy:"));
  EXPECT_EQ(number_after(taper({"eval", "chosen", "threshold=0.5"}).out, "test accuracy:"),
            number_after(plain.out, "test accuracy:"));
  const std::vector<std::string> rows = lines_of(taper({"predict", "chosen", "rare.csv"}).out);
  int64_t yes = 0;
  for (size_t i = 1; i < rows.size(); ++i) {
    const bool is_yes = std::stod(rows[i].substr(rows[i].rfind(',') + 1)) >= threshold;
    EXPECT_EQ(rows[i].substr(0, rows[i].find(',')), is_yes ? "yes" : "no") << rows[i];
    yes += is_yes;
  }
  EXPECT_GT(yes, 0);
  EXPECT_EQ(taper({"report", "chosen", "--to", "page.html"}).code, 0);
  EXPECT_TRUE(contains(read_bytes(at_ / "page.html"), "\"thresholds\":["));
}

TEST_F(TableRun, AThresholdMayBeWrong) {
  write_bytes(at_ / "rare.csv", rows_of_a_rare_class());
  struct Row {
    std::vector<std::string> words;
    const char* says;
  };
  const std::vector<Row> rows = {
      {{"target=kind", "threshold=high"}, "threshold: expected f1, accuracy, balanced_accuracy or"},
      {{"target=kind", "threshold=1.5"}, "threshold: expected f1, accuracy, balanced_accuracy or"},
      {{"target=days", "threshold=f1"},
       "threshold: decides between two classes, but the data have 3"},
      {{"target=price", "threshold=0.3"},
       "threshold: decides between two classes, but the data have none"},
      {{"target=kind", "threshold=f1", "split.validation=0"},
       "threshold: f1 is chosen on the validation part, which the data do not have; set "
       "data.split.validation, such as 0.1, or give a number"}};
  for (const Row& row : rows) {
    std::vector<std::string> words = {"train", "t.csv", "--out", "r"};
    words.insert(words.end(), row.words.begin(), row.words.end());
    for (const bool validates : {false, true}) {
      if (validates) words.emplace_back("--validate");
      const auto outcome = taper(words);
      EXPECT_EQ(outcome.code, 2) << row.says;
      EXPECT_TRUE(contains(outcome.err, row.says)) << outcome.err;
    }
  }
  EXPECT_EQ(taper({"train", "t.csv", "target=kind", "threshold=0.3", "split.validation=0", "--out",
                   "r", "train.epochs=1"})
                .code,
            0);
  const auto later = taper({"eval", "r", "threshold=f1"});
  EXPECT_EQ(later.code, 0);
  EXPECT_TRUE(contains(later.err, "threshold: f1 was not chosen in this run, so 0.5 decides"))
      << later.err;
}

// Relative paths in a run's config are those of the directory where the run was started.
TEST_F(TableRun, TheFilesOfPartsAreFoundFromElsewhere) {
  write_bytes(at_ / "test.csv", read_bytes(at_ / "t.csv"));
  write_bytes(at_ / "validation.csv", read_bytes(at_ / "t.csv"));
  ASSERT_EQ(taper({"train", "t.csv", "target=kind", "train.epochs=1", "--out", "r",
                   "split={validation: validation.csv, test: test.csv}"})
                .code,
            0);
  ASSERT_FALSE(fs::exists("test.csv"));
  const SavedRun run = open_run(at_ / "r", {});
  EXPECT_TRUE(contains(evaluate_run(run, ""), "samples:         300\n"));
  EXPECT_EQ(source_of(run.config.data)->files().size(), 3u);
  fs::remove(at_ / "test.csv");
  EXPECT_THROW((void)evaluate_run(open_run(at_ / "r", {}), ""), InputError);
}

// A pseudoterminal.
class Terminal {
 public:
  Terminal() : master_(::posix_openpt(O_RDWR | O_NOCTTY)) {
    is_open_ = master_ >= 0 && ::grantpt(master_) == 0 && ::unlockpt(master_) == 0;
  }
  ~Terminal() { ::close(master_); }
  Terminal& operator=(Terminal&&) = delete;

  bool is_open() const { return is_open_; }
  std::string name() const { return ::ptsname(master_); }
  // Reads until the text contains `what`, there is nothing more to read, or a minute has passed.
  std::string read_until(const std::string& what) {
    std::string out;
    char part[4096];
    pollfd ready{.fd = master_, .events = POLLIN, .revents = 0};
    while (out.find(what) == std::string::npos && ::poll(&ready, 1, 60'000) > 0) {
      const ssize_t n = ::read(master_, part, sizeof part);
      if (n <= 0) break;
      out.append(part, size_t(n));
    }
    return out;
  }

 private:
  const int master_;
  bool is_open_ = false;
};

TEST_F(TableRun, ABarShowsTheReadingAndASignalEndsIt) {
  Terminal terminal;
  if (!terminal.is_open()) GTEST_SKIP() << "there are no pseudoterminals";
  std::string text = "a,b,c,y\n";
  for (int i = 0; text.size() < (size_t(16) << 20); ++i) {
    text += concat_to_string("word ", i, ",name ", i * 7, ",", i, "x,", i % 2, "\n");
  }
  write_bytes(at_ / "big.csv", text);
  const std::string paths = "path=[big.csv, big.csv, big.csv, big.csv, big.csv, big.csv, big.csv]";
  const std::string to_terminal = concat_to_string("exec 2>", terminal.name(), ";");
  const pid_t child = at_.start({"train", "big.csv", paths, "target=y", "--out", "r"}, to_terminal);
  std::string seen = terminal.read_until(" rows");
  EXPECT_TRUE(contains(seen, "reading  [")) << seen;
  ::kill(child, SIGINT);
  seen = terminal.read_until("before the first step");
  EXPECT_EQ(at_.wait(child).code, 75);
  EXPECT_TRUE(contains(seen, "\r\033[K")) << seen;  // the bar is removed
  EXPECT_TRUE(contains(seen, "ended by SIGINT before the first step")) << seen;
  EXPECT_FALSE(fs::exists(at_ / "r"));
}

TEST_F(TableRun, NewRowsMayLackTheTarget) {
  for (const std::string target : {"target=kind", "target=price", "target=[price, days]"}) {
    const std::string run = concat_to_string("r", target.size());
    train(load_config(at_ / "t.csv", {target, "train.epochs=1", "columns={id: ignore}"}),
          at_ / run);
    const std::string known = "id,x,kind,price,days\na,1,a,120,1\nb,2,b,190,2\n";
    write_bytes(at_ / "known.csv", known);
    write_bytes(at_ / "some.csv", known + "c,3,,,\n");
    write_bytes(at_ / "none.csv", "id,x,kind,price,days\nc,3,,,\n");
    EXPECT_EQ(lines_of(taper({"predict", run, "some.csv"}).out).size(), 4u) << target;
    const auto evaluated = taper({"eval", run, "--data", "some.csv"});
    EXPECT_EQ(evaluated.code, 0) << evaluated.err;
    EXPECT_TRUE(contains(evaluated.err, "some.csv: 1 row without a target left out"));
    EXPECT_EQ(evaluated.out, taper({"eval", run, "--data", "known.csv"}).out);
    const auto refused = taper({"eval", run, "--data", "none.csv"});
    EXPECT_NE(refused.code, 0);
    EXPECT_TRUE(contains(refused.err, "the target is missing in all of its 1 rows")) << refused.err;
  }
}

// Predictions do not depend on the columns of targets and weights. An evaluation refuses values
// that it cannot use.
TEST_F(TableRun, PredictionsIgnoreLabelsAndWeights) {
  struct Row {
    std::string target, columns, cells, says;  // cells: kind, price and days of a new row
  };
  const Row kRows[] = {
      {"kind", "{}", "zebra,1,1", "column 'kind': class 'zebra' is not in the training data"},
      {"days", "{}", "a,1,12", "column 'days': class '12' is not in the training data"},
      {"price", "{}", "a,soon,1", "column 'price': expected a number, got 'soon'"},
      {"{name: price, log: true}", "{}", "a,-1,1", "column 'price': its logarithm is the target"},
      {"kind", "{days: weight}", "a,1,-3", "column 'days': expected a weight"}};
  const std::string head = "id,x,kind,price,days\na,1,a,1,1\n";
  write_bytes(at_ / "known.csv", head + "b,2,a,1,1\n");
  int number = 0;
  for (const auto& [target, columns, cells, says] : kRows) {
    const std::string run = concat_to_string("r", number++);
    const auto trained = taper({"train", "t.csv", "target=" + target, "columns=" + columns,
                                "train.epochs=1", "--out", run});
    ASSERT_EQ(trained.code, 0) << trained.err;
    write_bytes(at_ / "new.csv", concat_to_string(head, "b,2,", cells, "\n"));
    const auto known = taper({"predict", run, "known.csv"});
    EXPECT_EQ(lines_of(known.out).size(), 3u) << says << known.err;
    const auto predicted = taper({"predict", run, "new.csv"});
    EXPECT_EQ(predicted.code, 0) << predicted.err;
    EXPECT_EQ(predicted.out, known.out) << says;
    const auto evaluated = taper({"eval", run, "--data", "new.csv"});
    EXPECT_EQ(evaluated.code, kExitInput) << evaluated.out;
    EXPECT_TRUE(contains(evaluated.err, "new.csv:3: " + says)) << evaluated.err;
  }
}

TEST_F(TableRun, MissingWordsMayBeUnknownWords) {
  write_bytes(at_ / "m.csv", read_bytes(at_ / "t.csv") + "r300,1,,120,1\nr301,1,,120,1\n");
  const auto says = [&](const std::string& word) {
    return taper({"train", "m.csv", "target=price", word, "train.epochs=1", "--out", word}).err;
  };
  EXPECT_TRUE(contains(says("missing.words=category"), "missing is a category of its own"));
  const std::string unknown = says("missing.words=unknown");
  EXPECT_TRUE(contains(unknown, "missing counts as an unknown word")) << unknown;
  EXPECT_FALSE(contains(unknown, "rare word")) << unknown;
}

// If a file of data is given instead of a config, a message names it once.
TEST_F(TableRun, ARefusalNamesTheFileOnce) {
  const auto column = taper({"train", "t.csv", "target=kind", "columns={nme: keep}"});
  EXPECT_TRUE(contains(column.err, "command line: t.csv has no column 'nme'; the nearest are"))
      << column.err;
  const auto parts = taper({"train", "t.csv", "target=kind", "split.test=0"});
  EXPECT_TRUE(contains(parts.err, "command line: t.csv: split: 270 rows to train and 0 to test"))
      << parts.err;
}

TEST_F(TableRun, AKeyOfATableMayBeWrong) {
  const auto refusal = [&](const std::string& word) { return taper({"train", "t.csv", word}); };
  struct Row {
    const char *word, *says;
  };
  constexpr Row kRows[] = {
      {"seed=1", "missing key 'target' in 'data'"},
      {"columns={id: kep}", "did you mean 'keep'?"},
      {"columns=[id]", "data.columns: expected a map from names to one of number, category"},
      {"class_weights={a: 0}", "data.class_weights.a: expected a number above 0"},
      {"target={name: price, lg: true}",
       "data.target: expected a name, or {name: NAME, log: true}"},
      {"target={name: price, log: 1}", "data.target.log: expected true or false"},
      {"split.test=2", "data.split.test: expected a number of at least 0 and below 1, or a path"},
      {"split.by=group", "data.split.column: names the column for group, time and column"},
      {"read.delimiter=ab", "data.read.delimiter: expected one character, blanks or auto"}};
  for (const Row& row : kRows) {
    const auto outcome = refusal(row.word);
    EXPECT_EQ(outcome.code, 2) << row.word;
    EXPECT_TRUE(contains(outcome.err, row.says)) << row.word << ": " << outcome.err;
  }
  EXPECT_TRUE(contains(taper({"train", "t.csv", "target=price", "log_targets=[x]"}).err,
                       "data.log_targets: must be among 'target'"));
}

}  // namespace
}  // namespace taper::v0::runner

// What a real browser shows of a report. Skipped where no Chromium is installed
// (scripts/install.sh browser).
#include <algorithm>
#include <cmath>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "apps/runner/report/report.h"
#include "data/images/image_files.h"
#include "framework/tensor/tensor.h"
#include "tests/runner/browser.h"
#include "tests/runner/run_process.h"
#include "tests/testing.h"
#include "tests/text.h"

namespace taper::v0::runner {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::json;

constexpr int kPhone = 390, kDesk = 1300;

// A long message and a name that are harmful as markup.
const std::string kMessage =
    "</script><script>window.hacked = 1</script><img src=x onerror='window.hacked = 1'> " +
    std::string(10'000, 'w');
constexpr const char* kName = "<img src=x onerror='hacked=1'> & \"a long name of a run\"";

// A row of each kind of evaluation that a report draws.
Json evaluation() {
  Json examples = Json::array();
  for (int i = 0; i < 4; ++i) {
    examples.push_back({{"row", i},
                        {"true", i % 2},
                        {"predicted", 0},
                        {"is_hit", i % 2 == 0},
                        {"probabilities", {{0, 0.75}, {1, 0.25}}},
                        {"pixels", "AID/gA=="}});
  }
  return {{"split", "test"},
          {"step", 40},
          {"samples", 20},
          {"confusion", {{"classes", {{10, 12, 9}, {10, 8, 7}}}, {"rows", {{9, 1}, {3, 7}}}}},
          {"calibration", {{"error", 0.0625}, {"bins", {{0.6, 0.5, 0.4}, {0.9, 0.95, 0.6}}}}},
          {"roc",
           {{{"class", 1}, {"auc", 0.875}, {"points", {{0, 0}, {0.1, 0.7}, {0.4, 0.9}, {1, 1}}}}}},
          {"predictions",
           {{"samples", 20},
            {"picture", {{"width", 2}, {"height", 2}, {"channels", 1}, {"is_stretched", false}}},
            {"examples", examples}}}};
}

class ReportInBrowser : public ::testing::Test {
 protected:
  void SetUp() override {
    if (Browser::program().empty()) {
      GTEST_SKIP() << "there is no Chromium: scripts/install.sh browser";
    }
    browser_ = std::make_unique<Browser>(at_ / "profile");
  }
  void TearDown() override {
    if (!browser_) return;
    EXPECT_EQ(browser_->exceptions(), std::vector<std::string>());
    if (HasFailure()) write_bytes(at_ / "page.png", browser_->screenshot());
  }

  // Writes a run of 40 steps with four evaluations; run i is the better, the smaller i is.
  void write_run(const std::string& name, int i) const {
    const fs::path dir = at_ / name;
    fs::create_directories(dir);
    std::string lines;
    for (int step = 1; step <= 40; ++step) {
      const double loss = 2 * std::exp(-step / (10. + i)) + 0.01 * (step % 3);
      lines += Json({{"kind", "train"}, {"step", step}, {"epoch", 1}, {"loss", loss}, {"lr", 0.1}})
                   .dump() +
               "\n";
      if (step % 10 != 0) continue;
      lines += Json({{"kind", "eval"},
                     {"step", step},
                     {"split", "test"},
                     {"loss", loss + 0.1},
                     {"accuracy", 0.5 + step / 100. - 0.001 * i}})
                   .dump() +
               "\n";
    }
    write_bytes(dir / "metrics.jsonl", lines);
    write_bytes(dir / "timing.jsonl",
                R"({"kind":"epoch","step":40,"seconds":2.5,"samples_per_second":640})"
                "\n");
    write_bytes(dir / "data.json", R"({"class_names":["cat","<b>dog</b>"]})");
    write_bytes(dir / "evaluation.json", evaluation().dump());
    write_bytes(dir / "exit.json",
                i % 2 == 0 ? Json({{"code", 0}, {"reason", "finished"}, {"model_step", 40}}).dump()
                           : Json({{"code", 70}, {"reason", kMessage}}).dump());
  }
  // Writes a report of that many runs and opens it.
  void open(int runs, int width, const std::string& scheme = "light") {
    std::vector<fs::path> dirs;
    for (int i = 0; i < runs; ++i) {
      const std::string name = i == 1 ? "odd" : concat_to_string("run-", i);
      write_run(i == 3 ? concat_to_string("runs/", kName) : "runs/" + name, i);
    }
    write_report({at_ / "runs"}, at_ / "report.html");
    browser_->open("file://" + (at_ / "report.html").string(), width, 900, scheme);
  }
  Json evaluate(const std::string& expression) { return browser_->evaluate(expression); }
  int64_t count_of(const std::string& selector) {
    return evaluate("document.querySelectorAll(\"" + selector + "\").length");
  }
  std::string text_of(const std::string& selector) {
    return evaluate("document.querySelector(\"" + selector +
                    "\").innerText.replaceAll('\\u00a0', ' ')");
  }
#ifdef TAPER_WITH_IMAGES
  // Returns the mean red, green and blue of the window.
  std::vector<double> average_color() {
    write_bytes(at_ / "shot.png", browser_->screenshot());
    const Tensor image = data::read_image(at_ / "shot.png", data::ImageMode::kRgb);
    std::vector<double> out;
    for (int64_t c = 0; c < 3; ++c) {
      double sum = 0;
      for (const float v : image.select(0, c).contiguous().to(kFloat32).to_floats()) sum += v;
      out.push_back(sum / double(image[0].numel()));
    }
    return out;
  }
#endif

  RunDirectory at_;
  std::unique_ptr<Browser> browser_;
};

TEST_F(ReportInBrowser, FitsAPhoneAndADeskWithAnyNumberOfRuns) {
  for (const int runs : {1, 5, 76}) {
    for (const int width : {kPhone, kDesk}) {
      for (const char* scheme : {"light", "dark"}) {
        SCOPED_TRACE(concat_to_string(runs, " runs, ", width, " pixels, ", scheme));
        open(runs, width, scheme);
        EXPECT_LE(evaluate("document.documentElement.scrollWidth"), width);
        EXPECT_EQ(count_of("#runs tbody tr"), runs);
        // The curves of at most eight runs are shown at first: training and evaluation of each.
        EXPECT_EQ(count_of("[data-chart=loss] .run[data-run]"), 2 * std::min(runs, 8));
        EXPECT_EQ(count_of("#curves figure"), 4);
        EXPECT_EQ(evaluate("[...document.querySelectorAll('#curves .run path')]"
                           ".every(path => path.getAttribute('d').length > 10 &&"
                           " !path.getAttribute('d').includes('NaN'))"),
                  true);
#ifdef TAPER_WITH_IMAGES
        const std::vector<double> color = average_color();
        for (const double c : color) {
          const bool is_dark = scheme == std::string("dark");
          EXPECT_TRUE(is_dark ? c < 70 : c > 200) << c;
        }
#endif
      }
    }
  }
}

TEST_F(ReportInBrowser, ALongNameDoesNotMakeThePageWider) {
  write_run("runs/" + std::string(200, 'x'), 0);
  write_report({at_ / "runs"}, at_ / "report.html");
  browser_->open("file://" + (at_ / "report.html").string(), kPhone, 900);
  EXPECT_LE(evaluate("document.documentElement.scrollWidth"), kPhone);
}

TEST_F(ReportInBrowser, AMessageIsATextThatDoesNotStretchTheTable) {
  open(5, kDesk);
  EXPECT_EQ(evaluate("window.hacked === undefined"), true);
  EXPECT_EQ(count_of("#runs img, #details img"), 0);
  EXPECT_TRUE(contains(text_of("#runs tbody"), kName));
  EXPECT_LT(evaluate("Math.max(...[...document.querySelectorAll('#runs tbody tr')]"
                     ".map(row => row.offsetHeight))"),
            40);
  EXPECT_LT(evaluate("Math.max(...[...document.querySelectorAll('#runs tbody td')]"
                     ".map(cell => cell.offsetWidth))"),
            320);
  evaluate(
      "[...document.querySelectorAll('#runs tbody .link')].find(b => b.innerText == "
      "'odd').click()");
  EXPECT_EQ(evaluate("document.querySelector('#details pre.message').innerText.length"),
            kMessage.size());
  EXPECT_LT(evaluate("document.querySelector('#details pre.message').offsetHeight"), 250);
  EXPECT_LE(evaluate("document.documentElement.scrollWidth"), kDesk);
}

TEST_F(ReportInBrowser, ThePointerShowsTheValuesOfAStep) {
  open(1, kDesk);
  EXPECT_EQ(evaluate("document.getElementById('tip').hidden"), true);
  // The plot has margins of 52 and 14 pixels; its right end is step 40.
  browser_->point_at("[data-chart=accuracy] svg", 0.96, 0.3);
  EXPECT_TRUE(browser_->becomes_true("!document.getElementById('tip').hidden"));
  const std::string tip = text_of("#tip");
  EXPECT_TRUE(contains(tip, "step 40") && contains(tip, "0.9") && contains(tip, "best")) << tip;
  browser_->point_at("[data-chart=loss] svg", 0.5, 0.5);
  EXPECT_TRUE(browser_->becomes_true("document.getElementById('tip').innerText.includes('raw')"));
  browser_->point_at("h1", 0.5, 0.5);
  EXPECT_TRUE(browser_->becomes_true("document.getElementById('tip').hidden"));
}

TEST_F(ReportInBrowser, SmoothingMovesTheLineAndLeavesTheRawValues) {
  open(1, kDesk);
  const char* line = "document.querySelector('[data-chart=loss] .smooth').getAttribute('d')";
  const char* raw = "document.querySelector('[data-chart=loss] .raw').getAttribute('d')";
  const Json before = evaluate(line), raw_before = evaluate(raw);
  EXPECT_NE(before, raw_before);
  const char* slide =
      "(() => { const s = document.querySelector('input[type=range]'); s.value = 0;"
      " s.dispatchEvent(new Event('input')); })()";
  evaluate(slide);
  EXPECT_NE(evaluate(line), before);
  EXPECT_EQ(evaluate(line), evaluate(raw)) << "without smoothing the line is that of the values";
}

TEST_F(ReportInBrowser, RunsAreSelectedSortedAndFiltered) {
  open(76, kDesk);
  const char* shown =
      "new Set([...document.querySelectorAll('#curves .run[data-run]')]"
      ".map(g => g.dataset.run)).size";
  EXPECT_EQ(evaluate(shown), 8);
  EXPECT_TRUE(contains(text_of("#runs tbody tr"), "run-0")) << "the best run comes first";
  evaluate("document.querySelector('#runs tbody input').click()");
  EXPECT_EQ(evaluate(shown), 7);
  evaluate(
      "[...document.querySelectorAll('#runs button')].find(b => b.innerText == 'All').click()");
  EXPECT_EQ(evaluate(shown), 76);
  evaluate(
      "(() => { const f = document.querySelector('input[type=search]'); f.value = 'run-7';"
      " f.dispatchEvent(new Event('input')); })()");
  EXPECT_EQ(count_of("#runs tbody tr"), 7) << "run-7 and run-70 to run-75";
  evaluate("[...document.querySelectorAll('thead .link')].find(b => b.innerText == 'run').click()");
  EXPECT_TRUE(contains(text_of("#runs tbody tr"), "run-7"));
}

TEST_F(ReportInBrowser, AnEvaluationIsDrawn) {
  open(1, kDesk);
  const std::string details = text_of("#details");
  for (const char* part :
       {"Measured on the test part (20 samples) with the saved weights, those after step 40",
        "<b>dog</b>", "Expected calibration error: 6.3 %", "AUC 0.875", "predicted: cat (75.0 %)",
        "true: <b>dog</b>", "2.5 s of training"}) {
    EXPECT_TRUE(contains(details, part)) << part << "\n" << details;
  }
  EXPECT_EQ(count_of(".confusion tbody td"), 4);
  EXPECT_EQ(count_of("[data-chart=calibration] circle"), 2);
  EXPECT_EQ(count_of("[data-chart=roc] .run path"), 1);
  EXPECT_EQ(count_of(".card"), 4);
  EXPECT_EQ(count_of(".card.is-wrong"), 2);
  EXPECT_EQ(evaluate("[...document.querySelector('.card canvas').getContext('2d')"
                     ".getImageData(0, 0, 2, 2).data].filter((_, i) => i % 4 == 0)"),
            Json({0, 128, 255, 128}));
}

TEST_F(ReportInBrowser, APartThatWasChangedByHandLeavesTheOthers) {
  write_run("runs/a", 0);
  write_bytes(at_ / "runs/a/evaluation.json",
              R"({"confusion":{"classes":3},"calibration":[],"roc":[{"auc":"x"}],)"
              R"("predictions":{"examples":[1,null]}})");
  write_run("runs/b", 0);
  write_bytes(at_ / "runs/b/evaluation.json", R"({"predictions":{"values":3}})");
  write_report({at_ / "runs"}, at_ / "report.html");
  browser_->open("file://" + (at_ / "report.html").string(), kDesk, 900);
  EXPECT_EQ(count_of("#curves figure"), 4);
  EXPECT_TRUE(contains(text_of("#details"), "This part cannot be shown"));
  evaluate("[...document.querySelectorAll('#runs tbody .link')][1].click()");
  EXPECT_TRUE(contains(text_of("#details"), "Run b"));
  EXPECT_TRUE(contains(text_of("#details"), "This part cannot be shown"));
}

}  // namespace
}  // namespace taper::v0::runner

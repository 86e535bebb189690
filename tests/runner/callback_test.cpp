// Callbacks that a program adds (tests/runner/own_parts.cpp) and configs name.
#include <nlohmann/json.hpp>

#include "tests/runner/run_process.h"
#include "tests/testing.h"

namespace taper::v0::runner {
namespace {

constexpr const char* kConfig =
    "seed: 3\ndevice: cpu\ndata: {type: digits, train_size: 64, test_size: 16}\n"
    "model: {type: mlp, hidden: [8]}\noptimizer: {type: sgd, lr: 0.1}\n"
    "train: {epochs: 2, batch_size: 16}\n";

class Callback : public ::testing::Test {
 protected:
  Callback() {
    at_.program = TAPER_OWN_PARTS;
    write_bytes(at_ / "plain.yaml", kConfig);
    write_bytes(at_ / "tell.yaml", std::string(kConfig) + "callbacks: [tell]\n");
  }
  RunDirectory::Outcome train(const std::string& config, const std::string& out,
                              const std::string& more = "seed=3") const {
    return at_.taper({"train", config, more, "--out", out});
  }

  RunDirectory at_;
};

TEST_F(Callback, HearsOfARunFromItsStartToItsEnd) {
  const RunDirectory::Outcome told = train("tell.yaml", "told");
  ASSERT_EQ(told.code, 0) << told.err;
  const std::string text = read_bytes(at_ / "told.told");
  EXPECT_EQ(text.rfind("start ", 0), 0u) << text;
  for (const char* part : {"eval 4 test 0.", "eval 8 test 0.", "end 8 after 8 steps: \n"}) {
    EXPECT_NE(text.find(part), std::string::npos) << part << "\nis not in:\n" << text;
  }
  // The numbers are those of a run without callbacks.
  ASSERT_EQ(train("plain.yaml", "alone").code, 0);
  EXPECT_EQ(read_bytes(at_ / "told/metrics.jsonl"), read_bytes(at_ / "alone/metrics.jsonl"));
}

TEST_F(Callback, MayEndARunAndEachOfSeveralIsAsked) {
  const std::string two = "callbacks=[tell: 3, tell: {until: 5}]";
  ASSERT_EQ(train("plain.yaml", "ended", two).code, 0);
  EXPECT_EQ(nlohmann::json::parse(read_bytes(at_ / "ended/exit.json"))["step"], 3);
  EXPECT_NE(read_bytes(at_ / "ended.told").find("end 3 after 3 steps"), std::string::npos);
}

TEST_F(Callback, IsPartOfTheConfigThatARunKeeps) {
  ASSERT_EQ(train("plain.yaml", "kept", "callbacks=[tell: 6]").code, 0);
  const std::string config = read_bytes(at_ / "kept/config.yaml");
  EXPECT_NE(config.find("callbacks:\n  - tell: {until: 6}\n"), std::string::npos) << config;
  EXPECT_EQ(at_.taper({"reproduce", "kept"}).code, 0);
}

TEST_F(Callback, IsKnownToSchemaAndReference) {
  const auto schema = nlohmann::json::parse(at_.taper({"schema"}).out);
  const auto& entries = schema["else"]["properties"]["callbacks"]["items"]["oneOf"];
  EXPECT_EQ(entries[0]["enum"], nlohmann::json({"fail", "tell", "throwing"})) << entries;
  const std::string page = at_.taper({"schema", "--markdown"}).out;
  EXPECT_NE(page.find("| `tell` | `until` |"), std::string::npos);
}

TEST_F(Callback, AMistakeIsRefusedAtItsPlace) {
  const RunDirectory::Outcome typo = train("plain.yaml", "typo", "callbacks=[tel]");
  EXPECT_EQ(typo.code, 2);
  EXPECT_NE(typo.err.find("did you mean 'tell'?"), std::string::npos) << typo.err;
  // The standard program has no callbacks.
  at_.program = TAPER_PROGRAM;
  const RunDirectory::Outcome stock = train("tell.yaml", "stock");
  EXPECT_EQ(stock.code, 2);
  EXPECT_NE(stock.err.find("unknown key 'callbacks'"), std::string::npos) << stock.err;
}

// An exception from a layer, whether it is of Taper or not, is reported with the layer's position
// in the config and in the model. It is thrown before the run has a directory.
TEST_F(Callback, ALayerThatThrowsInTrainingIsNamed) {
  const auto trained = [&](const std::string& layer, const std::string& out) {
    std::string config = kConfig;
    config.erase(config.find("model:"), config.find("optimizer:") - config.find("model:"));
    write_bytes(at_ / "faulty.yaml",
                config + "model:\n  type: sequential\n  layers:\n    - flatten\n    - " + layer +
                    "\n    - linear: 10\n");
    return train("faulty.yaml", out);
  };
  const RunDirectory::Outcome theirs = trained("faulty", "theirs");
  EXPECT_EQ(theirs.code, 70);
  for (const char* part :
       {"taper: faulty.yaml:10:7: an exception of type std::out_of_range from the layer 'faulty', "
        "which is not part of Taper: no such row (in module 1.inner, Faulty)",
        "    - faulty"}) {
    EXPECT_NE(theirs.err.find(part), std::string::npos) << part << "\nis not in:\n" << theirs.err;
  }
  EXPECT_FALSE(std::filesystem::exists(at_ / "theirs"));
  const RunDirectory::Outcome shown = at_.taper({"train", "faulty.yaml", "--validate"});
  EXPECT_NE(shown.err.find("(in module 1.inner, Faulty)"), std::string::npos) << shown.err;
  const RunDirectory::Outcome ours = trained("faulty: {is_ours: true}", "ours");
  EXPECT_EQ(ours.code, 70);
  EXPECT_NE(ours.err.find("an exception of type taper::ValueError from the layer 'faulty', which "
                          "is not part of Taper: no such rows (in module 1.inner)"),
            std::string::npos)
      << ours.err;
}

TEST_F(Callback, OneThatThrowsIsNamed) {
  struct Row {
    const char* callback;
    int code;
    std::string says;
  };
  const Row rows[] = {
      {"at: 3", 70,
       "command line: callbacks=[throwing: {at: 3}]: an exception of type std::runtime_error from "
       "the callback 'throwing', which is not part of Taper: step 3 is odd"},
      {"at: 2, is_error: true", 70,
       "an exception of type taper::ValueError from the callback 'throwing', which is not part of "
       "Taper: step 2 is odd"},
  };
  for (const auto& [callback, code, says] : rows) {
    const RunDirectory::Outcome end =
        train("plain.yaml", "thrown", concat_to_string("callbacks=[throwing: {", callback, "}]"));
    EXPECT_EQ(end.code, code);
    EXPECT_NE(end.err.find(says), std::string::npos) << end.err;
    const auto exit = nlohmann::json::parse(read_bytes(at_ / "thrown/exit.json"));
    EXPECT_NE(std::string(exit["reason"]).find("the callback 'throwing'"), std::string::npos);
  }
}

}  // namespace
}  // namespace taper::v0::runner

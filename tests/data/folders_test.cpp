// All readers of folders follow the same rules: links, loops, hidden files, parts of names, reports
// of files left out.
#include "data/folders.h"

#include <filesystem>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "data/images/image_files.h"
#include "data/images/image_source.h"
#include "data/text/text_dataset.h"
#include "data/text/text_folder.h"
#include "framework/factory/factories.h"
#include "tests/data_files.h"
#include "tests/text.h"

namespace taper::v0::data {
namespace {

namespace fs = std::filesystem;
using Names = std::vector<std::string>;

class FolderRules : public DataFiles {
 protected:
  void put(const Names& names) const {
    for (const std::string& name : names) write(name, "x");
  }
  // Writes images of 2x2 pixels under the names of PNG files, and other files as put() does.
  void put_images(const Names& names) const {
    put(names);
    for (const std::string& name : names) {
      if (!name.ends_with(".png")) continue;
      write_png(zeros({3, 2, 2}, {.dtype = kUInt8}), directory_ / name);
    }
  }
  void link(const std::string& to, const std::string& name) const {
    fs::create_symlink(to, directory_ / name);
  }
  Names below(const std::vector<fs::path>& files, const std::string& folder = "") const {
    Names out;
    for (const fs::path& file : files) out.push_back(file.lexically_relative(directory_ / folder));
    return out;
  }
  Images images(const std::string& root) const {
    Images out;
    out.path = directory_ / root;
    out.split = {.validation = "0", .test = "0.5", .seed = 1};
    return out;
  }
};

bool takes_png(const fs::path& file) { return file.extension() == ".png"; }

TEST_F(FolderRules, LinksAreFollowedOncePerRealPath) {
  put({"set/real/1.png", "set/2.png", "store/3.png", "store/deep/4.png"});
  link("../store", "set/a_link");
  link("../store", "set/b_link");  // the same folder
  link("real", "set/c_link");      // already read under its own name
  link("..", "set/up");            // a loop
  link(".", "set/real/here");
  link("../../set", "store/deep/back");
  link("../../store/3.png", "set/real/file.png");
  const FolderListing found = files_below(directory_ / "set", takes_png);
  EXPECT_EQ(below(found.files, "set"),
            (Names{"2.png", "a_link/3.png", "a_link/deep/4.png", "real/1.png", "real/file.png"}));
  EXPECT_EQ(found.left_out.to_text(), "left out: 5 repeated folder links");
}

TEST_F(FolderRules, WhatIsLeftOutIsCountedByItsKind) {
  put({"set/1.png", "set/a.webp", "set/b.WEBP", "set/c.txt", "set/deep/d.webp", "set/README",
       "set/.hidden", "set/.git/e.png"});
  link("nowhere", "set/broken");
  const FolderListing found = files_below(directory_ / "set", takes_png);
  EXPECT_EQ(below(found.files), Names{"set/1.png"});
  EXPECT_EQ(found.left_out.to_text(),
            "left out: 3 .webp, 2 hidden, 1 .txt, 1 broken link, 1 extensionless file");
  EXPECT_THROW(files_below(directory_ / "none", takes_png), InputError);
  EXPECT_THROW(files_below(directory_ / "set/1.png", takes_png), InputError);
}

TEST_F(FolderRules, APictureInALinkedFolderIsASampleOfItsClass) {
  put({"set/a/1.png", "set/a/2.gif", "set/deep/real/1.png", "store/2.png", "store/3.bmp"});
  link("../../store", "set/deep/inner");
  link("../store", "set/linked");  // becomes a class
  link("..", "set/loop");
  write("set/loose.png", "x");
  const ImageFolder set(directory_ / "set");
  EXPECT_EQ(set.classes(), (Names{"a", "deep", "linked"}));
  EXPECT_EQ(set.targets().to_vector<int64_t>(), (std::vector<int64_t>{0, 1, 1, 2}));
  EXPECT_EQ(set.left_out().to_text(),
            "left out: 2 .bmp, 1 .gif, 1 repeated folder link, 1 unlabeled image");
}

#ifdef TAPER_WITH_IMAGES

TEST_F(FolderRules, OfARootTrainAndTestAreTheParts) {
  const struct {
    Names folders;
    std::string note;
    Names classes;
    int64_t train, test;
    bool has_validation = false;
  } rows[] = {
      {{"train", "val", "test"},
       "train/ to train, test/ to test, not used: val/",
       {"a", "b"},
       2,
       3},
      {{"train", "val", "test"},
       "train/ to train, val/ to validate, test/ to test",
       {"a", "b"},
       2,
       3,
       true},
      {{"train", "test", "raw"},
       "train/ to train, test/ to test, not used: raw/",
       {"a", "b"},
       2,
       3},
      {{"train", "val"}, "train/ to train, val/ to test", {"a", "b"}, 2, 3},
      {{"train", "valid"}, "train/ to train, valid/ to test", {"a", "b"}, 2, 3},
      {{"train", "validation"}, "train/ to train, validation/ to test", {"a", "b"}, 2, 3},
      {{"train", "bus"}, "", {"bus", "train"}, 3, 2},
      {{"val", "test"}, "", {"test", "val"}, 3, 3},
  };
  for (const auto& row : rows) {
    fs::remove_all(directory_ / "set");
    for (const std::string& part : row.folders) {
      put_images(
          {concat_to_string("set/", part, "/a/1.png"), concat_to_string("set/", part, "/b/2.png")});
      if (part != "train") put_images({concat_to_string("set/", part, "/b/3.png")});
    }
    Images config = images("set");
    const bool has_parts = !row.note.empty();
    if (has_parts) config.split.test.reset();
    if (row.has_validation) config.split.validation.reset();
    const Splits data = config.load(1);
    EXPECT_EQ(contains(data.report, "parts: " + row.note + "\n"), has_parts) << data.report;
    EXPECT_EQ(data.class_names, row.classes) << row.note;
    EXPECT_EQ(data.train->size(), row.train) << row.note;
    EXPECT_EQ(data.test->size(), row.test) << row.note;
    EXPECT_EQ(data.validation != nullptr, row.has_validation) << row.note;
    EXPECT_EQ(data.validation ? data.validation->size() : 0, row.has_validation ? 3 : 0);
    EXPECT_EQ(config.files().size(), has_parts ? 2u + row.has_validation : 1u) << row.note;
    EXPECT_EQ(config.more(data, config.path)->size(), has_parts ? row.test : row.train + row.test);
  }
}

TEST_F(FolderRules, ATestFolderInTheConfigGoesBeforeTheRootsOwnTest) {
  put_images({"set/train/a/1.png", "set/train/b/2.png", "set/test/a/3.png", "set/test/b/4.png",
              "other/a/5.png", "other/b/6.png", "other/b/7.png", "other/b/8.tif"});
  Images config = images("set");
  config.split.test = directory_ / "other";
  const Splits data = config.load(1);
  EXPECT_EQ(data.train->size(), 2);
  EXPECT_EQ(data.test->size(), 3);
  EXPECT_TRUE(contains(data.report, "left out: 1 .tif")) << data.report;
  EXPECT_TRUE(contains(data.report, "parts: train/ to train, not used: test/\n")) << data.report;
  config.path = *config.split.test;  // all images of the root are also the test set
  EXPECT_EQ(config.load(1).test->size(), 3);
  put_images({"other/c/9.png"});
  config.path = directory_ / "set";
  EXPECT_TRUE(contains(refusal_of<InputError>([&] { (void)config.load(1); }),
                       "other: class 'c' is not one of the 2 classes of the training images"));
}

TEST_F(FolderRules, ANameThatIsNoUtf8IsShownEscaped) {
  put_images({"set/a/1.png", "set/caf\xe9/2.png", "set/back\\slash/3.png", "test/a/4.png",
              "test/caf\xe9/5.png", "test/back\\slash/6.png"});
  EXPECT_EQ(name_of("caf\xe9\\\xc3\xa9"), "caf\\xe9\\\\\xc3\xa9");
  Images config = images("set");
  config.split.test = directory_ / "test";
  const Splits data = config.load(1);
  EXPECT_EQ(data.class_names, (Names{"a", "back\\slash", "caf\\xe9"}));
  EXPECT_EQ(data.test->size(), 3);
  put_images({"set/caf\\xe9/7.png"});
  EXPECT_NE(refusal_of<InputError>([&] {
              (void)config.load(1);
            }).find("set: two class folders are shown as 'caf\\xe9'"),
            std::string::npos);
}

#endif

TEST_F(FolderRules, TextsFollowTheSameRule) {
  put({"texts/a.txt", "texts/.b.txt", "texts/.git/c.txt", "store/d.md"});
  link("../store", "texts/linked");
  link("..", "texts/up");
  link("gone", "texts/broken");
  const FolderListing found = list_texts(directory_ / "texts");
  EXPECT_EQ(below(found.files, "texts"), (Names{"a.txt", "linked/d.md"}));
  EXPECT_EQ(found.left_out.to_text(), "left out: 2 hidden, 1 broken link, 1 repeated folder link");
  EXPECT_EQ(read_texts(directory_ / "texts"), "xx");
}

TEST_F(FolderRules, ATextBesideTheFoldersOfClassesHasNoLabel) {
  put({"classes/a/1.txt", "classes/b/2.txt", "classes/3.txt", "classes/4.txt", "classes/5.md"});
  const RawTable table = read_text_folders({directory_ / "classes"});
  EXPECT_EQ(table.rows, 2);
  EXPECT_EQ(table.notes, (Names{"left out: 2 unlabeled texts, 1 .md"}));
}

}  // namespace
}  // namespace taper::v0::data

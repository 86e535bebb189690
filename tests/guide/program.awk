# Generates one C++ source of tests from the blocks of Markdown pages: awk -f program.awk docs/*.md
#
# Each page becomes a test, which runs the page's blocks in order, in a folder of its own:
#   // name.cpp     a block whose first line names a file is written to that file
#   ```cpp          is compiled and run: definitions of types and functions at column 0 go to namespace
#                   scope, `main` is called, and all other lines go to the body of a function
#   ```sh           is run by sh -e; with `exit=2` after the language, the expected exit code is 2
#   ```yaml         without a file name: a part of a config, which is merged into configs/digits.yaml
#   ```text         is the expected output of the previous block. "..." matches any part of a line; a
#                   line "..." matches any number of lines. With `close` after the language, decimal
#                   numbers may differ by a quarter, and amounts of time and memory are not compared
# With `needs=NAME` after the language, the rest of a section is skipped if NAME is missing (page.h). A
# block with `untested` is not run. Each section (##) is a scope of its own, which also sees the types and
# functions defined before the first section.

function fail(line, what) {
  printf "%s:%d: %s\n", FILENAME, line, what > "/dev/stderr"
  failed = 1
  exit 1
}

function raw(text) { return "R\"~~~(" text ")~~~\"" }

function begin_section() { declarations = body = "" }
function end_section() {
  if (section == 0) {
    out = out declarations
    declarations = ""
  }
  if (body != "") {
    out = out "namespace s" section " {\n" declarations "void run(Page& page) {\n" body "}\n}\n"
    runs = runs "  if (!page.run(guide_" name "::s" section "::run)) return;\n"
  }
  ++section
  begin_section()
}

function begin_page() {
  path = FILENAME
  name = path
  gsub(/^.*\/|\.md$/, "", name)
  gsub(/[^A-Za-z0-9_]/, "_", name)
  section = 0
  last = runs = ""
  out = out "namespace guide_" name " {\n"
  begin_section()
}
function end_page() {
  end_section()
  out = out "}\n"
  if (runs != "") out = out "TEST(Guide, " name ") {\n  Page page(\"" path "\");\n" runs "}\n"
  out = out "\n"
}

function is_declaration(line) {
  if (line ~ /^(struct|class|enum|template|namespace|using|static|inline|constexpr|TEST)/) return 1
  return line ~ /^[A-Za-z][A-Za-z0-9_:<>&*, ]* [A-Za-z_0-9]+\([^[=]*\) (const )?\{/ &&
         line !~ /^(for|if|while|else|switch|return)/
}
function balance(line,  opened, closed) {
  opened = gsub(/\{/, "{", line)
  closed = gsub(/\}/, "}", line)
  return opened - closed
}

# Adds a block of C++: lines 1 to count of `lines`, which follow line `start` of the page.
function add_cpp(start,  i, depth, in_declaration, line, at, call) {
  depth = in_declaration = 0
  body = body "page.begin(" start ");\n"
  for (i = 1; i <= count; ++i) {
    line = lines[i]
    at = "#line " (start + i) " \"" path "\"\n"
    if (line ~ /^#include/) {
      includes = includes line "\n"
      continue
    }
    if (!in_declaration && is_declaration(line)) in_declaration = 1
    if (in_declaration) {
      if (sub(/^int main\(\) \{/, "void program() {", line)) call = 1
      declarations = declarations at line "\n"
      depth += balance(line)
      if (depth == 0 && line ~ /[;}]( *\/\/.*)?$/) in_declaration = 0
    } else {
      body = body at line "\n"
    }
  }
  if (call) body = body "program();\n"
  body = body "page.end();\n"
}

function joined(  i, text) {
  for (i = 1; i <= count; ++i) text = text lines[i] "\n"
  return text
}

# Returns the file name in a block's first line ("// net.cpp", "# run.yaml"), or "".
function file_name() {
  if (lines[1] ~ /^(\/\/|#) [A-Za-z0-9_.\/]+\.[a-z]+$/) return substr(lines[1], index(lines[1], " ") + 1)
  if (lines[1] ~ /^# CMakeLists.txt$/) return "CMakeLists.txt"
  return ""
}

function end_block(start, info,  words, n, i, language, status, needs, file, numbers) {
  n = split(info, words, " ")
  language = words[1]
  status = 0
  needs = ""
  numbers = ""
  for (i = 2; i <= n; ++i) {
    if (words[i] == "untested") {
      last = ""
      return
    } else if (words[i] == "close") {
      numbers = ", Numbers::kClose"
    } else if (words[i] ~ /^exit=/) {
      status = substr(words[i], 6)
    } else if (words[i] ~ /^needs=/) {
      needs = substr(words[i], 7)
    } else {
      fail(start, "unknown word '" words[i] "' after the language of a block")
    }
  }
  if (needs != "") body = body "if (!page.has(" start ", \"" needs "\")) return;\n"
  file = file_name()
  if (file != "" && language != "text") {
    body = body "page.file(\"" file "\", " raw(joined()) ");\n"
    last = ""
  } else if (language == "cpp") {
    add_cpp(start)
    last = "cpp"
  } else if (language == "sh") {
    body = body "page.shell(" start ", " raw(joined()) ", " status ");\n"
    last = "sh"
  } else if (language == "yaml") {
    body = body "page.config(" start ", " raw(joined()) ");\n"
    last = ""
  } else if (language == "text") {
    if (last == "") fail(start, "a `text` block must follow a `cpp` or `sh` block")
    body = body "page.printed(" start ", " raw(joined()) numbers ");\n"
  } else {
    fail(start, "unknown language '" language "': expected cpp, sh, yaml or text, or a block with a file name")
  }
}

FNR == 1 {
  if (NR > 1) end_page()
  begin_page()
}
/^```/ {
  if (fence) {
    fence = 0
    end_block(fence_start, fence_info)
  } else {
    fence = 1
    fence_start = FNR
    fence_info = substr($0, 4)
    count = 0
    if (fence_info == "") fail(FNR, "a block without a language")
  }
  next
}
fence { lines[++count] = $0; next }
/^## / { end_section() }

END {
  if (failed) exit 1
  end_page()
  print "#include <gtest/gtest.h>\n#include <taper/runner.h>\n#include <taper/taper.h>"
  print "#include <taper/testing.h>\n#include \"tests/guide/page.h\""
  print includes
  print "namespace taper::guide {\n" out "}"
}

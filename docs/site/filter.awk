# What Doxygen reads: comments of headers as its own kind, pages with the names that it gives them.

# A header's comments are contracts: "// text" before a declaration, or behind a member.
# Names are written without the version's namespace.
FILENAME ~ /\.h$/ && /^namespace taper::v0/ { sub(/::v0/, "") }
FILENAME ~ /\.h$/ && /^#pragma once/ {
  print "/// @file"
  next
}
FILENAME ~ /\.h$/ && /^ *\/\/( |$)/ && !/^ *\/\/ ---/ {
  match($0, /\/\//)
  indent = substr($0, 1, RSTART - 1)
  text = substr($0, RSTART + 2)
  if (text ~ /^   /) {
    text = "    " text                            # code: Markdown wants four blanks
  } else {
    gsub(/[\\@#<>%]/, "\\\\&", text)
  }
  print indent "///" text
  next
}
FILENAME ~ /\.h$/ && /[;,{}] +\/\/ / && !/"/ {
  match($0, /[;,{}] +\/\/ /)
  text = substr($0, RSTART + RLENGTH)
  gsub(/[\\@#<>%]/, "\\\\&", text)
  print substr($0, 1, RSTART) "  ///< " text
  next
}
FILENAME ~ /\.h$/ {
  print
  next
}

# Pages. The words after a block's language are for the test. Doxygen does not give headings the names
# that GitHub gives them, so each gets a label, and links to `page.md#heading` become references to it.
# An unknown heading is then a warning.
function path_in_docs(path) {
  while (sub(/[^\/]+\/\.\.\//, "", path)) {}
  if (!sub(/^(.*\/)?docs\//, "docs_", path)) sub(/^.*\//, "", path)
  return path
}
function label(path, heading) {
  sub(/\.md$/, "", path)
  gsub(/[^A-Za-z0-9_]/, "_", path)
  return path "-" heading
}
function with_labels(line,  out, target, page, heading) {
  while (match(line, /\]\([A-Za-z0-9_.\/-]*#[a-z0-9_-]+\)/)) {
    target = substr(line, RSTART + 2, RLENGTH - 3)
    page = substr(target, 1, index(target, "#") - 1)
    heading = substr(target, index(target, "#") + 1)
    target = FILENAME
    if (page != "") sub(/[^\/]*$/, "", target)
    out = out substr(line, 1, RSTART - 1) "](@ref " label(path_in_docs(target page), heading) ")"
    line = substr(line, RSTART + RLENGTH)
  }
  return out line
}
/^```/ { in_block = !in_block }
/^```[a-z]/ {
  print "```" (/^```cpp/ ? "{.cpp}" : /^```sh/ ? "{.sh}" : "")
  next
}
!in_block && /^###* / {
  heading = tolower($0)
  sub(/^#+ /, "", heading)
  gsub(/[^a-z0-9 _-]/, "", heading)
  gsub(/ /, "-", heading)
  print with_labels($0) " {#" label(path_in_docs(FILENAME), heading) "}"
  next
}
!in_block { $0 = with_labels($0) }
{ print }

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

# Pages: the words behind a block's language are for the test.
/^```[a-z]/ {
  print "```" (/^```cpp/ ? "{.cpp}" : /^```sh/ ? "{.sh}" : "")
  next
}
{ print }

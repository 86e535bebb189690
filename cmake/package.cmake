# CPack: a .deb and a .tar.gz of the installed files (scripts/package.sh).
set(name taper)
set(other taper-cuda)
if(taper_has_cuda)
  set(name taper-cuda)
  set(other taper)
endif()
set(CPACK_PACKAGE_NAME ${name})
set(CPACK_PACKAGE_VENDOR "Taper")
set(TAPER_PACKAGE_CONTACT "Taper maintainers <maintainers@taper.dev>" CACHE STRING
  "Who answers for the packages that are made here: Name <mail>")
set(CPACK_PACKAGE_CONTACT "${TAPER_PACKAGE_CONTACT}")
set(CPACK_PACKAGE_DESCRIPTION_SUMMARY "C++ library and program that train neural networks")
set(CPACK_PACKAGE_FILE_NAME ${name}-${PROJECT_VERSION}-${CMAKE_SYSTEM_NAME}-${CMAKE_SYSTEM_PROCESSOR})
set(CPACK_STRIP_FILES ON)
set(CPACK_GENERATOR DEB TGZ)

set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_PACKAGE_SECTION libdevel)
set(CPACK_DEBIAN_PACKAGE_PRIORITY optional)
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS ON)
# Programs that link taper::runner also link zlib.
set(CPACK_DEBIAN_PACKAGE_DEPENDS zlib1g-dev)
# LAPACK is loaded on first use.
set(CPACK_DEBIAN_PACKAGE_RECOMMENDS
  "g++, cmake, ninja-build, pkg-config, libopenblas0-pthread | liblapack.so.3, libsentencepiece0")
set(CPACK_DEBIAN_PACKAGE_CONFLICTS ${other})
set(CPACK_DEBIAN_PACKAGE_REPLACES ${other})
set(CPACK_DEBIAN_PACKAGE_CONTROL_STRICT_PERMISSION ON)
if(taper_has_cuda)
  set(CPACK_DEBIAN_PACKAGE_PROVIDES "taper (= ${PROJECT_VERSION})")
  # Loaded on first use and available in NVIDIA's repository, so the package does not depend on them.
  set(CPACK_DEBIAN_PACKAGE_SUGGESTS
    "libcublas-${CUDAToolkit_VERSION_MAJOR}-${CUDAToolkit_VERSION_MINOR}, libcusolver-${CUDAToolkit_VERSION_MAJOR}-${CUDAToolkit_VERSION_MINOR}, libcudnn9-cuda-${CUDAToolkit_VERSION_MAJOR}, libnccl2")
endif()
set(CPACK_DEBIAN_PACKAGE_DESCRIPTION
"Taper speaks PyTorch's language in C++: tensors with automatic
differentiation, layers, optimizers and data sets. The program taper trains
from one YAML file, on the CPU or on GPUs. This package has the program, the
libraries and what is needed to build programs on them.")
set(CPACK_DEBIAN_PACKAGE_GENERATE_SHLIBS ON)
set(CPACK_DEBIAN_PACKAGE_CONTROL_EXTRA ${PROJECT_SOURCE_DIR}/packaging/debian/triggers)

# Further files that Debian's policy requires.
foreach(file copyright changelog)
  configure_file(packaging/debian/${file} debian/${file} @ONLY)
endforeach()
execute_process(COMMAND gzip -9nkf ${PROJECT_BINARY_DIR}/debian/changelog)
install(FILES ${PROJECT_BINARY_DIR}/debian/copyright ${PROJECT_BINARY_DIR}/debian/changelog.gz
  DESTINATION ${CMAKE_INSTALL_DATAROOTDIR}/doc/${name} OPTIONAL)
# The guide has the same folder in both packages, of which only one can be installed.
set(guide ${CMAKE_INSTALL_DATAROOTDIR}/doc/taper)
install(DIRECTORY docs/ DESTINATION ${guide}/guide
  FILES_MATCHING PATTERN *.md PATTERN site EXCLUDE)
# Files that pages of the guide refer to.
install(DIRECTORY apps/examples DESTINATION ${guide}/apps)
install(FILES testing/example_test.cpp DESTINATION ${guide}/testing)
include(CPack)

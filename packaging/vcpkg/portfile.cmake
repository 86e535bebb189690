# An overlay port: vcpkg install taper --overlay-ports=packaging/vcpkg
# It builds the checkout that it lies in.
get_filename_component(SOURCE_PATH "${CMAKE_CURRENT_LIST_DIR}/../.." ABSOLUTE)
vcpkg_check_features(OUT_FEATURE_OPTIONS options FEATURES
  runner TAPER_DATA
  runner TAPER_RUNNER
  runner TAPER_APPS
  cuda TAPER_CUDA)
vcpkg_cmake_configure(SOURCE_PATH "${SOURCE_PATH}" OPTIONS ${options}
  -DTAPER_TESTS=OFF -DTAPER_HTTP=OFF -DTAPER_MPI=OFF -DTAPER_NCCL=OFF)
vcpkg_cmake_install()
vcpkg_cmake_config_fixup(CONFIG_PATH lib/cmake/taper)
vcpkg_fixup_pkgconfig()
vcpkg_copy_pdbs()
if("runner" IN_LIST FEATURES)
  vcpkg_copy_tools(TOOL_NAMES taper AUTO_CLEAN)
endif()
file(REMOVE_RECURSE "${CURRENT_PACKAGES_DIR}/debug/include" "${CURRENT_PACKAGES_DIR}/debug/share")
vcpkg_install_copyright(FILE_LIST "${SOURCE_PATH}/LICENSE")

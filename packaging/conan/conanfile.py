"""Taper for Conan 2: conan create packaging/conan --build=missing (-o with_runner=False: the library alone)."""

import os

from conan import ConanFile
from conan.tools.build import check_min_cppstd
from conan.tools.cmake import CMake, CMakeDeps, CMakeToolchain, cmake_layout
from conan.tools.files import copy

ROOT = os.path.join(os.path.dirname(__file__), "..", "..")


class Taper(ConanFile):
    name = "taper"
    version = "0.1.0"
    license = "Apache-2.0"
    description = "C++ library and program that train neural networks"
    package_type = "library"
    settings = "os", "arch", "compiler", "build_type"
    options = {"shared": [True, False], "with_runner": [True, False], "with_cuda": [True, False]}
    default_options = {"shared": False, "with_runner": True, "with_cuda": False}

    def export_sources(self):
        for part in ("CMakeLists.txt", "LICENSE", "taper.h", "apps/*", "autograd/*", "cmake/*",
                     "data/*", "framework/*", "modules/*", "optim/*", "packaging/*", "testing/*"):
            copy(self, part, ROOT, self.export_sources_folder)

    def layout(self):
        cmake_layout(self)

    def validate(self):
        check_min_cppstd(self, 20)

    def requirements(self):
        self.requires("onednn/[>=2.6 <4]")
        self.requires("libzip/[>=1.7 <2]")
        self.requires("dlpack/[>=0.6 <2]", visible=False)
        self.requires("nlohmann_json/[>=3.11 <4]", visible=False)
        if self.options.with_runner:
            self.requires("zlib/[>=1.2 <2]")
            self.requires("zstd/[>=1.4 <2]")
            self.requires("utf8proc/[>=2.7 <3]")
            self.requires("libpng/[>=1.6 <2]")
            self.requires("libjpeg-turbo/[>=2.1 <4]")
            for private in ("cli11/[>=2.1 <3]", "fmt/[>=9 <12]", "spdlog/[>=1.10 <2]",
                            "yaml-cpp/[>=0.7 <1]"):
                self.requires(private, visible=False)

    def generate(self):
        runner = bool(self.options.with_runner)
        toolchain = CMakeToolchain(self)
        for option in ("TAPER_DATA", "TAPER_RUNNER", "TAPER_APPS"):
            toolchain.variables[option] = runner
        toolchain.variables["TAPER_CUDA"] = "ON" if self.options.with_cuda else "OFF"
        for option in ("TAPER_TESTS", "TAPER_HTTP", "TAPER_MPI", "TAPER_NCCL"):
            toolchain.variables[option] = "OFF"
        toolchain.generate()
        CMakeDeps(self).generate()

    def build(self):
        cmake = CMake(self)
        cmake.configure()
        cmake.build()

    def package(self):
        copy(self, "LICENSE", self.source_folder, os.path.join(self.package_folder, "licenses"))
        CMake(self).install()

    def package_info(self):
        # Its own CMake files say what each target needs.
        self.cpp_info.set_property("cmake_find_mode", "none")
        self.cpp_info.builddirs.append(os.path.join("lib", "cmake", "taper"))

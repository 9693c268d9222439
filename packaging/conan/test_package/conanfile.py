"""Builds and runs the user's project of test/package with the package."""

import os

from conan import ConanFile
from conan.tools.build import can_run
from conan.tools.cmake import CMake, cmake_layout


class AtbusTest(ConanFile):
    settings = "os", "arch", "compiler", "build_type"
    generators = "CMakeDeps", "CMakeToolchain"

    def requirements(self):
        self.requires(self.tested_reference_str)

    def layout(self):
        cmake_layout(self)

    def build(self):
        cmake = CMake(self)
        cmake.configure(build_script_folder=os.path.join(self.recipe_folder, "..", "..", "..", "test", "package"))
        cmake.build()

    def test(self):
        if can_run(self):
            for program in ("atbus_user", "atbus_user_test"):
                self.run(os.path.join(self.build_folder, program), env="conanrun")

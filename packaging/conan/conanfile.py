"""The recipe for Conan 2: `conan create packaging/conan --build=missing`, in the folder of the sources."""

import os
import re

from conan import ConanFile
from conan.tools.build import check_min_cppstd
from conan.tools.cmake import CMake, CMakeToolchain, cmake_layout
from conan.tools.files import copy, load, rmdir
from conan.tools.gnu import PkgConfigDeps

required_conan_version = ">=2.0"


class Atbus(ConanFile):
    name = "atbus"
    description = "Message bus: processes send each other messages by 64-bit id"
    license = "MIT"
    topics = ("message-bus", "shared-memory", "ipc", "tls")
    package_type = "library"
    settings = "os", "arch", "compiler", "build_type"
    options = {"shared": [True, False], "fPIC": [True, False]}
    default_options = {"shared": False, "fPIC": True}
    implements = ["auto_shared_fpic"]

    @property
    def _sources(self):
        return os.path.join(self.recipe_folder, "..", "..")

    def set_version(self):
        text = load(self, os.path.join(self._sources, "CMakeLists.txt"))
        self.version = re.search(r"VERSION (\d+\.\d+\.\d+)", text)[1]

    def export_sources(self):
        for part in ("CMakeLists.txt", "LICENSE", "cmake/*", "src/*", "include/*", "bindings/c/*"):
            copy(self, part, self._sources, self.export_sources_folder)

    def layout(self):
        cmake_layout(self)

    def requirements(self):
        self.requires("libuv/[>=1.43 <2]")
        self.requires("openssl/[>=3 <4]")
        self.requires("msgpack-cxx/[>=4]", visible=False)
        self.requires("tomlplusplus/[>=3 <4]", visible=False)

    def validate(self):
        check_min_cppstd(self, 20)

    def build_requirements(self):
        self.tool_requires("cmake/[>=3.22]")
        self.tool_requires("pkgconf/[>=2]")

    def generate(self):
        toolchain = CMakeToolchain(self)
        for part in ("TESTS", "TOOLS", "SAMPLES", "HTTP", "NATS", "DISCOVERY"):
            toolchain.variables[f"ATBUS_BUILD_{part}"] = False
        toolchain.generate()
        PkgConfigDeps(self).generate()

    def build(self):
        cmake = CMake(self)
        cmake.configure()
        cmake.build()

    def package(self):
        CMake(self).install()
        copy(self, "LICENSE", self.source_folder, os.path.join(self.package_folder, "licenses"))
        # Conan writes these for the generators of each consumer.
        rmdir(self, os.path.join(self.package_folder, "lib", "cmake"))
        rmdir(self, os.path.join(self.package_folder, "lib", "pkgconfig"))
        rmdir(self, os.path.join(self.package_folder, "share"))

    def package_info(self):
        needed = [f"{dependency.ref.name}::{dependency.ref.name}" for dependency in self._found()]
        self.cpp_info.set_property("cmake_file_name", "atbus")
        core = self.cpp_info.components["atbus"]
        core.set_property("cmake_target_name", "atbus::atbus")
        core.set_property("pkg_config_name", "atbus")
        core.libs = ["atbus"]
        core.requires = needed
        # What the system has in place of packages of Conan.
        core.system_libs = ["pthread"] + [
            library
            for name, libraries in (("libuv", ["uv"]), ("openssl", ["ssl", "crypto"]))
            if f"{name}::{name}" not in needed and not self.options.shared
            for library in libraries
        ]
        if not self.options.shared:
            core.defines = ["ATBUS_STATIC=1"]
        testing = self.cpp_info.components["testing"]
        testing.set_property("cmake_target_name", "atbus::testing")
        testing.set_property("pkg_config_name", "atbus-testing")
        testing.libs = ["atbus_testing"]
        testing.requires = ["atbus"]
        c = self.cpp_info.components["c"]
        c.set_property("cmake_target_name", "atbus::c")
        c.set_property("pkg_config_name", "atbus_c")
        c.libs = ["atbus_c"]
        c.requires = needed

    def _found(self):
        return [one for one in self.dependencies.host.values() if one.ref.name in ("libuv", "openssl")]

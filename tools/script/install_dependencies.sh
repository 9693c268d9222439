#!/usr/bin/env bash
# Installs what atbus is built with, and nothing that is there already. With nothing missing it
# changes nothing and does not touch the network.
#
# usage: install_dependencies.sh [--with-dev] [--languages] [--all] [--aarch64]
#   --with-dev  also what .ci/run needs: Clang, clang-format, clang-tidy, libFuzzer, Spin, git,
#               Doxygen
#   --languages also Python, Lua and Go
#   --all       all of these, the cache servers that `atbus bench cache` compares with, promtool, Chromium,
#               and what makes and tests Debian packages
#   --aarch64   also what the preset aarch64 needs: a cross-compiler, an emulator and libraries
set -euo pipefail
# shellcheck source=tools/script/common.sh
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"

# Each line: what it is | the check that says it is there | apt packages, the first known is taken |
# what it is for. Checks ask for the thing itself, not for a package, because it may have come from
# elsewhere.
required='
C++ compiler, GCC 12 or Clang 14|has_compiler|COMPILER|builds everything
CMake 3.22|has_cmake|cmake|builds everything
Ninja|has_command ninja|ninja-build|builds everything
pkg-config|has_command pkg-config|pkg-config pkgconf|finds libuv, OpenSSL
libuv 1.43|has_library libuv 1.43|libuv1-dev|event loop of the library
OpenSSL 3|has_library libssl 3.0|libssl-dev|nodes prove who they are, and encrypt TCP
msgpack-c, its C++ headers|has_header msgpack/null_visitor.hpp|libmsgpack-cxx-dev libmsgpack-dev|control messages of nodes
toml++ 3, its headers|has_header toml++/toml.h|libtomlplusplus-dev|directory of nodes
GoogleTest|has_library gtest_main 1.11|libgtest-dev|tests
CLI11|has_library CLI11 2.1|libcli11-dev|command line of atbus
fmt|has_library fmt 8.1|libfmt-dev|tables of atbus
libpcap 1.10|has_library libpcap 1.10|libpcap-dev|recordings of atbus
nlohmann-json 3.10|has_library nlohmann_json 3.10|nlohmann-json3-dev|JSON of atbus
libmicrohttpd 0.9.72|has_library libmicrohttpd 0.9.72|libmicrohttpd-dev|status server
prometheus-cpp 1.0|has_library prometheus-cpp-core 1.0|prometheus-cpp-dev|metrics of the status server
jq|has_command jq|jq|reads the JSON of atbus in startup_benchmark_shm.sh
'
required_dev='
Clang 14|has_command clang++-14|clang-14|second compiler, ThreadSanitizer
LLVM symbolizer|has_command llvm-symbolizer-14|llvm-14|readable sanitizer reports
libFuzzer|has_libfuzzer|libclang-rt-14-dev libclang-common-14-dev|fuzz targets
clang-format 14|has_command clang-format-14|clang-format-14|format check
clang-tidy 14|has_command clang-tidy-14|clang-tidy-14|static checks
git|has_command git|git|lists the files to check
Spin|has_command spin|spin|model checker
Doxygen 1.9.4|has_doxygen|doxygen|reference pages
'
# What is left out where it is not there: allocators that `atbus bench pool` compares with, nats:// addresses, and
# discovery by etcd and DNS. Older systems have no libnats and libcurl, or ones that are too old.
optional='
libnats 3.4|has_library libnats 3.4|libnats-dev|links through NATS servers
nats-server|has_nats_server|nats-server|tests of links through NATS servers
libcurl 7.85|has_library libcurl 7.85|libcurl4-openssl-dev|discovery by etcd and DNS
c-ares 1.17|has_library libcares 1.17|libc-ares-dev|discovery by etcd and DNS
etcd|has_command etcd|etcd-server etcd|tests of discovery by etcd
nsd|has_nsd|nsd|tests of discovery by DNS
jemalloc|has_shared_library libjemalloc.so.2|libjemalloc2|atbus bench pool
mimalloc|has_shared_library libmimalloc.so|libmimalloc3 libmimalloc2.0|atbus bench pool
tcmalloc|has_shared_library libtcmalloc_minimal.so.4|libtcmalloc-minimal4t64 libtcmalloc-minimal4|atbus bench pool
'
# With --languages and --all only.
optional_languages='
Python 3.9 with headers|has_python|python3-dev|the Python module
Python environments|has_python_venv|python3-venv|tests of the Python module
Lua 5.4|has_command lua5.4|lua5.4|tests of the Lua module
Lua 5.4, its headers|has_library lua5.4 5.4|liblua5.4-dev|the Lua module
LuaJIT|has_command luajit|luajit|tests of the Lua module
LuaJIT, its headers|has_library luajit 2.0|libluajit-5.1-dev|the Lua module
Go 1.19|has_go|golang-go|the Go package
GCC, for Go|has_command gcc|gcc|tests of the Go package
'
# With --all only: servers that `atbus bench cache` starts and compares with, what checks metrics, packages, pages.
optional_all='
memcached|has_command memcached|memcached|atbus bench cache
Redis|has_command redis-server|redis-server|atbus bench cache
promtool|has_command promtool|prometheus|check of the metrics
dpkg-shlibdeps|has_command dpkg-shlibdeps|dpkg-dev|Debian packages
help2man|has_command help2man|help2man|man pages of the Debian packages
man|has_command man|man-db|tests of the man pages
mmdebstrap|has_command mmdebstrap|mmdebstrap|tests of the Debian packages
Buildah|has_command buildah|buildah|tests of the container
lintian|has_command lintian|lintian|tests of the Debian packages
Chromium|has_command chromium|chromium chromium-browser|tests of the status page
Chromedriver|has_command chromedriver|chromium-driver chromium-chromedriver|tests of the status page
Selenium|has_selenium|python3-selenium|tests of the status page
abidw|has_command abidw|abigail-tools|binary interface of libatbus_c
'
# With --aarch64 only.
required_aarch64='
GCC 12 for aarch64|has_command aarch64-linux-gnu-g++-12|g++-12-aarch64-linux-gnu|cross-compiles
QEMU, user mode|has_command qemu-aarch64|qemu-user|runs programs of aarch64
'
# Their archives and headers are used, and nothing of what they depend on.
aarch64_packages='libuv1-dev libssl-dev libgtest-dev libmsgpack-cxx-dev libtomlplusplus-dev'
aarch64_libraries=/usr/local/lib/atbus/aarch64

has_python_venv() { python3 -c 'import ensurepip, venv' 2>/dev/null; }
has_selenium() { python3 -c 'import selenium' 2>/dev/null || /usr/bin/python3 -c 'import selenium' 2>/dev/null; }
has_compiler() { find_compiler >/dev/null; }
has_cmake() {
  has_command cmake && version_at_least "$(cmake --version | sed -n '1s/[^0-9]*//p')" 3.22
}
has_doxygen() { has_command doxygen && version_at_least "$(doxygen --version)" 1.9.4; }
has_library() { has_command pkg-config && pkg-config --exists "$1 >= $2"; }
has_header() {
  local compiler
  compiler=$(find_compiler) && printf '#if !__has_include(<%s>)\n#error missing\n#endif\n' "$1" |
    "$compiler" -x c++ -E - >/dev/null 2>&1
}
has_nats_server() { PATH="$PATH:/sbin:/usr/sbin" command -v nats-server >/dev/null 2>&1; }
has_nsd() { PATH="$PATH:/sbin:/usr/sbin" command -v nsd >/dev/null 2>&1; }
has_shared_library() {
  local known
  known=$(PATH="$PATH:/sbin:/usr/sbin" ldconfig -p 2>/dev/null) && [[ $known == *"$1"* ]]
}
has_libfuzzer() {
  has_command clang++-14 || return 1
  local found
  found=$(find "$(clang++-14 -print-resource-dir)/" -name '*clang_rt.fuzzer*' 2>/dev/null)
  [ -n "$found" ]
}

# missing TABLE: its lines whose check fails.
missing() {
  local what check packages purpose
  while IFS='|' read -r what check packages purpose; do
    [ -n "$what" ] || continue
    $check || printf '%s|%s|%s|%s\n' "$what" "$check" "$packages" "$purpose"
  done <<<"$1"
}

# Names and purposes of a table's lines, for people.
describe() {
  local what check packages purpose
  while IFS='|' read -r what check packages purpose; do
    [ -z "$what" ] || printf '  %-34s %s\n' "$what" "$purpose"
  done <<<"$1"
}

# The version apt would install, empty if it knows no such package.
apt_candidate() {
  LC_ALL=C apt-cache policy "$1" 2>/dev/null | sed -n 's/^ *Candidate: *//p' | grep -v '^(none)$' || true
}

# The system's g++ if it is new enough, else the numbered one beside it.
apt_compiler() {
  local candidate
  candidate=$(apt_candidate g++)
  candidate=${candidate#*:}
  if [ -n "$candidate" ] && version_at_least "$candidate" 12; then
    printf 'g++\n'
  else
    printf 'g++-12\n'
  fi
}

# apt_packages TABLE: one package per line of it, the first that apt knows; unknown ones left out.
apt_packages() {
  local what check packages purpose package
  while IFS='|' read -r what check packages purpose; do
    [ -n "$what" ] || continue
    [ "$packages" != COMPILER ] || packages=$(apt_compiler)
    for package in $packages; do
      if [ -n "$(apt_candidate "$package")" ]; then
        printf '%s\n' "$package"
        break
      fi
    done
  done <<<"$1"
}

# keep_services_off PACKAGES: tests start the servers themselves, so their packages must not start them as
# services, now or at the next boot. `systemctl unmask nats-server etcd nsd` allows that again.
keep_services_off() {
  local package service
  [ -d /run/systemd/system ] || return 0
  for package in nats-server etcd-server etcd nsd; do
    service=${package%-server}
    [ "$package" != nats-server ] || service=nats-server
    case " $1 " in
      *" $package "*)
        systemctl cat "$service.service" >/dev/null 2>&1 || as_root systemctl mask "$service.service" ||
          return 1
        ;;
    esac
  done
}

install_packages() {
  # shellcheck disable=SC2086  # one word per package
  keep_services_off "$1" && apt_get install -y --no-install-recommends $1
}

# apt_get_aarch64 FOLDER ARGUMENT...: apt-get as on a machine of aarch64 without packages. It does not
# read or change the packages of this machine. Had dpkg this architecture too, each library would need
# the same version for both, so installing one would replace the machine's own.
apt_get_aarch64() {
  local folder=$1 sources=()
  shift
  if [ -f "$folder/sources.list" ]; then
    sources=(-o Dir::Etc::sourcelist="$folder/sources.list" -o Dir::Etc::sourceparts=/dev/null)
  fi
  apt-get -q -o APT::Architecture=arm64 -o APT::Architectures=arm64 -o APT::Sandbox::User= \
    -o Acquire::Languages=none -o Dir::State::lists="$folder/lists" \
    -o Dir::State::status="$folder/status" -o Dir::Cache="$folder/cache" "${sources[@]}" "$@" </dev/null
}

# Ubuntu keeps the packages of this architecture on another server.
write_aarch64_sources() {
  local ID='' VERSION_CODENAME='' suite
  # shellcheck source=/dev/null
  source /etc/os-release
  [ "$ID" = ubuntu ] || return 0
  for suite in "$VERSION_CODENAME" "$VERSION_CODENAME-updates" "$VERSION_CODENAME-security"; do
    say "deb http://ports.ubuntu.com/ubuntu-ports $suite main universe"
  done >"$1/sources.list"
}

# Unpacks the packages into a folder that only the preset aarch64 searches.
install_aarch64_libraries() {
  local folder package
  folder=$(mktemp -d)
  # shellcheck disable=SC2064  # the folder of now
  trap "rm -rf '$folder'" EXIT
  mkdir -p "$folder/lists/partial" "$folder/cache/archives/partial" "$folder/unpacked"
  touch "$folder/status"
  write_aarch64_sources "$folder"
  apt_get_aarch64 "$folder" update
  # shellcheck disable=SC2086  # one word per package
  (cd "$folder" && apt_get_aarch64 "$folder" download $aarch64_packages)
  for package in "$folder"/*.deb; do
    dpkg-deb -x "$package" "$folder/unpacked"
  done
  # Some call the archive another name, and its shared library is not there.
  if [ -f "$folder/unpacked/usr/lib/aarch64-linux-gnu/libuv_a.a" ]; then
    ln -sf libuv_a.a "$folder/unpacked/usr/lib/aarch64-linux-gnu/libuv.a"
  fi
  chmod 755 "$folder/unpacked"
  as_root mkdir -p "$(dirname "$aarch64_libraries")"
  as_root rm -rf "$aarch64_libraries.new"
  as_root cp -r --no-preserve=ownership "$folder/unpacked" "$aarch64_libraries.new"
  as_root mv -T "$aarch64_libraries.new" "$aarch64_libraries"
}

with_dev=no
with_languages=no
with_all=no
with_aarch64=no
for argument in "$@"; do
  case $argument in
    --with-dev) with_dev=yes ;;
    --languages) with_languages=yes ;;
    --all)
      with_dev=yes
      with_languages=yes
      with_all=yes
      ;;
    --aarch64) with_aarch64=yes ;;
    -h | --help)
      usage
      exit 0
      ;;
    *)
      fail "unknown argument \"$argument\"; usage: install_dependencies.sh [--with-dev] [--languages] [--all] [--aarch64]"
      ;;
  esac
done
if [ "$with_dev" = yes ]; then
  required+=$required_dev
fi
if [ "$with_languages" = yes ]; then
  optional+=$optional_languages
fi
if [ "$with_all" = yes ]; then
  optional+=$optional_all
fi
if [ "$with_aarch64" = yes ]; then
  required+=$required_aarch64
  if [ ! -d "$aarch64_libraries" ]; then
    has_command apt-get || fail "put the libraries of aarch64 into $aarch64_libraries by hand"
    say "Unpacking libraries of aarch64 into $aarch64_libraries: $aarch64_packages"
    install_aarch64_libraries
  fi
fi

lacking=$(missing "$required")
lacking_optional=$(missing "$optional")

if ! has_command apt-get; then
  if [ -n "$lacking" ]; then
    say "This system has no apt-get. Install these with its own package manager, then run this again:"
    describe "$lacking"
    exit 1
  fi
  say "Everything atbus is built with is here."
  exit 0
fi

if [ -z "$lacking" ]; then
  # Optional things are taken if apt knows them already; they are no reason to go looking.
  if [ -z "$lacking_optional" ] || [ -z "$(apt_packages "$lacking_optional")" ]; then
    say "Everything atbus is built with is here; nothing to install."
    exit 0
  fi
fi

if [ "$(id -u)" -ne 0 ] && ! has_command sudo; then
  say "Missing:"
  describe "$lacking"
  describe "$lacking_optional"
  if [ -z "$lacking" ]; then
    exit 0
  fi
  fail "packages can't be installed by this user and there is no sudo; run this script as root once"
fi

say "Missing:"
describe "$lacking"
describe "$lacking_optional"
apt_get update || say "apt-get update failed; going on with the package lists that are here."
packages=$({ apt_packages "$lacking"; apt_packages "$lacking_optional"; } | sort -u | tr '\n' ' ')
say "Installing with apt-get: $packages"
if ! install_packages "$packages"; then
  packages=$(apt_packages "$lacking" | sort -u | tr '\n' ' ')
  say "Not all of them could be installed; going on with what is required: ${packages:-nothing}"
  [ -z "$packages" ] || install_packages "$packages"
fi

hash -r
lacking=$(missing "$required")
if [ -n "$lacking" ]; then
  say "Still missing:"
  describe "$lacking"
  fail "apt has no package that brings these; install them by hand, then run this again"
fi
say "Everything atbus is built with is here now."

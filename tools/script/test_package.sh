#!/usr/bin/env bash
# Builds the Debian packages, checks them with lintian, and installs, uses and removes them in a new root: a Debian or
# Ubuntu of this release with nothing but apt. Without root rights or mmdebstrap it unpacks them into a folder and uses
# them there, which does not test what they depend on. `test.sh --all` runs this too.
#
# usage: test_package.sh [--skip-build]
#   --skip-build  tests the packages in build/package/debian
set -euo pipefail
# shellcheck source=tools/script/common.sh
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"
case "${1:-}" in
  '') "$root/tools/script/package.sh" ;;
  --skip-build) ;;
  -h | --help)
    usage
    exit
    ;;
  *) fail "unknown argument \"$1\"; usage: test_package.sh [--skip-build]" ;;
esac
packages=$root/build/package/debian
work=$root/build/package/test
# One root and the packages that come from elsewhere stay for the next run.
kept=$root/build/package/kept

check_with_lintian() {
  heading "lintian"
  if ! command -v lintian >/dev/null; then
    say "lintian is not installed: skipped"
    return
  fi
  lintian --allow-root --fail-on error "$packages"/*.deb
}

# Each page is one that readers and indexes of pages understand.
check_man_pages() {
  heading "the man pages, and the completion of bash"
  if ! command -v man >/dev/null; then
    say "man is not installed: skipped"
    return
  fi
  local page problems
  dpkg-deb -x "$packages"/atbus-tools_*.deb "$work/tools"
  bash -c '. "$1/usr/share/bash-completion/completions/atbus" && complete -p atbus' - "$work/tools"
  for page in "$work"/tools/usr/share/man/man1/*.gz; do
    problems=$(LC_ALL=C.UTF-8 man --warnings -E UTF-8 -l -Tutf8 -Z "$page" 2>&1 >/dev/null)
    [ -z "$problems" ] || fail "$page: $problems"
    LC_ALL=C.UTF-8 lexgrog "$page" >/dev/null || fail "$page has no name and summary"
  done
  find "$work/tools" -name '*.1.gz' | wc -l
}

# The same release as this machine, from where apt gets it.
make_clean_root() {
  local VERSION_CODENAME='' mirror
  # shellcheck source=/dev/null
  source /etc/os-release
  # shellcheck disable=SC2016  # apt's own variable
  mirror=$(apt-get indextargets --format '$(REPO_URI)' 'Identifier: Packages' "Codename: $VERSION_CODENAME" | head -n 1)
  [ -n "$mirror" ] || fail "apt knows no mirror of $VERSION_CODENAME: check its sources"
  mmdebstrap --quiet --variant=apt --format=tar "$VERSION_CODENAME" "$kept/root.tar.new" "$mirror"
  mv "$kept/root.tar.new" "$kept/root.tar"
}

# Runs a command in the root, with /proc. The mount goes with the command.
inside() {
  # shellcheck disable=SC2016  # of the inner shell
  unshare --mount sh -c 'mount -t proc proc "$1/proc" && exec chroot "$@"' - "$work/system" \
    env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin LC_ALL=C.UTF-8 "$@" </dev/null
}

test_in_clean_root() {
  heading "the packages in a clean root"
  mkdir -p "$kept/archives"
  [ -f "$kept/root.tar" ] || make_clean_root
  mkdir -p "$work/system"
  tar -xf "$kept/root.tar" -C "$work/system"
  cp /etc/resolv.conf "$work/system/etc/resolv.conf"
  cp "$kept"/archives/*.deb "$work/system/var/cache/apt/archives/" 2>/dev/null || true
  mkdir "$work/system/package_test"
  cp -r "$root/test/package" "$work/system/package_test/test"
  cp "$packages"/*.deb "$work/system/package_test/"
  inside sh /package_test/test/debian/install.sh
  cp "$work/system"/var/cache/apt/archives/*.deb "$kept/archives/"
  inside sh /package_test/test/debian/use.sh /package_test/test "$version"
  inside sh /package_test/test/debian/remove.sh
}

test_unpacked() {
  heading "the packages, unpacked"
  say "no root rights, no mmdebstrap or no mounts: what the packages depend on is not tested"
  local package libraries
  for package in "$packages"/*.deb; do
    dpkg-deb -x "$package" "$work/system"
  done
  libraries=$work/system/usr/lib/$(dpkg-architecture -q DEB_HOST_MULTIARCH)
  PATH=$work/system/usr/bin:/usr/bin:/bin LD_LIBRARY_PATH=$libraries PKG_CONFIG_PATH=$libraries/pkgconfig \
    CMAKE_PREFIX_PATH=$work/system/usr PYTHONPATH=$work/system/usr/lib/python3/dist-packages \
    PYTHONDONTWRITEBYTECODE=1 \
    sh "$root/test/package/debian/use.sh" "$root/test/package" "$version"
}

version=$(sed -n '1s/^atbus (\(.*\)-.*/\1/p' "$root/packaging/debian/changelog")
check_with_lintian
rm -rf "$work"
mkdir -p "$work"
check_man_pages
if [ "$(id -u)" -eq 0 ] && command -v mmdebstrap >/dev/null && unshare --mount true 2>/dev/null; then
  test_in_clean_root
else
  test_unpacked
fi
rm -rf "$work"
say "the packages of version $version work"

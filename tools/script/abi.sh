#!/usr/bin/env bash
# Compares the functions and structs of libatbus_c with the ones that bindings/c/abi has on record, and fails if
# something differs. `test.sh --all` runs this too.
#
# usage: abi.sh [--update]
#   --update  puts them on record
set -euo pipefail
# shellcheck source=tools/script/common.sh
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"
update=no
case "${1:-}" in
  '') ;;
  --update) update=yes ;;
  -h | --help)
    usage
    exit
    ;;
  *) fail "unknown argument \"$1\"; usage: abi.sh [--update]" ;;
esac

heading "the binary interface of libatbus_c"
command -v abidw >/dev/null ||
  fail "abidw is missing: install the package abigail-tools, or run install_dependencies.sh --all"
configure release
build release atbus_c
compiler=$(find_compiler)
built=("$root"/build/release/lib/libatbus_c.so.?)
name=$(basename "${built[0]}")
record=$root/bindings/c/abi/$name
work=$(mktemp -d "$root/build/abi.XXXXXX")
trap 'rm -rf "$work"' EXIT

nm -D --defined-only "${built[0]}" | sed -n 's/.* T //p' | LC_ALL=C sort >"$work/functions"
# The types of these functions, and of all that they refer to, are what the header says in C. The library itself has more
# in it, such as the members of a node, which no program sees.
{
  say '#include <atbus/atbus_simulation.h>'
  sed 's/\(.*\)@@.*/extern __typeof__(\1)* type_of_\1; __typeof__(\1)* type_of_\1;/' "$work/functions"
} >"$work/types.c"
# There, so that the record has no path of this machine.
(cd "$work" && "$compiler" -x c -std=gnu99 -g -O0 -shared -fPIC -I "$root/include" types.c -o "$name")
abidw --no-architecture --no-show-locs --no-comp-dir-path --no-corpus-path --no-elf-needed \
  --out-file "$work/types.xml" "$work/$name"

if [ "$update" = yes ]; then
  cp "$work/functions" "$record.functions"
  cp "$work/types.xml" "$record.xml"
  say "on record: $(wc -l <"$record.functions") functions of $name, and their types"
  exit
fi

[ -f "$record.xml" ] || fail "no record of $name: its number has grown. Run tools/script/abi.sh --update, and remove the
record of the former number"
differs=no
diff -U 0 --label "on record" --label "built" "$record.functions" "$work/functions" || differs=yes
abidiff --no-show-locs --no-added-syms "$record.xml" "$work/types.xml" || differs=yes
if [ "$differs" = no ]; then
  say "$name is as on record: $(wc -l <"$record.functions") functions"
  exit
fi
fail "libatbus_c differs from its record, as shown above. If functions or enumerators were added, or members at the end
of a struct that has a size: run tools/script/abi.sh --update, and commit the record with the change. If a function has
gone, or something else of a struct has changed: programs that are built already would break. Keep what was there and
add a function with a new name; or let the library have a new number (atbus_c_version in bindings/c/CMakeLists.txt, ATBUS_0 in symbols.map)."

# Run by test_package.sh where the packages are installed: use.sh FOLDER VERSION. FOLDER is test/package. Builds and
# runs what users do.
set -e
sources=$1
version=$2
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

expect() { # TEXT COMMAND...
  text=$1
  shift
  found=$("$@")
  case $found in
    *"$text"*) echo "$found" ;;
    *)
      echo "$* says \"$found\", without \"$text\""
      exit 1
      ;;
  esac
}

expect "$version" atbus --version
expect "Python: hello" python3 "$sources/debian/hello.py"
expect "('$version', '$version')" python3 -c \
  'import atbus, importlib.metadata as m; print((atbus.version(), m.version("atbus")))'
# Handlers of a package of the system can be seen by a type checker.
python3 -c 'import atbus, pathlib; assert (pathlib.Path(atbus.__file__).parent / "py.typed").exists()'

# shellcheck disable=SC2046  # one word per flag
cc -std=c99 "$sources/user.c" -o "$work/c" $(pkg-config --cflags --libs atbus_c)
expect hello "$work/c"
# shellcheck disable=SC2046
c++ -std=c++20 "$sources/main.cpp" -o "$work/cpp" $(pkg-config --cflags --libs --static atbus)
expect "atbus $version: received \"hello\"" "$work/cpp"
# shellcheck disable=SC2046
c++ -std=c++20 "$sources/user_test.cpp" -o "$work/test" $(pkg-config --cflags --libs --static atbus-testing)
expect "received 1" "$work/test"

for language in c cpp; do
  folder=$sources
  [ $language = cpp ] || folder=$sources/c
  cmake -S "$folder" -B "$work/cmake_$language" >"$work/log" && cmake --build "$work/cmake_$language" >"$work/log" ||
    { cat "$work/log"; exit 1; }
done
expect hello "$work/cmake_c/atbus_c_user"
expect 'received "hello"' "$work/cmake_cpp/atbus_user"
expect "received 1" "$work/cmake_cpp/atbus_user_test"

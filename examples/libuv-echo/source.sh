# Fetches the source of PACKAGE=VERSION into the current folder, from where this machine has its packages; installs nothing.
set -eu
mkdir -p lists/partial parts cache/archives/partial
for list in /etc/apt/sources.list /etc/apt/sources.list.d/*.list /etc/apt/sources.list.d/*.sources; do
  [ ! -e "$list" ] || sed -E 's/^Types:.*/Types: deb-src/; s/^deb /deb-src /' "$list" >"parts/${list##*/}"
done
apt() {
  apt-get -qq -o Dir::Etc::sourcelist=/dev/null -o Dir::Etc::sourceparts="$PWD/parts" \
    -o Dir::State::lists="$PWD/lists" -o Dir::Cache="$PWD/cache" -o Acquire::Retries=1 -o Acquire::http::Timeout=10 "$@"
}
apt update
apt source --download-only "$1"
tar --extract --gzip --file "$(echo ./*.orig.tar.gz)"

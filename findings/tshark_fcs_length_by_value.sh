#!/bin/sh
# tshark reads the pcapng option if_fcslen below 8 as bytes and from 8 on as bits.
#
# Expected: one unit: bits, as the format says, or bytes, as its example (4, for Ethernet) suggests.
# Found:    both. 4 and 32 are a frame check sequence of four bytes, 1 and 8 of one. So a writer may follow either reading.
# Of:       Debian 12's tshark 4.0.17-0+deb12u3 with its libraries. Needs apt-get, dpkg, python3, and what these libraries depend on.
# Method:   a frame of 14 + 128 bytes and four of a check sequence, in files whose if_fcslen is 0, 1, 4, 8, 16 and 32; how many bytes
#           remain as the frame's data.
#
# Seen:     TShark (Wireshark) 4.0.17
#           if_fcslen 1: 1 byte; 4: 4 bytes; 8: 1 byte; 16: 2 bytes; 32: 4 bytes
set -eu
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
for tool in apt-get dpkg python3; do
    command -v "$tool" > "$dir/found" || { echo "skipped: $tool is missing"; exit 77; }
done
version=4.0.17-0+deb12u3
(cd "$dir" && apt-get download "tshark=$version" "libwireshark16=$version" "libwiretap13=$version" "libwsutil14=$version" > log 2>&1 &&
    for package in *.deb; do dpkg -x "$package" .; done) ||
    { echo "skipped: tshark $version cannot be downloaded: $(tail -n 1 "$dir/log")"; exit 77; }
LD_LIBRARY_PATH=$(echo "$dir"/usr/lib/*-linux-gnu)
export LD_LIBRARY_PATH HOME="$dir"
"$dir/usr/bin/tshark" --version > "$dir/version" 2> "$dir/why" || { echo "skipped: $(tail -n 1 "$dir/why")"; exit 77; }
head -n 1 "$dir/version"
cat > "$dir/read.py" <<'PY'
import struct
import subprocess
import sys
import zlib

IF_FCSLEN = 13


def option(code, data):
    return struct.pack("<HH", code, len(data)) + data + bytes(-len(data) % 4)


def block(kind, body):
    length = struct.pack("<I", len(body) + 12)
    return struct.pack("<I", kind) + length + body + length


def left(directory, fcslen):
    """Returns the bytes of the frame's data in a file with this option."""
    frame = bytes.fromhex("020000000001 020000000002 88b5") + bytes(128)
    frame += struct.pack("<I", zlib.crc32(frame))
    section = block(0x0A0D0D0A, struct.pack("<IHHq", 0x1A2B3C4D, 1, 0, -1))
    options = option(IF_FCSLEN, bytes([fcslen])) + option(0, b"")
    interface = block(1, struct.pack("<HHI", 1, 0, 0) + options)
    packet = block(6, struct.pack("<IIIII", 0, 0, 0, len(frame), len(frame)) + frame + bytes(-len(frame) % 4))
    path = f"{directory}/one.pcapng"
    with open(path, "wb") as file:
        file.write(section + interface + packet)
    words = [f"{directory}/usr/bin/tshark", "-r", path, "-T", "fields", "-e", "data.len"]
    return int(subprocess.run(words, capture_output=True, text=True, check=True).stdout)


whole = left(sys.argv[1], 0)
lengths = {fcslen: whole - left(sys.argv[1], fcslen) for fcslen in (1, 4, 8, 16, 32)}
print("if_fcslen " + "; ".join(f"{fcslen}: {size} byte{'s' * (size > 1)}" for fcslen, size in lengths.items()))
sys.exit(0 if lengths == {1: 1, 4: 4, 8: 1, 16: 2, 32: 4} else "changed")
PY
python3 "$dir/read.py" "$dir"

#!/bin/sh
# A TPACKET_V3 ring holds a number of blocks, not of bytes: a slow stream fills it with a packet a block.
#
# Expected: a block is handed over when it is full, or some time after its first packet; a ring of 512 KiB that is not read holds
#           40 frames of 100 bytes whatever the time-out.
# Found:    each time the time-out comes round, the block is closed with what it has and the next one is begun. With a time-out
#           shorter than the gaps, 8 blocks hold 8 packets. And tp_packets counts the dropped ones, too.
# Of:       Linux 6.18.44. Needs unshare, ip and user namespaces.
# Method:   over loopback, 40 frames of 100 bytes, 30 ms apart; a ring of 8 blocks of 64 KiB that nobody reads meanwhile.
#
# Seen:     time-out   10 ms: packets 40, drops 32; frames in each block: 1 1 1 1 1 1 1 1
#           time-out 1000 ms: packets 40, drops 0; frames in each block: 33 7 0 0 0 0 0 0
set -eu
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
for tool in unshare ip python3; do
    command -v "$tool" > "$dir/found" || { echo "skipped: $tool is missing"; exit 77; }
done
unshare -rn true 2> "$dir/why" || { echo "skipped: $(cat "$dir/why")"; exit 77; }
echo "Linux $(uname -r)"
cat > "$dir/capture.py" <<'PY'
import mmap
import socket
import struct
import sys
import time

SOL_PACKET, PACKET_RX_RING, PACKET_STATISTICS, PACKET_VERSION = 263, 5, 6, 10
TPACKET_V3 = 2
ETHERTYPE = 0x88B5  # for experiments
BLOCKS, BLOCK, FRAME = 8, 65536, 2048


def capture(timeout_ms):
    """Returns packets and drops by the kernel's count, and the frames in each block."""
    ring = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, 0)
    ring.setsockopt(SOL_PACKET, PACKET_VERSION, TPACKET_V3)
    request = struct.pack("7I", BLOCK, BLOCKS, FRAME, BLOCKS * BLOCK // FRAME, timeout_ms, 0, 0)
    ring.setsockopt(SOL_PACKET, PACKET_RX_RING, request)
    memory = mmap.mmap(ring.fileno(), BLOCKS * BLOCK)
    ring.bind(("lo", ETHERTYPE))
    sender = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, 0)
    sender.bind(("lo", 0))
    for _ in range(40):
        sender.send(bytes(12) + struct.pack("!H", ETHERTYPE) + bytes(86))
        time.sleep(0.03)
    frames = [struct.unpack_from("I", memory, number * BLOCK + 12)[0] for number in range(BLOCKS)]
    packets, drops, _ = struct.unpack("3I", ring.getsockopt(SOL_PACKET, PACKET_STATISTICS, 12))
    return packets, drops, frames


found = {}
for timeout_ms in (10, 1000):
    packets, drops, frames = found[timeout_ms] = capture(timeout_ms)
    print(f"time-out {timeout_ms:4} ms: packets {packets}, drops {drops}; frames in each block: {' '.join(map(str, frames))}")
packets, drops, frames = found[10]
same = packets == 40 and drops >= 20 and sum(frames) == 40 - drops and max(frames) <= 4
sys.exit(0 if same and found[1000][1] == 0 else "changed")
PY
unshare -rn sh -c "ip link set lo up && python3 '$dir/capture.py'"

#!/bin/sh
# AF_XDP on a virtual cable: one sendto sends at most 32 frames and then fails with EAGAIN; a poll for *input* sends 32 more.
#
# Expected: a call sends what is queued, EAGAIN means that nothing was sent, and poll(POLLIN) has no effect on output.
# Found:    in copy mode, the only one that a veth has, the kernel sends while it is called and only 32 frames a call. It asks for
#           calls always: the flag "need wake-up" of the transmit ring never goes away.
# Of:       Linux 6.18.44. Needs unshare, ip and user namespaces.
# Method:   two ends of a veth; 100 frames in the transmit ring, one call after the other, and what arrived at the other end.
#
# Seen:     zero copy: Operation not supported
#           queued 100, arrived 0, the ring wants a call: yes
#           sendto: EAGAIN, 32 arrived, 68 left | EAGAIN, 32, 36 | EAGAIN, 32, 4 | success, 4, 0 (shortened); the ring wants a call: yes
#           poll for input, twice: 64 arrived
set -eu
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
for tool in unshare ip python3; do
    command -v "$tool" > "$dir/found" || { echo "skipped: $tool is missing"; exit 77; }
done
unshare -rn true 2> "$dir/why" || { echo "skipped: $(cat "$dir/why")"; exit 77; }
echo "Linux $(uname -r)"
cat > "$dir/send.py" <<'PY'
import ctypes
import errno
import mmap
import os
import select
import socket
import struct
import sys
import time

AF_XDP, SOL_XDP = 44, 283
MMAP_OFFSETS, TX_RING, UMEM_REG, FILL_RING, COMPLETION_RING = 1, 3, 4, 5, 6
COPY, ZERO_COPY, USE_NEED_WAKEUP = 2, 4, 8
TX_OFFSET = 0x80000000
FRAMES, FRAME = 256, 2048
ETHERTYPE = b"\x88\xb5"  # for experiments
LIBC = ctypes.CDLL(None, use_errno=True)


def check(outcome):
    if outcome < 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
    return outcome


class Sender:
    """An AF_XDP socket that only sends."""

    def __init__(self, interface, mode):
        self.fd = check(LIBC.socket(AF_XDP, socket.SOCK_RAW, 0))
        self.memory = mmap.mmap(-1, FRAMES * FRAME)
        address = ctypes.addressof(ctypes.c_char.from_buffer(self.memory))
        self.option(UMEM_REG, struct.pack("QQIIII", address, FRAMES * FRAME, FRAME, 0, 0, 0))
        for ring in (FILL_RING, COMPLETION_RING, TX_RING):
            self.option(ring, struct.pack("i", FRAMES))
        offsets, length = ctypes.create_string_buffer(128), ctypes.c_uint(128)
        check(LIBC.getsockopt(self.fd, SOL_XDP, MMAP_OFFSETS, offsets, ctypes.byref(length)))
        self.producer, self.consumer, self.descriptors, self.flags = struct.unpack("16Q", offsets.raw)[4:8]
        self.ring = mmap.mmap(self.fd, self.descriptors + FRAMES * 16, offset=TX_OFFSET)
        where = struct.pack("HHIII", AF_XDP, USE_NEED_WAKEUP | mode, socket.if_nametoindex(interface), 0, 0)
        check(LIBC.bind(self.fd, where, len(where)))

    def option(self, name, value):
        check(LIBC.setsockopt(self.fd, SOL_XDP, name, value, len(value)))

    def word(self, offset):
        return struct.unpack_from("I", self.ring, offset)[0]

    def queue(self, count):
        first = self.word(self.producer)
        for number in range(first, first + count):
            slot = number % FRAMES
            self.memory[slot * FRAME : slot * FRAME + 60] = b"\xff" * 6 + bytes(6) + ETHERTYPE + bytes(46)
            struct.pack_into("QII", self.ring, self.descriptors + slot * 16, slot * FRAME, 60, 0)
        struct.pack_into("I", self.ring, self.producer, first + count)

    def left(self):
        return self.word(self.producer) - self.word(self.consumer)

    def wants_call(self):
        return "yes" if self.word(self.flags) & 1 else "no"

    def send(self):
        outcome = LIBC.sendto(self.fd, None, 0, socket.MSG_DONTWAIT, None, 0)
        return "success" if outcome == 0 else errno.errorcode[ctypes.get_errno()]


receiver = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, 0)
receiver.bind(("far0", int.from_bytes(ETHERTYPE, "big")))
receiver.setblocking(False)


def arrived():
    time.sleep(0.05)
    count = 0
    while True:
        try:
            receiver.recv(2000)
        except BlockingIOError:
            return count
        count += 1


try:
    Sender("near0", ZERO_COPY)
    zero_copy = "granted"
except OSError as error:
    zero_copy = error.strerror
try:
    sender = Sender("near0", COPY)
except OSError as error:
    print(f"skipped: AF_XDP: {error}")
    sys.exit(77)
print(f"zero copy: {zero_copy}")
sender.queue(100)
print(f"queued {sender.left()}, arrived {arrived()}, the ring wants a call: {sender.wants_call()}")
calls = [(sender.send(), arrived(), sender.left()) for _ in range(4)]
print("sendto:", " | ".join(f"{outcome}, {count} arrived, {left} left" for outcome, count, left in calls), end="; ")
print(f"the ring wants a call: {sender.wants_call()}")
sender.queue(100)
poll = select.poll()
poll.register(sender.fd, select.POLLIN)
for _ in range(2):
    poll.poll(0)
polled = arrived()
print(f"poll for input, twice: {polled} arrived")
wanted = [("EAGAIN", 32, 68), ("EAGAIN", 32, 36), ("EAGAIN", 32, 4), ("success", 4, 0)]
same = zero_copy == "Operation not supported" and calls == wanted and polled == 64 and sender.wants_call() == "yes"
sys.exit(0 if same else "changed")
PY
unshare -rn sh -c "ip link add near0 type veth peer name far0 && ip link set near0 up && ip link set far0 up && python3 '$dir/send.py'"

#!/bin/sh
# From BPF, SO_MAX_PACING_RATE takes exactly four bytes; by setsockopt(2), eight as well.
#
# Expected: bpf_setsockopt takes what setsockopt takes, so the rate may have 64 bits, as it has had since Linux 4.20.
# Found:    eight bytes are EINVAL, which a program that ignores the return value never sees: its sockets are not paced.
#           So a BPF program cannot cap at more than 34 Gbit/s.
# Of:       Linux 6.18.44, github.com/cilium/ebpf v0.17.3. Needs root, go, and a cgroup2 that can be mounted.
# Method:   a program at connect(2) of a cgroup sets the option of the connecting socket; then the same by setsockopt.
#
# Seen:     bpf_setsockopt: 4 bytes: 0; 8 bytes: -22
#           setsockopt:     4 bytes: 0; 8 bytes: 0
set -eu
dir=$(mktemp -d)
group=""
finish() {
    cd /
    [ -z "$group" ] || { rmdir "$group" 2> /dev/null || true; umount "$dir/groups"; }
    rm -rf "$dir"
}
trap finish EXIT
for tool in go mount umount; do
    command -v "$tool" > "$dir/found" || { echo "skipped: $tool is missing"; exit 77; }
done
echo "Linux $(uname -r)"
cd "$dir"
cat > main.go <<'GO'
package main

import (
	"fmt"
	"net"
	"os"
	"strconv"
	"syscall"
	"unsafe"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
	"github.com/cilium/ebpf/link"
	"github.com/cilium/ebpf/rlimit"
)

const (
	solSocket     = 1
	maxPacingRate = 47
)

func must(err error) {
	if err != nil {
		fmt.Println("skipped:", err)
		os.Exit(77)
	}
}

// Returns what bpf_setsockopt answers to a value of this size.
func fromBPF(group string, size int32) (answer int32) {
	said, err := ebpf.NewMap(&ebpf.MapSpec{Type: ebpf.Array, KeySize: 4, ValueSize: 4, MaxEntries: 1})
	must(err)
	program, err := ebpf.NewProgram(&ebpf.ProgramSpec{
		Type: ebpf.CGroupSockAddr, AttachType: ebpf.AttachCGroupInet4Connect, License: "GPL",
		Instructions: asm.Instructions{
			asm.LoadImm(asm.R2, 1_000_000, asm.DWord),
			asm.StoreMem(asm.RFP, -8, asm.R2, asm.DWord),
			asm.Mov.Imm(asm.R2, solSocket),
			asm.Mov.Imm(asm.R3, maxPacingRate),
			asm.Mov.Reg(asm.R4, asm.RFP),
			asm.Add.Imm(asm.R4, -8),
			asm.Mov.Imm(asm.R5, size),
			asm.FnSetsockopt.Call(),
			asm.StoreMem(asm.RFP, -12, asm.R0, asm.Word),
			asm.Mov.Imm(asm.R1, 0),
			asm.StoreMem(asm.RFP, -16, asm.R1, asm.Word),
			asm.LoadMapPtr(asm.R1, said.FD()),
			asm.Mov.Reg(asm.R2, asm.RFP),
			asm.Add.Imm(asm.R2, -16),
			asm.Mov.Reg(asm.R3, asm.RFP),
			asm.Add.Imm(asm.R3, -12),
			asm.Mov.Imm(asm.R4, 0),
			asm.FnMapUpdateElem.Call(),
			asm.Mov.Imm(asm.R0, 1),
			asm.Return(),
		}})
	must(err)
	options := link.CgroupOptions{Path: group, Attach: ebpf.AttachCGroupInet4Connect, Program: program}
	attached, err := link.AttachCgroup(options)
	must(err)
	defer attached.Close()
	must(os.WriteFile(group+"/cgroup.procs", []byte(strconv.Itoa(os.Getpid())), 0o644))
	defer os.WriteFile(group+"/../cgroup.procs", []byte(strconv.Itoa(os.Getpid())), 0o644)
	server, err := net.Listen("tcp4", "127.0.0.1:0")
	must(err)
	defer server.Close()
	client, err := net.Dial("tcp4", server.Addr().String())
	must(err)
	defer client.Close()
	must(said.Lookup(uint32(0), &answer))
	return
}

// Returns what setsockopt answers to a value of this size.
func bySystemCall(size uintptr) int {
	fd, err := syscall.Socket(syscall.AF_INET, syscall.SOCK_STREAM, 0)
	must(err)
	defer syscall.Close(fd)
	rate := uint64(1_000_000)
	_, _, errno := syscall.Syscall6(syscall.SYS_SETSOCKOPT, uintptr(fd), solSocket, maxPacingRate, uintptr(unsafe.Pointer(&rate)), size, 0)
	return -int(errno)
}

func main() {
	must(rlimit.RemoveMemlock())
	four, eight := fromBPF(os.Args[1], 4), fromBPF(os.Args[1], 8)
	fmt.Printf("bpf_setsockopt: 4 bytes: %d; 8 bytes: %d\n", four, eight)
	plainFour, plainEight := bySystemCall(4), bySystemCall(8)
	fmt.Printf("setsockopt:     4 bytes: %d; 8 bytes: %d\n", plainFour, plainEight)
	if four != 0 || eight != -22 || plainFour != 0 || plainEight != 0 {
		fmt.Println("changed")
		os.Exit(1)
	}
}
GO
export GOPATH="$dir/go" GOFLAGS="-modcacherw -mod=mod"
{ go mod init seen && go get github.com/cilium/ebpf@v0.17.3 && go build -o seen .; } > log 2>&1 ||
    { echo "skipped: cilium/ebpf v0.17.3 cannot be built: $(tail -n 1 log)"; exit 77; }
mkdir groups
mount -t cgroup2 none groups 2> why || { echo "skipped: $(cat why)"; exit 77; }
group=$dir/groups/seen.$$
mkdir "$group"
./seen "$group"

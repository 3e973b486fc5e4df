#!/bin/sh
# A TCX program that returns TC_ACT_OK, as tc programs always did to let a packet pass, hides it from all programs after it.
#
# Expected: TC_ACT_OK lets the packet go on, to the next program too; only a drop or a redirect ends the chain.
# Found:    TC_ACT_OK is TCX_PASS: the packet passes at once. The next program runs only after TC_ACT_UNSPEC (TCX_NEXT), -1. By
#           default a program is attached last, so a monitor or pacer sees nothing behind an older program with its usual return.
# Of:       Linux 6.18.44 (TCX exists since 6.6), github.com/cilium/ebpf v0.17.3. Needs root, go, unshare, ip.
# Method:   two programs that count at loopback's ingress, the second one attached without wishes; ten datagrams.
#
# Seen:     the first returns  0 (TC_ACT_OK): first saw 10, second saw 0
#           the first returns -1 (TCX_NEXT):  first saw 10, second saw 10
set -eu
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
for tool in go unshare ip; do
    command -v "$tool" > "$dir/found" || { echo "skipped: $tool is missing"; exit 77; }
done
unshare -n true 2> "$dir/why" || { echo "skipped: $(cat "$dir/why")"; exit 77; }
echo "Linux $(uname -r)"
cd "$dir"
cat > main.go <<'GO'
package main

import (
	"fmt"
	"net"
	"os"
	"time"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
	"github.com/cilium/ebpf/link"
	"github.com/cilium/ebpf/rlimit"
)

func must(err error) {
	if err != nil {
		fmt.Println("skipped:", err)
		os.Exit(77)
	}
}

// A program that counts in a map and returns a verdict.
func counter(verdict int32) (*ebpf.Program, *ebpf.Map) {
	count, err := ebpf.NewMap(&ebpf.MapSpec{Type: ebpf.Array, KeySize: 4, ValueSize: 8, MaxEntries: 1})
	must(err)
	program, err := ebpf.NewProgram(&ebpf.ProgramSpec{Type: ebpf.SchedCLS, License: "GPL", Instructions: asm.Instructions{
		asm.Mov.Imm(asm.R1, 0),
		asm.StoreMem(asm.RFP, -4, asm.R1, asm.Word),
		asm.LoadMapPtr(asm.R1, count.FD()),
		asm.Mov.Reg(asm.R2, asm.RFP),
		asm.Add.Imm(asm.R2, -4),
		asm.FnMapLookupElem.Call(),
		asm.JEq.Imm(asm.R0, 0, "out"),
		asm.Mov.Imm(asm.R1, 1),
		asm.StoreXAdd(asm.R0, asm.R1, asm.DWord),
		asm.Mov.Imm(asm.R0, verdict).WithSymbol("out"),
		asm.Return(),
	}})
	must(err)
	return program, count
}

func value(count *ebpf.Map) (packets uint64) {
	must(count.Lookup(uint32(0), &packets))
	return
}

func attach(index int, program *ebpf.Program) link.Link {
	attached, err := link.AttachTCX(link.TCXOptions{Interface: index, Program: program, Attach: ebpf.AttachTCXIngress})
	must(err)
	return attached
}

// Returns how many of ten datagrams each of two programs saw.
func saw(verdict int32) [2]uint64 {
	lo, err := net.InterfaceByName("lo")
	must(err)
	first, inFirst := counter(verdict)
	second, inSecond := counter(-1)
	defer attach(lo.Index, first).Close()
	defer attach(lo.Index, second).Close()
	receiver, err := net.ListenPacket("udp", "127.0.0.1:0")
	must(err)
	defer receiver.Close()
	sender, err := net.Dial("udp", receiver.LocalAddr().String())
	must(err)
	defer sender.Close()
	for range 10 {
		_, err := sender.Write([]byte("x"))
		must(err)
	}
	time.Sleep(100 * time.Millisecond)
	return [2]uint64{value(inFirst), value(inSecond)}
}

func main() {
	must(rlimit.RemoveMemlock())
	ok, next := saw(0), saw(-1)
	fmt.Printf("the first returns  0 (TC_ACT_OK): first saw %d, second saw %d\n", ok[0], ok[1])
	fmt.Printf("the first returns -1 (TCX_NEXT):  first saw %d, second saw %d\n", next[0], next[1])
	if ok != [2]uint64{10, 0} || next != [2]uint64{10, 10} {
		fmt.Println("changed")
		os.Exit(1)
	}
}
GO
export GOPATH="$dir/go" GOFLAGS="-modcacherw -mod=mod"
{ go mod init seen && go get github.com/cilium/ebpf@v0.17.3 && go build -o seen .; } > log 2>&1 ||
    { echo "skipped: cilium/ebpf v0.17.3 cannot be built: $(tail -n 1 log)"; exit 77; }
unshare -n sh -c 'ip link set lo up && exec ./seen'

#!/bin/sh
# A BPF link to a cgroup refuses BPF_F_ALLOW_MULTI, the flag without which BPF_PROG_ATTACH replaces the program before.
#
# Expected: both calls take the same flags for the same thing.
# Found:    BPF_LINK_CREATE answers EINVAL to the flag, and needs none: links may always be several. A library whose mode "allow
#           multiple" passes the flag to either call works with the older call and fails with links.
# Of:       Linux 6.18.44, github.com/cilium/ebpf v0.17.3. Needs root, go, and a cgroup2 that can be mounted.
# Method:   programs at connect(2) of a cgroup of its own that allow everything: two by links with the flag, two by links without it,
#           two by BPF_PROG_ATTACH with the flag, two without it.
#
# Seen:     links, flag:       invalid argument, invalid argument; 0 programs
#           links, no flag:    attached, attached; 2 programs
#           attaches, flag:    attached, attached; 2 programs
#           attaches, no flag: attached, attached; 1 programs
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
	"errors"
	"fmt"
	"os"
	"syscall"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
	"github.com/cilium/ebpf/link"
	"github.com/cilium/ebpf/rlimit"
)

const (
	hook       = ebpf.AttachCGroupInet4Connect
	allowMulti = 2
)

func must(err error) {
	if err != nil {
		fmt.Println("skipped:", err)
		os.Exit(77)
	}
}

func allow() *ebpf.Program {
	program, err := ebpf.NewProgram(&ebpf.ProgramSpec{
		Type: ebpf.CGroupSockAddr, AttachType: hook, License: "GPL",
		Instructions: asm.Instructions{asm.Mov.Imm(asm.R0, 1), asm.Return()},
	})
	must(err)
	return program
}

func outcome(err error) string {
	var errno syscall.Errno
	switch {
	case err == nil:
		return "attached"
	case errors.As(err, &errno):
		return errno.Error()
	}
	return err.Error()
}

func main() {
	must(rlimit.RemoveMemlock())
	group, err := os.Open(os.Args[1])
	must(err)
	target := int(group.Fd())
	byLink := func(flags uint32) (string, func()) {
		made, err := link.AttachRawLink(link.RawLinkOptions{Target: target, Program: allow(), Attach: hook, Flags: flags})
		return outcome(err), func() {
			if made != nil {
				made.Close()
			}
		}
	}
	byAttach := func(flags uint32) (string, func()) {
		program := allow()
		err := link.RawAttachProgram(link.RawAttachProgramOptions{Target: target, Program: program, Attach: hook, Flags: flags})
		return outcome(err), func() {
			if err == nil {
				link.RawDetachProgram(link.RawDetachProgramOptions{Target: target, Program: program, Attach: hook})
			}
		}
	}
	seen := ""
	for _, way := range []struct {
		name   string
		attach func(uint32) (string, func())
		flags  uint32
	}{
		{"links, flag:      ", byLink, allowMulti}, {"links, no flag:   ", byLink, 0},
		{"attaches, flag:   ", byAttach, allowMulti}, {"attaches, no flag:", byAttach, 0},
	} {
		first, undoFirst := way.attach(way.flags)
		second, undoSecond := way.attach(way.flags)
		attached, err := link.QueryPrograms(link.QueryOptions{Target: target, Attach: hook})
		must(err)
		line := fmt.Sprintf("%s, %s; %d programs", first, second, len(attached.Programs))
		fmt.Println(way.name, line)
		seen += line + "\n"
		undoSecond()
		undoFirst()
	}
	const expected = "invalid argument, invalid argument; 0 programs\n" +
		"attached, attached; 2 programs\nattached, attached; 2 programs\nattached, attached; 1 programs\n"
	if seen != expected {
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

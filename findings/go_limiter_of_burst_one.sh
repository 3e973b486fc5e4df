#!/bin/sh
# golang.org/x/time/rate with a burst of one lets 10,000 a second through as less than 3,000, in a program that is otherwise idle.
#
# Expected: the rate, less a little for late wake-ups.
# Found:    the runtime of Go waits for its earliest timer in whole milliseconds (epoll), and the limiter keeps at most `burst` of
#           the tokens that pile up meanwhile: two requests a millisecond. With a burst of 20 it keeps the rate, in lumps of ten.
# Of:       golang.org/x/time v0.9.0 with Go 1.26.8, Linux 6.18.44.
# Method:   Wait in a loop for two seconds at 10,000 a second.
#
# Seen:     10000 a second, burst 1: 1678 a second
#           10000 a second, burst 20: 9330 a second
set -eu
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
command -v go > "$dir/found" || { echo "skipped: go is missing"; exit 77; }
cd "$dir"
go version | cut -d ' ' -f 3-
cat > main.go <<'GO'
package main

import (
	"context"
	"fmt"
	"os"
	"time"

	"golang.org/x/time/rate"
)

func passed(burst int) int {
	limiter := rate.NewLimiter(10_000, burst)
	count := 0
	for begin := time.Now(); time.Since(begin) < 2*time.Second; count++ {
		limiter.Wait(context.Background())
	}
	return count / 2
}

func main() {
	one, twenty := passed(1), passed(20)
	fmt.Printf("10000 a second, burst 1: %d a second\n", one)
	fmt.Printf("10000 a second, burst 20: %d a second\n", twenty)
	if one > 4000 || twenty < 2*one {
		fmt.Println("changed")
		os.Exit(1)
	}
}
GO
export GOPATH="$dir/go" GOFLAGS="-modcacherw -mod=mod"
{ go mod init seen && go get golang.org/x/time@v0.9.0 && go build -o seen .; } > log 2>&1 ||
    { echo "skipped: golang.org/x/time v0.9.0 cannot be built: $(tail -n 1 log)"; exit 77; }
./seen

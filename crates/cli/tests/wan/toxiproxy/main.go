// Toxiproxy's own client against the API of `softtimers wan --api`: main API-ADDRESS ECHO-SERVER.
package main

import (
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"syscall"
	"time"

	toxiproxy "github.com/Shopify/toxiproxy/v2/client"
)

func must(err error, what string) {
	if err != nil {
		fmt.Println(what+":", err)
		os.Exit(1)
	}
}

func check(holds bool, what string) {
	if !holds {
		fmt.Println("not so:", what)
		os.Exit(1)
	}
}

// Sends a line through the proxy, and returns what comes back, how long that took, and how the connection ended.
func exchange(address string, length int, ends bool) (int, time.Duration, error) {
	// A timeout begins when the proxy takes the connection.
	start := time.Now()
	connection, err := net.Dial("tcp", address)
	if err != nil {
		return 0, 0, err
	}
	defer connection.Close()
	connection.SetDeadline(time.Now().Add(20 * time.Second))
	if _, err = connection.Write(make([]byte, length)); err != nil {
		return 0, time.Since(start), err
	}
	if ends {
		if err = connection.(*net.TCPConn).CloseWrite(); err != nil {
			return 0, time.Since(start), err
		}
	}
	all, err := io.ReadAll(connection)
	return len(all), time.Since(start), err
}

func main() {
	client, echo := toxiproxy.NewClient(os.Args[1]), os.Args[2]
	must(client.ResetState(), "reset")
	proxy, err := client.CreateProxy("echo", "127.0.0.1:0", echo)
	must(err, "create")
	check(proxy.Enabled && proxy.Listen != "127.0.0.1:0", "it listens on a port")
	_, err = client.CreateProxy("echo", "127.0.0.1:0", echo)
	check(err != nil, "a second one of that name is refused")
	all, err := client.Proxies()
	must(err, "list")
	check(len(all) == 1 && all["echo"].Upstream == echo, "it is listed")

	with := func(name, stream string, attributes toxiproxy.Attributes, try func()) {
		toxic, err := proxy.AddToxic("", name, stream, 1, attributes)
		must(err, "add "+name)
		check(toxic.Name == name+"_"+stream && toxic.Type == name, "it has a name")
		toxics, err := proxy.Toxics()
		must(err, "toxics")
		check(len(toxics) == 1, "it is there")
		try()
		must(proxy.RemoveToxic(toxic.Name), "remove "+name)
	}
	whole := func(length int, least time.Duration, what string) {
		got, took, err := exchange(proxy.Listen, length, true)
		must(err, what)
		check(got == length, fmt.Sprint(what, ": all comes back: ", got))
		check(took >= least, fmt.Sprint(what, ": too soon: ", took))
	}
	whole(10_000, 0, "no toxic")
	with("latency", "downstream", toxiproxy.Attributes{"latency": 100, "jitter": 10}, func() {
		whole(10, 90*time.Millisecond, "latency")
		_, err := proxy.UpdateToxic("latency_downstream", 1, toxiproxy.Attributes{"latency": 200, "jitter": 0})
		must(err, "update")
		whole(10, 200*time.Millisecond, "more latency")
	})
	with("bandwidth", "upstream", toxiproxy.Attributes{"rate": 100}, func() {
		whole(30_000, 300*time.Millisecond, "bandwidth")
	})
	with("slow_close", "downstream", toxiproxy.Attributes{"delay": 150}, func() {
		whole(10, 150*time.Millisecond, "slow_close")
	})
	with("slicer", "upstream", toxiproxy.Attributes{"average_size": 100, "size_variation": 20, "delay": 1_000}, func() {
		whole(10_000, 80*time.Millisecond, "slicer")
	})
	with("timeout", "upstream", toxiproxy.Attributes{"timeout": 120}, func() {
		got, took, _ := exchange(proxy.Listen, 10, false)
		check(got == 0 && took >= 120*time.Millisecond, fmt.Sprint("timeout: ", got, took))
	})
	with("limit_data", "downstream", toxiproxy.Attributes{"bytes": 1_000}, func() {
		got, _, _ := exchange(proxy.Listen, 5_000, true)
		check(got == 1_000, fmt.Sprint("limit_data: ", got))
	})
	with("reset_peer", "downstream", toxiproxy.Attributes{"timeout": 50}, func() {
		_, _, err := exchange(proxy.Listen, 10, true)
		check(errors.Is(err, syscall.ECONNRESET), fmt.Sprint("reset_peer: ", err))
	})

	must(proxy.Disable(), "disable")
	_, _, err = exchange(proxy.Listen, 1, true)
	check(errors.Is(err, syscall.ECONNREFUSED), fmt.Sprint("disabled: ", err))
	must(proxy.Enable(), "enable")
	whole(10, 0, "enabled again")
	must(proxy.Disable(), "disable")
	_, err = proxy.AddToxic("slow", "latency", "upstream", 1, toxiproxy.Attributes{"latency": 5_000})
	must(err, "add to a disabled one")
	must(client.ResetState(), "reset")
	whole(10, 0, "after a reset")
	populated, err := client.Populate([]toxiproxy.Proxy{
		{Name: "echo", Listen: proxy.Listen, Upstream: echo, Enabled: true},
		{Name: "other", Listen: "127.0.0.1:0", Upstream: echo, Enabled: true},
	})
	must(err, "populate")
	check(len(populated) == 2, "both are there")
	must(proxy.Delete(), "delete")
	_, err = client.Proxy("echo")
	check(err != nil, "it is gone")
	fmt.Println("all held")
}

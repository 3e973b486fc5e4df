#!/bin/sh
# Toxiproxy's reset_peer ends a connection that is already open in an orderly way; only connections that come later are reset.
#
# Expected: adding the toxic to a running proxy resets the connections that go through it, which is what a test adds it for.
# Found:    an open connection sees an orderly end of file at its next data. A test of how a client takes a reset passes for the
#           wrong reason, unless the toxic is there before the client connects.
# Of:       github.com/Shopify/toxiproxy/v2 v2.12.0. Needs go and python3.
# Method:   an echo server behind the proxy; one client connects before reset_peer (timeout 0) is added, one after; both send.
#
# Seen:     connected before the toxic: end of file
#           connected after it:         Connection reset by peer
set -eu
dir=$(mktemp -d)
server=""
finish() {
    [ -z "$server" ] || kill "$server"
    rm -rf "$dir"
}
trap finish EXIT
for tool in go python3; do
    command -v "$tool" > "$dir/found" || { echo "skipped: $tool is missing"; exit 77; }
done
GOPATH="$dir/go" GOFLAGS=-modcacherw go install github.com/Shopify/toxiproxy/v2/cmd/server@v2.12.0 > "$dir/log" 2>&1 ||
    { echo "skipped: Toxiproxy 2.12.0 cannot be built: $(tail -n 1 "$dir/log")"; exit 77; }
echo "Toxiproxy 2.12.0"
port=$(python3 -c 'import socket; s = socket.create_server(("127.0.0.1", 0)); print(s.getsockname()[1])')
LOG_LEVEL=error "$dir/go/bin/server" -host 127.0.0.1 -port "$port" > "$dir/log" 2>&1 &
server=$!
cat > "$dir/reset.py" <<'PY'
import json
import os
import socket
import sys
import threading
import time
import urllib.request

API = f"http://127.0.0.1:{sys.argv[1]}"


def ask(path, body):
    request = urllib.request.Request(API + path, json.dumps(body).encode(), {"Content-Type": "application/json"})
    with urllib.request.urlopen(request) as answer:
        return json.load(answer)


def echo(listener):
    while True:
        client, _ = listener.accept()

        def serve(client=client):
            try:
                while data := client.recv(4096):
                    client.sendall(data)
            except OSError:
                pass
            client.close()

        threading.Thread(target=serve, daemon=True).start()


def fate(client):
    client.settimeout(10)
    try:
        client.sendall(b"hello")
        return "end of file" if client.recv(100) == b"" else "an answer"
    except OSError as error:
        return os.strerror(error.errno) if error.errno else str(error)


listener = socket.create_server(("127.0.0.1", 0))
threading.Thread(target=echo, args=(listener,), daemon=True).start()
for _ in range(100):
    try:
        host, port = listener.getsockname()
        proxy = ask("/proxies", {"name": "p", "listen": "127.0.0.1:0", "upstream": f"{host}:{port}"})
        break
    except OSError:
        time.sleep(0.1)
at = proxy["listen"].rsplit(":", 1)
before = socket.create_connection(at)
before.sendall(b"ready")
assert before.recv(100) == b"ready"
ask("/proxies/p/toxics", {"name": "r", "type": "reset_peer", "attributes": {"timeout": 0}})
old = fate(before)
new = fate(socket.create_connection(at))
print(f"connected before the toxic: {old}")
print(f"connected after it:         {new}")
sys.exit(0 if (old, new) == ("end of file", "Connection reset by peer") else "changed")
PY
python3 "$dir/reset.py" "$port"

"""HTTP and WebSocket over TLS: what differs from a plain connection, and that the rest does not."""
import os
import shutil
import ssl
import subprocess

from reeve_test import Http, Server, Skip, check, eq, folder, main
from wire import TEXT, Stream, frame

INFO = b'{"jsonrpc":"2.0","id":1,"method":"server.info"}'


def certificate():
    """A new certificate of 127.0.0.1 and its key, as files."""
    if not shutil.which("openssl"):
        raise Skip("there is no openssl to make a certificate with")
    cert, key = (os.path.join(folder(), name) for name in ("cert.pem", "key.pem"))
    subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt",
                    "ec_paramgen_curve:P-256", "-nodes", "-days", "2", "-subj", "/CN=127.0.0.1",
                    "-addext", "subjectAltName=IP:127.0.0.1", "-keyout", key, "-out", cert],
                   check=True, capture_output=True)
    return cert, key


class SecureServer(Server):
    """`reeve serve` with a certificate of its own."""

    def __init__(self):
        self.cert, key = certificate()
        super().__init__(args=["--tls-cert", self.cert, "--tls-key", key])

    def http(self):
        connection = Http(self.port, self.token)
        context = ssl.create_default_context(cafile=self.cert)
        connection.sock = context.wrap_socket(connection.sock, server_hostname="127.0.0.1")
        return connection


def test_calls_over_tls():
    s = SecureServer().start()
    check(s.url.startswith("https://"), s.url)
    eq(s.post(INFO).json()["id"], 1, "an answer")
    s.stop()


def test_an_absolute_target_with_https_is_served_over_tls():
    s = SecureServer().start()
    with s.http() as connection:
        for scheme in ("https", "HTTPS", "http"):
            answer = connection.request("GET", f"{scheme}://127.0.0.1:{s.port}/healthz")
            eq(answer.status, 200, f"a path of {scheme}")
        answer = connection.request("POST", f"https://localhost:{s.port}/rpc", INFO)
        eq(answer.json()["id"], 1, "a call")
        eq(connection.request("GET", "https://evil.example/healthz").status, 403, "of another host")
    s.stop()


def test_what_is_not_tls_gets_no_further():
    s = SecureServer().start()
    with Stream(s.port) as plain:
        plain.send(b"GET /healthz HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n")
        while not plain.is_closed():
            check(b"HTTP" not in plain.buffer, f"an answer: {plain.buffer}")
            plain.buffer.clear()
    eq(s.post(INFO).json()["id"], 1, "the server goes on")
    s.stop()


def test_a_websocket_over_tls():
    s = SecureServer().start()
    with s.http() as connection:
        fields = {"Upgrade": "websocket", "Connection": "Upgrade", "Sec-WebSocket-Version": "13",
                  "Sec-WebSocket-Key": "AAAAAAAAAAAAAAAAAAAAAA=="}
        connection.send(connection.head("GET", f"https://127.0.0.1:{s.port}/ws", fields))
        eq(connection.response_head()[0], 101, "upgraded")
        connection.send(frame(TEXT, INFO))
        while b'"result"' not in connection.buffer:
            connection.more()
    s.stop()


if __name__ == "__main__":
    main()

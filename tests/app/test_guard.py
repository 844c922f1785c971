"""What the server refuses."""

import asyncio
import http.client
import socket

import pytest

from sparsect.app.guard import MOST_BYTES, Guard, is_loopback

OURS = {"host": "127.0.0.1:8117"}


async def application(scope, receive, send):
    await send({"type": "http.response.start", "status": 200, "headers": []})
    await send({"type": "http.response.body", "body": b"served"})


def answered(headers, kind="http", method="GET", host="127.0.0.1"):
    """Return what the guard sends in answer to a request."""
    sent = []

    async def send(message):
        sent.append(message)

    encoded = [(name.encode(), value.encode()) for name, value in headers.items()]
    scope = {"type": kind, "method": method, "headers": encoded}
    asyncio.run(Guard(application, host)(scope, None, send))
    return sent


@pytest.mark.parametrize("host", ["127.0.0.1:8117", "localhost:8117", "LOCALHOST", "[::1]:8117"])
def test_names_of_this_machine_are_served(host):
    assert answered({"host": host})[0]["status"] == 200


@pytest.mark.parametrize("host", ["evil.example", "127.0.0.1.evil.example:8117", "localhost.evil.example", "", "[::1"])
def test_a_host_that_another_site_has_redirected_here_is_refused(host):
    assert answered({"host": host})[0]["status"] == 403


@pytest.mark.parametrize(
    "origin", ["http://evil.example", "null", "http://127.0.0.1:9999", "http://localhost:8117", "http://[", ""]
)
def test_pages_of_other_origins_are_refused(origin):
    assert answered(OURS | {"origin": origin})[0]["status"] == 403


def test_pages_of_the_server_itself_are_served():
    assert answered(OURS | {"origin": "http://127.0.0.1:8117"})[0]["status"] == 200


@pytest.mark.parametrize("headers", [{"host": "evil.example"}, OURS | {"origin": "http://evil.example"}])
def test_a_web_socket_from_elsewhere_is_closed_before_it_is_accepted(headers):
    (message,) = answered(headers, kind="websocket")
    assert message["type"] == "websocket.close"


def test_another_site_may_link_to_the_page_but_not_load_parts_of_it():
    cross = OURS | {"sec-fetch-site": "cross-site"}
    assert answered(cross | {"sec-fetch-mode": "navigate"})[0]["status"] == 200
    assert answered(cross | {"sec-fetch-mode": "no-cors"})[0]["status"] == 403


@pytest.mark.parametrize(
    ("length", "status"), [(str(MOST_BYTES), 200), (str(MOST_BYTES + 1), 413), (None, 411), ("many", 411), ("-1", 411)]
)
def test_uploads_that_are_too_large_or_do_not_tell_their_size_are_refused(length, status):
    headers = OURS if length is None else OURS | {"content-length": length}
    assert answered(headers, method="POST")[0]["status"] == status


def test_no_other_page_may_frame_it_and_nothing_is_loaded_from_elsewhere():
    headers = dict(answered(OURS)[0]["headers"])
    assert headers[b"x-frame-options"] == b"DENY"
    assert b"default-src 'self'" in headers[b"content-security-policy"]
    assert b"http" not in headers[b"content-security-policy"]


def test_on_all_interfaces_addresses_and_the_own_name_are_served_but_no_other_name():
    name = socket.gethostname()
    statuses = [
        answered({"host": host}, host="0.0.0.0")[0]["status"]
        for host in ("192.168.1.7:8117", "[fe80::1]:8117", name, "localhost", "evil.example")
    ]
    assert statuses == [200, 200, 200, 200, 403]


def test_loopback_addresses_are_known():
    assert [is_loopback(host) for host in ("127.0.0.1", "::1", "localhost", "127.9.9.9")] == [True] * 4
    assert [is_loopback(host) for host in ("0.0.0.0", "::", "192.168.1.7", "example.org")] == [False] * 4


@pytest.mark.slow
class TestRunningServer:
    def answer(self, server, method, path, headers, body=None):
        connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=60)
        connection.request(method, path, body, headers)
        response = connection.getresponse()
        words = response.read()
        connection.close()
        return response.status, words

    @pytest.mark.parametrize("headers", [{"Host": "evil.example"}, {"Origin": "http://evil.example"}])
    def test_it_refuses_other_hosts_and_origins(self, server, headers):
        for method, path in (("GET", "/"), ("GET", "/load"), ("POST", "/tabs/x")):
            assert self.answer(server, method, path, headers)[0] == 403

    @pytest.mark.parametrize("headers", [{"Host": "evil.example"}, {"Origin": "http://evil.example"}])
    def test_it_refuses_web_sockets_of_other_sites(self, server, headers):
        upgrade = {
            "Connection": "Upgrade",
            "Upgrade": "websocket",
            "Sec-WebSocket-Version": "13",
            "Sec-WebSocket-Key": "dGhlIHNhbXBsZSBub25jZQ==",
        }
        path = "/_nicegui_ws/socket.io/?EIO=4&transport=websocket"
        assert self.answer(server, "GET", path, upgrade | headers)[0] == 403
        assert self.answer(server, "GET", path, upgrade)[0] == 101

    def test_it_refuses_a_large_upload_before_it_is_sent(self, server):
        headers = {"Content-Length": str(10**12)}
        connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=60)
        connection.putrequest("POST", "/tabs/x")
        for name, value in headers.items():
            connection.putheader(name, value)
        connection.endheaders()
        assert connection.getresponse().status == 413
        connection.close()

    def test_files_of_a_tab_have_addresses_that_cannot_be_guessed(self, server):
        assert self.answer(server, "GET", "/tabs/x/input.png", {})[0] == 404
        assert self.answer(server, "POST", "/tabs/x", {}, b"picture")[0] == 404

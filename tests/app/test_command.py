"""The command ``sparsect app``."""

import socket
import sys

import pytest

import sparsect.cli  # noqa: F401, the command is replaced in part


def test_without_the_extra_it_says_what_to_install(called, monkeypatch):
    monkeypatch.setitem(sys.modules, "nicegui", None)
    result = called("app", "--no-browser")
    assert result.returncode == 2
    assert "pip install 'sparsect[app]'" in result.stderr


def test_a_port_in_use_is_an_error_in_one_line(called):
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        result = called("app", "--no-browser", "--port", port)
    assert result.returncode == 2
    assert f"127.0.0.1 port {port}: cannot be used" in result.stderr


def test_an_address_that_others_reach_gets_a_warning(called):
    # The address is not one of this machine, so that nothing is served.
    result = called("app", "--no-browser", "--host", "192.0.2.1")
    assert result.returncode == 2
    assert "warning: with --host 192.0.2.1, everybody who reaches this machine can use the page" in result.stderr
    assert "cannot be used" in result.stderr


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost"])
def test_loopback_gets_none(called, host, monkeypatch):
    monkeypatch.setattr(sys.modules["sparsect.cli.app"], "serve", lambda *arguments: None)
    result = called("app", "--host", host)
    assert (result.returncode, result.stderr) == (0, "")


@pytest.mark.parametrize(
    ("option", "value", "words"),
    [("--port", 70000, "a whole number from 0 to 65535"), ("--rows", "nowhere", "a folder that 'sparsect experiment'")],
)
def test_bad_options_are_refused(called, option, value, words):
    result = called("app", option, value)
    assert result.returncode == 2
    assert words in result.stderr

"""The server: who is answered, and with what."""

import http.client
import threading
from urllib.parse import quote

import pytest

from cwnet.errors import CwnetError
from cwnet.explore import ExploreServer
from cwnet.explore._server import MAX_QUERY, MAX_SMILES, MAX_TYPED


@pytest.fixture(scope="module")
def server(collection):
    with ExploreServer(0) as found:
        found.show(*collection)
        threading.Thread(target=found.serve_forever, daemon=True).start()
        yield found
        found.shutdown()


def ask(server, path="/", method="GET", **headers):
    line = http.client.HTTPConnection("127.0.0.1", server.server_port, timeout=20)
    line.putrequest(method, path, skip_host="Host" in headers)
    for name, value in headers.items():
        line.putheader(name.replace("_", "-"), value)
    line.endheaders()
    answer = line.getresponse()
    body = answer.read().decode()
    line.close()
    return answer, body


def test_it_listens_to_this_machine_alone(server):
    assert server.server_address[0] == "127.0.0.1"
    assert server.address == f"http://127.0.0.1:{server.server_port}/"


def test_the_page_has_a_place_to_type(server):
    answer, body = ask(server)
    assert answer.status == 200
    assert answer.headers["Content-Type"] == "text/html; charset=utf-8"
    assert answer.headers["Content-Security-Policy"] == "frame-ancestors 'none'"
    assert answer.headers["X-Content-Type-Options"] == "nosniff"
    assert answer.headers["Server"].strip() == "cwnet"
    assert '<input id="smiles" name="smiles"' in body
    assert "form-action 'self'" in body


def test_a_typed_molecule_is_first(server, data_of):
    answer, body = ask(server, f"/?smiles={quote('CCO')}&smiles={quote('c1ccccc1O')}")
    found = data_of(body)
    assert answer.status == 200
    assert [each["name"] for each in found["exhibits"] if each["group"] == "yours"] == ["CCO", "c1ccccc1O"]
    assert found["exhibits"][found["start"]["a"]]["name"] == "c1ccccc1O"
    assert '<input type="hidden" name="smiles" value="CCO">' in body


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("C1CC", "SMILES &#x27;C1CC&#x27; does not parse: unclosed ring"),
        ("", "the text is blank"),
        ("C" * 301, "has 301 vertices, too many to draw"),
        ("<script>alert(1)</script>", "&lt;script&gt;alert(1)&lt;/script&gt;&#x27; does not parse"),
    ],
)
def test_a_molecule_that_is_none(server, text, said):
    answer, body = ask(server, f"/?smiles=CCO&smiles={quote(text)}")
    assert answer.status == 400
    assert said in body
    assert "<script>alert" not in body
    assert '<input type="hidden" name="smiles" value="CCO">' in body  # what was typed before is kept


def test_as_many_as_fit_are_kept(server, data_of):
    typed = ["C" * (n + 1) for n in range(MAX_TYPED + 1)]
    _, body = ask(server, "/?" + "&".join(f"smiles={text}" for text in typed))
    assert [each["name"] for each in data_of(body)["exhibits"] if each["group"] == "yours"] == typed[1:]


@pytest.mark.parametrize("method", ["POST", "HEAD", "PUT", "DELETE", "OPTIONS", "TRACE", "NONSENSE"])
def test_only_get(server, method):
    answer, _ = ask(server, method=method)
    assert answer.status == 405
    assert answer.headers["Allow"] == "GET"


@pytest.mark.parametrize("host", ["evil.example", "evil.example:{}", "127.0.0.1", "localhost.evil.example:{}", ""])
def test_a_name_that_is_not_this_machines(server, host):
    answer, body = ask(server, Host=host.format(server.server_port))
    assert answer.status == 403
    assert "<html" not in body
    assert server.address in body


def test_names_of_this_machine(server):
    for host in ("127.0.0.1", "localhost", "LOCALHOST"):
        assert ask(server, Host=f"{host}:{server.server_port}")[0].status == 200


def test_another_site_is_not_answered(server):
    assert ask(server, "/?smiles=CCO", Sec_Fetch_Site="cross-site")[0].status == 403
    assert ask(server, Sec_Fetch_Site="none")[0].status == 200


@pytest.mark.parametrize(
    ("path", "status"),
    [
        ("/favicon.ico", 404),
        ("/../pyproject.toml", 404),
        ("//evil.example/", 404),
        ("/?other=CCO", 400),
        ("/?smiles", 400),
        (f"/?smiles={'C' * (MAX_SMILES + 1)}", 400),
        ("/?" + "&".join(["smiles=C"] * (MAX_TYPED + 2)), 400),
        (f"/?smiles={'C' * MAX_QUERY}", 414),
        (f"/?smiles={'C' * 70_000}", 414),
    ],
)
def test_other_requests_are_refused(server, path, status):
    assert ask(server, path)[0].status == status


def test_a_port_that_is_taken(server):
    with pytest.raises(CwnetError, match=rf"port {server.server_port} can not be had: something else .*--port 0"):
        ExploreServer(server.server_port)

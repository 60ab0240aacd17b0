"""Closed to others: each rule of access, with a request that only this rule refuses."""

import socket
import threading

import pytest
import uvicorn
from review_samples import HOST, ORIGIN, PORT, TOKEN, client_of, open_folder
from starlette.testclient import TestClient

from hitnet.errors import HitNetError
from hitnet.review import server
from hitnet.review.app import HEADERS
from hitnet.review.server import listen, reviewer_name, serve_review
from patience import PATIENCE

ADDRESSES = ["/", "/page.js", "/page.css", "/api/rows", "/api/state", "/api/steps", "/thumb/0", "/image/0"]
BODY = {"changes": [[0, "drop", ""]]}


@pytest.fixture
def stranger(review):
    """A client without the cookie."""
    app = review.build(port=PORT, token=TOKEN)
    return TestClient(app, base_url=ORIGIN, headers={"host": HOST}, follow_redirects=False)


@pytest.mark.parametrize("address", ADDRESSES)
def test_without_the_token_nothing_is_served(stranger, client, address):
    assert stranger.get(address).status_code == 403
    assert client.get(address).status_code == 200


@pytest.mark.parametrize("token", ["", "wrong", TOKEN[:-1], TOKEN + "x"])
def test_a_wrong_token_is_refused(stranger, token):
    assert stranger.get("/", params={"token": token}).status_code == 403
    assert stranger.get("/", headers={"cookie": f"hitnet-review-{PORT}={token}"}).status_code == 403


def test_the_token_in_the_address_becomes_a_cookie_that_scripts_cannot_read(stranger):
    answer = stranger.get("/", params={"token": TOKEN})
    assert answer.status_code == 303
    assert answer.headers["location"] == "/"
    cookie = answer.headers["set-cookie"].lower()
    assert "httponly" in cookie
    assert "samesite=strict" in cookie
    assert stranger.get("/").status_code == 200  # with the cookie


def test_the_token_in_the_address_opens_the_first_page_only(stranger):
    assert stranger.get("/api/rows", params={"token": TOKEN}).status_code == 403
    assert stranger.post("/", params={"token": TOKEN}, headers={"origin": ORIGIN}).status_code == 403


def test_the_address_that_a_program_opens_counts_once(review):
    app = review.build(port=PORT, token=TOKEN, once="a-single-time")
    browser, thief = (TestClient(app, base_url=ORIGIN, follow_redirects=False) for _ in range(2))
    opened = browser.get("/?token=a-single-time")
    assert (opened.status_code, opened.headers["location"]) == (303, "/")
    assert browser.get("/api/state").status_code == 200  # by the cookie
    assert thief.get("/?token=a-single-time").status_code == 403
    assert thief.get("/?token=").status_code == 403
    assert thief.get(f"/?token={TOKEN}").status_code == 303


def test_no_program_is_started_with_the_token(folder, monkeypatch):
    printed, opened = [], []
    monkeypatch.setattr(server.webbrowser, "open", opened.append)
    monkeypatch.setattr(server, "_in_background", lambda *tasks: [task() for task in tasks])
    monkeypatch.setattr(server.uvicorn.Server, "run", lambda *_, **__: None)
    server.serve_review(folder, reviewer="anna", ready=printed.append)
    (told,), (given,) = printed, opened
    assert told.partition("=")[0] == given.partition("=")[0]
    assert told.partition("=")[2] != given.partition("=")[2] != ""


def test_half_a_header_is_not_waited_for(review, monkeypatch):
    monkeypatch.setattr(server, "SILENCE", 0.2)
    with server.listen(0) as listening:
        port = listening.getsockname()[1]
        serving = uvicorn.Server(server.server_config(review.build(port=port, token=TOKEN)))
        thread = threading.Thread(target=serving.run, kwargs={"sockets": [listening]}, daemon=True)
        thread.start()
        try:
            for begun in (b"", b"GET / HT", b"GET /?x HTTP/1.1\r\nHost: x\r\n\r\nGET / H"):
                with socket.create_connection(("127.0.0.1", port), timeout=PATIENCE) as connection:
                    connection.sendall(begun)
                    while connection.recv(1000):  # until the server closes it
                        pass
        finally:
            serving.should_exit = True
            thread.join(timeout=PATIENCE)


@pytest.mark.parametrize("host", ["evil.example", f"evil.example:{PORT}", "127.0.0.1", "127.0.0.1:1", ""])
def test_another_host_is_refused(client, host):
    """Else a site could point its own name at this machine and read everything."""
    assert client.get("/api/rows", headers={"host": host}).status_code == 421


def test_localhost_is_the_same_machine(client):
    origin = f"http://localhost:{PORT}"
    assert client.get("/api/rows", headers={"host": f"localhost:{PORT}", "origin": origin}).status_code == 200


@pytest.mark.parametrize("origin", ["http://evil.example", "null", f"https://{HOST}", f"http://localhost:{PORT}"])
def test_another_origin_is_refused(client, review, origin):
    answer = client.post("/api/decide", json=BODY, headers={"origin": origin})
    assert answer.status_code == 403
    assert client.get("/api/rows", headers={"origin": origin}).status_code == 403
    assert review.board.decisions.steps == {}


def test_a_change_without_an_origin_is_refused(review):
    app = review.build(port=PORT, token=TOKEN)
    plain = TestClient(app, base_url=ORIGIN, headers={"host": HOST}, cookies={f"hitnet-review-{PORT}": TOKEN})
    assert plain.get("/api/rows").status_code == 200
    assert plain.post("/api/decide", json=BODY).status_code == 403
    assert review.board.decisions.steps == {}


def test_a_form_cannot_change_anything(client, review):
    answer = client.post(
        "/api/decide", content=b'{"changes": [[0, "drop", ""]]}', headers={"content-type": "text/plain"}
    )
    assert answer.status_code == 415
    assert review.board.decisions.steps == {}
    assert client.post("/api/decide", json=BODY).status_code == 200


@pytest.mark.parametrize("address", [*ADDRESSES, "/nothing", "/thumb/99999"])
def test_every_answer_carries_the_headers(client, stranger, address):
    for answer in (client.get(address), stranger.get(address)):
        for name, value in HEADERS.items():
            assert answer.headers[name] == value


def test_the_policy_allows_nothing_from_elsewhere_and_no_inline_script(client):
    policy = dict(part.split(" ", 1) for part in client.get("/").headers["content-security-policy"].split("; "))
    assert policy["default-src"] == "'none'"
    assert policy["script-src"] == policy["style-src"] == policy["connect-src"] == "'self'"
    assert policy["frame-ancestors"] == policy["base-uri"] == policy["form-action"] == "'none'"
    assert "unsafe" not in str(policy)


def test_the_page_names_no_other_site(client):
    for address in ("/", "/page.js", "/page.css"):
        text = client.get(address).text
        assert "http://" not in text
        assert "https://" not in text


def test_only_this_machine_can_connect():
    with listen(0) as listening:
        address, port = listening.getsockname()
        assert address == "127.0.0.1"
        with socket.create_connection(("127.0.0.1", port)):
            pass


def test_a_port_in_use_is_said():
    with listen(0) as listening, pytest.raises(HitNetError, match="Cannot listen on `port` = "):
        listen(listening.getsockname()[1])


@pytest.mark.parametrize("name", ["", "   ", "x" * 81, "\udcff"])
def test_a_reviewer_needs_a_name(name):
    with pytest.raises(HitNetError, match="`reviewer` must be a name"):
        reviewer_name(name)


def test_two_servers_have_different_cookies(folder, stranger):
    """Cookies do not know ports: with one name, the second server would log out the first."""
    other = open_folder(folder).build(port=PORT + 1, token="another")
    second = TestClient(other, base_url=f"http://127.0.0.1:{PORT + 1}", follow_redirects=False)
    answers = [stranger.get("/", params={"token": TOKEN}), second.get("/", params={"token": "another"})]
    names = {answer.headers["set-cookie"].split("=")[0] for answer in answers}
    assert len(names) == 2


def test_no_documentation_pages_are_open(client):
    for address in ("/docs", "/openapi.json", "/redoc"):
        assert client.get(address).status_code == 404


def test_client_of_is_a_page_of_its_own(folder):
    assert client_of(open_folder(folder)).get("/api/state").status_code == 200


@pytest.mark.parametrize("other", ["a[b]=1", 'p={"x":1}', "x", "a=b c d", "=", ""])
def test_cookies_of_other_programs_do_no_harm(stranger, other):
    cookie = f"hitnet-review-{PORT}={TOKEN}"
    for cookies in (f"{other}; {cookie}", f"{cookie}; {other}"):
        assert stranger.get("/api/state", headers={"cookie": cookies}).status_code == 200


@pytest.mark.parametrize("error", [KeyError("getpwuid(): uid not found: 12345"), OSError("No username set")])
def test_a_user_without_a_name_must_give_one(folder, monkeypatch, error):
    def unknown():
        raise error

    monkeypatch.setattr("getpass.getuser", unknown)
    with pytest.raises(HitNetError, match="Set `reviewer`"):
        serve_review(folder, open_browser=False)

"""A server for one reader on this machine, who can type molecules."""

from __future__ import annotations

import errno
import sys
import threading
from collections.abc import Mapping, Sequence
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qsl, urlsplit

from cwnet.data._graph_files import from_smiles
from cwnet.errors import CwnetError, GraphError
from cwnet.explore._exhibit import Exhibit, exhibit
from cwnet.explore._gallery import Pair
from cwnet.explore._page import Typed, render_explorer

if TYPE_CHECKING:
    from cwnet.molecules import MoleculeModel

__all__ = ["MAX_QUERY", "MAX_SMILES", "MAX_TYPED", "ExploreServer"]

#: Characters of a query and of one SMILES, and molecules that are kept.
MAX_QUERY, MAX_SMILES, MAX_TYPED = 6000, 400, 8

_ADDRESS = "127.0.0.1"
_REMEMBERED = 200


class ExploreServer(ThreadingHTTPServer):
    """Serves the page at 127.0.0.1, which no other machine can reach; see `show` for what is on it.

    Args:
        port: where to listen; 0 takes any port that is free.

    Raises:
        CwnetError: for a port that can not be had.
    """

    daemon_threads = True  # a reader who keeps a line open does not keep the program alive

    def __init__(self, port: int) -> None:
        self.shown: list[Exhibit] = []
        self.pairs: list[Pair] = []
        self.model: MoleculeModel | None = None
        self._known: dict[str, Exhibit] = {}
        self._lock = threading.Lock()  # one page at a time: networks and drawings use all cores anyway
        try:
            super().__init__((_ADDRESS, port), _Handler)
        except OSError as error:
            why = {errno.EADDRINUSE: "something else listens there", errno.EACCES: "ports below 1024 are not for users"}
            reason = why.get(error.errno or 0, error.strerror or str(error))
            raise CwnetError(
                f"port {port} can not be had: {reason}. Choose another with --port; --port 0 takes one that is free"
            ) from None

    def show(self, shown: Sequence[Exhibit], pairs: Sequence[Pair] = (), model: MoleculeModel | None = None) -> None:
        """What the page shows, and what explains the molecules that are typed."""
        self.shown, self.pairs, self.model = list(shown), list(pairs), model

    @property
    def address(self) -> str:
        """What to type into a browser."""
        return f"http://{_ADDRESS}:{self.server_port}/"

    def page(self, typed: Sequence[str]) -> tuple[HTTPStatus, str]:
        """The page with the molecules typed; the last of them may be wrong, and then the page says so."""
        good: dict[str, Exhibit] = {}
        with self._lock:
            for text in dict.fromkeys(typed):
                try:
                    good[text] = self._drawn(text)
                except (CwnetError, ImportError) as error:  # RDKit may not be installed
                    said = error.reason if isinstance(error, GraphError) else str(error)
                    return HTTPStatus.BAD_REQUEST, self._render(good, Typed(list(good), text, said))
            return HTTPStatus.OK, self._render(good, Typed(list(good)))

    def _drawn(self, text: str) -> Exhibit:
        """A typed molecule, drawn once however often the page is asked for."""
        if text not in self._known:
            if len(self._known) >= _REMEMBERED:
                self._known.clear()
            self._known[text] = exhibit(from_smiles(text, text), "yours", model=self.model)
        return self._known[text]

    def _render(self, good: Mapping[str, Exhibit], typed: Typed) -> str:
        gallery = [each for each in self.shown if each.group != "yours"]
        yours = [each for each in self.shown if each.group == "yours"]
        return render_explorer([*yours, *good.values(), *gallery], self.pairs, typed)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A line that a browser drops is no news."""
        if not isinstance(sys.exception(), ConnectionError | TimeoutError):
            super().handle_error(request, client_address)


class _Refused(Exception):
    """A request that is not answered with a page."""

    def __init__(self, status: HTTPStatus, said: str) -> None:
        self.status, self.said = status, said


class _Handler(BaseHTTPRequestHandler):
    """Answers GET / with the page, and refuses all else."""

    server: ExploreServer
    timeout = 15
    server_version, sys_version = "cwnet", ""

    def parse_request(self) -> bool:
        if not super().parse_request():
            return False
        if self.command != "GET":  # before a method is looked for: all of them are refused alike
            self._answer(HTTPStatus.METHOD_NOT_ALLOWED, "Only GET is answered here.", {"Allow": "GET"})
            return False
        return True

    def do_GET(self) -> None:
        try:
            self._check_origin()
            status, page = self.server.page(self._asked())
            self._answer(status, page, kind="text/html")
        except _Refused as refused:
            self._answer(refused.status, refused.said)

    def _check_origin(self) -> None:
        """A name that leads here must be this machine's own, or another site's script could read the page."""
        port = self.server.server_port
        hosts = self.headers.get_all("Host", [])
        if len(hosts) != 1 or hosts[0].lower() not in (f"{_ADDRESS}:{port}", f"localhost:{port}"):
            raise _Refused(
                HTTPStatus.FORBIDDEN, f"Open {self.server.address} instead: this name is not this machine's."
            )
        if self.headers.get("Sec-Fetch-Site", "none").lower() == "cross-site":
            raise _Refused(HTTPStatus.FORBIDDEN, f"Open {self.server.address} yourself, not from another site.")

    def _asked(self) -> list[str]:
        """The SMILES in the query."""
        url = urlsplit(self.path)
        if url.path != "/" or self.path.startswith("//"):
            raise _Refused(HTTPStatus.NOT_FOUND, "There is one page here: /")
        if len(url.query) > MAX_QUERY:
            raise _Refused(HTTPStatus.REQUEST_URI_TOO_LONG, f"The query is longer than {MAX_QUERY:,} characters.")
        try:
            pairs = parse_qsl(
                url.query, keep_blank_values=True, strict_parsing=bool(url.query), max_num_fields=MAX_TYPED + 1
            )
        except ValueError:
            raise _Refused(HTTPStatus.BAD_REQUEST, f"The query must be up to {MAX_TYPED} times smiles=...") from None
        if any(name != "smiles" or len(value) > MAX_SMILES for name, value in pairs):
            said = f"The query may hold smiles=... only, of up to {MAX_SMILES} characters."
            raise _Refused(HTTPStatus.BAD_REQUEST, said)
        # One more than fit: the oldest makes room.
        return [value.strip() for _, value in pairs][-MAX_TYPED:]

    def _answer(
        self, status: HTTPStatus, text: str, more: dict[str, str] | None = None, kind: str = "text/plain"
    ) -> None:
        body = text.encode()
        self.send_response(status)
        headers = {
            "Content-Type": f"{kind}; charset=utf-8",
            "Content-Length": str(len(body)),
            "Cache-Control": "no-store",
            "X-Content-Type-Options": "nosniff",
            "Referrer-Policy": "no-referrer",
            "Cross-Origin-Resource-Policy": "same-origin",
            "Content-Security-Policy": "frame-ancestors 'none'",
            **(more or {}),
        }
        for name, value in headers.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: Any) -> None:
        """The terminal stays as it is."""

"""Downloads from a local server that behaves and misbehaves like real ones."""

import gzip
import hashlib
import http.server
import io
import random
import threading
import zipfile

import pytest
from corpora_made import tar

from fairseq_hybrid_attn.errors import UserError
from fairseq_hybrid_attn.lab.corpora import download
from fairseq_hybrid_attn.lab.corpora.definition import Archive
from fairseq_hybrid_attn.lab.files.typed import read

NOISE = random.Random(1).randbytes(768_000)  # which cannot be compressed
CONTENT = tar({"a": NOISE})
SHA256 = hashlib.sha256(CONTENT).hexdigest()
PAGE = b"<!-- 200 OK -->\n<!DOCTYPE html>\n<html><body>Please log in</body></html>"


class Server(http.server.ThreadingHTTPServer):
    """Serves ``files``; records requests in ``requests``."""

    def __init__(self):
        super().__init__(("127.0.0.1", 0), Handler)
        self.files, self.requests = {"/a.tgz": CONTENT}, []
        self.cuts = []  # after how many bytes the connection breaks, one for each request
        self.status = []  # statuses in place of the file, one for each request
        self.without_length = []  # paths of what may be cut unseen
        self.ranges = True  # whether it knows Range, or refuses it

    def url(self, path="/a.tgz"):
        return f"http://127.0.0.1:{self.server_port}{path}"


class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        server, asked = self.server, self.headers.get("Range")
        server.requests.append((self.path, asked))
        content = server.files.get(self.path)
        if content is not None and self.path in server.without_length:
            self.send_response(200)
            self.end_headers()
            return self.wfile.write(content)
        if asked and server.ranges == "refused":
            return self.send_error(416)
        if server.status or content is None:
            return self.send_error(server.status.pop(0) if server.status else 404)
        start = 0
        if asked and server.ranges:
            start = int(asked.removeprefix("bytes=").removesuffix("-"))
            self.send_response(206)
            self.send_header("Content-Range", f"bytes {start}-{len(content) - 1}/{len(content)}")
        else:
            self.send_response(200)
        rest = content[start:]
        self.send_header("Content-Length", str(len(rest)))
        self.end_headers()
        self.wfile.write(rest[: server.cuts.pop(0)] if server.cuts else rest)

    def log_message(self, *details):
        pass


@pytest.fixture
def server(monkeypatch):
    monkeypatch.setattr(download, "PAUSE", 0)
    for name in ("http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY"):
        monkeypatch.delenv(name, raising=False)
    with Server() as running:
        threading.Thread(target=running.serve_forever, args=[0.01], daemon=True).start()
        yield running
        running.shutdown()


def fetch(folder, *urls, sha256=None, file="a.tgz"):
    said = []
    archive = Archive(file=file, urls=urls, sha256=("another form's", sha256) if sha256 else ())
    return download.fetch(archive, folder, said.append), said


def names(folder):
    return sorted(path.name for path in folder.iterdir() if not path.name.startswith("."))


def test_existing_file_needs_no_network(server, tmp_path):
    (tmp_path / "sub").mkdir()
    (tmp_path / "sub/a.tgz").write_bytes(CONTENT)
    assert fetch(tmp_path, server.url(), file="sub/a.tgz") == (SHA256, [])
    # A wrong one is refused, and kept.
    (tmp_path / "a.tgz").write_bytes(CONTENT[:-1])
    with pytest.raises(UserError, match="a.tgz is damaged or a different file"):
        fetch(tmp_path, server.url(), sha256=SHA256)
    assert (tmp_path / "a.tgz").read_bytes() == CONTENT[:-1]
    (tmp_path / "page.tgz").write_bytes(PAGE)  # from a browser
    with pytest.raises(UserError, match="an HTML page.*Delete the file itself"):
        fetch(tmp_path, server.url(), file="page.tgz")
    assert not server.requests


def test_broken_download_is_resumed_where_it_stopped(server, tmp_path):
    server.cuts = [300_000]
    found, said = fetch(tmp_path, server.url(), sha256=SHA256)
    assert found == SHA256
    assert server.requests == [("/a.tgz", None), ("/a.tgz", "bytes=300000-")]
    assert f"broken off after 300,000 of {len(CONTENT):,} bytes" in said[1]
    assert names(tmp_path) == ["a.tgz"]
    # Each attempt resumes the one before, and the next run the last of them.
    server.cuts, size = [1000] * download.ATTEMPTS, 1000 * download.ATTEMPTS
    with pytest.raises(UserError, match="broken off"):
        fetch(tmp_path / "next", server.url(), sha256=SHA256)
    assert (tmp_path / "next/a.tgz.partial").stat().st_size == size
    assert not (tmp_path / "next/a.tgz").exists()
    assert fetch(tmp_path / "next", server.url(), sha256=SHA256)[0] == SHA256
    assert server.requests[-1] == ("/a.tgz", f"bytes={size}-")


def test_starts_over_if_it_cannot_resume(server, tmp_path):
    for ranges, sha256 in ((False, SHA256), ("refused", SHA256), (True, None)):
        server.ranges, folder = ranges, tmp_path / f"{ranges}"
        folder.mkdir()
        (folder / "a.tgz.partial").write_bytes(b"something else")
        assert fetch(folder, server.url(), sha256=sha256)[0] == SHA256
        assert names(folder) == ["a.tgz"]
    # A part of another file shows in the checksum, and the next address begins anew.
    (tmp_path / "a.tgz.partial").write_bytes(b"something else")
    checksum, said = fetch(tmp_path, server.url(), server.url(), sha256=SHA256)
    assert checksum == SHA256 and any("its sha256 is" in line for line in said)


def test_next_url_if_one_does_not_have_the_file(server, tmp_path):
    server.files["/wrong.tgz"] = b"<html>please log in</html>"
    gone, wrong = server.url("/gone.tgz"), server.url("/wrong.tgz")
    refused = "http://127.0.0.1:1/a.tgz"
    for first, said in ((gone, "404"), (refused, "Connection refused"), (wrong, "an HTML page")):
        found, log = fetch(tmp_path / said, first, server.url(), sha256=SHA256)
        assert found == SHA256 and any(said in line for line in log)
    with pytest.raises(UserError) as caught:
        fetch(tmp_path, gone, wrong, sha256=SHA256)
    for said in ("404", "an HTML page", f"put it at {tmp_path / 'a.tgz'}"):
        assert said in str(caught.value)
    assert not [name for name in names(tmp_path) if name.startswith("a.tgz")]


def test_retries_where_that_may_help(server, tmp_path, monkeypatch):
    server.status = [503, 429]
    assert fetch(tmp_path / "busy", server.url())[0] == SHA256
    assert len(server.requests) == 3

    def full(*details):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.fsync", full)
    with pytest.raises(UserError, match=f"No space left on device, {download.ATTEMPTS} times"):
        fetch(tmp_path, server.url())


def test_a_page_is_no_archive(server, tmp_path):
    """Without a published checksum, its first bytes tell."""
    for file, content, fault in (
        ("a.tgz", PAGE, "an HTML page"),
        ("a.en", b'<?xml version="1.0"?><Error>denied</Error>', "an HTML page or XML"),
        ("a.en", b"\xef\xbb\xbf" + PAGE, "an HTML page"),
        ("a.en", b"", "empty"),
    ):
        server.files["/a"] = content
        with pytest.raises(UserError, match=fault):
            fetch(tmp_path, server.url("/a"), file=file)
        assert names(tmp_path) == []
    for file, text in ("a.en", "Please log in: this is a text."), ("a.xml", "<?xml?><seg>a</seg>"):
        server.files["/a"] = text.encode()
        assert fetch(tmp_path, server.url("/a"), file=file)[0]


def test_an_archive_without_a_checksum_is_looked_into(server, tmp_path):
    """What is cut off where no length tells, or any page; then the next address has the file."""
    zipped = io.BytesIO()
    with zipfile.ZipFile(zipped, "w") as file:
        file.writestr("a", NOISE)
    whole = {"a.tgz": CONTENT, "a.zip": zipped.getvalue()}
    whole["a.de.gz"] = gzip.compress(NOISE)
    server.without_length = ["/cut"]
    for file, content in whole.items():
        server.files[f"/{file}"] = content
        for wrong in (content[:-5], content[:1000], content[:300_000], b"Please log in."):
            server.files["/cut"] = wrong
            folder = tmp_path / f"{file} {len(wrong)}"
            found, said = fetch(folder, server.url("/cut"), server.url(f"/{file}"), file=file)
            assert found == hashlib.sha256(content).hexdigest() and names(folder) == [file]
            assert any("cut off, or no archive" in line for line in said)


def test_a_checksum_in_a_recipe_is_one():
    """YAML reads digits without quotes as a number, and others as false."""
    archives = tuple[Archive, ...]
    for given in (123, [False], [], "g" * 64, [SHA256, "x"]):
        with pytest.raises(UserError, match="sha256: .*(64 digits|in quotes|leave the key out)"):
            read(archives, [{"file": "a.tgz", "sha256": given}], "x.yaml")
    for given in (SHA256, [SHA256, SHA256]):
        (found,) = read(archives, [{"file": "a.tgz", "sha256": given}], "x.yaml")
        assert set(found.sha256) == {SHA256}

"""The part of the Hub's HTTP interface that huggingface_hub asks for datasets, over folders on the disk."""

import base64
import hashlib
import json
from pathlib import Path
from typing import Any, Literal
from urllib.parse import unquote, urlsplit

from support.stub_server import StubHandler, StubServer


class Hub(StubServer):
    """Serves `root/OWNER/NAME`, whose branch main and tags are all the same commit."""

    def __init__(self, root: Path) -> None:
        super().__init__(Handler)
        self.root = root
        self.tags: dict[str, set[str]] = {}
        self.private: set[str] = set()
        self.gated: set[str] = set()
        self.silent = False
        """It takes every request, and answers none."""
        self.stored: Literal["git", "lfs", "xet"] = "git"
        """Where videos are: beside the rest, or elsewhere, as all large files of the Hub are."""
        self.storage = 200
        """What that place answers."""
        self.sent: list[str] = []
        """Files, in the order in which they were asked for."""
        self.tokens: set[str] = set()
        self.cut_after: int | None = None
        """Bytes of the next file after which the connection ends."""

    @property
    def storage_address(self) -> str:
        return f"http://localhost:{self.server_address[1]}/storage"  # another host


class Handler(StubHandler):
    protocol_version = "HTTP/1.0"
    server: Hub

    def answer(self, status: int, body: bytes | object = b"", **headers: object) -> None:
        content = body if isinstance(body, bytes) else json.dumps(body).encode()
        self.send(status, content, {name.replace("_", "-"): value for name, value in headers.items()})

    def handle_any(self) -> None:
        body = self.body()
        parts = [unquote(part) for part in urlsplit(self.path).path.strip("/").split("/")]
        if self.server.silent:
            self.rfile.read(1)  # until the client has gone
            self.close_connection = True
            return None
        if token := self.headers.get("Authorization"):
            self.server.tokens.add(token)
        if parts == ["api", "repos", "create"]:
            asked = json.loads(body)
            name = f"{asked['organization']}/{asked['name']}" if asked.get("organization") else asked["name"]
            (self.server.root / name).mkdir(parents=True, exist_ok=True)
            return self.answer(200, {"url": f"{self.server.url}/datasets/{name}", "id": name})
        if parts == ["api", "validate-yaml"]:  # of a card
            return self.answer(200, {"errors": [], "warnings": []})
        if parts[0] == "storage":
            path = self.server.root.joinpath(*parts[1:])
            if self.server.storage != 200 or not path.is_file():  # Xet's own interface is not there
                return self.answer(max(self.server.storage, 403), b"expired")
            return self.answer(200, path.read_bytes())
        rest = parts[2 if parts[0] == "api" else parts[0] == "datasets" :]  # a model's name comes first
        name, what = "/".join(rest[:2]), rest[2:]
        folder = self.server.root / name
        if name in self.server.private and "Authorization" not in self.headers:
            return self.answer(401, {"error": "Repository not found"}, X_Error_Code="RepoNotFound")
        if name in self.server.gated and what[0] == "resolve":
            return self.answer(403, {"error": "Access is restricted"}, X_Error_Code="GatedRepo")
        if not folder.is_dir():
            return self.answer(404, {"error": "Repository not found"}, X_Error_Code="RepoNotFound")
        on_what = getattr(self, f"on_{what[0].replace('-', '_')}", self.unknown)
        return on_what(name, folder, what[1:], body)

    do_GET = do_HEAD = do_POST = do_DELETE = handle_any

    def unknown(self, *_: object) -> None:
        self.answer(404, {"error": f"the stand-in has no {self.path}"})

    def known(self, name: str, revision: str) -> bool:
        return revision in {"main", commit(name), *self.server.tags.get(name, ())}

    def on_revision(self, name: str, folder: Path, rest: list[str], _: bytes) -> None:
        if not self.known(name, rest[0]):
            return self.answer(404, {"error": "no revision"}, X_Error_Code="RevisionNotFound")
        return self.answer(
            200, {"id": name, "sha": commit(name), "private": False, "tags": [], "siblings": []}
        )

    def on_tree(self, name: str, folder: Path, rest: list[str], _: bytes) -> None:
        paths = sorted(path for path in folder.rglob("*") if path.is_file())
        entries = [
            {"type": "file", "path": str(p.relative_to(folder)), "size": p.stat().st_size, "oid": etag(p)}
            | self.large(p)
            for p in paths
        ]
        self.answer(200, entries)

    def large(self, path: Path) -> dict[str, Any]:
        """What the listing says of a file that is stored elsewhere."""
        if self.server.stored == "git" or path.suffix != ".mp4":
            return {}
        oid = hashlib.sha256(path.read_bytes()).hexdigest()
        xet = {"xetHash": oid} if self.server.stored == "xet" else {}
        return {"lfs": {"oid": oid, "size": path.stat().st_size, "pointerSize": 134}, **xet}

    def on_xet_read_token(self, name: str, folder: Path, rest: list[str], _: bytes) -> None:
        address = self.server.storage_address
        headers = {"X_Xet_Cas_Url": address, "X_Xet_Access_Token": "token", "X_Xet_Token_Expiration": 2**33}
        self.answer(self.server.storage, {"casUrl": address, "accessToken": "token", "exp": 2**33}, **headers)

    def on_resolve(self, name: str, folder: Path, rest: list[str], _: bytes) -> None:
        path = folder.joinpath(*rest[1:])
        if not path.is_file():
            return self.answer(404, {"error": "no entry"}, X_Error_Code="EntryNotFound")
        content = path.read_bytes()
        headers: dict[str, Any] = {
            "ETag": f'"{etag(path)}"',
            "X_Repo_Commit": commit(name),
            "Accept_Ranges": "bytes",
        }
        if large := self.large(path):
            place = f"{self.server.storage_address}/{name}/{'/'.join(rest[1:])}"
            headers |= {"Location": place, "X_Linked_ETag": f'"{large["lfs"]["oid"]}"'}
            return self.answer(302, X_Linked_Size=len(content), **headers)
        if self.command == "HEAD":
            return self.answer(200, content, **headers)
        start = int((self.headers.get("Range") or "bytes=0-").removeprefix("bytes=").split("-")[0])
        self.server.sent.append(f"{'/'.join(rest[1:])}@{start}" if start else "/".join(rest[1:]))
        if (cut := self.server.cut_after) is not None and len(content) > cut:
            self.server.cut_after = None
            self.answer(200, content[:cut], Content_Length=len(content), **headers)
            self.close_connection = True
            return None
        return self.answer(206 if start else 200, content[start:], **headers)

    def on_preupload(self, name: str, folder: Path, rest: list[str], body: bytes) -> None:
        files = [
            {"path": file["path"], "uploadMode": "regular", "shouldIgnore": False}
            for file in json.loads(body)["files"]
        ]
        self.answer(200, {"files": files})

    def on_commit(self, name: str, folder: Path, rest: list[str], body: bytes) -> None:
        for line in body.splitlines():
            item = json.loads(line)
            if item["key"] == "file":
                path = folder / item["value"]["path"]
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_bytes(base64.b64decode(item["value"]["content"]))
        address = f"{self.server.url}/datasets/{name}/commit/{commit(name)}"
        self.answer(200, {"success": True, "commitOid": commit(name), "commitUrl": address})

    def on_tag(self, name: str, folder: Path, rest: list[str], body: bytes) -> None:
        tags = self.server.tags.setdefault(name, set())
        if self.command == "DELETE":
            if rest[0] not in tags:
                return self.answer(404, {"error": "no tag"}, X_Error_Code="RevisionNotFound")
            tags.discard(rest[0])
        else:
            tags.add(json.loads(body)["tag"])
        return self.answer(200, {})


def commit(name: str) -> str:
    return hashlib.sha1(name.encode()).hexdigest()


def etag(path: Path) -> str:
    content = path.read_bytes()
    return hashlib.sha1(b"blob %d\0" % len(content) + content).hexdigest()

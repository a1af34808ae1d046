"""Where an embedded store lies: from its URL to a file on a local disk."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final
from urllib.parse import unquote, urlsplit

from mayura.runtime.errors import Code, MayuraError

MOUNTS_FILE: Final = Path("/proc/self/mounts")

NETWORK_FILE_SYSTEMS: Final = frozenset(
    {
        "afs", "beegfs", "ceph", "cifs", "fuse.ceph-fuse", "fuse.glusterfs", "fuse.rclone",
        "fuse.s3fs", "fuse.sshfs", "gfs2", "glusterfs", "lustre", "ncpfs", "nfs", "nfs4", "ocfs2",
        "orangefs", "pvfs2", "smb3", "smbfs",
    }
)  # fmt: skip
"""Where several hosts share files: the write-ahead log's shared memory does not work there."""

_SHAPES: Final = (
    "sqlite:///file.db (relative to the working directory) or sqlite:////folder/file.db"
)


def path_of(url: str) -> Path:
    """The file that a URL names. INVALID_CONFIG with the two shapes where it names none."""
    parts = urlsplit(url)
    path = unquote(parts.path)
    rooted = url.startswith("sqlite://")  # else the first character of the name would be lost
    if parts.scheme != "sqlite" or not rooted or parts.netloc or parts.query or parts.fragment:
        raise MayuraError(
            Code.INVALID_CONFIG, f"An embedded store's URL is {_SHAPES}, without host or options."
        )
    if path in ("", "/") or path.endswith(("/", ":memory:")):
        raise MayuraError(
            Code.INVALID_CONFIG,
            f"This URL names no file, and an embedded store survives only in one: {_SHAPES}; "
            "memory:// is for tests.",
        )
    return Path(path[1:])


def check_place(path: Path, mounts: str | None = None) -> None:
    """INVALID_CONFIG unless the file's folder exists, on a file system of this host."""
    folder = path.parent
    if not folder.is_dir():
        raise MayuraError(
            Code.INVALID_CONFIG, f"The folder {folder} does not exist: make it, or correct the URL."
        )
    table = MOUNTS_FILE.read_text("utf-8", "surrogateescape") if mounts is None else mounts
    kind = file_system_of(folder.resolve(), table)
    if kind in NETWORK_FILE_SYSTEMS:
        raise MayuraError(
            Code.INVALID_CONFIG,
            f"{folder} is on a network file system ({kind}), where SQLite cannot share a "
            "write-ahead log: use a local disk, or a PostgreSQL store.",
        )


def file_system_of(folder: Path, mounts: str) -> str:
    """The type of the file system that holds `folder`, an absolute path without symbolic links."""
    longest, kind = -1, ""
    for line in mounts.splitlines():
        _, point, named, *_ = line.split(" ")
        mounted = Path(re.sub(r"\\(\d{3})", lambda found: chr(int(found[1], 8)), point))
        if folder.is_relative_to(mounted) and len(mounted.parts) >= longest:
            longest, kind = len(mounted.parts), named
    return kind

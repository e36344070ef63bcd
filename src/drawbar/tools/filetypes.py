"""What a file that is no text holds, told by its first bytes, so that a model hears a name and not garbage."""

from __future__ import annotations

from typing import Final

__all__ = ["HEAD_BYTES", "IMAGES", "kind_of"]

HEAD_BYTES: Final = 8192

IMAGES: Final = frozenset({"PNG image", "JPEG image", "GIF image", "WebP image", "BMP image"})

_MAGIC: Final[tuple[tuple[int, bytes, str], ...]] = (
    (0, b"\x89PNG\r\n\x1a\n", "PNG image"),
    (0, b"\xff\xd8\xff", "JPEG image"),
    (0, b"GIF87a", "GIF image"),
    (0, b"GIF89a", "GIF image"),
    (8, b"WEBP", "WebP image"),
    (0, b"BM", "BMP image"),
    (0, b"\x00\x00\x01\x00", "icon"),
    (0, b"%PDF-", "PDF document"),
    (0, b"\x7fELF", "ELF program or library"),
    (0, b"\xcf\xfa\xed\xfe", "Mach-O program or library"),
    (0, b"\xca\xfe\xba\xbe", "Java class or Mach-O file"),
    (0, b"MZ", "Windows program or library"),
    (0, b"\x00asm", "WebAssembly module"),
    (0, b"PK\x03\x04", "ZIP archive (or a format built on it, such as .docx, .jar or .whl)"),
    (0, b"\x1f\x8b", "gzip archive"),
    (0, b"BZh", "bzip2 archive"),
    (0, b"\xfd7zXZ\x00", "xz archive"),
    (0, b"\x28\xb5\x2f\xfd", "zstd archive"),
    (0, b"7z\xbc\xaf\x27\x1c", "7-Zip archive"),
    (257, b"ustar", "tar archive"),
    (0, b"SQLite format 3\x00", "SQLite database"),
    (0, b"OggS", "Ogg media file"),
    (0, b"fLaC", "FLAC audio file"),
    (0, b"ID3", "MP3 audio file"),
    (4, b"ftyp", "MP4 or related media file"),
    (0, b"\x1aE\xdf\xa3", "Matroska or WebM media file"),
    (8, b"WAVE", "WAV audio file"),
    (0, b"wOFF", "web font"),
    (0, b"wOF2", "web font"),
    (0, b"\x00\x01\x00\x00\x00", "TrueType font"),
    (0, b"\x93NUMPY", "NumPy array"),
    (0, b"\x89HDF\r\n\x1a\n", "HDF5 file"),
    (0, b"PAR1", "Parquet file"),
)
# Text that merely begins like one of these is text: only these kinds are told by so few bytes.
_NEEDS_NUL: Final = frozenset({"BMP image", "Windows program or library", "MP3 audio file", "gzip archive"})


def kind_of(head: bytes) -> str | None:
    """The kind of a binary file from its first :data:`HEAD_BYTES`; None for text."""
    if head[:4] in (b"\xff\xfe\x00\x00", b"\x00\x00\xfe\xff"):
        return "UTF-32 text"
    if head[:2] in (b"\xff\xfe", b"\xfe\xff"):
        return "UTF-16 text"
    binary = b"\0" in head
    for offset, magic, name in _MAGIC:
        if head.startswith(magic, offset) and (binary or name not in _NEEDS_NUL):
            return name
    if binary:
        return "binary file"
    # UTF-8 cut at the end of the head is still text; many bytes that fit nothing are not.
    odd = head.decode("utf-8", "replace")[:-4].count("\ufffd")
    controls = sum(head.count(code) for code in range(1, 32) if code not in (7, 8, 9, 10, 12, 13, 27))
    return "binary file" if odd * 10 > len(head) * 3 or controls * 10 > len(head) else None

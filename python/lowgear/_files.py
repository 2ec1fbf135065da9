"""Reading files as the programs do."""

from pathlib import Path


def read_text(path: Path) -> str:
    """The whole file. Raises OSError, and ValueError for the pointer that Git LFS leaves in place of a file."""
    text = path.read_text(encoding="utf-8")
    if len(text) < 1024 and text.startswith("version https://git-lfs.github.com/spec/"):
        raise ValueError(f"{path}: a Git LFS pointer, not the file itself; run `git lfs pull` in its folder")
    return text
